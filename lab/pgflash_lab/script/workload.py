# SPDX-License-Identifier: PostgreSQL
"""The pgbench workload as the lab sees it."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path

import psycopg
from psycopg import sql

from pgflash.progress import Listener
from pgflash_lab.conditions import check_conditions, require_all, split_conditions
from pgflash_lab.loading import LoadError
from pgflash_lab.model.run import Approach
from pgflash_lab.oltp.measure import whole_seconds
from pgflash_lab.parameters import ScenarioError
from pgflash_lab.pgbench import DriverError
from pgflash_lab.postgres import PgInstall
from pgflash_lab.script.driver import RAMP_UP_S, PgbenchResult, require_scripts, run
from pgflash_lab.script.model import PgbenchParameters
from pgflash_lab.workload import DATABASE, Context, Figures, Observer, sources_key, tries

#: Loading, to estimate the remaining time: a constant part and one for each unit of the scale.
_LOAD_S = 5.0
_LOAD_SCALE_S = 0.3
#: pgbench's tables with their indexes, for each unit of the scale.
_SCALE_BYTES = 15 * 2**20


class PgbenchWorkload:
    """pgbench's scripts, or a user's own."""

    name = "pgbench"
    parameters = PgbenchParameters

    def key(self, parameters: PgbenchParameters) -> str:
        """Return what determines the database: scale, and the content of the setup file."""
        setup = parameters.files()[parameters.setup] if parameters.setup else "plain"
        loader = sources_key("pgflash_lab.script", ("workload.py",))
        return f"{parameters.scale}-{setup}-{loader}"

    def require(self, install: PgInstall, parameters: PgbenchParameters) -> None:
        """Refuse scripts that pgbench does not understand, and a file without conditions."""
        if parameters.setup:
            install.program("psql")
        require_scripts(install, parameters)
        if parameters.conditions and not split_conditions(_text(parameters.conditions)):
            raise ScenarioError(
                f'"{parameters.conditions}" has no condition',
                hint="One begins with a line: -- condition 1: what must hold.",
            )

    def database_bytes(self, parameters: PgbenchParameters) -> int:
        """Return how big pgbench's tables get: what a setup file makes is not known."""
        return parameters.scale * _SCALE_BYTES

    def load_s(self, parameters: PgbenchParameters) -> float:
        """Return about how long loading takes."""
        return _LOAD_S + _LOAD_SCALE_S * parameters.scale

    def load(
        self, install: PgInstall, conninfo: str, parameters: PgbenchParameters, listener: Listener
    ) -> None:
        """Let pgbench make its tables, and psql run the setup file."""
        with psycopg.connect(conninfo, autocommit=True) as connection:
            schema = sql.Identifier(self.name)
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET search_path = {}, public").format(
                    sql.Identifier(DATABASE), schema
                )
            )
        if parameters.scale:
            listener.stage("loading pgbench's tables")
            scale = f"--scale={parameters.scale}"
            _execute(install, "pgbench", "--initialize", "--quiet", scale, conninfo)
        if parameters.setup:
            listener.stage(f"running {Path(parameters.setup).name}")
            strict = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1")
            _execute(install, "psql", *strict, f"--file={parameters.setup}", conninfo)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")

    def settings(
        self, parameters: PgbenchParameters, approach: Approach, *, archive: Path | None
    ) -> Mapping[str, str]:
        """Return nothing: the scenario's settings are all it needs."""
        return {}

    def ramp_up_s(self, parameters: PgbenchParameters) -> float:
        """Return the time in which the clients connect and prepare."""
        return RAMP_UP_S

    def prepare_s(self, parameters: PgbenchParameters) -> float:
        """Return how long the warm-up takes."""
        return parameters.warmup_s

    def expected_s(self, parameters: PgbenchParameters) -> float:
        """Return how long ramp-up and measured window take."""
        return RAMP_UP_S + parameters.measure_s

    def prepare(self, context: Context[PgbenchParameters]) -> None:
        """Warm up with the same load, but other random draws and at full speed."""
        parameters = context.parameters.seeded(context.repeat).unpaced()
        if parameters.warmup_s:
            context.listener.stage("warming up")
            warm_up = replace(parameters, measure_s=parameters.warmup_s)
            _run(context, warm_up, Observer(), ramp_up_s=0)

    def measure(self, context: Context[PgbenchParameters], observer: Observer) -> Figures:
        """Run the scripts; each repeat draws other values, the same for all approaches."""
        parameters = context.parameters.seeded(1000 + context.repeat)
        return _figures(_run(context, parameters, observer, ramp_up_s=RAMP_UP_S))

    def check(self, conninfo: str, parameters: PgbenchParameters) -> tuple[str, ...]:
        """Check the user's conditions, or those of pgbench's own scripts."""
        if parameters.conditions:
            text = _text(parameters.conditions)
        elif all(one.is_builtin for one in parameters.scripts):
            text = resources.files(__package__).joinpath("sql", "consistency.sql").read_text()
        else:
            return ()
        return require_all(check_conditions(conninfo, text))


def _text(name: str) -> str:
    return Path(name).read_text(encoding="utf-8", errors="replace")


def _execute(install: PgInstall, program: str, *words: str) -> None:
    """Run a program to its end; raise with what it says if it fails."""
    done = subprocess.run(
        [install.program(program), *words],
        env={**os.environ, **install.env},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise LoadError(f"{program} failed: {done.stderr.strip()}")


def _run(
    context: Context[PgbenchParameters],
    parameters: PgbenchParameters,
    observer: Observer,
    *,
    ramp_up_s: int,
) -> PgbenchResult:
    """Run the load with the driver's files in a folder of its own."""
    workdir = context.workdir / "pgbench"
    try:
        return run(
            context.install, context.conninfo, parameters, workdir, observer, ramp_up_s=ramp_up_s
        )
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


def _figures(result: PgbenchResult) -> Figures:
    """Return the result in the lab's terms."""
    everything, *by_script = result.latencies
    if everything.transaction:
        raise DriverError("no transaction ended in the measured window", hint="Run longer.")
    return Figures(
        started_at=result.started_at,
        measured_s=result.window_s,
        transactions=result.transactions,
        transactions_all=result.transactions_all,
        tpm=60 * result.transactions / result.window_s,
        latency=everything,
        by_transaction=tuple(by_script),
        seconds=whole_seconds(result.seconds, window_s=result.window_s),
        driver_cpu_s=result.client_cpu_s,
        facts=tries(failed=result.failures, retried=result.retries),
    )
