# SPDX-License-Identifier: PostgreSQL
"""The micro and load workloads on a real server, and the checks that must find faults."""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgflash_lab.account import make_server_dir
from pgflash_lab.bulk import consistency as bulk_consistency
from pgflash_lab.bulk import driver as bulk_driver
from pgflash_lab.bulk import loader as bulk_loader
from pgflash_lab.bulk.archive import archive_command, missing_copies
from pgflash_lab.bulk.model import BulkError, BulkParameters, Phase
from pgflash_lab.leftovers import remove_tree
from pgflash_lab.micro import consistency as micro_consistency
from pgflash_lab.micro import driver as micro_driver
from pgflash_lab.micro import loader as micro_loader
from pgflash_lab.micro.model import MicroParameters, Pattern, Side
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from pgflash_lab.workload import InconsistentError, Observer
from support.cluster import FAST_SETTINGS
from support.patience import eventually
from support.workloads import parameters_of

MICRO = parameters_of(MicroParameters, table_mb=2, write_mb=1, seed=5)
LOAD = parameters_of(
    BulkParameters, base_mb=2, load_mb=12, batch_kb=256, clients=3, unarchived_max=1, seed=5
)


class Ended(Observer):
    """Counts what it hears."""

    def __init__(self) -> None:
        self.began = 0
        self.ended = 0

    def measuring_began(self) -> None:
        self.began += 1

    def measuring_ended(self) -> None:
        self.ended += 1


@pytest.fixture(scope="module")
def server(pg_install: PgInstall) -> Iterator[Server]:
    """Return a server that archives, with small segments."""
    if not (pg_install.bindir / "pgbench").exists():
        pytest.skip(f"PostgreSQL {pg_install.version} comes without pgbench here")
    folder = Path(tempfile.mkdtemp(prefix="pgflash-bulk-"))
    folder.chmod(0o755)
    make_server_dir(folder / "copies")
    settings = {
        **FAST_SETTINGS,
        "shared_buffers": "1MB",
        "archive_mode": "on",
        "archive_command": archive_command(folder / "copies"),
    }
    with Server.create(
        pg_install, folder / "server", settings=settings, initdb_args=["--wal-segsize=2"]
    ) as server:
        server.start()
        micro_loader.load(server.conninfo(), MICRO)
        bulk_loader.load(server.conninfo(), LOAD)
        yield server
        server.stop("immediate")  # or it would archive what the last test left
    remove_tree(folder)


def number(server: Server, query: str) -> int:
    with server.connect() as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


# ---- micro


def test_both_tables_are_alike_to_the_last_row(server: Server) -> None:
    columns = "number, amount - changes, note"
    differing = (
        f"SELECT count(*) FROM (SELECT {columns} FROM micro.on_array"
        f" EXCEPT SELECT {columns} FROM micro.on_flash) AS d"
    )
    assert number(server, "SELECT count(*) FROM micro.on_array") == MICRO.rows
    assert number(server, "SELECT count(*) FROM micro.on_flash") == MICRO.rows
    assert number(server, differing) == 0


@pytest.mark.parametrize("pattern", Pattern)
def test_each_pattern_works_on_both_tables_and_leaves_them_right(
    server: Server, tmp_path: Path, pattern: Pattern
) -> None:
    heard = Ended()
    result = micro_driver.run(
        server.install, server.conninfo(), replace(MICRO, pattern=pattern), tmp_path, heard
    )
    assert (heard.began, heard.ended) == (1, 1)
    counts = {side: latency.count for side in Side if (latency := result.latency(side))}
    assert set(counts) == set(Side)
    assert sum(counts.values()) == result.operations
    assert result.counts_agree
    assert (sum(result.in_database.values()) > 0) is (pattern is Pattern.RANDOM_WRITE)
    assert len(micro_consistency.check(server.conninfo())) == 8


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("amount = amount + 1", "amount = amount - 1"),
        ("note = 'stale'", "note = repeat(md5(number::text), 6)"),
        ("number = 0 - number", "number = 0 - number"),
    ],
)
def test_one_wrong_row_is_found(server: Server, wrong: str, right: str) -> None:
    with server.connect() as connection:
        connection.execute(
            f"UPDATE micro.on_flash SET {wrong} WHERE number = {MICRO.rows}".encode()
        )
        try:
            with pytest.raises(InconsistentError, match=r"micro\.on_flash"):
                micro_consistency.check(server.conninfo())
        finally:
            connection.execute(
                f"UPDATE micro.on_flash SET {right} WHERE abs(number) = {MICRO.rows}".encode()
            )
    micro_consistency.check(server.conninfo())


@contextmanager
def unindexed(server: Server, index: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield a session whose new rows are missing from an index."""
    ready = f"UPDATE pg_index SET indisready = %s WHERE indexrelid = '{index}'::regclass"
    with server.connect() as connection:
        connection.execute(ready.encode(), [False])
        try:
            yield connection
        finally:
            connection.execute(ready.encode(), [True])


def test_a_row_that_an_index_has_lost_is_found(server: Server) -> None:
    row = MICRO.rows + 1
    with unindexed(server, "micro.on_flash_pkey") as connection:
        connection.execute(
            "INSERT INTO micro.on_flash VALUES (%s, 0, %s, repeat(md5(%s::text), 6))",
            [row, row, row],
        )
    try:
        with pytest.raises(InconsistentError, match=r"micro\.on_flash: the index"):
            micro_consistency.check(server.conninfo())
    finally:
        with server.connect() as connection:
            connection.execute("SET enable_indexscan = off")
            connection.execute("SET enable_bitmapscan = off")
            connection.execute("DELETE FROM micro.on_flash WHERE number = %s", [row])
    micro_consistency.check(server.conninfo())


# ---- load

#: The first line of an order, once more, as of a batch of its own.
ONE_MORE_LINE = """
INSERT INTO load.lineitem
SELECT (jsonb_populate_record(line, '{"batch": -1}')).*
  FROM load.lineitem AS line WHERE batch = 0 AND l_linenumber = 1 LIMIT 1
"""


def test_a_line_that_an_index_has_lost_is_found(server: Server) -> None:
    with unindexed(server, "load.lineitem_part") as connection:
        connection.execute(ONE_MORE_LINE)
        connection.execute(
            "INSERT INTO load.ledger SELECT -1, 1, l_extendedprice, 0, 0 FROM load.lineitem"
            " WHERE batch = -1"
        )
    try:
        with pytest.raises(InconsistentError, match="the index by l_partkey"):
            bulk_consistency.check(server.conninfo())
    finally:
        with server.connect() as connection:
            connection.execute("DELETE FROM load.lineitem WHERE batch = -1")
            connection.execute("DELETE FROM load.ledger WHERE batch = -1")
    bulk_consistency.check(server.conninfo())


def test_a_load_brings_every_batch_and_archives_it_twice(server: Server) -> None:
    heard = Ended()
    before = number(server, "SELECT max(batch) FROM load.ledger")
    assert before == 0
    result = bulk_driver.run(server.conninfo(), LOAD, bulk_driver.make_blocks(LOAD), heard)
    assert (heard.began, heard.ended) == (1, 1)
    assert sorted(batch.number for batch in result.batches) == list(range(1, LOAD.batches + 1))
    loaded = (
        "SELECT (SELECT count(*) FROM load.lineitem WHERE batch > 0) + count(*) FROM load.orders"
    )
    assert number(server, loaded) == result.rows
    orders = LOAD.batches * LOAD.batch_orders
    assert number(server, "SELECT count(*) FROM load.orders") == orders
    assert len(bulk_consistency.check(server.conninfo())) == 6
    # The tables have grown by what was asked for, and the base was as large as it should be.
    # Where several sessions wait to extend a table, PostgreSQL adds blocks that stay empty.
    lines = number(server, "SELECT pg_relation_size('load.lineitem')")
    grown = lines + number(server, "SELECT pg_relation_size('load.orders')")
    asked = (LOAD.base_mb + LOAD.load_mb) * 2**20
    assert 0.9 * asked < grown < 1.3 * asked
    assert number(server, "SELECT load.await_archiver(0) * 0") == 0
    assert number(server, "SELECT failed_count FROM pg_stat_archiver") == 0
    assert missing_copies(server.base.parent / "copies") == set()


def test_no_batch_begins_while_the_archiver_is_behind(server: Server) -> None:
    """The archiver stands still: the load must wait for it, and continues after it."""
    with server.connect() as connection:
        connection.execute("DELETE FROM load.lineitem WHERE batch > 0")
        connection.execute("TRUNCATE load.orders")
        connection.execute("DELETE FROM load.ledger WHERE batch > 0")
        connection.execute("SELECT load.await_archiver(0)")
    sound = server.settings["archive_command"]
    server.configure({"archive_command": "false"})
    server.reload()
    blocks = bulk_driver.make_blocks(LOAD)
    done = threading.Thread(target=bulk_driver.run, args=(server.conninfo(), LOAD, blocks))
    done.start()
    try:
        waiting = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE query LIKE '%await_archiver%' AND wait_event = 'PgSleep'"
        )
        assert eventually(lambda: number(server, waiting) >= LOAD.clients), (
            "the clients do not wait for the archiver"
        )
        # Each client may have been in a batch when the limit was reached.
        batches = number(server, "SELECT count(*) FROM load.ledger WHERE batch > 0")
        assert batches < LOAD.batches
        assert done.is_alive()
    finally:
        server.configure({"archive_command": sound})
        server.reload()
        done.join()
    assert number(server, "SELECT max(batch) FROM load.ledger") == LOAD.batches


def test_scans_end_when_their_time_is_over_and_change_nothing(server: Server) -> None:
    scans = replace(LOAD, phase=Phase.READ, clients=2, scan_s=1)
    rows = number(server, "SELECT count(*) FROM load.lineitem")
    result = bulk_driver.run(server.conninfo(), scans, ())
    assert {batch.rows for batch in result.batches} == {rows}
    assert result.elapsed_s >= 1.0
    assert bulk_consistency.check(server.conninfo())


@pytest.mark.parametrize(
    ("break_it", "mend_it", "says"),
    [
        (
            "UPDATE load.lineitem SET l_extendedprice = l_extendedprice + 0.01"
            " WHERE ctid = (SELECT max(ctid) FROM load.lineitem)",
            "UPDATE load.lineitem SET l_extendedprice = l_extendedprice - 0.01"
            " WHERE ctid = (SELECT max(ctid) FROM load.lineitem)",
            "each batch has its lines",
        ),
        (
            "UPDATE load.orders SET batch = -1 WHERE ctid ="
            " (SELECT min(ctid) FROM load.orders WHERE batch = 1)",
            "UPDATE load.orders SET batch = 1 WHERE batch = -1",
            "each batch has its orders",
        ),
        (
            "UPDATE load.lineitem SET l_linenumber = 9 WHERE batch = 1 AND l_linenumber = 1",
            "UPDATE load.lineitem SET l_linenumber = 1 WHERE batch = 1 AND l_linenumber = 9",
            "the lines of an order are numbered",
        ),
        (
            "UPDATE load.orders SET o_orderkey = -o_orderkey WHERE batch = 1",
            "UPDATE load.orders SET o_orderkey = -o_orderkey WHERE batch = 1",
            "each line that was loaded has its order",
        ),
        (
            "INSERT INTO load.ledger VALUES (-1, 1, 1, 0, 0)",
            "DELETE FROM load.ledger WHERE batch = -1",
            "each batch has its lines",
        ),
    ],
)
def test_a_batch_that_is_not_whole_is_found(
    server: Server, break_it: str, mend_it: str, says: str
) -> None:
    with server.connect() as connection:
        connection.execute(break_it.encode())
        try:
            with pytest.raises(InconsistentError, match=says):
                bulk_consistency.check(server.conninfo())
        finally:
            connection.execute(mend_it.encode())
    bulk_consistency.check(server.conninfo())


def test_an_acknowledged_batch_that_is_lost_fails_the_run(server: Server) -> None:
    """The server forgets one batch of the ledger while it is loaded."""
    few = replace(LOAD, load_mb=1, clients=4, unarchived_max=0)
    with server.connect() as connection:
        connection.execute("DELETE FROM load.lineitem WHERE batch > 0")
        connection.execute("TRUNCATE load.orders")
        connection.execute("DELETE FROM load.ledger WHERE batch > 0")
        connection.execute(
            "CREATE FUNCTION load.lose() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RETURN CASE WHEN new.batch = 2 THEN NULL ELSE new END; END $$"
        )
        connection.execute(
            "CREATE TRIGGER lose BEFORE INSERT ON load.ledger FOR EACH ROW"
            " EXECUTE FUNCTION load.lose()"
        )
        try:
            with pytest.raises(BulkError, match="1 acknowledged batches are not in the database"):
                bulk_driver.run(server.conninfo(), few, bulk_driver.make_blocks(few))
            with pytest.raises(InconsistentError, match="each batch has its lines"):
                bulk_consistency.check(server.conninfo())
        finally:
            connection.execute("DROP TRIGGER lose ON load.ledger")


def test_a_client_that_fails_ends_the_others(server: Server) -> None:
    """A row of the ledger is there already: its batch fails, and the run with it."""
    many = replace(LOAD, load_mb=8, batch_kb=16, clients=4, unarchived_max=0)
    with server.connect() as connection:
        connection.execute("INSERT INTO load.ledger VALUES (100, 0, 0, 0, 0)")
    with pytest.raises(BulkError, match="duplicate key"):
        bulk_driver.run(server.conninfo(), many, bulk_driver.make_blocks(many))
    wait_until_no_client_is_left(server)


def wait_until_no_client_is_left(server: Server) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgflash load'"
    assert eventually(lambda: not number(server, query)), "sessions of the run are left"


class Interrupting(Observer):
    """Presses Ctrl-C in the first second."""

    def second(self, at_s: float, tps: float, latency_ms: float | None) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("phase", Phase)
def test_an_interrupt_ends_every_client_in_what_it_does(server: Server, phase: Phase) -> None:
    endless = replace(LOAD, phase=phase, load_mb=4096, clients=2, scan_s=3600)
    with server.connect() as connection:
        connection.execute("DELETE FROM load.lineitem WHERE batch > 0")
        connection.execute("TRUNCATE load.orders")
        connection.execute("DELETE FROM load.ledger WHERE batch > 0")
    blocks = bulk_driver.make_blocks(endless)
    with pytest.raises(KeyboardInterrupt):
        bulk_driver.run(server.conninfo(), endless, blocks, Interrupting())
    wait_until_no_client_is_left(server)
    # What was acknowledged is whole, and what was under way is gone.
    bulk_consistency.check(server.conninfo())
