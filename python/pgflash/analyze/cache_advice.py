# SPDX-License-Identifier: PostgreSQL
"""The effect of other sizes of the flash cache in the period of a report.

The hit ratios are those of the last hours, from pgflash_cache_advice.  The reads and the waiting
are the period's: at its own size the cache reads from disk what it did read, and at another size
more or less in proportion to the misses of the two sizes.  The time saved by a hit is the period's,
too, provided that its clients read enough from disk and from flash.

What an I/O worker or io_uring of PostgreSQL 18 reads for a session is the device's time.  The hit
saves the part of it that the session waited: the sampled waits, divided by the devices' times.

A saving is a share of what DB time would have been without flash, for the same work.  It is not in
seconds a second, because a cache can save more of them than its sessions had.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pgflash.analyze.figures import BLOCK_BYTES
from pgflash.analyze.grid import missing, ratio
from pgflash.analyze.period import Period
from pgflash.analyze.samples import sampled
from pgflash.analyze.sections import number, total
from pgflash.model.awr import Column, ReportTable, Row, Source, Unit
from pgflash.model.snapshot import Value
from pgflash.model.waits import FOREGROUND
from pgflash.model.words import duration

#: Fewer calls than this tell nothing about a device.
CALLS_MIN = 100

_COLUMNS = tuple(
    Column(name=name, title=words, unit=unit, source=source)
    for name, words, unit, source in (
        ("size_factor", "Times the present size", Unit.RATIO, Source.EXACT),
        ("size_bytes", "Size", Unit.BYTES, Source.EXACT),
        ("hit_ratio", "Hits", Unit.SHARE, Source.MODELLED),
        ("disk_reads_per_s", "Disk reads/s", Unit.PER_SECOND, Source.MODELLED),
        ("disk_reads_factor", "Times the present disk reads", Unit.RATIO, Source.MODELLED),
        ("saved_share", "DB time saved", Unit.SHARE, Source.MODELLED),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheAdvice:
    """The rows of the advice, the smallest size first, and how long clients wait for a block."""

    rows: Sequence[Mapping[str, Value]]
    #: In milliseconds; None if not known.
    disk_ms: float | None
    flash_ms: float | None
    flash_assumed: bool
    #: Others read for the clients, who waited for a sampled part of the time.
    asynchronous: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reads:
    """Reads of data files from one source."""

    calls: float
    blocks: float
    time_ms: float
    #: The part of it in calls that others made for a session.
    worker_time_ms: float

    @property
    def block_ms(self) -> float | None:
        """Return the time of a block; None if there were few."""
        few = self.calls < CALLS_MIN or self.blocks <= 0
        return None if few else self.time_ms / self.blocks

    def waited_part(self, of_workers: float | None) -> float | None:
        """Return the part of the time that sessions waited, OF_WORKERS being that of such calls.

        None if it is not known.
        """
        if not self.worker_time_ms:
            return 1.0
        if of_workers is None:
            return None
        by_workers = self.worker_time_ms / max(self.time_ms, self.worker_time_ms)
        return 1 - (1 - of_workers) * by_workers


def cache_advice(period: Period, db_time_s: float) -> CacheAdvice:
    """Return the advice on a period with this DB time; without rows if there is none."""
    records = sorted(period.gauge("advice"), key=lambda one: number(one.get("size_bytes")))
    first = records[0] if records else {}
    disk, flash = _reads(period, "disk", FOREGROUND), _reads(period, "flash", FOREGROUND)
    own_flash_ms = flash.block_ms
    disk_ms = _waited_ms(disk.block_ms or _known(first, "disk_read_mean_ms"), period, disk, flash)
    flash_ms = _waited_ms(own_flash_ms or _known(first, "flash_read_mean_ms"), period, flash, disk)
    every = _reads(period, "disk")
    present = _present_hits(records) if flash.blocks else 0.0
    rows = []
    for one in records:
        hits = _known(one, "hit_ratio")
        factor = None if hits is None or present is None else ratio(1 - hits, 1 - present)
        if factor is not None and disk.blocks:  # a miss is a block that was asked for
            factor = min(factor, 1 + flash.blocks / disk.blocks)
        saved = None
        if factor is not None and disk_ms is not None and flash_ms is not None:
            fewer = disk.blocks * (1 - factor)
            saved = _saved_share(
                flash.blocks, disk_ms - flash_ms, db_time_s, fewer_disk_reads=fewer
            )
        rows.append(
            {
                **one,
                "disk_reads_factor": factor,
                "disk_reads_per_s": None
                if factor is None
                else ratio(every.calls * factor, period.elapsed_s),
                "saved_share": saved,
            }
        )
    return CacheAdvice(
        rows=rows,
        disk_ms=disk_ms,
        flash_ms=flash_ms,
        flash_assumed=own_flash_ms is None and first.get("flash_read_mean_from") == "assumed",
        asynchronous=disk.worker_time_ms + flash.worker_time_ms > 0,
    )


def _waited_ms(block_ms: float | None, period: Period, own: _Reads, other: _Reads) -> float | None:
    """Return the part of a block's time that clients waited; None if it is not known."""
    if block_ms is None or not own.worker_time_ms + other.worker_time_ms:
        return block_ms
    of_workers = _waited_for_workers(period)
    part = own.waited_part(of_workers) if own.time_ms else other.waited_part(of_workers)
    return None if part is None else block_ms * part


def _waited_for_workers(period: Period) -> float | None:
    """Return the part of the time of others' reads that clients waited; None if nothing sampled.

    Samples do not tell what was read, nor from where.
    """
    seen = sampled(period)
    records = [r for r in period.records("io") if r.get("backend_type") in FOREGROUND]
    device_s = total(records, "worker_time_ms") / 1000
    if seen is None or device_s <= 0:
        return None
    waited_s = seen.seconds(
        wait for wait in seen.waits if wait.foreground and wait.event.startswith("IO:AioIo")
    )
    return min(waited_s / device_s, 1.0)


def _saved_share(
    hits: float, hit_ms: float, db_time_s: float, *, fewer_disk_reads: float = 0.0
) -> float | None:
    """Return the share of DB time that flash saves, each hit saving HIT_MS.

    The whole is DB time without flash: DB time, and what the HITS of the period saved already.
    None if there is no such share, because the timed waits are not part of DB time.
    """
    saved_s = (hits + fewer_disk_reads) * hit_ms / 1000
    found = ratio(saved_s, db_time_s + hits * hit_ms / 1000)
    return found if found is not None and -1 <= found <= 1 else None


def flash_cache_advice(period: Period, db_time_s: float) -> ReportTable:
    """Return the advice as a table."""
    title = "Flash cache advice"
    advice = cache_advice(period, db_time_s)
    if not advice.rows:
        reason = period.missing_reason("advice") or "pgflash.advice is off."
        return missing("flash-cache-advice", title, _COLUMNS, reason)
    if all(row.get("hit_ratio") is None for row in advice.rows):
        reason = "No block was read from below the page cache, so there is nothing to model."
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
        note=f"Factors refer to the present size of the {whose}. Hits are modelled from the "
        "requests of the last hours; disk reads are those of the period, and DB time saved is a "
        "share of DB time without flash." + _taken(advice),
    )


def _taken(advice: CacheAdvice) -> str:
    """Return how the saved wait is computed."""
    if advice.disk_ms is None or advice.flash_ms is None:
        return ""
    assumed = " (assumed)" if advice.flash_assumed else ""
    if advice.asynchronous:
        return (
            f" Clients waited {duration(advice.disk_ms / 1000)} for a block from disk and "
            f"{duration(advice.flash_ms / 1000)} for one from flash{assumed}, as sampled: others "
            "read for them; a hit saves the difference."
        )
    return (
        f" A block took {duration(advice.disk_ms / 1000)} from disk and "
        f"{duration(advice.flash_ms / 1000)} from flash{assumed}; a hit saves the difference."
    )


def _present_hits(records: Sequence[Mapping[str, Value]]) -> float | None:
    """Return the modelled hit ratio of the cache that there is; None if it has no row."""
    for one in records:
        if one.get("size_of") == "cache" and _known(one, "size_factor") == 1:
            return _known(one, "hit_ratio")
    return None


def _reads(period: Period, source: str, processes: Collection[str] = ()) -> _Reads:
    """Return the reads from a source, by these types of process, else by all."""
    found = [
        one
        for one in period.records("io")
        if (one.get("file_class"), one.get("operation"), one.get("source"))
        == ("data", "read", source)
        and (not processes or one.get("backend_type") in processes)
    ]
    return _Reads(
        calls=total(found, "calls"),
        blocks=total(found, "bytes") / BLOCK_BYTES,
        time_ms=total(found, "time_ms"),
        worker_time_ms=total(found, "worker_time_ms"),
    )


def _known(record: Mapping[str, Value], name: str) -> float | None:
    value = record.get(name)
    return None if value is None else number(value)
