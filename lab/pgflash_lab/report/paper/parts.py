# SPDX-License-Identifier: PostgreSQL
"""What the builders of papers' pages share: tables in the papers' form, charts of a run.

Our tables are cut out of the report on an approach's middle attempt, so that they have the report's
sources and the report's numbers.
"""

import re
from collections.abc import Collection, Sequence

from pgflash.model.awr import (
    AwrReport,
    Cell,
    Column,
    ReportTable,
    Row,
    RowMark,
    Source,
    Unit,
    plain,
)
from pgflash.model.sizes import read_size
from pgflash_lab.model.exhibit import Exhibit, PaperPage, Verdict
from pgflash_lab.model.paper import Paper
from pgflash_lab.model.run import Run
from pgflash_lab.model.summary import summarize
from pgflash_lab.report import sentences

BLOCK_BYTES = 8192
_COUNTED = {
    Verdict.AGREES: ("agrees", "agree"),
    Verdict.PARTLY: ("agrees in part", "agree in part"),
    Verdict.DIFFERS: ("differs", "differ"),
    Verdict.NOT_SHOWN: ("is not shown", "are not shown"),
}
#: As many events as the papers print.
TOP_EVENTS = 10

_AS_PAPERS = ("event", "waits", "total_s", "mean_ms", "share", "wait_class")
_SUMS = (RowMark.TOTAL, RowMark.RESIDUAL)


def page_of(
    paper: Paper, run: Run, *, says: Sequence[str], exhibits: Sequence[Exhibit]
) -> PaperPage:
    """Return a paper's page: the results, how many exhibits agree, what the paper measured."""
    return PaperPage(
        paper=paper.id,
        title=paper.title,
        by=paper.by,
        run_id=run.id,
        run_title=run.title,
        pgflash_version=run.pgflash_version,
        sentences=(*(one for one in says if one), _count(exhibits), f"The paper: {paper.about}"),
        cautions=tuple(sentences.cautions(run, summarize(run))),
        exhibits=tuple(exhibits),
        errata=paper.errata,
    )


def _count(exhibits: Sequence[Exhibit]) -> str:
    verdicts = [one.verdict for one in exhibits]
    counts = [(verdicts.count(one), one) for one in Verdict]
    said = ", ".join(f"{count} {_COUNTED[one][count != 1]}" for count, one in counts if count)
    return f"Of {len(exhibits)} tables and figures of the paper: {said}."


def figures_table(
    table_id: str,
    title: str,
    columns: Sequence[tuple[str, str, Unit]],
    rows: Sequence[Sequence[Cell]],
    *,
    source: Source | None = Source.EXACT,
    note: str = "",
) -> ReportTable:
    """Return a small table of ours: columns (name, title, unit), the first one for words."""
    return ReportTable(
        id=table_id,
        title=title,
        columns=tuple(
            Column(
                name=name,
                title=head,
                unit=unit,
                source=None if unit is Unit.TEXT else source,
            )
            for name, head, unit in columns
        ),
        rows=tuple(Row(cells=tuple(row)) for row in rows),
        key=(columns[0][0],),
        note=note,
    )


def top_events(report: AwrReport | None, *, rows: int = TOP_EVENTS) -> ReportTable | None:
    """Return the first foreground events, in the columns that papers print; None without any."""
    found = table_of(report, "top-events")
    return None if found is None else cut(found, columns=_AS_PAPERS, rows=rows)


def table_of(report: AwrReport | None, table_id: str) -> ReportTable | None:
    """Return a table of a report; None if either is missing, or the table has no rows."""
    if report is None:
        return None
    found = next((table for table in report.tables if table.id == table_id), None)
    return found if found is not None and found.rows else None


def cut(table: ReportTable, *, columns: Sequence[str] = (), rows: int | None = None) -> ReportTable:
    """Return some columns (by default all) and the first rows of a table, without sums."""
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


def number_of(table: ReportTable | None, row: str, column: str) -> float | None:
    """Return a number by its row's first cell and its column's name; None if there is none."""
    if table is None or column not in (one.name for one in table.columns):
        return None
    place = table.index(column)
    found = (plain(one.cells[place]) for one in table.rows if plain(one.cells[0]) == row)
    value = next(found, None)
    return float(value) if isinstance(value, int | float) else None


def number_in(cell: Cell) -> float:
    """Return a cell's number; 0 without one."""
    value = plain(cell)
    return float(value) if isinstance(value, int | float) else 0.0


def sessions_columns(
    table: ReportTable | None, names: Collection[str] = ()
) -> dict[str, tuple[float, ...]]:
    """Return the sessions over time by their class's title: all classes, or these."""
    shown = [one for one in table.columns if one.unit is Unit.SESSIONS] if table else []
    return {
        one.title: tuple(number_in(cell) for cell in table.values(one.name))
        for one in shown
        if table and one.name != "all" and (not names or one.name in names)
    }


def memory_bytes(text: str) -> int | None:
    """Return the bytes of a setting such as "640MB" (blocks without a unit); None if invalid."""
    if re.fullmatch(r"\s*[0-9]{1,15}\s*", text):
        return int(text) * BLOCK_BYTES or None
    try:
        return read_size(text) or None
    except ValueError:
        return None


def why_missing(run: Run, reports: Collection[str], *approaches: str) -> str:
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
