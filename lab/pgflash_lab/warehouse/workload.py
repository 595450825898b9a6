# SPDX-License-Identifier: PostgreSQL
"""The warehouse workload as the lab sees it.

A measurement ends when the queries have ended, so its result is a duration, and its steps are the
queries.  There is no warm-up: a scan of a table that is larger than the memory finds nothing from
the previous scan.

Answers are checked, too.  At scale factor 1 the driver accepts only those of the specification; at
any other, each step carries a mark of its answer, so that a page can tell whether all approaches
gave the same one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from pgflash.model.words import percent
from pgflash.progress import Listener
from pgflash_lab import host
from pgflash_lab.conditions import require_all
from pgflash_lab.model.run import Approach, Latency, Step
from pgflash_lab.oltp.measure import summarize
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from pgflash_lab.warehouse.consistency import check_consistency
from pgflash_lab.warehouse.data import find_program
from pgflash_lab.warehouse.driver import RunObserver, run
from pgflash_lab.warehouse.loader import load
from pgflash_lab.warehouse.model import (
    StepResult,
    Use,
    WarehouseParameters,
    WarehouseResult,
)
from pgflash_lab.workload import (
    Context,
    Figures,
    Observer,
    sources_key,
)

#: Loading, to estimate the remaining time: a constant part and one for each gigabyte of rows.
_LOAD_S = 6.0
_LOAD_GIGABYTE_S = 90.0
#: Tables and indexes, for each gigabyte of rows.
_GIGABYTE_BYTES = 1_650_000_000
#: A query's mean time for each gigabyte, on two processors, to estimate the remaining time.
_QUERY_S = 12.0
#: How many digits of an answer's digest mark it in a step.
_MARK_DIGITS = 12

#: Processes of the server other than those that work on queries.
_OTHER_WORKERS = 8


class WarehouseWorkload:
    """TPC-H-like queries, alone or in streams."""

    name = "warehouse"
    parameters = WarehouseParameters

    def key(self, parameters: WarehouseParameters) -> str:
        """Return what determines the database: scale factor and loader."""
        loader = sources_key("pgflash_lab.warehouse", ("data.py", "loader.py", "sql"))
        return f"sf{parameters.scale_factor:g}-{loader}"

    def require(self, install: PgInstall, parameters: WarehouseParameters) -> None:
        """Refuse if the program that makes the rows is missing."""
        find_program()

    def database_bytes(self, parameters: WarehouseParameters) -> int:
        """Return about how big the database gets."""
        return round(parameters.scale_factor * _GIGABYTE_BYTES)

    def load_s(self, parameters: WarehouseParameters) -> float:
        """Return about how long loading takes."""
        return _LOAD_S + _LOAD_GIGABYTE_S * parameters.scale_factor

    def load(
        self, install: PgInstall, conninfo: str, parameters: WarehouseParameters, listener: Listener
    ) -> None:
        """Make the tables."""
        load(
            conninfo,
            parameters,
            lambda stage, done: listener.stage(f"loading: {stage}, {percent(done)}"),
        )

    def settings(
        self, parameters: WarehouseParameters, approach: Approach, *, archive: Path | None
    ) -> Mapping[str, str]:
        """Return workers for every stream, and the planner's view of the device.

        An emulated device has no page cache beside it, so blocks that the server does not hold are
        read again.  Without this setting, the planner would look up row by row what a scan finds in
        a tenth of the time.
        """
        workers = parameters.clients * (parameters.degree - 1)
        cost = (
            parameters.flash_random_page_cost
            if approach.data == "flash"
            else parameters.array_random_page_cost
        )
        return {
            "max_parallel_workers": str(max(workers, 1)),
            "max_worker_processes": str(workers + _OTHER_WORKERS),
            "random_page_cost": f"{cost:g}",
            "effective_cache_size": parameters.shared_buffers,
            "work_mem": parameters.work_mem,
        }

    def ramp_up_s(self, parameters: WarehouseParameters) -> float:
        """Return nothing: the first query counts."""
        return 0.0

    def prepare_s(self, parameters: WarehouseParameters) -> float:
        """Return nothing: there is no warm-up."""
        return 0.0

    def expected_s(self, parameters: WarehouseParameters) -> float:
        """Return about how long the queries take."""
        queries = len(parameters.chosen) * parameters.clients
        return queries * _QUERY_S * parameters.scale_factor + 1.0

    def prepare(self, context: Context[WarehouseParameters]) -> None:
        """Do nothing: the server has just started, and its memory is empty."""

    def measure(self, context: Context[WarehouseParameters], observer: Observer) -> Figures:
        """Run the queries; several streams draw other values in each repeat."""
        result = run(
            context.conninfo,
            context.parameters.seeded(context.repeat),
            _Relay(context, observer),
            cpu_s=lambda: _server_cpu_s(context.server),
        )
        return figures(result)

    def check(self, conninfo: str, parameters: WarehouseParameters) -> tuple[str, ...]:
        """Check the specification's statements on the tables' contents."""
        return require_all(check_consistency(conninfo))


class _Relay(RunObserver):
    """Passes the driver's messages on to the lab."""

    def __init__(self, context: Context[WarehouseParameters], observer: Observer) -> None:
        self._context = context
        self._observer = observer

    def step_began(self, name: str, number: int, count: int) -> None:
        self._context.listener.stage(f"{name}, {number} of {count}")

    def measuring_ended(self) -> None:
        self._observer.measuring_ended()


def _server_cpu_s(server: Server) -> float:
    """Return the processor seconds of all the server's processes so far."""
    postmaster = server.postmaster_pid
    if postmaster is None:
        return 0.0  # it has ended: the next query reports that
    used = host.server_cpu(postmaster)
    return used.user_s + used.system_s


def figures(result: WarehouseResult) -> Figures:
    """Return the result in the lab's terms: a transaction is a query."""
    queries = [step for step in result.steps if step.is_query]
    count = len(queries)
    facts = _facts(result)
    return Figures(
        started_at=result.started_at,
        measured_s=result.elapsed_s,
        transactions=count,
        transactions_all=count,
        tpm=60 * count / result.elapsed_s,
        latency=_latency(queries),
        duration_s=result.elapsed_s,
        steps=tuple(_step(step, result.parameters) for step in result.steps),
        facts=facts,
    )


def _step(step: StepResult, parameters: WarehouseParameters) -> Step:
    """Return a step; with several streams, its name says which one.

    Its answer is marked unless other streams change the database meanwhile.
    """
    marked = step.digest and not (parameters.refresh and parameters.clients > 1)
    name = step.name if parameters.clients == 1 else f"{step.name} of stream {step.stream}"
    return Step(
        name=name,
        started_s=step.started_s,
        elapsed_s=step.elapsed_s,
        rows=step.rows,
        db_time_s=None if step.use is None else step.use.db_time_s,
        detail=f"answer {step.digest[:_MARK_DIGITS]}" if marked else "",
    )


def _facts(result: WarehouseResult) -> dict[str, float]:
    """Return figures without a field: the server's work for each step, and the sums.

    A fact's name is the step's, a dot, and the figure's: "Q18.temp_write_bytes".
    """
    facts: dict[str, float] = {"scale_factor": result.parameters.scale_factor}
    for name, value in (("power", result.power), ("throughput", result.throughput)):
        if value is not None:
            facts[name] = value
    for one in fields(Use):
        found = [
            (step.name, value)
            for step in result.steps
            if step.use is not None and (value := getattr(step.use, one.name)) is not None
        ]
        if found:
            facts |= {f"{name}.{one.name}": value for name, value in found}
            facts[one.name] = sum(value for _, value in found)
    return facts


def _latency(steps: Sequence[StepResult]) -> Latency:
    """Return the queries' times as response times; percentiles are nearest-rank."""
    found = summarize("", [round(1e6 * step.elapsed_s) for step in steps])
    assert found is not None  # no query, no result
    return found
