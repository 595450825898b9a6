# SPDX-License-Identifier: PostgreSQL
"""Run the oltp load through a failover, by one connection string that names all members.

pgbench ends when its clients have lost their connections.  Then we try the connection string, with
target_session_attrs=read-write, until a server accepts writes, and start pgbench again for the time
after the promotion; so each run of pgbench has one leader.  All results come from the runs' logs.

A transaction counts when the server has acknowledged it: pgbench logs no other.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from pgflash_lab.failover.ledger import Name, acknowledged, named_script
from pgflash_lab.failover.model import FailoverParameters
from pgflash_lab.oltp.driver import RAMP_UP_S, Constants, choose_constants, pgbench_command
from pgflash_lab.oltp.measure import summarize, time_line, whole_seconds
from pgflash_lab.oltp.pgbench_log import TransactionLog, read_log
from pgflash_lab.oltp.scripts import SCRIPTS, TRANSACTIONS, script_number
from pgflash_lab.oltp.sql_files import read_terminal
from pgflash_lab.oltp.validity import take_mark
from pgflash_lab.pgbench import DriverError, log_files, run_pgbench
from pgflash_lab.postgres import PgInstall
from pgflash_lab.workload import Figures, Observer, tries

#: How long the clients may be connected after the leader's end was due.
_BREAK_WAIT_S = 120
#: How often a new leader is looked for, and how long at most.
_LOOK_S = 0.05
_PROMOTION_WAIT_S = 300.0
_S_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the load runs on."""

    install: PgInstall
    #: To the load's database, on whichever member accepts writes.
    conninfo: str
    parameters: FailoverParameters
    workdir: Path
    observer: Observer


class Fault(threading.Thread):
    """Ends the leader at its moment, in a thread; raise_error() says if that failed."""

    def __init__(
        self, look: Callable[[], None], act: Callable[[], None], *, after_s: float
    ) -> None:
        """Describe it: LOOK is called just before ACT, and is not part of the fault."""
        super().__init__(name="pgflash-fault", daemon=True)
        self._look = look
        self._act = act
        self._after_s = after_s
        self._cancelled = threading.Event()
        self._error: BaseException | None = None
        self.began_us = 0
        self.ended_us = 0

    def run(self) -> None:
        """Wait for the moment, then act."""
        if self._cancelled.wait(self._after_s):
            return
        try:
            self._look()
            self.began_us = _now_us()
            self._act()
            self.ended_us = _now_us()
        except BaseException as error:  # raised by raise_error()
            self._error = error

    def cancel(self) -> None:
        """Do not act any more, and wait until it is certain."""
        self._cancelled.set()
        self.join()

    def raise_error(self) -> None:
        """Raise what went wrong."""
        if self._error is not None:
            raise self._error


@dataclass(frozen=True, slots=True, kw_only=True)
class Ridden:
    """A load that has run through a failover."""

    started_at: str
    #: When it began, without its ramp-up, and when the window ended.
    begin_us: int
    end_us: int
    fault_us: int
    ended_us: int
    promoted_us: int
    log: TransactionLog
    promised: frozenset[Name]
    client_cpu_s: float

    def before_p95_ms(self) -> float:
        """Return the response time that 95 of 100 transactions before the fault did not exceed."""
        pairs = zip(self.log.ends_us, self.log.latencies_us, strict=True)
        before = [latency for end, latency in pairs if self.begin_us < end <= self.fault_us]
        latency = summarize("", before)
        assert latency is not None  # see() has refused a load without any
        return latency.p95_ms

    def figures(self, parameters: FailoverParameters) -> Figures:
        """Return what the lab stores of any load."""
        log, window_s = self.log, (self.end_us - self.begin_us) / _S_US
        measured: list[int] = []
        by_transaction: dict[str, list[int]] = {name: [] for name in TRANSACTIONS}
        orders = 0
        for script, end, latency in zip(log.scripts, log.ends_us, log.latencies_us, strict=True):
            if self.begin_us < end <= self.end_us:
                measured.append(latency)
                by_transaction[SCRIPTS[script].transaction].append(latency)
                orders += script == script_number("new_order")
        latency_of_all = summarize("", measured)
        if latency_of_all is None:
            raise DriverError("no transaction ended during the run", hint="Run longer.")
        latencies = (summarize(name, values) for name, values in by_transaction.items())
        seconds = time_line(log.ends_us, log.latencies_us, zero_us=self.begin_us)
        return Figures(
            started_at=self.started_at,
            measured_s=window_s,
            transactions=len(measured),
            transactions_all=len(log.ends_us),
            tpm=60 * len(measured) / window_s,
            nopm=60 * orders / window_s,
            latency=latency_of_all,
            by_transaction=tuple(one for one in latencies if one is not None),
            seconds=whole_seconds(seconds, window_s=window_s),
            driver_cpu_s=self.client_cpu_s,
            facts=tries(failed=log.failures, retried=log.retries),
        )


def ride(load: Load, fault: Fault, promoted: Callable[[int], None]) -> Ridden:
    """Run the load until the leader ends, and on the new one for the measured time.

    FAULT is started with the load.  PROMOTED is called with the port of the new leader, once that
    accepts writes.
    """
    load.workdir.mkdir(parents=True, exist_ok=True)
    with psycopg.connect(load.conninfo, autocommit=True) as connection:
        mark = take_mark(connection)
    constants = choose_constants(seed=mark.seed, load_constant=mark.c_last_constant)
    for script in SCRIPTS:
        text = named_script() if script.name == "new_order" else read_terminal(script.file)
        (load.workdir / script.file).write_text(text, encoding="utf-8")
    started_at = datetime.now(tz=UTC).isoformat(timespec="seconds")
    begin_us = _now_us() + RAMP_UP_S * _S_US
    runs = _Runs(load=load, constants=constants, begin_us=begin_us)
    fault.start()
    try:
        before_s = RAMP_UP_S + load.parameters.before_s
        broken = runs.one(before_s + _BREAK_WAIT_S)
        broken_us = _now_us()
        fault.raise_error()
        if not broken:
            raise DriverError("the leader's end did not interrupt the load", hint=_LOGS)
        if not fault.began_us:
            raise DriverError(f"the load was interrupted before its time: {broken}", hint=_LOGS)
        port = _wait_for_leader(load.conninfo)
        promoted_us = _now_us()
        promoted(port)
        broken = runs.one(load.parameters.measure_s)
        if broken:
            raise DriverError(f"the load was interrupted once more: {broken}", hint=_LOGS)
        fault.join()
        fault.raise_error()
    finally:
        fault.cancel()
    load.observer.measuring_ended()
    return Ridden(
        started_at=started_at,
        begin_us=begin_us,
        end_us=promoted_us + load.parameters.measure_s * _S_US,
        fault_us=fault.began_us,
        ended_us=broken_us if load.parameters.planned else fault.ended_us,
        promoted_us=promoted_us,
        log=runs.log,
        promised=frozenset(runs.promised),
        client_cpu_s=runs.cpu_s,
    )


@dataclass(slots=True, kw_only=True)
class _Runs:
    """The runs of pgbench so far, and what their logs say."""

    load: Load
    constants: Constants
    #: When the window begins.
    begin_us: int
    log: TransactionLog = field(
        default_factory=lambda: TransactionLog(scripts=[], ends_us=[], latencies_us=[])
    )
    promised: set[Name] = field(default_factory=set)
    cpu_s: float = 0.0
    number: int = 0

    def one(self, run_s: int) -> str:
        """Run pgbench for this long, or until its connections are lost; say why it broke."""
        self.number += 1
        load, parameters = self.load, self.load.parameters
        prefix = load.workdir / f"transactions-{self.number}"
        command = pgbench_command(
            load.install.program("pgbench"),
            load.conninfo,
            replace(parameters, seed=parameters.seed + self.number, measure_s=run_s),
            self.constants,
            scripts_dir=load.workdir,
            log_prefix=prefix,
            ramp_up_s=0,
            more={"run": self.number, "try": 0},
        )
        began_s = (_now_us() - self.begin_us) / _S_US

        def heard(at_s: float, tps: float, latency_ms: float) -> None:
            load.observer.second(began_s + at_s, tps, latency_ms)

        ended = run_pgbench(
            load.install, command, workdir=load.workdir, run_s=run_s, heard=heard, may_break=True
        )
        self.cpu_s += ended.cpu_s
        paced = parameters.rate_tps > 0
        for path in log_files(prefix, ended.pid):
            lines = path.read_text(encoding="ascii").splitlines()
            read_log(lines, self.log, paced=paced)
            self.promised |= acknowledged(lines, run=self.number, paced=paced)
        return ended.broken


def _wait_for_leader(conninfo: str) -> int:
    """Wait until a server accepts a client that wants to write; return its port."""
    deadline = time.monotonic() + _PROMOTION_WAIT_S
    while True:
        try:
            with psycopg.connect(conninfo) as connection:
                return connection.info.port
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline:
                raise DriverError(
                    f"no member accepted writes within {_PROMOTION_WAIT_S:g} s: {error}", hint=_LOGS
                ) from error
            time.sleep(_LOOK_S)


def _now_us() -> int:
    """Return the time as pgbench logs it."""
    return time.time_ns() // 1000


_LOGS = "The members' logs in the run's folder say more."
