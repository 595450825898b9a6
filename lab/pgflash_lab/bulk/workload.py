# SPDX-License-Identifier: PostgreSQL
"""The load workload as the lab sees it.

A transaction is a batch of the write phase or a scan of the read phase.  The write phase is done
when its last batch is acknowledged: duration_s says when, and steps are its tenths.  What the
archiver still has to do then is a fact, but not part of the duration.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psycopg

from pgflash.progress import Listener
from pgflash_lab.bulk import archive as copies
from pgflash_lab.bulk.consistency import check
from pgflash_lab.bulk.driver import Block, make_blocks, run
from pgflash_lab.bulk.loader import load
from pgflash_lab.bulk.model import Batch, BulkParameters, BulkResult, Phase
from pgflash_lab.model.run import Approach, Latency, Second, Step
from pgflash_lab.oltp.measure import summarize
from pgflash_lab.postgres import PgInstall
from pgflash_lab.warehouse.data import find_program
from pgflash_lab.workload import Context, Figures, MeasureError, Observer, sources_key

#: Loading, to estimate the remaining time: a constant part and one for each megabyte.
_LOAD_S = 4.0
_LOAD_MB_S = 0.05
#: A slow device's rate if everything is on it, to estimate the remaining time.
_WRITE_MB_S = 5.0
#: The hot table with its indexes.
_INDEXED = 1.2
#: When the papers' response time and generator load are measured, and over which part.
AT_SHARE = 0.4
AROUND = 0.1
_STEPS = 10
#: How long the archiver may take once the load is over.
_ARCHIVED_WAIT_S = 120.0


class BulkWorkload:
    """A bulk load whose WAL is archived, and scans of the loaded data."""

    name = "load"
    parameters = BulkParameters

    def __init__(self) -> None:
        """Begin without rows: prepare() makes them for the load that follows it."""
        self._blocks: tuple[Block, ...] = ()

    def key(self, parameters: BulkParameters) -> str:
        """Return what determines the database: its size and loader."""
        loader = sources_key("pgflash_lab.bulk", ("loader.py", "model.py", "sql"))
        return f"{parameters.base_mb}mb-{loader}"

    def require(self, install: PgInstall, parameters: BulkParameters) -> None:
        """Refuse if the program that makes the rows is missing."""
        find_program()

    def database_bytes(self, parameters: BulkParameters) -> int:
        """Return about how big the database gets, and the WAL with its copies."""
        loaded_mb = parameters.load_mb if parameters.phase is Phase.WRITE else 0
        return round((_INDEXED * parameters.base_mb + 6 * loaded_mb) * 2**20)

    def load_s(self, parameters: BulkParameters) -> float:
        """Return about how long loading takes."""
        return _LOAD_S + _LOAD_MB_S * parameters.base_mb

    def load(
        self, install: PgInstall, conninfo: str, parameters: BulkParameters, listener: Listener
    ) -> None:
        """Make the rows that exist before the load."""
        load(
            conninfo,
            parameters,
            lambda stage, _done: listener.stage(f"loading {stage}"),
        )

    def settings(
        self, parameters: BulkParameters, approach: Approach, *, archive: Path | None
    ) -> Mapping[str, str]:
        """Return how WAL is archived: twice."""
        if archive is None:
            return {}
        return {"archive_mode": "on", "archive_command": copies.archive_command(archive)}

    def ramp_up_s(self, parameters: BulkParameters) -> float:
        """Return nothing: a load is measured from its first row."""
        return 0.0

    def prepare_s(self, parameters: BulkParameters) -> float:
        """Return about how long it takes to make the rows, and a checkpoint."""
        return 1.0

    def expected_s(self, parameters: BulkParameters) -> float:
        """Return how long the phase takes if a slow device holds everything."""
        if parameters.phase is Phase.READ:
            return parameters.scan_s
        return parameters.load_mb / _WRITE_MB_S

    def prepare(self, context: Context[BulkParameters]) -> None:
        """Make the rows; begin with an empty archive, a new segment and nothing to write."""
        if context.parameters.phase is Phase.WRITE:
            self._blocks = make_blocks(context.parameters.seeded(context.repeat))
        with psycopg.connect(context.conninfo, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
            connection.execute("SELECT pg_switch_wal()")
            if context.archive is not None:
                _await_archived(connection)
                connection.execute("SELECT pg_stat_reset_shared('archiver')")

    def measure(self, context: Context[BulkParameters], observer: Observer) -> Figures:
        """Load or scan; then check that the archiver has done its part."""
        parameters = context.parameters.seeded(context.repeat)
        if context.archive is None:
            parameters = replace(parameters, unarchived_max=0)  # there is nothing to wait for
        blocks, self._blocks = self._blocks, ()
        figures = _figures(run(context.conninfo, parameters, blocks, observer))
        if context.archive is None or parameters.phase is Phase.READ:
            return figures
        figures.facts.update(_archived(context))
        return figures

    def check(self, conninfo: str, parameters: BulkParameters) -> tuple[str, ...]:
        """Check that each batch is there and whole."""
        return check(conninfo)


def _archived(context: Context[BulkParameters]) -> dict[str, float]:
    """Wait for the archiver and return its figures; raise if a copy failed or is missing."""
    assert context.archive is not None
    began_s = time.monotonic()
    with psycopg.connect(context.conninfo, autocommit=True) as connection:
        connection.execute("SELECT pg_switch_wal()")
        _await_archived(connection)
        row = connection.execute(
            "SELECT archived_count, failed_count FROM pg_stat_archiver"
        ).fetchone()
    assert row is not None
    missing = copies.missing_copies(context.archive)
    if row[1] or missing:
        raise MeasureError(
            f"{row[1]} copies of a segment failed, and {len(missing)} are missing",
            hint="The server's log says why; there may be no room.",
        )
    return {
        "archived_segments": float(row[0]),
        "archiver_behind_s": time.monotonic() - began_s,
    }


def _await_archived(connection: psycopg.Connection) -> None:
    """Wait until no segment is left to be archived."""
    deadline = time.monotonic() + _ARCHIVED_WAIT_S
    while True:
        row = connection.execute(
            "SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'"
        ).fetchone()
        if row is not None and row[0] == 0:
            return
        if time.monotonic() > deadline:
            raise MeasureError(
                "the archiver did not come to an end",
                hint="The server's log says what archive_command did.",
            )
        time.sleep(0.02)


def _figures(result: BulkResult) -> Figures:
    """Return the result in the lab's terms."""
    write = result.parameters.phase is Phase.WRITE
    everything = _latency(result.batches)
    return Figures(
        started_at=result.started_at,
        measured_s=result.elapsed_s,
        transactions=len(result.batches),
        transactions_all=len(result.batches),
        tpm=60 * len(result.batches) / result.elapsed_s,
        latency=everything,
        seconds=_seconds(result),
        driver_cpu_s=result.client_cpu_s,
        duration_s=result.elapsed_s if write else 0.0,
        steps=_steps(result) if write else (),
        facts={
            "rows": float(result.rows),
            "archiver_wait_s": result.waited_s,
            "response_at_40_percent_ms": _latency(_around(result, AT_SHARE)).mean_ms,
        },
    )


def _around(result: BulkResult, share: float) -> Sequence[Batch]:
    """Return the operations that ended around a share of the whole, at least one."""
    count = len(result.batches)
    first = int(max(0.0, share - AROUND) * count)
    return result.batches[first : max(first + 1, round((share + AROUND) * count))]


def _latency(batches: Sequence[Batch]) -> Latency:
    """Return operations' response times in the report's terms."""
    found = summarize("", [round(1e6 * batch.elapsed_s) for batch in batches])
    assert found is not None
    return found


def _seconds(result: BulkResult) -> tuple[Second, ...]:
    """Return what ended in each whole second."""
    seconds = []
    for at_s in range(int(result.elapsed_s)):
        ended = [batch for batch in result.batches if at_s <= batch.ended_s < at_s + 1]
        found = _latency(ended) if ended else None
        seconds.append(
            Second(
                at_s=at_s,
                transactions=len(ended),
                mean_ms=found.mean_ms if found else 0.0,
                p95_ms=found.p95_ms if found else 0.0,
            )
        )
    return tuple(seconds)


def _steps(result: BulkResult) -> tuple[Step, ...]:
    """Return the load's tenths, by batches."""
    steps, began_s, done = [], 0.0, 0
    for tenth in range(1, _STEPS + 1):
        upto = round(tenth * len(result.batches) / _STEPS)
        part = result.batches[done:upto]
        if not part:
            continue
        ended_s = part[-1].ended_s
        steps.append(
            Step(
                name=f"{100 * tenth // _STEPS} %",
                started_s=began_s,
                elapsed_s=ended_s - began_s,
                rows=sum(batch.rows for batch in part),
            )
        )
        began_s, done = ended_s, upto
    return tuple(steps)
