# SPDX-License-Identifier: PostgreSQL
"""A page about one thing shows that alone: its activity over time, its properties, its blockers."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import has_contrib
from support.cluster import ClusterFactory
from support.patience import until
from support.sampled import gap_s, sampler, sleeping, slept, working
from support.served import Served, served


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    factory = ClusterFactory(pgflash_install)
    one = factory(
        preload="pgflash",
        settings={"pgflash.snapshot_interval": "0", "compute_query_id": "on"},
    )
    with one.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute("create role watcher login in role pg_monitor")
        connection.execute("create table prey as select 1 as n")
    yield one
    factory.close()


@pytest.fixture(scope="module")
def page(server: Server) -> Iterator[Served]:
    """A page served for the role with the least rights."""
    with served(f"{server.conninfo()} user=watcher", interval_s=0.2) as one:
        until(lambda: one.collector.status.state == "live")
        yield one


def time_range(page: Served, begin: datetime, end: datetime, **focus: object) -> dict[str, Any]:
    words = {"from": begin.isoformat(), "to": end.isoformat(), **focus}
    found: dict[str, Any] = page.ask(f"/live/details?{urlencode(words)}").json
    return found


def named(application: str) -> str:
    return f"set application_name = '{application}'"


def seen(page: Served, pid: int, begin: datetime) -> bool:
    rows = time_range(page, begin, datetime.now(UTC))["sessions"]
    return str(pid) in [one["name"] for one in rows]


def test_an_application_and_a_session_are_shown_alone_while_they_are_connected(
    server: Server, page: Served
) -> None:
    with (
        sleeping(server, setup=named("webshop")) as shop,
        sleeping(server, setup=named("reporting")) as report,
    ):
        begin = datetime.now(UTC)  # both are asleep: what they did before was their own work
        until(lambda: seen(page, shop, begin) and seen(page, report, begin))
        end = datetime.now(UTC)
        both = time_range(page, begin, end)
        assert {"webshop", "reporting"} <= set(both["names"]["application"])
        assert "local" in both["names"]["client"]
        assert both["spans"] == []
        assert "postgres in postgres, webshop" in [one["detail"] for one in both["sessions"]]
        alone = time_range(page, begin, end, application="webshop")
        assert [one["name"] for one in alone["sessions"]] == [str(shop)]
        assert [one["name"] for one in alone["waits"]] == ["Timeout:PgSleep"]
        assert alone["sessions"][0]["share"] == pytest.approx(1.0)
        assert alone["segments"] == []
        assert time_range(page, begin, end, session=report)["seconds"] > 0
        assert time_range(page, begin, end, session=report, application="webshop")["seconds"] == 0
        assert time_range(page, begin, end, client="192.0.2.1")["seconds"] == 0
        assert time_range(page, begin, end, user="postgres", database="postgres")["seconds"] > 0
        assert time_range(page, begin, end, database="template1")["seconds"] == 0
        text = page.ask(f"/?{urlencode({'session': shop})}").text
        assert "select pg_sleep(600)" in text
        assert "webshop" in text


def test_what_is_in_focus_over_time_adds_up(server: Server, page: Served) -> None:
    time.sleep(2.5)  # a session that slept in the test before is not in the range
    unseen = gap_s(server)
    begin, end = slept(server, 1.2)
    unseen = gap_s(server) - unseen
    begin -= timedelta(seconds=2)
    until(lambda: sampler(server)["newest_at"] > end)  # nothing more comes from before
    found = time_range(page, begin, end, wait="Timeout:PgSleep")
    spent = sum(span["elapsed_s"] * sum(span["aas"].values()) for span in found["spans"])
    assert spent == pytest.approx(found["seconds"])
    assert 1.0 - unseen <= found["seconds"] <= (end - begin).total_seconds()
    lengths = [one["elapsed_s"] for one in found["spans"]]
    assert 1.0 <= sum(lengths) <= (end - begin).total_seconds() + 1e-6
    assert {name for span in found["spans"] for name in span["aas"]} == {"Application"}
    # By its class, by its statement: the same time.
    assert time_range(page, begin, end, wait="Application")["seconds"] >= found["seconds"]
    most = next(one for one in found["statements"] if one["name"].lstrip("-").isdigit())
    again = time_range(page, begin, end, query=most["name"], wait="Timeout:PgSleep")
    assert again["seconds"] == pytest.approx(most["seconds"])


def test_a_waiter_is_shown_below_the_session_that_blocks_it(server: Server, page: Served) -> None:
    with psycopg.connect(server.conninfo()) as holder:
        holder.execute("lock table prey in access exclusive mode")
        first = holder.info.backend_pid
        with working(server, "select count(*) from prey") as second:
            until(lambda: "AccessShareLock on prey" in page.ask("/blocking").text)
            text = page.ask("/blocking").text
            rows = re.findall(r'class="word deep-(\d)"><a href="/\?session=(\d+)">', text)
            assert rows == [("0", str(first)), ("1", str(second))]
            assert "idle in transaction" in text
            # The page about the relation names both, too.
            text = page.ask("/?relation=prey").text
            assert f"{first} has AccessExclusiveLock" in text
            assert f"{second} waits for AccessShareLock" in text
            holder.rollback()
    until(lambda: "No session waits for a lock." in page.ask("/blocking").text)


def test_a_page_about_a_wait_says_what_it_means(server: Server, page: Served) -> None:
    text = page.ask("/?wait=Timeout%3APgSleep").text
    assert "<dt>Wait class</dt><dd>Application</dd>" in text
    if server.install.major >= 17:
        assert "pg_sleep" in text


def test_what_the_role_may_not_use_costs_only_that(server: Server, page: Served) -> None:
    """pg_monitor brings no right to use schemas."""
    with server.connect() as connection:
        connection.execute('create schema shop create table "Orders" (n int)')
        texts = has_contrib(server.install, "pg_stat_statements")
        if texts:
            connection.execute("create extension pg_stat_statements schema shop")
    begin, end = slept(server, 2)
    try:
        answer = page.ask("/?relation=shop.%22Orders%22")
        assert (answer.code, "<dd>table</dd>" in answer.text) == (200, True)
        assert "No relation of this name" in page.ask("/?relation=shop.orders").text
        found = time_range(page, begin, end)
        assert found["statements"]
        if texts:
            assert "permission denied" in found["missing"]["texts of statements"]
            answer = page.ask("/?query=1")
            assert (answer.code, "permission denied" in answer.text) == (200, True)
    finally:
        with server.connect() as connection:
            connection.execute("drop schema shop cascade")


@pytest.mark.parametrize("words", ["query=x", "session=99999999999", f"user={'x' * 500}"])
def test_a_page_about_nothing_that_can_be_is_refused_in_a_sentence(
    page: Served, words: str
) -> None:
    answer = page.ask(f"/?{words}")
    assert answer.code == 400
    times = urlencode({"from": "2026-01-01", "to": "2026-01-02"})
    assert page.ask(f"/live/details?{times}&{words}").code == 400


@pytest.mark.parametrize(
    "word", ["no_such", 'pg_class"', "<script>", "a b of database c", "'; select 1 --"]
)
def test_a_name_of_nothing_is_text(page: Served, word: str) -> None:
    for name in ("relation", "wait", "user", "application"):
        answer = page.ask(f"/?{urlencode({name: word})}")
        assert answer.code == 200
        assert "<script>" not in answer.text.replace('<script type="module"', "").replace(
            "<script src", ""
        )
