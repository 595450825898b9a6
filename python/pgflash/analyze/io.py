# SPDX-License-Identifier: PostgreSQL
"""The tables of I/O: latency histogram, tablespaces, functions and file types, the WAL.

They come from pgflash's own counts of every file call.  Without the extension, PostgreSQL's counts
stand in as far as they go (16 and later by kind of process), and the note says so.
"""

from collections.abc import Mapping

from pgflash.analyze.figures import BLOCK_BYTES, Wal, databases, stock_io, wal
from pgflash.analyze.grid import figure, missing, ratio, text
from pgflash.analyze.load import profile_row
from pgflash.analyze.parts import reads_source, timed, wal_timed
from pgflash.analyze.period import Period
from pgflash.analyze.sections import number
from pgflash.model.awr import ReportTable, Row, RowMark, Source, Unit
from pgflash.model.snapshot import Value

NO_ACCOUNT = "Only the extension pgflash counts this."

#: Why the division of reads by source is modelled.
MODELLED_NOTE = (
    " The flash cache was not serving, so the kernel was asked about one read in 16; the others "
    "were told apart, disk or page cache, by their times."
)

#: Sources of reads, in the order of the tables.
SOURCES = ("disk", "page cache", "flash")


def read_latency(period: Period) -> ReportTable:
    """Return how long reads of data files took, by source."""
    columns = [
        figure("lower_us", "From", Unit.MICROSECONDS),
        figure("upper_us", "Below", Unit.MICROSECONDS),
    ]
    for source in SOURCES:
        name = source.replace(" ", "_")
        told = reads_source(period)
        columns.append(figure(name, source.capitalize(), Unit.COUNT, told))
        columns.append(figure(f"{name}_share", f"{source.capitalize()} %", Unit.SHARE, told))
    title = "Read latency by source"
    records = [
        record
        for record in period.records("io_histogram")
        if (record.get("file_class"), record.get("operation")) == ("data", "read")
    ]
    if not records:
        return missing("read-latency", title, columns, _why(period, "io_histogram"))
    buckets: dict[float, dict[str, float]] = {}
    ends: dict[float, float | None] = {}
    for record in records:
        lower = number(record.get("lower_us"))
        ends[lower] = number(record.get("upper_us")) or None  # the last one has no end
        counts = buckets.setdefault(lower, {})
        source = str(record.get("source"))
        counts[source] = counts.get(source, 0) + number(record.get("calls"))
    sums = {s: sum(counts.get(s, 0) for counts in buckets.values()) for s in SOURCES}
    rows = []
    for lower, counts in sorted(buckets.items()):
        if not any(counts.values()):
            continue
        cells: list[float | None] = [lower, ends[lower]]
        for source in SOURCES:
            cells += [int(counts.get(source, 0)), ratio(counts.get(source, 0), sums[source])]
        rows.append(Row(cells=tuple(cells)))
    end: list[float | None] = [None, None]
    for source in SOURCES:
        end += [int(sums[source]), 1.0 if sums[source] else None]
    rows.append(Row(cells=tuple(end), mark=RowMark.TOTAL))
    return ReportTable(
        id="read-latency",
        title=title,
        columns=tuple(columns),
        rows=tuple(rows),
        key=("lower_us",),
        measure="disk",
        note="Calls that read data files, of all processes; one call may read several blocks."
        + (MODELLED_NOTE if reads_source(period) is Source.MODELLED else ""),
    )


def io_tablespaces(period: Period) -> ReportTable:
    """Return reads and writes by tablespace."""
    columns = (
        text("tablespace", "Tablespace"),
        figure("reads", "Reads", Unit.COUNT),
        figure("reads_per_s", "Reads/s", Unit.PER_SECOND),
        figure("read_ms", "Average read", Unit.MILLISECONDS),
        figure("blocks_per_read", "Blocks/read", Unit.RATIO),
        figure("disk_read_ms", "Average disk read", Unit.MILLISECONDS, reads_source(period)),
        figure("flash_reads", "Flash reads", Unit.COUNT),
        figure("flash_read_ms", "Average flash read", Unit.MILLISECONDS),
        figure("writes", "Writes", Unit.COUNT),
        figure("writes_per_s", "Writes/s", Unit.PER_SECOND),
        figure("write_ms", "Average write", Unit.MILLISECONDS),
    )
    title = "Tablespace I/O"
    records = period.records("io_tablespaces")
    if not records:
        return missing("io-tablespaces", title, columns, _why(period, "io_tablespaces"))
    records.sort(key=lambda r: (-number(r.get("read_time_ms")), -number(r.get("reads"))))
    return ReportTable(
        id="io-tablespaces",
        title=title,
        columns=columns,
        rows=tuple(
            tablespace_row(record, elapsed_s=period.elapsed_s, block_bytes=period.block_bytes)
            for record in records
        ),
        key=("tablespace",),
        measure="reads_per_s",
        note="PostgreSQL counts waits for buffers by event (BufferPin, BufferContent, BufferIo in "
        "the table of events), not by tablespace.",
    )


def tablespace_row(
    record: Mapping[str, Value], *, elapsed_s: float, block_bytes: int = BLOCK_BYTES
) -> Row:
    """Return one tablespace's row."""

    def mean(what: str) -> float | None:
        return ratio(number(record.get(f"{what}_time_ms")), number(record.get(f"{what}s")))

    reads, writes = number(record.get("reads")), number(record.get("writes"))
    name = record.get("tablespace")
    return Row(
        cells=(
            str(name if name is not None else record.get("tablespace_oid")),
            int(reads),
            ratio(reads, elapsed_s),
            mean("read"),
            ratio(number(record.get("read_bytes")) / block_bytes, reads),
            mean("disk_read"),
            int(number(record.get("flash_reads"))),
            mean("flash_read"),
            int(writes),
            ratio(writes, elapsed_s),
            mean("write"),
        )
    )


_FUNCTION_COLUMNS = (
    text("backend_type", "Process"),
    text("file_class", "Files"),
    figure("read_bytes", "Read", Unit.BYTES),
    figure("reads_per_s", "Reads/s", Unit.PER_SECOND),
    figure("read_bytes_per_s", "Read/s", Unit.BYTES_PER_SECOND),
    figure("read_ms", "Average read", Unit.MILLISECONDS),
    figure("write_bytes", "Written", Unit.BYTES),
    figure("writes_per_s", "Writes/s", Unit.PER_SECOND),
    figure("write_bytes_per_s", "Written/s", Unit.BYTES_PER_SECOND),
    figure("write_ms", "Average write", Unit.MILLISECONDS),
    figure("syncs", "Syncs", Unit.COUNT),
    figure("sync_ms", "Average sync", Unit.MILLISECONDS),
)


def io_functions(period: Period) -> ReportTable:
    """Return reads and writes by kind of process and of file."""
    title = "I/O by process and file type"
    usages, note = own_usages(period), "Writes include file extensions."
    if not usages:
        usages = stock_usages(period)
        note = (
            "As counted by PostgreSQL (pg_stat_io): without the extension it is unknown what the "
            "page cache served. Times are empty unless track_io_timing is on."
        )
    if not usages:
        return missing("io-function-filetype", title, _FUNCTION_COLUMNS, _why(period, "io"))
    rows = [
        Row(cells=(*key, *usage_cells(usage, elapsed_s=period.elapsed_s)))
        for key, usage in sorted(usages.items(), key=lambda item: (-_bytes(item[1]), item[0]))
    ]
    return ReportTable(
        id="io-function-filetype",
        title=title,
        columns=_FUNCTION_COLUMNS,
        rows=tuple(rows),
        key=("backend_type", "file_class"),
        measure="read_bytes_per_s",
        note=note,
    )


#: calls, bytes and milliseconds (None: not timed) of an operation.
_Use = tuple[float, float, float | None]
_NO_USE: _Use = (0.0, 0.0, 0.0)


def own_usages(period: Period) -> dict[tuple[str, str], dict[str, _Use]]:
    """Return pgflash's counts: by process and files, then read, write, sync."""
    found: dict[tuple[str, str], dict[str, _Use]] = {}
    for record in period.records("io"):
        key = (str(record.get("backend_type")), str(record.get("file_class")))
        operation = str(record.get("operation"))
        usage = found.setdefault(key, {})
        into = "write" if operation == "extend" else operation
        calls, size, time_ms = usage.get(into, _NO_USE)
        usage[into] = (
            calls + number(record.get("calls")),
            size + number(record.get("bytes")),
            (time_ms or 0.0) + number(record.get("time_ms")),
        )
    return {key: usage for key, usage in found.items() if any(c for c, _, _ in usage.values())}


def stock_usages(period: Period) -> dict[tuple[str, str], dict[str, _Use]]:
    """Return the same from PostgreSQL's counts."""

    def ms(first: float | None, second: float | None = 0.0) -> float | None:
        return None if first is None or second is None else 1000 * (first + second)

    found: dict[tuple[str, str], dict[str, _Use]] = {}
    for io in stock_io(period, timed=timed(period), wal_timed=wal_timed(period)):
        if not (io.reads or io.writes or io.extends or io.syncs):
            continue
        found[(io.backend_type, {"relation": "data"}.get(io.object, io.object))] = {
            "read": (io.reads, io.read_bytes, ms(io.read_s)),
            "write": (
                io.writes + io.extends,
                io.write_bytes + io.extend_bytes,
                ms(io.write_s, io.extend_s),
            ),
            "sync": (io.syncs, 0.0, ms(io.sync_s)),
        }
    return found


def usage_cells(usage: Mapping[str, _Use], *, elapsed_s: float) -> tuple[float | None, ...]:
    """Return the figures of a process and its files."""
    cells: list[float | None] = []
    for operation in ("read", "write"):
        calls, size, time_ms = usage.get(operation, _NO_USE)
        cells += [
            int(size),
            ratio(calls, elapsed_s),
            ratio(size, elapsed_s),
            ratio(time_ms, calls),
        ]
    calls, _, time_ms = usage.get("sync", _NO_USE)
    return (*cells, int(calls), ratio(time_ms, calls))


def _bytes(usage: Mapping[str, _Use]) -> float:
    return sum(size for _, size, _ in usage.values())


_WAL_COLUMNS = (
    text("name", "What"),
    figure("total", "Total", Unit.COUNT, None),
    figure("per_s", "Per second", Unit.PER_SECOND, None),
    figure("per_transaction", "Per transaction", Unit.PER_TRANSACTION, None),
)


def wal_table(period: Period) -> ReportTable:
    """Return the WAL generated: in total, per second and per transaction."""
    title = "WAL (redo) statistics"
    logged, counted = wal(period, timed=wal_timed(period)), databases(period)
    if logged is None:
        return missing("wal", title, _WAL_COLUMNS, _why(period, "stat_wal"))
    transactions = counted.transactions if counted is not None else 0
    rows = wal_rows(
        logged,
        elapsed_s=period.elapsed_s,
        transactions=transactions,
        block_bytes=period.wal_block_bytes,
    )
    archiver = period.record("archiver")
    if archiver is not None:
        rows += tuple(
            profile_row(
                name,
                int(number(archiver.get(column))),
                Unit.COUNT,
                elapsed_s=period.elapsed_s,
                transactions=transactions,
            )
            for name, column in _ARCHIVED
        )
    return ReportTable(
        id="wal",
        title=title,
        columns=_WAL_COLUMNS,
        rows=rows,
        key=("name",),
        measure="per_s",
        note="Wastage is what was written more than once, since only whole pages are written. "
        "Times are those of all processes that write or sync the WAL."
        + ("" if period.records("wal") or logged.write_s is not None else _UNTIMED_WAL),
    )


_ARCHIVED = (
    ("WAL segments archived", "archived_count"),
    ("failed attempts to archive", "failed_count"),
)
_UNTIMED_WAL = " The server did not measure the times (track_wal_io_timing)."


def wal_rows(
    logged: Wal, *, elapsed_s: float, transactions: float, block_bytes: int
) -> tuple[Row, ...]:
    """Return the rows; a figure that this server does not count has none."""
    blocks = None if logged.write_bytes is None else logged.write_bytes / block_bytes
    quantities = (
        ("WAL size", logged.bytes, Unit.BYTES),
        ("WAL records", logged.records, Unit.COUNT),
        ("full-page images", logged.full_page_images, Unit.COUNT),
        ("size of full-page images", logged.full_page_image_bytes, Unit.BYTES),
        ("WAL blocks written", blocks, Unit.COUNT),
        ("WAL written", logged.write_bytes, Unit.BYTES),
        ("WAL wastage", logged.wastage_bytes, Unit.BYTES),
        ("WAL writes", logged.writes, Unit.COUNT),
        ("WAL write time", logged.write_s, Unit.SECONDS),
        ("WAL syncs", logged.syncs, Unit.COUNT),
        ("WAL sync time", logged.sync_s, Unit.SECONDS),
        ("writes since WAL buffers were full", logged.buffers_full, Unit.COUNT),
    )
    return tuple(
        profile_row(name, value, unit, elapsed_s=elapsed_s, transactions=transactions)
        for name, value, unit in quantities
        if value is not None
    )


def _why(period: Period, section: str) -> str:
    return period.missing_reason(section) or NO_ACCOUNT
