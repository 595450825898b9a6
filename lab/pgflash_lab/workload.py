# SPDX-License-Identifier: PostgreSQL
"""What the lab requires of a workload, and what it does for it.

A workload can load its database, put load on a server and check that the database is still right;
the lab does everything else.  An attempt consists of these steps:

    restore the loaded database (made once by load(), found again by key())
    start the server with settings(), delays off; make a tablespace on each other device
    move the objects that the approach places elsewhere, set cache policies, fill the flash cache
    prepare()       a warm-up, or any other preparation
    delays on, samplers and the server's own snapshots begin
    measure()       which tells its observer when its load has ended
    delays off
    check()         of the database's present contents
    stop

The database is named DATABASE, and everything of a workload is in the schema of its name.  A
workload prints nothing; it reports its progress to a listener.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pgflash.errors import PgflashError
from pgflash.progress import Listener
from pgflash_lab.model.run import Approach, Latency, Second, Step
from pgflash_lab.parameters import Parameters
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server

#: The database that workloads are loaded into.
DATABASE = "lab"

P = TypeVar("P", bound=Parameters)


class MeasureError(PgflashError):
    """An attempt could not be measured."""


class InconsistentError(PgflashError):
    """The database is not in the state in which the workload must have left it."""


class Observer:
    """The events of a load that the lab listens to; any workload may call every method.

    All methods are called from the thread that called measure().
    """

    def measuring_began(self) -> None:
        """Hear that the ramp-up is over: the figures count from here."""

    def second(self, at_s: float, tps: float, latency_ms: float | None) -> None:
        """Hear of a second that has passed; AT_S counts from the start of the figures.

        The mean latency is None where it is not known meanwhile.
        """

    def measuring_ended(self) -> None:
        """Hear that every client has ended.

        The workload calls this once, before it reads results or queries the database: what it does
        afterwards is not part of the measurement.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Generic[P]):
    """The surroundings of an attempt."""

    install: PgInstall
    server: Server
    #: To DATABASE, as superuser.
    conninfo: str
    #: The scenario's, with the approach's changes.
    parameters: P
    approach: Approach
    #: An empty folder for the driver's files, removed by the lab.
    workdir: Path
    #: The tablespace of each device, by role: pg_default for the data's own.
    tablespaces: Mapping[str, str]
    #: The folder that WAL is archived to, on the approach's device; None: nothing is archived.
    archive: Path | None
    #: From 1; random draws depend on it and on the parameter seed, not on the approach.
    repeat: int
    listener: Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a workload measured; the lab adds what it has observed itself.

    A transaction is whatever the workload counts: a query, an operation, a loaded batch.
    """

    started_at: str  # ISO 8601, UTC
    #: The window to which the figures below refer.
    measured_s: float
    transactions: int
    #: Including the ramp-up before the window.
    transactions_all: int
    tpm: float
    latency: Latency
    nopm: float = 0.0
    nopm_counted: float = 0.0
    by_transaction: tuple[Latency, ...] = ()
    seconds: tuple[Second, ...] = ()
    #: CPU seconds of the load's clients, from its first second on.
    driver_cpu_s: float = 0.0
    #: How long work of a fixed amount took; 0 if the time was fixed.
    duration_s: float = 0.0
    steps: tuple[Step, ...] = ()
    facts: dict[str, float] = field(default_factory=dict)


def tries(*, failed: int, retried: int) -> dict[str, float]:
    """Return the facts of transactions of pgbench that did not succeed at once, ramp-up included.

    Those that failed in all their tries are not among the transactions of Figures.
    """
    return {"failed": float(failed), "retried": float(retried)}


class Workload(Protocol[P]):
    """A load that can be put on a server."""

    @property
    def name(self) -> str:
        """Return the workload's name, which is its schema's too."""

    @property
    def parameters(self) -> type[P]:
        """Return the class of its parameters, common and own ones, which checks them."""

    def key(self, parameters: P) -> str:
        """Return what the loaded database depends on, as part of a file name.

        This is its size, its seed and the code that makes it (see sources_key()), but not the
        PostgreSQL into which it is loaded.
        """

    def require(self, install: PgInstall, parameters: P) -> None:
        """Refuse early what could not be run later: a program or a file that is missing."""

    def database_bytes(self, parameters: P) -> int:
        """Return about how big the database gets."""

    def load_s(self, parameters: P) -> float:
        """Return about how long loading takes."""

    def load(self, install: PgInstall, conninfo: str, parameters: P, listener: Listener) -> None:
        """Make and fill the schema, index and vacuum it."""

    def settings(
        self, parameters: P, approach: Approach, *, archive: Path | None
    ) -> Mapping[str, str]:
        """Return PostgreSQL settings that an attempt needs in addition to the scenario's.

        ARCHIVE is the folder of the context.
        """

    def ramp_up_s(self, parameters: P) -> float:
        """Return how long its load runs before the measured window."""

    def prepare_s(self, parameters: P) -> float:
        """Return about how long prepare() takes."""

    def expected_s(self, parameters: P) -> float:
        """Return about how long measure() takes."""

    def prepare(self, context: Context[P]) -> None:
        """Do what precedes measuring: the warm-up, with the devices' delays off."""

    def measure(self, context: Context[P], observer: Observer) -> Figures:
        """Run the load and measure it."""

    def check(self, conninfo: str, parameters: P) -> tuple[str, ...]:
        """Return the conditions that were checked; raise InconsistentError if one does not hold."""


def sources_key(package: str, names: Sequence[str]) -> str:
    """Return a short digest of a package's files; a folder stands for all of its files."""
    digest = hashlib.sha256()
    for name in names:
        one = resources.files(package) / name
        files = sorted(one.iterdir(), key=lambda file: file.name) if one.is_dir() else [one]
        for file in files:
            if file.is_file():
                digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
