# SPDX-License-Identifier: PostgreSQL
"""A server whose clock is not ours, and is set while its page is watched."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pgflash.web.details import Details
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.clock import Clock
from support.cluster import ClusterFactory
from support.patience import until
from support.sampled import gap_s, slept
from support.served import Served, served

HOUR_S = 3600

#: Longer than the test takes, and shorter than the clock is off.
SETTLED = timedelta(minutes=10)


@pytest.fixture(scope="module")
def behind(pgflash_install: PgInstall) -> Iterator[tuple[Server, Clock]]:
    """A server whose clock is an hour behind ours."""
    factory = ClusterFactory(pgflash_install)
    server = factory(preload="pgflash", settings={"pgflash.snapshot_interval": "0"}, start=False)
    clock = Clock.build(server.base)
    clock.set(ahead_s=-HOUR_S)
    server.start({"LD_PRELOAD": str(clock.library), **clock.env})
    with server.connect() as connection:
        connection.execute("create extension pgflash")
    yield server, clock
    factory.close()


def samples(page: Served) -> list[dict[str, Any]]:
    return [json.loads(one.data) for one in page.collector.ring.after(0)[0] if one.kind == "sample"]


def time_of(sample: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(sample["at"])


def ahead_s(page: Served) -> float:
    """Return how far the newest sample's clock is ahead of ours."""
    newest = datetime.fromisoformat(samples(page)[-1]["at"])
    return (newest - datetime.now(UTC)).total_seconds()


def test_a_range_is_over_when_the_server_s_clock_says_so(
    behind: tuple[Server, Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash.web.details.SETTLED", SETTLED)
    monkeypatch.setattr("pgflash.web.details.UNSETTLED_KEPT_S", 0.0)
    server, _clock = behind
    with served(server.conninfo(), interval_s=0.1) as page:
        until(lambda: len(samples(page)) > 3)
        assert ahead_s(page) == pytest.approx(-HOUR_S, abs=600)
        known = page.collector.server
        assert known is not None
        details = Details(server.conninfo())
        unseen_s = gap_s(server)
        begin, end = slept(server, 0.5)
        unseen_s = gap_s(server) - unseen_s
        for asked in (1, 2):  # it has just ended there, though an hour ago by our clock
            found = json.loads(details.time_range(known, begin, end))
            (sleep,) = [one for one in found["waits"] if one["name"] == "Timeout:PgSleep"]
            # Exact to one sample at either end; there are ten a second.
            assert 0.3 - unseen_s <= sleep["seconds"] <= (end - begin).total_seconds() + 0.2
            assert details.asked == asked
        old = (begin - 2 * SETTLED, begin - SETTLED)
        details.time_range(known, *old)
        details.time_range(known, *old)
        assert details.asked == 3
        details.stop()


def test_a_clock_that_is_set_makes_no_absurd_number(behind: tuple[Server, Clock]) -> None:
    server, clock = behind
    with served(server.conninfo(), interval_s=0.1) as page:
        until(lambda: len(samples(page)) > 3)
        for off_s in (0, -HOUR_S // 2, -HOUR_S):
            clock.set(ahead_s=off_s)
            seen = len(samples(page))
            until(lambda off=off_s: abs(ahead_s(page) - off) < 10)  # type: ignore[misc]
            until(lambda seen=seen: len(samples(page)) > seen + 5)  # type: ignore[misc]
            # The sampler's samples count again, whichever way the clock went.
            near: list[Any] = []
            while not near:  # nothing, if the sampler or the page stood still just then
                begin, end = slept(server, 0.5)
                late = end + timedelta(seconds=1)
                until(lambda late=late: time_of(samples(page)[-1]) > late)  # type: ignore[misc]
                near = [
                    one
                    for one in samples(page)
                    if one["aas"]
                    and "Application" in one["aas"]
                    and time_of(one) > begin - timedelta(seconds=1)
                    and time_of(one) - timedelta(seconds=one["elapsed_s"]) < end
                ]
            # A reading contains whole samples, so the first and the last are too long.
            most_s = (end - begin).total_seconds() + 2 * max(one["elapsed_s"] for one in near)
            assert 0 < sum(one["aas"]["Application"] * one["elapsed_s"] for one in near) <= most_s
        found = samples(page)
        assert all(0 < one["elapsed_s"] < HOUR_S / 4 for one in found)
        assert all(0 <= one["commits_s"] < 10_000 for one in found)
        assert [one["number"] for one in found] == sorted(one["number"] for one in found)
        assert page.ask("/").code == 200
        assert "pgflash_up 1" in page.ask("/metrics").text
