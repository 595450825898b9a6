# SPDX-License-Identifier: PostgreSQL
"""The figures of the live page: charts, their series, and where each value is in a sample.

The charts are described only here.  The template makes a figure with its table from a description,
and the page's script draws the figure's data- attribute.  So the script knows no wait class and no
source, and a chart shows no number that is not in its table.  Colours and hatchings are those of
the reports.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from markupsafe import Markup

from pgflash.model.live import FLOWS, TIMED, Focus, LiveServer, Sample
from pgflash.model.sizes import MB
from pgflash.model.waits import WaitClass
from pgflash.model.words import figure
from pgflash.report import colours, svg


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One area or line."""

    name: str
    #: The path to its value in a sample's JSON.
    path: tuple[str, ...]
    colour: str
    pattern: int
    divisor: float = 1.0
    #: The label at its end, if its dashes alone do not distinguish it.
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One chart and its table."""

    id: str
    title: str
    unit: str
    lines: tuple[Line, ...]
    #: Stacked areas; otherwise lines.
    stacked: bool = False
    logarithmic: bool = False
    #: As wide as the page.
    wide: bool = False
    #: A value that is drawn as a horizontal line, and its name.
    limit: tuple[float, str] | None = None
    note: str = ""
    #: How a range is summarized: "mean" or "highest".
    over: str = "mean"
    #: Shows the spans of a range instead of live samples, so it has no current value.
    past: bool = False

    @property
    def looks(self) -> list[tuple[str, int]]:
        """Return the colour and hatching of each area."""
        return [(line.colour, line.pattern) for line in self.lines] if self.stacked else []

    def shown(self, sample: Mapping[str, Any] | None) -> "list[Shown]":
        """Return the rows of its table."""
        return [
            Shown(
                name=line.name,
                swatch=svg.swatch(PREFIX, _series(line), line=not self.stacked),
                value=figure(value_of(line, sample)),
            )
            for line in self.lines
        ]

    def data(self) -> str:
        """Return the script's data as JSON."""
        lines = [
            {
                "name": line.name,
                "path": line.path,
                "divisor": line.divisor,
                "label": line.label,
                **svg.look(_series(line)),
            }
            for line in self.lines
        ]
        found = {
            "title": self.title,
            "unit": self.unit,
            "stacked": self.stacked,
            "logarithmic": self.logarithmic,
            "limit": self.limit,
            "over": self.over,
            "past": self.past,
            "lines": lines,
        }
        return msgspec.json.encode(found).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A row of a figure's table."""

    name: str
    swatch: Markup
    value: str


#: Prefix of the ids of the page's hatchings.
PREFIX = "look"


def performance(sample: Sample | None, server: LiveServer | None) -> tuple[Figure, ...]:
    """Return the figures of the Performance page that this server has data for."""
    tells = set(sample.bytes_s) if sample is not None else set(FLOWS)
    timed = server is None or bool(server.extension_version)
    found = [
        _sessions(server),
        _flows("throughput", "Throughput by source", "MB/s", "bytes_s", tells, divisor=MB),
        _flows("requests", "Requests a second by source", "requests/s", "requests_s", tells),
        _transactions(),
    ]
    if timed:
        found.append(_latency())
    return (*found, _commit(timed=timed))


def focused(focus: Focus, server: LiveServer | None) -> Figure:
    """Return the figure of a page with a focus."""
    if not focus.relation:
        return replace(_sessions(server), id="focus", past=True)
    return Figure(
        id="focus",
        wide=True,
        past=True,
        title="Time waited for its files",
        unit="s/s",
        stacked=True,
        lines=(
            Line(name="Reads", path=("files", "read"), colour=colours.DISK, pattern=0),
            Line(name="Writes", path=("files", "write"), colour="#d55e00", pattern=1),
        ),
    )


def flash() -> tuple[Figure, ...]:
    """Return the figures of the flash cache's page."""
    return (
        Figure(
            id="hit-ratio",
            title="Hit ratio",
            unit="% of the blocks looked up",
            lines=(_cache("Hits", "hit_ratio", 0, divisor=0.01),),
        ),
        Figure(
            id="look-ups",
            title="Blocks looked up",
            unit="blocks/s",
            stacked=True,
            lines=(
                _cache("Hits, read from flash", "hits_s", 0),
                _cache("Misses, read from disk", "misses_s", 2, colour=colours.DISK),
            ),
        ),
        Figure(
            id="fills",
            title="Fills and evictions",
            unit="blocks/s",
            lines=(
                _cache("Put in", "inserts_s", 0),
                _cache("Evicted", "evictions_s", 1, colour="#d55e00"),
            ),
        ),
    )


def _cache(name: str, key: str, pattern: int, *, colour: str = "", divisor: float = 1.0) -> Line:
    return Line(
        name=name,
        path=("cache", key),
        colour=colour or colours.SOURCES["Flash"],
        pattern=pattern,
        divisor=divisor,
    )


def _sessions(server: LiveServer | None) -> Figure:
    cores = server.cores if server is not None else None
    return Figure(
        id="sessions",
        wide=True,
        title="Average active sessions by wait class",
        unit="sessions",
        stacked=True,
        limit=(float(cores), f"{cores} CPU cores") if cores else None,
        lines=tuple(
            Line(name=str(one), path=("aas", str(one)), colour=colour, pattern=number)
            for number, (one, colour) in enumerate(colours.WAIT_CLASSES.items())
        ),
    )


def _flows(
    figure: str, title: str, unit: str, key: str, tells: set[str], *, divisor: float = 1.0
) -> Figure:
    return Figure(
        id=figure,
        title=title,
        unit=unit,
        stacked=True,
        lines=tuple(
            Line(
                name=_NAMES.get(name, name),
                path=(key, name),
                colour=colours.FLOWS[name],
                pattern=number,
                divisor=divisor,
            )
            for number, name in enumerate(FLOWS)
            if name in tells
        ),
    )


_NAMES = {
    "page cache": "Page cache, reads",
    "flash": "Flash, reads",
    "disk": "Disk, reads",
    "disk writes": "Disk, writes",
    "wal": "WAL",
    "temp": "Temporary files",
}


_QUANTILES = ("p50", "p95", "p99")


def _latency() -> Figure:
    """Return one chart of all percentiles: dashes show the percentile, labels the source."""
    sources = {name: _NAMES[name].partition(",")[0] for name in TIMED if name in FLOWS}
    return Figure(
        id="latency",
        title="Read latency by source",
        unit="ms",
        logarithmic=True,
        over="highest",
        lines=tuple(
            Line(
                name=f"{title}, {quantile}",
                path=("latency", name, quantile),
                colour=colours.FLOWS[name],
                pattern=number,
                label=title,
            )
            for name, title in sources.items()
            for number, quantile in enumerate(_QUANTILES)
        ),
    )


def _commit(*, timed: bool) -> Figure:
    commit = Line(
        name="Mean wait for a commit",
        path=("commit_ms",),
        colour=colours.WAIT_CLASSES[WaitClass.COMMIT],
        pattern=0,
    )
    syncs = [
        Line(
            name=f"WAL sync, {quantile}",
            path=("latency", "wal sync", quantile),
            colour="#8c564b",
            pattern=number,
        )
        for number, quantile in enumerate(_QUANTILES, start=1)
    ]
    return Figure(
        id="commit",
        wide=True,
        title="Commit latency",
        unit="ms",
        over="highest",
        lines=(commit, *(syncs if timed else ())),
    )


def _transactions() -> Figure:
    return Figure(
        id="transactions",
        title="Transactions a second",
        unit="transactions/s",
        lines=(
            Line(name="Commits", path=("commits_s",), colour=colours.CPU_USER, pattern=0),
            Line(name="Rollbacks", path=("rollbacks_s",), colour="#d55e00", pattern=1),
        ),
    )


def _series(line: Line) -> svg.Series:
    return svg.Series(name=line.name, colour=line.colour, pattern=line.pattern, values=())


def hatchings(figures: Sequence[Figure]) -> Markup:
    """Return the hatchings used in the figures' legends."""
    looks = [look for figure in figures for look in figure.looks]
    return svg.pattern_definitions(PREFIX, looks)


def value_of(line: Line, sample: Mapping[str, Any] | None) -> float | None:
    """Return a line's value in a sample's JSON."""
    found: Any = sample
    for name in line.path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    # A sample has only the classes in which there was a session.
    if line.path[0] == "aas" and sample is not None and sample.get("aas") is not None:
        found = found or 0.0
    return None if found is None else float(found) / line.divisor
