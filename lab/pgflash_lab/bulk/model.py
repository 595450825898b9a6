# SPDX-License-Identifier: PostgreSQL
"""The parameters of the load workload and its result."""

from dataclasses import dataclass
from enum import StrEnum

from pgflash.errors import PgflashError
from pgflash_lab.parameters import Parameters

#: A row of each table with its header, in a full page.
LINE_BYTES = 152
ORDER_BYTES = 138
#: An order's lines, on average.
LINES_PER_ORDER = 4
#: Orders at scale factor 1 of TPC-H.
_ORDERS = 1_500_000
#: Batches are made from this many different blocks of rows, so that making them is cheap.
BLOCKS = 16


class BulkError(PgflashError):
    """The load workload could not be run, or a batch is not whole."""


class Phase(StrEnum):
    """Which of the two is measured."""

    #: Batches of rows, each committed.
    WRITE = "write"
    #: Scans of the hot table.
    READ = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkParameters(Parameters):
    """Rows that exist before, and a load or scans that follow."""

    #: Size of the hot table before the load; the read phase scans it.
    base_mb: int
    #: Size of what is loaded into both tables together.
    load_mb: int = 256
    phase: Phase = Phase.WRITE
    batch_kb: int = 512
    #: A batch waits while more segments than this are not archived; 0: it never waits.
    unarchived_max: int = 4
    #: How long the read phase scans.
    scan_s: int = 15

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        # Not super(): in a dataclass with slots, the class differs from that in which this method
        # was made.
        Parameters.__post_init__(self)
        self.require_least(1, "base_mb", "load_mb", "batch_kb", "scan_s")
        self.require_least(0, "unarchived_max")

    @property
    def base_scale_factor(self) -> float:
        """Return the scale factor at which TPC-H has as many lines as the base."""
        lines = self.base_mb * 2**20 / LINE_BYTES
        return lines / (LINES_PER_ORDER * _ORDERS)

    @property
    def batches(self) -> int:
        """Return how many batches the load has."""
        return max(1, self.load_mb * 1024 // self.batch_kb)

    @property
    def batch_orders(self) -> int:
        """Return the orders of a batch; their lines come with them."""
        return self.batch_kb * 1024 // (ORDER_BYTES + LINES_PER_ORDER * LINE_BYTES)

    def source(self, orders: int) -> tuple[float, int, int]:
        """Return the scale factor, the part and the parts of TPC-H that have so many orders.

        The rows are those of a database as large as the base, so that they refer to as many parts;
        which of them the seed decides.
        """
        scale_factor = max(self.base_scale_factor, 1.1 * orders / _ORDERS)
        parts = max(1, int(scale_factor * _ORDERS / (1.1 * orders)))
        return scale_factor, 1 + self.seed % parts, parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """An acknowledged operation; times count from the run's start."""

    number: int
    began_s: float
    ended_s: float
    rows: int
    #: The part of its time spent waiting for the archiver.
    waited_s: float = 0.0

    @property
    def elapsed_s(self) -> float:
        """Return how long it took, including its wait for the archiver."""
        return self.ended_s - self.began_s


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult:
    """A finished load, or scans during the given time."""

    parameters: BulkParameters
    #: ISO 8601, UTC.
    started_at: str
    elapsed_s: float
    #: In the order in which they ended.
    batches: tuple[Batch, ...]
    client_cpu_s: float

    @property
    def rows(self) -> int:
        """Return the rows that were loaded or scanned."""
        return sum(batch.rows for batch in self.batches)

    @property
    def waited_s(self) -> float:
        """Return the total time that clients waited for the archiver."""
        return sum(batch.waited_s for batch in self.batches)
