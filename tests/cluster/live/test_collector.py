# SPDX-License-Identifier: PostgreSQL
"""The collector: one for all viewers, idle without any; it reconnects by itself."""

import itertools
import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pgflash.live import collector as collecting
from pgflash.live.collector import Collector
from pgflash.live.ring import Ring
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import until


@pytest.fixture(scope="module")
def server(pg_install: PgInstall) -> Iterator[Server]:
    factory = ClusterFactory(pg_install)
    yield factory()
    factory.close()


@pytest.fixture
def collector(server: Server) -> Iterator[Collector]:
    one = Collector(server.conninfo(), Ring(), interval_s=0.1)
    one.start()
    yield one
    one.stop()


def told(ring: Ring, kind: str) -> list[dict[str, Any]]:
    return [json.loads(one.data) for one in ring.after(0)[0] if one.kind == kind]


def test_samples_come_with_the_numbers_of_their_messages(collector: Collector) -> None:
    until(lambda: len(told(collector.ring, "sample")) >= 3)
    samples = [one for one in collector.ring.after(0)[0] if one.kind == "sample"]
    assert all(json.loads(one.data)["number"] == one.number for one in samples)
    (introduced,) = told(collector.ring, "server")
    assert introduced["database"] == "postgres"
    assert collector.status.state == "live"


def test_a_restart_is_said_and_survived(server: Server, collector: Collector) -> None:
    until(lambda: collector.status.state == "live")
    before = collector.server
    server.stop("immediate")
    until(lambda: collector.status.state == "lost")
    assert collector.status.sentence
    server.start()
    until(lambda: collector.status.state == "live")
    # If the start takes long, it fails for several reasons in turn.
    states = [one["state"] for one in told(collector.ring, "status")]
    assert [state for state, _same in itertools.groupby(states)] == ["live", "lost", "live"]
    assert before is not None
    assert collector.server is not None
    assert collector.server.started_at > before.started_at
    mark = collector.ring.newest
    until(lambda: collector.ring.newest > mark + 2)
    # No difference was computed across the restart.
    rates = [one["commits_s"] for one in told(collector.ring, "sample")]
    assert min(rates) >= 0


def test_a_session_that_is_ended_is_made_again(server: Server, collector: Collector) -> None:
    until(lambda: collector.status.state == "live")
    with server.connect() as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where application_name = 'pgflash'"
        )
    until(lambda: [s["state"] for s in told(collector.ring, "status")] == ["live", "lost", "live"])


def test_a_server_that_stopped_answering_is_late(
    server: Server, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "LATE_S", 0.3)
    until(lambda: collector.status.state == "live" and collector.ring.newest > 3)
    ours = "select pid from pg_stat_activity where application_name = 'pgflash'"
    with server.connect() as connection:
        # The session of the test before may not have ended yet.
        until(lambda: len(connection.execute(ours).fetchall()) == 1)
        ((pid,),) = connection.execute(ours).fetchall()
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: collector.status.state == "late")
        assert "has not answered for" in collector.status.sentence
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: collector.status.state == "live")


def test_without_viewers_it_reads_seldom_and_is_back_with_the_first(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(lambda: collector.ring.newest > 3)
    monkeypatch.setattr(collecting, "IDLE_AFTER_S", 0.0)
    monkeypatch.setattr(
        collecting, "IDLE_INTERVAL_S", 3600.0
    )  # a viewer that is not woken does not ask
    until(lambda: collector._pace_s() == collecting.IDLE_INTERVAL_S)

    def is_quiet() -> bool:
        """Say whether nothing is read in a time that was enough for five readings before."""
        newest = collector.ring.newest
        time.sleep(0.5)
        return collector.ring.newest == newest

    until(is_quiet)  # one may be under way
    quiet = collector.ring.newest
    with collector.watched():
        assert collector.viewers == 1
        until(lambda: collector.ring.newest > quiet + 2)
    assert collector.viewers == 0


def test_a_wrong_dsn_is_said_with_its_hint() -> None:
    one = Collector("host=/nowhere dbname=x", Ring(), interval_s=0.1)
    one.start()
    until(lambda: one.status.state == "lost")
    assert "could not connect" in one.status.sentence
    assert one.status.hint
    one.stop()
    assert one.newest is None
