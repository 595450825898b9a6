# SPDX-License-Identifier: PostgreSQL
"""The parameters of the micro workload and its result."""

from dataclasses import dataclass
from enum import StrEnum

from pgflash.errors import PgflashError
from pgflash_lab.model.run import Latency, Second
from pgflash_lab.parameters import Parameters, require

#: One row with its share of the page header; the table is filled to FILL_PERCENT.
ROW_BYTES = 244
FILL_PERCENT = 90

#: In the tables that sequential-write makes, a row takes an eighth of a page.
NEW_ROWS_PER_MB = 1024


class MicroError(PgflashError):
    """The micro workload could not be loaded or run."""


class Pattern(StrEnum):
    """The operations on both tables, and one of them."""

    #: A row, by its number.
    RANDOM_READ = "random-read"
    #: A row changed, and committed.
    RANDOM_WRITE = "random-write"
    #: The whole table.
    SEQUENTIAL_READ = "sequential-read"
    #: A new table, not logged.
    SEQUENTIAL_WRITE = "sequential-write"


class Side(StrEnum):
    """The device on which a table is."""

    ARRAY = "array"
    FLASH = "flash"

    @property
    def table(self) -> str:
        """Return the table on this side."""
        return f"micro.on_{self}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroParameters(Parameters):
    """Size of each of the tables, and the pattern run on them; half of the clients for each."""

    table_mb: int
    pattern: Pattern = Pattern.RANDOM_READ
    #: How much one operation of sequential-write writes.
    write_mb: int = 16
    #: Operations that all clients together begin in a second; 0: as many as they can.
    rate_tps: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        # Not super(): in a dataclass with slots, the class differs from that in which this method
        # was made.
        Parameters.__post_init__(self)
        self.require_least(1, "measure_s", "table_mb", "write_mb")
        self.require_least(0, "rate_tps")
        require(self.warmup_s == 0, "warmup_s", "must be 0: the buffers are too few to warm up")
        require(self.clients % 2 == 0, "clients", "must be even: half of them for each table")

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

    parameters: MicroParameters
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
    #: Operations a second, of each side that has some in the window.
    rates: dict[Side, float]
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
