# SPDX-License-Identifier: PostgreSQL
"""A report's tables as texts: what all printed forms (HTML, text, Markdown) share.

Numbers are printed by the rule of model/words.py.  Bytes have one unit for a whole column,
including the corresponding columns of both periods in a comparison, or otherwise for a row, so that
they can be compared at a glance.

Anybody may have written any text: a table can be named like an escape sequence of a terminal, and a
query can contain anything.  Here control characters are made visible; each form then escapes the
characters that have a meaning in its own language.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pgflash.model.awr import Cell, Column, Number, ReportTable, Row, RowMark, Source, Unit, plain
from pgflash.model.words import NOTHING, Scale, has_scale, print_number

#: Longer texts are cut.
TEXT_MAX = 2000
#: The sign for a source if there is no room for its name.
SIGNS = {Source.EXACT: "=", Source.SAMPLED: "~", Source.MODELLED: "^"}
MEANS = {
    Source.EXACT: "every event was counted or timed",
    Source.SAMPLED: "estimated from samples of all sessions",
    Source.MODELLED: "computed from a model, or under an assumption stated with the table",
}
_ROW_WORDS = {
    RowMark.APART: "not in the total",
    RowMark.NEW: "new",
    RowMark.GONE: "gone",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedColumn:
    """The head of a column."""

    title: str
    #: "" if the numbers include it, or if there is none.
    unit: str
    #: None: words, or the cells have their own.
    source: Source | None
    note: str
    words: bool
    #: Its cells may be compared: all of them have its unit.
    sortable: bool = True
    #: Only shown to those who ask for it.
    optional: bool = False
    #: Its texts have lines.
    lines: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedCell:
    """A cell's text, and its source if its column names none."""

    text: str
    source: Source | None = None
    #: The anchor of what it names, on a page.
    link: str = ""

    @property
    def signed(self) -> str:
        """The text with its sign, if it needs one."""
        return f"{self.text} {SIGNS[self.source]}" if self.source else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedRow:
    """A row of texts."""

    cells: tuple[PrintedCell, ...]
    mark: RowMark
    #: All of its numbers are zero.
    zero: bool = False
    #: Its own anchor, on a page.
    anchor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedTable:
    """A table of texts."""

    id: str
    title: str
    note: str
    missing_reason: str
    columns: tuple[PrintedColumn, ...]
    rows: tuple[PrintedRow, ...]
    #: Positions of the columns that identify a row.
    key: tuple[int, ...]
    #: Rows that were left out at the end.
    rows_left_out: int
    #: Rows that were left out because all of their numbers are zero.
    zeros_left_out: int = 0

    @property
    def zeros(self) -> int:
        """The number of its rows that name something of which there was nothing."""
        return sum(row.zero for row in self.rows)

    @property
    def column_notes(self) -> tuple[str, ...]:
        """The meaning of the columns whose titles do not say it."""
        noted = (one for one in self.columns if one.note not in ("", one.title))
        return tuple(f"{one.title}: {one.note}" for one in noted)


def print_table(
    table: ReportTable,
    *,
    rows_max: int | None = None,
    text_max: int = TEXT_MAX,
    signs: bool = True,
    zeros: bool = True,
    optional: bool = True,
) -> PrintedTable:
    """Return the table's texts: at most this many first rows, and characters in a text.

    Without SIGNS, which a page explains, the source of a number is not shown.  ZEROS are rows that
    name something of which there was nothing, OPTIONAL the columns that few people ask for.
    """
    if not optional:
        table = _without_optional(table)
    found = [row for row in table.rows if zeros or not is_zero(row, table)]
    kept = _kept(found, rows_max)
    scales = _scales(table)
    return PrintedTable(
        id=table.id,
        title=visible(table.title),
        note=visible(table.note),
        missing_reason=visible(table.missing_reason),
        columns=tuple(
            PrintedColumn(
                title=visible(column.title),
                unit="" if _says(visible(column.title), scale.label) else scale.label,
                source=column.source if signs and not column.is_text else None,
                note=visible(column.note),
                words=column.is_text,
                sortable=not _has_units(table, place),
                optional=column.optional,
                lines=column.lines,
            )
            for place, (column, scale) in enumerate(zip(table.columns, scales, strict=True))
        ),
        rows=tuple(_print_row(row, table, scales, text_max, signs) for row in kept),
        key=tuple(place for place, column in enumerate(table.columns) if column.name in table.key),
        rows_left_out=len(found) - len(kept),
        zeros_left_out=len(table.rows) - len(found),
    )


def is_zero(row: Row, table: ReportTable) -> bool:
    """Tell whether a row says of something that there was nothing.

    Rows for moments or ranges are kept: zero is their result.
    """
    if row.mark is not RowMark.PLAIN or table.columns[0].unit is not Unit.TEXT:
        return False
    numbers = [
        plain(cell)
        for column, cell in zip(table.columns, row.cells, strict=True)
        if not column.is_text and cell is not None
    ]
    return bool(numbers) and all(one == 0 for one in numbers)


def _without_optional(table: ReportTable) -> ReportTable:
    kept = [place for place, column in enumerate(table.columns) if not column.optional]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in kept),
        rows=tuple(
            replace(row, cells=tuple(row.cells[place] for place in kept)) for row in table.rows
        ),
    )


def _has_units(table: ReportTable, place: int) -> bool:
    """Tell whether cells of a column have units of their own."""
    cells = (row.cells[place] for row in table.rows)
    return any(
        isinstance(one, Number) and one.unit is not table.columns[place].unit for one in cells
    )


def visible(text: str) -> str:
    """Return the text on one line, with unprintable characters as their codes."""
    return re.sub(r"\s+", " ", "".join(map(_visible_character, text))).strip()


def visible_lines(text: str) -> str:
    """Return the text with its lines and spaces, and unprintable characters as their codes."""
    return "\n".join(shown(line.expandtabs(4)).rstrip() for line in text.strip().splitlines())


def shown(line: str) -> str:
    """Return the line with its spaces, and unprintable characters as their codes."""
    return line if line.isprintable() else "".join(map(_visible_character, line))


def print_time(text: str) -> str:
    """Return an ISO 8601 time to the second, in its own zone; any other text unchanged."""
    moment = parse_time(text)
    return visible(text) if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def parse_time(text: str) -> datetime | None:
    """Return the moment of an ISO 8601 text, UTC unless it says otherwise; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    except (ValueError, OverflowError):
        return None


def titled(title: str, unit: str) -> str:
    """Return a title with its unit, unless it already contains it."""
    return ", ".join(filter(None, (title, "" if _says(title, unit) else unit)))


def _scales(table: ReportTable) -> list[Scale]:
    """Return the scale of each column: one that fits all plain numbers compared with it."""
    largest: dict[tuple[str, Unit], float] = {}
    groups = [(_side_by_side(column, table), column.unit) for column in table.columns]
    for row in table.rows:
        for group, cell in zip(groups, row.cells, strict=True):
            if isinstance(cell, int | float) and math.isfinite(cell):
                largest[group] = max(largest.get(group, 0), abs(cell))
    return [Scale.for_unit(group[1], largest.get(group, 0)) for group in groups]


def _side_by_side(column: Column, table: ReportTable) -> str:
    """Return the common part of a comparison's columns that are side by side."""
    name = column.name
    if name == "change":
        name = next((one.name for one in table.columns if one.name.endswith("_first")), name)
    return name.removesuffix("_first").removesuffix("_second")


def _kept(rows: Sequence[Row], rows_max: int | None) -> Sequence[Row]:
    """Return the first rows, and those of the others that are sums."""
    if rows_max is None or len(rows) <= rows_max:
        return rows
    sums = (RowMark.TOTAL, RowMark.RESIDUAL, RowMark.REST)
    return [*rows[:rows_max], *(row for row in rows[rows_max:] if row.mark in sums)]


def _print_row(
    row: Row, table: ReportTable, scales: Sequence[Scale], text_max: int, signs: bool
) -> PrintedRow:
    own = _scales_within(row)
    cells = [
        _print_cell(cell, column, scale, row, own, text_max)
        for cell, column, scale in zip(row.cells, table.columns, scales, strict=True)
    ]
    if not signs:
        cells = [PrintedCell(text=cell.text) for cell in cells]
    word = _ROW_WORDS.get(row.mark)
    if word is not None and cells:
        cells[0] = PrintedCell(text=f"{cells[0].text} ({word})", source=cells[0].source)
    return PrintedRow(cells=tuple(cells), mark=row.mark, zero=is_zero(row, table))


def _scales_within(row: Row) -> dict[Unit, Scale]:
    """Return the scales of numbers with units of their own: those of a row share one."""
    sizes: dict[Unit, float] = {}
    for cell in row.cells:
        if isinstance(cell, Number) and has_scale(cell.unit) and math.isfinite(cell.value):
            sizes[cell.unit] = max(sizes.get(cell.unit, 0), abs(cell.value))
    return {unit: Scale.for_unit(unit, size) for unit, size in sizes.items()}


def _print_cell(
    cell: Cell,
    column: Column,
    scale: Scale,
    row: Row,
    own: Mapping[Unit, Scale],
    text_max: int,
) -> PrintedCell:
    value = plain(cell)
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return PrintedCell(text=NOTHING)
    if isinstance(value, str):
        if column.unit is Unit.TIME:
            return PrintedCell(text=print_time(value))
        if column.lines:
            return PrintedCell(text=visible_lines(value))
        shown = visible(value)
        if len(shown) > text_max:
            shown = shown[: text_max - 1].rstrip() + "…"
        return PrintedCell(text=shown)
    if isinstance(cell, Number):
        source = None if cell.source is column.source else cell.source
        if cell.unit is column.unit and not has_scale(cell.unit):
            return PrintedCell(text=scale.number(value), source=source)
        shared = own.get(cell.unit)
        text = shared.alone(value) if shared is not None else print_number(cell)
        return PrintedCell(text=text, source=source)
    source = row.source if column.source is None else None
    return PrintedCell(text=scale.number(value), source=source)


def _says(title: str, unit: str) -> bool:
    """Tell whether a title names a unit: "Reads/s" needs no "/s" below it."""
    before = "(?<![a-z])" if unit[:1].isalpha() else ""
    return re.search(f"{before}{re.escape(unit)}(?![a-z])", title, re.IGNORECASE) is not None


def _visible_character(character: str) -> str:
    if character.isspace():
        return " "
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
