# SPDX-License-Identifier: PostgreSQL
"""A report as plain text, never wider than WIDTH columns: for terminals, logs and mail."""

from collections.abc import Iterator

from rich.cells import cell_len

from pgflash.model.awr import AwrReport, CompareReport, Finding, Source
from pgflash.report.awr.heads import facts, title_of
from pgflash.report.awr.order import grouped, rows_for_people
from pgflash.report.lines import WIDTH, hanging, heading, table_lines, wrap
from pgflash.report.printed import MEANS, SIGNS, print_table, visible

#: Long texts (queries) are cut: a report in text is for reading, the JSON form has everything.
_TEXT_MAX = 160


def render_text(report: AwrReport | CompareReport) -> str:
    """Return the report as text."""
    return "\n".join(line.rstrip() for line in _lines(report)) + "\n"


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
