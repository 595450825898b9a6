# SPDX-License-Identifier: PostgreSQL
"""What the builders of papers' pages share: tables in the papers' form, charts of a run.

A table of ours is cut out of the report on an approach's middle attempt, so that it has
the report's sources and the report's numbers.
"""

from collections.abc import Mapping, Sequence

from pgflash.model.awr import AwrReport, Cell, ReportTable, Row, RowMark, plain
from pgflash.model.run import Run

#: As many events as the papers print.
TOP_EVENTS = 10

_AS_PAPERS = ("event", "waits", "total_s", "mean_ms", "share", "wait_class")
_SUMS = (RowMark.TOTAL, RowMark.RESIDUAL)


def top_events(report: AwrReport | None, *, rows: int = TOP_EVENTS) -> ReportTable | None:
    """Return the first foreground events, in the columns that papers print; None without any."""
    found = table_of(report, "top-events")
    return None if found is None else cut(found, columns=_AS_PAPERS, rows=rows)


def wait_classes(report: AwrReport | None) -> ReportTable | None:
    """Return the wait classes, system I/O included; None without any."""
    found = table_of(report, "wait-classes")
    return None if found is None else cut(found)


def table_of(report: AwrReport | None, table_id: str) -> ReportTable | None:
    """Return a table of a report; None if either is missing, or the table has no rows."""
    if report is None:
        return None
    found = next((table for table in report.tables if table.id == table_id), None)
    return found if found is not None and found.rows else None


def cut(table: ReportTable, *, columns: Sequence[str] = (), rows: int | None = None) -> ReportTable:
    """Return some columns (all of none are named) and the first rows of a table, without sums."""
    names = [column.name for column in table.columns]
    places = [names.index(name) for name in columns if name in names] or range(len(names))
    kept = [row for row in table.rows if row.mark not in _SUMS]
    if rows is not None:
        kept = [row for row in kept if row.mark is not RowMark.APART][:rows]
    return ReportTable(
        id=table.id,
        title=table.title,
        columns=tuple(table.columns[place] for place in places),
        rows=tuple(
            Row(
                cells=tuple(row.cells[place] for place in places),
                source=row.source,
                mark=row.mark,
            )
            for row in kept
        ),
        key=tuple(name for name in table.key if not columns or name in columns),
        note=table.note if rows is None else "",
    )


def cell_of(table: ReportTable | None, row: str, column: str) -> Cell:
    """Return a cell by its row's first cell and its column's name; None if there is none."""
    if table is None or column not in (one.name for one in table.columns):
        return None
    place = table.index(column)
    return next((one.cells[place] for one in table.rows if plain(one.cells[0]) == row), None)


def number_of(table: ReportTable | None, row: str, column: str) -> float | None:
    """Return that cell's number."""
    value = plain(cell_of(table, row, column))
    return float(value) if isinstance(value, int | float) else None


def why_missing(run: Run, reports: Mapping[str, AwrReport], *approaches: str) -> str:
    """Say why an exhibit about these approaches cannot be shown; "" if it can."""
    titles = {one.name: one.title for one in run.approaches}
    for name in approaches:
        if name not in titles:
            return f'Not measured: this run has no approach "{name}".'
        if not any(one.approach == name and not one.superseded for one in run.attempts):
            return f"Not measured: the run ended before an attempt of {titles[name]}."
        if name not in reports:
            return f"Not measured: no report of the server was kept for {titles[name]}."
    return ""
