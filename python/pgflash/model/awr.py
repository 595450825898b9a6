# SPDX-License-Identifier: PostgreSQL
"""A report on a period as plain values: findings in words, tables, the source of each number.

A table is generic: columns with units, rows of cells.  Code that prints it (HTML, text, JSON,
Markdown) need not know any table by name; code that needs a certain one asks for its id, which is
stable and documented in docs/reference/report.md.  Shares are from 0 to 1 (unit SHARE); times of
day are ISO 8601 in the server's time zone (unit TIME); a cell without a value is None.

Every number says where it comes from.  A column has one source, or None: then each row has its own.
If a row mixes sources, each cell is a Number with its own.
"""

import enum
from dataclasses import dataclass

#: Changes whenever stored reports of the older form can no longer be read.
FORMAT = 1


class Source(enum.StrEnum):
    """Where a number comes from."""

    #: Every event was counted or timed.
    EXACT = "exact"
    #: Estimated from samples of all sessions.
    SAMPLED = "sampled"
    #: Computed from a model, or from assumptions that the table names.
    MODELLED = "modelled"


class Unit(enum.StrEnum):
    """What a number counts."""

    TEXT = "text"
    TIME = "time"
    COUNT = "count"
    BYTES = "bytes"
    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    PER_SECOND = "1/s"
    BYTES_PER_SECOND = "bytes/s"
    PER_TRANSACTION = "1/transaction"
    BYTES_PER_TRANSACTION = "bytes/transaction"
    MILLISECONDS_PER_TRANSACTION = "ms/transaction"
    #: 0 to 1; printed in percent.
    SHARE = "share"
    #: One number over another; printed as it is, "x 1.25".
    RATIO = "ratio"
    #: Average active sessions: seconds a second.
    SESSIONS = "sessions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number on its own, or in a row whose cells differ in unit or source."""

    value: int | float
    unit: Unit
    source: Source


Cell = str | int | float | Number | None


class RowMark(enum.StrEnum):
    """What is special about a row."""

    PLAIN = ""
    TOTAL = "total"
    #: The rest that makes the rows add up to the total.
    RESIDUAL = "residual"
    #: Shown for completeness; not part of the total (idle, system I/O, device time on 18).
    APART = "apart"
    #: Everything that has no row of its own.
    REST = "rest"
    #: Compare report: only in the second period.
    NEW = "new"
    #: Compare report: only in the first period.
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: name for programs, title for people."""

    name: str
    title: str
    unit: Unit
    #: None: as the row says.
    source: Source | None = Source.EXACT
    #: What the column means, if its title does not say it.
    note: str = ""
    #: Only shown to those who ask for it.
    optional: bool = False
    #: Its texts keep their lines, such as those of a statement.
    lines: bool = False

    @property
    def is_text(self) -> bool:
        """Tell whether its cells are words (left-aligned, never added up)."""
        return self.unit in (Unit.TEXT, Unit.TIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row, with as many cells as its table has columns."""

    cells: tuple[Cell, ...]
    #: Source of the cells whose column names none.
    source: Source | None = None
    mark: RowMark = RowMark.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """A table of the report; with missing_reason it has no rows and says why."""

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()
    #: Names of the columns that identify a row, and of the one that ranks the rows.
    key: tuple[str, ...] = ()
    measure: str = ""
    note: str = ""
    missing_reason: str = ""

    def index(self, column: str) -> int:
        """Return the position of a column."""
        for place, one in enumerate(self.columns):
            if one.name == column:
                return place
        raise KeyError(f"{self.id} has no column {column}")

    def values(self, column: str) -> tuple[Cell, ...]:
        """Return a column's cells, without their units and sources."""
        place = self.index(column)
        return tuple(plain(row.cells[place]) for row in self.rows)


class Severity(enum.StrEnum):
    """How serious a finding is; good news is included."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTE = "note"
    GOOD = "good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence with its numbers, its evidence, and where to look."""

    #: The rule that found it: stable, for programs.
    rule: str
    severity: Severity
    sentence: str
    #: The figures behind it, a clause each.
    evidence: tuple[str, ...] = ()
    #: Id of the table that shows it; "" if none does.
    table: str = ""
    #: What to do about it, a sentence; "" if nothing is to be done.
    advice: str = ""
    #: The share of DB time that it is about; None if it is about none.
    cost: float | None = None


#: The rule whose finding sums up the period: it is no finding among others.
HEADLINE = "where-the-time-went"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodHead:
    """The period and its server."""

    begin_id: int
    end_id: int
    begin_at: str  # ISO 8601, in the server's time zone
    end_at: str
    elapsed_s: float
    #: Snapshots from the first to the last, both included.
    snapshots: int
    server_version: str
    server_version_num: int
    #: The times that were asked for, as printed; "" if snapshots were named.
    asked: str = ""
    #: The name of the server's time zone, of all times of the report.
    time_zone: str = "UTC"
    #: "" without the extension.
    extension_version: str = ""
    server_started_at: str = ""
    cores: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AwrReport:
    """The whole report on a period."""

    format: int = FORMAT
    pgflash_version: str
    head: PeriodHead
    #: Most important first.
    findings: tuple[Finding, ...]
    tables: tuple[ReportTable, ...]

    def table(self, table_id: str) -> ReportTable:
        """Return the table with this id."""
        return _table(self.tables, table_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareReport:
    """Two periods side by side; the rows that changed most come first in each table."""

    format: int = FORMAT
    pgflash_version: str
    first: PeriodHead
    second: PeriodHead
    findings: tuple[Finding, ...]
    tables: tuple[ReportTable, ...]

    def table(self, table_id: str) -> ReportTable:
        """Return the table with this id."""
        return _table(self.tables, table_id)


def plain(cell: Cell) -> str | int | float | None:
    """Return a cell's value without unit and source."""
    return cell.value if isinstance(cell, Number) else cell


def _table(tables: tuple[ReportTable, ...], table_id: str) -> ReportTable:
    for table in tables:
        if table.id == table_id:
            return table
    raise KeyError(f"the report has no table {table_id}")
