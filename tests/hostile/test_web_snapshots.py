# SPDX-License-Identifier: PostgreSQL
"""A user of the live page makes it take snapshots until the disk is full.

For a range that the snapshots do not reach, a report takes a new one.  The user asks for many
reports at once, for ranges that end in a hundred years, and comes back every minute.
"""

import threading
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlencode

import pytest

from pgflash.errors import PgflashError
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import PATIENCE_S, until
from support.served import Answer, Served, served

pytestmark = pytest.mark.extension

AGE = "update pgflash_snapshots set taken_at = taken_at - interval '{}'"


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    factory = ClusterFactory(pgflash_install)
    one = factory(preload="pgflash", settings={"pgflash.snapshot_interval": "0"})
    with one.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute("create role watcher login in role pg_monitor")
    yield one
    factory.close()


@pytest.fixture
def page(server: Server) -> Iterator[Served]:
    """The page of a server with one snapshot, which is two hours old."""
    with server.connect() as connection:
        connection.execute("select pgflash_snapshot_drop('infinity')")
        connection.execute("select pgflash_snapshot()")
        connection.execute(AGE.format("2 hours"))
    with served(f"{server.conninfo()} user=watcher") as one:
        yield one


def count(server: Server) -> int:
    with server.connect() as connection:
        (found,) = connection.execute("select count(*) from pgflash_snapshots").fetchone() or (0,)
    return int(found)


def report(page: Served, server: Server, *, ends: float, earlier: bool = False) -> Answer:
    """Ask for the report of a range that ends so many seconds from now, by the server's clock."""
    with server.connect() as connection:
        (now,) = connection.execute("select clock_timestamp()").fetchone() or ()
    end = now + timedelta(seconds=ends)
    times = {"from": (end - timedelta(seconds=30)).isoformat(), "to": end.isoformat()}
    until(lambda: page.collector.server is not None)
    words = {**times, **({"earlier_s": "60"} if earlier else {})}
    return page.ask("/report", method="POST", body=urlencode(words).encode())


def test_many_who_ask_at_once_have_one_snapshot_taken(
    server: Server, page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifteen requests at the same moment, each for another range that has just ended."""
    monkeypatch.setattr("pgflash.web.details.TAKEN_EVERY_S", 3600.0)  # we may be slow
    codes: list[int] = []
    together = threading.Barrier(15)

    def ask(number: int) -> None:
        together.wait()
        codes.append(report(page, server, ends=-number / 100).code)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(15)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENCE_S)
    assert len(codes) == 15
    assert set(codes) <= {200, 429}
    assert 200 in codes
    assert count(server) == 2
    # And a later user is told when to come again, by the page and by a sentence.
    again = report(page, server, ends=-0.01)
    assert (again.code, count(server)) == (429, 2)
    assert " s old, older than the end of the range" in again.text
    assert "Ask again in " in again.text


def test_a_range_that_ends_in_the_future_is_refused(server: Server, page: Served) -> None:
    """It would need a new snapshot each time, and would never be complete."""
    for ends in (3600.0, 86400.0 * 365 * 50):
        answer = report(page, server, ends=ends)
        assert answer.code == 400
        assert answer.text == "the range ends in the future, by the server's clock\n"
        assert report(page, server, ends=ends, earlier=True).code == 400
    assert count(server) == 1


def test_another_minute_brings_another_snapshot_up_to_a_number_a_day(
    server: Server, page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He is patient, and comes every two minutes; or another process serves him, too."""
    monkeypatch.setattr("pgflash.web.details.TAKEN_A_DAY", 4)
    for taken in (2, 3, 4):
        assert report(page, server, ends=-0.01).code == 200
        assert count(server) == taken
        with server.connect() as connection:
            connection.execute(AGE.format("2 minutes"))
    for _ in range(2):
        with served(f"{server.conninfo()} user=watcher") as other:
            answer = report(other, server, ends=-0.01)
        assert (answer.code, count(server)) == (429, 4)
        assert answer.text.startswith("4 snapshots were taken on request within a day")
    # The period that the snapshots cover is reported all the same.
    assert report(page, server, ends=-300).code in (200, 409)
    with server.connect() as connection:
        connection.execute(
            "update pgflash_snapshots set taken_at = taken_at - interval '1 day' where snapshot_id "
            "< (select max(snapshot_id) from pgflash_snapshots)"
        )
    assert report(page, server, ends=-0.01).code == 200
    assert count(server) == 5


def test_a_snapshot_that_fails_is_not_tried_with_each_request(
    server: Server, page: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk each try would fill it again; the report uses the existing snapshots."""
    monkeypatch.setattr("pgflash.web.details.TAKEN_EVERY_S", 3600.0)  # we may be slow
    tries = []

    def full(_store: object) -> int:
        tries.append(1)
        raise PgflashError("could not take a snapshot: No space left on device")

    monkeypatch.setattr("pgflash.store.PgStore.take", full)
    for _ in range(5):
        assert report(page, server, ends=-0.01).code == 409
    assert len(tries) == 1
