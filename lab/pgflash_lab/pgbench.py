# SPDX-License-Identifier: PostgreSQL
"""Run pgbench to its end, and follow its progress.

Interrupting: pgbench runs in a session of its own, so that Ctrl-C reaches only us; on any exception
it is terminated by its process number, then killed.
"""

import itertools
import math
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgflash.errors import PgflashError
from pgflash_lab.postgres import PgInstall
from pgflash_lab.workload import Observer

#: How long pgbench may take beyond its own time, to connect and to end its transactions.
GRACE_S = 300
_TERMINATE_WAIT_S = 5
#: The exit code with which it says that clients were aborted.
ABORTED = 2

_PROGRESS = re.compile(r"^progress: ([\d.]+) s, ([\d.]+) tps, lat ([\d.]+|NaN|-nan) ms")

#: How an error begins.
_ERROR = re.compile(r"^pgbench: (error|fatal): ")

#: Called with the seconds since the start, and that second's rate and mean latency in ms.
Heard = Callable[[float, float, float], None]


class DriverError(PgflashError):
    """The load could not be run to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A pgbench that ended: its process number, which its logs bear, and its CPU seconds."""

    pid: int
    cpu_s: float
    #: Why it ended before its time; empty if it did not.
    broken: str = ""


def run_pgbench(
    install: PgInstall,
    command: list[str],
    *,
    workdir: Path,
    run_s: float,
    heard: Heard,
    may_break: bool = False,
) -> Ended:
    """Run a pgbench command with --progress=1; its output goes to WORKDIR.

    Its last word is a connection string, whose password is handed over in the environment.
    MAY_BREAK: the clients may lose their connections, which ends it; otherwise that is an error.
    """
    output = workdir / "pgbench.out"
    *words, conninfo = command
    conninfo, secret = without_password(conninfo)
    env = {**os.environ, **install.env, **secret}
    with (
        output.open("w", encoding="utf-8") as stdout,
        _process([*words, conninfo], env=env, stdout=stdout, cwd=workdir) as process,
    ):
        pid = process.pid
        with _deadline(process, run_s + GRACE_S):
            messages = _follow(process, heard)
            cpu_s = _reap(process)
    broken = _reason(messages) if process.returncode != 0 else ""
    if broken and not (may_break and process.returncode == ABORTED):
        raise DriverError(
            f"pgbench ended with exit code {process.returncode}: {broken}",
            hint="The server's log may say more.",
        )
    return Ended(pid=pid, cpu_s=cpu_s, broken=broken)


def without_password(conninfo: str) -> tuple[str, dict[str, str]]:
    """Return a connection string without its password, and the variable that has it instead.

    Every user of the machine sees the arguments of a command, and only we its environment.
    """
    known = conninfo_to_dict(conninfo)
    password = known.pop("password", None)
    if password is None:
        return conninfo, {}
    return make_conninfo("", **known), {"PGPASSWORD": str(password)}


def measure_pgbench(
    install: PgInstall,
    command: list[str],
    *,
    workdir: Path,
    ramp_up_s: float,
    duration_s: float,
    observer: Observer,
    pauses: bool = False,
) -> Ended:
    """Run pgbench through the ramp-up and the measured time, reporting to the observer.

    PAUSES says that every other transaction of pgbench's is a client's pause.
    """
    measuring = ramp_up_s == 0
    if measuring:
        observer.measuring_began()

    def heard(at_s: float, tps: float, latency_ms: float) -> None:
        nonlocal measuring
        at_s -= ramp_up_s
        if pauses:
            observer.second(at_s, tps / 2, None)
        else:
            observer.second(at_s, tps, latency_ms)
        # pgbench reports a few ms early or late; its seconds are whole ones.
        if not measuring and at_s > -0.5:
            measuring = True
            observer.measuring_began()

    run_s = ramp_up_s + duration_s
    ended = run_pgbench(install, command, workdir=workdir, run_s=run_s, heard=heard)
    observer.measuring_ended()
    return ended


def log_files(log_prefix: Path, pid: int) -> list[Path]:
    """Return the logs that a pgbench with --log-prefix wrote, one for each of its threads."""
    return sorted(log_prefix.parent.glob(f"{log_prefix.name}.{pid}*"))


@contextmanager
def _process(
    command: list[str], *, env: dict[str, str], stdout: object, cwd: Path
) -> Iterator[subprocess.Popen[str]]:
    """Start pgbench, and make sure that it has ended when the block is left."""
    try:
        process = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=stdout,  # type: ignore[call-overload]
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    except OSError as error:
        raise DriverError(f"could not run {command[0]}: {error.strerror}") from error
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_TERMINATE_WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stderr is not None:
            process.stderr.close()


@contextmanager
def _deadline(process: subprocess.Popen[str], limit_s: float) -> Iterator[None]:
    """Kill pgbench if it does not end in time."""
    timer = threading.Timer(limit_s, process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _follow(process: subprocess.Popen[str], heard: Heard) -> list[str]:
    """Pass on pgbench's progress until it ends; return its other messages."""
    assert process.stderr is not None
    messages: list[str] = []
    for line in process.stderr:
        progress = _PROGRESS.match(line)
        if progress is None:
            messages.append(line.rstrip())
            continue
        latency = float(progress[3].replace("-nan", "nan"))
        heard(float(progress[1]), float(progress[2]), 0.0 if math.isnan(latency) else latency)
    return messages


def _reason(messages: list[str]) -> str:
    """Return pgbench's first error, which may have several lines: the others follow from it."""
    errors = [place for place, line in enumerate(messages) if _ERROR.match(line)]
    if not errors:
        return "\n".join(messages[-10:])
    first, *rest = messages[errors[0] :]
    more = itertools.takewhile(lambda line: not line.startswith("pgbench:"), rest)
    return "\n".join([_ERROR.sub("", first), *more])


def _reap(process: subprocess.Popen[str]) -> float:
    """Wait for pgbench and return the CPU seconds it used."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime
