# SPDX-License-Identifier: PostgreSQL
"""A table as a page shows it: its texts, its drawings, and whether its rows are folded."""

from collections.abc import Sequence
from dataclasses import dataclass

from pgflash.model.awr import ReportTable
from pgflash.model.chart import Chart
from pgflash.report.drawing import Figure, figures_of
from pgflash.report.printed import TEXT_MAX, PrintedTable, print_table

#: With this, a file stays below a megabyte: the JSON form has all rows.
ROWS_MAX = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A table on a page."""

    printed: PrintedTable
    figures: tuple[Figure, ...] = ()
    folded: bool = False
    #: Numbers of the findings that are based on it.
    findings: tuple[int, ...] = ()


def show(
    table: ReportTable,
    charts: Sequence[Chart] = (),
    *,
    rows_max: int = ROWS_MAX,
    text_max: int = TEXT_MAX,
    folded: bool = False,
    findings: Sequence[int] = (),
) -> Shown:
    """Return a table with the charts of its numbers."""
    return Shown(
        printed=print_table(table, rows_max=rows_max, text_max=text_max),
        figures=figures_of(charts, about=table.title),
        folded=folded,
        findings=tuple(findings),
    )
