# SPDX-License-Identifier: PostgreSQL
"""A drawing as plain values: what is drawn, in which form, and which meaning each part has.

A chart always has a table with the same numbers beside it.  Code that builds one need not know SVG;
code that draws one (report/drawing.py) need not know what it is about.
"""

import enum
from dataclasses import dataclass


class ChartForm(enum.StrEnum):
    """How a chart is drawn."""

    #: A horizontal bar for each label and series, with its number: for a handful of labels.
    BARS = "bars"
    #: Vertical bars without numbers: for many labels.
    COLUMNS = "columns"
    #: A horizontal bar for each label, divided among the series.
    SHARES = "shares"
    #: A line for each label, from the least of its series' values to the largest.
    RANGES = "ranges"
    #: Over seconds.
    LINES = "lines"
    #: Areas on top of each other, over seconds.
    STACKED = "stacked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSeries:
    """One line, area, or row of bars: a value for each label or moment, None if there is none."""

    name: str
    values: tuple[float | None, ...]
    #: The approach that it is about, whose colour it then has; by default its name gives it one.
    approach: str = ""
    #: Figures of others are drawn pale beside ours.
    of_others: bool = False
    #: Of bars: the single measurements of which each value is the median.
    dots: tuple[tuple[float, ...], ...] = ()
    #: Of bars: what is written beside each one; by default its number.
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing of numbers from a table beside it."""

    form: ChartForm
    #: What is drawn; "" if the table's title says it.
    title: str
    #: Unit of the values: "ms", "reads/s", "times the baseline"; "share" is drawn in percent.
    unit: str = ""
    series: tuple[ChartSeries, ...]
    #: Labels of bars, columns, shares and ranges.
    labels: tuple[str, ...] = ()
    #: Of bars and ranges: the approach that each label is about, whose colour it then has.
    approaches: tuple[str, ...] = ()
    #: Of lines and areas: the start of each value in seconds, since measuring began or since 1970.
    at_s: tuple[float, ...] = ()
    #: Of lines: moments in the same seconds, with what happened then.
    marks: tuple[tuple[float, str], ...] = ()
    #: Whether these are times of day.
    clock: bool = False
    #: How long each value of a line or an area lasts: all the same, or each its own.
    every_s: float = 1.0
    lasting_s: tuple[float, ...] = ()
    #: Of lines and ranges: each step of the axis is a multiple of the one before.
    logarithmic: bool = False
    #: Whether it may be placed beside another; by default only bars may.
    narrow: bool | None = None
