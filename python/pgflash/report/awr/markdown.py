# SPDX-License-Identifier: PostgreSQL
"""A report as Markdown, to be pasted into a ticket.

A ticket needs the findings and the head of each table, and most trackers stop at 64 KB: so each
table has only its first rows, and the tables over time and whole statements are left out.
Everything that has a meaning in Markdown or HTML is escaped.  A bare address (https://...) is
plain text there, but many trackers make links of such text whatever is escaped.
"""

import re
from collections.abc import Iterator

from pgflash.model.awr import AwrReport, CompareReport, Finding, ReportTable, RowMark, Source
from pgflash.model.words import count, things
from pgflash.report.awr.heads import facts, findings_of, lead_of, title_of
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


def render_markdown(
    report: AwrReport | CompareReport, *, zeros: bool = False, oracle: bool = False
) -> str:
    """Return the report as Markdown, with rows of zeros and Oracle's names if asked for."""
    return "\n".join(_lines(report, zeros=zeros, oracle=oracle)) + "\n"


def escape_markdown(text: str) -> str:
    """Return the text escaped so that it has no meaning in Markdown."""
    return _MEANING.sub(lambda match: _harmless(match[1]), visible(text))


def _harmless(character: str) -> str:
    """Return a character's entity if a backslash would not work everywhere."""
    if character in "<>&|@`":
        return f"&#{ord(character)};"
    return f"\\{character}"


def _lines(report: AwrReport | CompareReport, *, zeros: bool, oracle: bool) -> Iterator[str]:
    yield f"# {escape_markdown(title_of(report))}"
    yield ""
    for name, value in facts(report):
        yield f"- **{escape_markdown(name)}**: {escape_markdown(value)}"
    yield ""
    signs = "; ".join(f"{SIGNS[one]} {one}, {MEANS[one]}" for one in Source)
    yield f"Signs: {escape_markdown(signs)}."
    yield ""
    lead = lead_of(report)
    if lead is not None:
        yield escape_markdown(lead.sentence)
        yield ""
        for clause in lead.evidence:
            yield f"- {escape_markdown(clause)}"
        yield ""
    yield "## Findings"
    yield ""
    found = findings_of(report)
    for number, finding in enumerate(found, start=1):
        yield from _finding(number, finding)
    if not found:
        yield "None."
    left_out = []
    for group in grouped(report.tables, charts=False):
        kept = [one for one in group.tables if not _is_long(one)]
        left_out += [one.title for one in group.tables if one not in kept]
        if not kept:
            continue
        yield ""
        yield f"## {escape_markdown(group.title)}"
        for table in kept:
            yield from _table(
                print_table(
                    table, rows_max=ROWS_MAX, text_max=_TEXT_MAX, zeros=zeros, optional=oracle
                )
            )
    if left_out:
        yield ""
        yield f"Left out: {escape_markdown(', '.join(left_out))}; the other formats have them."


def _is_long(table: ReportTable) -> bool:
    return is_over_time(table) or any(column.lines for column in table.columns)


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
    if not table.rows and not table.zeros_left_out:
        yield "Nothing to show."
        return
    if table.rows:
        yield from markdown_table(table)
    if table.zeros_left_out:
        yield ""
        yield f"{things(table.zeros_left_out, 'row')} of zeros left out."


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
