# SPDX-License-Identifier: PostgreSQL
"""What other sizes of the flash cache would bring, in the times of a period.

The hit ratios and the requests are those of the last hours, from pgflash_cache_advice. The time
saved by a hit is that of the period, provided that its clients read enough from disk and from
flash: an hour ago the load, or the disk, may have been different.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgflash.analyze.grid import missing
from pgflash.analyze.period import Period
from pgflash.analyze.sections import number, total
from pgflash.model.awr import Column, ReportTable, Row, Source, Unit
from pgflash.model.snapshot import Value
from pgflash.model.waits import FOREGROUND
from pgflash.model.words import duration

#: Fewer calls than this say nothing about a device.
CALLS_MIN = 100
BLOCK_BYTES = 8192

_COLUMNS = tuple(
    Column(name=name, title=words, unit=unit, source=source)
    for name, words, unit, source in (
        ("size_factor", "Times the present size", Unit.RATIO, Source.EXACT),
        ("size_bytes", "Size", Unit.BYTES, Source.EXACT),
        ("hit_ratio", "Hits", Unit.SHARE, Source.MODELLED),
        ("disk_reads_per_s", "Disk reads/s", Unit.PER_SECOND, Source.MODELLED),
        ("disk_reads_factor", "Times the present disk reads", Unit.RATIO, Source.MODELLED),
        ("saved_ms_per_s", "Waiting saved, ms/s", Unit.MILLISECONDS, Source.MODELLED),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheAdvice:
    """The rows of the advice, the smallest size first, and how long a block takes."""

    rows: Sequence[Mapping[str, Value]]
    #: In milliseconds; None if not known.
    disk_ms: float | None
    flash_ms: float | None
    flash_assumed: bool


def cache_advice(period: Period) -> CacheAdvice:
    """Return the advice as of the end; without rows if there is none."""
    records = sorted(period.gauge("advice"), key=lambda one: number(one.get("size_bytes")))
    first = records[0] if records else {}
    own_disk_ms, own_flash_ms = _block_ms(period, "disk"), _block_ms(period, "flash")
    disk_ms = own_disk_ms or _known(first, "disk_read_mean_ms")
    flash_ms = own_flash_ms or _known(first, "flash_read_mean_ms")
    rows = [dict(one) for one in records]
    if disk_ms is not None and flash_ms is not None and (own_disk_ms or own_flash_ms):
        for row in rows:
            requests, hits = _known(row, "requests_per_s"), _known(row, "hit_ratio")
            if requests is not None and hits is not None:
                row["saved_ms_per_s"] = requests * hits * (disk_ms - flash_ms)
    return CacheAdvice(
        rows=rows,
        disk_ms=disk_ms,
        flash_ms=flash_ms,
        flash_assumed=own_flash_ms is None and first.get("flash_read_mean_from") == "assumed",
    )


def flash_cache_advice(period: Period) -> ReportTable:
    """Return the advice as a table."""
    title = "Flash cache advice"
    advice = cache_advice(period)
    if not advice.rows:
        reason = period.missing_reason("advice") or "pgflash.advice is off."
        return missing("flash-cache-advice", title, _COLUMNS, reason)
    if all(row.get("hit_ratio") is None for row in advice.rows):
        reason = "No block was read from beyond the page cache, so that there is nothing to model."
        return missing("flash-cache-advice", title, _COLUMNS, reason)
    rows = [
        Row(cells=tuple(_known(row, column.name) for column in _COLUMNS)) for row in advice.rows
    ]
    whose = str(advice.rows[0].get("size_of")).replace("cache", "flash cache")
    return ReportTable(
        id="flash-cache-advice",
        title=title,
        columns=_COLUMNS,
        rows=tuple(rows),
        key=("size_factor",),
        measure="hit_ratio",
        note=f"Times the size of the {whose}, modelled from the requests of the last hours."
        + _taken(advice),
    )


def _taken(advice: CacheAdvice) -> str:
    """Return how the saved wait is computed."""
    if advice.disk_ms is None or advice.flash_ms is None:
        return ""
    assumed = " (assumed)" if advice.flash_assumed else ""
    return (
        f" A block from disk was waited for {duration(advice.disk_ms / 1000)}, one from flash "
        f"{duration(advice.flash_ms / 1000)}{assumed}: what a hit saves."
    )


def _block_ms(period: Period, source: str) -> float | None:
    """Return how long clients waited for a block from a source; None if they read few."""
    reads = [
        one
        for one in period.records("io")
        if (one.get("file_class"), one.get("operation"), one.get("source"))
        == ("data", "read", source)
        and one.get("backend_type") in FOREGROUND
    ]
    blocks = total(reads, "bytes") / BLOCK_BYTES
    if total(reads, "calls") < CALLS_MIN or blocks <= 0:
        return None
    return total(reads, "time_ms") / blocks


def _known(record: Mapping[str, Value], name: str) -> float | None:
    value = record.get(name)
    return None if value is None else number(value)
