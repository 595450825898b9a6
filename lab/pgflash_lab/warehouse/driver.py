# SPDX-License-Identifier: PostgreSQL
"""Run queries and refresh functions and measure them.

One stream runs alone, in the caller's thread: RF1, its queries in their order, RF2 (a power test).
Several streams run at once, each in a thread with a connection of its own, and one more thread for
the pairs of refresh functions (a throughput test).  A query's time is from its sending to the
arrival of its last row.

The degree of parallelism includes the session itself: 2 means the session and one worker.  The
server plans fewer workers for small tables; so that the degree also applies to small databases,
tables of at least a megabyte are scanned in parallel.

Locking: a stream shares only the list of steps with others; list.append is atomic.  Interrupting:
whatever ends the run cancels the running statements, and the threads end with them.  A refresh
function is one transaction.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any

import psycopg

from pgflash.errors import PgflashError
from pgflash.model.words import duration
from pgflash_lab.warehouse.answers import ANSWERS_SCALE_FACTOR, digest_rows, read_answers
from pgflash_lab.warehouse.model import (
    StepResult,
    WarehouseParameters,
    WarehouseResult,
    is_query,
)
from pgflash_lab.warehouse.parameters import draw_values, validation_values
from pgflash_lab.warehouse.texts import fill_in, read_query, read_sql
from pgflash_lab.warehouse.usage import CpuSeconds, UsageMeter

#: How long streams may take to notice that they were cancelled.
_CANCEL_WAIT_S = 30.0

Connection = psycopg.Connection[Any]


class DriverError(PgflashError):
    """The queries could not be run to their end."""


class RunObserver:
    """Hooks for a caller during a run; override those of interest."""

    def step_began(self, name: str, number: int, count: int) -> None:
        """Hear of a step of a single stream; called in the thread that called run()."""

    def step_ended(self, step: StepResult) -> None:
        """Hear of a step that ended, from whichever thread ran it."""

    def measuring_ended(self) -> None:
        """Hear that the last step has ended; called from the thread that called run()."""


def run(
    conninfo: str,
    parameters: WarehouseParameters,
    observer: RunObserver | None = None,
    *,
    cpu_s: CpuSeconds | None = None,
) -> WarehouseResult:
    """Run what the parameters ask for, and return the result.

    CPU_S returns the server's processor seconds; without it, work is not reported.
    """
    observer = observer or RunObserver()
    with psycopg.connect(conninfo, autocommit=True) as connection:
        _require_load(connection, parameters)
    started_at = datetime.now(tz=UTC).isoformat(timespec="seconds")
    steps: list[StepResult] = []
    clock = _Clock()

    def keep(step: StepResult) -> None:
        steps.append(step)
        observer.step_ended(step)

    if parameters.clients == 1:
        with ExitStack() as stack:
            watching = stack.enter_context(psycopg.connect(conninfo, autocommit=True))
            session = stack.enter_context(open_session(conninfo, parameters))
            meter = UsageMeter(watching, cpu_s)
            clock.start()
            for step in _stream_alone(session, parameters, clock, meter, observer):
                keep(step)
    else:
        _run_streams(conninfo, parameters, clock, keep)
    elapsed_s = clock.now_s()
    observer.measuring_ended()
    return WarehouseResult(
        parameters=parameters,
        started_at=started_at,
        elapsed_s=elapsed_s,
        steps=tuple(sorted(steps, key=lambda step: step.started_s)),
    )


def open_session(conninfo: str, parameters: WarehouseParameters) -> Connection:
    """Connect, and apply the parameters' settings."""
    connection = psycopg.connect(
        conninfo, autocommit=True, application_name="pgflash warehouse run"
    )
    settings = {
        "max_parallel_workers_per_gather": str(parameters.degree - 1),
        "min_parallel_table_scan_size": "1MB",
        "statement_timeout": f"{parameters.query_timeout_s}s",
    }
    for name, value in settings.items():
        connection.execute("select set_config(%s, %s, false)", (name, value))
    return connection


def query_text(parameters: WarehouseParameters, query: int, stream: int) -> str:
    """Return a stream's text of a query; stream 0 uses the validation values."""
    if stream == 0:
        values = validation_values(query, scale_factor=parameters.scale_factor)
    else:
        random = Random(f"{parameters.seed} {stream} {query}")
        values = draw_values(query, scale_factor=parameters.scale_factor, random=random)
    return fill_in(read_query(query), values)


class _Clock:
    """Seconds since the first step began."""

    def __init__(self) -> None:
        self._began_s = 0.0

    def start(self) -> None:
        self._began_s = time.monotonic()

    def now_s(self) -> float:
        return time.monotonic() - self._began_s


def _require_load(connection: Connection, parameters: WarehouseParameters) -> None:
    """Refuse a database whose contents differ from the parameters."""
    row = connection.execute("select to_regclass('warehouse.load')").fetchone()
    if row is None or row[0] is None:
        raise DriverError("there is no warehouse in this database", hint="Load one first.")
    row = connection.execute("select scale_factor from warehouse.load").fetchone()
    if row is None or float(row[0]) != parameters.scale_factor:
        raise DriverError(
            f"the database was loaded with scale factor {row[0] if row else 'none'}, "
            f"not {parameters.scale_factor:g}",
            hint="Run with the scale factor that was loaded, or load again.",
        )


def _stream_alone(
    session: Connection,
    parameters: WarehouseParameters,
    clock: _Clock,
    meter: UsageMeter,
    observer: RunObserver,
) -> Iterator[StepResult]:
    """Run RF1, the queries and RF2, and measure each one's use of the server."""
    names = [f"Q{query}" for query in parameters.order(0)]
    if parameters.refresh:
        names = ["RF1", *names, "RF2"]
    for number, name in enumerate(names, start=1):
        observer.step_began(name, number, len(names))
        meter.begin()
        step = _run_step(session, parameters, name, stream=0, clock=clock)
        session.execute("select pg_stat_force_next_flush()")
        use = meter.end()
        yield StepResult(
            name=step.name,
            stream=step.stream,
            started_s=step.started_s,
            elapsed_s=step.elapsed_s,
            rows=step.rows,
            digest=step.digest,
            use=use,
        )


def _run_step(
    session: Connection, parameters: WarehouseParameters, name: str, *, stream: int, clock: _Clock
) -> StepResult:
    """Run one query or refresh function."""
    refresh = not is_query(name)
    if refresh:
        # Stream k uses set k; a single stream uses the first one.
        text = fill_in(read_sql(f"{name.lower()}.sql"), {"set": max(stream, 1)})
    else:
        text = query_text(parameters, int(name[1:]), stream)
    started_s = clock.now_s()
    try:
        rows, fetched = _change(session, text) if refresh else _fetch(session, text)
    except psycopg.errors.QueryCanceled as error:
        raise DriverError(
            f"{name} was cancelled after {duration(clock.now_s() - started_s)}: {error}",
            hint=f"Its limit is {parameters.query_timeout_s} s (query_timeout_s).",
        ) from error
    except psycopg.errors.UniqueViolation as error:
        raise DriverError(
            f"the rows of {name} have been inserted before",
            hint="A set of refreshes can be used once: load the database again.",
        ) from error
    except psycopg.Error as error:
        raise DriverError(f"{name} failed: {str(error).strip()}") from error
    elapsed_s = clock.now_s() - started_s
    if (
        not refresh
        and _is_answered(parameters)
        and not read_answers()[int(name[1:])].agrees(fetched)
    ):
        raise DriverError(
            f"{name} did not give the specification's answer",
            hint="A wrong answer must never happen: keep the server's files and report this.",
        )
    return StepResult(
        name=name,
        stream=stream,
        started_s=started_s,
        elapsed_s=elapsed_s,
        rows=rows,
        digest="" if refresh else digest_rows(fetched),
    )


def _is_answered(parameters: WarehouseParameters) -> bool:
    """Tell whether the right answers are known: for a loaded database that nothing changes."""
    alone = parameters.clients == 1 and not parameters.refresh
    return alone and parameters.scale_factor == ANSWERS_SCALE_FACTOR


def _fetch(session: Connection, text: str) -> tuple[int, list[tuple[Any, ...]]]:
    """Run a query; return its rows."""
    rows = session.execute(text.encode()).fetchall()
    return len(rows), rows


def _change(session: Connection, text: str) -> tuple[int, list[tuple[Any, ...]]]:
    """Run the statements of a refresh function in one transaction; return rows changed."""
    changed = 0
    with session.transaction():
        for statement in text.split(";\n"):
            if statement.strip():
                changed += session.execute(statement.encode()).rowcount
    return changed, []


def _run_streams(
    conninfo: str,
    parameters: WarehouseParameters,
    clock: _Clock,
    keep: Callable[[StepResult], None],
) -> None:
    """Run several streams at once, and the refresh functions beside them."""
    errors: list[BaseException] = []

    def work(session: Connection, todo: list[tuple[str, int]]) -> None:
        try:
            for name, stream in todo:
                if errors:
                    return
                keep(_run_step(session, parameters, name, stream=stream, clock=clock))
        except BaseException as error:  # raised again by the thread that waits
            errors.append(error)

    numbers = range(1, parameters.clients + 1)
    lists = [[(f"Q{query}", stream) for query in parameters.order(stream)] for stream in numbers]
    if parameters.refresh:
        lists.append([(name, stream) for stream in numbers for name in ("RF1", "RF2")])
    with ExitStack() as stack:
        sessions = [stack.enter_context(open_session(conninfo, parameters)) for _ in lists]
        threads = [
            threading.Thread(target=work, args=(session, todo), daemon=True)
            for session, todo in zip(sessions, lists, strict=True)
        ]
        with _cancelled_at_the_end(sessions, threads):
            clock.start()
            for thread in threads:
                thread.start()
            while not errors and any(thread.is_alive() for thread in threads):
                time.sleep(0.02)
    if errors:
        raise errors[0]


@contextmanager
def _cancelled_at_the_end(
    sessions: list[Connection], threads: list[threading.Thread]
) -> Iterator[None]:
    """At the end of the block, cancel what is still running and wait for its threads."""
    try:
        yield
    finally:
        deadline = time.monotonic() + _CANCEL_WAIT_S
        while any(one.is_alive() for one in threads) and time.monotonic() < deadline:
            for session in sessions:
                session.cancel_safe()
            for thread in threads:
                if thread.is_alive():
                    thread.join(0.2)
