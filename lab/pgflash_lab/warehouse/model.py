# SPDX-License-Identifier: PostgreSQL
"""The parameters of the warehouse workload and its result.

Units come last in a name.
"""

import re
from dataclasses import dataclass
from math import exp, log

from pgflash_lab.parameters import Parameters, ScenarioError, require, size_bytes
from pgflash_lab.warehouse.parameters import QUERIES

#: The largest of the specification's scale factors that paper 002 has.
SCALE_FACTOR_MAX = 1000.0
#: The largest order key at scale factor 1, and the largest number of four bytes.
_ORDER_KEY_MAX = 6_000_000
_INTEGER_MAX = 2**31 - 1
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
        raise ScenarioError(
            f'warehouse: queries "{text}" are none',
            hint="Name all, scan-heavy, others, or numbers from 1 to 22: 1,6,18.",
        )
    return tuple(sorted(set(numbers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseParameters(Parameters):
    """Size of the database and the queries to run.

    Clients are streams: one is alone, with the validation values; more run at once.
    """

    #: 1 is a gigabyte of rows, and about 1.65 GB of tables and indexes.
    scale_factor: float
    #: all, scan-heavy, others (the rest), or numbers with commas.
    queries: str = "all"
    #: How many processes work on one query, including the session's own.
    degree: int = 1
    #: Insert and delete orders, too: one pair of refresh functions for each stream.
    refresh: bool = False
    #: The planner's cost of a random page, in sequential ones, by the device of the data.
    array_random_page_cost: float = 4.0
    flash_random_page_cost: float = 4.0
    #: Memory of one sort or hash before it spills to temporary files.
    work_mem: str = "4MB"
    #: A query that takes longer is an error.
    query_timeout_s: int = 1800

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        # Not super(): in a dataclass with slots, the class differs from that in which this method
        # was made.
        Parameters.__post_init__(self)
        limits = {
            "scale_factor": (SCALE_FACTOR_MIN, SCALE_FACTOR_MAX),
            "degree": (1, 64),
            "clients": (1, STREAMS_MAX),
            "query_timeout_s": (1, 86_400),
        }
        for name, (least, most) in limits.items():
            lies = least <= getattr(self, name) <= most
            require(lies, name, f"must lie from {least:g} to {most:g}")
        for name in ("array_random_page_cost", "flash_random_page_cost"):
            require(getattr(self, name) > 0, name, "must be above 0")
        size_bytes(self.work_mem, name="work_mem")
        parse_queries(self.queries)

    @property
    def chosen(self) -> tuple[int, ...]:
        """Return the queries by number."""
        return parse_queries(self.queries)

    def order(self, stream: int) -> tuple[int, ...]:
        """Return a stream's queries in the order in which it runs them."""
        chosen = self.chosen
        return tuple(query for query in STREAM_ORDERS[stream] if query in chosen)


def is_query(step: str) -> bool:
    """Tell whether a step's name is a query's: a refresh function is none."""
    return not step.startswith("RF")


def order_key_type(scale_factor: float) -> str:
    """Return the SQL type of order keys: of four bytes, if that is enough."""
    return "integer" if _ORDER_KEY_MAX * scale_factor <= _INTEGER_MAX else "bigint"


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

    #: CPU time of all its processes; None if it is unknown.
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

    @property
    def is_query(self) -> bool:
        """Tell whether it is a query: a refresh function is none."""
        return is_query(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseResult:
    """A finished run."""

    parameters: WarehouseParameters
    #: ISO 8601, UTC.
    started_at: str
    elapsed_s: float
    steps: tuple[StepResult, ...]

    @property
    def power(self) -> float | None:
        """Return queries per hour times scale factor, by the geometric mean (clause 5.4.1).

        It is defined for a single stream with all 22 queries and both refresh functions.
        """
        if self.parameters.clients != 1 or len(self.steps) != len(QUERIES) + 2:
            return None
        return (
            3600.0
            * self.parameters.scale_factor
            / geometric_mean([step.elapsed_s for step in self.steps])
        )

    @property
    def throughput(self) -> float | None:
        """Return queries per hour times scale factor, of several streams (clause 5.4.2)."""
        complete = set(self.parameters.chosen) == set(QUERIES) and self.parameters.refresh
        if self.parameters.clients == 1 or not complete:
            return None
        queries = self.parameters.clients * len(QUERIES)
        return queries * 3600.0 / self.elapsed_s * self.parameters.scale_factor


def geometric_mean(values: list[float]) -> float:
    """Return the geometric mean of values above zero."""
    return exp(sum(log(value) for value in values) / len(values))
