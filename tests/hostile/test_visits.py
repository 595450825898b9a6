# SPDX-License-Identifier: PostgreSQL
"""Databases that hold up pgflash's visitors, and the others that would suffer from it.

Policies and snapshots are read by processes that go into one database for a moment.  The owner of a
database decides how long such a moment is: he can lock its catalogs, or set how its transactions
begin.  No other database may be affected, and he must still be able to drop, copy and rename his
own, even during a visit.

A visitor that is stopped stands for one that hangs where no signal reaches it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.patience import PATIENCE_S, eventually, until
from support.policies import comes_into_force, in_force
from support.visitors import (
    has_statistics,
    is_asked_to_leave,
    is_gone,
    locked,
    make_database,
    oid_of,
    resume,
    stopped_visitor,
)

Broken = Callable[[str], PgInstall]

#: A control gives up sooner: it waits for something that must not happen.
CONTROL_S = 40.0

#: Read from outside, and by a visitor while it connects or works.
CATALOGS = ("pg_class", "pg_extension", "pg_namespace", "pg_attribute")


def two_databases(cluster: ClusterFactory, install: PgInstall, **settings: str) -> CachedServer:
    """Return a server with two databases that have policies: held is the first."""
    cached = create_cached(
        cluster, install, settings={"max_prepared_transactions": "4", **settings}
    )
    make_database(cached.server, "held")
    make_database(cached.server, "free")
    return cached


def rewrites_are_followed(cached: CachedServer, database: str = "free", *, rounds: int = 3) -> None:
    """Rewrite a table again and again: its policy is to be that of each new file."""
    with cached.server.connect(database) as connection:
        for _ in range(rounds):
            connection.execute("vacuum full t")
            assert comes_into_force(connection, "t", "keep")


@pytest.mark.extension
@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_lock_in_one_database_delays_no_policy_of_another(
    cluster: ClusterFactory, pgflash_install: PgInstall, catalog: str
) -> None:
    """The owner of a database keeps a catalog locked, as VACUUM FULL of it does.

    He leaves the transaction open for as long as he likes, and calls for a visitor.  The kept
    table of another database gets its policy after each rewrite all the same.
    """
    cached = two_databases(cluster, pgflash_install)
    with cached.server.connect("held") as caller:
        caller.execute("begin; update t set v = 0 where id = 1; prepare transaction 'call'")
        with locked(cached.server, "held", catalog):
            caller.execute("commit prepared 'call'")
            rewrites_are_followed(cached)


@pytest.mark.extension
@pytest.mark.parametrize("catalog", ["pg_class", "pg_namespace"])
def test_a_prepared_lock_delays_no_policy_of_another_database_after_a_start(
    cluster: ClusterFactory, pgflash_install: PgInstall, catalog: str
) -> None:
    """The owner of a database prepares a transaction that has a catalog locked, and goes away.

    The lock outlives a restart, after which every database must be visited, and nobody can connect
    to his.  Those of others have their policies.
    """
    cached = two_databases(cluster, pgflash_install)
    with cached.server.connect("held") as holder:
        holder.execute(f"begin; lock {catalog}; prepare transaction 'held'")
    cached.server.stop()
    cached.start()
    rewrites_are_followed(cached)
    with cached.server.connect() as connection:
        assert connection.execute("select gid from pg_prepared_xacts").fetchall() == [("held",)]


@pytest.mark.extension
def test_settings_of_a_database_hold_no_visitor_up(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """The owner of a database has its transactions wait for a safe moment that never comes.

    By ALTER DATABASE they are serializable, read-only and deferrable, while a serializable
    transaction is open and writes; and nothing ends a wait for a lock.  Commits wait for a
    standby that does not exist.  Visitors follow settings of their own.
    """
    cached = two_databases(cluster, pgflash_install, synchronous_standby_names="")
    with cached.server.connect() as connection:
        for setting in (
            "default_transaction_isolation = 'serializable'",
            "default_transaction_read_only = on",
            "default_transaction_deferrable = on",
            "lock_timeout = 0",
            "synchronous_commit = on",
        ):
            connection.execute(f"alter database held set {setting}")
    with cached.server.connect("free", autocommit=False) as writer:
        writer.execute("set transaction isolation level serializable read write")
        writer.execute("update t set v = 0 where id = 1")
        cached.server.configure({"synchronous_standby_names": "nobody"})
        cached.server.reload()
        with cached.server.connect("held") as connection:
            connection.execute(
                "set default_transaction_isolation = 'read committed';"
                "set default_transaction_read_only = off; set default_transaction_deferrable = off;"
                "set synchronous_commit = local"
            )
            for _ in range(2):
                connection.execute("vacuum full t")
                assert comes_into_force(connection, "t", "keep")
        writer.rollback()


@pytest.mark.extension
@pytest.mark.parametrize("fault", ["", "VISIT_LOCKS"])
def test_a_visitor_gives_up_on_a_lock(
    cluster: ClusterFactory, broken_install: Broken, fault: str
) -> None:
    """The owner of a database locks a catalog that everybody reads on the way in.

    A visitor is gone before its launcher has to ask it to leave.
    """
    cached = two_databases(cluster, broken_install(fault))
    left = f"pgflash: a visit of database {oid_of(cached.server, 'held')} ended early"
    with cached.server.connect("held") as connection:
        connection.execute("truncate t")
    with locked(cached.server, "held", "pg_namespace"):
        until(lambda: left in cached.server.log_text())
        assert (f"{left}: canceling statement due to lock timeout" in cached.server.log_text()) is (
            fault == ""
        )


@pytest.mark.extension
@pytest.mark.parametrize("fault", ["", "VISIT_LATE"])
def test_a_visitor_that_hangs_delays_no_other_database(
    cluster: ClusterFactory, broken_install: Broken, fault: str
) -> None:
    """A visitor hangs in one database where no signal reaches it: on a dead disk, say.

    The others are visited all the same.
    """
    cached = two_databases(cluster, broken_install(fault))
    with stopped_visitor(cached.server, "held"), cached.server.connect("free") as connection:
        connection.execute("vacuum full t")
        assert (
            eventually(
                lambda: in_force(connection, "t") == "keep",
                seconds=CONTROL_S if fault else PATIENCE_S,
            )
        ) is (fault == "")


@pytest.mark.parametrize("fault", ["", "VISIT_LIMIT"])
def test_a_visitor_is_asked_to_leave_when_its_time_is_over(
    cluster: ClusterFactory, broken_install: Broken, fault: str
) -> None:
    """Whatever a visitor is held up by, there is an end: its launcher asks it to leave."""
    cached = two_databases(cluster, broken_install(fault))
    with stopped_visitor(cached.server, "held") as pid:
        assert eventually(
            lambda: is_asked_to_leave(pid), seconds=CONTROL_S if fault else PATIENCE_S
        ) is (fault == "")
        resume(pid)
        until(lambda: is_gone(pid))
    rewrites_are_followed(cached, "held", rounds=1)


#: Statements that wait for all others to leave, and give up after five seconds.
COMMANDS = (
    "drop database held",
    "create database copy template held",
    "alter database held rename to mine",
    "alter database held set tablespace place",
)


@pytest.mark.extension
@pytest.mark.parametrize(
    ("command", "fault"),
    [*((command, "") for command in COMMANDS), (COMMANDS[0], "VISIT_GIVES_WAY")],
)
def test_who_drops_or_copies_a_database_finds_no_visitor_in_the_way(
    cluster: ClusterFactory, broken_install: Broken, command: str, fault: str
) -> None:
    """The owner of a database drops it while a visitor hangs in it.

    PostgreSQL waits five seconds for others to leave, and fails then.  It asks a visitor to
    leave, as it asks autovacuum's workers, and that one leaves as soon as it can.
    """
    cached = two_databases(cluster, broken_install(fault))
    place = make_server_dir(cached.space / "place")
    with cached.server.connect() as owner, ThreadPoolExecutor() as pool:
        owner.execute(f"create tablespace place location '{place}'")
        with stopped_visitor(cached.server, "held") as pid:
            done = pool.submit(owner.execute, command)
            until(lambda: done.done() or is_asked_to_leave(pid))
            asked = is_asked_to_leave(pid)
            if asked:
                resume(pid)
            if fault:
                with pytest.raises(psycopg.errors.ObjectInUse, match="accessed by other users"):
                    done.result()
                assert not asked
                return
            assert asked
            until(lambda: is_gone(pid))
            try:
                done.result()
            except psycopg.errors.ObjectInUse:
                # A busy machine may have taken more than the five seconds to resume the visitor.
                owner.execute(command)
    rewrites_are_followed(cached, rounds=1)


@pytest.mark.extension
@pytest.mark.parametrize("fault", ["", "VISIT_OWNER"])
def test_an_owner_who_is_no_superuser_drops_his_database_by_force(
    cluster: ClusterFactory, broken_install: Broken, fault: str
) -> None:
    """The owner of a database drops it WITH (FORCE), which needs the right to end its sessions.

    He has that right for the processes of his own roles, and a visitor is one of them.
    """
    cached = two_databases(cluster, broken_install(fault))
    with cached.server.connect() as connection, ThreadPoolExecutor() as pool:
        connection.execute("create role tenant; alter database held owner to tenant")
        connection.execute("set role tenant")
        with stopped_visitor(cached.server, "held") as pid:
            done = pool.submit(connection.execute, "drop database held with (force)")
            until(lambda: done.done() or is_asked_to_leave(pid))
            resume(pid)
            if fault:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    done.result()
            else:
                done.result()


# ---- traces


def quiet_server(cluster: ClusterFactory, install: PgInstall) -> tuple[CachedServer, int, int]:
    """Return a server whose two databases nobody has used since its start, and their OIDs.

    One has the extension, the other has not.  All have been visited.
    """
    cached = create_cached(cluster, install, settings={"log_min_messages": "debug1"})
    with cached.server.connect() as connection:
        connection.execute("create database stranger")
        connection.execute("create database ours")
    with cached.server.connect("ours") as connection:
        connection.execute("create extension pgflash")
    stranger, ours = oid_of(cached.server, "stranger"), oid_of(cached.server, "ours")
    # Statistics do not outlive that.
    cached.server.stop("immediate")
    cached.start()
    none = "no database has a cache policy"
    until(lambda: none in cached.server.log_text(since_start=True))
    return cached, stranger, ours


def visited(cached: CachedServer, database: int) -> bool:
    """Say whether a visitor was sent into a database since the server's start."""
    log = cached.server.log_text(since_start=True)
    return f'background worker process "pgflash policies of database {database}"' in log


@pytest.mark.extension
@pytest.mark.parametrize("fault", ["", "VISIT_STRANGERS"])
def test_a_database_without_the_extension_is_not_entered(
    cluster: ClusterFactory, broken_install: Broken, fault: str
) -> None:
    """A database does not use pgflash: no process of ours ever connects to it."""
    cached, stranger, ours = quiet_server(cluster, broken_install(fault))
    assert visited(cached, ours)
    assert visited(cached, stranger) is (fault != "")


@pytest.mark.extension
@pytest.mark.parametrize("fault", ["", "VISIT_TRACE"])
def test_a_visit_leaves_no_trace_in_statistics(
    cluster: ClusterFactory, broken_install: Broken, fault: str
) -> None:
    """A database that nobody uses has no statistics, so autovacuum stays away from it.

    Nor do visits count in one that has the extension; but since PostgreSQL 18 every process that
    reads a block of it makes an entry, which is empty.
    """
    cached, stranger, ours = quiet_server(cluster, broken_install(fault))
    with cached.server.connect() as connection:
        assert not has_statistics(connection, stranger)
        counted = connection.execute(
            "select sum(xact_commit + xact_rollback + blks_read + blks_hit + tup_returned"
            " + tup_fetched + sessions)::int, count(stats_reset)"
            " from pg_stat_database where datid = %s",
            [ours],
        ).fetchone()
        assert (counted == (0, 0)) is (fault == "")


# ---- snapshots


@pytest.mark.extension
@pytest.mark.parametrize("catalog", ["pg_class", "pg_namespace"])
def test_a_lock_in_one_database_delays_no_snapshot_in_another(
    cluster: ClusterFactory, pgflash_install: PgInstall, catalog: str
) -> None:
    """The owner of a database with the extension keeps a catalog locked.

    After a restart the launcher looks for the database that keeps the snapshots, and finds it.
    """
    server = cluster(
        install=pgflash_install,
        preload="pgflash",
        settings={"pgflash.snapshot_interval": "1s", "max_prepared_transactions": "4"},
    )
    with server.connect() as connection:
        connection.execute("create database held")
        connection.execute("create database stranger")
        connection.execute("create database app")
    with server.connect("app") as app:
        app.execute("create extension pgflash")
        app.execute("select pgflash_snapshot()")
    with server.connect("held") as holder:
        holder.execute("create extension pgflash")
        holder.execute(f"begin; lock {catalog}; prepare transaction 'held'")
    # Statistics do not outlive that.
    server.stop("immediate")
    server.start()
    with server.connect("app") as app:

        def snapshots() -> int:
            row = app.execute("select count(*) from pgflash_snapshots").fetchone()
            assert row is not None
            return int(row[0])

        before = snapshots()
        until(lambda: snapshots() >= before + 3)
    stranger = oid_of(server, "stranger")
    with server.connect() as connection:
        assert not has_statistics(connection, stranger)
