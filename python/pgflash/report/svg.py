# SPDX-License-Identifier: PostgreSQL
"""The charts of all static pages as SVG: areas and lines over time, columns, bars, ranges.

Every filled area has a hatching of its own and every line its dashes, so the charts can be read on
paper and without seeing colours.  No library draws them: docs/decisions says which were tried.

All numbers come from a table beside the chart; a text is escaped once, in _element().  A value over
time holds for a span, from its begin to its end in seconds; if spans are missing, the chart stays
empty there, as an outage is not an idle time.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

from markupsafe import Markup, escape

from pgflash.model.words import figure
from pgflash.report.colours import FAINT, GRID, INK

#: Begin and end, in seconds since 1970.
Span: TypeAlias = tuple[float, float]

_TIME_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip
#: Width of a chart that fills the page, and of one that has a place beside another.
WIDE, NARROW = 880, 430
#: Width and height of a chart in a row of a table.
_SMALL = (160, 36)
#: Approximate number of steps on an axis, and the most marks on a logarithmic one.
_STEPS = 5
_MARKS_MAX = 9
#: Horizontal bars: room for their labels, height of one, distance to the next label.
_NAMES, _THICK, _GAP = 230, 17, 12
#: Shapes of a range's ends and of the marks between them.
_SHAPES = (
    "M-4.5,0 a4.5,4.5 0 1 0 9,0 a4.5,4.5 0 1 0 -9,0 Z",
    "M-4,-4 h8 v8 h-8 Z",
    "M-4,-5 L5,0 L-4,5 Z",
    "M-5,0 L0,-5 L5,0 L0,5 Z",
)
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
#: From so many values on, steps would hide what a line does.
_STEPS_MAX = 60
#: About the width of a letter.
_LETTER = 7
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
    #: Of bars and ranges: the colour of each label instead of its own.
    fills: Sequence[str] = ()
    #: Of bars: the measurements of which a value is the median, and a text instead of the number.
    dots: Sequence[Sequence[float]] = ()
    #: Of bars: whether their numbers are what is read first.
    strong: bool = True
    texts: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """The values from one end of a chart to the other; a logarithmic axis begins above zero."""

    low: float = 0.0
    high: float = 1.0
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return how far along the axis a value is, from 0 to 1; what is below begins at 0."""
        low, high, at = self.low, self.high, max(value, self.low)
        if self.logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return (at - low) / ((high - low) or 1.0)

    def marks(self) -> list[float]:
        """Return the values that are written beside the axis."""
        if not self.logarithmic:
            step = nice_step(self.high, _STEPS)
            return [number * step for number in range(round(self.high / step) + 1)]
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for parts in ((1, 2, 5), (1,)):
            marks = [part * 10.0**power for power in powers for part in parts]
            found = [one for one in marks if self.low * 0.999 <= one <= self.high * 1.001]
            if len(found) <= _MARKS_MAX:
                break
        return found


def _axis_of(values: Sequence[float], *, logarithmic: bool = False) -> _Axis:
    """Return an axis that all values are on, which ends at a mark."""
    positive = [value for value in values if value > 0]
    if not logarithmic or not positive:
        return _Axis(high=_top(max(values, default=0.0)))
    low, high = _log_step(min(positive), up=False), _log_step(max(positive), up=True)
    return _Axis(low=low, high=high if high > low else 2 * low, logarithmic=True)


def _log_step(value: float, *, up: bool) -> float:
    """Return the nearest 1, 2 or 5 times a power of ten that is not below, or above, a value."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = [step * power for step in (1, 2, 5, 10)]
    if up:
        return next(step for step in steps if step >= value * 0.999999)
    return max(step for step in steps if step <= value * 1.000001)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """The area of a chart, and the conversion of values to positions."""

    width: int
    height: int
    across: _Axis = field(default_factory=_Axis)
    upright: _Axis = field(default_factory=_Axis)
    left: int = 58
    right: int = 22
    top: int = 12
    bottom: int = 24

    def x(self, value: float) -> float:
        """Return the position of a horizontal value in the picture."""
        return self.left + self.across.share(value) * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        """Return the position of a vertical value in the picture."""
        room = self.height - self.top - self.bottom
        return self.top + room * (1 - self.upright.share(value))


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


def swatch(prefix: str, series: Series, *, line: bool = False, shape: bool = False) -> Markup:
    """Return a small picture of a series' look, for a legend: an area, a line, or a shape."""
    if shape:
        inside = _element("path", d=_shape(series), fill=INK, transform="translate(13 6)")
    elif line:
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
        "stroke_on_dark": _for_a_line_on_dark(series.colour),
        "dashes": _DASHES[series.pattern % len(_DASHES)],
    }


def areas(
    prefix: str,
    spans: Sequence[Span],
    series: Sequence[Series],
    *,
    title: str,
    width: int = WIDE,
    share: bool = False,
    clock: bool = True,
) -> Markup:
    """Draw areas on top of each other; SHARE: the values are shares of one.

    With CLOCK the axis has times of day, otherwise seconds.
    """
    sums = [sum(one.values[i] or 0.0 for one in series) for i in range(len(spans))]
    frame = _time_frame(spans, width, _Axis() if share else _axis_of(sums), height=240)
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
    width: int = NARROW,
    share: bool = False,
    clock: bool = True,
    logarithmic: bool = False,
    marks: Sequence[tuple[float, str]] = (),
) -> Markup:
    """Draw lines over time, in steps; without CLOCK the axis has seconds.

    MARKS are moments, and what is written beside each of them.
    """
    values = [value for one in series for value in one.values if value is not None]
    axis = _Axis() if share else _axis_of(values, logarithmic=logarithmic)
    frame = _time_frame(spans, width, axis, height=220)
    drawn = [_axes(frame, share=share), _time_axis(frame, clock=clock)]
    for one in series:
        path = _line(frame, spans, one.values)
        if path:
            name = _element("title", one.name)
            drawn.append(_element("path", name, d=path, **_line_look(one)))
    return _picture(frame, title, [*drawn, *_marks(frame, marks)])


def small(spans: Sequence[Span], series: Series, *, highest: float, title: str) -> Markup:
    """Draw one area without axes, for a row of a table; HIGHEST is where its scale ends."""
    across = _Axis(low=spans[0][0], high=spans[-1][1])
    width, height = _SMALL
    frame = _Frame(
        width=width, height=height, across=across, upright=_Axis(high=highest or 1.0),
        left=0, right=0, top=1, bottom=1,
    )  # fmt: skip
    ceiling = [value or 0.0 for value in series.values]
    path = _area(frame, spans, [0.0] * len(spans), ceiling, series.values)
    base = _element("path", d=f"M0,{height - 0.5} H{width}", stroke=FAINT)
    return _picture(frame, title, [_element("path", d=path, fill=series.colour), base])


def columns(prefix: str, labels: Sequence[str], series: Sequence[Series], *, title: str) -> Markup:
    """Draw a histogram: for each label one column of each series, side by side."""
    values = [value for one in series for value in one.values if value is not None]
    across = _Axis(high=max(len(labels), 1))
    frame = _Frame(width=WIDE, height=220, across=across, upright=_axis_of(values))
    drawn = [_axes(frame)]
    width = (frame.x(1) - frame.x(0)) * 0.84 / max(len(series), 1)
    for number, one in enumerate(series):
        rects = [_element("title", one.name)]
        for place, value in enumerate(one.values):
            if value:
                left = frame.x(place) + (frame.x(1) - frame.x(0)) * 0.08 + number * width
                top = frame.y(value)
                rects.append(_bar(left, top, width, frame.y(0) - top, _fill(prefix, one)))
        drawn.append(_element("g", Markup("").join(rects)))
    # As many labels as there is room for, at 7 units a letter.
    room = (frame.x(1) - frame.x(0)) / (7 * max(map(len, labels), default=1) + 8)
    every = math.ceil(1 / room)
    for place, label in enumerate(labels):
        if place % every == 0:
            drawn.append(_text(frame.x(place + 0.5), frame.height - 7, label, anchor="middle"))
    return _picture(frame, title, drawn)


def bars(
    prefix: str,
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    title: str,
    texts: Callable[[float], str],
    narrow: bool = True,
) -> Markup:
    """Draw horizontal bars, each with its number: for each label, one of each series."""
    values = [value for one in series for value in one.values if value is not None]
    dots = [dot for one in series for those in one.dots for dot in those]
    right = max((7 * len(text) for one in series for text in one.texts), default=70) + 10
    axis = _axis_of([*values, *dots])
    frame = _lying_frame(len(labels), len(series), axis, width=640 if narrow else WIDE, right=right)
    drawn = [_element("path", d=f"M{frame.left},0 V{frame.height}", stroke=FAINT)]
    for place, label in enumerate(labels):
        y = _GAP + place * (len(series) * _THICK + _GAP)
        drawn.append(_name(frame, y + len(series) * _THICK / 2, label))
        for one in series:
            value = one.values[place]
            if value is not None:
                said = one.texts[place] if one.texts else texts(value)
                name = _element("title", f"{label}, {one.name}: {said}")
                fill = one.fills[place] if one.fills else _fill(prefix, one)
                edge = frame.x(max([value, *(one.dots[place] if one.dots else ())]))
                drawn.append(
                    _bar(frame.left, y, frame.x(value) - frame.left, _THICK - 3, fill, name)
                )
                drawn += [
                    _dot(frame.x(dot), y + 7) for dot in (one.dots[place] if one.dots else ())
                ]
                drawn.append(_text(edge + 8, y + 11, said, anchor="start", strong=one.strong))
            y += _THICK
    return _picture(frame, title, drawn)


def shares(
    prefix: str, labels: Sequence[str], series: Sequence[Series], *, title: str, share: bool
) -> Markup:
    """Draw one horizontal bar for each label, divided among the series; SHARE: they add up to 1."""
    sums = [sum(one.values[place] or 0.0 for one in series) for place in range(len(labels))]
    axis = _Axis() if share else _axis_of(sums)
    frame = _lying_frame(len(labels), 1, axis, width=WIDE, right=26, thick=20, bottom=24)
    drawn = [_lying_axes(frame, share=share)]
    for place, label in enumerate(labels):
        y = _GAP + place * (20 + _GAP)
        drawn.append(_name(frame, y + 10, label))
        done = 0.0
        for one in series:
            end = done + (one.values[place] or 0.0)
            left, right = frame.x(min(done, axis.high)), frame.x(min(end, axis.high))
            if right > left:
                name = _element("title", f"{label}, {one.name}")
                drawn.append(_bar(left, y, right - left, 20, _fill(prefix, one), name))
            done = end
    return _picture(frame, title, drawn)


def ranges(
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    title: str,
    logarithmic: bool,
) -> Markup:
    """Draw a line for each label from its least value to its largest, each value with a shape."""
    values = [value for one in series for value in one.values if value is not None]
    axis = _axis_of(values, logarithmic=logarithmic)
    frame = _lying_frame(len(labels), 1, axis, width=WIDE, right=26, thick=20, bottom=24)
    drawn = [_lying_axes(frame)]
    for place, label in enumerate(labels):
        y = _GAP + place * (20 + _GAP) + 10
        drawn.append(_name(frame, y, label))
        found = [(one, value) for one in series if (value := one.values[place]) is not None]
        if logarithmic:
            found = [(one, value) for one, value in found if value > 0]
        if not found:
            continue
        ends = [frame.x(value) for _, value in found]
        colour = found[0][0].fills[place] if found[0][0].fills else FAINT
        across = f"M{min(ends):.1f},{y:.1f} H{max(ends):.1f}"
        dark = _for_a_line(colour)
        drawn.append(_element("path", d=across, stroke=dark, stroke_width=5, opacity=0.35))
        for one, value in found:
            name = _element("title", f"{label}, {one.name}: {figure(value)}")
            where = f"translate({frame.x(value):.1f} {y:.1f})"
            drawn.append(_element("path", name, d=_shape(one), fill=dark, transform=where))
    return _picture(frame, title, drawn)


def nice_step(largest: float, count: int) -> float:
    """Return a round step (1, 2 or 5 times a power of ten) of which COUNT reach LARGEST."""
    if largest <= 0:
        return 1.0
    rough = largest / count
    power = 10.0 ** math.floor(math.log10(rough))
    return next((n * power for n in (1, 2, 5) if n * power >= rough * 0.999999), 10 * power)


# ---- the parts of a chart


def _time_frame(spans: Sequence[Span], width: int, upright: _Axis, *, height: int) -> _Frame:
    across = _Axis(low=spans[0][0], high=spans[-1][1]) if spans else _Axis()
    height = height if width == WIDE else 170
    return _Frame(width=width, height=height, across=across, upright=upright)


def _lying_frame(
    labels: int,
    series: int,
    across: _Axis,
    *,
    width: int,
    right: int,
    thick: int = _THICK,
    bottom: int = 0,
) -> _Frame:
    """Return the area of horizontal bars, with room for their labels."""
    return _Frame(
        width=width,
        height=labels * (series * thick + _GAP) + _GAP + bottom,
        across=across,
        left=_NAMES,
        right=right,
        top=0,
        bottom=bottom,
    )


def _top(largest: float) -> float:
    """Return the end of the vertical axis: at the end of a step."""
    step = nice_step(largest, _STEPS)
    return step * max(math.ceil(largest / step * 0.999999), 1)


def _axes(frame: _Frame, *, share: bool = False) -> Markup:
    """Draw the horizontal lines and their values."""
    marks = []
    for value in frame.upright.marks():
        y = frame.y(value)
        marks.append(
            _element("path", d=f"M{frame.left},{y:.1f} H{frame.width - frame.right}", stroke=GRID)
        )
        marks.append(_text(frame.left - 6, y + 4, _tick(value, share=share), anchor="end"))
    return Markup("").join(marks)


def _lying_axes(frame: _Frame, *, share: bool = False) -> Markup:
    """Draw the vertical lines and their values."""
    marks = []
    end = frame.height - frame.bottom
    for value in frame.across.marks():
        x = frame.x(value)
        marks.append(_element("path", d=f"M{x:.1f},0 V{end}", stroke=GRID))
        marks.append(_text(x, frame.height - 7, _tick(value, share=share), anchor="middle"))
    return Markup("").join(marks)


def _name(frame: _Frame, middle: float, label: str) -> Markup:
    """Write a label to the left of its bars."""
    shown = label if len(label) <= _LABEL_MAX else label[: _LABEL_MAX - 1] + "…"
    return _text(frame.left - 8, middle + 4, shown, anchor="end", strong=True)


def _bar(x: float, y: float, width: float, height: float, fill: str, inside: str = "") -> Markup:
    look: dict[str, str | float] = {"x": x, "y": y, "width": width, "height": height, "fill": fill}
    return _element("rect", inside, **look, stroke=INK, stroke_width=0.5)


def _dot(x: float, y: float) -> Markup:
    """Draw one of the measurements behind a bar."""
    return _element("circle", cx=x, cy=y, r=2.6, fill="#ffffff", stroke=INK)


def _shape(series: Series) -> str:
    return _SHAPES[series.pattern % len(_SHAPES)]


def _tick(value: float, *, share: bool) -> str:
    """Return a round number in its shortest form."""
    if share:
        return f"{100 * value:.0f} %"
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    if value >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:g}" if value < 1000 else figure(value)


def _marks(frame: _Frame, marks: Sequence[tuple[float, str]]) -> Iterator[Markup]:
    """Draw a vertical line for each moment, with its text below that of the one before.

    A text is left of its line if there is room, where the moment has not had its effect yet.
    """
    first, last = frame.across.low, frame.across.high
    shown = [(at_s, text) for at_s, text in marks if first <= at_s <= last]
    bottom = frame.height - frame.bottom
    for number, (at_s, text) in enumerate(sorted(shown)):
        x = frame.x(at_s)
        yield _element(
            "path", d=f"M{x:.1f},{frame.top} V{bottom}", stroke=FAINT, stroke_dasharray="2 3"
        )
        left = x - frame.left > _LETTER * len(text)
        yield _text(
            x - 4 if left else x + 4,
            frame.top + 11 + 13 * number,
            text,
            anchor="end" if left else "start",
        )


def _time_axis(frame: _Frame, *, clock: bool) -> Markup:
    first, last = frame.across.low, frame.across.high
    span = last - first
    room = (frame.width - frame.left - frame.right) / 76
    step = next((s for s in _TIME_STEPS_S if span / s <= room), _TIME_STEPS_S[-1])
    marks = []
    at = math.ceil(first / step) * step
    day = ""
    while at <= last:
        moment = datetime.fromtimestamp(at, UTC)
        label = f"{moment:%H:%M:%S}" if step < 60 else f"{moment:%H:%M}"
        if span > 86400 and f"{moment:%d %b}" != day:
            day = f"{moment:%d %b}"
            label = day
        if not clock:
            label = f"{at:g} s"
        x = frame.x(at)
        marks.append(_element("path", d=f"M{x:.1f},{frame.height - frame.bottom} v4", stroke=FAINT))
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
    """Return a line's path: in steps, or through the middles of many spans."""
    path = []
    for first, last in _runs(spans, values):
        begin, end = spans[first][0], spans[last][1]
        heights = [frame.y(values[i] or 0.0) for i in range(first, last + 1)]
        path.append(f"M{frame.x(begin):.1f},{heights[0]:.1f}")
        if last - first >= _STEPS_MAX:
            middles = (frame.x(sum(spans[i]) / 2) for i in range(first, last + 1))
            path += [f"L{x:.1f},{y:.1f}" for x, y in zip(middles, heights, strict=True)]
            path.append(f"H{frame.x(end):.1f}")
            continue
        for i, height in enumerate(heights):
            # The M has the first height; each other height is a step up or down.
            path.append(f"V{height:.1f}" if i else "")
            path.append(f"H{frame.x(spans[first + i][1]):.1f}")
    return "".join(path)


def _runs(spans: Sequence[Span], values: Sequence[float | None]) -> list[tuple[int, int]]:
    """Return the first and last position of each range without a gap."""
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


def _for_a_line_on_dark(colour: str) -> str:
    """Return the colour, light enough to be visible as a line on a dark page."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    while 0.3 * red + 0.59 * green + 0.11 * blue < 130:
        red, green, blue = (part + (255 - part + 9) // 10 for part in (red, green, blue))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _text(x: float, y: float, text: str, *, anchor: str, strong: bool = False) -> Markup:
    look = {"class": "strong"} if strong else {}
    return _element("text", text, x=x, y=y, text_anchor=anchor, **look)


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
