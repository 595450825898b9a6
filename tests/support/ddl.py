# SPDX-License-Identifier: PostgreSQL
"""Steps that move, truncate, copy or replace relation files.

STEPS is the list; each step's docstring says what it begins with.  A step changes the World
(support/world.py) through SQL and keeps its model true; after every step World.check() compares all
tables with it.
"""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from psycopg import sql

from support.cached import has_contrib
from support.patience import eventually
from support.world import (
    BALLAST_ROWS,
    VALUE,
    World,
    compare,
    query,
    value_of,
)

#: The first major that has the command.
REPACK_MAJOR = 19

#: Small relations that exhaust the descriptors of a session limited to 64 open files.
MANY_TABLES = 40


def load_tables(world: World) -> None:
    """Load the tables."""
    world.create("ballast")
    # Two rows to a block; then every second row is deleted.
    world.run("alter table ballast set (fillfactor = 10)")
    world.insert("ballast", 1, BALLAST_ROWS * 2)
    world.run("delete from ballast where id % 2 = 0")
    rows = world.tables["postgres", "ballast"]
    world.tables["postgres", "ballast"] = {i: v for i, v in rows.items() if i % 2}
    world.create("ledger")
    world.insert("ledger", 1, 3000)
    world.create("stock")
    world.insert("stock", 1, 1500)
    world.run("create index stock_hash on stock using hash (v)")
    world.run("create index stock_brin on stock using brin (id) with (pages_per_range = 4)")


def update_rows(world: World) -> None:
    """Update rows, some of them twice."""
    world.update("ledger", version=1, every=2)
    world.update("ledger", version=2, every=3)
    world.update("stock", version=1)


def checkpoint(world: World) -> None:
    """Let the checkpointer write; it has descriptors of its own."""
    world.update("ledger", version=3, every=5)
    world.run("checkpoint")


def vacuum_tail(world: World) -> None:
    """Vacuum away the tail of a table, which has been read and is cached."""
    world.insert("ledger", 4000, 5500)
    world.check()
    world.delete_from("ledger", 1500)
    _vacuum_away(world, "ledger")


def _vacuum_away(world: World, name: str) -> None:
    before = world.size_bytes(name)

    def is_truncated() -> bool:
        """Try again while a visitor of pgflash's may still see what was deleted."""
        world.run("vacuum (freeze, truncate) {name}", name=name)
        return world.size_bytes(name) < before

    assert eventually(is_truncated), f"{name} was not truncated"


def regrow_tail(world: World) -> None:
    """Fill the place of the tail with other rows."""
    world.insert("ledger", 1500, 3500, version=4)


def vacuum_full(world: World) -> None:
    """Rewrite a table with VACUUM FULL."""
    world.update("ledger", version=5, every=4)
    world.run("vacuum full ledger")


def cluster_table(world: World) -> None:
    """Rewrite a table in the order of an index."""
    world.run("cluster stock using stock_v")
    world.update("stock", version=2, every=3)


def repack(world: World) -> None:
    """Rewrite tables with REPACK (19), also while another session changes them."""
    if world.server.install.major < REPACK_MAJOR:
        return
    world.run("repack ledger")
    world.update("ledger", version=7, every=3)
    world.run("repack stock using index stock_v")
    world.check()
    if world.wal_is_minimal():
        return
    with ThreadPoolExecutor() as pool, world.server.connect() as other:
        for version in (8, 9):
            rewritten = pool.submit(other.execute, "repack (concurrently) ledger")
            while not rewritten.done():
                world.update("ledger", version=version, every=2)
            rewritten.result()
    world.run("repack (concurrently) stock")
    world.update("stock", version=3, every=2)


def reindex(world: World) -> None:
    """Rebuild indexes, also concurrently."""
    world.run("reindex index ledger_v")
    world.run("reindex table stock")
    world.run("reindex index concurrently ledger_pkey")
    world.update("ledger", version=6, every=7)


def truncate_and_roll_back(world: World) -> None:
    """Truncate and fill a table again, and roll all of it back."""
    before = dict(world.tables["postgres", "ledger"])
    world.run("begin")
    world.run("truncate ledger")
    world.insert("ledger", 1, 800, version=7)
    world.run("rollback")
    world.tables["postgres", "ledger"] = before


def truncate_and_refill(world: World) -> None:
    """Truncate a table and refill it with other rows, in one transaction and in several."""
    world.run("truncate stock")
    world.tables["postgres", "stock"] = {}
    world.insert("stock", 1, 700, version=8)
    world.run("begin")
    world.run("truncate stock")
    world.run("savepoint s")
    world.run("truncate stock")
    world.run("rollback to s")
    world.tables["postgres", "stock"] = {}
    world.insert("stock", 1, 1200, version=9)
    world.run("commit")


def truncate_twice(world: World) -> None:
    """Truncate a table in place, as the transaction that created it does."""
    world.run("begin")
    world.create("brief")
    world.insert("brief", 1, 1500, version=1)
    world.run("truncate brief")
    world.tables["postgres", "brief"] = {}
    world.insert("brief", 1, 900, version=2)
    world.run("commit")


def drop_and_recreate(world: World) -> None:
    """Drop a table and create another one of the same name."""
    world.drop("brief")
    world.run("checkpoint")
    world.create("brief")
    world.insert("brief", 1, 1100, version=3)


def insert_and_roll_back(world: World) -> None:
    """Let a table grow in a transaction that is rolled back, then vacuum the growth away."""
    before = dict(world.tables["postgres", "brief"])
    world.run("begin")
    world.insert("brief", 5000, 7000, version=4)
    world.churn()
    world.run("rollback")
    world.tables["postgres", "brief"] = before
    _vacuum_away(world, "brief")


def copy_freeze(world: World) -> None:
    """Load a table with COPY FREEZE."""
    world.run("begin")
    world.create("frozen")
    with world.session().cursor().copy("copy frozen from stdin (freeze)") as copy:
        for i in range(1, 1301):
            value = value_of(i, 5)
            digest = hashlib.md5(str(value).encode()).hexdigest()
            copy.write_row((i, value, digest * 8))
    world.tables["postgres", "frozen"] = {i: value_of(i, 5) for i in range(1, 1301)}
    world.run("commit")
    world.run("vacuum frozen")


def rewrite_by_alter(world: World) -> None:
    """Rewrite a table by changing a column's type and changing it back."""
    world.run("alter table brief alter v type bigint")
    world.run("alter table brief alter v type int")
    world.update("brief", version=6, every=2)


def refresh_view(world: World) -> None:
    """Refresh a materialized view after its table has changed."""
    world.run("create materialized view digest as select * from brief")
    world.run("create unique index digest_pkey on digest (id)")
    world.run("create index digest_v on digest (v)")
    world.tables["postgres", "digest"] = dict(world.tables["postgres", "brief"])
    world.check()
    world.update("brief", version=7)
    world.run("refresh materialized view digest")
    world.tables["postgres", "digest"] = dict(world.tables["postgres", "brief"])


def make_unlogged(world: World) -> None:
    """Make a table unlogged, change it, make it logged again."""
    world.run("alter table brief set unlogged")
    world.update("brief", version=8, every=2)
    world.churn()
    world.run("alter table brief set logged")
    world.update("brief", version=9, every=3)


def use_other_indexes(world: World) -> None:
    """Build indexes of the other kinds; let them split, become empty and be searched."""
    world.run("create table shapes (id int, place point, words text)")
    # Create them before the rows: so GIN has a pending list, and all pages split.
    for kind in ("hash (id)", "gist (place)", "spgist (place)", "spgist (words)", "brin (id)"):
        world.run(f"create index on shapes using {kind}")
    world.run("create index on shapes using gin (string_to_array(words, ' '))")
    for round_ in (1, 2):
        world.run(
            "insert into shapes select i, point(i % 97, i % 89), md5(i::text) || ' even ' || i % 7"
            " from generate_series({first}, {last}) i",
            first=round_ * 3000,
            last=round_ * 3000 + 2999,
        )
        world.run("delete from shapes where id % 3 = 0")
        world.run("vacuum shapes")
    rows = [i for i in range(3000, 9000) if i % 3]
    for where, expected in (
        ("id = 7001", 1),
        ("place <@ box '((0,0),(9,9))'", sum(i % 97 < 10 and i % 89 < 10 for i in rows)),
        ("string_to_array(words, ' ') @> '{5}'", sum(i % 7 == 5 for i in rows)),
        ("words ^@ 'a'", sum(hashlib.md5(str(i).encode()).hexdigest()[0] == "a" for i in rows)),
    ):
        _assert_count(world, "shapes", where, expected)
    world.run("drop table shapes")


def store_large_values(world: World) -> None:
    """Store and change out-of-line (TOAST) values and large objects."""
    world.run("create table large (id int primary key, body text)")
    world.run("alter table large alter body set storage external")
    world.run("insert into large select i, repeat(md5(i::text), 250) from generate_series(1, 60) i")
    world.run("update large set body = repeat(md5((id + 1)::text), 250) where id % 2 = 0")
    world.run("create table objects as select lo_from_bytea(0, body::bytea) id from large")
    world.run("select lo_truncate(lo_open(id, 131072), 5000) from objects")
    world.run("vacuum full large")
    world.run("vacuum pg_largeobject")
    world.churn()
    _assert_count(world, "large", "body = repeat(md5((id + 1 - id % 2)::text), 250)", 60)
    _assert_count(world, "objects", "length(lo_get(id)) = 5000", 60)
    world.run("select lo_unlink(id) from objects")
    world.run("vacuum pg_largeobject")
    world.run("drop table large, objects")


def _assert_count(world: World, name: str, where: str, expected: int) -> None:
    """Fail unless this many rows are found, by an index if there is one."""
    with world.session().transaction():
        world.run("set local enable_seqscan = off")
        text = sql.SQL("select count(*) from {} where {}").format(
            sql.Identifier(name),
            sql.SQL(where),
        )
        row = world.session().execute(text).fetchone()
    assert row == (expected,), f"{name} where {where}: {row} instead of {expected}"


def rewrite_catalogs(world: World) -> None:
    """Give catalogs new files, including those that only the relation map knows."""
    for name in ("pg_class", "pg_attribute", "pg_index", "pg_database", "pg_authid"):
        world.run("vacuum full {name}", name=name)
    world.run("reindex table pg_class")
    world.run("reindex table pg_authid")


def finish_prepared_transactions(world: World) -> None:
    """Drop and create tables in transactions that are finished after a checkpoint."""
    for name, version in (("early", 1), ("late", 2)):
        world.create(name)
        world.insert(name, 1, 600, version=version)
    world.churn()
    for name in ("early", "late"):
        compare(world.session(), name, world.tables["postgres", name])
    world.run("begin")
    world.run("drop table early")
    world.create("between")
    world.insert("between", 1, 500, version=3)
    world.run("prepare transaction 'committed'")
    world.run("begin")
    world.run("truncate late")
    world.run("insert into late select 1, 1, ''")
    world.run("prepare transaction 'forgotten'")
    world.run("checkpoint")
    world.run("commit prepared 'committed'")
    world.run("rollback prepared 'forgotten'")
    world.run("checkpoint")
    del world.tables["postgres", "early"]


def read_and_build_in_parallel(world: World) -> None:
    """Let parallel workers scan a table and build an index."""
    world.run("alter table late set (parallel_workers = 2)")
    with world.session().transaction():
        for setting in (
            "parallel_setup_cost",
            "parallel_tuple_cost",
            "min_parallel_table_scan_size",
        ):
            world.run("set local {name} = 0", name=setting)
        world.run("create index late_pad on late (pad)")
        world.run("select count(pad) from late")
    world.update("late", version=4, every=2)


def use_maintenance_extensions(world: World) -> None:
    """Prewarm, truncate a visibility map and force a freeze, if contrib is installed."""
    for extension, calls in (
        ("pg_prewarm", "pg_prewarm({name}, 'prefetch'), pg_prewarm({name}, 'read')"),
        ("pg_visibility", "pg_truncate_visibility_map({name})"),
        ("pg_surgery", "heap_force_freeze({name}, array['(0,1)', '(1,1)']::tid[])"),
    ):
        if has_contrib(world.server.install, extension):
            world.run("create extension if not exists {name}", name=extension)
            world.session().execute(query(f"select {calls}".replace("{name}", "'between'")))
    world.run("vacuum between")


def use_other_files(world: World) -> None:
    """Change files of other kinds than tables and their usual indexes."""
    # In one step, since the tables of the model stay as they are.
    use_other_indexes(world)
    store_large_values(world)
    rewrite_catalogs(world)


def use_other_ways(world: World) -> None:
    """Change and read tables in rarely used ways."""
    finish_prepared_transactions(world)
    read_and_build_in_parallel(world)
    use_maintenance_extensions(world)


def use_temporary_tables(world: World) -> None:
    """Use temporary tables larger than their buffers, and drop them."""
    with world.server.connect() as session:
        session.execute("set temp_buffers = '800kB'")
        for version in (1, 2):
            session.execute("create temp table own (id int primary key, v int, pad text)")
            session.execute("create index own_v on own (v)")
            session.execute(
                query(
                    f"insert into own select i, {VALUE}, repeat(md5({VALUE}::text), 8)"
                    " from generate_series(1, 3000) i",
                    version=version,
                )
            )
            compare(session, "own", {i: value_of(i, version) for i in range(1, 3001)})
            session.execute("truncate own")
            compare(session, "own", {})
            session.execute("drop table own")


def make_many_tables(world: World) -> None:
    """Create more files than a session may hold open."""
    for number in range(MANY_TABLES):
        name = f"many_{number}"
        world.create(name)
        world.insert(name, 1, 60 + number, version=number)


def change_many_tables(world: World) -> None:
    """Change each of many files through descriptors that are opened and closed."""
    for number in range(0, MANY_TABLES, 2):
        world.update(f"many_{number}", version=number + 100)
    for number in range(1, MANY_TABLES, 4):
        world.run("truncate {name}", name=f"many_{number}")
        world.tables["postgres", f"many_{number}"] = {}
        world.insert(f"many_{number}", 1, 90, version=number + 200)


def drop_many_tables(world: World) -> None:
    """Drop many tables at once."""
    for number in range(MANY_TABLES):
        world.drop(f"many_{number}")
    world.run("checkpoint")


def move_tables(world: World) -> None:
    """Move a table and an index to another tablespace and change them there."""
    world.create_space("aside")
    world.run("alter table brief set tablespace aside")
    world.run("alter index ledger_v set tablespace aside")
    world.update("brief", version=10)
    world.update("ledger", version=10, every=6)


def move_tables_back(world: World) -> None:
    """Move them back, to the place they came from."""
    world.churn()
    world.run("alter table brief set tablespace pg_default")
    world.run("alter index ledger_v set tablespace pg_default")
    world.update("brief", version=11, every=2)


#: A fixed oid, so that a database created again has files of the same names.
TENANT_OID = 90_000


def _create_tenant(world: World, template: str, strategy: str) -> None:
    world.disconnect(template)
    world.run(
        f"create database tenant oid {TENANT_OID} template {{template}} strategy {strategy}",
        template=template,
    )
    world.copy_model(template, "tenant")


def _drop_tenant(world: World) -> None:
    world.forget_database("tenant")
    world.run("drop database tenant (force)")


def create_templates(world: World) -> None:
    """Create two databases whose files have the same names but different contents."""
    world.run("create database first_kind strategy file_copy")
    world.create("ledger", database="first_kind")
    world.insert("ledger", 1, 1800, version=1, database="first_kind")
    world.run("vacuum", database="first_kind")
    world.disconnect("first_kind")
    world.run("create database second_kind template first_kind strategy wal_log")
    world.copy_model("first_kind", "second_kind")
    world.update("ledger", version=2, database="second_kind")
    world.run("vacuum full ledger", database="second_kind")
    world.update("ledger", version=3, every=3, database="second_kind")


def copy_database_by_wal(world: World) -> None:
    """Create a database with the strategy wal_log."""
    _create_tenant(world, "first_kind", "wal_log")


def recreate_database_by_wal(world: World) -> None:
    """Drop it and create it with other contents, its files having the same names as before."""
    _drop_tenant(world)
    _create_tenant(world, "second_kind", "wal_log")


def recreate_database_by_copy(world: World) -> None:
    """The same, by copying files."""
    _drop_tenant(world)
    _create_tenant(world, "first_kind", "file_copy")
    world.update("ledger", version=4, every=2, database="tenant")


def recreate_database_by_clone(world: World) -> None:
    """The same, by cloning files, if the server can."""
    _drop_tenant(world)
    if world.server.install.major >= 18:
        world.run("set file_copy_method = clone")
    _create_tenant(world, "second_kind", "file_copy")


def move_database(world: World) -> None:
    """Move a database to another tablespace and change it there."""
    world.disconnect("tenant")
    world.create_space("beside")
    world.run("alter database tenant set tablespace beside")
    world.update("ledger", version=5, every=2, database="tenant")


def move_database_back(world: World) -> None:
    """Move it back to its former tablespace."""
    world.check()
    world.disconnect("tenant")
    world.run("alter database tenant set tablespace pg_default")
    world.update("ledger", version=6, every=5, database="tenant")


def drop_databases(world: World) -> None:
    """Drop the databases and the tablespaces."""
    _drop_tenant(world)
    for name in ("first_kind", "second_kind"):
        world.forget_database(name)
        world.run("drop database {name}", name=name)
    world.run("checkpoint")
    for name in ("aside", "beside"):
        world.run("drop tablespace {name}", name=name)


Step = Callable[[World], None]

STEPS: tuple[Step, ...] = (
    load_tables,
    update_rows,
    checkpoint,
    vacuum_tail,
    regrow_tail,
    vacuum_full,
    cluster_table,
    repack,
    reindex,
    truncate_and_roll_back,
    truncate_and_refill,
    truncate_twice,
    drop_and_recreate,
    insert_and_roll_back,
    copy_freeze,
    rewrite_by_alter,
    refresh_view,
    make_unlogged,
    use_other_files,
    use_other_ways,
    use_temporary_tables,
    make_many_tables,
    change_many_tables,
    drop_many_tables,
    move_tables,
    move_tables_back,
    create_templates,
    copy_database_by_wal,
    recreate_database_by_wal,
    recreate_database_by_copy,
    recreate_database_by_clone,
    move_database,
    move_database_back,
    drop_databases,
)
