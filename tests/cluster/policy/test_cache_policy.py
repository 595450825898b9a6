# SPDX-License-Identifier: PostgreSQL
"""keep, none and default for a relation: what they do, who may set them, and what they outlive.

All on one server.  Tests of restarts and other servers are in test_cache_policy_servers.py.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, assert_indexes_whole, create_cached, run_client
from support.cluster import ClusterFactory
from support.ddl import REPACK_MAJOR
from support.patience import eventually
from support.policies import (
    Connection,
    cache,
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
    stored,
)


@pytest.fixture(scope="module")
def cached(pgflash_install: PgInstall) -> Iterator[CachedServer]:
    """One server for all tests that need no other settings; each makes its own database."""
    factory = ClusterFactory(pgflash_install)
    # All these databases have more files than a smaller cache can distinguish.
    server = create_cached(
        factory,
        pgflash_install,
        settings={"max_prepared_transactions": "5", "pgflash.cache_size": "512MB"},
    )
    yield server
    server.assert_serving()
    factory.close()


@pytest.fixture
def database(cached: CachedServer, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A database with the extension and a table to push others out of shared_buffers."""
    name = f"d{abs(hash(request.node.name)) % 10**12}"
    with cached.server.connect() as connection:
        connection.execute(f'create database "{name}"')
    with cached.server.connect(name) as connection:
        prepare(connection)
        yield connection
    with cached.server.connect() as connection:
        connection.execute(f'drop database "{name}"')


# ---- what they do


@pytest.mark.extension
def test_a_policy_is_in_force_when_its_transaction_commits(database: Connection) -> None:
    make_table(database, "t")
    assert in_force(database, "t") == "default"
    with database.transaction():
        set_policy(database, "t", "keep")
        assert shown(database, "t") == "default"
        assert listed(database) == {("public.t", "keep", "t")}
    assert shown(database, "t") == "keep"
    set_policy(database, "t", "none")
    assert shown(database, "t") == "none"
    set_policy(database, "t", "default")
    assert shown(database, "t") == "default"
    assert stored(database) == {("public.t", "default")}
    set_policy(database, "t", None)
    assert stored(database) == set()


@pytest.mark.extension
def test_a_rollback_leaves_nothing_behind(database: Connection) -> None:
    make_table(database, "t")
    set_policy(database, "t", "keep")
    assert in_force(database, "t") == "keep"
    with database.transaction() as transaction:
        set_policy(database, "t", "none")
        raise psycopg.Rollback(transaction)
    assert (shown(database, "t"), stored(database)) == ("keep", {("public.t", "keep")})
    with database.transaction():
        with database.transaction() as savepoint:
            set_policy(database, "t", "none")
            raise psycopg.Rollback(savepoint)
        set_policy(database, "t_pkey", "none")
    assert shown(database, "t") == "keep"
    assert stored(database) == {("public.t", "keep"), ("public.t_pkey", "none")}


@pytest.mark.extension
def test_a_commit_carries_nothing_out_that_a_savepoint_took_back(database: Connection) -> None:
    make_table(database, "t")
    with database.transaction():
        with database.transaction() as savepoint:
            set_policy(database, "t", "none")
            raise psycopg.Rollback(savepoint)
        # From here on another session may change the rows: this one has no plan for them.
        held = database.execute(
            "select mode from pg_locks where relation = 'pgflash_cache_policies'::regclass"
            " and pid = pg_backend_pid() and mode = 'ShareUpdateExclusiveLock'"
        )
        assert held.fetchall() == []
    assert stored(database) == set()


@pytest.mark.extension
def test_a_prepared_transaction_counts_when_it_is_committed(database: Connection) -> None:
    make_table(database, "t")
    make_table(database, "u")
    set_policy(database, "u", "keep")
    assert in_force(database, "t") == "default"
    database.execute("begin")
    set_policy(database, "t", "keep")
    database.execute("prepare transaction 'later'")
    assert shown(database, "t") == "default"
    database.execute("commit prepared 'later'")
    assert eventually(lambda: shown(database, "t") == "keep")


@pytest.mark.extension
def test_many_are_set_in_one_statement(database: Connection) -> None:
    for name in ("a", "b", "c"):
        make_table(database, name, rows=10)
    database.execute(
        "select pgflash_set_cache_policy(oid::regclass, 'keep') from pg_class"
        " where relname in ('a', 'b', 'c')"
    )
    assert stored(database) == {(f"public.{name}", "keep") for name in "abc"}


@pytest.mark.extension
def test_a_relation_with_none_is_neither_cached_nor_looked_up(
    cached: CachedServer, database: Connection
) -> None:
    make_table(database, "t")
    cache(database, "t")
    set_policy(database, "t", "none")
    assert eventually(lambda: cached_blocks(database, "t") == 0)
    push_out(database)
    before = cached.view()
    database.execute("select hits from pgflash_relations where relation = 't'::regclass")
    read_scattered(database, "t")
    after = cached.view()
    assert after["bypass_reads"] - before["bypass_reads"] > 100
    assert cached_blocks(database, "t") == 0
    set_policy(database, "t", "default")
    cache(database, "t")


# ---- who may, and for what


def test_only_the_owner_may_set_a_policy(database: Connection) -> None:
    database.execute("drop role if exists holder, stranger; create role holder")
    database.execute("create role stranger; grant create on schema public to holder")
    database.execute("set role holder")
    make_table(database, "mine", rows=10)
    set_policy(database, "mine", "keep")
    set_policy(database, "mine_pkey", "none")
    assert stored(database) == {("public.mine", "keep"), ("public.mine_pkey", "none")}
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        database.execute("delete from pgflash_cache_policies")
    database.execute("set role stranger")
    for relation, kind in (("mine", "table"), ("mine_pkey", "index")):
        with pytest.raises(
            psycopg.errors.InsufficientPrivilege, match=f"must be owner of {kind} {relation}"
        ):
            set_policy(database, relation, "none")
    assert listed(database) == {
        ("public.mine", "keep", "mine"),
        ("public.mine_pkey", "none", "mine_pkey"),
    }
    database.execute("reset role")
    set_policy(database, "mine", "none")
    database.execute("drop owned by holder; drop role holder, stranger")


def test_a_name_in_a_schema_closed_to_a_user_is_none_of_his_business(
    database: Connection,
) -> None:
    # A row that a dump loaded: of a relation that does not exist yet, or never will.
    database.execute("create schema closed")
    database.execute("insert into pgflash_cache_policies values ('closed.absent', 'keep')")
    database.execute("drop role if exists holder; create role holder")
    database.execute("grant create on schema public to holder; set role holder")
    make_table(database, "mine", rows=10)
    set_policy(database, "mine", "keep")
    set_policy(database, "mine_pkey", "none")
    database.execute("reindex index concurrently mine_pkey")
    database.execute("alter table mine alter id type bigint")
    assert listed(database) == {
        ("closed.absent", "keep", None),
        ("public.mine", "keep", "mine"),
        ("public.mine_pkey", "none", "mine_pkey"),
    }
    database.execute("reset role; drop owned by holder; drop role holder")


@pytest.mark.extension
@pytest.mark.parametrize(
    ("relation", "words"),
    [
        ("a_view", '"a_view" is not a table, index, or materialized view'),
        ("a_sequence", '"a_sequence" is not a table, index, or materialized view'),
        ("a_type", '"a_type" is not a table, index, or materialized view'),
        ("a_foreign_table", '"a_foreign_table" is not a table, index, or materialized view'),
        ("a_temporary_table", 'policy of temporary relation "a_temporary_table"'),
        ("pg_class", 'permission denied: "pg_class" is a system catalog'),
        ("pg_database", 'permission denied: "pg_database" is a system catalog'),
        ("toast", "cannot set the cache policy of TOAST table"),
    ],
)
def test_what_has_no_blocks_to_cache_is_refused(
    database: Connection, relation: str, words: str
) -> None:
    database.execute(
        "create view a_view as select 1; create sequence a_sequence; create type a_type as (a int);"
        " create foreign data wrapper w; create server s foreign data wrapper w;"
        " create foreign table a_foreign_table (a int) server s;"
        " create temp table a_temporary_table (a int)"
    )
    if relation == "toast":
        row = database.execute(
            "select reltoastrelid::regclass::text from pg_class where relname = 'ballast'"
        ).fetchone()
        assert row is not None
        relation = row[0]
    with pytest.raises(psycopg.Error, match=words):
        set_policy(database, relation, "keep")
    assert stored(database) == set()


def test_a_word_that_is_no_policy_is_refused(database: Connection) -> None:
    for word in ("Keep", "", "always"):
        with pytest.raises(psycopg.Error, match=f'invalid cache policy "{word}"') as error:
            set_policy(database, "ballast", word)
        assert error.value.diag.message_hint == "The cache policies are keep, none and default."
    with pytest.raises(psycopg.Error, match="the relation must not be null"):
        database.execute("select pgflash_set_cache_policy(null, 'keep')")
    database.execute("set default_transaction_read_only = on")
    with pytest.raises(psycopg.Error, match="read-only transaction"):
        set_policy(database, "ballast", "keep")


def test_more_relations_than_can_be_told_apart_are_refused(database: Connection) -> None:
    # 512 MB are 65,536 blocks, and there is one policy for 128.
    database.execute("create table p (id int) partition by list (id)")
    database.execute(
        "do $$ begin for i in 1 .. 520 loop"
        " execute format('create table p%s partition of p for values in (%s)', i, i);"
        " end loop; end $$"
    )
    with pytest.raises(psycopg.Error, match="too many relations have a cache policy") as error:
        set_policy(database, "p", "keep")
    assert "520 files would have one" in str(error.value.diag.message_detail)
    assert stored(database) == set()
    for i in range(1, 20):
        database.execute(f"drop table p{i}")
    set_policy(database, "p", "keep")
    set_policy(database, "p", None)


# ---- what belongs to a relation


@pytest.mark.extension
def test_toast_goes_with_its_table(database: Connection) -> None:
    database.execute("create table t (id int primary key, v int, pad text)")
    database.execute("alter table t alter pad set storage external")
    database.execute("insert into t select n, n, repeat('x', 9000) from generate_series(1, 2000) n")
    set_policy(database, "t", "keep")
    row = database.execute(
        "select reltoastrelid::regclass::text,"
        " (select indexrelid::regclass::text from pg_index where indrelid = reltoastrelid)"
        " from pg_class where relname = 't'"
    ).fetchone()
    assert row is not None
    push_out(database)
    database.execute("select sum(length(pad || '.')) from t")
    assert shown(database, row[0]) == "keep"
    assert shown(database, row[1]) == "keep"
    assert listed(database) == {("public.t", "keep", "t")}
    assert in_force(database, "t_pkey", table="t") == "default"


def partitions(connection: Connection) -> None:
    connection.execute(
        "create table p (id int primary key, v int, pad text) partition by range (id);"
        " create table p1 partition of p for values from (1) to (1001);"
        " create table p2 partition of p for values from (1001) to (2001) partition by range (id);"
        " create table p21 partition of p2 for values from (1001) to (1501);"
        " create table p22 partition of p2 for values from (1501) to (2001);"
        " insert into p select n, n, repeat('x', 900) from generate_series(1, 2000) n"
    )


@pytest.mark.extension
def test_partitions_have_the_policy_of_the_nearest_above_them(database: Connection) -> None:
    partitions(database)
    set_policy(database, "p", "keep")
    set_policy(database, "p22", "none")
    push_out(database)
    read_scattered(database, "p")
    policies = {name: shown(database, name) for name in ("p1", "p21", "p22")}
    assert policies == {"p1": "keep", "p21": "keep", "p22": "none"}
    set_policy(database, "p2", "default")
    push_out(database)
    read_scattered(database, "p")
    policies = {name: shown(database, name) for name in ("p1", "p21", "p22")}
    assert policies == {"p1": "keep", "p21": "default", "p22": "none"}
    assert listed(database) == {
        ("public.p", "keep", "p"),
        ("public.p1", "keep", "p"),
        ("public.p2", "default", "p2"),
        ("public.p21", "default", "p2"),
        ("public.p22", "none", "p22"),
    }
    set_policy(database, "p2", None)
    assert shown(database, "p21") == "keep"


@pytest.mark.extension
def test_partitions_of_an_index_have_its_policy(database: Connection) -> None:
    partitions(database)
    set_policy(database, "p_pkey", "none")
    for name in ("p1", "p21", "p22"):
        assert in_force(database, f"{name}_pkey", table="p") == "none"
        assert shown(database, name) == "default"


@pytest.mark.extension
def test_partitions_that_come_and_go_change_their_policy(database: Connection) -> None:
    partitions(database)
    set_policy(database, "p", "keep")
    make_table(database, "q", rows=0)
    database.execute(
        "insert into q select n, n, repeat('x', 900) from generate_series(2001, 3000) n"
    )
    whole = "select count(pad) from q"
    push_out(database)
    database.execute(whole)
    assert shown(database, "q") == "default"
    database.execute("alter table p attach partition q for values from (2001) to (3001)")
    assert eventually(lambda: shown(database, "q") == "keep")
    database.execute("create table p4 partition of p for values from (3001) to (4001)")
    database.execute(
        "insert into p4 select n, n, repeat('x', 900) from generate_series(3001, 4000) n"
    )
    push_out(database)
    database.execute("select count(pad) from p4")
    assert eventually(lambda: shown(database, "p4") == "keep")
    database.execute("alter table p detach partition q")
    assert eventually(lambda: shown(database, "q") == "default")


@pytest.mark.extension
def test_children_by_inheritance_go_their_own_way(database: Connection) -> None:
    make_table(database, "t")
    make_table(database, "child")
    database.execute("alter table child inherit t")
    set_policy(database, "t", "keep")
    assert in_force(database, "child") == "default"


# ---- what a policy outlives

REWRITES = {
    "vacuum full": ("vacuum full t", "t"),
    "cluster": ("cluster t using t_pkey", "t"),
    "truncate": ("truncate t; insert into t select * from ballast", "t"),
    "alter type": ("alter table t alter v type bigint", "t"),
    "alter type of an indexed column": ("alter table t alter id type bigint", "t_pkey"),
    "set tablespace": ("alter table t set tablespace elsewhere", "t"),
    "reindex": ("reindex index t_pkey", "t_pkey"),
    "reindex table concurrently": ("reindex table concurrently t", "t_pkey"),
    "reindex index concurrently": ("reindex index concurrently t_pkey", "t_pkey"),
    "index of a rewritten table": ("vacuum full t", "t_pkey"),
    "index to a tablespace": ("alter index t_pkey set tablespace elsewhere", "t_pkey"),
    "unlogged": ("alter table t set unlogged", "t"),
    "repack": ("repack t", "t"),
    "repack by an index": ("repack t using index t_pkey", "t"),
    "repack concurrently": ("repack (concurrently) t", "t"),
    "index of a repacked table": ("repack t", "t_pkey"),
    "index of a concurrently repacked table": ("repack (concurrently) t", "t_pkey"),
}


@pytest.mark.extension
@pytest.mark.parametrize("name", REWRITES)
def test_a_rewrite_keeps_the_policy(cached: CachedServer, database: Connection, name: str) -> None:
    command, relation = REWRITES[name]
    if "repack" in command and cached.server.install.major < REPACK_MAJOR:
        pytest.skip(f"REPACK came with PostgreSQL {REPACK_MAJOR}")
    make_table(database, "t")
    if "elsewhere" in command:
        database.execute(f"create tablespace elsewhere location '{cached.space}'")
    set_policy(database, relation, "keep")
    assert in_force(database, relation, table="t") == "keep"
    before = database.execute("select pg_relation_filepath(%s)", [relation]).fetchone()
    database.execute("set client_min_messages = error")
    for part in command.split("; "):
        database.execute(part)
    assert database.execute("select pg_relation_filepath(%s)", [relation]).fetchone() != before
    assert comes_into_force(database, relation, "keep", table="t")
    assert stored(database) == {(f"public.{relation}", "keep")}
    if "elsewhere" in command:
        database.execute("drop table t")
        database.execute("drop tablespace elsewhere")


@pytest.mark.extension
def test_a_matview_keeps_its_policy_when_it_is_refreshed(database: Connection) -> None:
    database.execute(
        "create materialized view m as select * from ballast; create unique index on m (id)"
    )
    set_policy(database, "m", "keep")
    database.execute("refresh materialized view m")
    assert comes_into_force(database, "m", "keep")


@pytest.mark.extension
def test_a_policy_follows_names(database: Connection) -> None:
    make_table(database, "t")
    set_policy(database, "t", "keep")
    set_policy(database, "t_pkey", "none")
    database.execute(
        'create schema "Other one"; alter table t rename to "T.1"; alter index t_pkey rename to k;'
        ' alter table "T.1" set schema "Other one"'
    )
    assert stored(database) == {('"Other one"."T.1"', "keep"), ('"Other one".k', "none")}
    assert in_force(database, '"Other one"."T.1"') == "keep"
    database.execute('alter schema "Other one" rename to another')
    assert stored(database) == {('another."T.1"', "keep"), ("another.k", "none")}


@pytest.mark.extension
def test_a_dropped_relation_leaves_nothing_behind(database: Connection) -> None:
    make_table(database, "t")
    set_policy(database, "t", "keep")
    set_policy(database, "t_pkey", "keep")
    database.execute("drop table t")
    assert listed(database) == set()
    make_table(database, "t")
    assert in_force(database, "t") == "default"
    assert eventually(lambda: stored(database) == set())


def dump_and_restore(
    cached: CachedServer, source: str, target: str, *, custom: bool, owner: str | None = None
) -> None:
    """Copy a database by pg_dump, as text through psql or as an archive through pg_restore."""
    server = cached.server
    with server.connect() as connection:
        connection.execute(f'create database "{target}"')
    file = cached.space / "dump"
    run_client(server, "pg_dump", *(["-Fc"] if custom else []), "-f", str(file), "-d", source)
    if custom:
        run_client(server, "pg_restore", "--exit-on-error", "-d", target, str(file))
    else:
        run_client(
            server, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", target, "-f", str(file)
        )
    file.unlink()


@pytest.mark.extension
@pytest.mark.parametrize("custom", [False, True], ids=["plain", "custom"])
def test_a_dump_carries_policies(
    cached: CachedServer, database: Connection, *, custom: bool
) -> None:
    make_table(database, "t")
    database.execute("create index by_v on t (v); create schema s")
    make_table(database, 's."Odd Name"', rows=10)
    make_table(database, "gone", rows=10)
    partitions(database)
    database.execute("create materialized view m as select * from t; create index on m (v)")
    policies = {
        "t": "keep",
        "by_v": "none",
        "t_pkey": "keep",
        's."Odd Name"': "none",
        "p": "keep",
        "p22": "default",
        "p_pkey": "none",
        "m": "keep",
        "m_v_idx": "keep",
        "gone": "keep",
    }
    for relation, policy in policies.items():
        set_policy(database, relation, policy)
    database.execute("drop table gone")
    before = listed(database)
    assert len(before) == 9 + 3 + 4

    source = database.info.dbname
    target = f"{source}_copy"
    dump_and_restore(cached, source, target, custom=custom)
    with cached.server.connect(target) as connection:
        assert listed(connection) == before
        assert comes_into_force(connection, "t", "keep")
        assert comes_into_force(connection, "t_pkey", "keep", table="t")
        assert comes_into_force(connection, "p21_pkey", "none", table="p")
        # The worker has added the numbers to a row that had only a name.
        assert eventually(
            lambda: len(stored(connection)) == 9 and ("-", "keep") not in stored(connection)
        )
        connection.execute("alter index by_v rename to by_w")
        assert ("public.by_w", "none") in stored(connection)
    with cached.server.connect() as connection:
        connection.execute(f'drop database "{target}"')


@pytest.mark.extension
def test_who_is_no_superuser_can_dump(cached: CachedServer, database: Connection) -> None:
    make_table(database, "t", rows=10)
    set_policy(database, "t", "keep")
    database.execute(
        "drop role if exists dumper; create role dumper login in role pg_read_all_data"
    )
    done = run_client(cached.server, "pg_dump", "-U", "dumper", "-d", database.info.dbname)
    assert "public.t\tkeep" in done.stdout
    database.execute("drop role dumper")


@pytest.mark.extension
def test_a_copy_by_template_has_the_policies(cached: CachedServer, database: Connection) -> None:
    make_table(database, "t")
    set_policy(database, "t", "keep")
    source = database.info.dbname
    database.close()
    with cached.server.connect() as connection:
        connection.execute(f'create database "{source}_copy" template "{source}"')
    with cached.server.connect(f"{source}_copy") as connection:
        assert listed(connection) == {("public.t", "keep", "t")}
        assert comes_into_force(connection, "t", "keep")
    with cached.server.connect() as connection:
        connection.execute(f'drop database "{source}_copy"')


def test_databases_are_dropped_and_copied_whatever_the_worker_does(
    cached: CachedServer, database: Connection
) -> None:
    source = database.info.dbname
    make_table(database, "t", rows=10)
    set_policy(database, "t", "keep")
    with cached.server.connect() as connection:
        for number in range(8):
            # Each command wakes the worker, which sends a visitor into the database.
            database.execute(f"create table t{number} (a int)")
            database.close()
            connection.execute(f'create database "{source}_{number}" template "{source}"')
            database = cached.server.connect(source)
            with cached.server.connect(f"{source}_{number}") as other:
                other.execute(f"drop table t{number}")
            connection.execute(f'drop database "{source}_{number}"')
    database.close()


@pytest.mark.extension
def test_databases_have_policies_of_their_own(cached: CachedServer, database: Connection) -> None:
    make_table(database, "t")
    set_policy(database, "t", "keep")
    name = f"{database.info.dbname}_b"
    with cached.server.connect() as connection:
        connection.execute(f'create database "{name}"')
    with cached.server.connect(name) as other:
        prepare(other)
        make_table(other, "t")
        set_policy(other, "t", "none")
        assert in_force(other, "t") == "none"
        assert in_force(database, "t") == "keep"
    with cached.server.connect() as connection:
        connection.execute(f'drop database "{name}"')
    assert in_force(database, "t") == "keep"


@pytest.mark.extension
def test_dropping_the_extension_ends_the_effect(cached: CachedServer, database: Connection) -> None:
    make_table(database, "t")
    set_policy(database, "t", "keep")
    assert in_force(database, "t") == "keep"
    cache(database, "t")
    row = database.execute("select pg_relation_filenode('t')").fetchone()
    keep_before = cached.view()["keep_blocks"]
    assert keep_before > 100
    database.execute("drop extension pgflash")
    assert eventually(lambda: cached.view()["keep_blocks"] <= keep_before - 100)
    database.execute("create extension pgflash")
    assert shown(database, "t") == "default"
    assert database.execute("select pg_relation_filenode('t')").fetchone() == row


# ---- and never a stale block


def test_policies_that_change_under_load_serve_no_stale_block(
    cached: CachedServer, database: Connection
) -> None:
    make_table(database, "t")
    name = database.info.dbname
    read_before = cached.view()["verify_compared"]
    done: Counter[str] = Counter()
    over = threading.Event()

    def change_policies() -> None:
        policies = cycle(("keep", "none", "default", None))
        with cached.server.connect(name) as connection:
            while not over.is_set():
                policy = next(policies)
                set_policy(connection, "t", policy)
                set_policy(connection, "t_pkey", policy)
                push_out(connection)
                done["set"] += 1

    def change_rows(half: int) -> None:
        """Change one half of the rows: two who change the same ones may block each other."""
        changes = f"update t set v = v + 1 where id % 2 = {half} and id % 50 = v % 50"
        with cached.server.connect(name) as connection:
            while not over.is_set():
                connection.execute(changes.encode())
                read_scattered(connection, "t")

    def rewrite() -> None:
        commands = cycle(("vacuum full t", "reindex table t"))
        with cached.server.connect(name) as connection:
            while not over.wait(0.5):
                connection.execute(next(commands))
                done["rewritten"] += 1

    def enough() -> bool:
        """Say whether enough of everything has happened: a busy machine takes longer."""
        compared = cached.assert_serving()["verify_compared"] - read_before
        return bool(compared > 1000 and done["set"] >= 12 and done["rewritten"] >= 6)

    with ThreadPoolExecutor() as pool:
        jobs = [pool.submit(job) for job in (change_policies, rewrite)]
        jobs += [pool.submit(change_rows, half) for half in (0, 1)]
        try:
            assert eventually(lambda: any(job.done() for job in jobs) or enough())
        finally:
            over.set()
        for job in jobs:
            job.result()
    assert enough()
    compared, mismatched = cached.verify()
    assert compared > 0
    assert mismatched == 0
    assert_indexes_whole(cached.server)
