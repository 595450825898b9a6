# SPDX-License-Identifier: PostgreSQL
"""The input of an oltp load and run, and their results.

Plain frozen dataclasses of numbers and strings, so that a run can be stored as JSON and read back
as the same object.  Units come last in a name.  Shares are from 0 to 1.
"""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from pgflash.errors import UsageError

#: To be shown wherever a result of this workload is shown.
DISCLAIMER = (
    "TPC-C-like: derived from the TPC-C specification, not audited and not comparable to "
    "published TPC-C results. NOPM are new orders per minute, not tpmC."
)


class Access(StrEnum):
    """How customers and items are drawn; without it, a cache's hit ratio means nothing."""

    #: Skewed, as the specification asks (NURand).
    NURAND = "nurand"
    #: All equally likely, as in some other TPC-C-like tools.
    UNIFORM = "uniform"


class Mix(StrEnum):
    """How often each transaction runs."""

    #: The specification's: 92 of a hundred write.
    STANDARD = "standard"
    #: The same transactions, of which one in ten writes.
    READ_MOSTLY = "read-mostly"


@dataclass(frozen=True, slots=True, kw_only=True)
class OltpConfig:
    """Size of the database and of the load on it."""

    warehouses: int = 4
    clients: int = 8
    #: Length of the measured window, and of the preceding ramp-up, which is not counted.
    duration_s: int = 60
    ramp_up_s: int = 10
    access: Access = Access.NURAND
    mix: Mix = Mix.STANDARD
    #: For a load: its rows, and which customers and items are hot in all runs on it. For a run: the
    #: order of its terminals' transactions (but not the lines of their orders, which the server
    #: draws).
    seed: int = 1
    #: Declare the specification's references as constraints. The default is off: the specification
    #: does not require the database to enforce them, and they cost each writer look-ups and row
    #: locks.
    foreign_keys: bool = False
    #: Transactions per second of an open loop; None is a closed loop without pauses.
    rate_tps: float | None = None
    #: pgbench's threads.
    threads: int = 2
    #: How often a transaction that lost to another one (deadlock) is tried. At least twice: pgbench
    #: logs retries only if they are possible.
    tries_max: int = 10

    def __post_init__(self) -> None:
        """Refuse values that could not be loaded or run."""
        try:
            # A plain "uniform", from a file for example, means the same.
            object.__setattr__(self, "access", Access(self.access))
        except ValueError as error:
            raise UsageError(
                f"oltp: access must be one of {', '.join(Access)}, not {self.access!r}"
            ) from error
        for name in ("warehouses", "clients", "duration_s", "threads"):
            if getattr(self, name) < 1:
                raise UsageError(f"oltp: {name} must be at least 1")
        if self.tries_max < 2:
            raise UsageError("oltp: tries_max must be at least 2")
        if self.ramp_up_s < 0:
            raise UsageError("oltp: ramp_up_s must not be negative")
        if self.rate_tps is not None and self.rate_tps <= 0:
            raise UsageError("oltp: rate_tps must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """A finished load."""

    warehouses: int
    seed: int
    c_last_constant: int
    rows: int
    size_bytes: int
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLatency:
    """Response times of one transaction type in the measured window; "all" is all of them.

    Percentiles are nearest-rank: values that were measured, without interpolation.
    """

    transaction: str
    count: int
    mean_ms: float
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    #: (upper bound in ms, count); bounds grow by the square root of two.
    histogram: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondPoint:
    """What ended within one second.

    at_s counts from the measured window's start, so it is negative during the ramp-up.
    """

    at_s: int
    transactions: int
    new_orders: int
    mean_ms: float
    p95_ms: float
    max_ms: float


class Verdict(StrEnum):
    """How a sample relates to a bound of the specification."""

    OK = "ok"
    #: Outside, but by no more than chance explains (3.3 standard errors).
    SMALL_SAMPLE = "outside, but the sample is too small to tell"
    VIOLATED = "violated"
    #: It cannot be measured here: remote warehouses with only one warehouse, for example.
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityFigure:
    """A figure that the specification bounds, measured over the whole run."""

    name: str
    value: float
    least: float
    most: float
    sample: int
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class OltpResult:
    """A finished run."""

    config: OltpConfig
    #: ISO 8601, UTC.
    started_at: str
    #: NURand's constants of the run.
    c_last_constant: int
    c_customer_constant: int
    c_item_constant: int

    #: From the first transaction's start to the last one's end, by pgbench's log.
    elapsed_s: float
    #: The measured window, without the ramp-up.
    window_s: float

    #: Transactions that ended in the window, intended rollbacks included, and per minute.
    transactions: int
    tpm: float
    #: New orders that were acknowledged in the window, and per minute.
    new_orders: int
    nopm: float

    #: The same orders counted twice over the whole run: by the terminals, and by the growth of
    #: sum(d_next_o_id). The two must be equal.
    new_orders_acknowledged: int
    new_orders_in_database: int
    #: Growth of pg_stat_database over the whole run, including other sessions in this database.
    database_commits: int
    database_rollbacks: int
    #: All transactions the terminals ended over the whole run, intended rollbacks included.
    transactions_acknowledged: int
    rollbacks_acknowledged: int
    retries: int
    failures: int

    latencies: tuple[TransactionLatency, ...]
    seconds: tuple[SecondPoint, ...]
    validity: tuple[ValidityFigure, ...]
    #: CPU time of pgbench over the whole run.
    client_cpu_s: float
    disclaimer: str = DISCLAIMER

    @property
    def counts_agree(self) -> bool:
        """Tell whether terminals and database counted the same new orders."""
        return self.new_orders_acknowledged == self.new_orders_in_database

    def latency(self, transaction: str = "all") -> TransactionLatency:
        """Return the response times of one transaction type."""
        for latency in self.latencies:
            if latency.transaction == transaction:
                return latency
        raise KeyError(transaction)

    def to_json(self) -> str:
        """Return the result as JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "OltpResult":
        """Return the result that to_json() wrote."""
        return msgspec.json.decode(text, type=cls)
