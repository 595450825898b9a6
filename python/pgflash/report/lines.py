# SPDX-License-Identifier: PostgreSQL
"""Tables as lines of plain text: for terminals, logs and mail.

Text columns shrink first: their cells are wrapped.  A table whose numbers alone are too wide is
printed in several blocks, each with the columns that name the rows, so that no number is ever cut.
Widths are those of a terminal: an ideograph takes two columns, an accent none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, get_character_cell_size

from pgflash.model.awr import RowMark
from pgflash.model.words import NO_BREAK, count, things, unbroken
from pgflash.report.printed import SIGNS, PrintedColumn, PrintedRow, PrintedTable

#: Of a report's lines, where no terminal is wider.
WIDTH = 80
#: Minimum width of a text column.
_TEXT_MIN = 16
#: A cell that names its row, or has a number in it, is not wrapped if it is no wider.
_WHOLE_MAX = 32
#: A time is not broken.
_TIME_MIN = len("2026-11-22 10:00:00")
_GAP = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Columns of a table that fit side by side, as lines."""

    head: tuple[str, ...]
    ruler: str
    rows: tuple[str, ...]


def wrap(text: str, width: int) -> list[str]:
    """Return the text in lines no wider than WIDTH, broken at spaces if there are any.

    A number and its unit stay together.
    What begins with spaces stays that far from the edge.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        indent = " " * min(len(line) - len(line.lstrip(" ")), width // 2)
        lines += [indent + one for one in _wrapped(line.lstrip(" "), width - len(indent))]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    """Return one line of a text in lines no wider than WIDTH."""
    lines: list[str] = []
    line = ""
    for word in (one.replace(NO_BREAK, " ") for one in unbroken(text).split(" ")):
        joined = f"{line} {word}" if line else word
        if cell_len(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        *full, line = _chopped(word, width)
        lines.extend(full)
    return [*lines, line]


def _chopped(word: str, width: int) -> list[str]:
    """Cut one word into pieces no wider than WIDTH."""
    pieces, piece, used = [], "", 0
    for character in word:
        size = get_character_cell_size(character)
        if used + size > width and piece:
            pieces.append(piece)
            piece, used = "", 0
        piece += character
        used += size
    return [*pieces, piece]


def heading(text: str, width: int = WIDTH) -> Iterator[str]:
    """Yield a heading of a part."""
    yield text.upper()
    yield "-" * width


def cut(text: str, width: int) -> str:
    """Return the text on one line no wider than WIDTH, with a mark if it does not end there."""
    return text if cell_len(text) <= width else _chopped(text, max(width - 1, 1))[0] + "…"


def hanging(head: str, text: str, width: int = WIDTH) -> Iterator[str]:
    """Yield the text after its head, with further lines aligned under the first one."""
    indent = " " * len(head)
    for number, line in enumerate(wrap(text, width - len(head))):
        yield (indent if number else head) + line


def table_lines(table: PrintedTable, width: int = WIDTH) -> Iterator[str]:
    """Yield a table of a report, with its title, its blocks and its notes."""
    yield ""
    yield from wrap(f"{table.title} [{table.id}]", width)
    if table.missing_reason:
        yield from hanging("  ", f"No rows. {table.missing_reason}", width)
        return
    if table.note:
        yield from hanging("  ", table.note, width)
    if table.rows:
        for block in blocks(table, width):
            yield from ("", *block.head, block.ruler, *block.rows)
    elif not table.zeros_left_out:
        yield "  Nothing to show."
        return
    if table.zeros_left_out:
        left_out = f"{things(table.zeros_left_out, 'row')} of zeros left out (--zeros)."
        yield from hanging("  ", left_out, width)
    for note in table.column_notes:
        yield from hanging("  ", note, width)


def blocks(table: PrintedTable, width: int, *, folded: bool = True) -> Iterator[Block]:
    """Yield the columns and rows, in as many blocks as fit the width.

    Unless FOLDED, a row is one line: its texts are cut, its numbers are not.
    """
    least, most = _widths(table)
    names = _names(table, least, width)
    block = dict(names)
    for place in range(len(table.columns)):
        if place in names:
            continue
        if len(block) > len(names) and _total([*block.values(), least[place]]) > width:
            yield _block(table, _stretched(table, block, most, width), folded)
            block = dict(names)
        block[place] = least[place]
    yield _block(table, _stretched(table, block, most, width), folded)


def _names(table: PrintedTable, least: Sequence[int], width: int) -> dict[int, int]:
    """Return the columns that name the rows in every block: as much of the key as fits."""
    names: dict[int, int] = {}
    for place in table.key or (0,):
        own = least[place]
        if table.columns[place].words and _total([*names.values(), own]) <= width // 2:
            names[place] = own
    return names or {0: least[0]}


def _widths(table: PrintedTable) -> tuple[list[int], list[int]]:
    """Return the least and the most width that each column can use."""
    least, most = [], []
    for place, column in enumerate(table.columns):
        cells = max((_longest(row.cells[place].signed) for row in table.rows), default=0)
        head = max(cell_len(word) for word in column.title.split(" "))
        head = max(min(head, _TEXT_MIN), cell_len(_unit_text(column)))
        if not column.words or (place in (table.key or (0,)) and cells <= _WHOLE_MAX):
            # A number is never cut; a number column with text in it (a mixed one) may be wrapped.
            floor = _WHOLE_MAX
        else:
            floor = _TIME_MIN if column.unit else _TEXT_MIN
        least.append(max(min(cells, floor), head))
        most.append(max(cells if column.words else least[-1], cell_len(column.title)))
    return least, most


def _longest(text: str) -> int:
    return max(map(cell_len, text.split("\n")))


def _stretched(
    table: PrintedTable, block: dict[int, int], most: Sequence[int], width: int
) -> dict[int, int]:
    """Give the remaining width to the columns that can use it: text first, the narrowest first."""
    block = dict(sorted(block.items()))
    for _spare in range(_total(list(block.values())), width):
        wanting = [place for place in block if block[place] < most[place]]
        if wanting:
            block[min(wanting, key=lambda one: (not table.columns[one].words, block[one]))] += 1
    return block


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _block(table: PrintedTable, block: dict[int, int], folded: bool) -> Block:
    heads = [wrap(table.columns[place].title, width) for place, width in block.items()]
    height = max(len(one) for one in heads)
    columns = [(table.columns[place], width) for place, width in block.items()]
    head = [
        _joined(columns, [([""] * (height - len(one)) + one)[line] for one in heads])
        for line in range(height)
    ]
    units = [_unit_text(column) for column, _ in columns]
    if any(units):
        head.append(_joined(columns, units))
    ruler = _GAP.join("-" * width for _, width in columns)
    rows = []
    for place, row in enumerate(table.rows):
        if row.mark is RowMark.TOTAL and place:
            rows.append(ruler)
        rows += _row(row, block, columns, folded)
        if row.mark is RowMark.TOTAL and not place:
            rows.append(ruler)
    if table.rows_left_out:
        rows.append(f"... and {count(table.rows_left_out)} more rows")
    return Block(head=tuple(head), ruler=ruler, rows=tuple(rows))


def _row(
    row: PrintedRow,
    block: dict[int, int],
    columns: Sequence[tuple[PrintedColumn, int]],
    folded: bool,
) -> Iterator[str]:
    texts = [(row.cells[place].signed, width) for place, width in block.items()]
    text, width = texts[0]
    if 0 not in block and not text and columns[0][0].words and width >= _TEXT_MIN:
        texts[0] = (row.cells[0].signed, width)  # a sum has no key but a name
    cells = [wrap(*one) if folded else [cut(*one)] for one in texts]
    for line in range(max(len(one) for one in cells)):
        yield _joined(columns, [one[line] if line < len(one) else "" for one in cells])


def _joined(columns: Sequence[tuple[PrintedColumn, int]], cells: Sequence[str]) -> str:
    parts = []
    for (column, width), cell in zip(columns, cells, strict=True):
        space = " " * (width - cell_len(cell))
        parts.append(cell + space if column.words else space + cell)
    return _GAP.join(parts)


def _unit_text(column: PrintedColumn) -> str:
    """Return the line under a title: unit and sign."""
    sign = SIGNS[column.source] if column.source else ""
    return f"{column.unit} {sign}".strip()
