# SPDX-License-Identifier: PostgreSQL
"""The live page of a real server: what it shows is what the server counts, to all alike."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator

import pytest

from pgflash.lab.postgres import PgInstall
from pgflash.lab.server import Server
from support.cluster import ClusterFactory
from support.served import Served, events, served


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    factory = ClusterFactory(pgflash_install)
    server = factory(preload="pgflash", settings={"pgflash.snapshot_interval": "0"})
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute('create database "<script>alert(1)</script>"')
    yield server
    factory.close()


@pytest.fixture(scope="module")
def page(server: Server) -> Iterator[Served]:
    with served(server.conninfo(), interval_s=0.2) as one:
        deadline = time.monotonic() + 20
        while one.collector.ring.newest < 5:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield one


def test_the_first_page_has_its_figures_without_script(page: Served) -> None:
    begin = time.monotonic()
    answer = page.ask("/")
    assert time.monotonic() - begin < 1.0
    assert answer.code == 200
    for title in ("Transactions", "Average active sessions", "Requests", "Flash cache"):
        assert f"<caption>{title}" in answer.text
    assert "database postgres" in answer.text


def test_what_the_server_names_is_escaped(server: Server) -> None:
    dsn = server.conninfo(dbname="<script>alert(1)</script>")
    with served(dsn) as one:
        deadline = time.monotonic() + 20
        while one.collector.server is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        text = one.ask("/").text
        assert "<script>" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        # The extension is not in this database, and the page says so.
        assert "What this server does not tell" in text


def test_samples_follow_one_another_and_polling_continues(page: Served) -> None:
    first = page.ask("/live/samples").json
    assert first["status"]["state"] == "live"
    assert first["server"]["database"] == "postgres"
    numbers = [one["number"] for one in first["messages"]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    time.sleep(0.6)
    then = page.ask(f"/live/samples?after={first['epoch']}-{first['next']}").json
    assert then["messages"][0]["number"] == first["next"] + 1
    assert not then["gap"]
    # Of another process all is new.
    other = page.ask(f"/live/samples?after=00000000-{first['next']}").json
    assert other["messages"][0]["number"] == numbers[0]


def test_a_stream_continues_where_a_sleeper_stopped(page: Served) -> None:
    with page.stream() as stream:
        told = events(stream)
        seen = [next(told) for _ in range(4)]
    assert stream.headers["content-type"].startswith("text/event-stream")
    last = [one for one in seen if "id" in one][-1]
    with page.stream(last=last["id"]) as stream:
        again = next(one for one in events(stream) if "id" in one)
    epoch, _dash, number = last["id"].partition("-")
    assert again["id"] == f"{epoch}-{int(number) + 1}"


def test_a_sleeper_who_slept_too_long_is_told_of_the_gap(server: Server) -> None:
    with served(server.conninfo(), interval_s=0.02) as one:
        one.collector.ring._messages = type(one.collector.ring._messages)(maxlen=5)
        with one.stream() as stream:
            first = next(event for event in events(stream) if "id" in event)
            while one.collector.ring.newest < int(first["id"].partition("-")[2]) + 20:
                time.sleep(0.02)
        with one.stream(last=first["id"]) as stream:
            kinds = [event["event"] for event, _n in zip(events(stream), range(2), strict=False)]
        assert kinds[0] == "gap"


def test_twenty_viewers_are_read_for_once(server: Server, page: Served) -> None:
    def watch(found: list[str]) -> None:
        with page.stream() as stream:
            for event in events(stream):
                if event["event"] == "sample":
                    found.append(event["data"])
                if len(found) >= 10:
                    return

    seen: list[list[str]] = [[] for _ in range(20)]
    threads = [threading.Thread(target=watch, args=(one,)) for one in seen]
    for thread in threads:
        thread.start()
    with server.connect() as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity where application_name = 'pgflash'"
        ).fetchone()
    for thread in threads:
        thread.join(30)
    assert row == (1,)
    by_number = [{json.loads(one)["number"]: one for one in found} for found in seen]
    shared = set.intersection(*(set(one) for one in by_number))
    assert shared
    for number in shared:
        assert len({one[number] for one in by_number}) == 1
    deadline = time.monotonic() + 10
    while page.collector.viewers:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_metrics_are_what_the_views_show(server: Server, page: Served) -> None:
    answer = page.ask("/metrics")
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    with server.connect() as connection:
        commits, started = connection.execute(
            "select sum(xact_commit)::float8, "
            "extract(epoch from pg_postmaster_start_time())::float8 from pg_stat_database"
        ).fetchone() or (0.0, 0.0)
    found = dict(re.findall(r"^(pgflash_\S+) (\S+)$", answer.text, re.MULTILINE))
    assert float(found['pgflash_transactions_total{result="commit"}']) == pytest.approx(
        commits, abs=100
    )
    assert float(found["pgflash_server_start_time_seconds"]) == pytest.approx(started, abs=0.01)
    assert found["pgflash_up"] == "1"
    assert 'pgflash_cache_mode{pgflash_cache_mode="offline"}' in found


def test_a_server_that_goes_is_said_to_viewers_and_so_is_its_return(server: Server) -> None:
    with served(server.conninfo(), interval_s=0.1) as one, one.stream() as stream:
        told = events(stream)
        while next(told)["event"] != "sample":
            pass
        server.stop("immediate")
        lost = next(
            event for event in told if event["event"] == "status" and "lost" in event["data"]
        )
        assert json.loads(lost["data"])["sentence"]
        server.start()
        for event in told:
            if event["event"] == "status" and json.loads(event["data"])["state"] == "live":
                break
