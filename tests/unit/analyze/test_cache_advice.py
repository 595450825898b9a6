# SPDX-License-Identifier: PostgreSQL
"""The gain of other sizes is given in the reads and times of the report's period."""

import pytest

from pgflash.analyze import make_period
from pgflash.analyze.cache_advice import cache_advice, flash_cache_advice
from pgflash.analyze.period import Period
from pgflash.model.snapshot import Value
from support.periods import EPOCH, Rows, Shelf


def read(
    source: str, calls: int, blocks: int, time_ms: float, *, worker_time_ms: float = 0.0
) -> dict[str, Value]:
    return {
        "backend_type": "client backend",
        "file_class": "data",
        "operation": "read",
        "source": source,
        "calls": calls,
        "bytes": 8192 * blocks,
        "time_ms": time_ms,
        "worker_time_ms": worker_time_ms,
    }


def period(*reads: dict[str, Value], seen: dict[str, Rows] | None = None) -> Period:
    """Return a period in which clients did READS; an hour of scans before made disks look fast."""
    advice: Rows = [
        {
            "size_factor": factor,
            "size_of": "cache",
            "size_bytes": int(factor * 2**30),
            "hit_ratio": hits,
            "requests_per_s": 1000.0,
            "disk_reads_per_s": 1000 * (1 - hits),
            "saved_ms_per_s": 58_733.0,
            "disk_read_mean_ms": 0.5,
            "flash_read_mean_ms": 1.0,
            "flash_read_mean_from": "measured",
        }
        for factor, hits in ((2.0, 0.9), (1.0, 0.5))
    ]
    nothing = [
        {**one, "calls": 0, "bytes": 0, "time_ms": 0.0, "worker_time_ms": 0.0} for one in reads
    ]
    store = Shelf()
    store.put(0, {"io": nothing, "advice": advice})
    store.put(10, {"io": list(reads), "advice": advice, **(seen or {})})
    return make_period(store, 1, 2)


#: Ten minutes with ten seconds of DB time.  Flash served five blocks in six.
SERVED = (read("disk", 200, 200, 1200.0), read("flash", 500, 1000, 1000.0))


def test_a_hit_saves_what_the_period_s_clients_waited_for() -> None:
    # 6 ms a block from disk; 2 ms a run of two from flash: 5 ms saved by each hit.
    found = cache_advice(period(*SERVED), 10.0)
    assert (found.disk_ms, found.flash_ms) == (6.0, 1.0)
    saved = [row["saved_share"] for row in found.rows]
    # Without flash 15 s; a cache twice as large has a fifth of the misses: 160 hits more.
    assert saved == pytest.approx([5.0 / 15.0, (5.0 + 160 * 0.005) / 15.0])


def test_at_its_own_size_a_cache_reads_from_disk_what_it_did_read() -> None:
    found = cache_advice(period(*SERVED), 10.0)
    assert [row["disk_reads_factor"] for row in found.rows] == pytest.approx([1.0, 0.2])
    assert [row["disk_reads_per_s"] for row in found.rows] == pytest.approx([200 / 600, 40 / 600])


def test_where_flash_served_nothing_the_present_is_without_a_cache() -> None:
    found = cache_advice(period(read("disk", 200, 200, 1200.0)), 10.0)
    assert [row["disk_reads_factor"] for row in found.rows] == pytest.approx([0.5, 0.1])


def test_no_size_saves_more_than_the_time_there_was() -> None:
    # A minute of work, nearly all of which flash saved: seconds a second would be 100 a session.
    served = (read("disk", 100, 100, 60_000.0), read("flash", 10_000, 10_000, 1_000.0))
    for row in cache_advice(period(*served), 61.0).rows:
        saved = row["saved_share"]
        assert isinstance(saved, float)
        assert 0 < saved <= 1


def test_waits_that_are_not_of_db_time_give_no_share() -> None:
    # The larger cache would save 0.8 s, of 0.01 s.
    found = cache_advice(period(read("disk", 200, 200, 1200.0), read("flash", 100, 1, 1.0)), 0.01)
    assert found.rows[1]["saved_share"] is None


def test_without_reads_in_the_period_a_hit_saves_what_it_did_in_the_last_hours() -> None:
    found = cache_advice(period(read("disk", 3, 3, 18.0)), 10.0)
    assert (found.disk_ms, found.flash_ms) == (0.5, 1.0)
    saved = [row["saved_share"] for row in found.rows]
    assert saved == pytest.approx([-1.5 * 0.0005 / 10, -2.7 * 0.0005 / 10])


def test_the_table_says_what_its_saving_is_made_of() -> None:
    table = flash_cache_advice(period(read("disk", 200, 200, 1200.0)), 10.0)
    assert "A block took 6.00 ms from disk and 1.00 ms from flash" in table.note
    assert table.values("size_factor") == (1.0, 2.0)


def waiting(seconds: int) -> dict[str, Rows]:
    """Return samples of clients that waited for I/O workers, a second each."""
    bucket = EPOCH.isoformat()
    event = {"wait_event_type": "IO", "wait_event": "AioIoCompletion"}
    return {
        "sample_looks": [{"bucket": bucket, "looks": 60, "missed": 0}],
        "samples": [
            {"bucket": bucket, "backend_type": "client backend", "samples": seconds, **event}
        ],
    }


def test_a_hit_saves_no_more_of_an_asynchronous_read_than_its_session_waited() -> None:
    # Workers read for 500 s of the device's time; their sessions waited 150 s of 600 s.
    by_workers = read("disk", 30_000, 30_000, 500_000.0, worker_time_ms=500_000.0)
    found = cache_advice(period(by_workers, seen=waiting(150)), 600.0)
    assert found.disk_ms == pytest.approx(1000 * 150 / 30_000)
    # A block from flash, 1 ms of a device in the last hours, is waited for in the same proportion.
    assert found.flash_ms == pytest.approx(150 / 500)
    # Without a cache now: hits of 0.5 and 0.9 avoid that part of the reads.
    saved_s = [hits * 30_000 * (5.0 - 0.3) / 1000 for hits in (0.5, 0.9)]
    assert [row["saved_share"] for row in found.rows] == pytest.approx(
        [one / 600 for one in saved_s]
    )


def test_sessions_wait_for_all_of_the_time_of_their_own_reads() -> None:
    # Of 1200 ms of the disk, 200 ms are the sessions' own; they waited 2 s for 4 s of workers.
    disk = read("disk", 200, 200, 1200.0, worker_time_ms=1000.0)
    flash = read("flash", 500, 1000, 3000.0, worker_time_ms=3000.0)
    found = cache_advice(period(disk, flash, seen=waiting(2)), 10.0)
    assert found.disk_ms == pytest.approx((200 + 1000 / 2) / 200)
    assert found.flash_ms == pytest.approx((3000 / 2) / 1000)
    table = flash_cache_advice(period(disk, flash, seen=waiting(2)), 10.0)
    assert "Clients waited 3.50 ms for a block from disk and 1.50 ms for one from" in table.note


def test_without_samples_it_is_unknown_what_an_asynchronous_read_costs_its_session() -> None:
    by_workers = read("disk", 30_000, 30_000, 500_000.0, worker_time_ms=500_000.0)
    found = cache_advice(period(by_workers), 600.0)
    assert found.disk_ms is None
    assert [row["saved_share"] for row in found.rows] == [None, None]
    assert [row["disk_reads_factor"] for row in found.rows] == pytest.approx([0.5, 0.1])
