# SPDX-License-Identifier: PostgreSQL
"""The live page's arithmetic: rates from counters, and quantiles from ranges."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgflash.analyze.live import between, quantiles, sample
from pgflash.model.live import DatabaseCounts, Flow, Reading, WaitTime

STARTED = datetime(2026, 11, 22, 9, tzinfo=UTC)
FIRST = Reading(
    at=STARTED + timedelta(hours=1),
    monotonic_s=100.0,
    started_at=STARTED,
    sessions=20,
    active=5,
    databases={"5": DatabaseCounts(name="app", commits=1000, rollbacks=10)},
    wal_bytes=10**9,
    flows={"disk": Flow(calls=100, bytes=819_200, time_ms=400), "wal": Flow(calls=7)},
    latencies={"disk": {4096.0: 50, 8192.0: 50}},
    cache={"mode": "serve", "hits": 100, "misses": 100, "inserts": 5, "used_bytes": 8192,
           "eviction_invalidated": 1, "eviction_aged_out": 1},
)  # fmt: skip
SECOND = replace(
    FIRST,
    at=FIRST.at + timedelta(seconds=2),
    monotonic_s=102.0,
    databases={"5": DatabaseCounts(name="app", commits=1100, rollbacks=14)},
    wal_bytes=10**9 + 4096,
    flows={"disk": Flow(calls=160, bytes=1_310_720, time_ms=700), "temp": Flow(calls=4, bytes=40)},
    latencies={"disk": {4096.0: 60, 8192.0: 50}},
    waits=(
        WaitTime(wait_class="Commit", event="IO:WalSync", seconds=1.0),
        WaitTime(wait_class="Commit", event="LWLock:WALWrite", seconds=0.5),
        WaitTime(wait_class="CPU", event="CPU", seconds=1.0),
        WaitTime(wait_class="CPU", event="CPU", seconds=2.0),
    ),
    covered_s=1.5,
    cache={**FIRST.cache, "hits": 130, "misses": 110, "inserts": 9, "eviction_aged_out": 3},
)


def test_a_sample_is_what_was_counted_between_over_the_time_between() -> None:
    found = sample(FIRST, SECOND, number=7)
    assert found is not None
    assert (found.number, found.elapsed_s, found.at) == (7, 2.0, "2026-11-22T10:00:02.000+00:00")
    assert (found.commits_s, found.rollbacks_s, found.wal_bytes_s) == (50.0, 2.0, 2048.0)
    assert found.requests_s == {"disk": 30.0, "temp": 2.0}
    assert found.bytes_s == {"disk": 245_760.0, "temp": 20.0}
    # 1.5 seconds were sampled: 1.5 s of waiting in them are one session all the time.
    assert found.aas == {"Commit": 1.0, "CPU": 2.0}
    assert [(one.event, one.sessions) for one in found.events] == [
        ("CPU", 2.0),
        ("IO:WalSync", pytest.approx(1.0 / 1.5)),
        ("LWLock:WALWrite", pytest.approx(0.5 / 1.5)),
    ]
    assert found.events[1].wait_class == "Commit"
    # One session waited for 2 s, in which there were 100 commits.
    assert found.commit_ms == pytest.approx(20.0)
    assert found.cache is not None
    assert (found.cache.hit_ratio, found.cache.hits_s) == (0.75, 15.0)
    assert (found.cache.inserts_s, found.cache.evictions_s) == (2.0, 1.0)
    for share, shown in ((0.25, 0.25), (-0.1, None), (None, None)):
        later = sample(
            FIRST, replace(SECOND, cache={**SECOND.cache, "saved_share": share}), number=1
        )
        assert later is not None
        assert later.cache is not None
        assert later.cache.saved_share == shown


def test_what_nobody_looked_at_is_not_zero() -> None:
    blind = sample(FIRST, replace(SECOND, covered_s=0.0, waits=(), cache={}), number=1)
    assert blind is not None
    assert (blind.aas, blind.commit_ms, blind.cache) == (None, None, None)
    assert blind.events == ()


def test_what_an_earlier_snapshot_lacks_is_not_counted_as_if_it_had_been_zero() -> None:
    lacks = replace(FIRST, flows={}, latencies={}, cache={})
    found = sample(lacks, SECOND, number=1)
    assert found is not None
    assert (found.requests_s, found.latency, found.cache) == ({}, {}, None)
    assert found.commits_s == 50.0

    def with_temp(reading: Reading, calls: int | None, *, oid: str = "5") -> Reading:
        flows = {} if calls is None else {"temp": Flow(calls=calls)}
        return replace(reading, flows={}, databases={oid: DatabaseCounts(flows=flows)})

    for before, requests in (
        (with_temp(FIRST, 900), {"temp": 50.0}),
        (with_temp(FIRST, None), {}),
        # A database that was made between began at zero.
        (with_temp(FIRST, 5, oid="6"), {"temp": 500.0}),
    ):
        found = sample(before, with_temp(SECOND, 1000), number=1)
        assert found is not None
        assert found.requests_s == requests


def test_the_events_with_most_are_kept() -> None:
    waits = tuple(
        WaitTime(wait_class="User I/O", event=f"IO:{n}", seconds=float(n)) for n in range(100)
    )
    found = sample(FIRST, replace(SECOND, waits=waits), number=1)
    assert found is not None
    assert [one.event for one in found.events] == [f"IO:{n}" for n in range(99, 87, -1)]


def test_no_rate_is_made_over_a_restart_or_without_time_between() -> None:
    assert sample(FIRST, replace(SECOND, started_at=STARTED + timedelta(hours=1)), number=1) is None
    assert sample(FIRST, replace(SECOND, monotonic_s=100.0), number=1) is None


def test_a_server_whose_clock_steps_back_is_still_measured_by_ours() -> None:
    found = sample(FIRST, replace(SECOND, at=FIRST.at - timedelta(days=1)), number=1)
    assert found is not None
    assert found.commits_s == 50.0


@given(
    before=st.integers(0, 10**12),
    after=st.integers(0, 10**12),
    calls=st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)),
)
def test_no_rate_is_ever_negative(before: int, after: int, calls: tuple[int, int]) -> None:
    def reading(base: Reading, commits: int, count: int) -> Reading:
        flow = Flow(calls=count, bytes=count, time_ms=count)
        return replace(
            base,
            databases={"5": DatabaseCounts(commits=commits, rollbacks=commits)},
            wal_bytes=commits,
            flows={"disk": flow},
            latencies={"disk": {1.0: count}},
            cache={"hits": count, "misses": commits},
        )

    found = sample(reading(FIRST, before, calls[0]), reading(SECOND, after, calls[1]), number=1)
    assert found is not None
    assert min(found.commits_s, found.rollbacks_s, found.wal_bytes_s or 0) >= 0
    assert min(found.bytes_s["disk"], found.requests_s["disk"]) >= 0
    assert found.cache is not None
    assert found.cache.hit_ratio is None or 0 <= found.cache.hit_ratio <= 1


def test_a_counter_that_started_over_counts_what_it_has() -> None:
    found = sample(SECOND, replace(FIRST, monotonic_s=104.0), number=1)
    assert found is not None
    assert found.commits_s == 500.0
    assert found.requests_s["disk"] == 50.0


def test_what_a_dropped_or_reset_database_had_counted_is_not_counted_for_another() -> None:
    def counts(commits: int, temp_bytes: int, blocks: int) -> DatabaseCounts:
        flows = {"temp": Flow(bytes=temp_bytes), "disk": Flow(calls=blocks, bytes=8192 * blocks)}
        return DatabaseCounts(commits=commits, rollbacks=commits, flows=flows)

    before = {
        "5": counts(10**9, 2**40, 10**9),
        "6": counts(10**6, 2**30, 10**6),
        "7": counts(10**6, 2**30, 10**6),
    }
    # Database 6 was dropped, 7 was reset, and 8 is new.
    after = {
        "5": counts(10**9 + 8, 2**40 + 80, 10**9 + 6),
        "7": counts(2, 0, 0),
        "8": counts(4, 0, 2),
    }
    found = sample(
        replace(FIRST, databases=before, flows={}),
        replace(SECOND, databases=after, flows={}),
        number=1,
    )
    assert found is not None
    assert (found.commits_s, found.rollbacks_s) == ((8 + 2 + 4) / 2, (8 + 2 + 4) / 2)
    assert found.bytes_s["temp"] == 80 / 2
    assert found.requests_s["disk"] == (6 + 2) / 2
    # A snapshot that lacks the section is no server on which all databases are new.
    found = sample(replace(FIRST, databases={}), replace(SECOND, databases=after), number=1)
    assert found is not None
    assert found.commits_s == 0


def test_quantiles_lie_in_the_range_that_holds_them() -> None:
    choose = random.Random(1)
    times = sorted(choose.lognormvariate(7, 1.2) for _ in range(20_000))  # microseconds
    counts: dict[float, float] = {}
    for one in times:
        lower = 2.0 ** int(one).bit_length() / 2 if one >= 1 else 0.0
        counts[lower] = counts.get(lower, 0) + 1
    found = quantiles(counts)
    assert found is not None
    for share, value in ((0.5, found.p50), (0.95, found.p95), (0.99, found.p99)):
        true_ms = times[int(share * len(times))] / 1000
        assert true_ms / 2 < value < true_ms * 2
        assert value == pytest.approx(true_ms, rel=0.1)  # a smooth distribution fits better


def test_quantiles_of_the_lowest_and_of_a_single_range() -> None:
    low = quantiles({0.0: 10})
    assert low is not None
    assert 0 < low.p50 <= low.p99 <= 0.001
    one = quantiles({1024.0: 1})
    assert one is not None
    assert 1.024 <= one.p50 <= one.p99 <= 2.048
    assert quantiles({}) is None


def test_only_what_happened_between_is_in_the_quantiles() -> None:
    assert between({1.0: 5, 2.0: 7}, {1.0: 5, 2.0: 9, 4.0: 1}) == {2.0: 2, 4.0: 1}
    assert between({1.0: 5}, {1.0: 3}) == {1.0: 3}  # it started over
