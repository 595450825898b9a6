# SPDX-License-Identifier: PostgreSQL
"""The parameters of the pgbench workload: which scripts run, on which tables."""

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Self

from pgflash_lab.parameters import Parameters, ScenarioError, require

#: The scripts that pgbench has itself.
BUILTIN = ("tpcb-like", "simple-update", "select-only")


class Protocol(StrEnum):
    """How statements are sent: pgbench's --protocol."""

    PREPARED = "prepared"
    EXTENDED = "extended"
    SIMPLE = "simple"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One script: pgbench's own, or a file."""

    name: str
    weight: int

    @property
    def is_builtin(self) -> bool:
        """Tell whether pgbench has it itself."""
        return self.name in BUILTIN

    @property
    def title(self) -> str:
        """Return its name without folders."""
        return self.name if self.is_builtin else Path(self.name).name


@dataclass(frozen=True, slots=True, kw_only=True)
class PgbenchParameters(Parameters):
    """Size of pgbench's tables, the scripts that run, and how fast."""

    #: Of pgbench's own tables, 15 MB for each; 0: without them.
    scale: int
    #: Files, or pgbench's own tpcb-like, simple-update or select-only, separated by commas, each
    #: with @WEIGHT if it is not 1.
    script: str = BUILTIN[0]
    #: File that psql runs once, after pgbench's own tables were made.
    setup: str = ""
    #: File of conditions that must hold after each attempt: statements that count what breaks one,
    #: each below a line "-- condition NUMBER: WHAT MUST HOLD".
    conditions: str = ""
    protocol: Protocol = Protocol.PREPARED
    #: Transactions that all clients together begin in a second; 0: as many as they can.
    rate_tps: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        # Not super(): in a dataclass with slots, the class differs from that in which this method
        # was made.
        Parameters.__post_init__(self)
        self.require_least(1, "measure_s")
        self.require_least(0, "scale", "rate_tps")
        builtin = [one for one in self.scripts if one.is_builtin]
        require(
            self.scale > 0 or not builtin, "scale", "must be at least 1 for pgbench's own scripts"
        )

    @property
    def scripts(self) -> tuple[Script, ...]:
        """Return the scripts, in pgbench's order."""
        return tuple(map(_script, self.script.split(",")))

    def files(self) -> dict[str, str]:
        """Return a digest of each file that is named, or raise if it cannot be read."""
        names = [one.name for one in self.scripts if not one.is_builtin]
        names += [name for name in (self.setup, self.conditions) if name]
        return {name: hashlib.sha256(_read(name)).hexdigest()[:12] for name in names}

    def unpaced(self) -> Self:
        """Return the same without a rate, for a warm-up."""
        return replace(self, rate_tps=0.0)


def _script(text: str) -> Script:
    name, at, weight = text.strip().rpartition("@")
    if not at:
        name, weight = text.strip(), "1"
    if not name or not weight.isdecimal():
        raise ScenarioError(
            f'script: "{text}" is none',
            hint=f"Name a file or {', '.join(BUILTIN)}, and several as a.sql@3,b.sql@1.",
        )
    return Script(name=name, weight=int(weight))


def _read(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise ScenarioError(
            f'could not read "{name}": {error.strerror}',
            hint=f"A script is a file, or one of pgbench's own: {', '.join(BUILTIN)}.",
        ) from error
