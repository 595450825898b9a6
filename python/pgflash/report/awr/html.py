# SPDX-License-Identifier: PostgreSQL
"""A report as one HTML file that opens offline.

Findings come first, each with its evidence and a link to its table; then the tables under their
headings, with charts if they have any.  The page loads nothing, runs no script, and can be used
with the keyboard alone; whatever it shows in colour, it also shows in words or patterns.  All text
passes through Jinja2's autoescape; only our own drawings do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pgflash.model.awr import AwrReport, CompareReport, Finding, ReportTable, Source
from pgflash.report.awr.heads import facts, title_of
from pgflash.report.awr.order import grouped, rows_for_people
from pgflash.report.awr.pictures import PREFIX, Picture, picture_of
from pgflash.report.environment import environment
from pgflash.report.printed import MEANS, SIGNS, PrintedTable, print_table, visible
from pgflash.report.svg import pattern_definitions

#: With this, a file stays below a megabyte: the JSON form has all rows.
ROWS_MAX = 400
#: A table over time has its chart; its rows are folded.
_FOLD_ROWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """A table on the page."""

    printed: PrintedTable
    picture: Picture | None
    folded: bool
    #: Numbers of the findings that are based on it.
    findings: tuple[int, ...]


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
    pictures = [one.picture for _, _, tables in groups for one in tables if one.picture]
    looks = [look for picture in pictures for look in picture.looks]
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
            patterns=pattern_definitions(PREFIX, looks) if looks else "",
            signs=SIGNS,
            sources=[(SIGNS[source], str(source), MEANS[source]) for source in Source],
            links=links,
            version=report.pgflash_version,
        )
    )
    return page


def _shown(table: ReportTable, findings: Sequence[Finding]) -> _Shown:
    picture = picture_of(table)
    return _Shown(
        printed=print_table(table, rows_max=rows_for_people(table) or ROWS_MAX),
        picture=picture,
        folded=picture is not None and len(table.rows) > _FOLD_ROWS,
        findings=tuple(
            number for number, one in enumerate(findings, start=1) if one.table == table.id
        ),
    )
