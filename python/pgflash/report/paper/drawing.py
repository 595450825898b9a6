# SPDX-License-Identifier: PostgreSQL
"""The charts of a paper's page, drawn with the hatchings and dashes of the other pages.

The paper's figures are pale and plain; ours have the colour of their meaning, and each area has its
own hatching, so that no chart needs colour to be read.
"""

from collections.abc import Sequence

from markupsafe import Markup

from pgflash.model.exhibit import Chart, ChartForm
from pgflash.report import colours, svg
from pgflash.report.awr.pictures import PREFIX, Figure, Picture, colour_of
from pgflash.report.printed import figure, titled, visible

#: The plain pattern is the paper's.
_PLAIN = 0
#: The chart has a gap if more than this share of a step is missing.
_GAP_STEPS = 0.6


def picture_of_charts(charts: Sequence[Chart]) -> Picture | None:
    """Return the drawings of an exhibit's charts; None if there is nothing to draw."""
    figures: list[Figure] = []
    looks: list[tuple[str, int]] = []
    for chart in charts:
        series = _series(chart)
        if not series:
            continue
        line = chart.form is ChartForm.LINES
        legend = tuple((svg.swatch(PREFIX, one, line=line), one.name) for one in series)
        unit = "" if chart.unit == "share" else chart.unit
        figures.append(
            Figure(
                caption=titled(visible(chart.title), unit),
                drawing=_drawing(chart, series),
                legend=legend if len(series) > 1 else (),
                wide=chart.form is not ChartForm.BARS,
            )
        )
        if not line:
            looks += [(one.colour, one.pattern) for one in series]
    return Picture(figures=tuple(figures), looks=tuple(looks)) if figures else None


def _series(chart: Chart) -> list[svg.Series]:
    """Return the drawable values; numbers below zero and missing ones are not drawn."""
    found: list[svg.Series] = []
    own = 0
    # The meaning of a name gives the colour, if that distinguishes all of them.
    names = [visible(one.name) for one in chart.series if not one.of_paper]
    meant = [colour_of(name, number) for number, name in enumerate(names)]
    apart = len(set(meant)) == len(meant)
    for one in chart.series:
        values = [value if value is not None and value >= 0 else None for value in one.values]
        own += not one.of_paper
        if any(value is not None for value in values):
            name = visible(one.name)
            found.append(
                svg.Series(
                    name=name,
                    colour=colours.PAPER
                    if one.of_paper
                    else colour_of(name if apart else "", own - 1),
                    pattern=_PLAIN if one.of_paper else own,
                    values=values,
                )
            )
    return found


def _drawing(chart: Chart, series: Sequence[svg.Series]) -> Markup:
    title = visible(chart.title)
    share = chart.unit == "share"
    if chart.form is ChartForm.BARS:
        labels = [visible(label) for label in chart.labels]
        return svg.lying(PREFIX, labels, series, title=title, texts=_percent if share else figure)
    if chart.form is ChartForm.COLUMNS:
        return svg.bars(PREFIX, [visible(label) for label in chart.labels], series, title=title)
    spans = _spans(chart)
    if chart.form is ChartForm.STACKED:
        return svg.stacked(PREFIX, spans, series, title=title, share=share, clock=False)
    return svg.lines(spans, series, title=title, wide=True, clock=False)


def _spans(chart: Chart) -> list[svg.Span]:
    """Return the time span of each value; moments are rounded, so neighbours are joined."""
    lasting_s = chart.lasting_s or (chart.every_s,) * len(chart.at_s)
    ends = [at_s + lasts for at_s, lasts in zip(chart.at_s, lasting_s, strict=True)]
    for place, after in enumerate(chart.at_s[1:]):
        if after - ends[place] < _GAP_STEPS * lasting_s[place]:
            ends[place] = after
    return list(zip(chart.at_s, ends, strict=True))


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"
