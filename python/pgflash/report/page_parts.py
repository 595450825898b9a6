# SPDX-License-Identifier: PostgreSQL
"""The elements of the report page: sections of sentences, tables and charts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

from markupsafe import Markup

from pgflash.model.summary import Summary
from pgflash.report import charts, colours

#: Takes the place of a missing number.
_NOT_KNOWN = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts; columns after the first are numbers unless stated otherwise."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: Columns (from 0) that contain words, and are left-aligned.
    words: frozenset[int] = frozenset({0})

    def without_empty_columns(self) -> "Table":
        """Return it without those columns, after the first, in which nothing is known."""
        kept = [
            place
            for place in range(len(self.head))
            if place == 0 or any(row[place] != _NOT_KNOWN for row in self.rows)
        ]
        return Table(
            head=[self.head[place] for place in kept],
            rows=[[row[place] for place in kept] for row in self.rows],
            words=frozenset(i for i, place in enumerate(kept) if place in self.words),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page."""

    id: str
    title: str
    says: Sequence[str] = ()
    charts: Sequence[tuple[str, Markup]] = ()
    tables: Sequence[tuple[str, Table]] = ()
    #: Text and relative address of pages that belong to this one.
    links: Sequence[tuple[str, str]] = ()
    #: Tables that are folded behind the chart.
    folded: Sequence[tuple[str, Table]] = field(default=())
    #: Colour and name, for charts without a legend of their own.
    legend: Sequence[tuple[str, str]] = ()
    side_by_side: bool = False


def series_of(summary: Summary, points: Sequence[tuple[float, float]]) -> charts.Series:
    """Return an approach as a line of a chart."""
    colour, dash = colour_of(summary)
    return charts.Series(name=summary.approach.title, colour=colour, dash=dash, points=points)


def colour_of(summary: Summary) -> tuple[str, list[int]]:
    """Return the colour and dashes that an approach has on every page."""
    name = summary.approach.name
    spare = colours.SPARES[crc32(name.encode()) % len(colours.SPARES)]
    return colours.APPROACHES.get(name, spare)


def marked(summary: Summary) -> str:
    """Return the approach's title, with a mark if its figures are polluted."""
    return f"{summary.approach.title} (polluted)" if summary.polluted else summary.approach.title


def in_form(value: float | None, form: str) -> str:
    """Return the number, or a dash if there is none."""
    return _NOT_KNOWN if value is None else form.format(value)
