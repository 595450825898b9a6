# SPDX-License-Identifier: PostgreSQL
"""Snapshots: their contents, who may take one, whole or not at all, relations by their names.

All on one server; tests of restarts and other servers are in test_snapshot_servers.py.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from pgflash.collect.about import read_about
from pgflash.collect.blocking import read_blocking
from pgflash.collect.live import LiveReader
from pgflash.collect.take import collect
from pgflash.collect.time_range import read_range
from pgflash.model.collected import LastSnapshot
from pgflash.model.live import Focus
from pgflash.model.snapshot import Section, SectionKind, SnapshotError
from pgflash.model.snapshot_sections import SECTIONS
from pgflash.session import SessionError, connect
from pgflash.store import PgStore, open_store
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import has_contrib
from support.cluster import ClusterFactory
from support.nested import check_nested, run_nested
from support.patience import PATIENCE_S, eventually
from support.script import SQL_VERSION
from support.sections import BY_HAND, number, relation_rows

#: Differences between major versions are tested on each of them, the rest on one.
every_major = pytest.mark.extension

Connection = psycopg.Connection[tuple[Any, ...]]


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


def take(connection: Connection) -> int:
    row = connection.execute("select odd.pgflash_snapshot()").fetchone()
    assert row is not None
    return int(row[0])


def missing(sections: dict[str, Section]) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in sections["missing"].rows}


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
        assert heads[1].took_ms > 0

        sections = store.sections(second)
        assert sections["database"].kind is SectionKind.COUNTER
        assert (None in (sections["database"].column("datname") or ())) is True
        (record,) = sections["server"].records()
        assert record["version_num"] == connection.info.server_version
        assert record["extension_version"] == SQL_VERSION
        names = missing(sections)
        for name, since in {"stat_io": 16, "checkpointer": 17}.items():
            assert (name in sections) == (server.install.major >= since)
            assert (name in names) == (server.install.major < since)
        # Missing sections are explained, others are not.
        assert not set(names) & set(sections)
        assert all(names.values())
        assert set(names) | set(sections) == set(SECTIONS)
        for name, section in sections.items():
            declared = SECTIONS[name].columns
            assert section.columns[: len(declared)] == declared, name


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

        # Reset by another session: only the counts since then are left.
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


@every_major
def test_the_rest_of_nested_statements_is_apart(server: Server, database: str) -> None:
    if not has_contrib(server.install, "pg_stat_statements"):
        pytest.skip("this build has no pg_stat_statements")
    with server.connect(database) as connection, open_store(dsn=server.conninfo(database)) as store:
        take(connection)
        run_nested(connection)
        check_nested(store.sections(take(connection))["statements"])


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
    """A cancel during the reading of a section must not be taken for the section's failure."""
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
        thread.join(timeout=PATIENCE_S)
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
                assert store.list()[-1].id == taken
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


@every_major
def test_what_postgresql_counts_of_tables_is_what_was_done_to_them(
    server: Server, database: str
) -> None:
    with server.connect(database) as connection, open_store(dsn=server.conninfo(database)) as store:
        connection.execute(
            "create table t (id int primary key, n int) with (autovacuum_enabled = off)"
        )
        connection.execute("insert into t select i, 0 from generate_series(1, 1000) i")
        hand_in(connection)
        take(connection)
        connection.execute("update t set n = 1 where id <= 300")
        connection.execute("delete from t where id > 900")
        connection.execute("select count(*) from t")
        hand_in(connection)
        second = take(connection)
        connection.execute("vacuum analyze t")
        hand_in(connection)
        third = take(connection)
        changed, vacuumed = (
            {row["relation"]: row for row in store.sections(one)["relation_stats"].records()}
            for one in (second, third)
        )
        (dead,) = (
            row for row in store.sections(second)["dead_rows"].records() if row["relation"] == "t"
        )
        left = {row["relation"] for row in store.sections(third)["dead_rows"].records()}
    row = changed["t"]
    assert (row["schema"], row["relkind"], row["database"]) == ("public", "r", database)
    assert (row["rows_updated"], row["rows_deleted"], row["rows_inserted"]) == (300, 100, 0)
    assert row["blocks_looked_up"] >= row["blocks_hit"] > 0  # type: ignore[operator]
    assert changed["t_pkey"]["relkind"] == "i"
    assert changed["t_pkey"]["blocks_looked_up"] > 0  # type: ignore[operator]
    assert (dead["dead_rows"], dead["live_rows"]) == (400, 900)
    assert (vacuumed["t"]["vacuums"], vacuumed["t"]["analyzes"]) == (1, 1)
    assert "t" not in left
    # 18 takes the times, the others have none.
    timed = vacuumed["t"]["vacuum_time_ms"]
    assert (timed is not None) == (server.install.major >= 18)


def test_a_baseline_keeps_its_snapshots_from_the_retention(server: Server, database: str) -> None:
    with (
        server.connect(database) as connection,
        PgStore(server.conninfo(database)) as store,
    ):
        ids = [take(connection) for _ in range(5)]
        connection.execute(
            "insert into odd.pgflash_snapshot_queries (query_id, query, used_at)"
            " values (77, 'select 77', '2020-01-01'), (78, 'select 78', '2020-01-01')"
        )
        # The third names a statement.
        connection.execute(
            "insert into odd.pgflash_snapshot_sections values (%s, 'samples', 'delta', %s)"
            " on conflict (snapshot_id, section) do update set content = excluded.content",
            (ids[2], '{"columns": ["bucket", "query_id"], "rows": [["x", 77], ["x", null]]}'),
        )
        assert store.baselines() == ()
        store.keep("monday", ids[1], ids[3])
        (kept,) = store.baselines()
        assert (kept.name, kept.begin_id, kept.end_id) == ("monday", ids[1], ids[3])
        assert store.drop(datetime.max.replace(tzinfo=UTC)) == 2
        assert [head.id for head in store.list()] == ids[1:4]
        assert len(store.sections(ids[2])) > 10
        assert store.queries([77, 78]) == {77: "select 77"}
        with pytest.raises(SessionError, match="duplicate key"):
            store.keep("monday", ids[1], ids[2])
        with pytest.raises(SessionError, match="begin_id"):
            store.keep("gone", ids[0], ids[2])
        # A role that may only look keeps and drops none.
        connection.execute("set role pg_monitor")
        for query in ("baseline_keep('x', 1, 2)", "baseline_drop('monday')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"select odd.pgflash_{query}")
        connection.execute("reset role")

        store.keep("two", ids[2], ids[3])
        store.release("monday")
        store.drop(datetime.max.replace(tzinfo=UTC))
        assert [head.id for head in store.list()] == ids[2:4]
        assert store.queries([77]) == {77: "select 77"}
        store.release("two")
        connection.execute(
            "update odd.pgflash_snapshot_queries set used_at = '2020-01-01' where query_id = 77"
        )
        store.drop(datetime.max.replace(tzinfo=UTC))
        assert store.list() == ()
        assert store.queries([77]) == {}


def test_a_baseline_that_is_being_made_keeps_its_snapshots(server: Server, database: str) -> None:
    """The retention does not see it yet, and waits for it."""
    with (
        server.connect(database) as connection,
        PgStore(server.conninfo(database)) as store,
    ):
        ids = [take(connection) for _ in range(4)]
        # Nothing else makes the retention wait.
        connection.execute("delete from odd.pgflash_snapshot_queries")
        connection.execute("begin")
        connection.execute("select odd.pgflash_baseline_keep('now', %s, %s)", (ids[1], ids[3]))
        dropped: list[int] = []
        thread = threading.Thread(
            target=lambda: dropped.append(store.drop(datetime.max.replace(tzinfo=UTC)))
        )
        thread.start()
        assert eventually(
            lambda: (
                connection.execute("select 1 from pg_locks where not granted").fetchone()
                is not None
            )
        )
        connection.execute("commit")
        thread.join(timeout=PATIENCE_S)
        assert dropped == [1]
        assert [head.id for head in store.list()] == ids[1:]
        assert all(len(store.sections(one)) > 10 for one in ids[1:])


def hand_in(connection: Connection) -> None:
    """Flush a session's counts to the server's statistics."""
    connection.execute("select pg_stat_force_next_flush()")
    connection.execute("select 1")


# ---- relations keep their names


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


def test_what_another_encoding_has_hides_nothing_else(server: Server, database: str) -> None:
    """A database of encoding SQL_ASCII has bytes that are no UTF-8: in names and statements."""
    if not has_contrib(server.install, "pg_stat_statements"):
        pytest.skip("this build has no pg_stat_statements")
    dsn = server.conninfo(database)
    with server.connect() as connection:
        connection.execute(
            "create database legacy encoding 'SQL_ASCII' locale 'C' template template0"
        )
    with (
        psycopg.connect(server.conninfo("legacy"), autocommit=True) as legacy,
        psycopg.connect(server.conninfo("legacy"), autocommit=True) as blocked,
        server.connect(database) as connection,
        open_store(dsn=dsn) as store,
        closing(connect(dsn)) as session,
    ):
        for one in (legacy, blocked):
            one.execute("set client_encoding = 'SQL_ASCII'")
        try:
            take(connection)
            legacy.execute(b'create database "gr\xf6\xdfe" template template0')
            legacy.execute(b'select 1 as "\xff"')
            kept = store.sections(take(connection))
            assert {"statements", "samples", "statement_reads"} <= set(kept)
            assert "invalid byte sequence" in missing(kept)["texts of statements"]

            first = collect(session, None, cluster="")
            last = LastSnapshot(id=1, started_at=first.started_at, remembered=first.remembered)
            second = collect(session, last, cluster="")
            stored = {one.name: one for one in second.sections}
            assert "invalid byte sequence" in missing(stored)["texts of statements"]
            assert "gr\ufffd\ufffde" in (stored["databases"].column("database") or ())
            number = next(one for one in stored["statements"].column("query_id") or () if one)
            seen = LiveReader(session).server
            now = datetime.now(UTC)
            spent = read_range(session, seen, begin=now - timedelta(minutes=1), end=now)
            assert "invalid byte sequence" in spent.missing["texts of statements"]
            about = read_about(session, seen, Focus(query=str(number)))
            assert "Calls" in dict(about.facts)

            legacy.execute("select pg_advisory_lock(1)")
            waiter = threading.Thread(
                target=blocked.execute, args=(b'select pg_advisory_lock(1) as "\xff"',)
            )
            waiter.start()
            assert eventually(lambda: len(read_blocking(session)) == 2)
            _holder, waiting = read_blocking(session)
            assert waiting.text == 'select pg_advisory_lock(1) as "\ufffd"'
            about = read_about(session, seen, Focus(session=waiting.session))
            assert about.text == waiting.text
        finally:
            legacy.execute("select pg_advisory_unlock_all()")
            legacy.execute(b'drop database if exists "gr\xf6\xdfe"')
            connection.execute("select pgss.pg_stat_statements_reset()")
    with server.connect() as connection:
        connection.execute("drop database legacy with (force)")
