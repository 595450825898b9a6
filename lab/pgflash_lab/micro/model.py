# SPDX-License-Identifier: PostgreSQL
"""The input of the micro workload and its result."""

from dataclasses import dataclass
from enum import StrEnum

from pgflash.errors import PgflashError, UsageError
from pgflash_lab.model.run import Latency, Second

#: Each pattern, and its operation.
PATTERNS = {
    "random-read": "a row, by its number",
    "random-write": "a row changed, and committed",
    "sequential-read": "the whole table",
    "sequential-write": "a new table, not logged",
}

#: One row with its share of the page header; the table is filled to FILL_PERCENT.
ROW_BYTES = 244
FILL_PERCENT = 90

#: In the tables that sequential-write makes, a row takes an eighth of a page.
NEW_ROWS_PER_MB = 1024


class MicroError(PgflashError):
    """The micro workload could not be loaded or run."""


class Side(StrEnum):
    """The device on which a table is."""

    ARRAY = "array"
    FLASH = "flash"

    @property
    def table(self) -> str:
        """Return the table on this side."""
        return f"micro.on_{self}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroConfig:
    """A load of two tables, and a run on both of them."""

    table_mb: int
    seed: int = 1
    pattern: str = "random-read"
    #: Half of them for each table.
    clients: int = 2
    ramp_up_s: int = 0
    duration_s: int = 10
    #: How much one operation of sequential-write writes.
    write_mb: int = 16

    def __post_init__(self) -> None:
        """Refuse values that could not be loaded or run."""
        if self.pattern not in PATTERNS:
            raise UsageError(
                f'micro: there is no pattern "{self.pattern}"',
                hint=f"Known: {', '.join(PATTERNS)}.",
            )
        for name in ("table_mb", "duration_s", "write_mb"):
            if getattr(self, name) < 1:
                raise UsageError(f"micro: {name} must be at least 1")
        if self.clients < 2 or self.clients % 2:
            raise UsageError(
                "micro: clients must be an even number", hint="Half of them work on each table."
            )
        if self.ramp_up_s < 0:
            raise UsageError("micro: ramp_up_s must not be negative")

    @property
    def rows(self) -> int:
        """Return the rows of each table."""
        return self.table_mb * 2**20 * FILL_PERCENT // 100 // ROW_BYTES

    @property
    def threads(self) -> int:
        """Return the number of pgbench's threads: one for each two clients of a small machine."""
        return min(2, self.clients)


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroResult:
    """A finished run."""

    config: MicroConfig
    #: ISO 8601, UTC.
    started_at: str
    elapsed_s: float
    #: The measured window, without the ramp-up.
    window_s: float
    #: Operations that ended in the window, on both tables.
    operations: int
    #: Those of the whole run.
    operations_all: int
    #: Of all operations (""), and of each side by its name.
    latencies: tuple[Latency, ...]
    seconds: tuple[Second, ...]
    #: Rows changed over the whole run, by side: acknowledged to clients, and in the tables.
    acknowledged: dict[str, int]
    in_database: dict[str, int]
    client_cpu_s: float

    @property
    def counts_agree(self) -> bool:
        """Tell whether the tables contain every acknowledged change, and no other."""
        return self.acknowledged == self.in_database

    def latency(self, name: str = "") -> Latency | None:
        """Return the response times of a side, or of all; None if nothing ended there."""
        return next((one for one in self.latencies if one.transaction == name), None)
