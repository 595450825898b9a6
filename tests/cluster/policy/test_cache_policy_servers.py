# SPDX-License-Identifier: PostgreSQL
"""keep, none and default on separate servers: what is kept there, and what policies outlive.

A restart, a crash, pg_upgrade, a standby, a server without the cache; see test_cache_policy.py
for all else.
"""

import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import CachedServer, create_cached, process_titles
from support.clock import Clock
from support.cluster import ClusterFactory
from support.patience import PATIENCE_S, eventually
from support.policies import (
    cached_blocks,
    comes_into_force,
    in_force,
    listed,
    make_table,
    prepare,
    push_out,
    read_scattered,
    set_policy,
    shown,
    waits_for_lock,
)
from support.standby import REPLICATION, create_standby

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def own(cluster: ClusterFactory, pgflash_install: PgInstall) -> CachedServer:
    """A separate server with two databases that have policies."""
    cached = create_cached(cluster, pgflash_install)
    with cached.server.connect() as connection:
        make_table(connection, "ballast")
        make_table(connection, "t")
        set_policy(connection, "t", "keep")
        connection.execute("create database second")
    with cached.server.connect("second") as connection:
        prepare(connection)
        make_table(connection, "t")
        set_policy(connection, "t_pkey", "none")
    return cached


def assert_own_policies(cached: CachedServer) -> None:
    with cached.server.connect() as connection:
        assert comes_into_force(connection, "t", "keep")
    with cached.server.connect("second") as connection:
        assert comes_into_force(connection, "t_pkey", "none", table="t")


def now(connection: Connection) -> datetime:
    """Return the time of the server's clock."""
    (time,) = connection.execute("select clock_timestamp()").fetchone() or (None,)
    assert isinstance(time, datetime)
    return time


@pytest.mark.extension
def test_policies_are_back_after_a_restart(own: CachedServer) -> None:
    own.server.stop()
    assert 'terminating background worker "pgflash policies"' not in own.server.log_text()
    own.start()
    assert_own_policies(own)
    own.server.kill_postmaster()
    own.start()
    assert_own_policies(own)


def test_policies_are_followed_though_the_launcher_was_ended(own: CachedServer) -> None:
    def launchers() -> list[int]:
        return [pid for pid, title in process_titles(own.server) if title == "pgflash policies"]

    assert eventually(lambda: len(launchers()) == 1)
    (first,) = launchers()
    os.kill(first, signal.SIGTERM)
    with own.server.connect() as connection:
        connection.execute("vacuum full t")
        assert comes_into_force(connection, "t", "keep")
    assert first not in launchers()


def test_an_index_built_again_before_the_first_visit_keeps_its_policy(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(cluster, pgflash_install, settings={"max_prepared_transactions": "1"})
    with cached.server.connect() as connection:
        make_table(connection, "ballast")
        make_table(connection, "t")
        set_policy(connection, "t_pkey", "keep")
        # A visitor waits for nobody: while this lock is held, it goes away again.
        connection.execute("begin; lock pgflash_cache_policies in share update exclusive mode")
        connection.execute("prepare transaction 'held'")
    cached.server.stop()
    cached.start()
    with (
        cached.server.connect() as reader,
        cached.server.connect() as other,
        cached.server.connect() as connection,
        ThreadPoolExecutor() as pool,
    ):
        with reader.transaction():
            reader.execute("select from t limit 1")
            built = pool.submit(connection.execute, "reindex index concurrently t_pkey")
            assert eventually(lambda: waits_for_lock(other, connection))
            other.execute("rollback prepared 'held'")
        built.result()
        assert comes_into_force(connection, "t_pkey", "keep", table="t")


def test_the_first_policy_counts_for_what_is_under_way(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(cluster, pgflash_install, settings={"log_min_messages": "debug1"})
    with cached.server.connect() as connection:
        make_table(connection, "ballast")
        make_table(connection, "q")
        connection.execute("create table p (like q) partition by range (id)")
    cached.server.stop()
    cached.start()
    none = "no database has a cache policy"
    # All have been visited, and will not be visited again for a minute.
    assert eventually(lambda: none in cached.server.log_text(since_start=True))
    with (
        cached.server.connect() as reader,
        cached.server.connect() as owner,
        cached.server.connect() as connection,
    ):
        with ThreadPoolExecutor() as pool:
            with reader.transaction():
                reader.execute("select from q limit 1")
                attached = pool.submit(
                    connection.execute,
                    "alter table p attach partition q for values from (1) to (2001)",
                )
                assert eventually(lambda: waits_for_lock(owner, connection))
                set_policy(owner, "p", "keep")
            attached.result()
        assert comes_into_force(connection, "q", "keep")


def test_policies_are_followed_though_the_clock_was_set_back(own: CachedServer) -> None:
    own.server.stop()
    clock = Clock.build(own.server.base)
    own.preloads, own.preload_env = (clock.library,), clock.env
    own.start()
    with own.server.connect() as connection:
        # Visited according to the clock as it was.
        connection.execute("vacuum full t")
        assert comes_into_force(connection, "t", "keep")
        before = now(connection)
        clock.set(ahead_s=-3600)
        assert now(connection) < before - timedelta(minutes=50)
        connection.execute("vacuum full t")
        assert comes_into_force(connection, "t", "keep")


@pytest.mark.extension
def test_policies_are_back_after_a_backend_crashed(own: CachedServer) -> None:
    with suppress(psycopg.OperationalError), own.server.connect() as connection:
        os.kill(connection.info.backend_pid, signal.SIGKILL)
    ready = "ready to accept connections"
    assert eventually(lambda: own.server.log_text(since_start=True).count(ready) == 2)
    assert_own_policies(own)


@pytest.mark.extension
def test_a_cache_that_is_off_stores_policies_for_later(own: CachedServer) -> None:
    own.server.stop()
    own.server.configure({"pgflash.cache_file": ""})
    own.start()
    with own.server.connect() as connection:
        set_policy(connection, "t", "none")
        set_policy(connection, "t_pkey", "keep")
        assert listed(connection) == {
            ("public.t", "none", "t"),
            ("public.t_pkey", "keep", "t_pkey"),
        }
    own.server.stop()
    own.server.configure({"pgflash.cache_file": str(own.cache_file)})
    own.start()
    with own.server.connect() as connection:
        assert comes_into_force(connection, "t", "none")
        assert comes_into_force(connection, "t_pkey", "keep", table="t")


def test_files_without_a_policy_are_logged_again_only_when_there_are_more(
    own: CachedServer,
) -> None:
    """Whatever other databases have, and however often this one is visited."""
    own.server.stop()
    own.server.configure({"pgflash.cache_file": "", "log_min_messages": "debug1"})
    own.start()
    with own.server.connect("second") as connection:
        connection.execute("create table p (id int) partition by list (id)")
        connection.execute(
            "do $$ begin for i in 1 .. 300 loop"
            " execute format('create table p%s partition of p for values in (%s)', i, i);"
            " end loop; end $$"
        )
        set_policy(connection, "p", "keep")
        row = connection.execute("select oid from pg_database where datname = 'second'").fetchone()
    assert row is not None
    own.server.stop()
    # The smallest table of policies has 256 places.
    own.server.configure({"pgflash.cache_file": str(own.cache_file), "pgflash.cache_size": "64MB"})
    own.start()

    def said() -> list[int]:
        """Return the numbers of files in the warnings."""
        found = re.findall(rf"(\d+) files of database {row[0]} have no", own.server.log_text())
        return [int(number) for number in found]

    def visits() -> int:
        words = 'starting background worker process "pgflash policies of database'
        return own.server.log_text().count(words)

    assert eventually(lambda: len(said()) == 1)

    def have_visited(database: str) -> None:
        before = visits()
        with own.server.connect(database) as connection:
            connection.execute("vacuum full t")
        assert eventually(lambda: visits() != before)

    for database in 3 * ("postgres", "second"):
        have_visited(database)
    assert said() == sorted(set(said()))


@pytest.mark.extension
def test_without_preloading_the_function_says_what_to_do(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install)
    with server.connect() as connection:
        connection.execute("create extension pgflash; create table t (a int)")
        with pytest.raises(psycopg.Error, match="shared_preload_libraries"):
            set_policy(connection, "t", "keep")
        assert listed(connection) == set()
        # A restore without the cache works all the same.
        connection.execute("insert into pgflash_cache_policies values ('public.t', 'keep')")
        connection.execute("insert into pgflash_cache_policies values ('public.later', 'none')")
        assert listed(connection) == {("public.t", "keep", "t"), ("public.later", "none", None)}


@pytest.mark.extension
def test_a_standby_has_the_policies_of_its_primary(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_cached(cluster, pgflash_install, settings=REPLICATION)
    with primary.server.connect() as connection:
        make_table(connection, "ballast")
        make_table(connection, "t")
        set_policy(connection, "t", "keep")
    standby = create_standby(cluster, primary.server)
    with standby.server.connect() as connection:
        assert comes_into_force(connection, "t", "keep")
        assert listed(connection) == {("public.t", "keep", "t")}
        with pytest.raises(psycopg.Error, match="read-only transaction"):
            set_policy(connection, "t", "none")
        connection.execute("select pg_promote()")
        set_policy(connection, "t", "none")
        assert shown(connection, "t") == "none"


def upgrade(cluster: ClusterFactory, old: Server, install: PgInstall) -> CachedServer:
    """Stop a server, and have pg_upgrade carry it to a new one, which is not started."""
    old.stop()
    upgraded = create_cached(cluster, install, start=False)
    work = make_server_dir(upgraded.server.base / "work")
    old.run(
        [
            *("pg_upgrade", "--username", "postgres", "--socketdir", str(work)),
            *("--old-bindir", str(old.install.bindir), "--old-datadir", str(old.data)),
            *("--new-bindir", str(install.bindir)),
            *("--new-datadir", str(upgraded.server.data)),
        ],
        cwd=work,
        timeout_s=PATIENCE_S,
    )
    return upgraded


@pytest.mark.parametrize("fault", ["", "UPGRADE_VISITS"])
def test_nothing_is_written_during_pg_upgrade(
    cluster: ClusterFactory,
    pgflash_install: PgInstall,
    broken_install: Callable[[str], PgInstall],
    fault: str,
) -> None:
    """pg_upgrade reads the next transaction ID before it starts the old server."""
    if not (pgflash_install.bindir / "pg_upgrade").exists():
        pytest.skip("this installation has no pg_upgrade")
    install = broken_install(fault) if fault else pgflash_install
    every = {"pgflash.snapshot_interval": "1s"}
    old = create_cached(cluster, install, settings=every).server
    old.stop()
    before = next_xid(old)
    upgrade(cluster, old, pgflash_install)
    assert (next_xid(old) == before) is not bool(fault)


def next_xid(server: Server) -> str:
    """Return the next transaction ID of a stopped server."""
    printed = server.run(["pg_controldata", str(server.data)])
    return next(line for line in printed.stdout.splitlines() if "NextXID" in line)


def test_pg_upgrade_carries_policies(
    cluster: ClusterFactory, own: CachedServer, pgflash_install: PgInstall
) -> None:
    if not (pgflash_install.bindir / "pg_upgrade").exists():
        pytest.skip("this installation has no pg_upgrade")
    with own.server.connect("second") as connection:
        set_policy(connection, "t", "keep")
        before = listed(connection)
    upgraded = upgrade(cluster, own.server, pgflash_install)
    upgraded.start()
    assert_own_policies(upgraded)
    with upgraded.server.connect("second") as connection:
        assert (
            listed(connection)
            == before
            == {
                ("public.t", "keep", "t"),
                ("public.t_pkey", "none", "t_pkey"),
            }
        )


def test_without_a_worker_to_be_had_the_log_says_so(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(cluster, pgflash_install)
    workers = {
        "pgflash",
        "pgflash writer",
        "pgflash policies",
        "pgflash snapshots",
        "logical replication launcher",
    }
    assert eventually(lambda: workers <= {title for _pid, title in process_titles(cached.server)})
    # As many as are always there: none is left for a visit.
    cached.server.stop()
    cached.server.configure({"max_worker_processes": str(len(workers))})
    cached.start()
    with cached.server.connect() as connection:
        make_table(connection, "ballast")
        make_table(connection, "t")
        set_policy(connection, "t", "keep")
        assert in_force(connection, "t") == "keep"
    assert eventually(
        lambda: "no background worker is free" in cached.server.log_text(since_start=True)
    )
    cached.assert_serving()


# ---- what is kept

#: About 500 blocks.
CROWD_ROWS = 4000


def test_what_is_kept_stays_when_others_come(pgflash_install: PgInstall) -> None:
    factory = ClusterFactory(pgflash_install)
    try:
        small = create_cached(
            factory,
            pgflash_install,
            settings={"pgflash.cache_size": "2MB", "pgflash.keep_share": "50"},
        )
        with small.server.connect() as connection:
            make_table(connection, "ballast")
            make_table(connection, "kept", rows=400)
            # Twice the cache: whatever is cached of it, the rest needs space.
            make_table(connection, "crowd", rows=CROWD_ROWS)
            set_policy(connection, "kept", "keep")
            # From now on nobody writes to it, not even hint bits: a block that leaves was evicted.
            connection.execute("vacuum freeze kept")
            connection.execute("checkpoint")

            def kept_enough() -> bool:
                read_scattered(connection, "kept", rows=400)
                push_out(connection)
                return cached_blocks(connection, "kept") >= 50

            assert eventually(kept_enough)
            kept_blocks = cached_blocks(connection, "kept")
            before = small.view()
            # With those of its TOAST index.
            assert before["keep_blocks"] >= kept_blocks

            def others_wanted_room() -> bool:
                read_scattered(connection, "crowd", rows=CROWD_ROWS)
                return wanted_room(small.view()) - wanted_room(before) > 200

            assert eventually(others_wanted_room)
            assert small.view()["keep_blocks"] == before["keep_blocks"]
            assert cached_blocks(connection, "kept") == kept_blocks

            # Without a share keep has no effect: they are evicted like any others that nobody
            # reads.
            small.server.configure({"pgflash.keep_share": "0"})
            small.server.reload()

            def gone() -> bool:
                read_scattered(connection, "crowd", rows=CROWD_ROWS)
                return cached_blocks(connection, "kept") < kept_blocks / 2

            assert eventually(gone)
        small.assert_serving()
    finally:
        factory.close()


def wanted_room(view: dict[str, Any]) -> int:
    """Return how many blocks came to full sets, whether another one was evicted for them or not."""
    return int(view["eviction_aged_out"]) + int(view["insert_skip_not_useful"])
