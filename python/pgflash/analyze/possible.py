# SPDX-License-Identifier: PostgreSQL
"""Values that no table may print: a share above the whole, an amount below nothing.

Sources that are right may still disagree: samples, the kernel's clock and PostgreSQL's are not read
at the same moment, and a statement is counted when it ends, including its time before the period.
The quotient of two of them can be more than 100 %.  Such a cell is left empty, and a finding names
it, unless two clocks are enough to explain it.
"""

from collections.abc import Iterator
from dataclasses import replace

from pgflash.model.awr import Cell, Column, Number, ReportTable, Row, RowMark, Unit, plain

#: Two clocks may differ by this part of a time.
CLOCKS = 0.05
_TINY = 1e-9
#: Columns that may be below zero: a cache on a device slower than the disks costs time.
_SIGNED = frozenset({"saved_share"})


def possible(table: ReportTable) -> tuple[ReportTable, tuple[str, ...]]:
    """Return the table without impossible values, and where they were."""
    said: list[str] = []
    rows = tuple(_possible_row(table, row, said) for row in table.rows)
    return replace(table, rows=rows), tuple(said)


def _possible_row(table: ReportTable, row: Row, said: list[str]) -> Row:
    """Return the row; a residual makes up for what the others are too much, and may be anything."""
    wrong = [] if row.mark is RowMark.RESIDUAL else list(_wrong(table, row))
    if not wrong:
        return row
    for place, much in wrong:
        # A separate row is not a part of the total.
        if much and row.mark is not RowMark.APART:
            said.append(f"{table.title}, {row.cells[0]}: {table.columns[place].title}")
    places = {place for place, _ in wrong}
    cells = [None if place in places else cell for place, cell in enumerate(row.cells)]
    return replace(row, cells=tuple(cells))


def _wrong(table: ReportTable, row: Row) -> Iterator[tuple[int, bool]]:
    """Yield the places of impossible values, and whether clocks cannot explain them."""
    for place, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True)):
        value = plain(cell)
        if column.is_text or not isinstance(value, int | float):
            continue
        if _unit(column, cell) is Unit.SHARE and value > 1 + _TINY:
            yield place, value > 1 + CLOCKS
        elif value < -_TINY and column.name not in _SIGNED:
            yield place, True


def _unit(column: Column, cell: Cell) -> Unit:
    return cell.unit if isinstance(cell, Number) else column.unit
