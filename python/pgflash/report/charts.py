# SPDX-License-Identifier: PostgreSQL
"""Charts as static SVG: Vega-Lite specifications, drawn here without a browser.

Each function takes plain values and returns one <svg> that scales with its column.  Nothing is
fetched: a specification contains its data, and the drawing library is told that no address is
allowed.  Vega writes a description for each mark (aria-label), and escapes every text; the names
come from stored runs, which anyone may have written.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import vl_convert
from markupsafe import Markup

from pgflash.report.colours import FAINT, GRID, INK, PAPER
from pgflash.report.printed import shown

#: The version of the grammar is pinned: a newer one may draw the same thing differently.
VEGA_LITE = "5.21"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
WIDTH = 880
ROW = 26
#: Marks of a logarithmic axis; a reader must be able to count the steps.
DECIMAL_STEPS = [n * 10**e for e in range(-2, 6) for n in (1, 2, 5)]
#: Room to the left of a bar chart for the names.
NAMES = 190

_CONFIG: dict[str, Any] = {
    "font": FONT,
    "background": "transparent",
    "view": {"stroke": None},
    "axis": {
        "labelColor": FAINT,
        "titleColor": FAINT,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "domainColor": GRID,
        "gridColor": GRID,
        "tickColor": GRID,
        "labelLimit": NAMES,
    },
    "axisY": {"domain": False, "ticks": False, "labelPadding": 8},
    "legend": {
        "orient": "top",
        "title": None,
        "labelFontSize": 12,
        "labelColor": INK,
        "symbolType": "square",
        "offset": 6,
        "labelLimit": 260,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line: its name, its style, its points."""

    name: str
    colour: str
    dash: Sequence[int]
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One approach's bar, the paper's beside it, and a dot for each repeat."""

    name: str
    colour: str
    value: float
    label: str
    paper: float | None = None
    repeats: Sequence[float] = ()


def ratio_bars(bars: Sequence[Bar], *, title: str) -> Markup:
    """Draw ratios to a baseline, each with the paper's ratio under it."""
    rows: list[dict[str, Any]] = []
    dots: list[dict[str, Any]] = []
    for bar in bars:
        rows.append(
            {
                "name": bar.name,
                "who": "1",
                "value": bar.value,
                "edge": max(bar.value, *bar.repeats, 0),
                "label": bar.label,
                "c": bar.colour,
            }
        )
        if bar.paper is not None:
            label = f"{bar.paper:.2f}× in the paper"
            rows.append(
                {
                    "name": bar.name,
                    "who": "2",
                    "value": bar.paper,
                    "edge": bar.paper,
                    "label": label,
                    "c": PAPER,
                }
            )
        dots.extend({"name": bar.name, "who": "1", "value": repeat} for repeat in bar.repeats)
    top = max((row["value"] for row in rows), default=1.0)
    offset = {"field": "who", "type": "nominal", "scale": {"domain": ["1", "2"], "paddingInner": 0}}
    place = {
        "y": {
            "field": "name",
            "type": "nominal",
            "sort": [bar.name for bar in bars],
            "axis": {"title": None, "labelColor": INK, "labelFontSize": 13},
            "scale": {"paddingInner": 0.3, "paddingOuter": 0.1},
        },
        "yOffset": offset,
        "x": {
            "field": "value",
            "type": "quantitative",
            "axis": {"title": title, "tickCount": 6},
            "scale": {"domain": [0, top * 1.32], "nice": False},
        },
    }
    bar_mark = {
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {**place, "color": {"field": "c", "type": "nominal", "scale": None}},
    }
    text = {
        "mark": {"type": "text", "align": "left", "dx": 10, "fontSize": 12},
        "encoding": {
            **place,
            "x": {"field": "edge", "type": "quantitative"},
            "text": {"field": "label"},
            "color": {
                "condition": {"test": "datum.who === '1'", "value": INK},
                "value": FAINT,
            },
        },
    }
    repeat_dots = {
        "data": {"values": dots},
        "mark": {
            "type": "point",
            "filled": True,
            "size": 22,
            "color": "white",
            "opacity": 1,
            "stroke": INK,
            "strokeWidth": 1,
        },
        "encoding": place,
    }
    return _draw(
        {
            "width": WIDTH - NAMES,
            "height": 2 * ROW * max(len(bars), 1),
            "data": {"values": rows},
            "layer": [bar_mark, repeat_dots, text],
        },
        title,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One approach's response times."""

    name: str
    colour: str
    p50: float
    p95: float
    p99: float


def spreads(rows: Sequence[Spread], *, title: str) -> Markup:
    """Draw a line from p50 to p99 for each approach, with a mark at each percentile."""
    place = {
        "y": {
            "field": "name",
            "type": "nominal",
            "sort": [row.name for row in rows],
            "axis": {"title": None, "labelColor": INK, "labelFontSize": 13},
        },
        "color": {"field": "colour", "type": "nominal", "scale": None},
    }
    axis = {"title": title, "values": DECIMAL_STEPS}
    scale = {"type": "log", "nice": False, "padding": 24}
    points = [
        {"name": row.name, "colour": row.colour, "which": which, "value": value}
        for row in rows
        for which, value in (("p50", row.p50), ("p95", row.p95), ("p99", row.p99))
        if value > 0
    ]
    ends = [
        {"name": row.name, "colour": row.colour, "p50": row.p50, "p99": row.p99}
        for row in rows
        if row.p50 > 0
    ]
    bar = {
        "data": {"values": ends},
        "mark": {"type": "rule", "strokeWidth": 6, "opacity": 0.35},
        "encoding": {
            **place,
            "x": {"field": "p50", "type": "quantitative", "axis": axis, "scale": scale},
            "x2": {"field": "p99"},
        },
    }
    marks = {
        "data": {"values": points},
        "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
        "encoding": {
            **place,
            "x": {"field": "value", "type": "quantitative"},
            "shape": {
                "field": "which",
                "type": "nominal",
                "scale": {
                    "domain": ["p50", "p95", "p99"],
                    "range": ["circle", "square", "triangle-right"],
                },
                "legend": {"symbolType": "circle", "symbolFillColor": INK},
            },
        },
    }
    return _draw(
        {"width": WIDTH - NAMES, "height": (ROW + 6) * max(len(rows), 1), "layer": [bar, marks]},
        title,
    )


def stacked_bars(
    rows: Sequence[tuple[str, str, float]],
    *,
    colours: Mapping[str, str],
    names: Sequence[str],
    title: str,
    share: bool,
) -> Markup:
    """Draw (name, part, value) as one stacked bar for each name; SHARE: they add up to 1."""
    parts = [part for part in colours if any(row[1] == part for row in rows)]
    values = [
        {"name": name, "part": part, "value": value, "order": parts.index(part)}
        for name, part, value in rows
    ]
    axis: dict[str, Any] = {"title": title, "tickCount": 6}
    scale: dict[str, Any] = {}
    if share:
        axis["format"] = "%"
        scale = {"domain": [0, 1], "clamp": True}
    return _draw(
        {
            "width": WIDTH - NAMES,
            "height": (ROW + 6) * max(len(names), 1),
            "data": {"values": values},
            "mark": {"type": "bar", "stroke": "white", "strokeWidth": 1},
            "encoding": {
                "y": {
                    "field": "name",
                    "type": "nominal",
                    "sort": list(names),
                    "axis": {"title": None, "labelColor": INK, "labelFontSize": 13},
                    "scale": {"paddingInner": 0.3},
                },
                "x": {"field": "value", "type": "quantitative", "axis": axis, "scale": scale},
                "color": {
                    "field": "part",
                    "type": "nominal",
                    "scale": {"domain": parts, "range": [colours[part] for part in parts]},
                },
                "order": {"field": "order", "type": "quantitative"},
            },
        },
        title,
    )


def lines(
    series: Sequence[Series], *, title: str, share: bool = False, log: bool = False
) -> Markup:
    """Draw values over the seconds of measuring, one line for each series."""
    values = [
        {"s": at_s, "value": value, "name": one.name}
        for one in series
        for at_s, value in one.points
        if not (log and value <= 0)
    ]
    names = [one.name for one in series]
    axis: dict[str, Any] = {"title": title, "tickCount": 5}
    scale: dict[str, Any] = {"zero": True}
    if share:
        axis["format"] = "%"
        scale["domain"] = [0, 1]
    if log:
        scale = {"type": "log", "nice": True}
        axis["values"] = DECIMAL_STEPS
    colour_scale = {"domain": names, "range": [one.colour for one in series]}
    dash_scale = {"domain": names, "range": [list(one.dash) for one in series]}
    return _draw(
        {
            "width": WIDTH - 70,
            "height": 230,
            "data": {"values": values},
            "mark": {"type": "line", "strokeWidth": 2, "interpolate": "linear"},
            "encoding": {
                "x": {
                    "field": "s",
                    "type": "quantitative",
                    "axis": {"title": "seconds of measuring", "grid": False, "tickCount": 10},
                    "scale": {"nice": False},
                },
                "y": {"field": "value", "type": "quantitative", "axis": axis, "scale": scale},
                "color": {
                    "field": "name",
                    "type": "nominal",
                    "scale": colour_scale,
                    "legend": {"symbolType": "stroke", "symbolSize": 400, "symbolStrokeWidth": 3},
                },
                "strokeDash": {"field": "name", "type": "nominal", "scale": dash_scale},
            },
        },
        title,
    )


def areas(
    rows: Sequence[tuple[float, str, float]], *, colours: Mapping[str, str], title: str
) -> Markup:
    """Draw (seconds, part, share) as areas stacked to 1."""
    parts = list(colours)
    return _draw(
        {
            "width": WIDTH // 2 - 70,
            "height": 120,
            "data": {
                "values": [
                    {"s": at_s, "part": part, "value": value, "order": parts.index(part)}
                    for at_s, part, value in rows
                ]
            },
            "mark": {"type": "area", "interpolate": "step-after"},
            "encoding": {
                "x": {
                    "field": "s",
                    "type": "quantitative",
                    "axis": {"title": "seconds of measuring", "grid": False, "tickCount": 5},
                    "scale": {"nice": False},
                },
                "y": {
                    "field": "value",
                    "type": "quantitative",
                    "stack": "zero",
                    "axis": {"title": None, "format": "%", "tickCount": 4},
                    "scale": {"domain": [0, 1], "clamp": True},
                },
                "color": {
                    "field": "part",
                    "type": "nominal",
                    "scale": {"domain": parts, "range": [colours[part] for part in parts]},
                    "legend": None,
                },
                "order": {"field": "order", "type": "quantitative"},
            },
        },
        title,
    )


def _draw(spec: Mapping[str, Any], title: str) -> Markup:
    """Return the specification as an <svg> that scales with its column."""
    full = _drawable({"description": title, "config": _CONFIG, **spec})
    drawn = vl_convert.vegalite_to_svg(full, vl_version=VEGA_LITE, allowed_base_urls=[])
    return Markup(_fluid(_own_ids(drawn, title), title))


def _drawable(value: Any) -> Any:  # noqa: ANN401 - whatever a specification holds
    """Return a specification with printable texts only: otherwise the library ends our process."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, Mapping):
        return {_drawable(name): _drawable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_drawable(one) for one in value]
    return value


def _fluid(svg: str, title: str) -> str:
    """Give the picture a name, and only a width: then it shrinks with the column (base.html)."""
    found = re.match(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"', svg)
    if found is None:  # the library's output has changed its form: show it unchanged
        return svg
    width = found.group(1)
    head = found.group(0).replace(
        f'width="{width}" height="{found.group(2)}"',
        f'role="img" aria-label="{Markup.escape(title)}" width="{width}"',
    )
    return head + svg[found.end() :]


def _own_ids(svg: str, title: str) -> str:
    """Give the picture unique ids: several pictures share one page's name space.

    Vega numbers its ids across all pictures that a process draws; ours depend only on the picture,
    so that the same run always gives the same page.
    """
    found = dict.fromkeys(re.findall(r'\bid="([^"]+)"', svg))
    prefix = "c" + hashlib.sha256(title.encode()).hexdigest()[:8]
    for number, one in enumerate(found, start=1):
        new = f"{prefix}-{number}"
        svg = svg.replace(f'id="{one}"', f'id="{new}"')
        svg = svg.replace(f"url(#{one})", f"url(#{new})")
        svg = svg.replace(f'href="#{one}"', f'href="#{new}"')
    return svg
