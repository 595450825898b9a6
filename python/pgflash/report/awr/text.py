# SPDX-License-Identifier: PostgreSQL
"""A report as plain text of limited width: for terminals, logs and mail."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len

from pgflash.model.awr import AwrReport, CompareReport, Finding, ReportTable, Source
from pgflash.report.awr.heads import facts, findings_of, lead_of, title_of
from pgflash.report.awr.order import grouped, rows_for_people
from pgflash.report.lines import WIDTH, hanging, heading, table_lines, wrap
from pgflash.report.printed import MEANS, SIGNS, print_table, visible

#: Long texts (queries) are cut: the whole text of a statement is in a table of its own.
_TEXT_MAX = 160


def render_text(
    report: AwrReport | CompareReport,
    *,
    zeros: bool = False,
    oracle: bool = False,
    width: int = WIDTH,
) -> str:
    """Return the report as text, with rows of zeros and Oracle's names if they are asked for."""
    text = _Text(zeros=zeros, oracle=oracle, width=width)
    return "\n".join(line.rstrip() for line in text.lines(report)) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    zeros: bool
    oracle: bool
    width: int

    def lines(self, report: AwrReport | CompareReport) -> Iterator[str]:
        title = title_of(report)
        yield from wrap(title, self.width)
        yield "=" * min(cell_len(title), self.width)
        yield ""
        for name, value in facts(report):
            yield from hanging(f"{name}:".ljust(15), visible(value), self.width)
        yield ""
        yield from hanging("Signs:".ljust(15), _legend(), self.width)
        lead = lead_of(report)
        groups = grouped(report.tables, charts=False)
        if lead is not None:
            yield ""
            yield from wrap(visible(lead.sentence), self.width)
            for clause in lead.evidence:
                yield from hanging("- ", visible(clause), self.width)
        summary = [one for group in groups if group.opens for one in group.tables]
        for table in summary:
            yield from self._table(table)
        yield ""
        yield from heading("Findings", self.width)
        found = findings_of(report)
        if not found:
            yield "None."
        for number, finding in enumerate(found, start=1):
            yield from self._finding(number, finding)
        for group in groups:
            if group.opens:
                continue
            yield ""
            yield ""
            yield from heading(group.title, self.width)
            for table in group.tables:
                yield from self._table(table)

    def _table(self, table: ReportTable) -> Iterator[str]:
        printed = print_table(
            table,
            rows_max=rows_for_people(table),
            text_max=_TEXT_MAX,
            zeros=self.zeros,
            optional=self.oracle,
        )
        yield from table_lines(printed, self.width)

    def _finding(self, number: int, finding: Finding) -> Iterator[str]:
        head = f"{number:2}. "
        said = f"{finding.severity.upper()}: {visible(finding.sentence)}"
        yield from hanging(head, said, self.width)
        indent = " " * len(head)
        for clause in finding.evidence:
            yield from hanging(f"{indent}- ", visible(clause), self.width)
        if finding.advice:
            yield from hanging(indent, visible(finding.advice), self.width)
        if finding.table:
            yield from hanging(indent, f"See [{visible(finding.table)}].", self.width)


def _legend() -> str:
    return "; ".join(f"{SIGNS[source]} {source}: {MEANS[source]}" for source in Source) + "."
