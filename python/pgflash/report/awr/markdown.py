# SPDX-License-Identifier: PostgreSQL
"""A report as Markdown, to be pasted into a ticket.

A ticket needs the findings and the head of each table, and most trackers stop at 64 KB: so each
table has only its first rows, and the tables over time are left out.  Everything that has a meaning
in Markdown or HTML is escaped.
"""

import re
from collections.abc import Iterator

from pgflash.model.awr import AwrReport, CompareReport, Finding, RowMark, Source
from pgflash.model.words import count
from pgflash.report.awr.heads import facts, title_of
from pgflash.report.awr.order import grouped, is_over_time
from pgflash.report.printed import (
    MEANS,
    SIGNS,
    PrintedColumn,
    PrintedRow,
    PrintedTable,
    print_table,
    visible,
)

ROWS_MAX = 10
_TEXT_MAX = 120
_MEANING = re.compile(r"([\\`*_{}\[\]()<>#+!|~&$^=@])")


def render_markdown(report: AwrReport | CompareReport) -> str:
    """Return the report as Markdown."""
    return "\n".join(_lines(report)) + "\n"


def escape_markdown(text: str) -> str:
    """Return the text escaped so that it has no meaning in Markdown."""
    return _MEANING.sub(lambda match: _harmless(match[1]), visible(text))


def _harmless(character: str) -> str:
    """Return a character's entity if a backslash would not work everywhere."""
    if character in "<>&|@`":
        return f"&#{ord(character)};"
    return f"\\{character}"


def _lines(report: AwrReport | CompareReport) -> Iterator[str]:
    yield f"# {escape_markdown(title_of(report))}"
    yield ""
    for name, value in facts(report):
        yield f"- **{escape_markdown(name)}**: {escape_markdown(value)}"
    yield ""
    signs = "; ".join(f"{SIGNS[one]} {one}, {MEANS[one]}" for one in Source)
    yield f"Signs: {escape_markdown(signs)}."
    yield ""
    yield "## Findings"
    yield ""
    for number, finding in enumerate(report.findings, start=1):
        yield from _finding(number, finding)
    if not report.findings:
        yield "None."
    left_out = []
    for group, tables in grouped(report.tables):
        kept = [one for one in tables if not is_over_time(one)]
        left_out += [one.title for one in tables if one not in kept]
        if not kept:
            continue
        yield ""
        yield f"## {escape_markdown(group)}"
        for table in kept:
            yield from _table(print_table(table, rows_max=ROWS_MAX, text_max=_TEXT_MAX))
    if left_out:
        yield ""
        yield f"Left out: {escape_markdown(', '.join(left_out))}; other forms have them."


def _finding(number: int, finding: Finding) -> Iterator[str]:
    sentence = escape_markdown(finding.sentence)
    yield f"{number}. **{finding.severity}**: {sentence}"
    indent = " " * len(f"{number}. ")
    for clause in finding.evidence:
        yield f"{indent}- {escape_markdown(clause)}"
    if finding.advice:
        yield f"{indent}- {escape_markdown(finding.advice)}"


def _table(table: PrintedTable) -> Iterator[str]:
    yield ""
    yield f"### {escape_markdown(table.title)}"
    yield ""
    if table.missing_reason:
        yield f"No rows. {escape_markdown(table.missing_reason)}"
        return
    if table.note:
        yield escape_markdown(table.note)
        yield ""
    if not table.rows:
        yield "Nothing to show."
        return
    yield from markdown_table(table)


def markdown_table(table: PrintedTable) -> Iterator[str]:
    """Yield the columns and rows of a table."""
    yield _row([_head(column) for column in table.columns])
    yield _row([":--" if column.words else "--:" for column in table.columns])
    for row in table.rows:
        yield _row(_cells(row))
    if table.rows_left_out:
        yield ""
        yield f"... and {count(table.rows_left_out)} more rows."


def _head(column: PrintedColumn) -> str:
    sign = SIGNS[column.source] if column.source else ""
    below = f"{column.unit} {sign}".strip()
    title = f"{column.title}, {below}" if below else column.title
    return escape_markdown(title)


def _cells(row: PrintedRow) -> list[str]:
    cells = [escape_markdown(cell.signed) for cell in row.cells]
    return [f"**{cell}**" for cell in cells] if row.mark is RowMark.TOTAL else cells


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
