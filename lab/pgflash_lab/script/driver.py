# SPDX-License-Identifier: PostgreSQL
"""Run scripts with pgbench and measure them by its log.

A script is looked at before anything is loaded: pgbench reads all of them before it connects, so a
start without a server finds what it cannot read.  What the server refuses ends the run with
pgbench's message.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pgflash_lab.model.run import Latency, Second
from pgflash_lab.oltp.measure import summarize, time_line
from pgflash_lab.oltp.pgbench_log import TransactionLog, read_logs
from pgflash_lab.parameters import ScenarioError
from pgflash_lab.pgbench import DriverError, measure_pgbench
from pgflash_lab.postgres import PgInstall
from pgflash_lab.script.model import PgbenchParameters
from pgflash_lab.workload import Observer

#: Connecting and preparing, before the measured window begins.
RAMP_UP_S = 2
#: pgbench's threads.
_THREADS = 2
#: How often a transaction that lost to another one is tried; at least twice, or pgbench does not
#: log retries.
_TRIES_MAX = 10

#: No server listens there.
_NOWHERE = "host=/dev/null"
_REACHED_THE_SERVER = "connection to server"


@dataclass(frozen=True, slots=True, kw_only=True)
class PgbenchResult:
    """A finished run."""

    #: ISO 8601, UTC.
    started_at: str
    #: The measured window, without the ramp-up.
    window_s: float
    #: In the window, and over the whole run.
    transactions: int
    transactions_all: int
    #: Transactions that failed all their tries.
    failures: int
    retries: int
    #: Of all transactions (""), and of each script by its title.
    latencies: tuple[Latency, ...]
    seconds: tuple[Second, ...]
    client_cpu_s: float


def require_scripts(install: PgInstall, parameters: PgbenchParameters) -> None:
    """Raise if a file cannot be read, or if pgbench does not understand a script."""
    parameters.files()
    # No PGHOSTADDR or PGSERVICE of the user's may lead it to a server.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    done = subprocess.run(
        [install.program("pgbench"), *_script_words(parameters), "--transactions=1", _NOWHERE],
        env={**env, **install.env, "LC_ALL": "C"},
        check=False,
        capture_output=True,
        text=True,
    )
    if _REACHED_THE_SERVER not in done.stderr:
        lines = [line.removeprefix("pgbench: ") for line in done.stderr.splitlines() if line]
        raise ScenarioError(
            f"pgbench does not understand the script: {' '.join(lines)}",
            hint="pgbench's manual describes what a script may contain.",
        )


def run(
    install: PgInstall,
    conninfo: str,
    parameters: PgbenchParameters,
    workdir: Path,
    observer: Observer,
    *,
    ramp_up_s: int = RAMP_UP_S,
) -> PgbenchResult:
    """Run the scripts for the ramp-up and the measured window, and return the result.

    WORKDIR is for pgbench's logs; the caller removes it.
    """
    workdir.mkdir(parents=True, exist_ok=True)
    started_at = datetime.now(tz=UTC).isoformat(timespec="seconds")
    log_prefix = workdir / "transactions"
    ended = measure_pgbench(
        install,
        pgbench_command(
            install.program("pgbench"),
            conninfo,
            parameters,
            log_prefix=log_prefix,
            ramp_up_s=ramp_up_s,
        ),
        workdir=workdir,
        ramp_up_s=ramp_up_s,
        duration_s=parameters.measure_s,
        observer=observer,
    )
    log = read_logs(log_prefix, ended.pid, paced=parameters.rate_tps > 0)
    if not log.ends_us:
        raise DriverError(
            "no transaction ended during the run",
            hint="Run longer, or look whether each of them fails.",
        )
    return _result(parameters, log, started_at, ended.cpu_s, ramp_up_s)


def pgbench_command(
    program: Path,
    conninfo: str,
    parameters: PgbenchParameters,
    *,
    log_prefix: Path,
    ramp_up_s: int = RAMP_UP_S,
) -> list[str]:
    """Return pgbench's command line."""
    return [
        str(program),
        "--no-vacuum",
        "--log",
        f"--log-prefix={log_prefix}",
        "--progress=1",
        f"--client={parameters.clients}",
        f"--jobs={min(_THREADS, parameters.clients)}",
        f"--time={ramp_up_s + parameters.measure_s}",
        f"--random-seed={parameters.seed}",
        f"--max-tries={_TRIES_MAX}",
        *([f"--rate={parameters.rate_tps}"] if parameters.rate_tps else ()),
        *_script_words(parameters),
        conninfo,
    ]


def _script_words(parameters: PgbenchParameters) -> Sequence[str]:
    """Return pgbench's options about the scripts; in a file, :scale is the tables' scale."""
    words = [f"--protocol={parameters.protocol}"]
    if not any(one.is_builtin for one in parameters.scripts):
        words.append(f"--scale={max(parameters.scale, 1)}")
    for one in parameters.scripts:
        name = one.name if one.is_builtin else Path(one.name).absolute()
        words.append(f"--{'builtin' if one.is_builtin else 'file'}={name}@{one.weight}")
    return words


def _result(
    parameters: PgbenchParameters,
    log: TransactionLog,
    started_at: str,
    client_cpu_s: float,
    ramp_up_s: int,
) -> PgbenchResult:
    """Cut the ramp-up off and sum up the rest."""
    begin_us = log.began_us + ramp_up_s * 1_000_000
    # Clients stop one by one after the time is up; that tail does not count as throughput.
    end_us = min(log.ended_us, begin_us + parameters.measure_s * 1_000_000)
    if end_us <= begin_us:
        raise DriverError("the run ended during its ramp-up")
    scripts = parameters.scripts
    measured: list[int] = []
    by_script: list[list[int]] = [[] for _ in scripts]
    for script, end, latency in zip(log.scripts, log.ends_us, log.latencies_us, strict=True):
        if begin_us < end <= end_us:
            measured.append(latency)
            by_script[script].append(latency)
    latencies = [summarize("", measured)]
    latencies += [
        summarize(one.title, its) for one, its in zip(scripts, by_script, strict=True) if its
    ]
    return PgbenchResult(
        started_at=started_at,
        window_s=(end_us - begin_us) / 1_000_000,
        transactions=len(measured),
        transactions_all=len(log.ends_us),
        failures=log.failures,
        retries=log.retries,
        latencies=tuple(one for one in latencies if one is not None),
        seconds=time_line(log.ends_us, log.latencies_us, zero_us=begin_us),
        client_cpu_s=client_cpu_s,
    )
