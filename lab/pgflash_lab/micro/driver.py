# SPDX-License-Identifier: PostgreSQL
"""Run one pattern with pgbench and measure it, side by side.

Client k works on the array's table if k is even and on flash's if it is odd, so the first column of
pgbench's log tells the sides apart.  The results come from the log; the ramp-up is cut off by the
operations' end times.  A rate is one of full load: it ends with the run's time, after which a side
that is done waits for the other, and operations that reach beyond it count by their part.

Changes are counted twice over the whole run: by the clients, and by the tables' own rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

import psycopg

from pgflash_lab.micro.model import (
    NEW_ROWS_PER_MB,
    MicroError,
    MicroParameters,
    MicroResult,
    Pattern,
    Side,
)
from pgflash_lab.model.run import Latency
from pgflash_lab.oltp.measure import summarize, time_line
from pgflash_lab.pgbench import log_files, measure_pgbench
from pgflash_lab.postgres import PgInstall
from pgflash_lab.workload import Observer

#: Connecting and preparing, before the measured window begins.
RAMP_UP_S = 1
DEFAULT_TABLESPACE = "pg_default"

_SIDES = tuple(Side)


@dataclass(slots=True)
class Operations:
    """The operations of a run, in columns, in no order."""

    sides: list[Side] = field(default_factory=list)
    ends_us: list[int] = field(default_factory=list)
    latencies_us: list[int] = field(default_factory=list)


def run(
    install: PgInstall,
    conninfo: str,
    parameters: MicroParameters,
    workdir: Path,
    observer: Observer | None = None,
    *,
    tablespaces: Mapping[str, str] | None = None,
    changed: Mapping[str, int] | None = None,
) -> MicroResult:
    """Run the pattern for the ramp-up and the measured window, and return the result.

    WORKDIR is for pgbench's script and logs; the caller removes it.  CHANGED says how often rows of
    each side's table were changed before; without it they are counted, which reads both tables.
    """
    workdir.mkdir(parents=True, exist_ok=True)
    observer = observer or Observer()
    before = _changes(conninfo) if changed is None else changed
    started_at = datetime.now(tz=UTC).isoformat(timespec="seconds")
    log_prefix = workdir / "operations"
    command = pgbench_command(
        install.bindir / "pgbench",
        conninfo,
        parameters,
        tablespaces=tablespaces or {},
        script=_write_script(parameters, workdir),
        log_prefix=log_prefix,
    )
    ended = measure_pgbench(
        install,
        command,
        workdir=workdir,
        ramp_up_s=RAMP_UP_S,
        duration_s=parameters.measure_s,
        observer=observer,
    )
    log = Operations()
    for path in log_files(log_prefix, ended.pid):
        with path.open(encoding="ascii") as lines:
            read_operations(lines, log, paced=parameters.rate_tps > 0)
    if not log.ends_us:
        raise MicroError("no operation ended during the run", hint="Run longer.")
    after = _changes(conninfo)
    writes = parameters.pattern is Pattern.RANDOM_WRITE
    return _result(
        parameters,
        log,
        started_at=started_at,
        acknowledged={side: log.sides.count(side) if writes else 0 for side in _SIDES},
        in_database={side: after[side] - before[side] for side in _SIDES},
        client_cpu_s=ended.cpu_s,
    )


def pgbench_command(
    program: Path,
    conninfo: str,
    parameters: MicroParameters,
    *,
    tablespaces: Mapping[str, str],
    script: Path,
    log_prefix: Path,
) -> list[str]:
    """Return pgbench's command line."""
    variables: dict[str, str | int] = {
        "rows": parameters.rows,
        "new_rows": parameters.write_mb * NEW_ROWS_PER_MB,
        **{side: tablespaces.get(side, DEFAULT_TABLESPACE) for side in _SIDES},
    }
    return [
        str(program),
        "--no-vacuum",
        # A statement that creates a table takes no parameters.
        f"--protocol={'simple' if parameters.pattern is Pattern.SEQUENTIAL_WRITE else 'prepared'}",
        "--log",
        f"--log-prefix={log_prefix}",
        "--progress=1",
        f"--client={parameters.clients}",
        f"--jobs={parameters.threads}",
        f"--time={RAMP_UP_S + parameters.measure_s}",
        f"--random-seed={parameters.seed}",
        *([f"--rate={parameters.rate_tps}"] if parameters.rate_tps else ()),
        *(f"--define={name}={value}" for name, value in variables.items()),
        f"--file={script}",
        conninfo,
    ]


def read_operations(lines: Iterable[str], log: Operations, *, paced: bool = False) -> None:
    """Add the lines of one of pgbench's logs: client, number, us, script, end s, end us.

    With a rate, a line ends with how late its operation began.
    """
    for number, line in enumerate(lines, start=1):
        try:
            numbers = [int(word) for word in line.split()]
            client, _, latency, _, end_s, end_us = numbers[: -1 if paced else None]
        except ValueError as error:
            raise MicroError(
                f"pgbench's log has an unexpected line {number}: {line.strip()!r}"
            ) from error
        log.sides.append(_SIDES[client % 2])
        log.latencies_us.append(latency)
        log.ends_us.append(end_s * 1_000_000 + end_us)


def _write_script(parameters: MicroParameters, workdir: Path) -> Path:
    """Write the pattern's script to the work folder."""
    name = f"{parameters.pattern}.sql"
    script = workdir / name
    text = resources.files(__package__).joinpath("patterns", name).read_text(encoding="utf-8")
    script.write_text(text, encoding="utf-8")
    return script


def _changes(conninfo: str) -> dict[str, int]:
    """Return how often rows of each table have been changed since they were loaded."""
    with psycopg.connect(conninfo, application_name="pgflash micro run") as connection:
        row = connection.execute(
            "SELECT " + ", ".join(f"(SELECT sum(changes) FROM {side.table})" for side in _SIDES)
        ).fetchone()
    assert row is not None
    return dict(zip(_SIDES, map(int, row), strict=True))


def _result(
    parameters: MicroParameters,
    log: Operations,
    *,
    started_at: str,
    acknowledged: dict[str, int],
    in_database: dict[str, int],
    client_cpu_s: float,
) -> MicroResult:
    """Cut the ramp-up off and sum up the rest."""
    begin_us = min(
        end - latency for end, latency in zip(log.ends_us, log.latencies_us, strict=True)
    )
    zero_us = begin_us + RAMP_UP_S * 1_000_000
    # An operation that takes seconds may end after the time is up; it counts, with its time.
    end_us = max(log.ends_us)
    if end_us <= zero_us:
        raise MicroError("the run ended during its ramp-up", hint="Run longer.")
    by_side: dict[Side, list[int]] = {side: [] for side in _SIDES}
    for side, end, latency in zip(log.sides, log.ends_us, log.latencies_us, strict=True):
        if end > zero_us:
            by_side[side].append(latency)
    return MicroResult(
        parameters=parameters,
        started_at=started_at,
        elapsed_s=(end_us - begin_us) / 1_000_000,
        window_s=(end_us - zero_us) / 1_000_000,
        operations=sum(map(len, by_side.values())),
        operations_all=len(log.ends_us),
        latencies=_latencies(by_side),
        rates=rates(log, zero_us=zero_us, time_up_us=zero_us + parameters.measure_s * 1_000_000),
        seconds=time_line(log.ends_us, log.latencies_us, zero_us=zero_us),
        acknowledged=acknowledged,
        in_database=in_database,
        client_cpu_s=client_cpu_s,
    )


def rates(log: Operations, *, zero_us: int, time_up_us: int) -> dict[Side, float]:
    """Return the operations a second of each side that has some after ZERO_US.

    Until the time is up or, if that was earlier, until the side's last operation.  An operation
    that began before or ended after counts by the part of its time between.
    """
    found: dict[Side, float] = {}
    for side in _SIDES:
        spans = [
            (end - latency, end)
            for of, end, latency in zip(log.sides, log.ends_us, log.latencies_us, strict=True)
            if of is side and end > zero_us
        ]
        if not spans:
            continue
        until_us = min(time_up_us, max(end for _, end in spans))
        done = sum(
            max(min(end, until_us) - max(began, zero_us), 0) / max(end - began, 1)
            for began, end in spans
        )
        found[side] = 1_000_000 * done / (until_us - zero_us)
    return found


def _latencies(by_side: Mapping[Side, list[int]]) -> tuple[Latency, ...]:
    """Return the response times of all operations, then of each side with an operation."""
    summaries = [summarize("", [one for side in by_side.values() for one in side])]
    summaries += [summarize(side, latencies) for side, latencies in by_side.items()]
    return tuple(summary for summary in summaries if summary is not None)
