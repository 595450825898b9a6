# SPDX-License-Identifier: PostgreSQL
"""A paper as data: what it printed, where our figures come from, and what decides agreement.

A paper is one TOML file (docs/reference/papers.md).  An exhibit is one of its tables or figures:
numbers as printed ("238.5K", ".6"), with their place and their errors (errata), then our table,
charts, and checks, all of which get their numbers from formulas (model/formula.py).  This module
reads such a file and refuses what it does not know; report/paper/evaluate.py says what the names in
a formula mean.

printed_number() converts a printed number; its digits show how exact it is.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import msgspec

from pgflash.errors import UsageError
from pgflash.model.awr import Column, ReportTable, Row, Unit
from pgflash.model.chart import ChartForm
from pgflash.model.device import Price
from pgflash.model.prices import prices_from_toml
from pgflash_lab.model.formula import Formula

_FOLDER = resources.files("pgflash_lab") / "papers"
#: The papers by their numbers: one file for each.
PAPERS = tuple(sorted(one.name[:3] for one in _FOLDER.iterdir() if one.name[:3].isdigit()))

_NUMBER = re.compile(
    r"[$£<]?\s*(?P<sign>-?)(?P<digits>[\d,]*\.?\d+)(?P<thousands>[KMG](?![A-Za-z]))?"
    r"\s*(%|[A-Za-zµ]+(/s)?)?"
)
_THOUSANDS = {None: 1.0, "K": 1e3, "M": 1e6, "G": 1e9}
#: Two ratios agree if neither is more than this many times the other, unless a check says else.
FACTOR = 2.0


class PaperError(UsageError):
    """A paper's file says something that it cannot say."""


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the file."""


# ---- what the names in formulas mean ------------------------------------------------------


class Set(_Entry, kw_only=True, frozen=True):
    """Things for which something is computed one by one: those of another set."""

    of: str = "queries"
    #: Of queries: those that each of these approaches ran.
    ran_by: tuple[str, ...] = ()
    where: Formula | None = None
    #: The smallest first; without it, as in the other set.
    by: Formula | None = None


#: Approaches by name, or items with variables of their own.
Items = tuple[str | dict[str, str | float], ...]


class Role(_Entry, kw_only=True, frozen=True):
    """A name for the measured approach with the largest figure (without one: the first)."""

    where: Formula | None = None
    largest: Formula | None = None
    #: The text if there is none.
    otherwise: str


class Figure(_Entry, kw_only=True, frozen=True):
    """A quantity of an approach that both sides have; a formula asks for it by its name."""

    ours: Formula | None = None
    paper: Formula | None = None
    #: For single approaches, by name.
    ours_of: dict[str, Formula] = {}
    paper_of: dict[str, Formula] = {}


# ---- tables of ours -----------------------------------------------------------------------


class GridColumn(_Entry, kw_only=True, frozen=True):
    """A column: a text, or a formula."""

    name: str
    title: str
    unit: Unit = Unit.COUNT
    text: str = ""
    value: Formula | None = None
    #: Its cell in the last row; by default the sum.
    total: Formula | None = None


class Grid(_Entry, tag="grid", tag_field="kind", kw_only=True, frozen=True):
    """A row for each item of a set."""

    each: str
    id: str = ""
    title: str
    columns: tuple[GridColumn, ...]
    #: Variables for the title.
    values: dict[str, Formula] = {}
    #: The text that begins a last row, of sums.
    total: str = ""
    #: If it is true, the numbers are a model's, as the note says; else there is no note.
    modelled: Formula | None = None
    note: str = ""


class MatrixRow(_Entry, kw_only=True, frozen=True):
    """A row: its head, and the formula of its cells."""

    text: str
    value: Formula
    unit: Unit | None = None
    #: If it is true, the numbers are a model's.
    modelled: Formula | None = None


class Matrix(_Entry, tag="matrix", tag_field="kind", kw_only=True, frozen=True):
    """A column for each item of a set, a row for each formula."""

    across: str
    id: str = ""
    title: str
    #: Name and title of the first column, and of the others.
    key: str
    head: str
    name: str
    column: str
    rows: tuple[MatrixRow, ...]
    #: {items} is this text for each column.
    item: str = ""
    note: str = ""


class Events(_Entry, tag="events", tag_field="kind", kw_only=True, frozen=True):
    """The first events in the report on an approach, in the columns that papers print."""

    approach: str
    rows: int = 10


class Cut(_Entry, tag="report", tag_field="kind", kw_only=True, frozen=True):
    """Part of a table in the report on an approach."""

    approach: str
    table: str
    title: str = ""
    columns: tuple[str, ...] = ()
    #: Only rows that have something in this column.
    having: str = ""


class Host(_Entry, tag="vmstat", tag_field="kind", kw_only=True, frozen=True):
    """The host's seconds in an approach, as vmstat prints them."""

    approach: str


class Devices(_Entry, tag="iostat", tag_field="kind", kw_only=True, frozen=True):
    """The devices in an approach, as iostat prints them."""

    approach: str


class Points(_Entry, tag="points", tag_field="kind", kw_only=True, frozen=True):
    """The numbers of the exhibit's chart of lines."""

    unit: Unit


class Costs(_Entry, tag="costs", tag_field="kind", kw_only=True, frozen=True):
    """What each approach's storage costs, and the paper's multiple of its own baseline."""

    paper: Formula


OurTable = Grid | Matrix | Events | Cut | Host | Devices | Points | Costs


# ---- charts -------------------------------------------------------------------------------


class Series(_Entry, kw_only=True, frozen=True):
    """One row of bars."""

    name: str
    value: Formula
    #: Whether the numbers are the paper's.
    paper: bool = False


class Drawing(_Entry, kw_only=True, frozen=True):
    """A chart: bars or columns for a set, lines for approaches, areas of a report's table."""

    form: ChartForm
    title: str
    unit: str
    each: str = ""
    label: str = "{title}"
    #: Variables for the label.
    values: dict[str, Formula] = {}
    series: tuple[Series, ...] = ()
    #: A formula for two series: the paper's and ours.
    both: Formula | None = None
    #: Of lines: what is drawn second by second; of which device.
    line: str = ""
    device: str = ""
    #: Of areas: an approach, and the table of its report.
    approach: str = ""
    table: str = ""


# ---- checks -------------------------------------------------------------------------------


class _Check(_Entry, tag_field="kind", kw_only=True, frozen=True):
    """What decides whether both sides agree."""

    #: A check for each item of a set.
    each: str = ""
    #: Variables for its conditions and sentences: figures of ours, and of the paper.
    values: dict[str, Formula] = {}
    paper_values: dict[str, Formula] = {}


class Within(_Check, tag="within", kw_only=True, frozen=True):
    """Neither number is more than FACTOR times the other."""

    what: str
    paper: Formula | None = None
    ours: Formula | None = None
    both: Formula | None = None
    unit: str = ""
    factor: float = FACTOR


class Direction(_Check, tag="direction", kw_only=True, frozen=True):
    """From before to after both rise, both fall, or neither changes."""

    what: str
    paper: tuple[Formula, Formula] | None = None
    ours: tuple[Formula, Formula] | None = None
    both: tuple[Formula, Formula] | None = None
    unit: str = ""


class Order(_Check, tag="order", kw_only=True, frozen=True):
    """The items of a set are in the same order."""

    what: str
    of: str
    label: str = "{title}"
    paper: Formula | None = None
    ours: Formula | None = None
    both: Formula | None = None
    #: "<": the smallest first; ">": the largest.
    sign: str = "<"


class First(_Check, tag="first", kw_only=True, frozen=True):
    """The same thing comes first on both sides."""

    what: str
    paper: Formula | None = None
    ours: Formula | None = None
    both: Formula | None = None


class Holds(_Check, tag="holds", kw_only=True, frozen=True):
    """A condition holds here; both sentences name the figures."""

    when: Formula
    yes: str
    no: str


class Every(_Check, tag="every", kw_only=True, frozen=True):
    """A condition holds for every item of a set; the others are listed in {names}."""

    of: str
    when: Formula
    label: str = "{title}"
    #: Without it, nothing is printed if the condition holds.
    yes: str = ""
    no: str


CheckRule = Within | Direction | Order | First | Holds | Every


# ---- the paper ----------------------------------------------------------------------------


class Requirement(_Entry, kw_only=True, frozen=True):
    """A value without which an exhibit cannot be shown."""

    value: Formula
    #: The text without it.
    otherwise: str


class Sentence(_Entry, kw_only=True, frozen=True):
    """One of the page's first sentences."""

    text: str = ""
    values: dict[str, Formula] = {}
    paper_values: dict[str, Formula] = {}
    #: Said only if this is true, else OTHERWISE.
    only: Formula | None = None
    otherwise: str = ""
    #: {items} is a text for each item of a set that has all these values.
    of: str = ""
    item: str = ""
    item_values: dict[str, Formula] = {}
    item_paper_values: dict[str, Formula] = {}
    #: The first check of this exhibit instead.
    of_check: str = ""


class PaperExhibit(_Entry, kw_only=True, frozen=True):
    """A table or figure of a paper as printed; a chart has the numbers that can be read off."""

    id: str
    label: str
    title: str
    columns: tuple[str, ...] = ()
    #: As many cells as columns; "" if nothing was printed.
    rows: tuple[tuple[str, ...], ...] = ()
    #: Where the numbers were read, if not in a table.
    note: str = ""
    errata: tuple[str, ...] = ()
    #: False: numbers for formulas, without a place on the page.
    shown: bool = True

    #: Approaches that must have been measured; that must have a report, too.
    needs: tuple[str, ...] = ()
    needs_report: tuple[str, ...] = ()
    requires: tuple[Requirement, ...] = ()
    #: Why nothing can be compared; "" if it can.
    missing: str = ""
    #: The paper's numbers if it prints a chart: derived from its tables.
    derived: Grid | None = None
    ours: OurTable | None = None
    charts: tuple[Drawing, ...] = ()
    checks: tuple[CheckRule, ...] = ()
    #: Why the two may differ.
    reason: str = ""

    def row(self, name: str) -> tuple[str, ...]:
        """Return the row with this first cell."""
        for row in self.rows:
            if row[0] == name:
                return row
        raise KeyError(f"{self.label} has no row {name}")

    def number(self, row: str, column: str) -> float | None:
        """Return a number by the first cell of its row and its column's title."""
        return printed_number(self.row(row)[self.place(column)])

    def numbers(self, column: str) -> dict[str, float]:
        """Return a column's numbers by the first cell of each row."""
        place = self.place(column)
        found = ((row[0], printed_number(row[place])) for row in self.rows)
        return {name: number for name, number in found if number is not None}

    def place(self, column: str) -> int:
        """Return the position of a column."""
        if column not in self.columns:
            raise KeyError(f"{self.label} has no column {column}")
        return self.columns.index(column)

    def report_table(self) -> ReportTable:
        """Return it as a table of a page, with its cells as printed."""
        return ReportTable(
            id=f"paper-{self.id}",
            title=f"{self.label}: {self.title}",
            columns=tuple(
                Column(
                    name=f"column_{place}",
                    title=title,
                    unit=Unit.TEXT if self._holds_words(place) else Unit.COUNT,
                    source=None,
                )
                for place, title in enumerate(self.columns)
            ),
            rows=tuple(Row(cells=tuple(cell or None for cell in row)) for row in self.rows),
            note=self.note,
            missing_reason="" if self.rows else "The paper prints a picture without numbers.",
        )

    def _holds_words(self, place: int) -> bool:
        cells = [row[place] for row in self.rows if row[place]]
        if place == 0:
            return not cells or any(printed_number(cell) is None for cell in cells)
        return 2 * sum(cell[0].isalpha() for cell in cells) > len(cells)


class PaperApproach(_Entry, kw_only=True, frozen=True):
    """One approach of a paper: its commits, and the gain that the paper claims."""

    name: str
    title: str
    table: str
    row: str
    column: str
    #: The paper's number, as printed.
    printed: str
    note: str


class Paper(_Entry, kw_only=True, frozen=True):
    """A paper: its subject, its tables and figures, and its errors."""

    id: str
    title: str
    by: str
    #: The measurement and its set-up, in a sentence or two.
    about: str
    errata: tuple[str, ...] = ()
    approaches: tuple[PaperApproach, ...] = ()
    #: Texts that others contain: a variable each.
    words: dict[str, str] = {}
    roles: dict[str, Role] = {}
    sets: dict[str, Items | Set] = {}
    figures: dict[str, Figure] = {}
    says: tuple[Sentence, ...] = ()
    exhibits: tuple[PaperExhibit, ...]

    def exhibit(self, exhibit_id: str) -> PaperExhibit:
        """Return the table or figure with this id."""
        for one in self.exhibits:
            if one.id == exhibit_id:
                return one
        raise KeyError(f"paper {self.id} has no exhibit {exhibit_id}")


class PaperFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One approach of paper 000, from its AWR extracts.

    The paper headlines percentages that do not agree with its own tables.  The ratios used here are
    derived from the tables: commits of the hour (log file sync waits), divided by the baseline's.
    """

    approach: str
    title: str
    commits: int
    #: Commits divided by the baseline's commits.
    ratio: float
    printed: str
    note: str


@cache
def read_paper(paper_id: str) -> Paper:
    """Return one of the papers by its number."""
    file = _FOLDER / f"{paper_id}.toml"
    text = file.read_text(encoding="utf-8")
    return paper_from_toml(text, name=f"{paper_id}.toml")


def read_paper_file(path: Path) -> Paper:
    """Return the paper in a file; PaperError says what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PaperError(f'could not read the paper "{path}": {error}') from error
    return paper_from_toml(text, name=path.name)


def paper_from_toml(text: str, *, name: str) -> Paper:
    """Return the paper that a text describes; NAME is the file's name in errors."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PaperError(f'"{name}" is not TOML: {error}', hint=HINT) from error
    try:
        paper = msgspec.convert(data, Paper, dec_hook=_formula)
    except msgspec.ValidationError as error:
        raise PaperError(f"{name}, {_explained(str(error), data)}", hint=HINT) from error
    for exhibit in paper.exhibits:
        for row in exhibit.rows:
            if len(row) != len(exhibit.columns):
                raise PaperError(
                    f'{name}, exhibit "{exhibit.id}": the row {list(row)} has {len(row)} cells '
                    f"for {len(exhibit.columns)} columns",
                    hint=HINT,
                )
    ids = [one.id for one in paper.exhibits]
    twice = sorted({one for one in ids if ids.count(one) > 1})
    if twice:
        raise PaperError(f'{name} has two exhibits "{twice[0]}"', hint=HINT)
    return paper


HINT = "docs/reference/papers.md has every key."


def _formula(wanted: type, value: object) -> Formula:
    if wanted is not Formula or not isinstance(value, str):
        raise ValueError(f"a formula is a text, not {value!r}")
    return Formula(value)


def _explained(message: str, data: Any) -> str:  # noqa: ANN401 - TOML
    """Return msgspec's complaint with its place in words of the file, and what is allowed there."""
    what, _, path = message.partition(" - at `$")
    where: list[str] = []
    types: list[Any] = [Paper]
    value = data
    for key, number in re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", path):
        if key:
            where.append(key)
            if key == "kind":
                break
            types = [one for outer in types for one in _entries(outer.__annotations__.get(key))]
            value = value.get(key) if isinstance(value, dict) else None
            continue
        value = value[int(number)] if isinstance(value, list) and number.isdigit() else None
        entry = value if isinstance(value, dict) else {}
        if "id" in entry:
            where[-1] = f'{where[-1].removesuffix("s")} "{entry["id"]}"'
        elif number.isdigit():
            where[-1] = f"{where[-1]} {int(number) + 1}"
        types = [one for one in types if one.__struct_config__.tag == entry.get("kind")] or types
    allowed: set[str] = set()
    if "kind" in where[-1:] or "field `kind`" in what:
        allowed = {str(one.__struct_config__.tag) for one in types}
    elif "unknown field" in what:
        allowed = {key for one in types for key in one.__struct_fields__}
    said = f"; allowed: {', '.join(sorted(allowed))}" if allowed else ""
    place = ", ".join(where)
    return f"{place or 'top level'}: {what[:1].lower()}{what[1:]}{said}"


def _entries(annotation: object) -> Iterator[type]:
    """Yield the entries of the file that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, _Entry):
        yield annotation
    for part in get_args(annotation):
        yield from _entries(part)


def formulas_of(entry: object, where: str = "") -> Iterator[tuple[str, Formula]]:
    """Yield every formula in a part of the file, with its place."""
    if isinstance(entry, Formula):
        yield where, entry
    elif isinstance(entry, _Entry):
        for key in entry.__struct_fields__:
            yield from formulas_of(getattr(entry, key), f"{where}, {key}" if where else key)
    elif isinstance(entry, dict):
        for key, value in entry.items():
            yield from formulas_of(value, f"{where}, {key}")
    elif isinstance(entry, tuple):
        for number, value in enumerate(entry, start=1):
            of_exhibit = isinstance(value, PaperExhibit)
            place = f'exhibit "{value.id}"' if of_exhibit else f"{where} {number}"
            yield from formulas_of(value, place)


@cache
def paper_figures() -> tuple[PaperFigure, ...]:
    """Return the approaches of paper 000 in its order, the baseline first."""
    paper = read_paper("000")
    commits = [
        round(paper.exhibit(one.table).number(one.row, one.column) or 0) for one in paper.approaches
    ]
    return tuple(
        PaperFigure(
            approach=one.name,
            title=one.title,
            commits=count,
            ratio=count / commits[0],
            printed=one.printed,
            note=one.note,
        )
        for one, count in zip(paper.approaches, commits, strict=True)
    )


def paper_figure(approach: str) -> PaperFigure | None:
    """Return what paper 000 measured for an approach, or None if it has none."""
    return next((figure for figure in paper_figures() if figure.approach == approach), None)


@cache
def paper_prices(paper_id: str) -> Mapping[str, Price]:
    """Return a paper's prices of devices, by the devices' roles: array, flash; none without any."""
    file = _FOLDER / f"prices-{paper_id}.toml"
    if not file.is_file():
        return {}
    devices = prices_from_toml(file.read_text(encoding="utf-8"), name=f"paper {paper_id}")
    return {one.name: one.price for one in devices}


def priced_papers() -> list[str]:
    """Return the papers that name prices."""
    names = sorted(one.name for one in _FOLDER.iterdir() if one.name.startswith("prices-"))
    return [name.removeprefix("prices-").removesuffix(".toml") for name in names]


def printed_number(text: str) -> float | None:
    """Parse a number as papers print it ("1,234", "238.5K", ".6", "63%", "55 MB/s"), or None.

    K, M and G are powers of 1000; a unit after the number is dropped.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    value = float(found["digits"].replace(",", "")) * _THOUSANDS[found["thousands"]]
    return -value if found["sign"] else value
