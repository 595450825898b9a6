# SPDX-License-Identifier: PostgreSQL
"""The wait events and wait classes of an Oracle report, by their whole names.

Text reports cut names, at 30 characters in the top events and at 26 to 28 below, so the same event
has two names in one report.  A name that was cut is completed from the list of events that matter
here.  Events of background processes are not waits of clients.  Releases before 11 print the events
of all sessions together; those of background processes are subtracted, event by event.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pgflash.advise.awr_tables import AwrTable

#: Reads of one block, of several blocks, and of tables that storage filters.
SINGLE_READS = ("db file sequential read", "cell single block physical read")
MULTI_READS = (
    "db file scattered read",
    "db file parallel read",
    "direct path read",
    "direct path read (lob)",
    "cell multiblock physical read",
    "cell list of blocks physical read",
    "cell smart table scan",
    "cell smart index scan",
    "disk file mirror read",
)
#: Of them, those that do not go through the buffer cache.
DIRECT_READS = (
    "direct path read",
    "direct path read (lob)",
    "cell smart table scan",
    "cell smart index scan",
)
FLASH_READS = (
    "db flash cache single block physical read",
    "db flash cache multiblock physical read",
    *(
        f"cell {what} physical read: {where}"
        for what in ("single block", "multiblock", "list of blocks")
        for where in ("flash cache", "pmem cache", "xrmem cache", "rdma")
    ),
)
TEMP_READS = ("direct path read temp",)
TEMP_WRITES = ("direct path write temp",)
#: Clients' own writes to data files.
WRITES = (
    "direct path write",
    "direct path write (lob)",
    "local write wait",
    "data file init write",
    "db file single write",
)
#: The other events of class User I/O.
_OTHER_IO = (
    "disk file operations i/o",
    "direct path sync",
    "bfile read",
    "utl_file i/o",
    "external table read",
)
BUFFER_WAIT = "read by other session"
LOG_WRITE = "log file parallel write"
DATA_WRITE = "db file parallel write"
_KNOWN = (
    *SINGLE_READS,
    *MULTI_READS,
    *FLASH_READS,
    *TEMP_READS,
    *TEMP_WRITES,
    *WRITES,
    *_OTHER_IO,
    BUFFER_WAIT,
    LOG_WRITE,
    DATA_WRITE,
    "log file sync",
    "free buffer waits",
)
#: A name this long may have been cut.
_CUT_MIN = 18

_NUMBER = re.compile(
    r"^([+-]?)((?:[\d,]*\.?\d+|\d[\d,]*\.)(?:E[+-]?\d+)?)\s*(ns|us|ms|s|K|M|G|T|%)?$", re.I
)
_TIMES = {"": 1.0, "%": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_THOUSANDS = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
#: The head of a column of seconds; not "Total Waits" of a histogram.
_SECONDS = re.compile(r"^(tot(a|al)?)?(wait)?(ti|tim|time)(s|sec)?$|^total?wait$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A row of events or classes, as numbers; None if nothing was printed."""

    waits: float | None
    seconds: float
    share: float | None
    sessions: float | None = None
    wait_class: str = ""

    def less(self, other: "Event") -> "Event":
        """Return it without the part of background processes."""
        waits = None if self.waits is None else max(self.waits - (other.waits or 0.0), 0.0)
        return replace(self, waits=waits, seconds=max(self.seconds - other.seconds, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """All that a report says of waits."""

    #: Waits of clients.
    events: Mapping[str, Event]
    background: Mapping[str, Event]
    #: Of clients, if the report has those; else of all sessions.
    classes: Mapping[str, Event]
    #: Of all sessions; it has the background's writes.
    all_classes: Mapping[str, Event]
    #: An event has different numbers of waits: the report covers two periods.
    is_mixed: bool = False
    #: Names were cut so that they fit several events.
    ambiguous: frozenset[str] = frozenset()

    def seconds(self, names: Iterable[str]) -> float:
        """Return the time of some events."""
        return sum(self.events[name].seconds for name in names if name in self.events)

    def waits(self, names: Iterable[str]) -> float:
        """Return the waits of some events."""
        return sum(self.events[name].waits or 0.0 for name in names if name in self.events)

    def class_seconds(self, name: str, beginnings: tuple[str, ...]) -> float:
        """Return a class's time, or that of its events if no classes are printed."""
        if name in self.classes:
            return self.classes[name].seconds
        return sum(
            event.seconds
            for event_name, event in self.events.items()
            if (event.wait_class and name.startswith(event.wait_class))
            or event_name.startswith(beginnings)
        )

    def not_reads(self) -> tuple[float, float]:
        """Return the waits and seconds of class User I/O that are neither reads nor known."""
        return self.waits(_OTHER_IO), self.seconds(_OTHER_IO)


@dataclass(slots=True)
class _Taken:
    """Rows by name, of one kind of table."""

    rows: dict[str, Event] = field(default_factory=dict)

    def add(self, name: str, event: Event) -> bool:
        """Add a row unless it is there, perhaps cut elsewhere; False: it is, and differs."""
        there = self.rows.get(name)
        if there is not None:
            return there.waits == event.waits or None in (there.waits, event.waits)
        for other, row in self.rows.items():
            cut = min(len(name), len(other)) >= _CUT_MIN
            same = name.startswith(other) or other.startswith(name)
            if cut and same and row.waits == event.waits:
                return True
        self.rows[name] = event
        return True


def read_events(tables: Iterable[AwrTable]) -> Events:
    """Read the tables of events and classes, and CPU time."""
    clients, everyone, background = _Taken(), _Taken(), _Taken()
    client_classes, all_classes = _Taken(), _Taken()
    is_mixed = False
    ambiguous: set[str] = set()
    for table in tables:
        if seconds_column(table) is None:
            continue
        ours = table.is_about("foreground")
        if table.place("Wait Class") == 0:
            _take(client_classes if ours else all_classes, table, set())
        elif table.place("Event") == 0:
            if table.is_about("background") or table.place("% bg") is not None:
                _take(background, table, set())
            else:
                fits = _take(clients if ours else everyone, table, ambiguous)
                is_mixed = is_mixed or (table.pasted and not fits)
        elif table.place("Statistic") == 0 and table.place("Total") is None:
            _take(clients, _only(table, ("DB CPU",)), set())
    if any(name != "db cpu" for name in clients.rows):
        events = clients.rows
        events.setdefault("db cpu", everyone.rows.get("db cpu", _NOTHING))
    else:
        events = {
            name: event.less(background.rows.get(name, _NOTHING))
            for name, event in everyone.rows.items()
        }
        events |= clients.rows
    return Events(
        events={name: event for name, event in events.items() if event != _NOTHING},
        background=background.rows,
        classes=client_classes.rows or all_classes.rows,
        all_classes=all_classes.rows,
        is_mixed=is_mixed,
        ambiguous=frozenset(ambiguous),
    )


_NOTHING = Event(waits=None, seconds=0.0, share=None)


def seconds_column(table: AwrTable) -> int | None:
    """Return the column of total times, or None."""
    for index, head in enumerate(table.heads):
        words = re.sub(r"[^a-z]", "", head.lower())
        if _SECONDS.match(words) and index > 0:
            return index
    return None


def _take(into: _Taken, table: AwrTable, ambiguous: set[str]) -> bool:
    """Add a table's rows; the first of a name stays (the top events precede all events)."""
    waits = table.place("Waits")
    total = seconds_column(table)
    average = table.place("Avg wait", "Wait Avg", "Average Wait", "Avg")
    share = table.place("% DB time", "% of DB Time", "%DB time", "% DB", "% Total", "%Total")
    sessions = table.place("Avg Active", "Average Active")
    kind = table.place("Wait Class", "Class")
    fits = True
    for row in table.rows:
        printed = " ".join(row[0].lower().split())
        seconds = number(table.cells(total, row))
        if not printed or seconds is None:
            continue
        count = number(table.cells(waits, row))
        if not seconds and count:
            seconds = count * _average_s(table.cells(average, row))
        percent = number(table.cells(share, row))
        event = Event(
            waits=count,
            seconds=seconds,
            share=None if percent is None else percent / 100,
            sessions=number(table.cells(sessions, row)),
            wait_class=table.cells(kind, row).lower() if kind != 0 else "",
        )
        name, others = whole_name(printed)
        if others:
            ambiguous.add(printed)
        fits = into.add(name, event) and fits
    return fits


def whole_name(name: str) -> tuple[str, bool]:
    """Return an event's whole name, and whether the cut name also fits others."""
    if name == "cpu time":
        return "db cpu", False
    if name.startswith("db flash cache single"):
        return FLASH_READS[0], False
    if name.startswith("db flash cache multi"):
        return FLASH_READS[1], False
    if name in _KNOWN or len(name) < _CUT_MIN:
        return name, False
    whole = sorted((known for known in _KNOWN if known.startswith(name)), key=len)
    return (whole[0], len(whole) > 1) if whole else (name, False)


def _average_s(words: str) -> float:
    """Return an average wait; without a unit it is in milliseconds."""
    value = number(words) or 0.0
    return value if words and words[-1] in "sS" else value / 1000


def _only(table: AwrTable, names: tuple[str, ...]) -> AwrTable:
    return replace(table, rows=tuple(row for row in table.rows if row and row[0] in names))


def number(words: str) -> float | None:
    """Return a printed number: 14,404,027, 238.5K, .6, 1.E+03, 13.61ms (a time is in seconds)."""
    match = _NUMBER.match(words.strip())
    if match is None:
        return None
    value = float(match[2].replace(",", "")) * (-1 if match[1] == "-" else 1)
    unit = (match[3] or "").lower()
    return value * (_THOUSANDS.get(unit) or _TIMES[unit])
