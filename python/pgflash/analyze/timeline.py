# SPDX-License-Identifier: PostgreSQL
"""The tables over time, from which the charts are drawn.

A row is an interval between snapshots, and its time is the interval's start.  The sampler's rows
are minutes if intervals are longer; a minute that two intervals share is divided between them.  A
long period has more rows than a chart has room for: then neighbours are merged.
"""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from pgflash.analyze.figures import Wal, databases, wal
from pgflash.analyze.grid import figure, missing, ratio
from pgflash.analyze.io import SOURCES
from pgflash.analyze.parts import reads_source, wal_timed
from pgflash.analyze.period import Interval, Period
from pgflash.analyze.samples import Minute, Sampled
from pgflash.analyze.sections import add, number, total
from pgflash.model.awr import Column, ReportTable, Row, Source, Unit
from pgflash.model.waits import WaitClass
from pgflash.model.words import count

#: Rows of a table over time.
POINTS_MAX = 120
MINUTE_S = 60

#: The sections that tables over time show; adding up the others for each row would take long.
SHOWN = frozenset({"database", "host_cpu", "host_memory", "io", "stat_io", "stat_wal", "wal"})

_AT = Column(name="at", title="From", unit=Unit.TIME)
_FOR = figure("elapsed_s", "For", Unit.SECONDS)


def steps(period: Period, *, most: int = POINTS_MAX) -> tuple[Interval, ...]:
    """Return the intervals, with neighbours merged if there are too many."""
    size = -(-len(period.intervals) // most)
    if size <= 1:
        return period.intervals
    groups = [period.intervals[i : i + size] for i in range(0, len(period.intervals), size)]
    return tuple(_joined(group) for group in groups)


def iso(moment: datetime, zone: tzinfo) -> str:
    """Return a time in the report's form."""
    return moment.astimezone(zone).isoformat(timespec="seconds")


def sessions_over_time(period: Period, found: Sampled | None) -> ReportTable:
    """Return average active sessions by wait class."""
    counted = [one for one in WaitClass if one.counts]
    columns = (
        _AT,
        _FOR,
        *(
            figure(one.name.lower(), one.value, Unit.SESSIONS, Source.SAMPLED, note=one.value)
            for one in counted
        ),
        figure("all", "All", Unit.SESSIONS, Source.SAMPLED),
    )
    title = "Average active sessions over time"
    if found is None:
        reason = period.missing_reason("samples") or "Only the extension pgflash samples this."
        return missing("aas-over-time", title, columns, reason)
    rows = []
    for group in _groups(period, found.minutes):
        seconds = sum(minute.seconds for minute in group)
        sessions = [_mean_sessions(group, one, seconds) for one in counted]
        rows.append(Row(cells=(iso(group[0].at, period.zone), seconds, *sessions, sum(sessions))))
    return ReportTable(
        id="aas-over-time",
        title=title,
        columns=columns,
        rows=tuple(rows),
        key=("at",),
        measure="all",
        note=f"From {count(found.looks)} samples of all sessions.",
    )


def _groups(period: Period, minutes: Sequence[Minute]) -> list[Sequence[Minute]]:
    """Return the minutes of each row: those of an interval if intervals are shorter."""
    if period.elapsed_s < MINUTE_S * len(period.intervals):
        within = (
            [m for m in minutes if step.begin.taken_at <= m.at < step.end.taken_at]
            for step in steps(period)
        )
        return [group for group in within if group]
    size = -(-len(minutes) // POINTS_MAX)
    return [minutes[i : i + size] for i in range(0, len(minutes), size)]


def _mean_sessions(minutes: Sequence[Minute], one: WaitClass, seconds: float) -> float:
    there = sum(minute.sessions.get(one, 0.0) * minute.seconds for minute in minutes)
    return there / seconds if seconds > 0 else 0.0


def cpu_over_time(period: Period, points: Sequence[Interval]) -> ReportTable:
    """Return how the machine's processors were used."""
    parts = ("user", "system", "iowait", "steal", "idle")
    titles = ("User", "System", "I/O wait", "Stolen", "Idle")
    columns = (
        _AT,
        _FOR,
        *(figure(n, t, Unit.SHARE) for n, t in zip(parts, titles, strict=True)),
    )
    title = "Processors over time"
    rows = []
    for step in points:
        shares = cpu_shares(step)
        if shares is not None:
            found = [shares[part] for part in parts]
            rows.append(Row(cells=(iso(step.begin.taken_at, period.zone), step.elapsed_s, *found)))
    if not rows:
        return missing("cpu-over-time", title, columns, _why(period, "host_cpu"))
    return ReportTable(
        id="cpu-over-time",
        title=title,
        columns=columns,
        rows=tuple(rows),
        key=("at",),
        measure="user",
        note="Shares of all processors of the machine, whatever program used them.",
    )


def cpu_shares(counted: Interval | Period) -> dict[str, float] | None:
    """Return how the processors were used, as shares that add up to 1; None if not known."""
    records = counted.records("host_cpu")
    if not records:
        return None
    one = records[0]
    groups = {
        "user": ("user_s", "nice_s"),
        "system": ("system_s", "irq_s", "softirq_s"),
        "iowait": ("iowait_s",),
        "steal": ("steal_s",),
        "idle": ("idle_s",),
    }
    seconds = {name: sum(number(one.get(c)) for c in of) for name, of in groups.items()}
    whole = sum(seconds.values())
    return {name: s / whole for name, s in seconds.items()} if whole > 0 else None


def throughput_over_time(period: Period, points: Sequence[Interval]) -> ReportTable:
    """Return transactions, reads and WAL a second."""
    columns = [
        _AT,
        _FOR,
        figure("transactions_per_s", "Transactions/s", Unit.PER_SECOND),
        figure("blocks_read_per_s", "Blocks not in shared_buffers/s", Unit.PER_SECOND),
        figure("wal_bytes_per_s", "WAL/s", Unit.BYTES_PER_SECOND),
    ]
    for source in SOURCES:
        name = source.replace(" ", "_")
        words = f"Reads/s, {source}"
        told = reads_source(period)
        columns.append(figure(f"{name}_reads_per_s", words, Unit.PER_SECOND, told))
    columns.append(figure("writes_per_s", "Data writes/s", Unit.PER_SECOND))
    title = "Throughput over time"
    rows = []
    for step in points:
        counted, logged = databases(step), wal(step, timed=False)
        if counted is None:
            continue
        cells: list[float | None] = [
            ratio(counted.transactions, step.elapsed_s),
            ratio(counted.blocks_read, step.elapsed_s),
            ratio(logged.bytes, step.elapsed_s) if logged is not None else None,
        ]
        own = bool(step.records("io"))
        for operation, source in (*(("read", source) for source in SOURCES), ("write", "")):
            calls, _ = _data_calls(step, operation, source)
            cells.append(ratio(calls, step.elapsed_s) if own else None)
        rows.append(Row(cells=(iso(step.begin.taken_at, period.zone), step.elapsed_s, *cells)))
    if not rows:
        return missing("throughput-over-time", title, columns, _why(period, "database"))
    return ReportTable(
        id="throughput-over-time",
        title=title,
        columns=tuple(columns),
        rows=tuple(rows),
        key=("at",),
        measure="transactions_per_s",
    )


def latency_over_time(period: Period, points: Sequence[Interval]) -> ReportTable:
    """Return the mean time of a read, a write and a sync of the WAL."""
    columns = (
        _AT,
        _FOR,
        figure("disk_ms", "Disk read", Unit.MILLISECONDS, reads_source(period)),
        figure("page_cache_ms", "Page cache read", Unit.MILLISECONDS, reads_source(period)),
        figure("flash_ms", "Flash read", Unit.MILLISECONDS),
        figure("write_ms", "Data write", Unit.MILLISECONDS),
        figure("wal_write_ms", "WAL write", Unit.MILLISECONDS),
        figure("wal_sync_ms", "WAL sync", Unit.MILLISECONDS),
    )
    title = "Latency over time"
    rows = []
    for step in points:
        cells: list[float | None] = []
        for operation, source in (*(("read", source) for source in SOURCES), ("write", "")):
            calls, time_ms = _data_calls(step, operation, source)
            cells.append(ratio(time_ms, calls))
        logged = wal(step, timed=wal_timed(period))
        cells += [None, None] if logged is None else _wal_ms(logged)
        if any(cell is not None for cell in cells):
            rows.append(Row(cells=(iso(step.begin.taken_at, period.zone), step.elapsed_s, *cells)))
    if not rows:
        return missing("latency-over-time", title, columns, _why(period, "io"))
    return ReportTable(
        id="latency-over-time",
        title=title,
        columns=columns,
        rows=tuple(rows),
        key=("at",),
        measure="disk_ms",
        note="Mean times of calls by all processes.",
    )


def _wal_ms(logged: Wal) -> list[float | None]:
    """Return the mean time of a write and of a sync of the WAL."""
    pairs = ((logged.write_s, logged.writes), (logged.sync_s, logged.syncs))
    return [ratio(None if s is None else 1000 * s, calls) for s, calls in pairs]


def _data_calls(step: Interval, operation: str, source: str) -> tuple[float, float]:
    """Return calls and milliseconds of an operation on data files."""
    chosen = [
        record
        for record in step.records("io")
        if (record.get("file_class"), record.get("operation")) == ("data", operation)
        and source in ("", record.get("source"))
    ]
    return total(chosen, "calls"), total(chosen, "time_ms")


def _joined(group: Sequence[Interval]) -> Interval:
    names = sorted(SHOWN & {name for interval in group for name in interval.deltas})
    return Interval(
        begin=group[0].begin,
        end=group[-1].end,
        deltas={
            name: add([one.deltas[name] for one in group if name in one.deltas]) for name in names
        },
        gauges={
            name: tuple(section for one in group for section in one.gauges.get(name, ()))
            for name in {name for one in group for name in one.gauges}
        },
    )


def _why(period: Period, section: str) -> str:
    return period.missing_reason(section) or f"The snapshots have no section {section}."
