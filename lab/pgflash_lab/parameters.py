# SPDX-License-Identifier: PostgreSQL
"""The parameters of every scenario, which --set can change.

A workload adds its own in a subclass, so that one object contains everything that an attempt
depends on.  Sizes are written as in PostgreSQL.
"""

import dataclasses
from dataclasses import dataclass
from typing import Self

from pgflash.errors import UsageError
from pgflash.model.sizes import read_size

#: The most WAL that a client's load writes in a second.
WAL_BYTES_PER_CLIENT_S = 4 * 2**20


class ScenarioError(UsageError):
    """A scenario's file, or a change to it on the command line, is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What every scenario has."""

    clients: int
    warmup_s: int = 0
    #: 0: until the work is done, if a workload has an end of its own.
    measure_s: int = 0
    repeats: int = 1
    shared_buffers: str
    cache_size: str = "1GB"
    #: The size as a multiple of shared_buffers, in place of cache_size; 0: cache_size is used.
    cache_times: int = 0
    #: Device profiles, when devices are emulated.
    array: str
    flash: str
    #: Read every block once before measuring, so that the cache holds the working set.
    prefill: bool = True
    seed: int = 1
    #: Seconds between the snapshots of a measurement's own report; 0: at its ends only.
    snapshot_s: int = 0
    #: Load pg_stat_statements, so that the reports rank statements; it costs CPU time.
    statements: bool = False
    #: An attempt is polluted if others used more than this share of the machine.
    foreign_cpu_max: float = 0.1
    #: Polluted attempts are repeated only while the run is younger than this; 0: never.
    repeat_polluted_until_s: int = 0
    #: A repeat after the first is not started if it would end later than this; 0: no limit.
    time_limit_s: int = 0
    #: Names of approaches, separated by commas; empty: all.
    approaches: str = ""

    def __post_init__(self) -> None:
        """Refuse values that cannot be run."""
        self.require_least(1, "clients", "repeats")
        self.require_least(
            0,
            *("warmup_s", "measure_s", "cache_times", "seed", "snapshot_s"),
            *("repeat_polluted_until_s", "time_limit_s"),
        )
        require(0 < self.foreign_cpu_max <= 1, "foreign_cpu_max", "must lie between 0 and 1")
        for name in ("shared_buffers", "cache_size"):
            size_bytes(getattr(self, name), name=name)

    @property
    def cache_bytes(self) -> int:
        """Return the size of the flash cache."""
        if self.cache_times:
            return self.cache_times * size_bytes(self.shared_buffers, name="shared_buffers")
        return size_bytes(self.cache_size, name="cache_size")

    @property
    def prewarms(self) -> bool:
        """Tell whether pg_prewarm fills the flash cache."""
        return self.prefill

    @property
    def servers(self) -> int:
        """Return how many servers an attempt has, each with its own copy of the database."""
        return 1

    @property
    def wal_bytes_per_s(self) -> float:
        """Return the most WAL that a load may write, for the room that its files need."""
        return WAL_BYTES_PER_CLIENT_S * self.clients

    def seeded(self, number: int) -> Self:
        """Return the same with a seed for the draws of one attempt."""
        return dataclasses.replace(self, seed=self.seed * 10_000 + number)

    def files(self) -> dict[str, str]:
        """Return a digest of each file that a parameter names: a run resumes with the same."""
        return {}

    def require_least(self, least: int, *names: str) -> None:
        """Refuse numbers below the least that makes sense."""
        what = f"must be at least {least}" if least else "must not be negative"
        for name in names:
            require(getattr(self, name) >= least, name, what)

    def as_text(self) -> dict[str, str]:
        """Return the parameters for people, in their order."""
        return {one.name: str(getattr(self, one.name)) for one in dataclasses.fields(self)}


def require(condition: bool, name: str, what: str) -> None:
    """Refuse a parameter unless the condition holds."""
    if not condition:
        raise ScenarioError(f"{name} {what}")


def size_bytes(text: str, *, name: str) -> int:
    """Return the bytes of a size like 640MB."""
    try:
        found = read_size(text)
    except ValueError:
        found = 0
    # It becomes a server setting, whose units are case-sensitive.
    if not found or not text.endswith(("kB", "MB", "GB", "TB")):
        raise ScenarioError(
            f'{name}: "{text}" is not a size', hint="Write a number and kB, MB, GB or TB: 640MB."
        )
    return found
