# SPDX-License-Identifier: PostgreSQL
"""An Oracle AWR report as the work of a period: the same input as from our own report.

It reads events and wait classes by total wait time, time model, load profile, background events,
the head with elapsed time, DB time and processors, and segments by physical reads. An extract is
enough: missing values are derived from printed ones (DB time from a row's share, elapsed time from
a class's average active sessions, transactions from the waits for log file sync), and a note says
so.

The I/O of background processes (class System I/O) is not part of DB time; the number of its waits
is used as the number of writes if no better figure is printed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pgflash.advise.awr_tables import AwrTable, awr_tables, awr_words
from pgflash.advise.model import SECOND_THREAD
from pgflash.advise.work import Reads, Segment, Work
from pgflash.errors import PgflashError

_NUMBER = re.compile(r"^([+-]?)([\d,]*\.?\d+)\s*(us|ms|s|K|M|G|%)?$", re.I)
_TIMES = {"K": 1e3, "M": 1e6, "G": 1e9}
_BLOCK_BYTES = 8192

_DISK_READS = (
    "db file sequential read",
    "db file scattered read",
    "db file parallel read",
    "direct path read",
    "cell single block physical read",
    "cell multiblock physical read",
)
#: Text reports truncate names after 30 characters.
_FLASH_READS = ("db flash cache single block", "db flash cache multiblock")
_TEMP = ("direct path read temp", "direct path write temp")


class AwrFileError(PgflashError):
    """A file is not an AWR report, or lacks what advice needs."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """A row of events or classes, as numbers; None if nothing was printed."""

    waits: float | None
    seconds: float
    share: float | None
    sessions: float | None = None
    wait_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a report contains."""

    events: Mapping[str, _Event]
    background: Mapping[str, _Event]
    classes: Mapping[str, _Event]
    profile: Mapping[str, float]
    segments: tuple[Segment, ...]
    elapsed_s: float | None
    db_time_s: float | None
    cores: float | None


def work_of_awr(text: str, *, name: str) -> Work:
    """Read a report; NAME is the file's name in errors."""
    return work_of_extract(awr_tables(text), awr_words(text), name=name)


def work_of_extract(tables: Iterable[AwrTable], words: str, *, name: str) -> Work:
    """Read tables, and the lines of the head and the load profile."""
    found = _find(tables, words)
    if not found.events and not found.classes:
        raise AwrFileError(
            f'"{name}" is no AWR report: it has neither events nor wait classes',
            hint="Name the text or HTML that awrrpt.sql wrote, or an extract with its events.",
        )
    notes: list[str] = []
    db_time_s = found.db_time_s or _db_time(found)
    elapsed_s = found.elapsed_s or _elapsed(found)
    if not db_time_s:
        raise AwrFileError(
            f'"{name}" says nothing of DB time',
            hint="An extract needs the column % DB time of its events.",
        )
    if not elapsed_s:
        raise AwrFileError(
            f'"{name}" does not say how long the period was',
            hint='Add the line "Elapsed: 60.00 (mins)" of the report\'s head.',
        )
    if not found.elapsed_s:
        notes.append("Elapsed time is worked out from average active sessions.")
    transactions = _transactions(found, elapsed_s, notes)
    if not transactions:
        raise AwrFileError(
            f'"{name}" does not say how many transactions there were',
            hint="An extract needs its load profile, or the event log file sync.",
        )
    return _work(found, name, db_time_s, elapsed_s, transactions, notes)


def _work(
    found: _Found,
    name: str,
    db_time_s: float,
    elapsed_s: float,
    transactions: float,
    notes: list[str],
) -> Work:
    flash = _reads(found.events, _FLASH_READS)
    temp = _reads(found.events, _TEMP)
    buffer_s = _seconds(found.events, ("read by other session",))
    reads = _disk_reads(found, flash, temp, buffer_s)
    cpu_s = _seconds(found.events, ("db cpu",)) or _seconds(found.classes, ("db cpu",))
    cpu_s = cpu_s or found.profile.get("db cpu", 0.0) * elapsed_s
    commit_s = _class_s(found, "commit", ("log file sync",))
    write_s = _class_s(found, "configuration", ("free buffer waits", "log file switch"))
    lock_s = _class_s(found, "application", ("enq: tx",))
    known_s = cpu_s + reads.seconds + flash.seconds + temp.seconds
    known_s += buffer_s + commit_s + write_s + lock_s
    log = found.background.get("log file parallel write")
    return Work(
        source=f"AWR report {name}",
        elapsed_s=elapsed_s,
        transactions=transactions,
        db_time_s=max(db_time_s, known_s),
        cpu_s=cpu_s,
        cores=found.cores,
        reads=reads,
        flash=flash,
        writes=_writes(found, elapsed_s, notes),
        write_bytes=found.profile.get("physical write", 0.0) * _BLOCK_BYTES * elapsed_s,
        write_wait_s=write_s,
        temp=temp,
        commit_s=commit_s,
        syncs=log.waits if log else None,
        sync_s=log.seconds if log else None,
        wal_bytes=found.profile.get("redo size", 0.0) * elapsed_s,
        buffer_s=buffer_s,
        lock_s=lock_s,
        other_s=max(db_time_s - known_s, 0.0),
        segments=_segment_times(found.segments, reads),
        notes=tuple(notes),
    )


# Finding tables.


def _find(tables: Iterable[AwrTable], words: str) -> _Found:
    events: dict[str, _Event] = {}
    background: dict[str, _Event] = {}
    classes: dict[str, _Event] = {}
    segments: list[Segment] = []
    cores = None
    for table in tables:
        if table.place("Wait Class") == 0:
            _take(classes, table, 0)
        elif (place := table.place("Event")) == 0:
            # Background events have their share in "% bg time".
            _take(background if table.place("% bg") is not None else events, table, place)
        elif (place := table.place("Statistic Name")) == 0 and table.place("Time") is not None:
            _take(events, _only(table, ("DB CPU",)), place)
        elif table.place("Object Name") is not None and table.place("Physical Reads") is not None:
            segments += _segments(table)
        elif table.place("Cores") is not None and table.place("CPUs") is not None:
            cores = _cores(table) or cores
    return _Found(
        events=events,
        background=background,
        classes=classes,
        profile=_profile(words),
        segments=tuple(segments),
        elapsed_s=_minutes(words, "Elapsed"),
        db_time_s=_minutes(words, "DB Time"),
        cores=cores,
    )


def _take(into: dict[str, _Event], table: AwrTable, place: int) -> None:
    """Add a table's rows; the first of a name stays (the top events precede all events)."""
    waits = table.place("Waits")
    total = table.place("Total Wait Time", "Total Wait Tim", "Time (s)", "Time(s)", "Total Wait")
    share = table.place("% DB time", "% of DB Time", "%DB time", "% DB")
    sessions = table.place("Avg Active Sessions", "Avg Active")
    kind = table.place("Wait Class", "Class")
    for row in table.rows:
        name = " ".join(table.cells(place, row).lower().split())
        seconds = _number(table.cells(total, row))
        if not name or seconds is None or name in into:
            continue
        percent = _number(table.cells(share, row))
        into[name] = _Event(
            waits=_number(table.cells(waits, row)),
            seconds=seconds,
            share=None if percent is None else percent / 100,
            sessions=_number(table.cells(sessions, row)),
            wait_class=table.cells(kind, row).lower() if kind != place else "",
        )


def _only(table: AwrTable, names: tuple[str, ...]) -> AwrTable:
    rows = tuple(row for row in table.rows if row and row[0] in names)
    return AwrTable(heads=table.heads, rows=rows)


def _profile(words: str) -> dict[str, float]:
    """Return the load profile's figures per second, by the first words of their names."""
    wanted = {
        "db cpu": r"DB CPU\(s\)",
        "redo size": r"Redo size(?: \(bytes\))?",
        "physical write": r"Physical writes?(?: \(blocks\))?",
        "write requests": r"Write IO requests",
        "transactions": r"Transactions",
    }
    found = {}
    for name, pattern in wanted.items():
        match = re.search(rf"^\s*{pattern}:\s+([\d,.]+)", words, re.M)
        if match and (value := _number(match[1])) is not None:
            found[name] = value
    return found


def _minutes(words: str, name: str) -> float | None:
    match = re.search(rf"\b{name}:\s+([\d,.]+)\s*\(mins\)", words)
    value = _number(match[1]) if match else None
    return 60 * value if value else None


def _cores(table: AwrTable) -> float | None:
    """Return processors: a core's second thread is worth a quarter of a core."""
    row = table.rows[0]
    threads = _number(table.cells(table.place("CPUs"), row))
    cores = _number(table.cells(table.place("Cores"), row))
    if not cores:
        return threads
    return cores * (1 + SECOND_THREAD) if threads and threads > cores else cores


def _segments(table: AwrTable) -> list[Segment]:
    owner, name = table.place("Owner"), table.place("Object Name")
    space, kind = table.place("Tablespace"), table.place("Obj. Type", "Obj. Typ", "Type")
    reads = table.place("Physical Reads", "Phys Reads")
    found = []
    for row in table.rows:
        count = _number(table.cells(reads, row))
        if count is not None:
            found.append(
                Segment(
                    name=f"{table.cells(owner, row)}.{table.cells(name, row)}",
                    database="",
                    tablespace=table.cells(space, row),
                    kind=table.cells(kind, row).lower().split(" ")[0],
                    reads=count,
                )
            )
    return found


# Deriving what is not printed.


def _db_time(found: _Found) -> float | None:
    """Return the DB time implied by the row with the largest share."""
    rows = [*found.events.values(), *found.classes.values()]
    known = [(row.share, row.seconds) for row in rows if row.share and row.share > 0]
    if not known:
        return None
    share, seconds = max(known)
    return seconds / share


def _elapsed(found: _Found) -> float | None:
    known = [(row.sessions, row.seconds) for row in found.classes.values() if row.sessions]
    if not known:
        return None
    sessions, seconds = max(known)
    return seconds / sessions


def _transactions(found: _Found, elapsed_s: float, notes: list[str]) -> float | None:
    if per_s := found.profile.get("transactions"):
        return per_s * elapsed_s
    for row in (found.events.get("log file sync"), found.classes.get("commit")):
        if row is not None and row.waits:
            notes.append("Transactions are the waits for log file sync.")
            return row.waits
    return None


def _writes(found: _Found, elapsed_s: float, notes: list[str]) -> float | None:
    if requests := found.profile.get("write requests"):
        return requests * elapsed_s
    system = found.classes.get("system i/o")
    if system is None or not system.waits:
        notes.append("Writes are not known: what they take of the array is not in the model.")
        return None
    notes.append("Writes are the waits of class System I/O, fewer than there were.")
    return system.waits


def _disk_reads(found: _Found, flash: Reads, temp: Reads, buffer_s: float) -> Reads:
    """Return the reads from disk by their events, else by the rest of class User I/O."""
    named = _reads(found.events, _DISK_READS)
    whole = found.classes.get("user i/o")
    if whole is None:
        return named
    seconds = max(whole.seconds - flash.seconds - temp.seconds - buffer_s, 0.0)
    count = named.count or max((whole.waits or 0.0) - flash.count - temp.count, 0.0)
    return Reads(count=count, bytes=count * _BLOCK_BYTES, seconds=seconds if count else 0.0)


def _reads(events: Mapping[str, _Event], names: Iterable[str]) -> Reads:
    mine = [
        event
        for name, event in events.items()
        if any(name == one or (name.startswith(one) and one in _FLASH_READS) for one in names)
    ]
    count = sum(event.waits or 0.0 for event in mine)
    seconds = sum(event.seconds for event in mine)
    return Reads(count=count, bytes=count * _BLOCK_BYTES, seconds=seconds)


def _class_s(found: _Found, name: str, beginnings: tuple[str, ...]) -> float:
    """Return a class's time, or that of its events if no classes are printed."""
    if name in found.classes:
        return found.classes[name].seconds
    return sum(
        event.seconds
        for event_name, event in found.events.items()
        if event.wait_class == name or event_name.startswith(beginnings)
    )


def _seconds(events: Mapping[str, _Event], names: tuple[str, ...]) -> float:
    return sum(events[name].seconds for name in names if name in events)


def _segment_times(segments: tuple[Segment, ...], reads: Reads) -> tuple[Segment, ...]:
    """Give each segment its part of the reads' time: an AWR report has only counts."""
    return tuple(
        Segment(
            name=one.name,
            database=one.database,
            tablespace=one.tablespace,
            kind=one.kind,
            reads=one.reads,
            read_s=one.reads * reads.mean_ms / 1000,
        )
        for one in segments
    )


def _number(words: str) -> float | None:
    """Return a printed number: 14,404,027, 238.5K, .6, 13.61ms (a time is in seconds)."""
    match = _NUMBER.match(words.strip())
    if match is None:
        return None
    value = float(match[2].replace(",", "")) * (-1 if match[1] == "-" else 1)
    unit = match[3] or ""
    if unit in ("us", "ms"):
        return value / (1e6 if unit == "us" else 1e3)
    return value * _TIMES.get(unit.upper(), 1.0)
