# SPDX-License-Identifier: PostgreSQL
"""Peaks and means of intervals of different lengths."""

import dataclasses

import pytest

from pgflash.model.awr import AwrReport, Unit
from pgflash_lab.model.run import DiskSecond
from pgflash_lab.report.paper.load import FIGURES
from support.reports import column, moments, report, table
from support.runs import BASELINE, attempt

ATTEMPT = attempt(BASELINE, tpm=60)


def counted(*intervals: tuple[float, float]) -> AwrReport:
    """Return a report of intervals: their lengths in seconds, and blocks read and logged."""
    rows = [
        (at, for_s, blocks / for_s, 8192 * blocks / for_s, blocks / for_s, 0.0)
        for at, (for_s, blocks) in zip(moments(len(intervals)), intervals, strict=True)
    ]
    columns = [
        column("at", Unit.TIME),
        column("elapsed_s", Unit.SECONDS),
        column("blocks_read_per_s", Unit.PER_SECOND),
        column("wal_bytes_per_s", Unit.BYTES_PER_SECOND),
        column("disk_reads_per_s", Unit.PER_SECOND),
        column("writes_per_s", Unit.PER_SECOND),
    ]
    return report(table("throughput-over-time", columns, *rows))


def figures(of: AwrReport | None) -> tuple[object, ...]:
    names = ("calls_mean", "calls_peak", "bytes_mean", "bytes_peak")
    return tuple(FIGURES[name](ATTEMPT, of) for name in names)


def test_a_mean_is_all_that_was_done_in_all_of_the_time() -> None:
    # 900 and 100 blocks in 10 s; each is read and logged.
    assert figures(counted((2.0, 900), (8.0, 100))) == pytest.approx(
        (100, 450, 100 * 2 * 8192, 450 * 2 * 8192)
    )


def test_a_moment_at_the_end_makes_no_peak() -> None:
    # What its 0.1 s count was done before: 340 blocks in 2.1 s.
    spans = ((2.0, 200), (2.0, 240), (0.1, 100))
    assert figures(counted(*spans))[:2] == pytest.approx((540 / 4.1, 340 / 2.1))
    # Half an interval is long enough to count by itself, and so is one alone.
    assert figures(counted((2.0, 200), (1.0, 150)))[1] == pytest.approx(150)
    assert figures(counted((0.1, 100)))[1] == pytest.approx(1000)
    assert figures(None) == (None, None, None, None)


def test_devices_are_counted_together_in_intervals_of_any_length() -> None:
    second = DiskSecond(
        at_s=1.0, elapsed_s=1.0, role="array", reads=30, read_bytes=3000, writes=10,
        write_bytes=1000, read_ms=1.0, write_ms=1.0,
    )  # fmt: skip
    seconds = (
        second,
        dataclasses.replace(second, role="flash"),
        dataclasses.replace(second, at_s=4.0, elapsed_s=3.0),
    )
    watched = dataclasses.replace(ATTEMPT, disk_seconds=seconds)
    found = [
        FIGURES[f"server_{name}"](watched, None)
        for name in ("calls_mean", "calls_peak", "bytes_mean", "bytes_peak")
    ]
    assert found == pytest.approx([120 / 4, 80, 12_000 / 4, 8_000])
