# SPDX-License-Identifier: PostgreSQL
"""A cache policy set while another command rebuilds, rewrites or detaches the relation.

Afterwards the policy that was set last is in force, whichever of the two came first. An open
transaction stops commands where the test wants them: REINDEX CONCURRENTLY waits for old snapshots
before it swaps the indexes, and after that for every holder of a lock on the table.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, LiteralString

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.ddl import REPACK_MAJOR
from support.patience import eventually
from support.policies import (
    Connection,
    comes_into_force,
    listed,
    make_table,
    prepare,
    push_out,
    set_policy,
    shown,
    stored,
)

#: Transactions that hold up a concurrent rebuild of t's indexes.
BEFORE_SWAP = ("begin isolation level repeatable read", "select from ballast limit 1")
AFTER_SWAP = ("begin", "select from t limit 1")


@pytest.fixture(scope="module")
def cached(pgflash_install: PgInstall) -> Iterator[CachedServer]:
    factory = ClusterFactory(pgflash_install)
    server = create_cached(factory, pgflash_install)
    with server.server.connect() as connection:
        connection.execute("drop extension pgflash")
        prepare(connection)
    yield server
    server.assert_serving()
    factory.close()


@pytest.fixture
def database(cached: CachedServer) -> Iterator[Connection]:
    """A table t with three indexes: t_pkey, t_by_v, t_by_pad."""
    with cached.server.connect() as connection:
        make_table(connection, "t")
        connection.execute("create index t_by_v on t (v); create index t_by_pad on t (pad)")
        yield connection
        connection.execute("drop table t")
        assert eventually(lambda: stored(connection) == set())


@contextmanager
def held_up(
    cached: CachedServer, command: LiteralString, *, by: tuple[LiteralString, ...]
) -> Iterator[tuple[Connection, Connection, Future[Any]]]:
    """Make a command wait for a transaction until the block ends: holder, waiter, its end.

    It is asserted here that it does not fail, unless it ends within the block.
    """
    with (
        cached.server.connect() as holder,
        cached.server.connect() as waiter,
        cached.server.connect() as asker,
        ThreadPoolExecutor() as pool,
    ):
        for statement in by:
            holder.execute(statement)
        ended = pool.submit(waiter.execute, command)
        try:
            assert eventually(lambda: blockers(asker, waiter) == [holder.info.backend_pid])
            yield holder, waiter, ended
        finally:
            ended_within = ended.done()
            holder.execute("commit")
        if not ended_within:
            ended.result()


def blockers(asker: Connection, waiter: Connection) -> list[int]:
    row = asker.execute("select pg_blocking_pids(%s)", [waiter.info.backend_pid]).fetchone()
    return list(row[0]) if row is not None else []


def waits_for_policies(asker: Connection, waiter: Connection) -> bool:
    query = (
        "select from pg_locks where pid = %s and not granted"
        " and relation = 'pgflash_cache_policies'::regclass"
    )
    return asker.execute(query, [waiter.info.backend_pid]).fetchone() is not None


def swapped(connection: Connection) -> bool:
    """Say whether t's indexes have been given to new ones already."""
    return connection.execute("select to_regclass('t_pkey_ccold')").fetchone() != (None,)


@pytest.mark.extension
@pytest.mark.parametrize("late", [False, True], ids=["before the swap", "after the swap"])
def test_a_policy_set_while_indexes_are_rebuilt_is_the_new_ones(
    cached: CachedServer, database: Connection, *, late: bool
) -> None:
    set_policy(database, "t_by_v", "keep")
    set_policy(database, "t_by_pad", "keep")
    by = AFTER_SWAP if late else BEFORE_SWAP
    with held_up(cached, "reindex table concurrently t", by=by):
        assert swapped(database) == late
        set_policy(database, "t_pkey", "keep")
        set_policy(database, "t_by_v", "none")
        set_policy(database, "t_by_pad", None)
    assert stored(database) == {("public.t_pkey", "keep"), ("public.t_by_v", "none")}
    assert comes_into_force(database, "t_pkey", "keep", table="t")


@pytest.mark.extension
def test_a_name_looked_up_before_the_swap_means_the_new_index(
    cached: CachedServer, database: Connection
) -> None:
    by: tuple[LiteralString, ...] = (*AFTER_SWAP, "select 't_pkey'::regclass")
    with held_up(cached, "reindex index concurrently t_pkey", by=by) as (holder, _waiter, _ended):
        assert swapped(database)
        set_policy(holder, "t_pkey", "keep")
    assert stored(database) == {("public.t_pkey", "keep")}


@pytest.mark.extension
def test_the_swap_waits_for_a_policy_that_is_not_committed(
    cached: CachedServer, database: Connection
) -> None:
    with (
        held_up(cached, "reindex table concurrently t", by=BEFORE_SWAP) as (holder, waiter, ended),
        ThreadPoolExecutor() as pool,
        cached.server.connect() as owner,
        cached.server.connect() as other,
    ):
        owner.execute("begin")
        set_policy(owner, "t_pkey", "keep")
        owner.execute("show work_mem")  # which releases the snapshot
        holder.execute("commit")
        # It now waits for the owner's policy, and the next command waits for both.
        assert eventually(lambda: waits_for_policies(other, waiter))
        assert not swapped(database)
        later = pool.submit(set_policy, database, "t_by_v", "none")
        assert eventually(lambda: waits_for_policies(other, database))
        owner.execute("commit")
        later.result()
        ended.result()
    assert stored(database) == {("public.t_pkey", "keep"), ("public.t_by_v", "none")}


@pytest.mark.extension
def test_a_rebuild_cut_off_after_the_swap_has_given_the_policy(
    cached: CachedServer, database: Connection
) -> None:
    set_policy(database, "t_pkey", "keep")
    command: LiteralString = "reindex index concurrently t_pkey"
    with held_up(cached, command, by=AFTER_SWAP) as (_holder, waiter, ended):
        database.execute("select pg_cancel_backend(%s)", [waiter.info.backend_pid])
        assert isinstance(ended.exception(), psycopg.errors.QueryCanceled)
    assert swapped(database)
    assert stored(database) == {("public.t_pkey", "keep")}
    assert comes_into_force(database, "t_pkey", "keep", table="t")


@pytest.mark.extension
def test_a_command_that_fails_and_an_index_made_again_give_no_policy(database: Connection) -> None:
    set_policy(database, "t_pkey", "keep")
    set_policy(database, "t_by_v", "keep")
    database.execute(
        "do $$ begin"
        " begin alter table t alter id type bigint using 1 / 0;"
        " exception when division_by_zero then null; end;"
        " drop index t_by_v; create index t_by_v on t (v); end $$"
    )
    assert eventually(lambda: stored(database) == {("public.t_pkey", "keep")})


@pytest.mark.extension
@pytest.mark.parametrize(
    "command",
    ["vacuum full t", "cluster t using t_pkey", "repack t", "repack (concurrently) t"],
)
def test_a_policy_set_while_a_rewrite_waits_is_the_new_files(
    cached: CachedServer, database: Connection, command: LiteralString
) -> None:
    if "repack" in command and cached.server.install.major < REPACK_MAJOR:
        pytest.skip(f"REPACK came with PostgreSQL {REPACK_MAJOR}")
    with held_up(cached, command, by=AFTER_SWAP) as (holder, _waiter, _ended):
        set_policy(holder, "t", "keep")
        set_policy(holder, "t_pkey", "none")
    assert comes_into_force(database, "t", "keep")
    assert comes_into_force(database, "t_pkey", "none", table="t")


@pytest.mark.extension
def test_a_policy_set_while_a_partition_is_detached_is_of_what_it_was_set_on(
    cached: CachedServer, database: Connection
) -> None:
    database.execute(
        "create table p (like t) partition by range (id);"
        " create table p1 partition of p for values from (1) to (1001);"
        " create table p2 partition of p for values from (1001) to (2001);"
        " create table p3 partition of p for values from (2001) to (3001);"
        " insert into p select * from t; insert into p3 select id + 2000, v, pad from t limit 900"
    )
    set_policy(database, "p", "keep")
    for partition in ("p1", "p3"):
        with held_up(
            cached,
            f"alter table p detach partition {partition} concurrently",
            by=("begin", "select from p limit 1"),
        ):
            set_policy(database, "p3", "keep")
            set_policy(database, "p", "none")
    assert listed(database) == {
        ("public.p", "none", "p"),
        ("public.p2", "none", "p"),
        ("public.p3", "keep", "p3"),
    }
    for relation, policy in (("p1", "default"), ("p2", "none"), ("p3", "keep")):
        assert eventually(partial(shows, database, relation, policy))
    database.execute("drop table p, p1, p3")


def shows(connection: Connection, relation: LiteralString, policy: str) -> bool:
    """Read a table that has no index, and say whether its file has the policy."""
    push_out(connection)
    connection.execute(f"select count(pad) from {relation}")
    return shown(connection, relation) == policy
