# SPDX-License-Identifier: PostgreSQL
"""A period's demands on processors and devices: everything that the model takes from a report.

Every figure is a total of the period, so that it can be compared with the report's.  The figures
are read from the report's tables by their ids, which are stable; a figure that a report lacks is
None or zero, and noted: the advice repeats the notes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pgflash.analyze.findings import OTHER_PERIOD
from pgflash.errors import PgflashError
from pgflash.model.awr import AwrReport, ReportTable, RowMark
from pgflash.model.waits import FOREGROUND

#: The tables of a report that are read here.
TABLES = frozenset(
    {
        "summary",
        "db-time",
        "load-profile",
        "top-events",
        "wait-classes",
        "io-tablespaces",
        "io-function-filetype",
        "wal",
        "segments-reads",
        "segments-read-time",
        "segments-writes",
        "host-vmstat",
        "flash-cache-advice",
    }
)

_BLOCK_BYTES = 8192
#: How the rows of calls end that others made for a session.
_ASYNCHRONOUS = ", asynchronous"
_COPIES = "data file read, page cache"
_SOURCES = ("page cache", "flash cache", "disk")
#: The wait for a synchronous standby, in the report's table of events.
_STANDBY = "IPC:SyncRep"
#: Waits for a session that may itself be waiting for storage: locks held during reads, writes and
#: extensions of files, and other processes of the same parallel query.
_FELLOWS = (
    "Lock:extend",
    "Lock:page",
    "LWLock:BufferContent",
    "BufferPin:BufferPin",
    "IPC:MessageQueue",
    "IPC:Hash",
    "IPC:Parallel",
    "IPC:ExecuteGather",
    "IPC:BtreePage",
)


class NoAdviceError(PgflashError):
    """A period contains too little for advice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Requests, their bytes, and how long clients waited for them."""

    count: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0

    @property
    def mean_ms(self) -> float:
        """Return the mean wait for a read."""
        return 1000 * self.seconds / self.count if self.count else 0.0

    @property
    def mean_bytes(self) -> float:
        """Return the mean size of a read; one block if bytes were not counted."""
        return self.bytes / self.count if self.count and self.bytes else float(_BLOCK_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A table or an index, with its reads and writes; or all that a report does not list."""

    name: str
    database: str
    tablespace: str
    #: As in the report; "others" of those that it does not list.
    kind: str
    reads: float = 0.0
    #: None: a block for each read.
    read_bytes: float | None = None
    read_s: float = 0.0
    writes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The share of the reads that a flash cache of a given size would have served."""

    size_bytes: float
    hit_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A period's work."""

    #: Which report, in words.
    source: str
    elapsed_s: float
    transactions: float
    db_time_s: float
    #: Clients' own CPU time, and their waits for a processor.
    cpu_s: float
    run_queue_s: float = 0.0
    #: All measured CPU time of clients; the part in excess of cpu_s was used within file
    #: calls (copying, the kernel) or between statements. 0: not measured.
    measured_cpu_s: float = 0.0
    #: Processors: cores (or half the number of threads), and what others use of them.
    cores: float | None = None
    other_cores: float = 0.0
    #: By clients: from disk; from an existing flash cache.
    reads: Reads
    flash: Reads = Reads()
    #: By all others (vacuum, ...): no client waits, but the device is busy.
    system_reads: Reads = Reads()
    #: Writes of data files by all processes; None: not counted.
    writes: float | None = None
    write_bytes: float = 0.0
    #: Clients' waits for the writing of data: free buffers, extensions, checkpoints.
    write_wait_s: float = 0.0
    temp: Reads = Reads()
    #: Waits for the WAL; their number, if it was counted.
    commit_s: float = 0.0
    commits: float | None = None
    syncs: float | None = None
    sync_s: float | None = None
    wal_bytes: float = 0.0
    #: How much copying WAL into an archive moves on the array, if known.
    archive_read_bytes: float = 0.0
    archive_write_bytes: float = 0.0
    #: Waits for a block that another session reads; for locks of sessions that may wait for
    #: storage.
    buffer_s: float = 0.0
    lock_s: float = 0.0
    #: All other waits, and the residual.
    other_s: float = 0.0
    #: The part of it that commits wait for a synchronous standby: network and the standby's flush,
    #: which remain wherever the WAL is here.
    standby_s: float = 0.0
    segments: tuple[Segment, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    #: Of the existing cache.
    hit_ratio: float | None = None
    cache_bytes: float | None = None
    #: Of an Oracle report: its buffer cache, and the part of the reads that pass it by. Its curve
    #: is of the long run.
    oracle: bool = False
    buffers_bytes: float | None = None
    direct_part: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def busy_s(self) -> float:
        """Return how long clients kept the processors busy."""
        return max(self.cpu_s, self.measured_cpu_s)

    @property
    def sessions(self) -> float:
        """Return the average of active sessions."""
        return self.db_time_s / self.elapsed_s

    @property
    def per_s(self) -> float:
        """Return transactions per second."""
        return self.transactions / self.elapsed_s

    def per_transaction_ms(self, seconds: float) -> float:
        """Return a total of the period per transaction."""
        return 1000 * seconds / self.transactions


def work_of_report(report: AwrReport, *, flash_tablespaces: frozenset[str] = frozenset()) -> Work:
    """Read a report of pgflash, without the work for tablespaces that are on flash."""
    tables = {table.id: table for table in report.tables}
    profile = _column(tables, "load-profile", "name", "total")
    events = _Events(tables.get("top-events"))
    classes = _column(tables, "wait-classes", "wait_class", "total_s")
    db_time_s = _number(_column(tables, "db-time", "name", "total_s").get("DB time"))
    transactions = _number(profile.get("transactions"))
    if db_time_s <= 0 or transactions <= 0 or report.head.elapsed_s <= 0:
        raise NoAdviceError(
            "there was no work between the two snapshots",
            hint="Take a period in which the load ran; pgflash snapshots lists them.",
        )
    notes = [one.sentence for one in report.findings if one.rule == OTHER_PERIOD]
    measured_cpu_s = _number(profile.get("DB CPU"))
    cpu_s = events.seconds("DB CPU") or measured_cpu_s
    io = _Io(tables.get("io-function-filetype"), report.head.elapsed_s)
    away = _Away.of(tables.get("io-tablespaces"), flash_tablespaces)
    parts = _parts(events, classes, io, profile, away)
    wal = _column(tables, "wal", "name", "total")
    if not io.rows:
        notes.append(
            "Reads and writes of other processes were not counted, so they are not "
            "part of the load."
        )
    if parts.reads.count and not events.tells_sources:
        notes.append(
            "The times of reads are sampled, or PostgreSQL's own: the extension was not there."
        )
    if not parts.reads.count and not events.tells_sources and _unbuffered(profile):
        notes.append(
            "How long reads took is not known, so nothing is predicted for them: set "
            "track_io_timing to on, or load the extension."
        )
    known_s = (
        cpu_s + parts.run_queue_s + parts.reads.seconds + parts.flash.seconds + parts.temp.seconds
    ) + (parts.write_wait_s + parts.commit_s + parts.buffer_s + parts.lock_s)
    head = report.head
    return Work(
        source=f"report on snapshots {head.begin_id} to {head.end_id}",
        elapsed_s=head.elapsed_s,
        transactions=transactions,
        # Waits are counted and DB time is sampled: in a short period the parts may exceed it.
        db_time_s=max(db_time_s, known_s),
        cpu_s=cpu_s,
        measured_cpu_s=measured_cpu_s,
        run_queue_s=parts.run_queue_s,
        cores=float(head.cores) if head.cores else None,
        other_cores=_other_cores(tables, head.cores, max(cpu_s, measured_cpu_s) / head.elapsed_s),
        reads=parts.reads,
        flash=parts.flash,
        system_reads=io.system_reads(),
        writes=away.left(io.writes() if io.rows else _maybe(profile.get("data writes"))),
        write_bytes=(io.write_bytes() or _number(profile.get("data written"))) * (1 - away.writes),
        write_wait_s=parts.write_wait_s,
        temp=parts.temp,
        commit_s=parts.commit_s,
        syncs=_maybe(wal.get("WAL syncs")),
        sync_s=_maybe(wal.get("WAL sync time")),
        wal_bytes=_number(wal.get("WAL written")) or _number(wal.get("WAL size")),
        buffer_s=parts.buffer_s,
        lock_s=parts.lock_s,
        other_s=max(db_time_s - known_s, 0.0),
        standby_s=min(parts.standby_s, max(db_time_s - known_s, 0.0)),
        segments=tuple(one for one in _segments(tables) if one.tablespace not in flash_tablespaces),
        curve=_curve(tables.get("flash-cache-advice")),
        cache_bytes=_cache_bytes(tables.get("flash-cache-advice")),
        hit_ratio=_maybe(_column(tables, "summary", "name", "value").get("flash cache hits")),
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    reads: Reads
    flash: Reads
    temp: Reads
    run_queue_s: float
    write_wait_s: float
    commit_s: float
    standby_s: float
    buffer_s: float
    lock_s: float


def _parts(
    events: "_Events",
    classes: Mapping[str, object],
    io: "_Io",
    profile: Mapping[str, object],
    away: "_Away",
) -> _Parts:
    """Divide the waits by their purpose."""
    flash = events.reads("flash cache")
    temp_s = sum(events.seconds(name) for name in events.names if _is_temp(name))
    extend_s = events.seconds("data file extend")
    all_commit_s = _number(classes.get("Commit"))
    standby_s = min(events.seconds(_STANDBY), all_commit_s)
    buffer_s = sum(events.seconds(n) for n in events.names if n.lower() == "ipc:bufferio")
    user_io_s = _number(classes.get("User I/O"))
    disk, copied_s = events.reads("disk"), events.asynchronous_s("page cache")
    read_s = max(user_io_s - flash.seconds - copied_s - temp_s - extend_s - buffer_s, 0.0)
    count = disk.count
    if not events.tells_sources and read_s > 0:
        count = max(_unbuffered(profile) - flash.count, 0)
    # The bytes are those of all reads; blocks not in shared_buffers include copies.
    calls = count + flash.count + (events.copies if disk.count else 0.0)
    sizes = io.client_bytes()
    mean_bytes = sizes / calls if calls and sizes else _BLOCK_BYTES
    there, there_s = count * away.reads, read_s * away.read_s if count else 0.0
    here, served = count - there, flash.count + there
    return _Parts(
        reads=Reads(
            count=here, bytes=here * mean_bytes, seconds=read_s - there_s if count else 0.0
        ),
        flash=Reads(count=served, bytes=served * mean_bytes, seconds=flash.seconds + there_s),
        temp=Reads(count=io.temp_calls(), bytes=io.temp_bytes(), seconds=temp_s),
        run_queue_s=events.seconds("waiting for a processor"),
        write_wait_s=_number(classes.get("Configuration")) + extend_s,
        commit_s=all_commit_s - standby_s,
        standby_s=standby_s,
        buffer_s=buffer_s,
        lock_s=_number(classes.get("Application"))
        + sum(events.seconds(name) for name in events.names if name.startswith(_FELLOWS)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Away:
    """The parts of all reads, their time and all writes in tablespaces on flash."""

    reads: float = 0.0
    read_s: float = 0.0
    writes: float = 0.0

    @classmethod
    def of(cls, table: ReportTable | None, tablespaces: frozenset[str]) -> "_Away":
        if table is None or not tablespaces:
            return cls()
        names = [column.name for column in table.columns]
        rows = [dict(zip(names, row.cells, strict=True)) for row in table.rows]
        mine = [row for row in rows if row["tablespace"] in tablespaces]

        def part(value: Callable[[Mapping[str, object]], float]) -> float:
            whole = sum(value(row) for row in rows)
            return sum(value(row) for row in mine) / whole if whole > 0 else 0.0

        return cls(
            reads=part(lambda row: _number(row.get("reads"))),
            read_s=part(lambda row: _number(row.get("reads")) * _number(row.get("read_ms"))),
            writes=part(lambda row: _number(row.get("writes"))),
        )

    def left(self, writes: float | None) -> float | None:
        return None if writes is None else writes * (1 - self.writes)


class _Events:
    """The rows of top-events, by name."""

    def __init__(self, table: ReportTable | None) -> None:
        self._rows: dict[str, tuple[float, float]] = {}
        #: Reads of data files that the page cache served.
        self.copies = 0.0
        #: Calls that I/O workers or io_uring made for sessions; the time is the device's.
        self._asynchronous: dict[str, tuple[float, float]] = {}
        if table is None or not table.rows:
            return
        name, waits, total = (table.index(c) for c in ("event", "waits", "total_s"))
        for row in table.rows:
            event = str(row.cells[name])
            figures = (_number(row.cells[waits]), _number(row.cells[total]))
            if row.mark is RowMark.PLAIN:
                self._rows[event] = figures
            elif row.mark is RowMark.APART and event.endswith(_ASYNCHRONOUS):
                self._asynchronous[event.removesuffix(_ASYNCHRONOUS)] = figures
            if event in (_COPIES, f"{_COPIES}{_ASYNCHRONOUS}"):
                self.copies += figures[0]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._rows)

    @property
    def tells_sources(self) -> bool:
        """Tell whether the extension counted reads, each by its source."""
        known = {*self._rows, *self._asynchronous, *((_COPIES,) if self.copies else ())}
        return any(f"data file read, {source}" in known for source in _SOURCES)

    def seconds(self, name: str) -> float:
        return self._rows.get(name, (0.0, 0.0))[1]

    def reads(self, source: str) -> Reads:
        """Return reads of data files from a source, also those that others made for a session."""
        name = f"data file read, {source}"
        count, seconds = self._rows.get(name, (0.0, 0.0))
        count += self._asynchronous.get(name, (0.0, 0.0))[0]
        seconds += self.asynchronous_s(source)
        return Reads(count=count, bytes=count * _BLOCK_BYTES, seconds=seconds)

    def asynchronous_s(self, source: str) -> float:
        """Return how long sessions waited for reads that others made for them from a source.

        Samples do not tell the source, so all such waits are divided by the devices' times.
        """
        device_s = self._asynchronous.get(f"data file read, {source}", (0.0, 0.0))[1]
        all_s = sum(seconds for _, seconds in self._asynchronous.values())
        waited_s = sum(self.seconds(name) for name in self._rows if name.startswith("IO:AioIo"))
        return waited_s * device_s / all_s if all_s else 0.0


class _Io:
    """The rows of io-function-filetype."""

    def __init__(self, table: ReportTable | None, elapsed_s: float) -> None:
        names = [column.name for column in table.columns] if table else []
        self.rows = [
            dict(zip(names, row.cells, strict=True)) for row in (table.rows if table else ())
        ]
        self._elapsed_s = elapsed_s

    def _of(self, *classes: str) -> Iterator[dict[str, object]]:
        return (dict(row) for row in self.rows if row.get("file_class") in classes)

    def system_reads(self) -> Reads:
        others = [row for row in self._of("data") if row["backend_type"] not in FOREGROUND]
        return Reads(
            count=sum(_number(row["reads_per_s"]) for row in others) * self._elapsed_s,
            bytes=sum(_number(row["read_bytes"]) for row in others),
        )

    def client_bytes(self) -> float:
        mine = (row for row in self._of("data") if row["backend_type"] in FOREGROUND)
        return sum(_number(row["read_bytes"]) for row in mine)

    def writes(self) -> float:
        return sum(_number(row["writes_per_s"]) for row in self._of("data")) * self._elapsed_s

    def write_bytes(self) -> float:
        return sum(_number(row["write_bytes"]) for row in self._of("data"))

    def temp_calls(self) -> float:
        return self._elapsed_s * sum(
            _number(row["reads_per_s"]) + _number(row["writes_per_s"])
            for row in self._of("temp", "temp relation")
        )

    def temp_bytes(self) -> float:
        return sum(
            _number(row["read_bytes"]) + _number(row["write_bytes"])
            for row in self._of("temp", "temp relation")
        )


def _unbuffered(profile: Mapping[str, object]) -> float:
    return _number(profile.get("blocks not in shared_buffers"))


def _is_temp(event: str) -> bool:
    return event.startswith("temporary ") or event.startswith("IO:BufFile")


def _other_cores(tables: Mapping[str, ReportTable], cores: int | None, mine: float) -> float:
    """Return the processors that were busy with anything but our clients."""
    table = tables.get("host-vmstat")
    if table is None or not table.rows or not cores:
        return 0.0
    us, sy, st = (table.index(name) for name in ("us", "sy", "st"))
    row = next((r for r in table.rows if r.mark is RowMark.TOTAL), table.rows[-1])
    busy = sum(_number(row.cells[place]) for place in (us, sy, st))
    return max(busy * cores - mine, 0.0)


def _segments(tables: Mapping[str, ReportTable]) -> tuple[Segment, ...]:
    """Join the rankings by reads, by read time and by writes; all that they do not list is one."""
    found: dict[tuple[str, str, str, str], dict[str, float]] = {}
    wanted = (
        (
            "segments-reads",
            {"reads": "reads", "blocks_read": "reads", "read_bytes": "read_bytes"},
        ),
        ("segments-read-time", {"read_time_ms": "read_ms"}),
        ("segments-writes", {"writes": "writes"}),
    )
    for table_id, columns in wanted:
        table = tables.get(table_id)
        if table is None:
            continue
        names = [column.name for column in table.columns]
        for row in table.rows:
            if row.mark not in (RowMark.PLAIN, RowMark.REST):
                continue
            cells = dict(zip(names, row.cells, strict=True))
            key = (
                str(cells["relation"]),
                str(cells.get("database", "")),
                str(cells.get("tablespace", "")),
                "others" if row.mark is RowMark.REST else str(cells.get("kind", "")),
            )
            sums = found.setdefault(key, {})
            for column, name in columns.items():
                if column in cells:
                    sums[name] = _number(cells[column])
    return tuple(
        Segment(
            name=name,
            database=database,
            tablespace=tablespace,
            kind=kind,
            reads=sums.get("reads", 0.0),
            read_bytes=sums.get("read_bytes"),
            read_s=sums.get("read_ms", 0.0) / 1000,
            writes=sums.get("writes", 0.0),
        )
        for (name, database, tablespace, kind), sums in found.items()
    )


def _curve(table: ReportTable | None) -> tuple[CurvePoint, ...]:
    if table is None or not table.rows:
        return ()
    return tuple(
        CurvePoint(size_bytes=_number(size), hit_ratio=_number(ratio))
        for size, ratio in zip(table.values("size_bytes"), table.values("hit_ratio"), strict=True)
        if ratio is not None
    )


def _cache_bytes(table: ReportTable | None) -> float | None:
    """Return the size of the cache to which the curve's factors refer."""
    if table is None or not any(column.name == "size_factor" for column in table.columns):
        return None
    rows = zip(table.values("size_factor"), table.values("size_bytes"), strict=True)
    return next((_number(size) for factor, size in rows if _number(factor) == 1), None)


def _column(
    tables: Mapping[str, ReportTable], table_id: str, key: str, value: str
) -> dict[str, object]:
    table = tables.get(table_id)
    if table is None or not table.rows:
        return {}
    return {str(k): v for k, v in zip(table.values(key), table.values(value), strict=True)}


def _maybe(value: object) -> float | None:
    found = getattr(value, "value", value)
    return float(found) if isinstance(found, int | float) else None


def _number(value: object) -> float:
    return _maybe(value) or 0.0
