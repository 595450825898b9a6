# SPDX-License-Identifier: PostgreSQL
"""Snapshots on separate servers: the schedule, restarts, a full disk, a standby.

The contents of a snapshot are tested in test_snapshot.py.
"""

import errno
import os
import signal
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from pgflash import api
from pgflash.store import open_store
from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.clock import Clock
from support.cluster import ClusterFactory
from support.faults import Call, Fault, Faults
from support.patience import eventually, until
from support.sections import BY_HAND, number, relation_rows
from support.standby import REPLICATION, create_standby, is_streaming_to

#: Differences between major versions are tested on each of them, the rest on one.
every_major = pytest.mark.extension


def answers(server: Server) -> bool:
    try:
        server.connect().close()
    except psycopg.OperationalError:
        return False
    return True


@every_major
def test_after_a_restart_and_after_a_crash_counting_starts_over(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install, preload="pgflash", settings=BY_HAND)

    def snapshot() -> None:
        with server.connect() as connection:
            connection.execute("select pgflash_snapshot()")

    with server.connect() as connection:
        connection.execute("create extension pgflash")
    snapshot()
    snapshot()
    server.restart()
    snapshot()
    # One process crashes: the others are ended, the postmaster lives, its start time stays.
    with server.connect() as connection:
        (pid,) = connection.execute("select pg_backend_pid()").fetchone() or (0,)
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: "reinitializing" in server.log_text() and answers(server))
    snapshot()
    snapshot()
    with open_store(dsn=server.conninfo()) as store:
        heads = store.list()
        assert [head.previous_id for head in heads] == [
            None,
            heads[0].id,
            None,
            None,
            heads[3].id,
        ]
        lives = [head.started_at for head in heads]
        assert lives[0] == lives[1] < lives[2] < lives[3] == lives[4]


@every_major
def test_the_schedule_finds_its_database_keeps_time_and_forgets(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(
        install=pgflash_install, preload="pgflash", settings={"pgflash.snapshot_interval": "1s"}
    )
    with server.connect() as connection:
        connection.execute("create database app")
    with server.connect("app") as app:
        app.execute("create extension pgflash")
        app.execute("select pg_reload_conf()")  # look now, not in a minute

        def count() -> int:
            row = app.execute("select count(*) from pgflash_snapshots").fetchone()
            return int(row[0]) if row else 0

        assert eventually(lambda: count() >= 3)
        rows = app.execute(
            "select origin, previous_id, snapshot_id from pgflash_snapshots order by snapshot_id"
        ).fetchall()
        assert {row[0] for row in rows} == {"schedule"}
        assert [row[1] for row in rows[1:]] == [row[2] for row in rows[:-1]]
        assert 'keeping snapshots in database "app"' in server.log_text()

        app.execute(
            "update pgflash_snapshots set taken_at = taken_at - interval '9 days' "
            "where snapshot_id = 1"
        )
        assert eventually(
            lambda: (
                app.execute("select 1 from pgflash_snapshots where snapshot_id = 1").fetchone()
                is None
            )
        )
        app.execute("drop extension pgflash")
        app.execute("create extension pgflash")
        app.execute("select pg_reload_conf()")
        assert eventually(lambda: count() >= 2)
    # No process is connected to the database, so it can be dropped; then there is none to write to.
    with server.connect() as connection:
        for _ in range(5):
            connection.execute("create database copy template app")
            connection.execute("drop database copy")
        connection.execute("drop database app")
        connection.execute("create extension pgflash")
        connection.execute("select pg_reload_conf()")
        assert eventually(lambda: 'keeping snapshots in database "postgres"' in server.log_text())


#: Does DROP EXTENSION wait, does a visitor wait for a table, does DROP EXTENSION hold one?
LOCKS = """
select bool_or(not granted and pid = {drop}),
       bool_or(not granted and relation is not null and backend_type ~ '^pgflash snapshot'),
       bool_or(granted and relation is not null and pid = {drop} and mode = 'AccessExclusiveLock')
  from pg_locks join pg_stat_activity using (pid)
"""


@every_major
def test_dropping_the_extension_waits_for_a_snapshot_before_it_locks_a_table(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """Otherwise each of both could hold what the other waits for: a deadlock."""
    server = cluster(
        install=pgflash_install, preload="pgflash", settings={"pgflash.snapshot_interval": "1s"}
    )
    with server.connect() as look, server.connect() as lock, server.connect() as drop:
        look.execute("create extension pgflash")
        look.execute("select pg_reload_conf()")
        drop.execute("set lock_timeout = '2s'")  # the visitor gives up after 3 s
        query = LOCKS.format(drop=drop.info.backend_pid)

        def both_wait() -> bool:
            lock.execute("begin")
            lock.execute("lock table pgflash_snapshots in exclusive mode")
            assert eventually(lambda: (look.execute(query).fetchone() or ())[1])
            drop.pgconn.send_query(b"drop extension pgflash")
            seen = False
            while drop.pgconn.is_busy():
                waits, visitor_waits, holds = look.execute(query).fetchone() or ()
                if waits and visitor_waits:
                    assert not holds
                    seen = True
                drop.pgconn.consume_input()
            while (result := drop.pgconn.get_result()) is not None:
                assert b"lock timeout" in result.error_message
            lock.execute("rollback")
            return seen

        assert eventually(both_wait)


@pytest.mark.parametrize("when", ["between two snapshots", "within a snapshot"])
def test_the_schedule_goes_on_though_the_clock_was_set_back(
    cluster: ClusterFactory, pgflash_install: PgInstall, when: str
) -> None:
    server = cluster(
        install=pgflash_install,
        preload="pgflash",
        settings={"pgflash.snapshot_interval": "1s"},
        start=False,
    )
    clock = Clock.build(server.base)
    server.start({**clock.env, "LD_PRELOAD": str(clock.library)})
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute("select pg_reload_conf()")

        def earlier(than: datetime) -> int:
            """Return how many snapshots are so much earlier."""
            query = "select from pgflash_snapshots where taken_at < %s"
            return connection.execute(query, [than]).rowcount

        (began,) = connection.execute("select now()").fetchone() or (None,)
        assert isinstance(began, datetime)
        assert eventually(lambda: earlier(began + timedelta(minutes=1)))
        assert not earlier(began - timedelta(minutes=1))
        if when == "within a snapshot":
            held = (
                "select from pg_stat_activity where wait_event_type = 'Lock'"
                " and backend_type = 'pgflash snapshot visitor'"
            )
            with server.connect(autocommit=False) as other:
                other.execute("lock table pgflash_snapshots")
                assert eventually(lambda: connection.execute(held).rowcount)
                clock.set(ahead_s=-3600)
        clock.set(ahead_s=-3600)
        # The first may be the one that was being taken.
        assert eventually(lambda: earlier(began - timedelta(minutes=1)) > 1)


def test_the_setting_names_the_database(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install, preload="pgflash", settings={**BY_HAND})
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute("create database other template postgres")
        connection.execute("alter system set pgflash.snapshot_database = 'other'")
        connection.execute("alter system set pgflash.snapshot_interval = '1h'")
        connection.execute("select pg_reload_conf()")
        assert eventually(lambda: 'keeping snapshots in database "other"' in server.log_text())
    with open_store(dsn=server.conninfo("other")) as store:
        assert eventually(lambda: len(store.list()) == 1)
    with open_store(dsn=server.conninfo()) as store:
        assert store.list() == ()


def test_a_stop_does_not_wait_for_the_schedule(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """It may come while a visitor is waited for, whose end sets the same latch."""
    server = cluster(install=pgflash_install, preload="pgflash")
    with server.connect() as connection:
        for which in range(5):
            connection.execute(f"create database d{which} strategy file_copy")
    for _ in range(3):
        server.restart()
        assert "received immediate shutdown request" not in server.log_text()
        server.reload()  # the databases are visited


def test_a_full_disk_leaves_nothing(cluster: ClusterFactory, pgflash_install: PgInstall) -> None:
    server = cluster(install=pgflash_install, preload="pgflash", settings=BY_HAND, start=False)
    faults = Faults.build(server.base)
    small = make_server_dir(server.base / "small")
    server.start({**faults.env(small), "LD_PRELOAD": str(faults.library)})
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute(f"create tablespace small location '{small}'")
        connection.execute("alter table pgflash_snapshot_sections set tablespace small")

        def snapshot() -> None:
            connection.execute("select pgflash_snapshot()")

        snapshot()
        faults.strike(Fault(calls=Call.ALLOCATE | Call.WRITE, error=errno.ENOSPC))

        def snapshot_until_it_is_full() -> None:
            for _ in range(20):  # rows that fit into the last page still do
                snapshot()

        with pytest.raises(psycopg.errors.DiskFull):
            snapshot_until_it_is_full()
        faults.stop()
        assert faults.count > 0
        whole = connection.execute(
            "select snapshot_id, previous_id from pgflash_snapshots order by 1"
        ).fetchall()
        snapshot()
        with open_store(dsn=server.conninfo()) as store:
            *before, last = store.list()
            assert [(head.id, head.previous_id) for head in before] == whole
            assert last.previous_id == before[-1].id
            # Every one that is there is whole.
            assert {frozenset(store.sections(head.id)) for head in (*before[1:], last)} == {
                frozenset(store.sections(last.id))
            }


def test_a_standby_says_so_and_is_collected_from_outside(
    cluster: ClusterFactory, pgflash_install: PgInstall, tmp_path: Path
) -> None:
    primary = cluster(
        install=pgflash_install,
        preload="pgflash",
        settings={**REPLICATION, "pgflash.snapshot_interval": "1s"},
    )
    with primary.connect() as connection:
        connection.execute("create extension pgflash")
    standby = create_standby(cluster, primary).server
    assert eventually(lambda: "no snapshots are taken on a standby" in standby.log_text())
    with standby.connect() as connection:
        assert eventually(
            lambda: (
                connection.execute(
                    "select 1 from pg_extension where extname = 'pgflash'"
                ).fetchone()
                is not None
            )
        )
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="standby") as caught:
            connection.execute("select pgflash_snapshot()")
        assert "--store" in str(caught.value.diag.message_hint)
    assert eventually(lambda: is_streaming_to(primary, 1))
    path = tmp_path / "standby.snapshots"
    for _ in range(2):
        head, _dropped = api.snapshot(dsn=standby.conninfo(), path=path)
    with open_store(path=path) as store:
        sections = store.sections(head.id)
        (record,) = sections["server"].records()
        assert record["in_recovery"] is True
        assert number(sections["wal_position"], "wal_bytes") > 0
        (own,) = sections["standby"].records()
        assert own["status"] == "streaming"
        assert (own["replay_bytes"] or 0) >= 0  # type: ignore[operator]

    # The primary knows how far behind it is, also while it cannot replay.
    with standby.connect() as connection:
        connection.execute("select pg_wal_replay_pause()")
    with primary.connect() as connection:
        connection.execute("select pg_create_physical_replication_slot('nobody', true)")
        connection.execute(
            "create table t as select repeat('x', 500) from generate_series(1, 5000)"
        )
        (taken,) = connection.execute("select pgflash_snapshot()").fetchone() or (0,)
    with open_store(dsn=primary.conninfo()) as store:
        sections = store.sections(taken)
        (receiver,) = sections["replication"].records()
        assert receiver["state"] == "streaming"
        # 5,000 rows of 500 bytes are logged with their bytes.
        assert (receiver["replay_bytes"] or 0) >= 5000 * 500  # type: ignore[operator]
        (slot,) = sections["replication_slots"].records()
        assert (slot["slot"], slot["active"]) == ("nobody", False)
        assert (slot["retained_bytes"] or 0) >= 5000 * 500  # type: ignore[operator]
        assert sections["standby"].rows == ()
    with standby.connect() as connection:
        connection.execute("select pg_wal_replay_resume()")


def test_relations_of_other_databases_are_named_by_who_is_there(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(
        install=pgflash_install, preload="pgflash", settings={"pgflash.snapshot_interval": "1s"}
    )
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute("create database stranger")
        connection.execute("select pg_reload_conf()")
    with server.connect("stranger") as other, open_store(dsn=server.conninfo()) as store:
        other.execute("create table elsewhere (n int)")

        def named(table: str = "elsewhere") -> bool:
            other.execute(f"insert into {table} select generate_series(1, 50000)".encode())
            last = store.list()[-1:]
            sections = store.sections(last[0].id) if last else {}
            rows = relation_rows(sections, table) if "relations" in sections else []
            return bool(rows) and rows[0]["database"] == "stranger"

        assert eventually(lambda: len(store.list()) > 1)
        assert eventually(named)
        # No process stays connected.
        other.execute("select 1")

        # Files that are dropped before their names are asked for again leave their places.
        other.execute("create table later (n int)")
        for _ in range(5):
            count = len(store.list())
            other.execute(
                "do $$ begin for i in 1..150 loop execute format('create table x%s (n int); "
                "insert into x%1$s select generate_series(1, 2000)', i); end loop; end $$"
            )
            until(lambda count=count: len(store.list()) > count)  # type: ignore[misc]
            other.execute(
                "do $$ begin for i in 1..150 loop execute format('drop table x%s', i); "
                "end loop; end $$"
            )
        assert eventually(lambda: named("later"))
    with server.connect() as connection:
        connection.execute("drop database stranger")
