# SPDX-License-Identifier: PostgreSQL
"""A report as one HTML file that opens offline.

Findings come first, each with its evidence and a link to its table; then the tables under their
headings, with charts if they have any.  The page loads nothing, runs no script, and can be used
with the keyboard alone; whatever it shows in colour, it also shows in words or patterns.  All text
passes through Jinja2's autoescape; only our own drawings do not.
"""

from collections.abc import Sequence

from pgflash.model.awr import AwrReport, CompareReport, Finding, ReportTable
from pgflash.report.awr.heads import facts, title_of, zones_of
from pgflash.report.awr.order import grouped, rows_for_people
from pgflash.report.awr.pictures import charts_of
from pgflash.report.drawing import patterns
from pgflash.report.environment import environment
from pgflash.report.printed import visible
from pgflash.report.shown import ROWS_MAX, Shown, show

#: A table over time has its chart; its rows are folded.
_FOLD_ROWS = 12


def render_html(
    report: AwrReport | CompareReport,
    *,
    subject: str = "",
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page.

    SUBJECT names the period, if it has a name; links (text, relative address) lead to pages that
    belong to this one.
    """
    groups = [
        (title, f"group-{number}", [_shown(table, report.findings) for table in tables])
        for number, (title, tables) in enumerate(grouped(report.tables), start=1)
    ]
    figures = [figure for _, _, tables in groups for one in tables for figure in one.figures]
    title = ": ".join(filter(None, (visible(subject), title_of(report))))
    page: str = (
        environment()
        .get_template("awr.html.j2")
        .render(
            title=title,
            facts=facts(report),
            findings=[(one, visible(one.sentence)) for one in report.findings],
            titles={table.id: visible(table.title) for table in report.tables},
            groups=groups,
            patterns=patterns(figures),
            links=links,
            version=report.pgflash_version,
            zones=zones_of(report),
        )
    )
    return page


def _shown(table: ReportTable, findings: Sequence[Finding]) -> Shown:
    charts = charts_of(table)
    return show(
        table,
        charts,
        rows_max=rows_for_people(table) or ROWS_MAX,
        folded=bool(charts) and len(table.rows) > _FOLD_ROWS,
        findings=[number for number, one in enumerate(findings, start=1) if one.table == table.id],
    )
