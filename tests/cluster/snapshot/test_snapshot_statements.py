# SPDX-License-Identifier: PostgreSQL
"""Where the blocks of statements came from, between two snapshots.

All on one server, whose data files are never in the page cache: each read is one from flash or from
disk, and few places are left for statements.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pgflash.analyze import make_period, make_report
from pgflash.model.snapshot import SnapshotStore
from pgflash.store import open_store
from pgflash_lab.postgres import PgInstall
from support.account import SETTINGS, one
from support.cached import CachedServer, create_cached, has_contrib
from support.cluster import ClusterFactory
from support.items import create_items, settle
from support.patience import eventually
from support.sections import number
from support.statements import less, read, wait_for_workers

pytestmark = pytest.mark.extension

SCAN = "select sum(length(pad)) from item"
#: At most so many statements have a place, which is what fits into seven sets.
PLACES = 112

Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def cached(pgflash_install: PgInstall) -> Iterator[CachedServer]:
    factory = ClusterFactory(pgflash_install)
    contrib = ", pg_stat_statements" if has_contrib(pgflash_install, "pg_stat_statements") else ""
    made = create_cached(
        factory,
        pgflash_install,
        settings={
            **SETTINGS,
            "shared_preload_libraries": f"pgflash{contrib}",
            "compute_query_id": "on",
            "pgflash.statements_max": "100",
            "pgflash.verify": "off",
        },
    )
    with made.server.connect() as connection:
        create_items(connection, 5_000)
        if contrib:
            connection.execute("create extension pg_stat_statements")
        settle(connection)
    yield made
    factory.close()


@pytest.fixture
def worker(cached: CachedServer) -> Iterator[Connection]:
    with cached.server.connect() as connection:
        connection.autocommit = True
        yield connection


@pytest.fixture
def observer(cached: CachedServer) -> Iterator[Connection]:
    with cached.server.connect() as connection:
        connection.autocommit = True
        yield connection


@pytest.fixture
def store(cached: CachedServer) -> Iterator[SnapshotStore]:
    with open_store(dsn=cached.server.conninfo()) as opened:
        yield opened


def take(connection: Connection) -> int:
    return int(one(connection, "select pgflash_snapshot()"))


def hits(connection: Connection) -> int:
    return int(one(connection, "select hits from pgflash_cache"))


def identifier(worker: Connection) -> int:
    """Return the identifier of the statement that a session has just executed."""
    return int(one(worker, "select queryid from pgflash_last_statement"))


def counted(connection: Connection) -> int:
    """Return how many statements were executed; this one is counted at its end."""
    return int(one(connection, "select sum(calls) from pgflash_statements where toplevel"))


def calls_of(store: SnapshotStore, snapshot_id: int) -> float:
    return number(store.sections(snapshot_id)["statement_reads"], "calls")


def test_what_a_statement_read_between_two_snapshots_is_what_was_read(
    worker: Connection, observer: Connection, store: SnapshotStore
) -> None:
    def served() -> bool:
        before = hits(observer)
        worker.execute(SCAN)
        return hits(observer) > before

    assert eventually(served)  # a scan fills the cache, and another one is served
    scan = identifier(worker)
    first = take(observer)
    read(observer)
    before = read(observer)
    for _ in range(3):
        worker.execute(SCAN)
    wait_for_workers(observer)
    reads = less(read(observer), before)
    second = take(observer)
    (row,) = [
        record
        for record in store.sections(second)["statement_reads"].records()
        if record["query_id"] == scan
    ]
    assert row["calls"] == 3
    assert reads["flash"]["bytes"] > 0
    for source in ("page cache", "flash", "disk"):
        name = source.replace(" ", "_")
        assert row[f"{name}_reads"] == reads[source]["calls"], source
        assert row[f"{name}_read_blocks"] == reads[source]["bytes"] / 8192, source
        assert row[f"{name}_read_time_ms"] == pytest.approx(reads[source]["ms"], abs=0.01), source

    table = make_report(make_period(store, first, second), rows_max=None).table("sql-flash")
    shown = dict(zip(table.values("query_id"), table.values("flash_read_blocks"), strict=True))
    assert shown[str(scan)] == row["flash_read_blocks"]
    texts = dict(zip(table.values("query_id"), table.values("query"), strict=True))
    found = one(observer, "select count(*) from pg_extension where extname = 'pg_stat_statements'")
    assert texts[str(scan)] == (SCAN if found else f"(text of {scan} not known)")


def test_statements_that_gave_up_their_places_are_counted_once(
    worker: Connection, observer: Connection, store: SnapshotStore
) -> None:
    before = counted(observer)
    take(observer)
    for round_ in range(2):
        for count in range(1, 2 * PLACES):
            worker.execute("select " + ", ".join([str(round_)] * count))
        now = counted(observer)
        assert calls_of(store, take(observer)) == now - before
        before = now
    named = "select count(*) from pgflash_statements where queryid is not null"
    assert one(observer, named) <= PLACES


def test_after_a_reset_what_was_counted_since_is_what_happened(
    worker: Connection, observer: Connection, store: SnapshotStore
) -> None:
    worker.execute(SCAN)
    scan = identifier(worker)
    take(observer)
    worker.execute("select pgflash_statements_reset()")
    worker.execute(SCAN)
    now = counted(observer)
    taken = take(observer)
    records = store.sections(taken)["statement_reads"].records()
    assert [record["calls"] for record in records if record["query_id"] == scan] == [1]
    # The question how many there were is one of them.
    assert calls_of(store, taken) == now + 1
