# SPDX-License-Identifier: PostgreSQL
"""A report as plain text, never wider than WIDTH columns: for terminals, logs and mail.

Text columns shrink first: their cells are wrapped.  A table whose numbers alone are too wide is
printed in several blocks, each with the columns that name the rows.  Widths are those of a
terminal: an ideograph takes two columns, an accent none.
"""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, get_character_cell_size

from pgflash.model.awr import AwrReport, CompareReport, Finding, RowMark, Source
from pgflash.report.awr.heads import facts, title_of
from pgflash.report.awr.order import grouped, rows_for_people
from pgflash.report.printed import (
    MEANS,
    SIGNS,
    PrintedColumn,
    PrintedRow,
    PrintedTable,
    print_table,
    visible,
)

WIDTH = 100
#: Minimum width of a text column, and of the one that names the rows in every block.
_TEXT_MIN = 16
#: Long texts (queries) are cut: a report in text is for reading, the JSON form has everything.
_TEXT_MAX = 160
#: A time is not broken.
_TIME_MIN = len("2026-11-22 10:00:00")
_GAP = "  "


def render_text(report: AwrReport | CompareReport) -> str:
    """Return the report as text."""
    return "\n".join(line.rstrip() for line in _lines(report)) + "\n"


def wrap(text: str, width: int) -> list[str]:
    """Return the text in lines no wider than WIDTH, broken at spaces if there are any."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
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


def _lines(report: AwrReport | CompareReport) -> Iterator[str]:
    title = title_of(report)
    yield from wrap(title, WIDTH)
    yield "=" * min(cell_len(title), WIDTH)
    yield ""
    for name, value in facts(report):
        yield from hanging(f"{name}:".ljust(22), visible(value))
    yield ""
    yield from hanging("Signs:".ljust(22), _legend())
    yield ""
    yield from heading("Findings")
    if not report.findings:
        yield "None."
    for number, finding in enumerate(report.findings, start=1):
        yield from _finding(number, finding)
    for group, tables in grouped(report.tables, time_last=True):
        yield ""
        yield ""
        yield from heading(group)
        for table in tables:
            yield from table_lines(
                print_table(table, rows_max=rows_for_people(table), text_max=_TEXT_MAX)
            )


def _legend() -> str:
    return "; ".join(f"{SIGNS[source]} {source}: {MEANS[source]}" for source in Source) + "."


def heading(text: str) -> Iterator[str]:
    """Yield a heading of a part."""
    yield text.upper()
    yield "-" * WIDTH


def hanging(head: str, text: str) -> Iterator[str]:
    """Yield the text after its head, with further lines aligned under the first one."""
    indent = " " * len(head)
    for number, line in enumerate(wrap(text, WIDTH - len(head))):
        yield (indent if number else head) + line


def _finding(number: int, finding: Finding) -> Iterator[str]:
    head = f"{number:2}. "
    yield from hanging(head, f"{finding.severity.upper()}: {visible(finding.sentence)}")
    indent = " " * len(head)
    for clause in finding.evidence:
        yield from hanging(f"{indent}- ", visible(clause))
    if finding.advice:
        yield from hanging(indent, visible(finding.advice))
    if finding.table:
        yield from hanging(indent, f"See [{visible(finding.table)}].")


def table_lines(table: PrintedTable) -> Iterator[str]:
    """Yield a table, in as many blocks as its width needs."""
    yield ""
    yield from wrap(f"{table.title} [{table.id}]", WIDTH)
    if table.missing_reason:
        yield from hanging("  ", f"No rows. {table.missing_reason}")
        return
    if table.note:
        yield from hanging("  ", table.note)
    if not table.rows:
        yield "  Nothing to show."
        return
    for block in _blocks(table):
        yield ""
        yield from _block(table, block)
    for note in table.column_notes:
        yield from hanging("  ", note)


def _blocks(table: PrintedTable) -> Iterator[dict[int, int]]:
    """Yield the columns that are printed side by side, each with its width."""
    least, most = _widths(table)
    names = _names(table, least)
    block = dict(names)
    for place in range(len(table.columns)):
        if place in names:
            continue
        if len(block) > len(names) and _total([*block.values(), least[place]]) > WIDTH:
            yield _stretched(block, most)
            block = dict(names)
        block[place] = least[place]
    yield _stretched(block, most)


def _names(table: PrintedTable, least: Sequence[int]) -> dict[int, int]:
    """Return the columns that name the rows in every block: as much of the key as fits."""
    names: dict[int, int] = {}
    for place in table.key or (0,):
        width = min(least[place], _TIME_MIN)
        if table.columns[place].words and _total([*names.values(), width]) <= WIDTH // 2:
            names[place] = width
    return names or {0: least[0]}


def _widths(table: PrintedTable) -> tuple[list[int], list[int]]:
    """Return the least and the most width that each column can use."""
    least, most = [], []
    for place, column in enumerate(table.columns):
        cells = max((cell_len(row.cells[place].signed) for row in table.rows), default=0)
        head = max(cell_len(word) for word in column.title.split(" "))
        head = max(min(head, _TEXT_MIN), cell_len(_unit_text(column)))
        if column.words:
            floor = _TIME_MIN if column.unit else _TEXT_MIN
            least.append(max(min(cells, floor), head))
            most.append(max(cells, head))
        else:
            # A number is never cut; a number column with text in it (a mixed one) may be wrapped.
            fixed = max(min(cells, 2 * _TEXT_MIN), head)
            least.append(fixed)
            most.append(fixed)
    return least, most


def _stretched(block: dict[int, int], most: Sequence[int]) -> dict[int, int]:
    """Give the remaining width to the columns that can use it, the narrowest first."""
    block = dict(sorted(block.items()))
    spare = WIDTH - _total(list(block.values()))
    while spare > 0:
        wanting = [place for place in block if block[place] < most[place]]
        if not wanting:
            break
        narrowest = min(wanting, key=lambda place: block[place])
        block[narrowest] += 1
        spare -= 1
    return block


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _block(table: PrintedTable, block: dict[int, int]) -> Iterator[str]:
    heads = [wrap(table.columns[place].title, width) for place, width in block.items()]
    height = max(len(one) for one in heads)
    columns = [(table.columns[place], width) for place, width in block.items()]
    for line in range(height):
        cells = [([""] * (height - len(one)) + one)[line] for one in heads]
        yield _joined(columns, cells)
    units = [_unit_text(column) for column, _ in columns]
    if any(units):
        yield _joined(columns, units)
    ruler = _GAP.join("-" * width for _, width in columns)
    yield ruler
    for place, row in enumerate(table.rows):
        if row.mark is RowMark.TOTAL and place:
            yield ruler
        yield from _row(row, block, columns)
        if row.mark is RowMark.TOTAL and not place:
            yield ruler
    if table.rows_left_out:
        yield f"... and {table.rows_left_out:,} more rows"


def _row(
    row: PrintedRow, block: dict[int, int], columns: Sequence[tuple[PrintedColumn, int]]
) -> Iterator[str]:
    cells = [wrap(row.cells[place].signed, width) for place, width in block.items()]
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
