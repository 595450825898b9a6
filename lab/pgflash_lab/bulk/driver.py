# SPDX-License-Identifier: PostgreSQL
"""Load batches, or scan, with several clients, and measure it.

Each client is a thread with a connection of its own; the threads spend their time in libpq, which
runs without Python's lock.  Rows are made before the clock starts (make_blocks()): a client only
sends them.  The load is over when the last batch is acknowledged.

Interrupting: whatever ends the run early cancels the clients' statements and waits for the threads;
their transactions roll back.
"""

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import psycopg

from pgflash.model.words import whole
from pgflash_lab.bulk.loader import LINE_COLUMNS, ORDER_COLUMNS
from pgflash_lab.bulk.model import BLOCKS, Batch, BulkError, BulkParameters, BulkResult, Phase
from pgflash_lab.warehouse.data import generate
from pgflash_lab.workload import Observer

_LINES = f"COPY load.lineitem ({LINE_COLUMNS}) FROM STDIN (FORMAT csv)".encode()
_ORDERS = f"COPY load.orders ({ORDER_COLUMNS}) FROM STDIN (FORMAT csv)".encode()
_SCAN = "SELECT count(*), sum(l_extendedprice) FROM load.lineitem"

#: Where the amounts are in the generator's rows.
_PRICE, _TOTAL = 5, 3

#: Interval between two looks at the clients' progress.
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The orders of a batch and their lines, ready to be sent, and their entry in the ledger."""

    lines: bytes
    orders: bytes
    line_rows: int
    order_rows: int
    line_amount: Decimal
    order_amount: Decimal

    @property
    def rows(self) -> int:
        """Return the rows of both tables."""
        return self.line_rows + self.order_rows


def make_blocks(parameters: BulkParameters, *, count: int = BLOCKS) -> tuple[Block, ...]:
    """Return blocks of rows, the same for the same seed."""
    scale_factor, part, parts = parameters.source(count * parameters.batch_orders)
    with tempfile.TemporaryDirectory(prefix="pgflash-load-") as folder:
        files = generate(
            Path(folder),
            scale_factor=scale_factor,
            part=part,
            parts=parts,
            tables=("orders", "lineitem"),
        )
        orders, lines = (
            file.read_bytes().splitlines(keepends=True)[1:]  # without the heading
            for file in (files["orders"], files["lineitem"])
        )
    lines_of: dict[bytes, list[bytes]] = {}
    for line in lines:
        lines_of.setdefault(line.partition(b",")[0], []).append(line)
    size = parameters.batch_orders
    return tuple(
        _block(orders[number * size : (number + 1) * size], lines_of) for number in range(count)
    )


def run(
    conninfo: str,
    parameters: BulkParameters,
    blocks: Sequence[Block],
    observer: Observer | None = None,
) -> BulkResult:
    """Load all batches, or scan for the given time, and return the result.

    BLOCKS are the rows to load, from make_blocks(); scans need none.
    """
    observer = observer or Observer()
    crew = _Crew(conninfo, parameters, blocks)
    with crew:
        started_at = datetime.now(tz=UTC).isoformat(timespec="seconds")
        observer.measuring_began()
        crew.work(observer)
    observer.measuring_ended()
    batches = tuple(sorted(crew.done, key=lambda batch: batch.ended_s))
    if not batches:
        raise BulkError("no operation ended during the run", hint="Run longer.")
    if parameters.phase is Phase.WRITE:
        _require_in_ledger(conninfo, [batch.number for batch in batches])
    return BulkResult(
        parameters=parameters,
        started_at=started_at,
        elapsed_s=batches[-1].ended_s,
        batches=batches,
        client_cpu_s=crew.cpu_s,
    )


def _block(orders: Sequence[bytes], lines_of: Mapping[bytes, Sequence[bytes]]) -> Block:
    """Make a batch of some orders."""
    lines = [line for order in orders for line in lines_of[order.partition(b",")[0]]]
    return Block(
        lines=b"".join(lines),
        orders=b"".join(orders),
        line_rows=len(lines),
        order_rows=len(orders),
        line_amount=_sum(lines, _PRICE),
        order_amount=_sum(orders, _TOTAL),
    )


def _sum(rows: Sequence[bytes], column: int) -> Decimal:
    return sum((Decimal(row.split(b",", column + 1)[column].decode()) for row in rows), Decimal())


class _Crew:
    """The clients of a run, their sessions, and their results."""

    def __init__(self, conninfo: str, parameters: BulkParameters, blocks: Sequence[Block]) -> None:
        self.done: list[Batch] = []
        self.cpu_s = 0.0
        self._conninfo = conninfo
        self._parameters = parameters
        self._blocks = blocks
        self._job: Callable[[psycopg.Connection, int], tuple[int, float]] = (
            self._load_batch if parameters.phase is Phase.WRITE else self._scan
        )
        self._lock = threading.Lock()
        self._next = 1
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._connections: list[psycopg.Connection] = []
        self._threads: list[threading.Thread] = []
        self._began = 0.0

    def __enter__(self) -> "_Crew":
        try:
            for _ in range(self._parameters.clients):
                self._connections.append(
                    psycopg.connect(
                        self._conninfo, autocommit=True, application_name="pgflash load"
                    )
                )
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        if any(thread.is_alive() for thread in self._threads):
            for connection in self._connections:
                # A server that has ended has nothing to cancel, and its clients end by themselves.
                with contextlib.suppress(psycopg.Error):
                    connection.cancel()
        for thread in self._threads:
            thread.join()
        self._close()

    def work(self, observer: Observer) -> None:
        """Let all clients work until nothing is left to do, or until an error."""
        self._began = time.monotonic()
        for connection in self._connections:
            thread = threading.Thread(target=self._client, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()
        told_s = 0
        while any(thread.is_alive() for thread in self._threads) and not self._errors:
            time.sleep(_LOOK_S)
            at_s = int(time.monotonic() - self._began)
            if at_s > told_s:
                told_s = at_s
                _tell(observer, at_s, self._since(at_s - 1.0))
        if self._errors:
            raise BulkError(f"a client of the load ended: {self._errors[0]}") from self._errors[0]

    def _since(self, at_s: float) -> list[Batch]:
        with self._lock:
            return [batch for batch in self.done if batch.ended_s >= at_s]

    def _client(self, connection: psycopg.Connection) -> None:
        """Do one operation after another."""
        cpu_s = time.thread_time()
        try:
            while (number := self._take()) is not None:
                began_s = time.monotonic() - self._began
                rows, waited_s = self._job(connection, number)
                batch = Batch(
                    number=number,
                    began_s=began_s,
                    ended_s=time.monotonic() - self._began,
                    rows=rows,
                    waited_s=waited_s,
                )
                with self._lock:
                    self.done.append(batch)
        except BaseException as error:  # raised again where the run waits
            if not self._stop.is_set():
                self._errors.append(error)
        finally:
            with self._lock:
                self.cpu_s += time.thread_time() - cpu_s

    def _take(self) -> int | None:
        """Return the next operation's number, or None if there is none."""
        with self._lock:
            number = self._next
            self._next += 1
        if self._stop.is_set():
            return None
        if self._parameters.phase is Phase.WRITE:
            return number if number <= self._parameters.batches else None
        over = time.monotonic() - self._began >= self._parameters.scan_s
        return None if over else number

    def _load_batch(self, connection: psycopg.Connection, number: int) -> tuple[int, float]:
        """Load one batch; return its rows, and how long it waited for the archiver."""
        block = self._blocks[number % len(self._blocks)]
        waited_s = self._await_archiver(connection)
        with connection.transaction():
            connection.execute("SELECT set_config('load.batch', %s, true)", (str(number),))
            for statement, rows in ((_LINES, block.lines), (_ORDERS, block.orders)):
                with connection.cursor() as cursor, cursor.copy(statement) as copy:
                    copy.write(rows)
            connection.execute(
                "INSERT INTO load.ledger VALUES (%s, %s, %s, %s, %s)",
                (
                    number,
                    block.line_rows,
                    block.line_amount,
                    block.order_rows,
                    block.order_amount,
                ),
            )
        return block.rows, waited_s

    def _await_archiver(self, connection: psycopg.Connection) -> float:
        """Wait until few enough segments wait for the archiver; return how long that took."""
        if self._parameters.unarchived_max == 0:
            return 0.0
        row = connection.execute(
            "SELECT load.await_archiver(%s)", (self._parameters.unarchived_max,)
        ).fetchone()
        assert row is not None
        return float(row[0])

    def _scan(self, connection: psycopg.Connection, _number: int) -> tuple[int, float]:
        """Scan the hot table; return its rows."""
        row = connection.execute(_SCAN).fetchone()
        assert row is not None
        return int(row[0]), 0.0

    def _close(self) -> None:
        for connection in self._connections:
            connection.close()


def _tell(observer: Observer, at_s: float, batches: Sequence[Batch]) -> None:
    """Tell the observer about a second that has passed."""
    mean_s = sum(batch.elapsed_s for batch in batches) / len(batches) if batches else 0.0
    observer.second(at_s, float(len(batches)), 1000 * mean_s)


def _require_in_ledger(conninfo: str, acknowledged: list[int]) -> None:
    """Raise if the database lacks an acknowledged batch or has one too many."""
    with psycopg.connect(conninfo, application_name="pgflash load") as connection:
        rows = connection.execute("SELECT batch FROM load.ledger WHERE batch > 0").fetchall()
    found = {int(row[0]) for row in rows}
    lost, unknown = set(acknowledged) - found, found - set(acknowledged)
    if lost or unknown:
        raise BulkError(
            f"{whole(len(lost))} acknowledged batches are not in the database, "
            f"and {whole(len(unknown))} are that were not acknowledged",
            hint="Keep the run's folder and report this.",
        )
