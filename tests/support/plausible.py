# SPDX-License-Identifier: PostgreSQL
"""The rule that every report, advice and sample of the tests is held to: none says what cannot be.

No share is above 100 %, nothing that is counted is below nothing, parts come to their sum or a
finding says that they do not, and no saving is more than there was to save.  `hold_all()` sees
whatever pgflash makes in a process of tests, and fails the test that made it, also in a thread
whose errors are caught.
"""

import functools
import math
import re
from collections.abc import Callable
from typing import TypeVar

from pgflash.advise import approaches
from pgflash.analyze import awr, live
from pgflash.analyze.findings import SUMS as WRONG_SUMS
from pgflash.model.advice import Advice
from pgflash.model.awr import AwrReport, Number, ReportTable, RowMark, Unit, plain
from pgflash.model.live import Sample

_Made = TypeVar("_Made")

#: What was impossible: threads that serve viewers survive an error.
wrong: list[str] = []

#: Rounding, of sums of many numbers.
TOLERANCE = 1e-6
PARTS = (RowMark.PLAIN, RowMark.REST, RowMark.RESIDUAL)
#: Tables whose rows come to their total, and by which column.
SUMS = {
    "top-events": "total_s",
    "wait-classes": "total_s",
    "sql-elapsed": "total_s",
    "sql-reads": "shared_blocks_read",
    "sql-disk": "disk_s",
    "sql-flash": "flash_read_blocks",
    "sql-wal": "wal_bytes",
    "sql-temp": "temp_blocks",
}
#: A flash device that is slower than the disks costs time.
SIGNED = {"saved_share"}


def hold_all() -> None:
    """Hold to the rule what is made from now on."""
    for module, made in (
        (awr, _held(AwrReport, hold_report)),
        (approaches, _held(Advice, hold_advice)),
        (live, _held(Sample, hold_sample)),
    ):
        setattr(module, made.__name__, made)


def _held(make: Callable[..., _Made], hold: Callable[[_Made], None]) -> Callable[..., _Made]:
    @functools.wraps(make)
    def made(**values: object) -> _Made:
        found = make(**values)
        try:
            hold(found)
        except AssertionError as error:
            wrong.append(str(error))
            raise
        return found

    return made


def hold_report(report: AwrReport) -> None:
    """Hold a report on a period to the rule."""
    for table in report.tables:
        for row in table.rows:
            if row.mark is RowMark.RESIDUAL:
                continue
            for column, cell in zip(table.columns, row.cells, strict=True):
                value = plain(cell)
                if column.is_text or not isinstance(value, int | float):
                    continue
                unit = cell.unit if isinstance(cell, Number) else column.unit
                where = (table.id, row.cells[0], column.name, value)
                assert math.isfinite(value), where
                assert unit is not Unit.SHARE or value <= 1 + TOLERANCE, where
                assert value >= (-1 if column.name in SIGNED else -TOLERANCE), where
        told = any(one.rule == WRONG_SUMS and one.table == table.id for one in report.findings)
        if table.id in SUMS and table.rows and not told:
            hold_sum(table, SUMS[table.id])
    for one in report.findings:
        assert one.cost is None or 0 <= one.cost <= 1 + TOLERANCE, one
        shares = re.findall(r"([\d.,]+)\s%\sof", " ".join((one.sentence, *one.evidence)))
        assert all(float(share.replace(",", "")) <= 100 for share in shares), one


def hold_sum(table: ReportTable, column: str) -> None:
    """Hold a table's rows to its total."""
    place = table.index(column)

    def value(cell: object) -> float:
        return float(cell) if isinstance(cell, int | float) else 0.0

    parts = [value(plain(row.cells[place])) for row in table.rows if row.mark in PARTS]
    totals = [value(plain(row.cells[place])) for row in table.rows if row.mark is RowMark.TOTAL]
    scale = max(1.0, *(abs(part) for part in parts))
    for total in totals:
        assert abs(sum(parts) - total) <= TOLERANCE * scale, (table.id, column, parts, total)


def hold_advice(advice: Advice) -> None:
    """Hold an advice to the rule."""
    shares = dict(advice.bottleneck.shares)
    assert all(0 <= share <= 1 + TOLERANCE for share in shares.values()), shares
    assert sum(shares.values()) <= 1 + TOLERANCE, shares
    for way in advice.approaches:
        assert way.ratio >= 0, way
        assert way.hit_ratio is None or 0 <= way.hit_ratio <= 1 + TOLERANCE, way
        parts = (way.cpu_ms, way.disk_ms, way.flash_ms, way.commit_ms, way.other_ms)
        assert all(part >= -TOLERANCE for part in parts), way
        assert abs(sum(parts) - way.db_time_ms) <= TOLERANCE * max(1.0, way.db_time_ms), way
    assert sum(one.share for one in advice.objects) <= 1 + TOLERANCE, advice.objects


def hold_sample(sample: Sample) -> None:
    """Hold a second of the live page to the rule."""
    for rates in (sample.bytes_s, sample.requests_s, sample.aas or {}):
        assert all(0 <= rate < math.inf for rate in rates.values()), sample
    for one in sample.latency.values():
        assert 0 <= one.p50 <= one.p95 <= one.p99, sample
    cache = sample.cache
    if cache is not None and cache.hit_ratio is not None:
        assert 0 <= cache.hit_ratio <= 1, sample
    if sample.aas is not None:
        seen = sum(one.sessions for one in sample.events)
        assert seen <= sum(sample.aas.values()) + TOLERANCE, sample
