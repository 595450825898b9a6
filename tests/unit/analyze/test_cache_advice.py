# SPDX-License-Identifier: PostgreSQL
"""What other sizes of the cache would bring is told in the times of the report's period."""

import pytest

from pgflash.analyze import make_period
from pgflash.analyze.cache_advice import cache_advice, flash_cache_advice
from pgflash.analyze.period import Period
from pgflash.model.snapshot import Value
from support.periods import Rows, Shelf


def read(source: str, calls: int, blocks: int, time_ms: float) -> dict[str, Value]:
    return {
        "backend_type": "client backend",
        "file_class": "data",
        "operation": "read",
        "source": source,
        "calls": calls,
        "bytes": 8192 * blocks,
        "time_ms": time_ms,
    }


def period(*reads: dict[str, Value]) -> Period:
    """Return a period in which clients did READS; an hour of scans before made disks look fast."""
    advice: Rows = [
        {
            "size_factor": factor,
            "size_of": "cache",
            "size_bytes": int(factor * 2**30),
            "hit_ratio": hits,
            "requests_per_s": 1000.0,
            "disk_reads_per_s": 1000 * (1 - hits),
            "saved_ms_per_s": -500 * hits,
            "disk_read_mean_ms": 0.5,
            "flash_read_mean_ms": 1.0,
            "flash_read_mean_from": "measured",
        }
        for factor, hits in ((2.0, 0.9), (1.0, 0.5))
    ]
    nothing = [{**one, "calls": 0, "bytes": 0, "time_ms": 0.0} for one in reads]
    store = Shelf()
    store.put(0, {"io": nothing, "advice": advice})
    store.put(10, {"io": list(reads), "advice": advice})
    return make_period(store, 1, 2)


def test_a_hit_saves_what_the_period_s_clients_waited_for() -> None:
    # 6 ms a block from disk; 2 ms a run of two from flash: 5 ms saved by each hit.
    found = cache_advice(period(read("disk", 200, 200, 1200.0), read("flash", 500, 1000, 1000.0)))
    assert (found.disk_ms, found.flash_ms) == (6.0, 1.0)
    saved = [row["saved_ms_per_s"] for row in found.rows]
    assert saved == pytest.approx([1000 * 0.5 * 5, 1000 * 0.9 * 5])


def test_without_reads_in_the_period_the_last_hours_count() -> None:
    found = cache_advice(period(read("disk", 3, 3, 18.0)))
    assert (found.disk_ms, found.flash_ms) == (0.5, 1.0)
    assert [row["saved_ms_per_s"] for row in found.rows] == [-250.0, -450.0]


def test_the_table_says_what_its_waiting_is_made_of() -> None:
    table = flash_cache_advice(period(read("disk", 200, 200, 1200.0)))
    assert "A block from disk was waited for 6.00 ms, one from flash 1.00 ms" in table.note
    assert table.values("size_factor") == (1.0, 2.0)
