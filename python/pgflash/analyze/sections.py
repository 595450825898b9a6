# SPDX-License-Identifier: PostgreSQL
"""Subtract and add up sections: the arithmetic below every number of a report.

A section is a table.  Declared for each (definitions/snapshot_sections.toml) are the columns that
identify a row (the key), the numbers that are not counts (gauges: taken from the later section),
the counts of 32 bits, and what a smaller value in the later section means.  Any other number is a
count; anything else (names, modes) is taken from the later section.

    subtract(before, after)     what was counted between two snapshots
    add(deltas)                 what was counted in several consecutive periods

What is always true: no difference is negative; a new row began at zero; the counts of A..B and of
B..C add up to those of A..C, since A..C is computed in just that way.  A row that is gone (a
dropped database) keeps its counts from the periods in which it existed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from pgflash.model.snapshot import Falls, Row, Section, SectionDefinition, SectionKind, Value
from pgflash.model.snapshot_sections import SECTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Counters that started over within a period."""

    section: str
    #: The row in words; "" if the section has only one.
    row: str
    #: ISO 8601; "" if the time was not recorded.
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happened to a section between two snapshots."""

    section: Section
    resets: tuple[Reset, ...] = ()
    #: Counters that never fall have fallen: the server restarted after a crash.
    restarted: bool = False


#: The assumption about an undeclared section: a counter of one row.
_UNKNOWN = SectionDefinition(name="", kind=SectionKind.COUNTER)


def subtract(before: Section | None, after: Section) -> Change:
    """Return AFTER's counts in excess of BEFORE's; without a BEFORE nothing is known."""
    shape = SECTIONS.get(after.name, _UNKNOWN)
    if before is None:
        empty = Section(name=after.name, kind=SectionKind.DELTA, columns=after.columns, rows=())
        return Change(section=empty)
    old = _by_key(before, shape)
    counted = _counted(after.columns, shape)
    place = {column: i for i, column in enumerate(before.columns)}
    rows, resets, restarted = [], [], False
    for key, row in _by_key(after, shape).items():
        was = old.get(key)
        aligned = None if was is None else [_at(was, place.get(c)) for c in after.columns]
        if aligned is not None and shape.wraps:
            aligned = _before_wraps(aligned, row, after.columns, shape)
        if aligned is not None and _was_reset(aligned, row, after.columns, counted, shape):
            at = _at(row, _index(after.columns, shape.reset))
            resets.append(Reset(section=after.name, row=_said(key), at=str(at or "")))
            restarted = restarted or shape.falls is Falls.RESTART
            aligned = None
        rows.append(
            row
            if aligned is None
            else tuple(
                _less(then, now) if is_count else now
                for then, now, is_count in zip(aligned, row, counted, strict=True)
            )
        )
    section = Section(
        name=after.name, kind=SectionKind.DELTA, columns=after.columns, rows=tuple(rows)
    )
    return Change(section=section, resets=tuple(resets), restarted=restarted)


def add(deltas: Sequence[Section]) -> Section:
    """Return the sum of the deltas, given in their order in time."""
    last = deltas[-1]
    shape = SECTIONS.get(last.name, _UNKNOWN)
    columns = tuple(dict.fromkeys(column for delta in deltas for column in delta.columns))
    counted = _counted(columns, shape)
    sums: dict[tuple[Value, ...], list[Value]] = {}
    for delta in deltas:
        place = {column: i for i, column in enumerate(delta.columns)}
        places = [place.get(column) for column in columns]
        for key, row in _by_key(delta, shape).items():
            aligned = [_at(row, one) for one in places]
            total = sums.get(key)
            if total is None:
                sums[key] = aligned
                continue
            for i, value in enumerate(aligned):
                if counted[i]:
                    total[i] = _plus(total[i], value)
                elif value is not None:
                    total[i] = value
    return Section(
        name=last.name,
        kind=SectionKind.DELTA,
        columns=columns,
        rows=tuple(tuple(row) for row in sums.values()),
    )


def number(value: Value) -> float:
    """Return a cell as a number; zero if it is none, unknown or infinite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        return 0.0
    return value


def total(records: Iterable[Mapping[str, Value]], column: str) -> float:
    """Return the sum of a column."""
    return sum(number(record.get(column)) for record in records)


def _by_key(section: Section, shape: SectionDefinition) -> dict[tuple[Value, ...], Row]:
    """Return the rows by their keys; rows with the same key (there should be none) are added up."""
    places = [section.columns.index(name) for name in shape.key if name in section.columns]
    found: dict[tuple[Value, ...], Row] = {}
    counted = _counted(section.columns, shape)
    for row in section.rows:
        key = tuple(row[place] for place in places)
        if key in found:
            row = tuple(
                _plus(one, other) if is_count else other
                for one, other, is_count in zip(found[key], row, counted, strict=True)
            )
        found[key] = row
    return found


def _counted(columns: Sequence[str], shape: SectionDefinition) -> list[bool]:
    uncounted = {*shape.key, *shape.gauges, shape.reset}
    return [column not in uncounted for column in columns]


def _was_reset(
    then: Sequence[Value],
    now: Row,
    columns: Sequence[str],
    counted: Sequence[bool],
    shape: SectionDefinition,
) -> bool:
    if shape.falls is Falls.CLAMP:
        return False
    at = None if shape.of_parts else _index(columns, shape.reset)
    if at is not None and now[at] is not None and then[at] != now[at]:
        return True
    return any(
        is_count and type(a) in _NUMBERS and type(b) in _NUMBERS and number(b) < number(a)
        for a, b, is_count in zip(then, now, counted, strict=True)
    )


def _before_wraps(
    then: Sequence[Value], now: Row, columns: Sequence[str], shape: SectionDefinition
) -> list[Value]:
    """Return THEN with 2^32 less where a count of 32 bits has begun again at 0.

    A count that would have moved by half of its range or more was reset instead.
    """
    return [
        a - _WRAP  # type: ignore[operator]
        if column in shape.wraps
        and type(a) in _NUMBERS
        and type(b) in _NUMBERS
        and number(b) < number(a) < _WRAP
        and number(b) + _WRAP - number(a) < _WRAP / 2
        else a
        for a, b, column in zip(then, now, columns, strict=True)
    ]


def _less(then: Value, now: Value) -> Value:
    """Return NOW less THEN, at least zero; anything but a number is returned as it is now."""
    if type(now) in _NUMBERS and type(then) in _NUMBERS:
        # Integers stay integers: a year's bytes still add up exactly.
        return max(now - then, 0)  # type: ignore[operator]
    if isinstance(now, (list, tuple)) and isinstance(then, (list, tuple)):
        padded = [*then, *[0] * (len(now) - len(then))]
        return [_less(a, b) for a, b in zip(padded, now, strict=False)]
    return now


def _plus(one: Value, other: Value) -> Value:
    """Return the sum; of values that are not numbers, the later one."""
    if type(one) in _NUMBERS and type(other) in _NUMBERS:
        return one + other  # type: ignore[operator]
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        long, short = (one, other) if len(one) >= len(other) else (other, one)
        padded = [*short, *[0] * (len(long) - len(short))]
        return [_plus(a, b) for a, b in zip(long, padded, strict=True)]
    return one if other is None else other


_WRAP = 2**32

#: Types that are counts; a boolean is not one of them.
_NUMBERS = frozenset({int, float})


def _at(row: Sequence[Value], place: int | None) -> Value:
    return None if place is None else row[place]


def _index(columns: Sequence[str], name: str) -> int | None:
    return columns.index(name) if name in columns else None


def _said(key: tuple[Value, ...]) -> str:
    return ", ".join(str(part) for part in key if part is not None)
