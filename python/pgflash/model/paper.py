# SPDX-License-Identifier: PostgreSQL
"""What five papers on Oracle and flash printed; our own figures are shown beside it.

Their tables are data, in pgflash/papers/NNN.toml, one file for each paper: numbers as printed
("238.5K", ".6"), with their place and their errors (errata). printed_number() converts a printed
number; its digits show how exact it is.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import msgspec

from pgflash.model.awr import Column, ReportTable, Row, Unit
from pgflash.model.device import Price
from pgflash.model.prices import prices_from_toml

PAPERS = ("000", "001", "002", "003", "004")

_NUMBER = re.compile(
    r"[$£<]?\s*(?P<sign>-?)(?P<digits>[\d,]*\.?\d+)(?P<thousands>[KMG](?![A-Za-z]))?"
    r"\s*(%|[A-Za-zµ]+(/s)?)?"
)
_THOUSANDS = {None: 1.0, "K": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """A table or figure of a paper, as printed; a chart has the numbers that can be read off."""

    #: The id of its exhibit, with a suffix if the exhibit has several: "fig-4".
    id: str
    label: str
    title: str
    columns: tuple[str, ...] = ()
    #: As many cells as columns; "" if nothing was printed.
    rows: tuple[tuple[str, ...], ...] = ()
    #: Where the numbers were read, if not in a table.
    note: str = ""
    errata: tuple[str, ...] = ()

    def row(self, name: str) -> tuple[str, ...]:
        """Return the row with this first cell."""
        for row in self.rows:
            if row[0] == name:
                return row
        raise KeyError(f"{self.label} has no row {name}")

    def number(self, row: str, column: str) -> float | None:
        """Return a number by the first cell of its row and its column's title."""
        return printed_number(self.row(row)[self.columns.index(column)])

    def numbers(self, column: str) -> dict[str, float]:
        """Return a column's numbers by the first cell of each row."""
        place = self.columns.index(column)
        found = ((row[0], printed_number(row[place])) for row in self.rows)
        return {name: number for name, number in found if number is not None}

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperApproach:
    """One approach of a paper: its commits, and the gain that the paper claims."""

    name: str
    title: str
    table: str
    row: str
    column: str
    #: The paper's number, as printed.
    printed: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper: its subject, its tables, and its errors."""

    id: str
    title: str
    by: str
    #: What was measured on what, in a sentence or two.
    about: str
    tables: tuple[PaperTable, ...]
    approaches: tuple[PaperApproach, ...] = ()
    errata: tuple[str, ...] = ()

    def table(self, table_id: str) -> PaperTable:
        """Return the table with this id."""
        for table in self.tables:
            if table.id == table_id:
                return table
        raise KeyError(f"paper {self.id} has no table {table_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFigure:
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
    """Return a paper by its number."""
    text = (resources.files("pgflash") / "papers" / f"{paper_id}.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Paper)


@cache
def paper_figures() -> tuple[PaperFigure, ...]:
    """Return the approaches of paper 000 in its order, the baseline first."""
    paper = read_paper("000")
    commits = [
        round(paper.table(one.table).number(one.row, one.column) or 0) for one in paper.approaches
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
    """Return a paper's prices of devices, by the devices' roles: array, flash."""
    name = f"prices-{paper_id}.toml"
    text = (resources.files("pgflash") / "papers" / name).read_text(encoding="utf-8")
    return {one.name: one.price for one in prices_from_toml(text, name=f"paper {paper_id}")}


def printed_number(text: str) -> float | None:
    """Parse a number as papers print it ("1,234", "238.5K", ".6", "63%", "55 MB/s"), or None.

    K, M and G are powers of 1000; a unit after the number is dropped.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    value = float(found["digits"].replace(",", "")) * _THOUSANDS[found["thousands"]]
    return -value if found["sign"] else value
