# SPDX-License-Identifier: PostgreSQL
"""Where the parts of DB time come from on PostgreSQL: for each the best source available.

    DB time       pg_stat_database.active_time, plus the time that running statements had used
                  at the end, less the same at the beginning; parallel workers, which it omits,
                  from samples.  Samples alone if track_activities is off.
    I/O           pgflash_io: every call timed.  Without it pg_stat_io, or in 15
                  pg_stat_database, if track_io_timing is on.  Otherwise samples.
    DB CPU        CPU time of client backends, from /proc.  Otherwise samples.
    the rest      samples.

Nothing is counted twice.  A sampled I/O event is dropped if its calls are timed.  A read from the
page cache is CPU time: if DB CPU was measured, the read is shown separately (cpu.py explains
the rest).

A call that an io worker or io_uring of PostgreSQL 18 made for a session is the device's time; the
session waits for only a part of it, and does other things meanwhile.  So the session's wait is the
sampled one (AioIoCompletion, AioIoUringExecution), and the time of the calls is shown separately.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pgflash.analyze.cpu import cpu_parts, is_page_cache, measured_cpu_s
from pgflash.analyze.dbtime import Composition, TimePart, compose, total_of
from pgflash.analyze.figures import databases, stock_io
from pgflash.analyze.grid import weaker
from pgflash.analyze.period import Period
from pgflash.analyze.samples import Sampled, SampledWait, sampled
from pgflash.analyze.sections import number, total
from pgflash.model.awr import Source
from pgflash.model.snapshot import Value
from pgflash.model.waits import FOREGROUND, WaitClass

CLIENT = "client backend"
PARALLEL = "parallel worker"

#: For an exact division, the kernel must have been asked about this share of the reads.
TOLD_MIN = 0.99

#: I/O events that are not a read, write, extension or sync, and so in no count of calls.
_NOT_CALLS = ("prefetch", "flush", "truncate")

_FILE_NAMES = {
    "data": "data file",
    "temp relation": "temporary table",
    "temp": "temporary file",
    "wal": "WAL",
    "wal init": "new WAL segment",
    "slru": "SLRU",
    "control": "control file",
    "other": "other file",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DbTime:
    """A period's DB time, its composition, and related figures."""

    composition: Composition
    #: Of client backends: exact, or sampled if activities are not tracked.
    client_s: float
    #: Of parallel workers; None: not known, and not included.
    parallel_s: float | None
    #: CPU time of foreground processes; None: not measured.
    cpu_s: float | None
    #: The same DB time computed from samples alone.
    sampled_s: float | None
    samples: Sampled | None


def db_time(period: Period) -> DbTime:
    """Return a period's DB time and its composition."""
    seen = sampled(period)
    counted = databases(period)
    tracked = counted is not None and period.setting("track_activities") != "off"
    parallel_s = None
    if seen is not None:
        parallel_s = seen.seconds(
            w for w in seen.waits if w.backend_type == PARALLEL and w.wait_class.counts
        )
    if counted is not None and tracked:
        client_s = max(counted.active_s + _in_flight_s(period), 0.0)
        source = Source.EXACT
    else:
        client_s = (seen.counted_s - (parallel_s or 0.0)) if seen is not None else 0.0
        source = Source.SAMPLED
    if parallel_s:
        source = Source.SAMPLED
    kinds = FOREGROUND if parallel_s is not None else frozenset({CLIENT})
    cpu_s = measured_cpu_s(period, kinds)
    composition = compose(
        [*_io_parts(period, kinds, seen, cpu_s), *_other_parts(period, kinds, seen, cpu_s)],
        db_time_s=client_s + (parallel_s or 0.0),
        elapsed_s=period.elapsed_s,
        db_time_source=source,
    )
    return DbTime(
        composition=composition,
        client_s=client_s,
        parallel_s=parallel_s,
        cpu_s=cpu_s,
        sampled_s=None if seen is None else seen.counted_s,
        samples=seen,
    )


def timed(period: Period) -> bool:
    """Tell whether PostgreSQL measured the time of its own I/O in the whole period."""
    return _on_throughout(period, "track_io_timing")


def wal_timed(period: Period) -> bool:
    """Tell whether PostgreSQL measured its own writes and syncs of the WAL in the whole period."""
    return _on_throughout(period, "track_wal_io_timing")


def _on_throughout(period: Period, name: str) -> bool:
    """Tell whether a setting is on at both ends; else only a part of the calls have a time."""
    return all(period.setting(name, at_begin=begin) == "on" for begin in (True, False))


def io_event(record: Mapping[str, Value]) -> str:
    """Return the name of a row of pgflash_io as an event."""
    file_class, operation = str(record.get("file_class")), str(record.get("operation"))
    name = f"{_FILE_NAMES.get(file_class, file_class)} {operation}"
    if operation != "read":
        return name
    source = str(record.get("source"))
    return f"{name}, {'flash cache' if source == 'flash' else source}"


def io_class(file_class: str, operation: str) -> WaitClass:
    """Return the class of a client's I/O call, the same as that of the call's wait events."""
    if file_class == "data":
        return WaitClass.CONFIGURATION if operation == "write" else WaitClass.USER_IO
    if file_class in ("temp relation", "temp", "slru"):
        return WaitClass.USER_IO
    if file_class == "wal init":
        return WaitClass.CONFIGURATION
    if file_class == "wal":
        return WaitClass.OTHER if operation == "read" else WaitClass.COMMIT
    return WaitClass.OTHER


def division_source(records: Iterable[Mapping[str, Value]]) -> Source:
    """Return how the reads in some rows of pgflash_io were divided by source.

    While the flash cache serves, the kernel is asked about each read; otherwise about one in 16,
    and the others are divided by their times.
    """
    reads = [r for r in records if r.get("told_calls") is not None and r.get("source") != "flash"]
    told, calls = total(reads, "told_calls"), total(reads, "calls")
    return Source.MODELLED if told < TOLD_MIN * calls else Source.EXACT


def reads_source(period: Period) -> Source:
    """Return how the period's reads of data files were divided by source."""
    return division_source(r for r in period.records("io") if r.get("file_class") == "data")


def _in_flight_s(period: Period) -> float:
    ends = [total(period.gauge("server", at_begin=b), "active_in_flight_ms") for b in (True, False)]
    return (ends[1] - ends[0]) / 1000


def _io_parts(
    period: Period, kinds: frozenset[str], seen: Sampled | None, cpu_s: float | None
) -> list[TimePart]:
    """Return the time of I/O calls from the best source."""
    records = period.records("io")
    if not records:
        return _stock_parts(period, kinds)
    ours = [record for record in records if record.get("backend_type") in kinds]
    parts = []
    for record in ours:
        calls, by_workers = number(record.get("calls")), number(record.get("worker_calls"))
        time_ms, of_workers = number(record.get("time_ms")), number(record.get("worker_time_ms"))
        for event, waits, ms, apart in (
            (io_event(record), calls - by_workers, time_ms - of_workers, False),
            (f"{io_event(record)}, asynchronous", by_workers, of_workers, True),
        ):
            if waits > 0:
                parts.append(
                    TimePart(
                        event=event,
                        wait_class=io_class(str(record["file_class"]), str(record["operation"])),
                        total_s=max(ms, 0.0) / 1000,
                        source=division_source([record]),
                        waits=int(waits),
                        apart=apart or (cpu_s is not None and is_page_cache(record)),
                    )
                )
    return _merged(parts) + _background(records)


def _background(records: list[dict[str, Value]]) -> list[TimePart]:
    """Return the I/O of processes that serve no client: shown, but not DB time."""
    return _merged(
        [
            TimePart(
                event=f"{record.get('backend_type')}: {io_event(record)}",
                wait_class=WaitClass.SYSTEM_IO,
                total_s=number(record.get("time_ms")) / 1000,
                source=Source.EXACT,
                waits=int(number(record.get("calls"))),
            )
            for record in records
            if record.get("backend_type") not in FOREGROUND
        ]
    )


def _stock_parts(period: Period, kinds: frozenset[str]) -> list[TimePart]:
    """Return the parts that PostgreSQL itself timed."""
    parts = []
    found = stock_io(period, timed=timed(period), wal_timed=wal_timed(period))
    for io in found:
        for operation, calls, time_s in (
            ("read", io.reads, io.read_s),
            ("write", io.writes, io.write_s),
            ("extend", io.extends, io.extend_s),
            ("sync", io.syncs, io.sync_s),
        ):
            if time_s is None or not (calls or time_s):
                continue
            file_class = {"relation": "data"}.get(io.object, io.object)
            name = f"{_FILE_NAMES.get(file_class, file_class)} {operation}"
            ours = io.backend_type in kinds
            parts.append(
                TimePart(
                    event=name if ours else f"{io.backend_type}: {name}",
                    wait_class=io_class(file_class, operation) if ours else WaitClass.SYSTEM_IO,
                    total_s=time_s,
                    source=Source.EXACT,
                    waits=calls,
                )
            )
    counted = databases(period)
    if not found and timed(period) and counted is not None:  # 15
        parts = [
            TimePart(
                event=f"data file {operation}, all processes",
                wait_class=io_class("data", operation),
                total_s=time_s,
                source=Source.EXACT,
                waits=count,
            )
            for operation, time_s, count in (
                ("read", counted.read_s, counted.blocks_read),
                ("write", counted.write_s, None),
            )
            if time_s
        ]
    return _merged(parts)


def _other_parts(
    period: Period, kinds: frozenset[str], seen: Sampled | None, cpu_s: float | None
) -> list[TimePart]:
    """Return CPU, and the waits that are not timed."""
    at_work, others = [], []
    for wait in _foreground(seen, kinds):
        if wait.wait_class is WaitClass.CPU:
            at_work.append(wait)
        elif not _is_timed(wait, period):
            others.append(wait)
    parts = _sampled_parts(others) + _sampled_system(period, seen)
    if seen is None and cpu_s is None:
        return parts
    return [*parts, *cpu_parts(period, kinds, at_work, cpu_s)]


def _is_timed(wait: SampledWait, period: Period) -> bool:
    """Tell whether an event's calls are timed, so that its samples must not count."""
    kind, _, name = wait.event.casefold().partition(":")
    own_io = bool(period.records("io"))
    if name == "flashcacheread":
        return own_io
    if kind != "io" or name.endswith(_NOT_CALLS):
        return False
    if name.startswith("aioio"):
        return not own_io and timed(period)
    if own_io:
        return True
    if name.startswith("wal"):
        return wal_timed(period) and period.major >= 18
    if not timed(period):
        return False
    if period.major < 16:
        return name in ("datafileread", "datafilewrite")
    return name.startswith("datafile")


def _foreground(seen: Sampled | None, kinds: frozenset[str]) -> list[SampledWait]:
    return [w for w in seen.waits if w.backend_type in kinds] if seen is not None else []


def _sampled_parts(waits: list[SampledWait]) -> list[TimePart]:
    return _merged(
        [
            TimePart(
                event=wait.event,
                wait_class=wait.wait_class,
                total_s=wait.seconds,
                source=Source.SAMPLED,
            )
            for wait in waits
        ]
    )


def _sampled_system(period: Period, seen: Sampled | None) -> list[TimePart]:
    """Return untimed waits of processes that serve no client."""
    if seen is None or period.records("io"):
        return []
    return _merged(
        [
            TimePart(
                event=f"{wait.backend_type}: {wait.event}",
                wait_class=wait.wait_class,
                total_s=wait.seconds,
                source=Source.SAMPLED,
            )
            for wait in seen.waits
            if not wait.foreground and wait.wait_class is WaitClass.SYSTEM_IO
        ]
    )


def _merged(parts: list[TimePart]) -> list[TimePart]:
    """Merge parts with the same event, class and standing; the sum has the weakest source.

    An event has one row of each standing, so that a reader can find it by its name.
    """
    groups: dict[tuple[str, WaitClass, bool], list[TimePart]] = {}
    for part in parts:
        groups.setdefault((part.event, part.wait_class, part.apart), []).append(part)
    return [_sum(several) for several in groups.values()]


def _sum(parts: list[TimePart]) -> TimePart:
    counts = [part.waits for part in parts if part.waits is not None]
    return replace(
        parts[0],
        total_s=total_of(parts),
        source=weaker(part.source for part in parts),
        waits=sum(counts) if len(counts) == len(parts) else None,
    )
