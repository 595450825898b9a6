# SPDX-License-Identifier: PostgreSQL
"""The input of a warehouse load and run, and their results.

Plain frozen dataclasses of numbers and strings.  Units come last in a name.
"""

import re
from dataclasses import dataclass
from math import exp, log

from pgflash.errors import UsageError
from pgflash_lab.warehouse.parameters import QUERIES

#: To be shown wherever a result of this workload is shown.
DISCLAIMER = (
    "TPC-H-like: derived from the TPC-H specification, not audited and not comparable to "
    "published TPC-H results."
)

#: Order keys are four bytes: the largest is 6,000,000 times the scale factor.
SCALE_FACTOR_MAX = 300.0
#: The smallest scale factor at which every table has rows for every query.
SCALE_FACTOR_MIN = 0.001
#: Refresh functions change one order in a thousand.
REFRESH_SHARE = 1000
#: How many pairs of refresh functions one load allows.
REFRESH_SETS = 10

#: Queries that read most of a large table once and look up little: the devices' transfer rate
#: decides. The others are short or look rows up by an index.
SCAN_HEAVY = (1, 3, 4, 5, 6, 7, 9, 10, 12, 13, 14, 15, 18, 19)
OTHERS = tuple(query for query in QUERIES if query not in SCAN_HEAVY)

#: Stream k runs the queries in this order (clause 5.3.5.4 and appendix A); 0 is a single stream.
STREAM_ORDERS = (
    (14, 2, 9, 20, 6, 17, 18, 8, 21, 13, 3, 22, 16, 4, 11, 15, 1, 10, 19, 5, 7, 12),
    (21, 3, 18, 5, 11, 7, 6, 20, 17, 12, 16, 15, 13, 10, 2, 8, 14, 19, 9, 22, 1, 4),
    (6, 17, 14, 16, 19, 10, 9, 2, 15, 8, 5, 22, 12, 7, 13, 18, 1, 4, 20, 3, 11, 21),
    (8, 5, 4, 6, 17, 7, 1, 18, 22, 14, 9, 10, 15, 11, 20, 2, 21, 19, 13, 16, 12, 3),
    (5, 21, 14, 19, 15, 17, 12, 6, 4, 9, 8, 16, 11, 2, 10, 18, 1, 13, 7, 22, 3, 20),
    (21, 15, 4, 6, 7, 16, 19, 18, 14, 22, 11, 13, 3, 1, 2, 5, 8, 20, 12, 17, 10, 9),
)
STREAMS_MAX = len(STREAM_ORDERS) - 1

_NAMED_SETS = {"all": QUERIES, "scan-heavy": SCAN_HEAVY, "others": OTHERS}


def parse_queries(text: str) -> tuple[int, ...]:
    """Return the queries that a text names: all, scan-heavy, others, or numbers with commas."""
    if text in _NAMED_SETS:
        return _NAMED_SETS[text]
    words = [word.strip() for word in text.split(",")]
    numbers = [int(word) for word in words if re.fullmatch(r"\d{1,2}", word)]
    if len(numbers) != len(words) or not set(numbers) <= set(QUERIES):
        raise UsageError(
            f'warehouse: queries "{text}" are none',
            hint="Name all, scan-heavy, others, or numbers from 1 to 22: 1,6,18.",
        )
    return tuple(sorted(set(numbers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseConfig:
    """Size of the database, and the queries to run."""

    #: 1 is a gigabyte of rows, and about 1.65 GB of tables and indexes.
    scale_factor: float = 0.1
    queries: tuple[int, ...] = QUERIES
    #: How many processes work on one query, including the session's own.
    degree: int = 1
    #: 1: a single stream, with the validation values; more: this many at once.
    streams: int = 1
    #: Insert and delete orders, too: one pair of refresh functions for each stream.
    refresh: bool = False
    #: Seed for the values of streams that run at once.
    seed: int = 1
    #: A query that takes longer is an error.
    timeout_s: int = 3600
    #: Tablespace of sorts and hashes that do not fit into memory; empty: the database's.
    temp_tablespace: str = ""

    def __post_init__(self) -> None:
        """Refuse values that could not be loaded or run."""
        if not SCALE_FACTOR_MIN <= self.scale_factor <= SCALE_FACTOR_MAX:
            raise UsageError(
                f"warehouse: scale_factor must lie from {SCALE_FACTOR_MIN:g} "
                f"to {SCALE_FACTOR_MAX:g}"
            )
        if not self.queries or not set(self.queries) <= set(QUERIES):
            raise UsageError("warehouse: queries must be numbers from 1 to 22")
        for name, most in (("degree", 64), ("streams", STREAMS_MAX), ("timeout_s", 86_400)):
            if not 1 <= getattr(self, name) <= most:
                raise UsageError(f"warehouse: {name} must lie from 1 to {most}")

    def order(self, stream: int) -> tuple[int, ...]:
        """Return a stream's queries in the order in which it runs them."""
        return tuple(query for query in STREAM_ORDERS[stream] if query in self.queries)


def refresh_orders(scale_factor: float) -> int:
    """Return how many orders one refresh function inserts or deletes."""
    return max(1, round(1_500_000 * scale_factor / REFRESH_SHARE))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """A finished load."""

    scale_factor: float
    #: By table.
    rows: dict[str, int]
    size_bytes: int
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What the server did and waited for during a step; only for a single stream."""

    #: Processor time of all its processes; None if it is unknown.
    work_s: float | None
    #: Time that its processes waited for files.
    wait_s: float
    reads: int
    read_bytes: int
    read_s: float
    temp_reads: int
    temp_read_bytes: int
    temp_read_s: float
    temp_writes: int
    temp_write_bytes: int
    temp_write_s: float

    @property
    def db_time_s(self) -> float | None:
        """Return work and wait together."""
        return None if self.work_s is None else self.work_s + self.wait_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """One query or refresh function of one stream."""

    #: Q1 to Q22, RF1, RF2.
    name: str
    #: 0 is a single stream; refresh functions belong to the stream that they accompany.
    stream: int
    #: Time since the first step began.
    started_s: float
    elapsed_s: float
    #: Rows returned by a query or changed by a refresh function.
    rows: int
    #: Digest of the rows, in order; empty for refresh functions.
    digest: str = ""
    use: Use | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseResult:
    """A finished run."""

    config: WarehouseConfig
    #: ISO 8601, UTC.
    started_at: str
    elapsed_s: float
    steps: tuple[StepResult, ...]
    disclaimer: str = DISCLAIMER

    @property
    def power(self) -> float | None:
        """Return queries per hour times scale factor, by the geometric mean (clause 5.4.1).

        It is defined for a single stream with all 22 queries and both refresh functions.
        """
        if self.config.streams != 1 or len(self.steps) != len(QUERIES) + 2:
            return None
        return (
            3600.0
            * self.config.scale_factor
            / geometric_mean([step.elapsed_s for step in self.steps])
        )

    @property
    def throughput(self) -> float | None:
        """Return queries per hour times scale factor, of several streams (clause 5.4.2)."""
        complete = set(self.config.queries) == set(QUERIES) and self.config.refresh
        if self.config.streams == 1 or not complete:
            return None
        queries = self.config.streams * len(QUERIES)
        return queries * 3600.0 / self.elapsed_s * self.config.scale_factor


def geometric_mean(values: list[float]) -> float:
    """Return the geometric mean of values above zero."""
    return exp(sum(log(value) for value in values) / len(values))
