# SPDX-License-Identifier: PostgreSQL
"""The parameters of the failover workload."""

from dataclasses import dataclass, fields, replace
from enum import StrEnum

from pgflash_lab.oltp.model import Mix, OltpParameters
from pgflash_lab.parameters import WAL_BYTES_PER_CLIENT_S, require
from pgflash_lab.patroni import NAMES


class Verify(StrEnum):
    """Which blocks from flash are compared with the data files: pgflash.verify."""

    OFF = "off"
    SAMPLE = "sample"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverParameters(OltpParameters):
    """When the leader ends, how the standbys are kept warm, and how Patroni is set.

    measure_s counts from the promotion; the time until then is measured, too.
    """

    #: Seconds of load before the leader ends.
    before_s: int
    #: Keep the standbys warm.
    warm: bool = False
    #: Ask Patroni for a switchover instead of killing the leader.
    planned: bool = False
    #: Erase the killed leader's flash, as drives of cloud instances are after a stop, and let the
    #: leader come back.
    erased: bool = False
    #: The emulated network between the members: milliseconds of a round trip; 0: none.
    network_ms: float = 0.0
    #: pgflash.cache_list_interval of all members.
    list_s: int = 60
    #: How warm the standbys must be before the load begins.
    warm_min: float = 0.95
    verify: Verify = Verify.OFF
    #: Patroni's: seconds until the key of a dead leader expires, between two looks, and until it
    #: takes its store for unreachable.
    ttl_s: int = 20
    loop_wait_s: int = 1
    retry_timeout_s: int = 9

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        # Not super(): in a dataclass with slots, the class differs from that in which this method
        # was made.
        OltpParameters.__post_init__(self)
        self.require_least(1, "before_s", "list_s", "loop_wait_s")
        self.require_least(20, "ttl_s")  # Patroni's own limits
        self.require_least(3, "retry_timeout_s")
        require(0 < self.warm_min <= 1, "warm_min", "must lie between 0 and 1")
        require(
            self.loop_wait_s + 2 * self.retry_timeout_s <= self.ttl_s,
            "ttl_s",
            "must be at least loop_wait_s and twice retry_timeout_s together",
        )
        require(not (self.erased and self.planned), "erased", "is for a leader that is killed")
        require(0 <= self.network_ms <= 1000, "network_ms", "must lie between 0 and 1000")
        require(not self.think_factor, "think_factor", "must be 0: pauses end with the connection")

    def before_it(self, *, measure_s: int) -> OltpParameters:
        """Return those of the same load without a failover, for a warm-up at full speed."""
        names = (one.name for one in fields(OltpParameters))
        plain = OltpParameters(**{name: getattr(self, name) for name in names})
        return replace(plain.unpaced(), measure_s=measure_s)

    @property
    def prewarms(self) -> bool:
        """Return false: the extension's loader fills the leader's cache."""
        return False

    @property
    def servers(self) -> int:
        """Return how many servers have a copy of the database."""
        return len(NAMES)

    @property
    def wal_bytes_per_s(self) -> float:
        """Return less where only one transaction in ten writes: each server keeps all of it."""
        share = 0.1 if self.mix is Mix.READ_MOSTLY else 1.0
        return WAL_BYTES_PER_CLIENT_S * self.clients * share
