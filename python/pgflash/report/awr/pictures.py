# SPDX-License-Identifier: PostgreSQL
"""Which tables of a report have a chart, and in which form.

The chart is drawn from the table's own rows, so that there is never a chart without its table, and
no chart shows a number that its table lacks.
"""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pgflash.model.awr import Cell, Column, ReportTable, RowMark, Unit, plain
from pgflash.model.waits import WaitClass
from pgflash.report import colours, svg
from pgflash.report.awr.order import is_over_time
from pgflash.report.printed import Scale, parse_time, titled, visible

#: Prefix of the ids of the patterns in a page.
PREFIX = "look"

#: Colours for names without a meaning of their own; they also differ in their patterns.
_SPARE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#5b6470", "#e69f00", "#56b4e9", "#8c564b")
#: The column with the duration of a row in a table over time, in seconds.
_LASTING = "elapsed_s"
#: The chart has a gap if more than this share of a usual step is missing.
_GAP_STEPS = 0.6
#: A larger number is an error somewhere, and would hide all others.
_DRAWN_MAX = 1e15
_CLASSES = {str(one): one for one in WaitClass}
#: The source of a read, wherever its name is in a title.
_SOURCES = {name.casefold().removeprefix("os "): colour for name, colour in colours.SOURCES.items()}
_CPU = {name.casefold(): colour for name, colour in colours.CPU.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One drawing and its title."""

    caption: str
    drawing: Markup
    #: Swatch and name; empty if there is only one series.
    legend: tuple[tuple[Markup, str], ...]
    #: Not to be placed beside another, if there is a choice.
    wide: bool = False


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
    if is_over_time(table) and table.columns[0].unit is Unit.TIME:
        return _over_time(table)
    if table.id == "read-latency":
        return _histogram(table)
    return None


def _over_time(table: ReportTable) -> Picture | None:
    moments = [parse_time(str(plain(row.cells[0]))) for row in table.rows]
    kept = [i for i, moment in enumerate(moments) if moment is not None]
    begins = [moment.timestamp() for moment in moments if moment is not None]
    if not begins or begins != sorted(begins):
        return None
    spans = _spans(table, kept, begins)
    if table.id == "aas-over-time":
        return _stacked(table, kept, spans, unit=Unit.SESSIONS)
    if table.id == "cpu-over-time":
        return _stacked(table, kept, spans, unit=Unit.SHARE)
    return _lines(table, kept, spans)


def _spans(table: ReportTable, kept: Sequence[int], begins: Sequence[float]) -> list[svg.Span]:
    """Return the time span of each row.

    A span has the row's stated duration; without one, or if hardly anything is missing then, it
    lasts up to the next row.
    """
    steps = [after - before for before, after in itertools.pairwise(begins)]
    usual = statistics.median(steps) if steps else 60.0
    lasting: Sequence[float | None] = [None] * len(begins)
    if _LASTING in (column.name for column in table.columns):
        place = table.index(_LASTING)
        lasting = [_value(table.rows[i].cells[place]) for i in kept]
    spans = []
    for i, begin in enumerate(begins):
        end = begin + (lasting[i] or usual)
        if i + 1 < len(begins) and begins[i + 1] - end < usual * _GAP_STEPS:
            end = begins[i + 1]
        spans.append((begin, end))
    return spans


def _stacked(
    table: ReportTable, kept: Sequence[int], spans: Sequence[svg.Span], *, unit: Unit
) -> Picture | None:
    chosen = [place for place, column in enumerate(table.columns) if _stands(column, unit)]
    if not chosen:
        return None
    series = [_series(table, place, kept, number) for number, place in enumerate(chosen)]
    title = visible(table.title)
    drawing = svg.stacked(PREFIX, spans, series, title=title, share=unit is Unit.SHARE)
    return Picture(
        figures=(Figure(caption="", drawing=drawing, legend=_legend(series, line=False)),),
        looks=tuple((one.colour, one.pattern) for one in series),
    )


def _stands(column: Column, unit: Unit) -> bool:
    """Tell whether a column is one of the areas; idle time is not, being the remainder."""
    if column.unit is not unit or column.title.casefold() in ("idle", "total", "all"):
        return False
    known = _CLASSES.get(column.title)
    return known is None or known.counts


def _lines(table: ReportTable, kept: Sequence[int], spans: Sequence[svg.Span]) -> Picture | None:
    """Draw a chart for each kind of value, side by side: each kind has its own axis.

    Times of calls are compared with each other.  Rates are as different as the things that they
    count: only those whose titles differ after a comma share a chart ("Reads/s, disk").
    """
    groups: dict[tuple[Unit, str], list[int]] = {}
    for place, column in enumerate(table.columns):
        if not column.is_text and column.name != _LASTING:
            kind = "" if column.unit is Unit.MILLISECONDS else column.title.split(",")[0]
            groups.setdefault((column.unit, kind), []).append(place)
    figures = []
    for (unit, kind), places in groups.items():
        drawn = [_series(table, place, kept, number) for number, place in enumerate(places)]
        sizes = [abs(value) for one in drawn for value in one.values if value is not None]
        if not sizes:
            continue
        scale = Scale.for_unit(unit, max(sizes))
        series = [_scaled(one, scale) for one in drawn if any(v is not None for v in one.values)]
        caption = titled(visible(kind), scale.label)
        title = f"{visible(table.title)}: {caption}"
        drawing = svg.lines(spans, series, title=title, wide=len(groups) == 1)
        legend = _legend(series, line=True) if len(series) > 1 else ()
        figures.append(Figure(caption=caption, drawing=drawing, legend=legend))
    return Picture(figures=tuple(figures), looks=()) if figures else None


def _scaled(series: svg.Series, scale: Scale) -> svg.Series:
    values = [None if value is None else value / scale.divisor for value in series.values]
    return dataclasses.replace(series, values=values)


def _histogram(table: ReportTable) -> Picture | None:
    """Draw how often each time occurred; a row's first cell is the start of its bars."""
    chosen = [place for place, column in enumerate(table.columns) if column.unit is Unit.COUNT]
    kept = [i for i, row in enumerate(table.rows) if row.mark is RowMark.PLAIN]
    if not chosen or not kept:
        return None
    labels = [_microseconds(_value(table.rows[i].cells[0])) for i in kept]
    series = [_series(table, place, kept, number) for number, place in enumerate(chosen)]
    drawing = svg.bars(PREFIX, labels, series, title=visible(table.title))
    caption = "Calls by the time that they took, at least"
    return Picture(
        figures=(Figure(caption=caption, drawing=drawing, legend=_legend(series, line=False)),),
        looks=tuple((one.colour, one.pattern) for one in series),
    )


def _microseconds(value: float | None) -> str:
    if value is None:
        return ""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} µs"


def _series(table: ReportTable, place: int, kept: Sequence[int], number: int) -> svg.Series:
    title = visible(table.columns[place].title)
    return svg.Series(
        name=title,
        colour=colour_of(title, number),
        pattern=number,
        values=[_value(table.rows[i].cells[place]) for i in kept],
    )


def colour_of(title: str, number: int) -> str:
    """Return the colour for this name, or the spare one with this number."""
    wait_class = _CLASSES.get(title)
    if wait_class in colours.WAIT_CLASSES:
        return colours.WAIT_CLASSES[wait_class]
    folded = title.casefold()
    if folded in _CPU:
        return _CPU[folded]
    for source, colour in _SOURCES.items():
        if source in folded:
            return colour
    return _SPARE[number % len(_SPARE)]


def _value(cell: Cell) -> float | None:
    """Return the drawn value of a cell: nothing if no chart could show it."""
    value = plain(cell)
    if value is None or isinstance(value, str) or not math.isfinite(value):
        return None
    return max(float(value), 0.0) if value < _DRAWN_MAX else None


def _legend(series: Sequence[svg.Series], *, line: bool) -> tuple[tuple[Markup, str], ...]:
    return tuple((svg.swatch(PREFIX, one, line=line), one.name) for one in series)
