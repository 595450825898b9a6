"""Snapshots: taken whole or not at all, by schedule or command, and true across what happens."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgflash import api
from pgflash.lab.account import make_server_dir
from pgflash.lab.postgres import PgInstall
from pgflash.lab.server import Server
from pgflash.model.snapshot import Section, SectionKind, SnapshotError, find_head
from pgflash.session import SessionError
from pgflash.store import PgStore, open_store
from support.cached import eventually, has_contrib
from support.cluster import ClusterFactory
from support.faults import Call, Fault, Faults
from support.standby import REPLICATION, create_standby

#: What differs between majors is tried on each of them, the rest on one.
every_major = pytest.mark.extension

Connection = psycopg.Connection[tuple[Any, ...]]

#: No schedule: each test says when.
BY_HAND = {"pgflash.snapshot_interval": "0", "track_io_timing": "on"}


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    """One server for all tests that leave it as it was."""
    factory = ClusterFactory(pgflash_install)
    contrib = ", pg_stat_statements" if has_contrib(pgflash_install, "pg_stat_statements") else ""
    yield factory(preload=f"pgflash{contrib}", settings=BY_HAND)
    factory.close()


@pytest.fixture
def database(server: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of the test's own with the extension in a schema of another name."""
    name = f"t{abs(hash(request.node.name))}"
    with server.connect() as connection:
        connection.execute(f"create database {name}")
    with server.connect(name) as connection:
        connection.execute("create schema odd; create extension pgflash schema odd")
        if has_contrib(server.install, "pg_stat_statements"):
            connection.execute(
                "create schema pgss; create extension pg_stat_statements schema pgss"
            )
    yield name
    with server.connect() as connection:
        connection.execute(f"drop database {name} with (force)")


def answers(server: Server) -> bool:
    try:
        server.connect().close()
    except psycopg.OperationalError:
        return False
    return True


def take(connection: Connection) -> int:
    row = connection.execute("select odd.pgflash_snapshot()").fetchone()
    assert row is not None
    return int(row[0])


def missing(sections: dict[str, Section]) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in sections["missing"].rows}


def number(section: Section, column: str) -> float:
    """Return the sum of a column."""
    values = section.column(column)
    assert values is not None
    return sum(value for value in values if isinstance(value, int | float))


# ---- what is in one


@every_major
def test_a_snapshot_has_its_sections_and_says_what_is_missing(
    server: Server, database: str
) -> None:
    with server.connect(database) as connection, open_store(dsn=server.conninfo(database)) as store:
        first, second = take(connection), take(connection)
        heads = store.list()
        assert [head.id for head in heads] == [first, second]
        assert [head.previous_id for head in heads] == [None, first]
        assert heads[1].taken_at > heads[0].taken_at > heads[0].started_at
        assert heads[0].started_at == heads[1].started_at
        assert heads[1].origin == "command"
        assert heads[1].major == server.install.major
        assert 0 < heads[1].took_ms < 10_000

        sections = store.sections(second)
        assert sections["database"].kind is SectionKind.COUNTER
        assert (None in (sections["database"].column("datname") or ())) is True
        (record,) = sections["server"].records()
        assert record["version_num"] == connection.info.server_version
        assert record["extension_version"] == "0.1"
        names = missing(sections)
        for name, since in {"stat_io": 16, "checkpointer": 17}.items():
            assert (name in sections) == (server.install.major >= since)
            assert (name in names) == (server.install.major < since)
        # What is not there is explained, what is there is not.
        assert not set(names) & set(sections)
        assert all(names.values())


def test_the_machine_is_what_proc_says(server: Server, database: str) -> None:
    with server.connect(database) as connection, open_store(dsn=server.conninfo(database)) as store:
        begin, end = take(connection), None
        burn_until = time.process_time() + 0.3
        while time.process_time() < burn_until:
            pass
        end = take(connection)
        before, after = store.sections(begin), store.sections(end)

    def grown(section: str, column: str) -> float:
        return number(after[section], column) - number(before[section], column)

    # Ours alone was 0.3 s; all processors together cannot do more than there are.
    seconds = sum(grown("host_cpu", name) for name in ("user_s", "system_s"))
    assert seconds > 0.25
    assert grown("host_memory", "context_switches") > 0
    (state,) = after["host_state"].records()
    assert isinstance(state["memory_bytes"], int)
    assert state["memory_bytes"] >= int(state["free_bytes"] or 0) > 0  # type: ignore[arg-type]


@every_major
def test_statements_are_counted_from_one_snapshot_to_the_next(
    server: Server, database: str
) -> None:
    if not has_contrib(server.install, "pg_stat_statements"):
        pytest.skip("this build has no pg_stat_statements")
    with server.connect(database) as connection, open_store(dsn=server.conninfo(database)) as store:
        connection.execute("select 'before'::text, 1")
        take(connection)
        for _ in range(3):
            connection.execute("select 'between'::text, 1, 2")
        second = take(connection)
        section = store.sections(second)["statements"]
        texts = store.queries(
            int(value) for value in section.column("query_id") or () if isinstance(value, int)
        )
        calls = {
            texts[int(record["query_id"])]: record["calls"]  # type: ignore[arg-type]
            for record in section.records()
            if record["query_id"] is not None
        }
        assert calls["select $1::text, $2, $3"] == 3
        assert "select $1::text, $2" not in calls  # it did not run again

        # Reset by somebody else: what has been counted since is all there is.
        connection.execute("select pgss.pg_stat_statements_reset()")
        connection.execute("select 'between'::text, 1, 2")
        third = take(connection)
        sections = store.sections_between(second, third, "statements")
        assert [head.id for head, _section in sections] == [third]
        (record,) = (
            one
            for one in sections[0][1].records()
            if texts.get(one["query_id"]) == "select $1::text, $2, $3"  # type: ignore[arg-type]
        )
        assert record["calls"] == 1
        assert all(
            value is None or value >= 0  # type: ignore[operator]
            for one in sections[0][1].records()
            for name, value in one.items()
            if name not in ("query_id", "toplevel")
        )


# ---- whole or not at all


def test_a_snapshot_that_is_rolled_back_leaves_nothing(server: Server, database: str) -> None:
    with server.connect(database) as connection, open_store(dsn=server.conninfo(database)) as store:
        first = take(connection)
        connection.execute("begin")
        lost = take(connection)
        connection.execute("rollback")
        third = take(connection)
        assert [head.id for head in store.list()] == [first, third]
        assert store.list()[1].previous_id == first
        with pytest.raises(SnapshotError, match=f"no snapshot {lost}"):
            store.sections(lost)


def test_a_cancelled_snapshot_leaves_nothing(server: Server, database: str) -> None:
    """The cancel comes while a section is read: it must not pass for a section's own failure."""
    with server.connect(database) as connection, open_store(dsn=server.conninfo(database)) as store:
        take(connection)
        with server.connect(database) as other:
            other.execute(
                "begin; lock table odd.pgflash_snapshot_sections in access exclusive mode"
            )
            connection.execute("set statement_timeout = '200ms'")
            with pytest.raises(psycopg.errors.QueryCanceled):
                take(connection)
            other.execute("rollback")
        assert len(store.list()) == 1


def test_two_at_once_take_turns(server: Server, database: str) -> None:
    with server.connect(database) as one, open_store(dsn=server.conninfo(database)) as store:
        one.execute("begin")
        first = take(one)
        done: list[int] = []

        def take_another() -> None:
            with server.connect(database) as other:
                done.append(take(other))

        thread = threading.Thread(target=take_another)
        thread.start()
        assert eventually(
            lambda: (
                one.execute(
                    "select 1 from pg_locks where not granted and locktype = 'object'"
                ).fetchone()
                is not None
            )
        )
        assert not done
        one.execute("commit")
        thread.join(timeout=30)
        assert [head.id for head in store.list()] == [first, *done]
        assert store.list()[1].previous_id == first


def test_nothing_is_reset(server: Server, database: str) -> None:
    query = (
        "select sum(xact_commit), max(stats_reset) from pg_stat_database where datname = "
        "current_database()"
    )
    with server.connect(database) as connection:
        connection.execute("create table t as select generate_series(1, 100) as n")
        take(connection)
        before = connection.execute(query).fetchone()
        for _ in range(3):
            take(connection)
        connection.execute("select pg_stat_force_next_flush()")
        after = connection.execute(query).fetchone()
    assert before is not None
    assert after is not None
    assert after[0] >= before[0]
    assert after[1] == before[1]


# ---- rights


@every_major
def test_pg_monitor_is_enough_and_nobody_else_may(server: Server, database: str) -> None:
    name = f"watcher_{database}"
    with server.connect(database) as connection:
        connection.execute(f"create role {name} login; grant usage on schema odd to {name}")
        try:
            dsn = server.conninfo(database) + f" user={name}"
            with open_store(dsn=dsn) as store:
                with pytest.raises(SessionError, match="permission denied") as caught:
                    store.list()
                assert "pg_monitor" in caught.value.hint
                assert isinstance(store, PgStore)
                with pytest.raises(SessionError, match="permission denied"):
                    store.take()
            connection.execute(f"grant pg_monitor to {name}")
            with open_store(dsn=dsn) as store:
                assert isinstance(store, PgStore)
                taken = store.take()
                assert find_head(store.list(), "last").id == taken
                assert "settings" in store.sections(taken)
                with pytest.raises(SessionError, match="permission denied"):
                    store.drop(store.list()[0].taken_at)
        finally:
            connection.execute(f"drop owned by {name}; drop role {name}")


def test_settings_that_may_hold_a_password_are_not_kept(server: Server, database: str) -> None:
    with server.connect(database) as connection, open_store(dsn=server.conninfo(database)) as store:
        connection.execute("alter system set archive_command = 'cp --secret=hunter2 %p'")
        connection.execute("alter system set primary_conninfo = 'password=hunter2'")
        connection.execute("select pg_reload_conf()")
        try:
            assert eventually(
                lambda: "hunter2" in str(connection.execute("show primary_conninfo").fetchone())
            )
            taken = take(connection)
            settings = {row[0]: str(row[1]) for row in store.sections(taken)["settings"].rows}
            assert settings["primary_conninfo"].startswith("md5 ")
            content = connection.execute(
                "select string_agg(content::text, '') from odd.pgflash_snapshot_sections"
            ).fetchone()
            assert "hunter2" not in str(content)
        finally:
            connection.execute("alter system reset archive_command")
            connection.execute("alter system reset primary_conninfo")
            connection.execute("select pg_reload_conf()")


# ---- what happens to a server


@every_major
def test_after_a_restart_and_after_a_crash_counting_begins_anew(
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
    # Nobody sits in the database, so it can be dropped; then there is none to write to.
    with server.connect() as connection:
        for _ in range(5):
            connection.execute("create database copy template app")
            connection.execute("drop database copy")
        connection.execute("drop database app")
        connection.execute("create extension pgflash")
        connection.execute("select pg_reload_conf()")
        assert eventually(lambda: 'keeping snapshots in database "postgres"' in server.log_text())


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


# ---- relations keep their names


def relation_rows(sections: dict[str, Section], name: str) -> list[dict[str, Any]]:
    return [row for row in sections["relations"].records() if row["relation"] == name]


@every_major
@pytest.mark.parametrize("command", ["vacuum full t", "truncate t", "drop table t"])
def test_what_was_done_to_a_file_that_is_gone_is_told_by_its_name(
    server: Server, database: str, command: str
) -> None:
    with server.connect(database) as connection, open_store(dsn=server.conninfo(database)) as store:
        connection.execute(
            "create table t as select n, repeat('x', 500) as x from generate_series(1, 5000) n"
        )
        connection.execute("checkpoint")
        take(connection)
        # Much more than what the command itself may do to a file.
        connection.execute("update t set n = n + 1")
        connection.execute("checkpoint")
        connection.execute(command)
        taken = take(connection)
        rows = relation_rows(store.sections(taken), "t")
    # 5000 rows of 500 bytes were written twice, 16 rows to a page.
    written = sum(row["write_bytes"] + row["extend_bytes"] for row in rows if row["fork"] == "main")
    assert written >= 2 * 5000 / 16 * 8192
    assert {row["schema"] for row in rows} == {"public"}
    assert {row["database"] for row in rows} == {database}
    assert all(value >= 0 for row in rows for value in row.values() if isinstance(value, float))


@every_major
def test_a_name_is_that_of_the_moment(server: Server, database: str) -> None:
    with server.connect(database) as connection, open_store(dsn=server.conninfo(database)) as store:
        connection.execute("create table before_ as select generate_series(1, 1000) as n")
        first = take(connection)
        connection.execute("insert into before_ select generate_series(1, 100000)")
        second = take(connection)
        connection.execute("alter table before_ rename to after_")
        connection.execute("insert into after_ select generate_series(1, 100000)")
        third = take(connection)
        assert first < second < third
        assert relation_rows(store.sections(second), "before_")
        assert not relation_rows(store.sections(second), "after_")
        assert relation_rows(store.sections(third), "after_")
        assert not relation_rows(store.sections(third), "before_")


def test_rows_add_up_to_what_tablespaces_counted(server: Server, database: str) -> None:
    """With more relations than have rows of their own, and a table that came and went."""
    columns = ("reads", "read_bytes", "writes", "write_bytes", "extends", "syncs")
    with server.connect(database) as connection, open_store(dsn=server.conninfo(database)) as store:
        before = take(connection)
        for which in range(250):
            connection.execute(f"create table r{which} as select generate_series(1, 10) as n")
        connection.execute("create table gone as select generate_series(1, 10000) as n")
        connection.execute("drop table gone")
        connection.execute("checkpoint")
        after = take(connection)
        first, last = store.sections(before), store.sections(after)
        assert len(last["relations"].rows) == 201
        (other,) = relation_rows(last, "other")
        assert other["extends"] > 0
        for column in columns:
            counted = number(last["io_tablespaces"], column) - number(
                first["io_tablespaces"], column
            )
            told = number(last["relations"], column)
            # The snapshots' own calls come between the two readings.
            slack = 100 * (8192 if column.endswith("bytes") else 1)
            assert told == pytest.approx(counted, abs=slack), column


def test_a_stop_does_not_wait_for_the_schedule(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """It may come while a visitor is waited for, whose end is told by the same latch."""
    server = cluster(install=pgflash_install, preload="pgflash")
    with server.connect() as connection:
        for which in range(5):
            connection.execute(f"create database d{which} strategy file_copy")
    for _ in range(3):
        begin = time.monotonic()
        server.restart()
        assert time.monotonic() - begin < 30
        server.reload()  # the databases are looked at


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
            for _ in range(20):  # what fits into the last page still does
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
    path = tmp_path / "standby.snapshots"
    for _ in range(2):
        head, _dropped = api.collect_snapshot(dsn=standby.conninfo(), path=path)
    with open_store(path=path) as store:
        sections = store.sections(head.id)
        (record,) = sections["server"].records()
        assert record["in_recovery"] is True
        assert number(sections["wal_position"], "wal_bytes") > 0


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

        def named() -> bool:
            other.execute("insert into elsewhere select generate_series(1, 50000)")
            last = store.list()[-1:]
            sections = store.sections(last[0].id) if last else {}
            rows = relation_rows(sections, "elsewhere") if "relations" in sections else []
            return bool(rows) and rows[0]["database"] == "stranger"

        assert eventually(lambda: len(store.list()) > 1)
        assert eventually(named)
        # Nobody stays there.
        other.execute("select 1")
    with server.connect() as connection:
        connection.execute("drop database stranger")


def test_what_is_out_of_line_goes_by_the_name_of_its_table(server: Server, database: str) -> None:
    long = "ä" * 31  # 62 bytes: with a suffix it has to be cut, between two letters
    with server.connect(database) as connection, open_store(dsn=server.conninfo(database)) as store:
        take(connection)
        for name in ("short", long):
            connection.execute(f'create table "{name}" (x text); ')
            connection.execute(f'alter table "{name}" alter x set storage external')
            connection.execute(f"""insert into "{name}" values (repeat('x', 100000))""")
        connection.execute("checkpoint")
        rows = store.sections(take(connection))["relations"].records()
    names = {(row["relation"], row["relkind"]) for row in rows if row["schema"] == "public"}
    assert {("short", "r"), ("short (TOAST)", "t"), ("short (TOAST index)", "i")} <= names
    assert {("ä" * 27 + " (TOAST)", "t"), ("ä" * 24 + " (TOAST index)", "i")} <= names


def test_names_in_another_encoding_can_be_read(server: Server, database: str) -> None:
    with server.connect(database) as connection, open_store(dsn=server.conninfo(database)) as store:
        with server.connect() as latin:
            latin.execute(
                "create database latin encoding latin1 lc_collate 'C' lc_ctype 'C' "
                "template template0"
            )
        try:
            with server.connect("latin") as latin:
                latin.execute("set client_encoding = 'utf8'")
                latin.execute('create database "größe" template template0')
            sections = store.sections(take(connection))
            assert "gr??e" in (sections["databases"].column("database") or ())
        finally:
            with server.connect("latin") as latin:
                latin.execute("set client_encoding = 'utf8'")
                latin.execute('drop database "größe"')
            with server.connect() as other:
                other.execute("drop database latin with (force)")
