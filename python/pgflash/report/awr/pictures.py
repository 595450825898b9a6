# SPDX-License-Identifier: PostgreSQL
"""Which tables of a report have a chart, and of which form.

The chart is drawn from the table's own rows, so that there is never a chart without its
table, nor a number in a chart that the table has not.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pgflash.model.awr import Cell, Column, ReportTable, Unit, plain
from pgflash.model.waits import WaitClass
from pgflash.report import colours
from pgflash.report.awr import svg
from pgflash.report.awr.printed import Scale, parse_time, visible

#: Ids of the patterns in a page begin with this.
PREFIX = "look"

#: Colours for what has no meaning of its own; they differ in their patterns as well.
_SPARE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#5b6470", "#e69f00", "#56b4e9", "#8c564b")
_CLASSES = {str(one): one for one in WaitClass}
_SOURCES = {name.casefold(): colour for name, colour in colours.SOURCES.items()}
_CPU = {name.casefold(): colour for name, colour in colours.CPU.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One drawing and what it shows."""

    caption: str
    drawing: Markup
    #: Swatch and name; empty where there is only one series.
    legend: tuple[tuple[Markup, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All drawings of one table."""

    figures: tuple[Figure, ...]
    #: Colour and pattern of each filled area.
    looks: tuple[tuple[str, int], ...]


def picture_of(table: ReportTable) -> Picture | None:
    """Return the table's chart, or None if it has none."""
    if not table.rows or not table.columns:
        return None
    if table.columns[0].unit is Unit.TIME:
        return _over_time(table)
    if table.id == "read-latency":
        return _histogram(table)
    return None


def _over_time(table: ReportTable) -> Picture | None:
    moments = [parse_time(str(cell)) for cell in table.values(table.columns[0].name)]
    kept = [i for i, moment in enumerate(moments) if moment is not None]
    times = [moment.timestamp() for moment in moments if moment is not None]
    if times != sorted(times):
        return None
    if table.id == "aas-over-time":
        return _stacked(table, kept, times, unit=Unit.SESSIONS)
    if table.id == "cpu-over-time":
        return _stacked(table, kept, times, unit=Unit.SHARE)
    return _lines(table, kept, times)


def _stacked(
    table: ReportTable, kept: Sequence[int], times: Sequence[float], *, unit: Unit
) -> Picture | None:
    chosen = [
        (place, column) for place, column in enumerate(table.columns) if _stands(column, unit)
    ]
    if not chosen:
        return None
    series = [_series(table, place, kept, number) for number, (place, _) in enumerate(chosen)]
    drawing = svg.stacked(PREFIX, times, series, title=table.title, share=unit is Unit.SHARE)
    return Picture(
        figures=(Figure(caption="", drawing=drawing, legend=_legend(series, line=False)),),
        looks=tuple((one.colour, one.pattern) for one in series),
    )


def _stands(column: Column, unit: Unit) -> bool:
    """Tell whether a column is one of the areas: idle time is what is left."""
    if column.unit is not unit or column.title.casefold() in ("idle", "total", "all"):
        return False
    known = _CLASSES.get(column.title)
    return known is None or known.counts


def _lines(table: ReportTable, kept: Sequence[int], times: Sequence[float]) -> Picture | None:
    """Draw one chart for each unit, side by side: what has another unit has another axis."""
    units: dict[Unit, list[int]] = {}
    for place, column in enumerate(table.columns):
        if not column.is_text:
            units.setdefault(column.unit, []).append(place)
    figures = []
    for unit, places in units.items():
        drawn = [_series(table, place, kept, number) for number, place in enumerate(places)]
        sizes = [abs(value) for one in drawn for value in one.values if value is not None]
        scale = Scale.for_unit(unit, max(sizes, default=0))
        series = [_scaled(one, scale) for one in drawn]
        caption = ", ".join(filter(None, (series[0].name if len(series) == 1 else "", scale.label)))
        title = f"{visible(table.title)}: {caption}"
        drawing = svg.lines(times, series, title=title, wide=len(units) == 1)
        legend = _legend(series, line=True) if len(series) > 1 else ()
        figures.append(Figure(caption=caption, drawing=drawing, legend=legend))
    return Picture(figures=tuple(figures), looks=()) if figures else None


def _scaled(series: svg.Series, scale: Scale) -> svg.Series:
    values = [None if value is None else value / scale.divisor for value in series.values]
    return dataclasses.replace(series, values=values)


def _histogram(table: ReportTable) -> Picture | None:
    chosen = [place for place, column in enumerate(table.columns) if column.unit is Unit.COUNT]
    if not chosen:
        return None
    labels = [visible(str(plain(row.cells[0]))) for row in table.rows]
    everything = range(len(table.rows))
    series = [_series(table, place, everything, number) for number, place in enumerate(chosen)]
    drawing = svg.bars(PREFIX, labels, series, title=table.title)
    return Picture(
        figures=(Figure(caption="", drawing=drawing, legend=_legend(series, line=False)),),
        looks=tuple((one.colour, one.pattern) for one in series),
    )


def _series(table: ReportTable, place: int, kept: Sequence[int], number: int) -> svg.Series:
    title = visible(table.columns[place].title)
    return svg.Series(
        name=title,
        colour=_colour(title, number),
        pattern=number,
        values=[_value(table.rows[i].cells[place]) for i in kept],
    )


def _colour(title: str, number: int) -> str:
    wait_class = _CLASSES.get(title)
    if wait_class in colours.WAIT_CLASSES:
        return colours.WAIT_CLASSES[wait_class]
    folded = title.casefold()
    return _CPU.get(folded) or _SOURCES.get(folded) or _SPARE[number % len(_SPARE)]


def _value(cell: Cell) -> float | None:
    value = plain(cell)
    return None if value is None or isinstance(value, str) else float(value)


def _legend(series: Sequence[svg.Series], *, line: bool) -> tuple[tuple[Markup, str], ...]:
    return tuple((svg.swatch(PREFIX, one, line=line), one.name) for one in series)
