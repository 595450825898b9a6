# SPDX-License-Identifier: PostgreSQL
"""The server changes: another one, another version of the extension, none."""

import contextlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import escape as html_escape
from typing import Any
from urllib.parse import urlencode

import pytest

from pgflash.live import collector as collecting
from pgflash.session import connect
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import until
from support.sampled import slept
from support.script import SQL_VERSION
from support.served import Served, served


@pytest.fixture(scope="module")
def factory(pgflash_install: PgInstall) -> Iterator[ClusterFactory]:
    one = ClusterFactory(pgflash_install)
    yield one
    one.close()


@pytest.fixture(scope="module")
def server(factory: ClusterFactory) -> Server:
    one = factory(preload="pgflash", settings={"pgflash.snapshot_interval": "0"})
    with one.connect() as connection:
        connection.execute("create extension pgflash")
    return one


def escape(text: str) -> str:
    """Return a text as templates escape it."""
    return html_escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


def notices(page: Served) -> list[str]:
    messages, _gap = page.collector.ring.after(0)
    return [json.loads(one.data)["sentence"] for one in messages if one.kind == "notice"]


def samples_since_change(page: Served) -> list[dict[str, Any]]:
    """Return the samples since the server was last identified."""
    messages, _gap = page.collector.ring.after(0)
    changed = max(one.number for one in messages if one.kind == "server")
    return [
        json.loads(one.data) for one in messages if one.kind == "sample" and one.number > changed
    ]


def live(page: Served) -> bool:
    return page.collector.status.state == "live"


def goes_on(page: Served) -> None:
    """Wait for samples that are new."""
    newest = page.collector.ring.newest
    until(lambda: live(page) and page.collector.ring.newest > newest + 3)


@contextlib.contextmanager
def changed(server: Server, there: str, back: str) -> Iterator[None]:
    with server.connect() as connection:
        connection.execute(there)
    try:
        yield
    finally:
        with server.connect() as connection:
            connection.execute(back)


def test_an_extension_that_goes_and_comes_is_said_and_survived(server: Server) -> None:
    with served(server.conninfo(), interval_s=0.1) as page:
        goes_on(page)
        assert page.ask("/live/cache").code == 200
        with changed(server, "drop extension pgflash", "create extension pgflash"):
            until(lambda: any("was dropped" in one for one in notices(page)))
            goes_on(page)
            assert page.collector.server is not None
            assert "flash cache" in page.collector.server.missing
            assert page.ask("/live/cache").json["present"] is False
            assert page.ask("/").code == 200
        # Its return is noticed within half a minute, or by a new session.
        with server.connect() as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where application_name = 'pgflash'"
            )
        until(lambda: any("was installed" in one for one in notices(page)))
        goes_on(page)
        assert page.collector.server.missing == {}


def test_an_extension_that_came_is_found_out_without_a_new_session(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "LOOK_AGAIN_S", 0.2)
    with (
        changed(server, "drop extension pgflash", "create extension if not exists pgflash"),
        served(server.conninfo(), interval_s=0.1) as page,
    ):
        goes_on(page)
        with server.connect() as connection:
            connection.execute("create extension pgflash")
        until(lambda: any("was installed" in one for one in notices(page)))
        goes_on(page)
        states = [
            json.loads(one.data)["state"]
            for one in page.collector.ring.after(0)[0]
            if one.kind == "status"
        ]
        assert states == ["live"]


@pytest.mark.parametrize(
    ("there", "back", "what"),
    [
        (
            "alter function pgflash_cache_row() rename to pgflash_cache_row_2",
            "alter function pgflash_cache_row_2() rename to pgflash_cache_row",
            "flash cache",
        ),
        (
            "alter function pgflash_io_rows() rename to pgflash_io_rows_2",
            "alter function pgflash_io_rows_2() rename to pgflash_io_rows",
            "requests by source",
        ),
        (
            "alter function pgflash_sample_minutes(timestamptz, timestamptz) rename to later",
            "alter function later(timestamptz, timestamptz) rename to pgflash_sample_minutes",
            "waits",
        ),
        (
            "alter function pgflash_io_relation_rows() rename to later",
            "alter function later() rename to pgflash_io_relation_rows",
            "",  # segments only
        ),
    ],
)
def test_a_version_that_answers_otherwise_costs_only_what_it_does_not_tell(
    server: Server, there: str, back: str, what: str
) -> None:
    """An update while the page is watched: it names the version, and shows the rest."""
    version = "update pg_extension set extversion = '{}' where extname = 'pgflash'"
    with served(server.conninfo(), interval_s=0.1) as page:
        goes_on(page)
        with (
            changed(server, there, back),
            changed(server, version.format("0.9"), version.format(SQL_VERSION)),
        ):
            with server.connect() as connection:
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where application_name = 'pgflash'"
                )
            until(lambda: any(f"from {SQL_VERSION} to 0.9" in one for one in notices(page)))
            goes_on(page)
            assert page.collector.server is not None
            missing = page.collector.server.missing
            if what:
                assert "pgflash 0.9 does not provide it" in missing[what]
                assert "does not have pgflash_" in missing[what]
            told = {"flash cache", "requests by source", "latency", "waits"} - {what}
            assert not told & set(missing)
            # A sampler that was held up has not sampled between every two readings.
            until(lambda: any(one["aas"] is not None for one in samples_since_change(page)))
            for sample in samples_since_change(page):
                assert {"disk", "disk writes"} & set(sample["bytes_s"])
                assert (sample["cache"] is None) == (what == "flash cache")
            assert page.ask("/").code == 200
            assert page.ask("/metrics").code == 200


def test_a_failover_to_another_server_is_said_and_survived(
    server: Server, factory: ClusterFactory
) -> None:
    """Two servers behind one connection string; the first one goes, and comes back."""
    other = factory()
    places = [
        dict(part.split("=", 1) for part in one.conninfo().split()) for one in (server, other)
    ]
    dsn = " ".join(
        [
            f"host={','.join(one['host'] for one in places)}",
            f"port={','.join(one.get('port', '5432') for one in places)}",
            *(f"{k}={v}" for k, v in places[0].items() if k not in ("host", "port")),
        ]
    )
    with served(dsn, interval_s=0.1) as page:
        goes_on(page)
        first = page.collector.server
        server.stop("immediate")
        until(lambda: bool(notices(page)))
        goes_on(page)
        second = page.collector.server
        assert first is not None
        assert second is not None
        assert second.system_identifier != first.system_identifier
        assert notices(page) == [
            "Another server answers now: earlier counts belong to a different one."
        ]
        assert second.extension_version == ""
        rates = [
            json.loads(one.data)["commits_s"]
            for one in page.collector.ring.after(0)[0]
            if one.kind == "sample"
        ]
        assert min(rates) >= 0
        # The first one is back, and answers a new session: it is not the one that is watched, so
        # its values are not used.
        server.start()
        now = datetime.now(UTC)
        times = urlencode({"from": (now - timedelta(minutes=1)).isoformat(), "to": now.isoformat()})
        for path in ("/live/cache", f"/live/details?{times}", f"/live/history?{times}"):
            answer = page.ask(path)
            assert answer.code == 503
            assert answer.text.startswith("another server answers than the one that is watched")
        answer = page.ask("/report", method="POST", body=times.encode())
        assert (answer.code, "than the one that is watched" in answer.text) == (503, True)
        assert live(page)


# ---- servers that cannot be watched


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("dbname=nowhere", 'could not connect: .*database "nowhere" does not exist'),
        ("user=stranger", 'could not connect: .*role "stranger" does not exist'),
        ("port=1", "could not connect: .*(refused|No such file)"),
        ("host=nowhere.invalid", "could not connect: .*(resolve|translate)"),
        ("user=nobody", 'role "nobody" may not see the statistics of other sessions'),
    ],
)
def test_a_server_that_cannot_be_watched_is_said_in_one_sentence(
    server: Server, words: str, sentence: str
) -> None:
    with server.connect() as connection:
        if not connection.execute("select from pg_roles where rolname = 'nobody'").rowcount:
            connection.execute("create role nobody login")
    with served(f"{server.conninfo()} {words}", interval_s=0.1) as page:
        until(lambda: page.collector.status.state == "lost")
        status = page.collector.status
        assert re.match(sentence, status.sentence)
        assert len(status.sentence.splitlines()) == 1
        assert status.hint
        # The page, its data, metrics: each reports that, or that there is nothing.
        text = page.ask("/").text
        assert escape(status.page) in text
        assert "--dsn" not in status.page  # which is for the one who started it
        assert page.ask("/live/samples").json["status"]["sentence"] == status.sentence
        for path in ("/live/cache", "/live/history?from=2026-01-01&to=2026-01-02"):
            answer = page.ask(path)
            assert (answer.code, answer.text) == (503, f"{status.page}\n")
        assert "pgflash_up 0" in page.ask("/metrics").text


def test_rights_that_come_later_are_enough(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("create role later login")
    with served(f"{server.conninfo()} user=later", interval_s=0.1) as page:
        until(lambda: page.collector.status.state == "lost")
        with server.connect() as connection:
            connection.execute("grant pg_monitor to later")
        until(lambda: live(page))
        goes_on(page)


# ---- rights


def test_texts_of_statements_are_those_that_the_role_may_see(
    server: Server, factory: ClusterFactory, pgflash_install: PgInstall
) -> None:
    if not (pgflash_install.sharedir / "extension" / "pg_stat_statements.control").exists():
        pytest.skip("a build without contrib")
    one = factory(
        preload="pgflash,pg_stat_statements",
        settings={"pgflash.snapshot_interval": "0", "compute_query_id": "on"},
    )
    with one.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute("create extension pg_stat_statements")
        connection.execute("create role watcher login in role pg_monitor")
    with served(f"{one.conninfo()} user=watcher", interval_s=0.1) as page:
        goes_on(page)
        begin, end = slept(one, 0.5, query="select pg_sleep({}), 'a secret' as marked")

        def texts(seconds: int) -> list[str]:
            later = end + timedelta(microseconds=seconds)
            times = urlencode({"from": begin.isoformat(), "to": later.isoformat()})
            found = page.ask(f"/live/details?{times}").json
            return [row["detail"] for row in found["statements"]]

        assert "select pg_sleep($1), $2 as marked" in texts(1)
        # A role that may not see others' statements gets what PostgreSQL returns: no text.
        with one.connect() as connection:
            connection.execute("grant pg_read_all_stats to watcher")
            connection.execute("grant execute on all functions in schema public to watcher")
            connection.execute("revoke pg_monitor, pg_read_all_stats from watcher")
        shown = texts(2)
        assert not any("pg_sleep" in text for text in shown)
    # And a role without that right at the start is told which right is missing.
    with served(f"{one.conninfo()} user=watcher", interval_s=0.1) as page:
        until(lambda: page.collector.status.state == "lost")
        assert page.collector.status.sentence == (
            'role "watcher" may not see the statistics of other sessions'
        )
        assert (
            page.collector.status.hint == "The role needs pg_monitor: GRANT pg_monitor TO watcher;"
        )
    with connect(one.conninfo()) as connection:
        connection.execute("drop owned by watcher")
