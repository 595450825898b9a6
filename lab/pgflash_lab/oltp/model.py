# SPDX-License-Identifier: PostgreSQL
"""The parameters of the oltp workload and its results.

Units come last in a name.  Shares are from 0 to 1.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from pgflash_lab.model.run import Latency, Second
from pgflash_lab.parameters import Parameters, require


class Mix(StrEnum):
    """How often each transaction runs."""

    #: The specification's: 92 of a hundred write.
    STANDARD = "standard"
    #: The same transactions, of which one in ten writes.
    READ_MOSTLY = "read-mostly"


class Access(StrEnum):
    """Which customers and items are drawn."""

    #: The specification's: some are drawn more often.
    NURAND = "nurand"
    #: All alike, as some drivers do.
    UNIFORM = "uniform"


@dataclass(frozen=True, slots=True, kw_only=True)
class OltpParameters(Parameters):
    """Size of the database, which transactions run, and how fast.

    For a load, the seed determines its rows, and which customers and items are hot in all runs on
    it. For a run, it determines the order of its terminals' transactions (but not the lines of
    their orders, which the server draws).
    """

    warehouses: int
    mix: Mix = Mix.STANDARD
    access: Access = Access.NURAND
    #: Transactions that all clients together begin in a second, at random moments; 0: as many as
    #: they can. A response time then counts from the moment at which its transaction was due.
    rate_tps: float = 0.0
    #: Keying and think times of a client, as a multiple of the specification's; 0: none.
    think_factor: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        # Not super(): in a dataclass with slots, the class differs from that in which this method
        # was made.
        Parameters.__post_init__(self)
        self.require_least(1, "warehouses", "measure_s")
        self.require_least(0, "rate_tps", "think_factor")
        require(
            not (self.rate_tps and self.think_factor),
            "rate_tps",
            "must be 0 where clients think (think_factor): either sets the pace",
        )

    def unpaced(self) -> Self:
        """Return the same without rate and pauses, for a warm-up."""
        return replace(self, rate_tps=0.0, think_factor=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """A finished load."""

    warehouses: int
    seed: int
    c_last_constant: int
    rows: int
    size_bytes: int
    elapsed_s: float


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

    parameters: OltpParameters
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

    #: Of all transactions (""), and of each type that occurred.
    latencies: tuple[Latency, ...]
    #: Every second, also before and after the window, from whose start they count.
    seconds: tuple[Second, ...]
    validity: tuple[ValidityFigure, ...]
    #: CPU time of pgbench over the whole run.
    client_cpu_s: float

    @property
    def counts_agree(self) -> bool:
        """Tell whether terminals and database counted the same new orders."""
        return self.new_orders_acknowledged == self.new_orders_in_database

    def latency(self, transaction: str = "") -> Latency:
        """Return the response times of one transaction type, or of all."""
        for latency in self.latencies:
            if latency.transaction == transaction:
                return latency
        raise KeyError(transaction)
