# SPDX-License-Identifier: PostgreSQL
"""The micro workload as the lab sees it.

A transaction is an operation of the pattern. by_transaction has one entry for each side, "array"
and "flash", and facts has their rates; the server's own report shows, by tablespace, what was read
and written where.
"""

from collections.abc import Mapping
from pathlib import Path

from pgflash.progress import Listener
from pgflash_lab.micro.consistency import check
from pgflash_lab.micro.driver import RAMP_UP_S, run
from pgflash_lab.micro.loader import load
from pgflash_lab.micro.model import MicroParameters, MicroResult, Side
from pgflash_lab.model.run import Approach
from pgflash_lab.oltp.measure import whole_seconds
from pgflash_lab.postgres import PgInstall
from pgflash_lab.workload import Context, Figures, MeasureError, Observer, sources_key

#: Loading, to estimate the remaining time: a constant part and one for each megabyte of both
#: tables.
_LOAD_S = 4.0
_LOAD_MB_S = 0.02
#: A table with its index.
_INDEXED = 1.15


class MicroWorkload:
    """One kind of access at a time, on two devices side by side."""

    name = "micro"
    parameters = MicroParameters

    def key(self, parameters: MicroParameters) -> str:
        """Return what determines the database: size and loader."""
        return f"{parameters.table_mb}mb-{sources_key('pgflash_lab.micro', ('loader.py', 'sql'))}"

    def require(self, install: PgInstall, parameters: MicroParameters) -> None:
        """Refuse a PostgreSQL that has no pgbench."""
        install.program("pgbench")

    def database_bytes(self, parameters: MicroParameters) -> int:
        """Return about how big the database gets."""
        return round(2 * _INDEXED * parameters.table_mb * 2**20)

    def load_s(self, parameters: MicroParameters) -> float:
        """Return about how long loading takes."""
        return _LOAD_S + _LOAD_MB_S * parameters.table_mb

    def load(
        self, install: PgInstall, conninfo: str, parameters: MicroParameters, listener: Listener
    ) -> None:
        """Make both tables."""
        load(conninfo, parameters, lambda stage, done: listener.stage(f"loading {stage}"))

    def settings(
        self, parameters: MicroParameters, approach: Approach, *, archive: Path | None
    ) -> Mapping[str, str]:
        """Return nothing: the scenario's settings are all it needs."""
        return {}

    def ramp_up_s(self, parameters: MicroParameters) -> float:
        """Return the time in which the clients connect and prepare."""
        return RAMP_UP_S

    def prepare_s(self, parameters: MicroParameters) -> float:
        """Return nothing: there is no warm-up."""
        return 0.0

    def expected_s(self, parameters: MicroParameters) -> float:
        """Return how long ramp-up and measured window take."""
        return RAMP_UP_S + parameters.measure_s

    def prepare(self, context: Context[MicroParameters]) -> None:
        """Do nothing: there are too few buffers for a warm-up to matter."""

    def measure(self, context: Context[MicroParameters], observer: Observer) -> Figures:
        """Run the pattern; each repeat draws different rows."""
        result = run(
            context.install,
            context.conninfo,
            context.parameters.seeded(1000 + context.repeat),
            context.workdir / "micro",
            observer,
            tablespaces=context.tablespaces,
            # The loaded database was restored for this attempt.
            changed=dict.fromkeys(Side, 0),
        )
        if not result.counts_agree:
            raise MeasureError(
                f"{result.acknowledged} changes were acknowledged, but the tables have "
                f"{result.in_database}",
                hint="Changes were lost: keep the run's folder and report this.",
            )
        return _figures(result)

    def check(self, conninfo: str, parameters: MicroParameters) -> tuple[str, ...]:
        """Check that both tables contain what they should."""
        return check(conninfo)


def _figures(result: MicroResult) -> Figures:
    """Return the result in the lab's terms."""
    everything = result.latency()
    assert everything is not None
    sides = tuple(one for side in Side if (one := result.latency(side)) is not None)
    return Figures(
        started_at=result.started_at,
        measured_s=result.window_s,
        transactions=result.operations,
        transactions_all=result.operations_all,
        tpm=60 * sum(result.rates.values()),
        latency=everything,
        by_transaction=sides,
        seconds=whole_seconds(result.seconds, window_s=result.window_s),
        driver_cpu_s=result.client_cpu_s,
        facts={f"{side}_operations_per_s": rate for side, rate in result.rates.items()},
    )
