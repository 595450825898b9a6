# SPDX-License-Identifier: PostgreSQL
"""Run the mix with pgbench and measure it.

pgbench sends one CALL per transaction, prepared, and logs each one; all results come from that log
afterwards, so the log is the only cost of measuring.  The ramp-up is part of the same pgbench run
and is cut off by the transactions' end times.

Each client is bound to home warehouses: client k works for those whose number - 1 is k modulo the
number of clients, and shares one if there are more clients than warehouses.  Otherwise the payments
of all clients would queue on the same warehouse rows.

A rate is pgbench's own (--rate).  Keying and think times are in the scripts (scripts.py).

New orders are counted twice over the whole run: by the terminals and by sum(d_next_o_id). pgbench
lets each client finish its transaction, so the two must agree to the last order.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import psycopg

from pgflash.waiting import wait_until
from pgflash_lab.model.run import Latency
from pgflash_lab.oltp.measure import summarize, time_line
from pgflash_lab.oltp.model import (
    Access,
    OltpParameters,
    OltpResult,
    ValidityFigure,
)
from pgflash_lab.oltp.pgbench_log import TransactionLog, read_logs
from pgflash_lab.oltp.rows import CUSTOMER_A, ITEM_A, NAME_A, choose_run_constant
from pgflash_lab.oltp.scripts import (
    SCRIPTS,
    TRANSACTIONS,
    script_number,
    weight_of,
    with_pauses,
)
from pgflash_lab.oltp.sql_files import read_terminal
from pgflash_lab.oltp.validity import (
    count_database_transactions,
    judge_run,
    sum_next_orders,
    take_mark,
)
from pgflash_lab.pgbench import DriverError, measure_pgbench
from pgflash_lab.postgres import PgInstall
from pgflash_lab.workload import Observer

#: Connecting and preparing, before the measured window begins.
RAMP_UP_S = 2
#: pgbench's threads.
_THREADS = 2
#: How often a transaction that lost to another one (deadlock) is tried; at least twice, or pgbench
#: does not log retries.
_TRIES_MAX = 10
#: How long after the run's end a client may still pause: pgbench's clock begins later than ours.
_PAUSE_AFTER_S = 5
#: How long sessions of terminals that have ended are waited for.
_SESSIONS_END_S = 60.0
_NO_MORE: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """NURand's C of a run; its A is the specification's."""

    name: int
    customer: int
    item: int


def choose_constants(*, seed: int, load_constant: int) -> Constants:
    """Choose the constants, the same for every run on one load.

    They determine which customers and items are hot.  If they were drawn for each run, a warm-up
    would warm other blocks than the following run requests.
    """
    random = Random(f"{seed} run")
    return Constants(
        name=choose_run_constant(random, load_constant=load_constant),
        customer=random.randint(0, CUSTOMER_A),
        item=random.randint(0, ITEM_A),
    )


def run(
    install: PgInstall,
    conninfo: str,
    parameters: OltpParameters,
    workdir: Path,
    observer: Observer | None = None,
    *,
    ramp_up_s: int = RAMP_UP_S,
) -> OltpResult:
    """Run the mix for the ramp-up and the measured window, and return the result.

    WORKDIR is for pgbench's scripts and logs; the caller removes it.
    """
    workdir.mkdir(parents=True, exist_ok=True)
    with psycopg.connect(
        conninfo, autocommit=True, application_name="pgflash oltp run"
    ) as connection:
        mark = take_mark(connection)
        if mark.warehouses != parameters.warehouses:
            raise DriverError(
                f"the database has {mark.warehouses} warehouses, not {parameters.warehouses}",
                hint="Run with the number that was loaded, or load again.",
            )
    constants = choose_constants(seed=mark.seed, load_constant=mark.c_last_constant)
    started_at = datetime.now(tz=UTC).isoformat(timespec="seconds")
    log, client_cpu_s = _run_pgbench(
        install, conninfo, parameters, constants, workdir, observer or Observer(), ramp_up_s
    )
    if not log.ends_us:
        raise DriverError("no transaction ended during the run", hint="Run longer.")

    with psycopg.connect(
        conninfo, autocommit=True, application_name="pgflash oltp run"
    ) as connection:
        _await_end_of_terminals(connection)
        commits, rollbacks = count_database_transactions(connection)
        in_database = sum_next_orders(connection) - mark.next_order_sum
        counts = [0] * len(SCRIPTS)
        for script in log.scripts:
            counts[script] += 1
        validity = judge_run(connection, mark, counts)
    return _result(
        parameters=parameters,
        ramp_up_s=ramp_up_s,
        constants=constants,
        started_at=started_at,
        log=log,
        counts=counts,
        new_orders_in_database=in_database,
        database_commits=commits - mark.commits,
        database_rollbacks=rollbacks - mark.rollbacks,
        validity=validity,
        client_cpu_s=client_cpu_s,
    )


def _await_end_of_terminals(connection: psycopg.Connection) -> None:
    """Wait until the server has ended pgbench's sessions, which then report their last counts."""
    there = (
        "SELECT FROM pg_stat_activity"
        " WHERE application_name = 'pgbench' AND datname = current_database()"
    )
    wait_until(lambda: connection.execute(there).rowcount == 0, _SESSIONS_END_S, every_s=0.02)


# ---- pgbench


def pgbench_command(
    program: Path,
    conninfo: str,
    parameters: OltpParameters,
    constants: Constants,
    *,
    scripts_dir: Path,
    log_prefix: Path,
    ramp_up_s: int = RAMP_UP_S,
    more: Mapping[str, int] = _NO_MORE,
) -> list[str]:
    """Return pgbench's command line; MORE are further variables of the scripts."""
    run_s = ramp_up_s + parameters.measure_s
    command = [
        str(program),
        "--no-vacuum",
        "--protocol=prepared",
        "--log",
        f"--log-prefix={log_prefix}",
        "--progress=1",
        f"--client={parameters.clients}",
        f"--jobs={min(_THREADS, parameters.clients)}",
        f"--time={run_s}",
        f"--random-seed={parameters.seed}",
        f"--max-tries={_TRIES_MAX}",
    ]
    if parameters.rate_tps:
        command.append(f"--rate={parameters.rate_tps}")
    # NURand with A = 0 is uniform.
    skewed = parameters.access is Access.NURAND
    variables: dict[str, float] = {
        "warehouses": parameters.warehouses,
        "clients": parameters.clients,
        "name_a": NAME_A if skewed else 0,
        "name_c": constants.name,
        "customer_a": CUSTOMER_A if skewed else 0,
        "customer_c": constants.customer,
        "item_a": ITEM_A if skewed else 0,
        "item_c": constants.item,
    }
    if parameters.think_factor:
        ends_s = int(time.time()) + run_s + _PAUSE_AFTER_S
        variables |= {"think_factor": parameters.think_factor, "resting": 2, "ends_s": ends_s}
    variables |= more
    command += [f"--define={name}={value}" for name, value in variables.items()]
    command += [
        f"--file={scripts_dir / script.file}@{weight_of(script, parameters.mix)}"
        for script in SCRIPTS
    ]
    return [*command, conninfo]


def _run_pgbench(
    install: PgInstall,
    conninfo: str,
    parameters: OltpParameters,
    constants: Constants,
    workdir: Path,
    observer: Observer,
    ramp_up_s: int,
) -> tuple[TransactionLog, float]:
    """Run pgbench to its end; return its log and its CPU seconds."""
    pauses = parameters.think_factor > 0
    for script in SCRIPTS:
        text = read_terminal(script.file)
        if pauses:
            text = with_pauses(script, text)
        (workdir / script.file).write_text(text, encoding="utf-8")
    log_prefix = workdir / "transactions"
    command = pgbench_command(
        install.bindir / "pgbench",
        conninfo,
        parameters,
        constants,
        scripts_dir=workdir,
        log_prefix=log_prefix,
        ramp_up_s=ramp_up_s,
    )
    ended = measure_pgbench(
        install,
        command,
        workdir=workdir,
        ramp_up_s=ramp_up_s,
        duration_s=parameters.measure_s,
        observer=observer,
        pauses=pauses,
    )
    log = read_logs(log_prefix, ended.pid, paced=parameters.rate_tps > 0, pauses=pauses)
    return log, ended.cpu_s


# ---- the result


def _result(
    *,
    parameters: OltpParameters,
    ramp_up_s: int,
    constants: Constants,
    started_at: str,
    log: TransactionLog,
    counts: list[int],
    new_orders_in_database: int,
    database_commits: int,
    database_rollbacks: int,
    validity: tuple[ValidityFigure, ...],
    client_cpu_s: float,
) -> OltpResult:
    """Cut the ramp-up off and sum up the rest."""
    new_order = script_number("new_order")
    rollback = script_number("new_order_rollback")
    begin_us, end_us = log.began_us, log.ended_us
    window_begin_us = begin_us + ramp_up_s * 1_000_000
    # Clients stop one by one after the time is up; that tail does not count as throughput.
    window_end_us = min(end_us, window_begin_us + parameters.measure_s * 1_000_000)
    window_s = (window_end_us - window_begin_us) / 1_000_000
    if window_s <= 0:
        raise DriverError("the run ended during its ramp-up")

    by_transaction: dict[str, list[int]] = {name: [] for name in TRANSACTIONS}
    measured: list[int] = []
    new_orders = 0
    for script, end, latency in zip(log.scripts, log.ends_us, log.latencies_us, strict=True):
        if window_begin_us < end <= window_end_us:
            measured.append(latency)
            by_transaction[SCRIPTS[script].transaction].append(latency)
            new_orders += script == new_order

    return OltpResult(
        parameters=parameters,
        started_at=started_at,
        c_last_constant=constants.name,
        c_customer_constant=constants.customer,
        c_item_constant=constants.item,
        elapsed_s=(end_us - begin_us) / 1_000_000,
        window_s=window_s,
        transactions=len(measured),
        tpm=60 * len(measured) / window_s,
        new_orders=new_orders,
        nopm=60 * new_orders / window_s,
        new_orders_acknowledged=counts[new_order],
        new_orders_in_database=new_orders_in_database,
        database_commits=database_commits,
        database_rollbacks=database_rollbacks,
        transactions_acknowledged=len(log.scripts),
        rollbacks_acknowledged=counts[rollback],
        retries=log.retries,
        failures=log.failures,
        latencies=_latencies(measured, by_transaction),
        seconds=time_line(log.ends_us, log.latencies_us, zero_us=window_begin_us),
        validity=validity,
        client_cpu_s=client_cpu_s,
    )


def _latencies(measured: list[int], by_transaction: dict[str, list[int]]) -> tuple[Latency, ...]:
    """Return the response times of all transactions, then of each type that occurred."""
    summaries = [summarize("", measured)]
    summaries += [summarize(name, values) for name, values in by_transaction.items()]
    return tuple(summary for summary in summaries if summary is not None)
