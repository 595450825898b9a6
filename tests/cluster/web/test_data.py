# SPDX-License-Identifier: PostgreSQL
"""The live page's figures of the flash cache, beside those of the views."""

import re
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from pgflash.collect.cache_view import read_cache
from pgflash.collect.live import LiveReader
from pgflash.collect.old_range import read_old_range
from pgflash.errors import PgflashError
from pgflash.model.live import TimeRange
from pgflash.model.words import count, percent
from pgflash.session import Connection, connect, said
from pgflash.web.details import Details
from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.patience import PATIENCE_S, eventually, until
from support.sampled import gap_s
from support.served import Served, served

BLOCK = 8192


@pytest.fixture(scope="module")
def cached(pgflash_install: PgInstall) -> Iterator[CachedServer]:
    """A server whose cache holds a table, named so that it must be escaped; one is kept."""
    factory = ClusterFactory(pgflash_install)
    one = create_cached(
        factory,
        pgflash_install,
        settings={"pgflash.write_budget": "10GB", "compute_query_id": "on"},
    )
    with one.server.connect() as connection:
        for name in ('"<script>"', "kept"):
            connection.execute(
                f"create table {name} as select n, repeat('x', 900) as filler "
                "from generate_series(1, 9000) n"
            )
        connection.execute("select pgflash_set_cache_policy('kept', 'keep')")
        connection.execute("create role stranger login in role pg_monitor")
        connection.execute("create role nobody login")
        connection.execute('create database "empty"')
        connection.execute("checkpoint")

        def hits_and_cached() -> bool:
            for name in ('"<script>"', "kept"):
                connection.execute(f"select sum(n) from {name} where n <> 5")
            row = connection.execute(
                "select count(*), min(cached_blocks), min(hits) from pgflash_relations "
                "where relation in ('\"<script>\"'::regclass, 'kept'::regclass) and fork = 'main'"
            ).fetchone()
            return row is not None and row[0] == 2 and row[1] > 50 and row[2] > 50

        until(hits_and_cached)
    yield one
    factory.close()


@pytest.fixture(scope="module")
def page(cached: CachedServer) -> Iterator[Served]:
    with served(cached.server.conninfo(), interval_s=0.2) as one:
        until_live(one)
        yield one


def until_live(one: Served) -> None:
    until(lambda: one.collector.status.state == "live")


def test_the_cache_is_told_as_the_views_show_it(cached: CachedServer, page: Served) -> None:
    before = cached.view()
    found = page.ask("/live/cache").json
    after = cached.view()
    assert found["present"] is True
    assert found["missing"] == {}
    assert (found["mode"], found["mode_reason"]) == ("serve", after["mode_reason"])
    assert set(found["cache"]) == set(after)
    for name in ("hits", "misses", "inserts", "used_bytes", "flash_write_bytes"):
        assert before[name] <= found["cache"][name] <= after[name]
    assert found["evictions"].keys() == {"invalidated", "aged_out", "buffer_pinned"}
    assert {"not_current", "writer_overloaded", "budget"} <= found["insert_skips"].keys()
    assert found["present_bytes"] == after["size_bytes"]
    assert found["budget"]["day_bytes"] == 10 * 2**30
    assert 0 < found["budget"]["written_day_bytes"] <= after["flash_write_bytes_day"]
    assert found["budget"]["left_bytes"] <= 10 * 2**30
    (device,) = found["devices"]
    assert (device["cache_file"], device["state"]) == (str(cached.cache_file), "in use")
    sizes = [one["size_bytes"] for one in found["advice"]]
    assert sizes == sorted(sizes)
    assert found["present_bytes"] in sizes


def test_relations_and_policies_are_told_by_name(
    cached: CachedServer, page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash.web.details.CACHE_KEPT_S", 0.0)

    def blocks() -> int:
        with cached.server.connect() as connection:
            row = connection.execute(
                "select cached_blocks from pgflash_relations "
                "where relation = '\"<script>\"'::regclass and fork = 'main'"
            ).fetchone()
        assert row is not None
        return int(row[0])

    def told() -> tuple[Any, int | None]:
        """Return the page's figures, and how many blocks there were all the time."""
        begin, before, found = now(cached), blocks(), page.ask("/live/cache").json
        same = blocks() == before and datetime.fromisoformat(found["at"]) > begin
        return found, before if same else None

    found, cached_blocks = told()

    def stood_still() -> bool:
        """Ask once more: the writer may still be busy."""
        nonlocal found, cached_blocks
        if cached_blocks is None:
            found, cached_blocks = told()
        return cached_blocks is not None

    until(stood_still)
    assert cached_blocks is not None
    named = {(one["relation"], one["fork"]): one for one in found["relations"]}
    odd = named['"<script>"', "main"]
    assert odd["cached_bytes"] == cached_blocks * BLOCK
    assert odd["cached_bytes"] > 40 * BLOCK
    assert 0 < odd["hit_ratio"] < 1
    assert named["kept", "main"]["policy"] == "keep"
    assert found["policies"] == [{"relation": "kept", "policy": "keep", "set_on": "kept"}]
    assert found["relations_all"] >= len(named)
    cached_bytes = [one["cached_bytes"] for one in found["relations"]]
    assert cached_bytes == sorted(cached_bytes, reverse=True)


def test_viewers_who_look_together_ask_once(page: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgflash.web.details.CACHE_KEPT_S", 0.5)
    first = page.ask("/live/cache").json["at"]
    assert eventually(lambda: page.ask("/live/cache").json["at"] > first)
    # However slow we are.
    monkeypatch.setattr("pgflash.web.details.CACHE_KEPT_S", 5.0)

    def ask_together() -> bool:
        begin, newest = time.monotonic(), page.ask("/live/cache").text
        time.sleep(0.6)
        same = page.ask("/live/cache").text == newest
        return same and time.monotonic() - begin < 5.0

    assert eventually(ask_together)


def test_a_database_without_the_extension_says_so(cached: CachedServer) -> None:
    with served(cached.server.conninfo(dbname="empty"), interval_s=0.2) as one:
        until_live(one)
        found = one.ask("/live/cache").json
    assert found["present"] is False
    assert found["missing"]["flash cache"].endswith('is not in database "empty"')


def test_pg_monitor_sees_all_of_it_and_what_a_role_may_not_read_is_named(
    cached: CachedServer,
) -> None:
    with connect(f"{cached.server.conninfo()} user=stranger") as connection:
        known = LiveReader(connection).server
        assert read_cache(connection, known).missing == {}
        with cached.server.connect() as owner:
            owner.execute("revoke select on pgflash_relations from pg_monitor")
        try:
            found = read_cache(connection, known)
        finally:
            with cached.server.connect() as owner:
                owner.execute("grant select on pgflash_relations to pg_monitor")
    assert found.missing == {"relations": "permission denied for view pgflash_relations"}
    assert (found.relations, found.present) == ((), True)
    assert found.devices


# ---- the repository behind the live page


def now(cached: CachedServer) -> datetime:
    with cached.server.connect() as connection:
        row = connection.execute("select clock_timestamp()").fetchone()
    assert row is not None
    return datetime.fromisoformat(str(row[0]))


def snapshot(cached: CachedServer) -> None:
    with cached.server.connect() as connection:
        connection.execute("select pgflash_snapshot()")


def counted_commits(cached: CachedServer) -> int:
    with cached.server.connect() as connection:
        row = connection.execute("select sum(xact_commit) from pg_stat_database").fetchone()
    assert row is not None
    return int(row[0])


def slept_s(connection: Connection, seconds: float) -> float:
    """Make a session sleep; return the time that passed."""
    begin = time.monotonic()
    connection.execute("select pg_sleep(%s)", [seconds])
    return time.monotonic() - begin


def until_gone(cached: CachedServer, pid: int) -> None:
    """Wait for a session's end, where it reports its last counts."""
    with cached.server.connect() as connection:
        there = "select from pg_stat_activity where pid = %s"
        assert eventually(lambda: not connection.execute(there, [pid]).fetchall())


def asked(page: Served, begin: datetime, end: datetime) -> Any:  # noqa: ANN401
    times = urlencode({"from": begin.isoformat(), "to": end.isoformat()})
    answer = page.ask(f"/live/history?{times}")
    assert answer.code == 200, answer.text
    return answer.json


@pytest.mark.extension
def test_the_repository_tells_what_was_done_between_snapshots(
    cached: CachedServer, page: Served
) -> None:
    begin = now(cached)
    found = asked(page, begin - timedelta(hours=1), begin)
    assert (found["rows"], "no snapshots yet" in found["missing"]["history"]) == ([], True)
    before = cached.view()["hits"]
    commits, unseen_s = [counted_commits(cached)], gap_s(cached.server)
    snapshot(cached)
    first = now(cached)
    with cached.server.connect() as connection:
        for _ in range(200):
            connection.execute("select txid_current()")
        long_s = slept_s(connection, 1.5)
        connection.execute("select sum(n) from kept where n <> 5")
        pid = connection.info.backend_pid
    until_gone(cached, pid)
    middle = now(cached)
    commits.append(counted_commits(cached))
    snapshot(cached)
    commits.append(counted_commits(cached))
    after = cached.view()["hits"]
    with cached.server.connect() as connection:
        short_s = slept_s(connection, 0.5)
    snapshot(cached)
    commits.append(counted_commits(cached))
    unseen_s = gap_s(cached.server) - unseen_s
    found = asked(page, first, now(cached))
    busy, quiet = found["rows"]
    assert found["missing"] == {}
    # Two hundred in the first interval; the live page's own session commits, too.
    assert 200 <= busy["commits_s"] * busy["elapsed_s"] <= commits[2] - commits[0] + 1e-6
    assert quiet["commits_s"] * quiet["elapsed_s"] <= commits[3] - commits[1] + 1e-6
    # A session slept and did hardly anything else: exact to one sample at either end, of ten a
    # second.
    slept = [one["aas"]["Application"] * one["elapsed_s"] for one in (busy, quiet)]
    for seen_s, least_s, most_s in zip(slept, (1.5, 0.5), (long_s, short_s), strict=True):
        assert least_s - unseen_s - 0.2 <= seen_s <= most_s + unseen_s + 0.2
    assert busy["bytes_s"]["flash"] > 0
    assert 0 < busy["cache"]["hits_s"] * busy["elapsed_s"] <= after - before
    assert busy["latency"]["flash"]["p50"] <= busy["latency"]["flash"]["p99"]
    assert {"page cache", "disk", "flash", "wal"} & set(busy["requests_s"])
    # By the minute it is the same time, exact to one sample.
    by_minute = sum(
        one["aas"].get("Application", 0) * one["elapsed_s"] for one in found["sessions"]
    )
    assert by_minute == pytest.approx(sum(slept), abs=0.3 + unseen_s)
    # A range within the first interval gets that interval.
    (only,) = asked(page, first, middle)["rows"]
    assert only["at"] == busy["at"]
    assert only["commits_s"] == busy["commits_s"]


def test_a_range_that_the_sampler_forgot_is_told_from_the_snapshots(
    cached: CachedServer,
) -> None:
    snapshot(cached)
    begin = now(cached)
    with cached.server.connect() as connection:

        def is_seen() -> bool:
            """Sleep until the sampler has taken a sample: on a busy machine it misses some."""
            connection.execute("select pg_sleep(1.2)")
            seen = connection.execute(
                "select from public.pgflash_active_sessions"
                " where sampled_at > %s and wait_event = 'PgSleep'",
                (begin,),
            )
            return seen.rowcount > 0

        until(is_seen)
        for _ in range(3):
            connection.execute("select sum(n) from kept where n <> 5")
    snapshot(cached)
    end = now(cached)
    middle = begin + (end - begin) / 2
    with connect(cached.server.conninfo()) as connection:
        known = LiveReader(connection).server
        found = read_old_range(connection, known, begin=begin, end=end)
        half = read_old_range(connection, known, begin=begin, end=middle)
        none = read_old_range(
            connection, known, begin=begin - timedelta(days=9), end=begin - timedelta(days=8)
        )
        (last,) = (
            connection.execute("select max(taken_at) from public.pgflash_snapshots").fetchone()
            or ()
        )
        (slept,) = (
            connection.execute(
                "select sum(seconds)::float8 from public.pgflash_active_sessions"
                " where sampled_at > %s - interval '1 min' and wait_event = 'PgSleep'",
                (begin,),
            ).fetchone()
            or ()
        )
    assert none is None
    assert found is not None
    assert half is not None
    time_range = found.time_range
    assert (time_range.source, time_range.sessions) == ("snapshots", ())
    assert "sessions" in time_range.missing
    # A snapshot is of the moment at which it begins to be taken, so the end has none yet.
    assert found.known_s == (last - begin).total_seconds()
    assert half.known_s == min((middle - begin).total_seconds(), found.known_s)
    sleep = {one.name: one for one in time_range.waits}["Timeout:PgSleep"]
    # Minutes are spread evenly: the range gets its share of the sleep in them.
    assert 0 < sleep.seconds <= slept * (end - begin).total_seconds() / 60 + 1e-6
    assert sleep.wait_class == "Application"
    # Files are by the interval, nearly all of which is the range.
    read = found.files["kept"]
    assert read.reads > 100
    assert read.flash_reads > 0
    assert read.read_bytes >= read.reads * BLOCK
    shorter = half.known_s / found.known_s
    assert half.files["kept"].reads == pytest.approx(read.reads * shorter, rel=1e-6)


def test_a_brushed_range_of_long_ago_comes_from_the_snapshots(
    cached: CachedServer, page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot(cached)
    begin = now(cached)
    with cached.server.connect() as connection:
        connection.execute("select sum(n) from kept where n <> 5")
    snapshot(cached)
    end = now(cached)

    def forgotten(*_asked: object, **_when: object) -> TimeRange:
        return TimeRange(begin="", end="", remembered_from=end.isoformat(), seconds=0.0)

    monkeypatch.setattr("pgflash.web.details.read_range", forgotten)
    times = urlencode({"from": begin.isoformat(), "to": end.isoformat()})
    found = page.ask(f"/live/details?{times}").json
    assert found["source"] == "snapshots"
    assert "This is from the snapshots, per minute." in page.ask(f"/?{times}").text
    assert found["begin"] == begin.isoformat()
    assert "kept" in [one["name"] for one in found["segments"]]
    assert sum(one["share"] for one in found["segments"]) <= 1.0 + 1e-9
    # No snapshot covers this time, and the sampler knows nothing, either.
    early = begin - timedelta(days=20)
    times = urlencode({"from": early.isoformat(), "to": (early + timedelta(hours=1)).isoformat()})
    assert page.ask(f"/live/details?{times}").json["source"] == "memory"


#: It reads the table, and is seen asleep.
SEEN = "select (select sum(n) from kept where n <> 6), pg_sleep(0.3)"


def top_sql(page: Served, begin: datetime, query: int) -> list[dict[str, Any]]:
    """Return the row of a statement, once it was seen."""
    times = urlencode({"from": begin.isoformat(), "to": datetime.now(UTC).isoformat()})
    found = page.ask(f"/live/details?{times}").json["statements"]
    return [one for one in found if one["name"] == str(query)]


def test_beside_a_statement_stands_where_its_blocks_came_from(
    cached: CachedServer, page: Served
) -> None:
    snapshot(cached)
    begin = now(cached)
    counted = (
        "select disk_read_blocks, flash_read_blocks, page_cache_read_blocks"
        " from public.pgflash_statements where queryid = %s"
    )
    with cached.server.connect() as connection:
        connection.autocommit = True

        def is_seen() -> bool:
            connection.execute(SEEN)
            return bool(top_sql(page, begin, query))

        connection.execute(SEEN)
        last = "select queryid from public.pgflash_last_statement"
        (query,) = connection.execute(last).fetchone() or ()
        until(is_seen)
        (blocks,) = connection.execute(counted, (query,)).fetchall()
        snapshot(cached)
        (row,) = top_sql(page, begin, query)
        about = page.ask(f"/?query={query}").text
        with connect(cached.server.conninfo()) as other:
            old = read_old_range(other, LiveReader(other).server, begin=begin, end=now(cached))
        shares = [percent(one / sum(blocks)) for one in blocks]
        words = f"disk {shares[0]}, flash {shares[1]}, page cache {shares[2]}"
        assert blocks[1] > 0
        assert re.fullmatch(rf"[\d,]+ blocks read since .* UTC: {words}", row["reads"])
        assert f"<dt>Blocks from flash</dt><dd>{count(blocks[1])} in " in about
        assert "Blocks by source since " in about
        assert old is not None
        (kept,) = [one for one in old.time_range.statements if one.name == str(query)]
        assert re.fullmatch(r"[\d,]+ blocks? read: disk .*", kept.reads)

        # An older version of the extension does not tell it; then nobody says anything.
        connection.execute("alter function pgflash_statement_rows() rename to later")
        try:
            (row,) = top_sql(page, begin, query)
            assert row["reads"] == ""
            again = page.ask(f"/?query={query}&wait=CPU")
            assert (again.code, "Blocks from" in again.text) == (200, False)
        finally:
            connection.execute("alter function later() rename to pgflash_statement_rows")


def test_what_is_before_all_snapshots_says_from_when_there_are_some(
    cached: CachedServer, page: Served
) -> None:
    early = now(cached) - timedelta(days=40)
    found = asked(page, early, early + timedelta(hours=1))
    assert found["rows"] == []
    assert "no two snapshots are near" in found["missing"]["history"]


def test_a_database_without_the_extension_has_no_history(cached: CachedServer) -> None:
    with served(cached.server.conninfo(dbname="empty"), interval_s=0.2) as one:
        until_live(one)
        found = asked(one, now(cached) - timedelta(hours=1), now(cached))
    assert found["rows"] == []
    assert 'is not in database "empty"' in found["missing"]["history"]


def test_nothing_is_made_of_a_difference_over_a_restart(cached: CachedServer, page: Served) -> None:
    snapshot(cached)
    begin = now(cached)
    with page.collector.watched():  # else it reads every ten seconds, and has not noticed
        until(lambda: page.collector.server is not None)
        before = page.collector.server
        cached.server.stop()
        cached.start()
        snapshot(cached)
        time.sleep(0.2)
        snapshot(cached)
        until(lambda: page.collector.server != before)
        until_live(page)
    found = asked(page, begin, now(cached))
    (after,) = found["rows"]
    assert after["commits_s"] >= 0
    assert after["elapsed_s"] < (now(cached) - begin).total_seconds()
    assert "the server restarted between" in found["missing"]["restart"]


@pytest.mark.parametrize(
    ("begin", "end", "sentence"),
    [
        ("", "", "from is not a time"),
        ("2026-01-02", "2026-01-01", "ends before it begins"),
        ("2026-01-01", "2026-03-01", "longer than 31 days"),
        ("2026-01-01", "9999-12-31", "in the year 9999"),
    ],
)
def test_absurd_ranges_have_no_history(page: Served, begin: str, end: str, sentence: str) -> None:
    answer = page.ask(f"/live/history?{urlencode({'from': begin, 'to': end})}")
    assert answer.code == 400
    assert sentence in answer.text
    assert len(answer.text.splitlines()) == 1


def test_the_end_waits_for_no_slow_question(
    cached: CachedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One query runs and some wait when it ends: the one is cancelled, the others are dropped."""

    def slow(connection: Connection, *_asked: object, **_when: object) -> None:
        with said("ask slowly"):
            connection.execute("set statement_timeout = 0")
            connection.execute("select pg_sleep(3600)")

    monkeypatch.setattr("pgflash.web.details.read_history", slow)
    with connect(cached.server.conninfo()) as connection:
        known = LiveReader(connection).server
    details = Details(cached.server.conninfo())
    begin = now(cached)
    found: list[str] = []

    def ask() -> None:
        try:
            details.history(known, begin, begin + timedelta(hours=1))
        except PgflashError as error:
            found.append(error.message)

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for one in askers:
        one.start()
    asleep = "select from pg_stat_activity where wait_event = 'PgSleep'"
    with connect(cached.server.conninfo()) as connection:
        until(lambda: connection.execute(asleep).rowcount)
        details.stop()
        for one in askers:
            one.join(PATIENCE_S)
        assert not any(one.is_alive() for one in askers)
        assert not connection.execute(asleep).rowcount
    assert sorted(found) == [
        "could not ask slowly: canceling statement due to user request",
        *["pgflash serve ends"] * 3,
    ]


def test_without_a_server_there_is_one_sentence() -> None:
    with served() as one:
        answer = one.ask("/live/cache")
        assert answer.code == 503
        assert len(answer.text.splitlines()) == 1
