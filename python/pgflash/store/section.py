# SPDX-License-Identifier: PostgreSQL
"""Decode a stored section, and leave out values that no server can have written.

The owner of stored snapshots may change them, and a file may be damaged.  Content that is not a
table is an error that names the section.  A single impossible value (a number beyond any counter,
an invalid time) is left out, and the section says so: the rest of a report is still worth reading.
"""

import zlib
from datetime import UTC
from math import isfinite
from typing import Any

import msgspec

from pgflash.model.snapshot import Section, SectionKind, SnapshotError, Value, parse_time

#: Counters of the server and the kernel have at most 64 bits.
_NUMBER_MAX = 2**64
#: Columns that are read as times.
_TIMES = frozenset(
    {"bucket", "last_autovacuum", "last_vacuum", "recovery_last_xact_time", "started_at"}
)
#: Times near the end of the calendar cannot be added to.
_YEARS = range(1970, 9999)
#: Columns that are read as whole numbers even where they name a row.
_WHOLE = frozenset({"query_id"})
#: Of a long text, this much is quoted.
_QUOTED_MAX = 40


class _Stored(msgspec.Struct):
    """A section's content."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def decode_section(name: str, kind: str, content: bytes | str | None, *, store: str) -> Section:
    """Return a section from its JSON, which may be compressed; STORE is named in errors.

    None: it was too long to be read.
    """
    if content is None:
        raise SnapshotError(f"{store} is damaged: section {name} is longer than any server's")
    try:
        text = content if isinstance(content, str) else zlib.decompress(content)
        found = msgspec.json.decode(text, type=_Stored)
        of_kind = SectionKind(kind)
        if any(len(row) != len(found.columns) for row in found.rows):
            raise ValueError("a row has more or fewer values than there are columns")
    except (zlib.error, TypeError, ValueError, RecursionError) as error:
        raise SnapshotError(f"{store} is damaged: section {name}: {error}") from error
    return possible(Section(name=name, kind=of_kind, columns=found.columns, rows=found.rows))


def possible(section: Section) -> Section:
    """Return the section with nothing in place of impossible values, which it then names."""
    impossible: list[str] = []
    rows = []
    for row in section.rows:
        cells: list[Value] = []
        for column, value in zip(section.columns, row, strict=True):
            try:
                cells.append(_possible(column, value))
            except (ValueError, OverflowError, RecursionError):
                cells.append(None)
                impossible.append(f"{section.name}.{column} is {_quoted(value)}")
        rows.append(tuple(cells))
    return Section(
        name=section.name,
        kind=section.kind,
        columns=section.columns,
        rows=tuple(rows),
        impossible=tuple(dict.fromkeys(impossible)),
    )


def _possible(column: str, value: Any) -> Value:  # noqa: ANN401 - whatever JSON holds
    """Return the value; ValueError or OverflowError if no server can have it."""
    if value is not None and column in _TIMES:
        text = value if isinstance(value, str) else ""
        if parse_time(text).astimezone(UTC).year not in _YEARS:
            raise ValueError
        return text
    if value is None or (isinstance(value, bool) and column not in _WHOLE):
        return value
    if isinstance(value, str) and column not in _WHOLE:
        return value
    if isinstance(value, bool) or (isinstance(value, float) and column in _WHOLE):
        raise ValueError
    if isinstance(value, int | float) and isfinite(value) and abs(value) <= _NUMBER_MAX:
        return value
    if isinstance(value, list | tuple) and column not in _WHOLE:
        return tuple(_possible("", one) for one in value)
    raise ValueError


def _quoted(value: Value) -> str:
    """Return the value in few characters."""
    if isinstance(value, int) and abs(value) > _NUMBER_MAX:
        return f"a number of {value.bit_length()} bits"
    return repr(value)[:_QUOTED_MAX]
