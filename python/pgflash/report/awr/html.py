# SPDX-License-Identifier: PostgreSQL
"""A report as one HTML file that opens offline.

The first screen has the period in a sentence, its figures and its first chart.  Then come the
findings, each with its evidence and a link to its table, and the tables under their headings, with
charts if they have any.  The page loads nothing and can be used with the keyboard alone; whatever
it shows in colour, it also shows in words or patterns.  All text passes through Jinja2's
autoescape; only our own drawings do not.

One script of our own, which the page's policy names by its hash, sorts a table by the column whose
head is pressed.  Everything else works where no script runs: rows of zeros and Oracle's names are
shown and hidden by the page's style alone.
"""

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from markupsafe import Markup

from pgflash.model.awr import AwrReport, CompareReport, Finding, ReportTable
from pgflash.report.awr.heads import facts, findings_of, lead_of, title_of, zones_of
from pgflash.report.awr.order import FOLDED, Group, grouped, rows_for_people
from pgflash.report.awr.pictures import charts_of
from pgflash.report.drawing import patterns
from pgflash.report.environment import environment
from pgflash.report.printed import TEXT_MAX, PrintedRow, PrintedTable, visible
from pgflash.report.shown import ROWS_MAX, Shown, show

#: A table over time has its chart; its rows are folded.
_FOLD_ROWS = 12
#: Statements are cut in rankings that lead to their whole text.
_TEXT_MAX = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Tables under a heading."""

    id: str
    title: str
    tables: tuple[Shown, ...]


def render_html(
    report: AwrReport | CompareReport,
    *,
    subject: str = "",
    links: Sequence[tuple[str, str]] = (),
    zeros: bool = False,
    oracle: bool = False,
) -> str:
    """Return the page.

    SUBJECT names the period, if it has a name; links (text, relative address) lead to pages that
    belong to this one.  Rows of zeros and Oracle's names are shown from the beginning if they are
    asked for, and else when the reader asks.
    """
    findings = findings_of(report)
    groups = grouped(report.tables, charts=True)
    whole = any(column.lines for table in report.tables for column in table.columns)

    def shown(group: Group) -> tuple[Shown, ...]:
        text_max = _TEXT_MAX if whole else TEXT_MAX
        return tuple(_shown(table, findings, text_max) for table in group.tables)

    opening = [one for group in groups if group.opens for one in shown(group)]
    parts = [
        _Part(id=f"group-{number}", title=group.title, tables=shown(group))
        for number, group in enumerate((one for one in groups if not one.opens), start=1)
    ]
    every = [*opening, *(one for part in parts for one in part.tables)]
    anchors = _anchors(every)
    opening = [_linked(one, anchors) for one in opening]
    parts = [
        replace(part, tables=tuple(_linked(one, anchors) for one in part.tables)) for part in parts
    ]
    script = _script()
    title = ": ".join(filter(None, (visible(subject), title_of(report))))
    page: str = (
        environment()
        .get_template("awr.html.j2")
        .render(
            title=title,
            facts=facts(report),
            lead=lead_of(report),
            tiles=_is_plain(opening[0]) if opening else False,
            opening=opening,
            findings=[(one, visible(one.sentence)) for one in findings],
            titles={table.id: visible(table.title) for table in report.tables},
            parts=parts,
            patterns=patterns(figure for one in every for figure in one.figures),
            links=links,
            version=report.pgflash_version,
            zones=zones_of(report),
            zeros=zeros,
            oracle=oracle,
            zero_rows=sum(one.printed.zeros for one in every),
            has_optional=any(column.optional for one in every for column in one.printed.columns),
            script=Markup(script),
            script_hash=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )
    return page


@cache
def _script() -> str:
    """Return the script that sorts tables."""
    return (files("pgflash.report") / "templates" / "sort.js").read_text()


def _shown(table: ReportTable, findings: Sequence[Finding], text_max: int) -> Shown:
    charts = charts_of(table)
    return show(
        table,
        charts,
        rows_max=rows_for_people(table) or ROWS_MAX,
        text_max=text_max,
        folded=(bool(charts) or table.id in FOLDED) and len(table.rows) > _FOLD_ROWS,
        findings=[number for number, one in enumerate(findings, start=1) if one.table == table.id],
    )


def _is_plain(one: Shown) -> bool:
    """Tell whether a table is names and values, to be shown as such."""
    return one.printed.id == "summary" and len(one.printed.columns) == 2


# ---- from what is named to where it stands as a whole


def _anchors(tables: Iterable[Shown]) -> dict[str, dict[str, str]]:
    """Return the anchors of whole texts: by the column that names them, and by its cells."""
    found: dict[str, dict[str, str]] = {}
    for one in tables:
        printed = one.printed
        if _has_texts(printed):
            head = printed.columns[printed.key[0]].title
            for number, row in enumerate(printed.rows):
                text = row.cells[printed.key[0]].text
                found.setdefault(head, {})[text] = f"{printed.id}-{number}"
    return found


def _has_texts(printed: PrintedTable) -> bool:
    return bool(printed.key) and any(column.lines for column in printed.columns)


def _linked(one: Shown, anchors: dict[str, dict[str, str]]) -> Shown:
    """Return a table with links to whole texts, or with the anchors of its own."""
    printed = one.printed
    if _has_texts(printed):
        rows = tuple(
            replace(row, anchor=f"{printed.id}-{number}") for number, row in enumerate(printed.rows)
        )
    else:
        places = {
            place: anchors[column.title]
            for place, column in enumerate(printed.columns)
            if column.title in anchors
        }
        rows = tuple(_row_linked(row, places) for row in printed.rows) if places else printed.rows
    return replace(one, printed=replace(printed, rows=rows))


def _row_linked(row: PrintedRow, places: dict[int, dict[str, str]]) -> PrintedRow:
    cells = tuple(
        replace(cell, link=places[place].get(cell.text, "")) if place in places else cell
        for place, cell in enumerate(row.cells)
    )
    return replace(row, cells=cells)
