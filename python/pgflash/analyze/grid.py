# SPDX-License-Identifier: PostgreSQL
"""Helpers for tables: columns by name, parts of a whole, rates."""

from collections.abc import Iterable, Sequence
from math import isfinite

from pgflash.model.awr import Cell, Column, Number, ReportTable, Row, Source, Unit

#: Rows of a ranking, unless all are requested; the others are summed up in one row.
ROWS_MAX = 20

#: How many rows a ranking has; None: all of them.
RowsMax = int | None


def text(
    name: str, title: str, *, note: str = "", optional: bool = False, lines: bool = False
) -> Column:
    """Return a column of words."""
    return Column(name=name, title=title, unit=Unit.TEXT, note=note, optional=optional, lines=lines)


def figure(
    name: str, title: str, unit: Unit, source: Source | None = Source.EXACT, *, note: str = ""
) -> Column:
    """Return a column of numbers."""
    return Column(name=name, title=title, unit=unit, source=source, note=note)


def exact(value: int | float | None, unit: Unit) -> Number | None:
    """Return a number that was counted; None if it was not."""
    return None if value is None else Number(value=value, unit=unit, source=Source.EXACT)


def ratio(over: float | None, under: float | None) -> float | None:
    """Return one number over another; None if the ratio is meaningless."""
    if over is None or not under:
        return None
    found = over / under
    return found if isfinite(found) else None


def missing(table_id: str, title: str, columns: Sequence[Column], reason: str) -> ReportTable:
    """Return a table without data that says why."""
    return ReportTable(id=table_id, title=title, columns=tuple(columns), missing_reason=reason)


def row(*cells: Cell) -> Row:
    """Return a plain row."""
    return Row(cells=cells)


def whole(parts: Iterable[float]) -> float:
    """Return a sum to take shares of."""
    return float(sum(parts))


def weaker(sources: Iterable[Source | None]) -> Source:
    """Return the least certain of several sources; None counts as exact."""
    found = set(sources)
    for source in (Source.MODELLED, Source.SAMPLED):
        if source in found:
            return source
    return Source.EXACT
