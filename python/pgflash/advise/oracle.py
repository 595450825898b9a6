# SPDX-License-Identifier: PostgreSQL
"""An Oracle AWR or Statspack report as the work of a period: as from our own report.

It reads events and wait classes by total wait time, time model, load profile, background events,
the head with elapsed time, DB time and processors, instance activity, cache sizes, the Buffer Pool
Advisory, and segments by physical reads and writes.  An extract is enough: missing values are
derived from printed ones (DB time from a row's share, elapsed time from a class's average active
sessions, transactions from the waits for log file sync), and a note says so.

Reads are counted in waits.  How large they were follows from the load profile's blocks: an event of
single-block reads reads one block a wait, and what is left belongs to the others.  The I/O of
background processes (class System I/O) is not part of DB time.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pgflash.advise import awr_events as known
from pgflash.advise.awr_events import Events, number, read_events
from pgflash.advise.awr_objects import (
    advisory_curve,
    block_bytes,
    buffer_cache_bytes,
    extended,
    read_segments,
    through_buffers,
)
from pgflash.advise.awr_tables import AwrTable, read_awr
from pgflash.advise.model import SECOND_THREAD
from pgflash.advise.sizes import CACHE_FACTOR
from pgflash.advise.work import CurvePoint, Reads, Segment, Work
from pgflash.errors import PgflashError
from pgflash.model.words import count, figure, listed, percent, size

_BLOCK_BYTES = 8192
_REST = 0.1
#: For fewer transactions a second, the load profile's one decimal is too coarse.
_FEW = 100.0
#: Waits whose share of DB time is worth a note.
_WORTH = 0.02

#: Where a report says what it is: its first characters, styles included.
_HEAD = 8_000
#: Other reports of Oracle, which lack these events, and what they are.
_OTHER_REPORTS = (
    (r"WORKLOAD REPOSITORY REPORT \(RAC\)|<title>\s*AWR RAC Report", "covers a whole cluster"),
    (r"WORKLOAD REPOSITORY COMPARE PERIOD|AWR Compare Period", "compares two periods"),
    (r"WORKLOAD REPOSITORY SQL Report|STATSPACK SQL report", "is about one statement"),
    (r"\bASH Report For\b", "has samples of sessions but no counts"),
    (r"\bADDM Report for\b|ADDM Task '", "has findings but no counts"),
    (r"\A%PDF-", "is a PDF file"),
)


class AwrFileError(PgflashError):
    """A file is not an AWR report, or lacks what advice needs."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a report contains."""

    waits: Events
    tables: Sequence[AwrTable]
    words: str
    profile: Mapping[str, float]
    activity: Mapping[str, float]
    elapsed_s: float | None
    db_time_s: float | None
    block_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Period:
    """Its length and its work, printed or worked out."""

    name: str
    elapsed_s: float
    db_time_s: float
    transactions: float


def work_of_awr(
    text: str,
    *,
    name: str,
    database_bytes: float | None = None,
    flash_bytes: float | None = None,
) -> Work:
    """Read a report; NAME is the file's name in errors.

    The sizes of the database and of the flash are not in a report; they continue its Buffer Pool
    Advisory.
    """
    for pattern, what in _OTHER_REPORTS:
        if re.search(pattern, text[:_HEAD]):
            raise AwrFileError(
                f'"{name}" {what}, which is not read',
                hint="Name the AWR report of one instance and one period, as awrrpt.sql writes it.",
            )
    tables, words = read_awr(text)
    work = work_of_extract(tables, words, name=name)
    return _with_curve(work, tables, words, database_bytes, flash_bytes)


def work_of_extract(tables: Iterable[AwrTable], words: str, *, name: str) -> Work:
    """Read tables, and the lines of the head and the load profile."""
    found = _find(list(tables), words)
    waits = found.waits
    if not waits.events and not waits.classes:
        raise AwrFileError(
            f'"{name}" is not an AWR report: it has neither events nor wait classes',
            hint="Name what awrrpt.sql or spreport.sql wrote, or an extract with its events.",
        )
    if waits.is_mixed:
        raise AwrFileError(
            f'"{name}" has the events of two periods',
            hint="Keep the tables of one of them.",
        )
    notes: list[str] = []
    db_time_s = found.db_time_s or _db_time(waits)
    elapsed_s = found.elapsed_s or _elapsed(waits)
    if not db_time_s:
        raise AwrFileError(
            f'"{name}" does not contain DB time',
            hint="An extract needs the column % DB time of its events.",
        )
    if not elapsed_s:
        raise AwrFileError(
            f'"{name}" does not say how long the period was',
            hint='Add the line "Elapsed: 60.00 (mins)" of the report\'s head.',
        )
    if not found.elapsed_s:
        notes.append("Elapsed time is derived from average active sessions.")
    transactions = _transactions(found, elapsed_s, notes)
    period = _Period(name=name, elapsed_s=elapsed_s, db_time_s=db_time_s, transactions=transactions)
    return _work(found, period, notes)


def _work(found: _Found, period: _Period, notes: list[str]) -> Work:
    waits, elapsed_s = found.waits, period.elapsed_s
    reads, flash, temp = _all_reads(found, elapsed_s, notes)
    buffer_s = waits.seconds((known.BUFFER_WAIT,))
    cpu_s = waits.seconds(("db cpu",)) or _cpu_of_classes(waits)
    cpu_s = cpu_s or found.profile.get("db cpu", 0.0) * elapsed_s
    commit_s = waits.class_seconds("commit", ("log file sync",))
    write_s = waits.class_seconds("configuration", ("free buffer waits", "log file switch"))
    write_s += waits.seconds(known.WRITES)
    lock_s = waits.class_seconds("application", ("enq: tx",))
    known_s = cpu_s + reads.seconds + flash.seconds + temp.seconds
    known_s += buffer_s + commit_s + write_s + lock_s
    db_time_s = max(period.db_time_s, known_s)
    log = waits.background.get(known.LOG_WRITE) or waits.events.get(known.LOG_WRITE)
    writes, write_bytes = _writes(found, elapsed_s, notes)
    segments = read_segments(
        found.tables,
        found.words,
        reads,
        writes or 0.0,
        blocks_read=found.profile.get("physical read", 0.0) * elapsed_s,
    )
    _note_segments(segments, reads, notes)
    _note_names(waits, db_time_s, notes)
    _note_rest(waits, cpu_s, db_time_s, notes)
    _note_cluster(found, db_time_s, notes)
    return Work(
        source=f"AWR report {period.name}",
        elapsed_s=elapsed_s,
        transactions=period.transactions,
        db_time_s=db_time_s,
        cpu_s=cpu_s,
        cores=_cores(found, cpu_s / elapsed_s, notes),
        reads=reads,
        flash=flash,
        writes=writes,
        write_bytes=write_bytes,
        write_wait_s=write_s,
        temp=temp,
        commit_s=commit_s,
        syncs=log.waits if log else None,
        sync_s=log.seconds if log else None,
        wal_bytes=found.profile.get("redo size", 0.0) * elapsed_s,
        buffer_s=buffer_s,
        lock_s=lock_s,
        other_s=max(db_time_s - known_s, 0.0),
        segments=segments,
        oracle=True,
        buffers_bytes=buffer_cache_bytes(found.words),
        direct_part=waits.waits(known.DIRECT_READS) / reads.count if reads.count else 0.0,
        notes=tuple(notes),
    )


def _with_curve(
    work: Work,
    tables: Sequence[AwrTable],
    words: str,
    database_bytes: float | None,
    flash_bytes: float | None,
) -> Work:
    """Return the work with what flash caches of several sizes would serve, and why if unknown."""
    buffers = work.buffers_bytes
    if work.flash.count:
        said = "Oracle's flash cache already served reads: a larger one is not predicted."
        return replace(work, notes=(*work.notes, said))
    curve: tuple[CurvePoint, ...] = advisory_curve(tables, buffers)
    direct = work.direct_part
    notes = list(work.notes)
    if curve and database_bytes and buffers:
        largest = flash_bytes or CACHE_FACTOR * buffers
        sizes = [buffers * factor for factor in (2, 4, 8, 16, 32)]
        curve = extended(
            curve,
            database_bytes=database_bytes,
            buffers_bytes=buffers,
            sizes=[one for one in (*sizes, largest) if one <= largest],
        )
        # Flash that is smaller than the advisory's first step is judged by that step.
        curve = tuple(point for point in curve if point.size_bytes <= largest) or curve
    elif curve:
        lacks = [] if database_bytes else ["the size of the database (--database-size)"]
        lacks += [] if buffers else ["the size of the buffer cache (Cache Sizes in the report)"]
        notes.append(
            f"The Buffer Pool Advisory ends with a flash cache of {size(curve[-1].size_bytes)}: "
            f"a larger one is not predicted without {listed(lacks)}."
        )
    elif not database_bytes:
        notes.append(
            "A flash cache is not predicted: there is no Buffer Pool Advisory with sizes "
            "beyond the present one. Give the size of the database with --database-size."
        )
    if (curve or database_bytes) and direct >= _WORTH:
        notes.append(
            f"{percent(direct)} of the reads do not go through the buffer cache, nor, in Oracle, "
            "through a flash cache."
        )
    return replace(work, curve=through_buffers(curve, 1 - direct), notes=tuple(notes))


# Finding values.


def _find(tables: list[AwrTable], words: str) -> _Found:
    activity = _activity(tables)
    return _Found(
        waits=read_events(tables),
        tables=tables,
        words=words,
        profile=_profile(words),
        activity=activity,
        elapsed_s=_minutes(words, "Elapsed"),
        db_time_s=_time_model(tables, "DB time") or _minutes(words, "DB Time"),
        block_bytes=block_bytes(words) or _BLOCK_BYTES,
    )


def _profile(words: str) -> dict[str, float]:
    """Return the load profile's figures per second, by the first words of their names."""
    wanted = {
        "db cpu": r"DB CPU\(s\)",
        "redo size": r"Redo size(?: \(bytes\))?",
        "physical read": r"Physical reads?(?: \(blocks\))?",
        "physical write": r"Physical writes?(?: \(blocks\))?",
        "write requests": r"Write IO requests",
        "transactions": r"Transactions",
    }
    found = {}
    for name, pattern in wanted.items():
        match = re.search(
            rf"^[ \t|*]*{pattern}:[ \t|]+([\d,.]+)(?:[ \t|]+([\d,.]+))?", words, re.M | re.I
        )
        if match is None or (value := number(match[1])) is None:
            continue
        found[name] = value
        each = number(match[2] or "")
        if name == "redo size" and value and each:
            # More digits than the line Transactions has.
            found["exact transactions"] = value / each
    return found


def _minutes(words: str, name: str) -> float | None:
    match = re.search(rf"\b{name}:[\s|]+([\d,.]+)\s*\(?(min|sec|h)", words, re.I)
    value = number(match[1]) if match else None
    return value * {"m": 60, "s": 1, "h": 3600}[match[2][0].lower()] if match and value else None


def _time_model(tables: Iterable[AwrTable], name: str) -> float | None:
    for table in tables:
        place = known.seconds_column(table)
        if table.place("Statistic") == 0 and table.place("Total") is None and place is not None:
            for row in table.rows:
                if row[0].lower() == name.lower():
                    return number(table.cells(place, row))
    return None


def _activity(tables: Iterable[AwrTable]) -> dict[str, float]:
    """Return the totals of instance activity."""
    found: dict[str, float] = {}
    for table in tables:
        total = table.place("Total")
        if table.place("Statistic") != 0 or total != 1:
            continue
        for row in table.rows:
            value = number(table.cells(total, row))
            if value is not None:
                found.setdefault(row[0].lower(), value)
    return found


def _cores(found: _Found, used: float, notes: list[str]) -> float | None:
    """Return processors, in processors as they are used.

    A core's second thread is worth a quarter of a core.  While only first threads run, 20 cores
    with two threads each are worth 25; where all 40 threads run, each is slower, and CPU time
    is that of 40.
    """
    threads, cores = _processors(found)
    if not threads or not cores or threads <= cores:
        return cores or threads
    whole = cores * (1 + SECOND_THREAD)
    seconds = min(max(used - cores, 0.0) / (threads - cores), 1.0)
    if not seconds:
        return whole
    busy = cores * (1 + SECOND_THREAD * seconds)
    notes.append(
        f"{figure(used)} of {count(threads)} threads were in use on average: with a core's second "
        f"thread worth a quarter of it, {percent(busy / whole)} of what {count(cores)} cores can "
        "do."
    )
    return whole * min(used, threads) / busy


def _processors(found: _Found) -> tuple[float | None, float | None]:
    """Return threads and cores."""
    for table in found.tables:
        threads, cores = table.place("CPUs"), table.place("Cores")
        if threads is not None and cores is not None and table.rows:
            row = table.rows[0]
            count = number(table.cells(threads, row))
            if count:
                return count, number(table.cells(cores, row))
    words = found.words
    match = re.search(r"CPUs:\s*(\d+)\s+Cores:\s*(\d+)", words)
    if match:
        return float(match[1]), float(match[2])
    counts = [re.search(rf"\b{name}\b[\s|]+(\d+)", words) for name in ("NUM_CPUS", "NUM_CPU_CORES")]
    threads_said, cores_said = (float(one[1]) if one else None for one in counts)
    return threads_said, cores_said


# Deriving what is not printed.


def _db_time(waits: Events) -> float | None:
    """Return the DB time implied by the row with the largest share."""
    rows = [*waits.events.values(), *waits.classes.values()]
    shares = [(row.share, row.seconds) for row in rows if row.share and row.share > 0]
    if not shares:
        return None
    share, seconds = max(shares)
    return seconds / share


def _elapsed(waits: Events) -> float | None:
    printed = [(row.sessions, row.seconds) for row in waits.classes.values() if row.sessions]
    if not printed:
        return None
    sessions, seconds = max(printed)
    return seconds / sessions


def _cpu_of_classes(waits: Events) -> float:
    row = waits.classes.get("db cpu") or waits.all_classes.get("db cpu")
    return row.seconds if row else 0.0


def _transactions(found: _Found, elapsed_s: float, notes: list[str]) -> float:
    counted = found.activity.get("user commits", 0.0) + found.activity.get("user rollbacks", 0.0)
    profile = found.profile
    per_s = profile.get("transactions", 0.0)
    if per_s < _FEW:
        per_s = profile.get("exact transactions", per_s)
    if counted or per_s:
        return counted or per_s * elapsed_s
    waits = found.waits
    for row in (waits.events.get("log file sync"), waits.classes.get("commit")):
        if row is not None and row.waits:
            notes.append("Transactions are the waits for log file sync.")
            return row.waits
    notes.append(
        "Transactions are not counted: one per second is assumed, so only ratios are meaningful."
    )
    return elapsed_s


def _writes(found: _Found, elapsed_s: float, notes: list[str]) -> tuple[float | None, float]:
    """Return the writes of data files and their bytes."""
    profile = found.profile
    blocks = profile.get("physical write", 0.0) * elapsed_s
    volume = blocks * found.block_bytes
    if requests := profile.get("write requests"):
        return requests * elapsed_s, volume
    if blocks:
        notes.append(
            "Writes are the blocks that were written: the number of requests cannot be larger."
        )
        return blocks, volume
    data = found.waits.background.get(known.DATA_WRITE)
    system = found.waits.all_classes.get("system i/o") or found.waits.classes.get("system i/o")
    if data is not None and data.waits:
        notes.append("Writes are the waits for db file parallel write, fewer than there were.")
        return data.waits, data.waits * found.block_bytes
    if system is not None and system.waits:
        notes.append("Writes are the waits of class System I/O, fewer than there were.")
        return system.waits, system.waits * found.block_bytes
    notes.append("Writes are not known: their load on the array is not in the model.")
    return None, 0.0


def _all_reads(found: _Found, elapsed_s: float, notes: list[str]) -> tuple[Reads, Reads, Reads]:
    """Return the reads from disk, from a flash cache, and of temporary files."""
    waits, block = found.waits, found.block_bytes
    flash = _of_blocks(waits, known.FLASH_READS, block)
    temp_count = waits.waits(known.TEMP_READS + known.TEMP_WRITES)
    temp_s = waits.seconds(known.TEMP_READS + known.TEMP_WRITES)
    single = waits.waits(known.SINGLE_READS)
    multi = waits.waits(known.MULTI_READS)
    count = single + multi
    seconds = waits.seconds(known.SINGLE_READS + known.MULTI_READS)
    whole = waits.classes.get("user i/o")
    if whole is not None:
        # Events of the class that are not listed otherwise are reads.
        apart = (*known.WRITES, known.BUFFER_WAIT)
        other_waits, other_s = waits.not_reads()
        rest = (whole.waits or 0.0) - flash.count - temp_count - waits.waits(apart) - other_waits
        count = max(count, rest)
        seconds = max(
            whole.seconds - flash.seconds - temp_s - waits.seconds(apart) - other_s, seconds
        )
    unlisted = count - single - multi
    large = multi + waits.waits(known.TEMP_READS)
    volume = found.profile.get("physical read", 0.0) * elapsed_s * block - flash.bytes
    each = max((volume - (single + unlisted) * block) / large, block) if large else block
    if not volume > 0:
        each = block
        waited = waits.seconds(known.MULTI_READS)
        if seconds and waited / seconds >= 0.1:
            notes.append(
                f"The size of multi-block reads is not known: they count as {size(block)} "
                "each, though they may have been 1 MB. The load profile says it."
            )
    read_bytes = (single + unlisted) * block + multi * each
    if not large:
        read_bytes = max(read_bytes, volume)
    reads = Reads(count=count, bytes=read_bytes, seconds=seconds if count else 0.0)
    return reads, flash, Reads(count=temp_count, bytes=temp_count * each, seconds=temp_s)


def _of_blocks(waits: Events, names: tuple[str, ...], block: float) -> Reads:
    count = waits.waits(names)
    return Reads(count=count, bytes=count * block, seconds=waits.seconds(names))


# The remarks.


def _note_segments(segments: Sequence[Segment], reads: Reads, notes: list[str]) -> None:
    listed = sum(one.reads for one in segments[:-1])
    if listed and listed < 0.995 * reads.count:
        notes.append(
            f"The listed segments have {percent(listed / reads.count)} of the reads; other "
            f"candidates are not in the report."
        )


def _note_names(waits: Events, db_time_s: float, notes: list[str]) -> None:
    printed_as = {known.whole_name(one)[0]: one for one in sorted(waits.ambiguous, key=len)}
    for whole, printed in sorted(printed_as.items()):
        if waits.seconds((whole,)) / db_time_s >= _WORTH:
            notes.append(
                f'"{printed}" was cut: it is taken for {whole}, from disk. Whether a cache of the '
                "storage served it is in the HTML report, which has whole names."
            )


def _note_rest(waits: Events, cpu_s: float, db_time_s: float, notes: list[str]) -> None:
    """Say how much of DB time is neither CPU time nor waits."""
    if not waits.classes:
        return
    waited = math.fsum(row.seconds for name, row in waits.classes.items() if name != "db cpu")
    rest = 1 - (cpu_s + waited) / db_time_s
    if rest >= _REST:
        notes.append(
            f"{percent(rest)} of DB time is neither CPU time nor a wait, such as waiting "
            f"for a processor. It is counted as other waits, which stay."
        )


def _note_cluster(found: _Found, db_time_s: float, notes: list[str]) -> None:
    cluster = found.waits.classes.get("cluster")
    if cluster is not None and cluster.seconds / db_time_s >= _WORTH:
        notes.append(
            "It is one instance of a cluster: the load of the others on the array is not "
            f"included, and waits for their blocks ({percent(cluster.seconds / db_time_s)} of DB "
            "time) stay."
        )
