# SPDX-License-Identifier: PostgreSQL
"""Read the output of pgbench -l: one line for each transaction that a client ended.

    client_id transaction_no time script_no time_epoch time_us [schedule_lag] [retries]

time is the latency in microseconds, measured from the scheduled start if there is a rate; it is the
word "failed" if all tries failed, or "skipped". time_epoch and time_us say when the transaction
ended. schedule_lag is present only with a rate, retries only if more than one try is allowed.

If clients pause (scripts.py), each one's first line is a pause, and so is the next one after each
transaction that did not fail.  All lines of a client are in one file, in order.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pgflash.errors import PgflashError
from pgflash_lab.pgbench import log_files


class LogError(PgflashError):
    """A line of pgbench's log could not be read."""


@dataclass(slots=True)
class TransactionLog:
    """The transactions of a run, in columns, in no order.

    Columns rather than objects: a run has a million transactions.
    """

    #: For each successful transaction: its script, when it ended, how long it took.
    scripts: list[int]
    ends_us: list[int]
    latencies_us: list[int]
    failures: int = 0
    retries: int = 0
    #: When the first of all began and the last ended, pauses included; 0: there was none.
    began_us: int = 0
    ended_us: int = 0


def read_logs(
    log_prefix: Path, pid: int, *, paced: bool = False, pauses: bool = False
) -> TransactionLog:
    """Return what a pgbench with --log-prefix wrote, in one file for each of its threads."""
    log = TransactionLog(scripts=[], ends_us=[], latencies_us=[])
    for path in log_files(log_prefix, pid):
        with path.open(encoding="ascii") as lines:
            read_log(lines, log, paced=paced, pauses=pauses)
    return log


def read_log(
    lines: Iterable[str], log: TransactionLog, *, paced: bool = False, pauses: bool = False
) -> None:
    """Add the lines of one of pgbench's log files.

    PACED says that there was a rate, PAUSES that clients pause between transactions.
    """
    scripts, ends, latencies = log.scripts, log.ends_us, log.latencies_us
    working: set[str] = set()
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if len(fields) != 7 + paced:
            raise LogError(f"pgbench's log has an unexpected line {number}: {line.strip()!r}")
        try:
            log.retries += int(fields[-1])
            if fields[2] == "failed":
                log.failures += 1
                continue
            latency = int(fields[2])
            script = int(fields[3])
            end = int(fields[4]) * 1_000_000 + int(fields[5])
        except ValueError as error:
            raise LogError(
                f"pgbench's log has an unexpected line {number}: {line.strip()!r}"
            ) from error
        log.began_us = min(log.began_us or end, end - latency)
        log.ended_us = max(log.ended_us, end)
        if pauses and fields[0] not in working:
            working.add(fields[0])
            continue
        working.discard(fields[0])
        latencies.append(latency)
        scripts.append(script)
        ends.append(end)
