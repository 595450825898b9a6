# SPDX-License-Identifier: PostgreSQL
"""Charts of a period: stacked areas and lines over time, bars of a histogram, as SVG.

They are drawn here and not by the library of the lab's report, for two reasons: the library takes
half a second before its first chart, half of the time for a whole report; and it has no patterns.
Here every filled area has a hatching of its own and every line its dashes, so the charts can be
read on paper and without seeing colours.  See docs/decisions.

All numbers come from a table beside the chart; a text is escaped once, in _element().  A value over
time holds for a span, from its begin to its end in seconds; if spans are missing, the chart stays
empty there, as an outage is not an idle time.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from markupsafe import Markup, escape

from pgflash.report.colours import FAINT, GRID, INK
from pgflash.report.printed import figure

#: Begin and end, in seconds since 1970.
Span: TypeAlias = tuple[float, float]

_TIME_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip
#: Approximate number of steps on a vertical axis.
_STEPS = 5
_TILE = 8
#: Hatchings by number: paths on a tile; the first is plain.
_HATCHINGS = (
    "",
    "M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6",
    "M2,2 h2 v2 h-2 z M6,6 h2 v2 h-2 z",
    "M-2,6 L2,10 M0,0 L8,8 M6,-2 L10,2",
    "M0,4 H8",
    "M4,0 V8",
    "M0,4 H8 M4,0 V8",
    "M0,8 L8,0 M0,0 L8,8",
    "M0,2 H8 M0,6 H8",
    "M2,0 V8 M6,0 V8",
)
#: Longer labels of horizontal bars are cut.
_LABEL_MAX = 38
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One area, line or row of bars: a value for each span, None if there is none."""

    name: str
    colour: str
    #: The number of the hatching or dashes.
    pattern: int
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """The area of a chart, and the conversion of values to positions."""

    width: int
    height: int
    x_min: float
    x_max: float
    y_max: float
    left: int = 58
    right: int = 22
    top: int = 12
    bottom: int = 24

    def x(self, value: float) -> float:
        """Return the position of a horizontal value in the picture."""
        span = (self.x_max - self.x_min) or 1.0
        return self.left + (value - self.x_min) / span * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        """Return the position of a vertical value in the picture."""
        room = self.height - self.top - self.bottom
        return self.top + room * (1 - value / (self.y_max or 1.0))


def pattern_definitions(prefix: str, looks: Iterable[tuple[str, int]]) -> Markup:
    """Return the hatchings (colour, pattern) to which fill() refers; once in a page."""
    tiles = []
    for colour, pattern in dict.fromkeys(looks):
        tile = _element("rect", width=_TILE, height=_TILE, fill=colour)
        stroke = _hatching_colour(colour)
        path = _HATCHINGS[pattern % len(_HATCHINGS)]
        if path:
            tile += _element("path", d=path, stroke=stroke, stroke_width=1.2, fill="none")
        tiles.append(
            _element(
                "pattern",
                tile,
                id=_pattern_id(prefix, colour, pattern),
                width=_TILE,
                height=_TILE,
                patternUnits="userSpaceOnUse",
            )
        )
    return _element(
        "svg",
        _element("defs", Markup("").join(tiles)),
        width=0,
        height=0,
        aria_hidden="true",
        **{"class": "definitions"},
    )


def swatch(prefix: str, series: Series, *, line: bool) -> Markup:
    """Return a small picture of a series' look, for a legend."""
    if line:
        inside = _element("path", d="M0,6 H26", **_line_look(series))
    else:
        inside = _element("rect", width=26, height=12, fill=_fill(prefix, series))
    return _element("svg", inside, viewBox="0 0 26 12", width=26, height=12, aria_hidden="true")


def look(series: Series) -> dict[str, str]:
    """Return a series' style, for drawing it elsewhere: on a canvas of the live page."""
    return {
        "fill": series.colour,
        "hatching": _HATCHINGS[series.pattern % len(_HATCHINGS)],
        "hatching_colour": _hatching_colour(series.colour),
        "stroke": _for_a_line(series.colour),
        "dashes": _DASHES[series.pattern % len(_DASHES)],
    }


def stacked(
    prefix: str,
    spans: Sequence[Span],
    series: Sequence[Series],
    *,
    title: str,
    share: bool = False,
    clock: bool = True,
) -> Markup:
    """Draw areas on top of each other; SHARE: the values are shares of one.

    With CLOCK the axis has times of day, otherwise seconds.
    """
    sums = [sum(one.values[i] or 0.0 for one in series) for i in range(len(spans))]
    frame = _time_frame(spans, y_max=1.0 if share else max(sums, default=0.0))
    drawn = [_axes(frame, share=share), _time_axis(frame, clock=clock)]
    floor = [0.0] * len(spans)
    for one in series:
        ceiling = [low + (value or 0.0) for low, value in zip(floor, one.values, strict=True)]
        if share:
            ceiling = [min(value, 1.0) for value in ceiling]
        path = _area(frame, spans, floor, ceiling, one.values)
        if path:
            name = _element("title", one.name)
            drawn.append(_element("path", name, d=path, fill=_fill(prefix, one)))
        floor = ceiling
    return _picture(frame, title, drawn)


def lines(
    spans: Sequence[Span],
    series: Sequence[Series],
    *,
    title: str,
    wide: bool = False,
    clock: bool = True,
) -> Markup:
    """Draw lines over time from zero up, in steps; without CLOCK the axis has seconds."""
    values = [value for one in series for value in one.values if value is not None]
    width, height = (880, 220) if wide else (430, 170)
    largest = max(values, default=0.0)
    frame = _time_frame(spans, y_max=largest, width=width, height=height)
    drawn = [_axes(frame), _time_axis(frame, clock=clock)]
    for one in series:
        path = _line(frame, spans, one.values)
        if path:
            name = _element("title", one.name)
            drawn.append(_element("path", name, d=path, **_line_look(one)))
    return _picture(frame, title, drawn)


def bars(prefix: str, labels: Sequence[str], series: Sequence[Series], *, title: str) -> Markup:
    """Draw a histogram: for each label one bar of each series, side by side."""
    values = [value for one in series for value in one.values if value is not None]
    frame = _Frame(
        width=880,
        height=220,
        x_min=0,
        x_max=max(len(labels), 1),
        y_max=_top(max(values, default=0)),
    )
    drawn = [_axes(frame)]
    width = (frame.x(1) - frame.x(0)) * 0.84 / max(len(series), 1)
    for number, one in enumerate(series):
        rects = [_element("title", one.name)]
        for place, value in enumerate(one.values):
            if value:
                top = frame.y(value)
                rects.append(
                    _element(
                        "rect",
                        x=frame.x(place) + (frame.x(1) - frame.x(0)) * 0.08 + number * width,
                        y=top,
                        width=width,
                        height=frame.y(0) - top,
                        fill=_fill(prefix, one),
                    )
                )
        drawn.append(_element("g", Markup("").join(rects)))
    every = math.ceil(len(labels) / 16)
    for place, label in enumerate(labels):
        if place % every == 0:
            drawn.append(_text(frame.x(place + 0.5), frame.height - 7, label, anchor="middle"))
    return _picture(frame, title, drawn)


def lying(
    prefix: str,
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    title: str,
    texts: Callable[[float], str],
) -> Markup:
    """Draw horizontal bars, each with its number: for each label, one of each series."""
    values = [value for one in series for value in one.values if value is not None]
    thick, gap = 17, 12
    frame = _Frame(
        width=640,
        height=len(labels) * (len(series) * thick + gap) + gap,
        x_min=0,
        x_max=_top(max(values, default=0)),
        y_max=1,
        left=230,
        right=80,
        top=0,
        bottom=0,
    )
    drawn = [_element("path", d=f"M{frame.left},0 V{frame.height}", stroke=FAINT)]
    y = gap
    for place, label in enumerate(labels):
        middle = y + len(series) * thick / 2 + 4
        shown = label if len(label) <= _LABEL_MAX else label[: _LABEL_MAX - 1] + "…"
        drawn.append(_text(frame.left - 8, middle, shown, anchor="end"))
        for one in series:
            value = one.values[place]
            if value is not None:
                width = frame.x(value) - frame.left
                drawn.append(
                    _element(
                        "rect",
                        _element("title", f"{label}, {one.name}: {texts(value)}"),
                        x=frame.left,
                        y=y,
                        width=width,
                        height=thick - 3,
                        fill=_fill(prefix, one),
                        stroke=INK,
                        stroke_width=0.5,
                    )
                )
                drawn.append(_text(frame.left + width + 6, y + 11, texts(value), anchor="start"))
            y += thick
        y += gap
    return _picture(frame, title, drawn)


def nice_step(largest: float, count: int) -> float:
    """Return a round step (1, 2 or 5 times a power of ten) of which COUNT reach LARGEST."""
    if largest <= 0:
        return 1.0
    rough = largest / count
    power = 10.0 ** math.floor(math.log10(rough))
    return next((n * power for n in (1, 2, 5) if n * power >= rough * 0.999999), 10 * power)


# ---- the parts of a chart


def _time_frame(
    spans: Sequence[Span], *, y_max: float, width: int = 880, height: int = 240
) -> _Frame:
    return _Frame(
        width=width,
        height=height,
        x_min=spans[0][0] if spans else 0.0,
        x_max=spans[-1][1] if spans else 1.0,
        y_max=_top(y_max),
    )


def _top(largest: float) -> float:
    """Return the end of the vertical axis: at the end of a step."""
    step = nice_step(largest, _STEPS)
    return step * max(math.ceil(largest / step * 0.999999), 1)


def _axes(frame: _Frame, *, share: bool = False) -> Markup:
    """Draw the horizontal lines and their values."""
    step = nice_step(frame.y_max, _STEPS)
    marks = []
    for number in range(round(frame.y_max / step) + 1):
        value = number * step
        y = frame.y(value)
        marks.append(
            _element("path", d=f"M{frame.left},{y:.1f} H{frame.width - frame.right}", stroke=GRID)
        )
        label = f"{100 * value:.0f}%" if share else "0" if number == 0 else _tick(value)
        marks.append(_text(frame.left - 6, y + 4, label, anchor="end"))
    return Markup("").join(marks)


def _tick(value: float) -> str:
    """Return a round number in its shortest form."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    if value >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:g}" if value < 1000 else figure(value)


def _time_axis(frame: _Frame, *, clock: bool) -> Markup:
    span = frame.x_max - frame.x_min
    room = (frame.width - frame.left - frame.right) / 76
    step = next((s for s in _TIME_STEPS_S if span / s <= room), _TIME_STEPS_S[-1])
    marks = []
    at = math.ceil(frame.x_min / step) * step
    day = ""
    while at <= frame.x_max:
        moment = datetime.fromtimestamp(at, UTC)
        label = f"{moment:%H:%M:%S}" if step < 60 else f"{moment:%H:%M}"
        if span > 86400 and f"{moment:%d %b}" != day:
            day = f"{moment:%d %b}"
            label = day
        if not clock:
            label = f"{at:g} s"
        x = frame.x(at)
        marks.append(_element("path", d=f"M{x:.1f},{frame.y(0):.1f} v4", stroke=FAINT))
        marks.append(_text(x, frame.height - 7, label, anchor="middle"))
        at += step
    return Markup("").join(marks)


def _area(
    frame: _Frame,
    spans: Sequence[Span],
    floor: Sequence[float],
    ceiling: Sequence[float],
    values: Sequence[float | None],
) -> str:
    """Return the outline of the area between floor and ceiling, in steps."""
    parts = []
    for first, last in _runs(spans, values):
        upper, lower = [], []
        for i in range(first, last + 1):
            left, right = (frame.x(at) for at in spans[i])
            low, high = frame.y(floor[i]), frame.y(ceiling[i])
            upper.append(f"{left:.1f},{high:.1f} {right:.1f},{high:.1f}")
            lower.append(f"{right:.1f},{low:.1f} {left:.1f},{low:.1f}")
        if any(ceiling[i] > floor[i] for i in range(first, last + 1)):
            parts.append(f"M{' '.join(upper)} {' '.join(reversed(lower))}Z")
    return "".join(parts)


def _line(frame: _Frame, spans: Sequence[Span], values: Sequence[float | None]) -> str:
    """Return a line's path, in steps."""
    path = []
    for first, last in _runs(spans, values):
        path.append(f"M{frame.x(spans[first][0]):.1f},")
        for i in range(first, last + 1):
            # The M has the first height; each other height is a step up or down.
            step = "" if i == first else "V"
            path.append(f"{step}{frame.y(values[i] or 0.0):.1f}H{frame.x(spans[i][1]):.1f}")
    return "".join(path)


def _runs(spans: Sequence[Span], values: Sequence[float | None]) -> list[tuple[int, int]]:
    """Return the first and last position of each stretch without a gap."""
    runs: list[tuple[int, int]] = []
    for i, value in enumerate(values):
        if value is None:
            continue
        if runs and runs[-1][1] == i - 1 and spans[i - 1][1] >= spans[i][0]:
            runs[-1] = (runs[-1][0], i)
        else:
            runs.append((i, i))
    return runs


def _line_look(series: Series) -> dict[str, str | float]:
    dash = _DASHES[series.pattern % len(_DASHES)]
    look: dict[str, str | float] = {
        "stroke": _for_a_line(series.colour),
        "stroke_width": 2,
        "fill": "none",
    }
    return {**look, "stroke_dasharray": dash} if dash else look


def _fill(prefix: str, series: Series) -> str:
    return f"url(#{_pattern_id(prefix, series.colour, series.pattern)})"


def _pattern_id(prefix: str, colour: str, pattern: int) -> str:
    return f"{prefix}-{colour.lstrip('#')}-{pattern}"


def _hatching_colour(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#ffffff" if 0.3 * red + 0.59 * green + 0.11 * blue < 150 else INK


def _for_a_line(colour: str) -> str:
    """Return the colour, dark enough to be visible as a line on white."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    while 0.3 * red + 0.59 * green + 0.11 * blue > 130:
        red, green, blue = (part * 9 // 10 for part in (red, green, blue))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _text(x: float, y: float, text: str, *, anchor: str) -> Markup:
    return _element("text", text, x=x, y=y, text_anchor=anchor)


def _picture(frame: _Frame, title: str, drawn: Sequence[Markup]) -> Markup:
    return _element(
        "svg",
        Markup("").join(drawn),
        viewBox=f"0 0 {frame.width} {frame.height}",
        role="img",
        aria_label=title,
        width=frame.width * 5 // 4,
    )


def _element(tag: str, inside: str = "", /, **attributes: str | float) -> Markup:
    """Return an element; texts and values are escaped, Markup is used unchanged."""
    words = [tag]
    for name, value in attributes.items():
        shown = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
        words.append(f'{name.replace("_", "-")}="{escape(shown)}"')
    return Markup(f"<{' '.join(words)}>{escape(inside)}</{tag}>")
