# SPDX-License-Identifier: PostgreSQL
"""The same figures from every major version: what 15 to 19 name and count differently.

    15        no pg_stat_io; checkpoints and backends' writes in pg_stat_bgwriter
    16        pg_stat_io counts blocks (times op_bytes)
    17        pg_stat_checkpointer; backends' writes only in pg_stat_io
    18        pg_stat_io counts requests and has bytes; writes and syncs of the WAL moved
              there from pg_stat_wal
    19        the bytes of full-page images, and long waits for locks

Each function takes anything that has sections (a period, an interval) and returns None if this
server does not count the figure.  Times that the server was not told to measure (track_io_timing,
track_wal_io_timing) are None, too: a zero would be wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pgflash.analyze.sections import number, total
from pgflash.model.snapshot import Value

#: The size of a block unless the server was built for another.
BLOCK_BYTES = 8192


#: Those that the table of checkpoints names one by one.
WRITERS = ("client backend", "checkpointer", "background writer")


class Counted(Protocol):
    """A period or an interval: what was counted, by section."""

    def records(self, name: str) -> list[dict[str, Value]]:
        """Return a section's rows; none if it is absent."""
        ...


def sent_by_clients(record: Mapping[str, Value]) -> bool:
    """Tell whether a row of statements is not included in the row of another.

    That is so unless it ran inside another statement (pg_stat_statements.track = all): toplevel is
    0, or false.  Older snapshots have one row of all others, of which this is not known.
    """
    toplevel = record.get("toplevel")
    return toplevel is None or bool(toplevel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Databases:
    """pg_stat_database, all databases together."""

    commits: int
    rollbacks: int
    active_s: float
    idle_in_transaction_s: float
    blocks_hit: int
    blocks_read: int
    read_s: float
    write_s: float
    rows_returned: int
    rows_fetched: int
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    temp_files: int
    temp_bytes: int
    deadlocks: int
    sessions: int
    checksum_failures: int

    @property
    def transactions(self) -> int:
        """Return commits and rollbacks."""
        return self.commits + self.rollbacks


def databases(counted: Counted) -> Databases | None:
    """Return what all databases counted together."""
    records = counted.records("database")
    if not records:
        return None

    def count(column: str) -> int:
        return int(total(records, column))

    return Databases(
        commits=count("xact_commit"),
        rollbacks=count("xact_rollback"),
        active_s=total(records, "active_time") / 1000,
        idle_in_transaction_s=total(records, "idle_in_transaction_time") / 1000,
        blocks_hit=count("blks_hit"),
        blocks_read=count("blks_read"),
        read_s=total(records, "blk_read_time") / 1000,
        write_s=total(records, "blk_write_time") / 1000,
        rows_returned=count("tup_returned"),
        rows_fetched=count("tup_fetched"),
        rows_inserted=count("tup_inserted"),
        rows_updated=count("tup_updated"),
        rows_deleted=count("tup_deleted"),
        temp_files=count("temp_files"),
        temp_bytes=count("temp_bytes"),
        deadlocks=count("deadlocks"),
        sessions=count("sessions"),
        checksum_failures=count("checksum_failures"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """The checkpointer's work."""

    timed: int
    requested: int
    write_s: float
    sync_s: float
    buffers_written: int
    #: From 18 on: those that were not skipped, as nothing had changed; None: not counted.
    done: int | None
    #: From 17 on, on a standby.
    restartpoints: int | None


def checkpoints(counted: Counted) -> Checkpoints | None:
    """Return the checkpointer's work, under the names of 17."""
    writer = _only(counted.records("bgwriter"))
    if writer is None:
        return None
    new = _only(counted.records("checkpointer"))
    one = new if new is not None else writer
    names = (
        ("num_timed", "num_requested", "write_time", "sync_time", "buffers_written")
        if new is not None
        else (
            "checkpoints_timed",
            "checkpoints_req",
            "checkpoint_write_time",
            "checkpoint_sync_time",
            "buffers_checkpoint",
        )
    )
    timed, requested, write_ms, sync_ms, buffers = (number(one.get(name)) for name in names)
    return Checkpoints(
        timed=int(timed),
        requested=int(requested),
        write_s=write_ms / 1000,
        sync_s=sync_ms / 1000,
        buffers_written=int(buffers),
        done=_count(one.get("num_done")),
        restartpoints=_count(one.get("restartpoints_done")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferWrites:
    """Writers of dirty buffers, other than checkpoints, in blocks."""

    by_writer: int
    #: By clients that needed a buffer; None: not counted by this server.
    by_clients: int | None
    #: By all others, such as autovacuum and parallel workers; None: not told from clients.
    by_others: int | None
    #: Syncs of data files by clients, as the checkpointer could not be asked.
    client_syncs: int | None
    #: Rounds of the background writer that ended at bgwriter_lru_maxpages.
    rounds_ended: int
    allocated: int


def buffer_writes(counted: Counted, *, block_bytes: int = BLOCK_BYTES) -> BufferWrites | None:
    """Return who wrote dirty buffers, which are blocks of this size.

    Up to 16 PostgreSQL counts backends' writes among those that extend files; 16 and later count
    them apart, in pg_stat_io.
    """
    writer = _only(counted.records("bgwriter"))
    if writer is None:
        return None
    files = [r for r in counted.records("stat_io") if r.get("object") == "relation"]
    of_clients = [r for r in files if r.get("backend_type") == "client backend"]
    of_others = [r for r in files if r.get("backend_type") not in WRITERS]
    blocks = _bytes(of_clients, "write") // block_bytes if of_clients else None
    syncs = int(total(of_clients, "fsyncs")) if of_clients else None
    return BufferWrites(
        by_writer=int(number(writer.get("buffers_clean"))),
        by_clients=_count(writer.get("buffers_backend")) if blocks is None else blocks,
        by_others=_bytes(of_others, "write") // block_bytes if of_clients else None,
        client_syncs=_count(writer.get("buffers_backend_fsync")) if syncs is None else syncs,
        rounds_ended=int(number(writer.get("maxwritten_clean"))),
        allocated=int(number(writer.get("buffers_alloc"))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wal:
    """The WAL that was generated, and its cost; None: not counted by this server."""

    records: int
    full_page_images: int
    #: The size of the records.
    bytes: int
    full_page_image_bytes: int | None
    buffers_full: int | None
    writes: int | None
    write_bytes: int | None
    write_s: float | None
    syncs: int | None
    sync_s: float | None

    #: Bytes written again, since only whole pages are written.
    wastage_bytes: int | None


def wal(counted: Counted, *, timed: bool) -> Wal | None:
    """Return the WAL's figures; TIMED tells whether PostgreSQL itself measured the times."""
    stock = _only(counted.records("stat_wal"))
    own = _only(counted.records("wal"))
    if stock is None and own is None:
        return None
    writes, syncs = _stock_wal_calls(counted, stock or {}, timed=timed)
    if own is not None:
        writes = _Calls(
            calls=int(number(own.get("writes"))),
            bytes=int(number(own.get("write_bytes"))),
            time_s=number(own.get("write_time_ms")) / 1000,
        )
        syncs = _Calls(
            calls=int(number(own.get("syncs"))),
            bytes=None,
            time_s=number(own.get("sync_time_ms")) / 1000,
        )
    facts = stock if stock is not None else (own or {})
    return Wal(
        records=int(number(facts.get("wal_records"))),
        full_page_images=int(number(facts.get("wal_fpi"))),
        bytes=int(number(facts.get("wal_bytes"))),
        full_page_image_bytes=_count(facts.get("wal_fpi_bytes")),
        buffers_full=_count(facts.get("wal_buffers_full")),
        writes=writes.calls,
        write_bytes=writes.bytes,
        write_s=writes.time_s,
        syncs=syncs.calls,
        sync_s=syncs.time_s,
        wastage_bytes=None if own is None else _count(own.get("wastage_bytes")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    calls: int | None
    bytes: int | None
    time_s: float | None


def _stock_wal_calls(
    counted: Counted, stock: Mapping[str, Value], *, timed: bool
) -> tuple[_Calls, _Calls]:
    """Return writes and syncs of the WAL as PostgreSQL counts them."""
    if "wal_write" in stock:  # up to 17
        return (
            _Calls(
                calls=_count(stock.get("wal_write")),
                bytes=None,
                time_s=number(stock.get("wal_write_time")) / 1000 if timed else None,
            ),
            _Calls(
                calls=_count(stock.get("wal_sync")),
                bytes=None,
                time_s=number(stock.get("wal_sync_time")) / 1000 if timed else None,
            ),
        )
    moved = [record for record in counted.records("stat_io") if _object(record) == "wal"]
    if not moved:
        nothing = _Calls(calls=None, bytes=None, time_s=None)
        return nothing, nothing
    return (
        _Calls(
            calls=int(total(moved, "writes")),
            bytes=int(total(moved, "write_bytes")),
            time_s=total(moved, "write_time") / 1000 if timed else None,
        ),
        _Calls(
            calls=int(total(moved, "fsyncs")),
            bytes=None,
            time_s=total(moved, "fsync_time") / 1000 if timed else None,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StockIo:
    """One kind of process and object of pg_stat_io; time None: not measured."""

    backend_type: str
    #: relation, temp relation, wal, or wal init: the zeros that fill new segments.
    object: str
    #: Requests in 18; blocks before, several of which may be one request.
    reads: int
    read_bytes: int
    read_s: float | None
    writes: int
    write_bytes: int
    write_s: float | None
    extends: int
    extend_bytes: int
    extend_s: float | None
    syncs: int
    sync_s: float | None
    hits: int


def stock_io(counted: Counted, *, timed: bool, wal_timed: bool) -> tuple[StockIo, ...]:
    """Return pg_stat_io, its contexts added up but for new segments; nothing before 16."""
    groups: dict[tuple[str, str], list[dict[str, Value]]] = {}
    for record in counted.records("stat_io"):
        key = (str(record.get("backend_type")), _object(record))
        groups.setdefault(key, []).append(record)
    found = []
    for (backend_type, thing), records in sorted(groups.items()):
        taken = wal_timed if thing.startswith("wal") else timed
        found.append(
            StockIo(
                backend_type=backend_type,
                object=thing,
                reads=int(total(records, "reads")),
                read_bytes=_bytes(records, "read"),
                read_s=total(records, "read_time") / 1000 if taken else None,
                writes=int(total(records, "writes")),
                write_bytes=_bytes(records, "write"),
                write_s=total(records, "write_time") / 1000 if taken else None,
                extends=int(total(records, "extends")),
                extend_bytes=_bytes(records, "extend"),
                extend_s=total(records, "extend_time") / 1000 if taken else None,
                syncs=int(total(records, "fsyncs")),
                sync_s=total(records, "fsync_time") / 1000 if taken else None,
                hits=int(total(records, "hits")),
            )
        )
    return tuple(found)


def _object(record: Mapping[str, Value]) -> str:
    """Return what a row of pg_stat_io is about.

    A new segment is filled with zeros once, which is no writing of the WAL's records.
    """
    thing = str(record.get("object"))
    return f"{thing} init" if (thing, record.get("context")) == ("wal", "init") else thing


def _bytes(records: list[dict[str, Value]], what: str) -> int:
    """Return the bytes of one operation: a column in 18, blocks times their size before."""
    sum_bytes = 0.0
    for record in records:
        if f"{what}_bytes" in record:
            sum_bytes += number(record.get(f"{what}_bytes"))
        else:
            size = number(record.get("op_bytes")) or BLOCK_BYTES
            sum_bytes += number(record.get(f"{what}s")) * size
    return int(sum_bytes)


def _only(records: list[dict[str, Value]]) -> dict[str, Value] | None:
    return records[0] if records else None


def _count(value: Value) -> int | None:
    return None if value is None else int(number(value))
