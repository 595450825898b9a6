# SPDX-License-Identifier: PostgreSQL
"""The oltp workload as the lab sees it."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pgflash.model.words import percent, whole
from pgflash.progress import Listener
from pgflash_lab.conditions import require_all
from pgflash_lab.model.run import Approach
from pgflash_lab.oltp.consistency import check_consistency
from pgflash_lab.oltp.driver import RAMP_UP_S, run
from pgflash_lab.oltp.loader import load
from pgflash_lab.oltp.measure import whole_seconds
from pgflash_lab.oltp.model import OltpParameters, OltpResult
from pgflash_lab.postgres import PgInstall
from pgflash_lab.workload import (
    Context,
    Figures,
    MeasureError,
    Observer,
    sources_key,
    tries,
)

#: Loading, to estimate the remaining time: a constant part and one for each warehouse.
_LOAD_S = 10.0
_LOAD_WAREHOUSE_S = 5.0
#: About 105 MB a warehouse, on PostgreSQL with indexes.
_WAREHOUSE_BYTES = 110 * 2**20


class OltpWorkload:
    """TPC-C-like transactions."""

    name = "oltp"
    parameters = OltpParameters

    def key(self, parameters: OltpParameters) -> str:
        """Return what determines the database: warehouses, seed and loader."""
        loader = sources_key("pgflash_lab.oltp", ("loader.py", "rows.py", "sql"))
        return f"{parameters.warehouses}w-{parameters.seed}-{loader}"

    def require(self, install: PgInstall, parameters: OltpParameters) -> None:
        """Refuse a PostgreSQL that has no pgbench."""
        install.program("pgbench")

    def database_bytes(self, parameters: OltpParameters) -> int:
        """Return about how big the database gets."""
        return parameters.warehouses * _WAREHOUSE_BYTES

    def load_s(self, parameters: OltpParameters) -> float:
        """Return about how long loading takes."""
        return _LOAD_S + _LOAD_WAREHOUSE_S * parameters.warehouses

    def load(
        self, install: PgInstall, conninfo: str, parameters: OltpParameters, listener: Listener
    ) -> None:
        """Make the warehouses."""
        load(
            conninfo,
            parameters,
            lambda stage, done: listener.stage(f"loading {stage}, {percent(done)}"),
        )

    def settings(
        self, parameters: OltpParameters, approach: Approach, *, archive: Path | None
    ) -> Mapping[str, str]:
        """Return nothing: the scenario's settings are all it needs."""
        return {}

    def ramp_up_s(self, parameters: OltpParameters) -> float:
        """Return the time in which the clients connect and prepare."""
        return RAMP_UP_S

    def prepare_s(self, parameters: OltpParameters) -> float:
        """Return how long the warm-up takes."""
        return parameters.warmup_s

    def expected_s(self, parameters: OltpParameters) -> float:
        """Return how long ramp-up and measured window take."""
        return RAMP_UP_S + parameters.measure_s

    def prepare(self, context: Context[OltpParameters]) -> None:
        """Warm up with the same load, but other random draws and at full speed."""
        parameters = context.parameters.seeded(context.repeat)
        if parameters.warmup_s:
            context.listener.stage("warming up")
            warm_up = replace(parameters.unpaced(), measure_s=parameters.warmup_s)
            _run(context, warm_up, Observer(), ramp_up_s=0)

    def measure(self, context: Context[OltpParameters], observer: Observer) -> Figures:
        """Run the mix; each repeat draws other rows, the same for all approaches."""
        parameters = context.parameters.seeded(1000 + context.repeat)
        result = _run(context, parameters, observer, ramp_up_s=RAMP_UP_S)
        if not result.counts_agree:
            raise MeasureError(
                f"{whole(result.new_orders_acknowledged)} new orders were acknowledged, but the "
                f"database has {whole(result.new_orders_in_database)}",
                hint="Orders were lost: keep the run's folder and report this.",
            )
        return _figures(result)

    def check(self, conninfo: str, parameters: OltpParameters) -> tuple[str, ...]:
        """Check the specification's consistency conditions."""
        return require_all(check_consistency(conninfo))


def _run(
    context: Context[OltpParameters],
    parameters: OltpParameters,
    observer: Observer,
    *,
    ramp_up_s: int,
) -> OltpResult:
    """Run the load with the driver's files in a folder of its own."""
    workdir = context.workdir / "oltp"
    try:
        return run(
            context.install, context.conninfo, parameters, workdir, observer, ramp_up_s=ramp_up_s
        )
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


def _figures(result: OltpResult) -> Figures:
    """Return the result in the lab's terms."""
    return Figures(
        started_at=result.started_at,
        measured_s=result.window_s,
        transactions=result.transactions,
        transactions_all=result.transactions_acknowledged,
        tpm=result.tpm,
        nopm=result.nopm,
        nopm_counted=60 * result.new_orders_in_database / result.elapsed_s,
        latency=result.latency(),
        by_transaction=tuple(one for one in result.latencies if one.transaction),
        seconds=whole_seconds(result.seconds, window_s=result.window_s),
        driver_cpu_s=result.client_cpu_s,
        facts=tries(failed=result.failures, retried=result.retries),
    )
