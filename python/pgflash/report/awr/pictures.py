# SPDX-License-Identifier: PostgreSQL
"""Which tables of a report have charts, and in which form.

A chart is made from the table's own rows, so that there is never a chart without its table, and no
chart shows a number that its table lacks.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from datetime import datetime

from pgflash.model.awr import Cell, Column, ReportTable, RowMark, Unit, plain
from pgflash.model.chart import Chart, ChartForm, ChartSeries
from pgflash.model.waits import WaitClass
from pgflash.model.words import Scale, duration
from pgflash.report.awr.order import is_over_time
from pgflash.report.printed import parse_time

#: The column with the duration of a row in a table over time, in seconds.
_LASTING = "elapsed_s"
#: A larger number must be an error, and would hide all others.
_DRAWN_MAX = 1e15
_NOT_DRAWN = frozenset(
    {"idle", "total", "all", *(str(c).casefold() for c in WaitClass if not c.counts)}
)


def charts_of(table: ReportTable) -> tuple[Chart, ...]:
    """Return the table's charts."""
    if not table.rows or not table.columns:
        return ()
    if is_over_time(table) and table.columns[0].unit is Unit.TIME:
        return _over_time(table)
    return _histogram(table) if table.id == "read-latency" else ()


def _over_time(table: ReportTable) -> tuple[Chart, ...]:
    moments = [parse_time(str(plain(row.cells[0]))) for row in table.rows]
    kept = [i for i, moment in enumerate(moments) if moment is not None]
    begins = _clock_s([moment for moment in moments if moment is not None])
    if not begins or begins != tuple(sorted(begins)):
        return ()
    lasting = _lasting(table, kept, begins)
    if table.id == "aas-over-time":
        return _stacked(table, kept, begins, lasting, unit=Unit.SESSIONS)
    if table.id == "cpu-over-time":
        return _stacked(table, kept, begins, lasting, unit=Unit.SHARE)
    return _lines(table, kept, begins, lasting)


def _clock_s(moments: Sequence[datetime]) -> tuple[float, ...]:
    """Return the moments as seconds that UTC would show as the clock of the first one did."""
    ahead = moments[0].utcoffset() if moments else None
    ahead_s = ahead.total_seconds() if ahead else 0.0
    return tuple(moment.timestamp() + ahead_s for moment in moments)


def _lasting(table: ReportTable, kept: Sequence[int], begins: Sequence[float]) -> tuple[float, ...]:
    """Return how long each row lasts: as it says, or else as rows usually do."""
    steps = [after - before for before, after in itertools.pairwise(begins)]
    usual = statistics.median(steps) if steps else 60.0
    if _LASTING not in (column.name for column in table.columns):
        return (usual,) * len(begins)
    place = table.index(_LASTING)
    return tuple(_value(table.rows[i].cells[place]) or usual for i in kept)


def _stacked(
    table: ReportTable,
    kept: Sequence[int],
    begins: tuple[float, ...],
    lasting: tuple[float, ...],
    *,
    unit: Unit,
) -> tuple[Chart, ...]:
    """Draw areas; idle time is none of them, being the remainder."""
    chosen = [
        column
        for column in table.columns
        if column.unit is unit and column.title.casefold() not in _NOT_DRAWN
    ]
    chart = Chart(
        form=ChartForm.STACKED,
        title="",
        unit="share" if unit is Unit.SHARE else "",
        series=tuple(_series(table, column, kept) for column in chosen),
        at_s=begins,
        lasting_s=lasting,
        clock=True,
    )
    return (chart,) if chosen else ()


def _lines(
    table: ReportTable, kept: Sequence[int], begins: tuple[float, ...], lasting: tuple[float, ...]
) -> tuple[Chart, ...]:
    """Draw a chart for each kind of value, side by side: each kind has its own axis.

    Times of calls are compared with each other.  Rates are as different as the things that they
    count: only those whose titles differ after a comma share a chart ("Reads/s, disk").
    """
    groups: dict[tuple[Unit, str], list[Column]] = {}
    for column in table.columns:
        if not column.is_text and column.name != _LASTING:
            kind = "" if column.unit is Unit.MILLISECONDS else column.title.split(",")[0]
            groups.setdefault((column.unit, kind), []).append(column)
    charts = []
    for (unit, kind), columns in groups.items():
        found = [_series(table, column, kept) for column in columns]
        sizes = [value for one in found for value in one.values if value is not None]
        scale = Scale.for_unit(unit, max(sizes, default=0.0))
        charts.append(
            Chart(
                form=ChartForm.LINES,
                title=kind,
                unit=scale.label,
                series=tuple(_series(table, column, kept, scale.divisor) for column in columns),
                at_s=begins,
                lasting_s=lasting,
                clock=True,
                narrow=len(groups) > 1,
            )
        )
    return tuple(charts)


def _histogram(table: ReportTable) -> tuple[Chart, ...]:
    """Draw how often each time occurred; a row's first cell is the start of its bars."""
    chosen = [column for column in table.columns if column.unit is Unit.COUNT]
    kept = [i for i, row in enumerate(table.rows) if row.mark is RowMark.PLAIN]
    if not chosen or not kept:
        return ()
    chart = Chart(
        form=ChartForm.COLUMNS,
        title="Calls by the time that they took, at least",
        labels=tuple(_microseconds(_value(table.rows[i].cells[0])) for i in kept),
        series=tuple(_series(table, column, kept) for column in chosen),
    )
    return (chart,)


def _microseconds(value: float | None) -> str:
    return "" if value is None else duration(value / 1e6)


def _series(
    table: ReportTable, column: Column, kept: Sequence[int], divisor: float = 1.0
) -> ChartSeries:
    place = table.columns.index(column)
    values = (_value(table.rows[i].cells[place]) for i in kept)
    return ChartSeries(
        name=column.title,
        values=tuple(None if value is None else value / divisor for value in values),
    )


def _value(cell: Cell) -> float | None:
    """Return the drawn value of a cell: nothing if no chart could show it."""
    value = plain(cell)
    if value is None or isinstance(value, str) or not math.isfinite(value):
        return None
    return max(float(value), 0.0) if value < _DRAWN_MAX else None
