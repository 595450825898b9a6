# SPDX-License-Identifier: PostgreSQL
"""What sessions wait for when they wait for a lock: the table, the kind of lock, the mode."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

from pgflash.analyze import make_period
from pgflash.analyze.locks import locks, segments_row_locks
from pgflash.api import open_store, snapshot
from pgflash.model.awr import plain
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import eventually
from support.sampled import Row, rows, working

pytestmark = pytest.mark.extension

SETTINGS = {"pgflash.sample_rate": "50", "pgflash.snapshot_interval": "0"}


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    factory = ClusterFactory(pgflash_install)
    server = factory(preload="pgflash", settings=SETTINGS)
    rows(server, "create extension pgflash")
    rows(server, "create table item (id int primary key, n int)")
    rows(server, "insert into item values (1, 0), (2, 0)")
    yield server
    factory.close()


def waits(server: Server) -> list[Row]:
    return rows(
        server,
        "select relation_oid::regclass::text as relation, lock_type, lock_mode, samples, seconds"
        " from pgflash_lock_waits",
    )


def samples_of(server: Server, *what: str | None) -> int:
    """Return how often a session was seen waiting for this relation, kind and mode of lock."""
    return sum(
        row["samples"]
        for row in waits(server)
        if (row["relation"], row["lock_type"], row["lock_mode"]) == what
    )


@contextmanager
def holding(server: Server, statement: str) -> Iterator[psycopg.Connection]:
    """Hold a statement's locks until the end."""
    with server.connect(autocommit=False) as connection:
        connection.execute(statement)
        yield connection
        connection.rollback()


def seen_waiting(server: Server, holder: str, waiter: str, *what: str | None) -> None:
    """Make one session wait for another until a sample shows it; the wait is the named one."""
    before = samples_of(server, *what)
    with ExitStack() as stack:
        holding_ = stack.enter_context(holding(server, holder))
        stack.enter_context(working(server, waiter))
        assert eventually(lambda: samples_of(server, *what) > before + 2), waits(server)
        holding_.rollback()


def test_a_wait_for_a_table_names_it_and_its_mode(server: Server) -> None:
    seen_waiting(
        server,
        "lock table item in access exclusive mode",
        "select count(*) from item",
        *("item", "relation", "AccessShareLock"),
    )


def test_a_wait_for_a_row_names_its_table(server: Server) -> None:
    seen_waiting(
        server,
        "update item set n = n + 1 where id = 1",
        "update item set n = n + 1 where id = 1",
        *("item", "transactionid", "ShareLock"),
    )


def test_the_second_in_line_for_a_row_waits_for_its_turn(server: Server) -> None:
    change = "update item set n = n + 1 where id = 2"
    what = ("item", "tuple", "ExclusiveLock")
    with ExitStack() as stack:
        first = stack.enter_context(holding(server, change))
        for _ in range(2):
            stack.enter_context(working(server, change))
        assert eventually(lambda: samples_of(server, *what) > 0), waits(server)
        first.rollback()


def test_a_wait_for_a_key_that_another_inserts_is_of_no_known_relation(server: Server) -> None:
    insert = "insert into item values (99, 0) on conflict do nothing"
    seen_waiting(server, insert, insert, None, "transactionid", "ShareLock")


def test_a_wait_for_an_advisory_lock_is_of_no_relation(server: Server) -> None:
    seen_waiting(
        server,
        "select pg_advisory_xact_lock(7)",
        "select pg_advisory_xact_lock(7)",
        *(None, "advisory", "ExclusiveLock"),
    )


def test_seconds_are_what_the_looks_stand_for_and_the_rest_is_for_monitors(server: Server) -> None:
    # A sample represents the time since the previous one, which is also in the sampler's history.
    (seen,) = rows(
        server,
        "select count(*)::int as samples, sum(seconds) as seconds from pgflash_active_sessions"
        " where wait_event_type = 'Lock'",
    )
    found = waits(server)
    assert sum(row["samples"] for row in found) == seen["samples"] > 0
    assert sum(row["seconds"] for row in found) == pytest.approx(seen["seconds"])
    rows(server, "create role stranger")
    with server.connect() as connection:
        connection.execute("set role stranger")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select * from pgflash_lock_waits")


def test_a_report_names_what_was_waited_for_between_its_snapshots(server: Server) -> None:
    dsn = server.conninfo("postgres")
    rows(server, "create table ledger (id int primary key, n int)")
    rows(server, "insert into ledger values (1, 0)")
    snapshot(dsn=dsn)
    before = samples_of(server, "item", "transactionid", "ShareLock")
    change = "update ledger set n = n + 1 where id = 1"
    seen_waiting(server, change, change, "ledger", "transactionid", "ShareLock")
    snapshot(dsn=dsn)
    assert samples_of(server, "item", "transactionid", "ShareLock") == before
    with open_store(dsn=dsn) as store:
        heads = store.list()
        period = make_period(store, heads[-2].id, heads[-1].id)
    table = locks(period)
    first = dict(zip((c.name for c in table.columns), map(plain, table.rows[0].cells), strict=True))
    assert (first["relation"], first["database"]) == ("ledger", "postgres")
    assert (first["lock_type"], first["lock_mode"]) == ("transactionid", "ShareLock")
    assert "item" not in table.values("relation")
    assert segments_row_locks(period).values("relation")[0] == "ledger"
