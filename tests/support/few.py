# SPDX-License-Identifier: PostgreSQL
"""A report with few numbers: only the tables on which advice is based."""

from collections.abc import Iterator, Sequence

from pgflash.analyze.grid import figure, text
from pgflash.model.awr import AwrReport, Cell, PeriodHead, ReportTable, Row, RowMark, Unit

COUNT, SECONDS, TEXT = Unit.COUNT, Unit.SECONDS, Unit.TEXT


def few(
    *,
    elapsed_s: float = 100.0,
    transactions: float = 10_000.0,
    cores: int = 8,
    cpu_s: float = 20.0,
    reads: tuple[float, float] = (20_000.0, 200.0),
    flash_reads: tuple[float, float] = (0.0, 0.0),
    asynchronous: dict[str, tuple[float, float]] | None = None,
    asynchronous_s: float = 0.0,
    syncs: tuple[float, float] = (5_000.0, 25.0),
    commit_s: float = 100.0,
    standby_s: float = 0.0,
    lock_s: float = 0.0,
    configuration_s: float = 0.0,
    other_s: float = 0.0,
    writes: float = 0.0,
    temp: tuple[float, float] = (0.0, 0.0),
    vacuum_reads: float = 0.0,
    segments: tuple[tuple[str, str, float, float], ...] = (),
    curve: tuple[tuple[float, float], ...] = (),
    spaces: tuple[tuple[str, float, float], ...] = (),
    cache: tuple[float, float] | None = None,
    wal_bytes: float = 0.0,
    unbuffered: float = 0.0,
    unlisted: tuple[float, float] = (0.0, 0.0),
    loaded: bool = True,
) -> AwrReport:
    """Return a report: reads, flash reads, temp and syncs are (count, seconds).

    Segments are (name, kind, reads, writes), with the disk's mean latency; a curve's points are
    (bytes, hit ratio); tablespaces are (name, reads, ms of a read); the existing cache has a size
    and a hit ratio.  STANDBY_S is the part of COMMIT_S that is waited for a standby.  Reads by I/O
    workers are (count, seconds of the device) by source; sessions waited ASYNCHRONOUS_S for them.
    UNLISTED are the (reads, writes) of segments that are not listed, UNBUFFERED the blocks that
    were not in shared_buffers.  LOADED: the extension was there, and told the source of each read.
    """
    by_workers = asynchronous or {}
    user_io_s = reads[1] + flash_reads[1] + temp[1] + asynchronous_s
    db_time_s = cpu_s + user_io_s + commit_s + lock_s + configuration_s + other_s
    events = [
        *(_sources(reads, flash_reads) if loaded else ()),
        ("temporary file read", *temp, "User I/O"),
        ("LWLock:WALWrite", None, commit_s - standby_s, "Commit"),
        ("IPC:SyncRep", None, standby_s, "Commit"),
        ("DB CPU", None, cpu_s, "CPU"),
        ("Lock:transactionid", None, lock_s, "Application"),
        ("IO:AioIoCompletion", None, asynchronous_s, "User I/O"),
    ]
    of_workers = sum(calls for calls, _ in by_workers.values())
    classes = [("User I/O", user_io_s), ("Commit", commit_s), ("CPU", cpu_s)]
    classes += [("Application", lock_s), ("Configuration", configuration_s), ("Other", other_s)]
    tables = (
        _table("db-time", ("name", "total_s"), [("DB time", db_time_s)]),
        _profile(transactions, unbuffered),
        _table(
            "top-events", ("event", "waits", "total_s", "wait_class"), events, _apart(by_workers)
        ),
        _table("wait-classes", ("wait_class", "total_s"), classes),
        _wal(syncs, wal_bytes),
        _table("summary", ("name", "value"), [("flash cache hits", cache[1])] if cache else []),
        _files(reads, flash_reads[0] + of_workers, writes, temp[0], vacuum_reads, elapsed_s),
        *_objects(segments, unlisted, spaces, 1000 * reads[1] / reads[0] if reads[0] else 0.0),
        _table(
            "flash-cache-advice",
            ("size_factor", "size_bytes", "hit_ratio"),
            [(size / cache[0] if cache else None, size, ratio) for size, ratio in curve],
        ),
    )
    return _report(tables, cores, elapsed_s)


def _sources(
    reads: tuple[float, float], flash_reads: tuple[float, float]
) -> list[tuple[Cell, ...]]:
    """Return the events of reads by their source."""
    return [
        ("data file read, disk", *reads, "User I/O"),
        ("data file read, flash cache", *flash_reads, "User I/O"),
    ]


def _profile(transactions: float, unbuffered: float) -> ReportTable:
    rows = [("transactions", transactions), ("blocks not in shared_buffers", unbuffered)]
    return _table("load-profile", ("name", "total"), rows)


def _wal(syncs: tuple[float, float], wal_bytes: float) -> ReportTable:
    rows = [("WAL syncs", syncs[0]), ("WAL sync time", syncs[1]), ("WAL written", wal_bytes)]
    return _table("wal", ("name", "total"), rows)


def _apart(by_workers: dict[str, tuple[float, float]]) -> list[tuple[Cell, ...]]:
    """Return the events of reads by I/O workers."""
    return [
        (f"data file read, {source}, asynchronous", *figures, "User I/O")
        for source, figures in by_workers.items()
    ]


def _files(
    reads: tuple[float, float],
    flash_reads: float,
    writes: float,
    temp: float,
    vacuum_reads: float,
    elapsed_s: float,
) -> ReportTable:
    """Return the table of I/O by type of process and file."""
    io = [
        _io("client backend", "data", reads[0] + flash_reads, 0.0, elapsed_s),
        _io("background writer", "data", 0.0, writes, elapsed_s),
        _io("autovacuum worker", "data", vacuum_reads, 0.0, elapsed_s),
        _io("client backend", "temp", temp, 0.0, elapsed_s),
    ]
    return _table(
        "io-function-filetype",
        (
            "backend_type",
            "file_class",
            "read_bytes",
            "reads_per_s",
            "write_bytes",
            "writes_per_s",
        ),
        io,
    )


def _objects(
    segments: tuple[tuple[str, str, float, float], ...],
    unlisted: tuple[float, float],
    spaces: tuple[tuple[str, float, float], ...],
    mean_ms: float,
) -> Iterator[ReportTable]:
    """Yield the tables of relations and tablespaces."""

    def rest(value: float) -> list[tuple[Cell, ...]]:
        return [("all others", "", "", "", value)] if any(unlisted) else []

    yield _table(
        "segments-reads",
        ("relation", "database", "tablespace", "kind", "reads"),
        [(name, "app", "pg_default", kind, n) for name, kind, n, _ in segments],
        rest=rest(unlisted[0]),
    )
    yield _table(
        "segments-read-time",
        ("relation", "database", "tablespace", "kind", "read_time_ms"),
        [(name, "app", "pg_default", kind, n * mean_ms) for name, kind, n, _ in segments],
        rest=rest(unlisted[0] * mean_ms),
    )
    yield _table(
        "segments-writes",
        ("relation", "database", "tablespace", "kind", "writes"),
        [(name, "app", "pg_default", kind, n) for name, kind, _, n in segments],
        rest=rest(unlisted[1]),
    )
    yield _table(
        "io-tablespaces",
        ("tablespace", "reads", "read_ms", "writes"),
        [(name, n, ms, 0.0) for name, n, ms in spaces],
    )


def _report(tables: tuple[ReportTable, ...], cores: int, elapsed_s: float) -> AwrReport:
    """Return a report of these tables."""
    return AwrReport(
        pgflash_version="0",
        head=PeriodHead(
            begin_id=1,
            end_id=2,
            begin_at="2026-11-22T10:00:00+00:00",
            end_at="2026-11-22T11:00:00+00:00",
            elapsed_s=elapsed_s,
            snapshots=2,
            server_version="PostgreSQL 18",
            server_version_num=180000,
            cores=cores,
        ),
        findings=(),
        tables=tables,
    )


def _io(
    backend: str, files: str, reads: float, writes: float, elapsed_s: float
) -> tuple[Cell, ...]:
    return (backend, files, reads * 8192, reads / elapsed_s, writes * 8192, writes / elapsed_s)


def _table(
    table_id: str,
    names: tuple[str, ...],
    rows: Sequence[tuple[Cell, ...]],
    apart: Sequence[tuple[Cell, ...]] = (),
    rest: Sequence[tuple[Cell, ...]] = (),
) -> ReportTable:
    texts = {"name", "event", "wait_class", "backend_type", "file_class", "relation"}
    texts |= {"database", "tablespace", "kind"}
    return ReportTable(
        id=table_id,
        title=table_id,
        columns=tuple(text(n, n) if n in texts else figure(n, n, COUNT) for n in names),
        rows=(
            *(Row(cells=tuple(cells), mark=RowMark.PLAIN) for cells in rows),
            *(Row(cells=tuple(cells), mark=RowMark.APART) for cells in apart),
            *(Row(cells=tuple(cells), mark=RowMark.REST) for cells in rest),
        ),
    )
