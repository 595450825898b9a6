# SPDX-License-Identifier: PostgreSQL
"""Draw charts: the colour of each meaning, a hatching or dashes for each series, and the legend.

All static pages are drawn here.  Figures of others are pale and plain; ours have the colour of
their meaning, and each has its own hatching or dashes, so every chart can be read without colour.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pgflash.model.chart import Chart, ChartForm, ChartSeries
from pgflash.model.words import figure, percent
from pgflash.report import colours, svg
from pgflash.report.printed import titled, visible

#: Prefix of the ids of the patterns in a page.
_PREFIX = "look"
#: The plain pattern is that of others' figures.
_PLAIN = 0
#: The chart has a gap if more than this share of a step is missing.
_GAP_STEPS = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One drawing and its title."""

    caption: str
    drawing: Markup
    #: Swatch and name; empty if there is only one series.
    legend: tuple[tuple[Markup, str], ...]
    #: Not to be placed beside another, if there is a choice.
    wide: bool = False
    #: Colour and pattern of each filled area.
    looks: tuple[tuple[str, int], ...] = ()


def figures_of(charts: Iterable[Chart], *, about: str) -> tuple[Figure, ...]:
    """Return the drawings of charts; one without a single value is left out.

    ABOUT is the title of their table, for those who do not see it above the drawing.
    """
    drawn = ((chart, _series(chart)) for chart in charts)
    return tuple(_figure(chart, series, about) for chart, series in drawn if series)


def patterns(figures: Iterable[Figure]) -> Markup:
    """Return the patterns that these drawings use; once in a page."""
    looks = [look for one in figures for look in one.looks]
    return svg.pattern_definitions(_PREFIX, looks) if looks else Markup("")


def _figure(chart: Chart, series: Sequence[svg.Series], about: str) -> Figure:
    line, shape = chart.form is ChartForm.LINES, chart.form is ChartForm.RANGES
    swatches = (svg.swatch(_PREFIX, one, line=line, shape=shape) for one in series)
    unit = "" if chart.unit == "share" else chart.unit
    caption = titled(visible(chart.title), unit)
    if chart.logarithmic:
        caption = f"{caption}, logarithmic"
    return Figure(
        caption=caption,
        drawing=_drawing(chart, series, ": ".join(filter(None, (visible(about), caption)))),
        legend=tuple(zip(swatches, (one.name for one in series), strict=True))
        if len(series) > 1 and not _is_labelled(chart)
        else (),
        wide=not _is_narrow(chart),
        looks=() if line or shape else tuple((one.colour, one.pattern) for one in series),
    )


def _is_labelled(chart: Chart) -> bool:
    """Tell whether what is written beside each bar says what it is."""
    return any(one.texts for one in chart.series)


def _is_narrow(chart: Chart) -> bool:
    return chart.form is ChartForm.BARS if chart.narrow is None else chart.narrow


def _series(chart: Chart) -> list[svg.Series]:
    """Return the drawable values; numbers below zero and missing ones are not drawn."""
    ours = [one for one in chart.series if not one.of_others]
    meant = [_colour(one, number) for number, one in enumerate(ours)]
    if len(set(meant)) < len(meant):  # then the names' meanings do not tell them apart
        meant = [colours.spare(number) for number in range(len(ours))]
    # Plain is the look of others' figures, if the chart has any.
    first = 1 if len(ours) < len(chart.series) else 0
    looks = {id(one): (meant[n], first + n) for n, one in enumerate(ours)}
    fills = [colours.of_approach(one) for one in chart.approaches]
    found = []
    for one in chart.series:
        colour, pattern = looks.get(id(one), (colours.OTHERS, _PLAIN))
        values = [value if value is not None and value >= 0 else None for value in one.values]
        if any(value is not None for value in values):
            found.append(
                svg.Series(
                    name=visible(one.name),
                    colour=colour,
                    pattern=pattern,
                    values=values,
                    fills=() if one.of_others else fills,
                    strong=not one.of_others,
                    dots=one.dots,
                    texts=[visible(text) for text in one.texts],
                )
            )
    return found


def _colour(series: ChartSeries, number: int) -> str:
    if series.approach:
        return colours.of_approach(series.approach)
    return colours.of_name(visible(series.name), number)


def _drawing(chart: Chart, series: Sequence[svg.Series], title: str) -> Markup:
    share, narrow = chart.unit == "share", _is_narrow(chart)
    labels = [visible(label) for label in chart.labels]
    width = svg.NARROW if narrow else svg.WIDE
    match chart.form:
        case ChartForm.BARS:
            return svg.bars(
                _PREFIX,
                labels,
                series,
                title=title,
                texts=percent if share else figure,
                narrow=narrow,
            )
        case ChartForm.COLUMNS:
            return svg.columns(_PREFIX, labels, series, title=title)
        case ChartForm.SHARES:
            return svg.shares(_PREFIX, labels, series, title=title, share=share)
        case ChartForm.RANGES:
            return svg.ranges(labels, series, title=title, logarithmic=chart.logarithmic)
        case ChartForm.STACKED:
            return svg.areas(
                _PREFIX,
                spans(chart),
                series,
                title=title,
                width=width,
                share=share,
                clock=chart.clock,
            )
        case ChartForm.LINES:
            return svg.lines(
                spans(chart),
                series,
                title=title,
                width=width,
                share=share,
                clock=chart.clock,
                logarithmic=chart.logarithmic,
                marks=[(at_s, visible(text)) for at_s, text in chart.marks],
            )


def spans(chart: Chart) -> list[svg.Span]:
    """Return the time span of each value; moments are rounded, so neighbours are joined."""
    lasting_s = chart.lasting_s or (chart.every_s,) * len(chart.at_s)
    usual_s = statistics.median(lasting_s) if lasting_s else 0.0
    ends = [at_s + lasts for at_s, lasts in zip(chart.at_s, lasting_s, strict=True)]
    for place, after in enumerate(chart.at_s[1:]):
        if after - ends[place] < _GAP_STEPS * max(lasting_s[place], usual_s):
            ends[place] = after
    return list(zip(chart.at_s, ends, strict=True))
