"""Everything that moves, cuts, copies or replaces relation files, step by step.

STEPS is the list.  A step changes the World through SQL and keeps the World's model of
what each table must now hold, computed in Python and never read back.  After every step
check() reads every table of every database in five ways (sequential scan, two indexes in
order, index-only scan, some single rows in a scattered order) and compares with the model:
once in a session that has had its files open since they were made, and once in a new one.

Before each look, a ballast table of more blocks than shared_buffers holds is read in a
scattered order, so that dirty blocks are written out and the next read of anything is
a read of a file.  Scattered, since the cache takes long runs for scans and does not
keep them.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgflash.lab.account import make_server_dir
from pgflash.lab.server import Server

Connection = psycopg.Connection[tuple[Any, ...]]

#: A row a block: several times the shared_buffers of 1 MB.
BALLAST_ROWS = 300
#: Rows of a table that are read one by one: enough to touch most of its blocks.
SINGLE_ROWS = 150
#: Small relations to wear out the descriptors of a session that may open 64 files.
MANY_TABLES = 40

#: The value of a row, as SQL and as Python see it.
_VALUE = "((i::bigint * 31 + {version} * 1009) % 100003)::int"


def value_of(row_id: int, version: int) -> int:
    """Return what _VALUE computes."""
    return (row_id * 31 + version * 1009) % 100_003


@cache
def _order_of(count: int) -> list[int]:
    order = list(range(count))
    random.Random(count).shuffle(order)
    return order


def scattered(ids: Iterable[int]) -> list[int]:
    """Return the ids in an order that is no scan, the same in every run."""
    listed = sorted(ids)
    return [listed[i] for i in _order_of(len(listed))]


def query(text: str, **names: str | int) -> sql.Composed:
    """Fill numbers and (quoted) names into a statement."""
    values = {
        name: sql.Literal(value) if isinstance(value, int) else sql.Identifier(value)
        for name, value in names.items()
    }
    return sql.SQL(text).format(**values)


@dataclass(slots=True, kw_only=True)
class World:
    """A server, what its tables must hold, and the sessions that look at them."""

    server: Server
    #: Where tablespaces go; None makes them in the data folder, as two servers on one
    #: machine need it.
    space: Path | None
    #: What each table holds: id -> v, by database and name.
    tables: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    _sessions: dict[str, Connection] = field(default_factory=dict)

    # ---- sessions

    def session(self, database: str = "postgres") -> Connection:
        """Return the session that stays open, and with it its files."""
        if database not in self._sessions or self._sessions[database].closed:
            self._sessions[database] = self.server.connect(database)
        return self._sessions[database]

    def disconnect(self, database: str | None = None) -> None:
        """Close the open session of a database, or all of them."""
        for name in [database] if database else list(self._sessions):
            if name in self._sessions:
                with suppress(psycopg.Error):
                    self._sessions.pop(name).close()

    def run(self, text: str, *, database: str = "postgres", **names: str | int) -> None:
        """Run one statement in the open session."""
        self.session(database).execute(query(text, **names))

    # ---- tables and their model

    def create(self, name: str, *, database: str = "postgres", prefix: str = "") -> None:
        """Make an empty table with two indexes."""
        self.run(
            f"create {prefix} table {{name}} (id int primary key, v int not null, pad text)",
            database=database,
            name=name,
        )
        self.run(
            "create index {index} on {name} (v)",
            database=database,
            index=f"{name}_v",
            name=name,
        )
        self.tables[database, name] = {}

    def insert(
        self, name: str, first: int, last: int, *, version: int = 0, database: str = "postgres"
    ) -> None:
        """Add rows with the ids first .. last."""
        self.run(
            f"insert into {{name}} select i, {_VALUE}, repeat(md5({_VALUE}::text), 8)"
            " from generate_series({first}, {last}) i",
            database=database,
            name=name,
            version=version,
            first=first,
            last=last,
        )
        self.tables[database, name] |= {i: value_of(i, version) for i in range(first, last + 1)}

    def update(
        self, name: str, *, version: int, every: int = 1, database: str = "postgres"
    ) -> None:
        """Give each row whose id is a multiple of `every` the value of a version."""
        value = _VALUE.replace("i::", "id::")
        self.run(
            f"update {{name}} set v = {value}, pad = repeat(md5({value}::text), 8)"
            " where id % {every} = 0",
            database=database,
            name=name,
            version=version,
            every=every,
        )
        rows = self.tables[database, name]
        rows.update({i: value_of(i, version) for i in rows if i % every == 0})

    def delete_from(self, name: str, first: int, *, database: str = "postgres") -> None:
        """Delete the rows from an id on."""
        self.run(
            "delete from {name} where id >= {first}", database=database, name=name, first=first
        )
        rows = self.tables[database, name]
        for i in [i for i in rows if i >= first]:
            del rows[i]

    def drop(self, name: str, *, database: str = "postgres") -> None:
        """Drop a table."""
        self.run("drop table {name}", database=database, name=name)
        del self.tables[database, name]

    def forget_database(self, database: str) -> None:
        """Drop a database's session and model."""
        self.disconnect(database)
        for key in [key for key in self.tables if key[0] == database]:
            del self.tables[key]

    def copy_model(self, source: str, target: str) -> None:
        """Let a database hold what another one holds."""
        for (database, name), rows in list(self.tables.items()):
            if database == source:
                self.tables[target, name] = dict(rows)

    def create_space(self, name: str) -> None:
        """Make a tablespace."""
        location = ""
        if self.space is not None:
            location = str(make_server_dir(self.space / name))
        session = self.session()
        session.execute("set allow_in_place_tablespaces = on")
        session.execute(
            sql.SQL("create tablespace {} location {}").format(sql.Identifier(name), location)
        )

    # ---- looking

    def size_bytes(self, name: str) -> int:
        """Return the size of a table's main fork."""
        row = self.session().execute("select pg_relation_size(%s)", (name,)).fetchone()
        assert row is not None
        return int(row[0])

    def churn(self) -> None:
        """Drive everything out of shared_buffers, by way of the ballast."""
        rows = self.tables.get(("postgres", "ballast"))
        if rows:
            read_single_rows(self.session(), "ballast", rows, len(rows))

    def check(self, server: Server | None = None) -> None:
        """Fail unless every table holds what it must, in an old session and in a new one.

        With another server (a standby) its sessions are all new.
        """
        by_database: dict[str, list[str]] = {}
        for database, name in self.tables:
            by_database.setdefault(database, []).append(name)
        for database, names in by_database.items():
            with (server or self.server).connect(database) as fresh:
                for session in [fresh] if server else [self.session(database), fresh]:
                    self.churn()
                    for name in names:
                        if name != "ballast":
                            compare(session, name, self.tables[database, name])


def compare(session: Connection, name: str, rows: dict[int, int]) -> None:
    """Fail unless a table holds exactly these rows, whichever way it is read."""
    ids = (len(rows), sum(rows))
    values = (*ids, sum(rows.values()), sum(i * v for i, v in rows.items()), 0)
    for what, settings, text, expected in _READINGS:
        with session.transaction():
            for setting in settings:
                session.execute(query("set local {name} = off", name=setting))
            got = session.execute(query(text, name=name)).fetchone()
        wanted = values if expected == "values" else ids
        assert got == wanted, f"{what} of {name}: {got} instead of {wanted}"
    read_single_rows(session, name, rows, SINGLE_ROWS)


_SUMS = """count(*), coalesce(sum(id), 0)::bigint, coalesce(sum(v), 0)::bigint,
    coalesce(sum(id::bigint * v), 0)::bigint,
    count(*) filter (where pad is distinct from repeat(md5(v::text), 8))"""

_READINGS = (
    (
        "sequential scan",
        ("enable_indexscan", "enable_bitmapscan", "enable_indexonlyscan"),
        f"select {_SUMS} from {{name}}",
        "values",
    ),
    (
        "scan in the order of id",
        ("enable_seqscan", "enable_bitmapscan", "enable_sort"),
        f"select {_SUMS} from (select * from {{name}} where id > -1 order by id) t",
        "values",
    ),
    (
        "scan in the order of v",
        ("enable_seqscan", "enable_bitmapscan", "enable_sort"),
        f"select {_SUMS} from (select * from {{name}} where v > -1 order by v) t",
        "values",
    ),
    (
        "index-only scan",
        ("enable_seqscan", "enable_bitmapscan"),
        "select count(*), coalesce(sum(id), 0)::bigint from {name} where id > -1",
        "ids",
    ),
)


def read_single_rows(session: Connection, name: str, rows: dict[int, int], count: int) -> None:
    """Fail unless so many of these rows, read one by one in a scattered order, are right."""
    order = scattered(rows)[:count]
    with session.transaction():
        # A row at a time, by its index, in the order of the array.
        for setting in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "enable_sort"):
            session.execute(query("set local {name} = off", name=setting))
        got = session.execute(
            query(
                "select count(*), coalesce(sum(t.v::bigint * w.place), 0)::bigint"
                " from unnest(%s::int[]) with ordinality w (id, place)"
                " join {name} t on t.id = w.id",
                name=name,
            ),
            (order,),
        ).fetchone()
    wanted = (len(order), sum(rows[i] * place for place, i in enumerate(order, start=1)))
    assert got == wanted, f"single rows of {name}: {got} instead of {wanted}"


# ---- the steps; each begins with what its docstring says


def load_tables(world: World) -> None:
    """Load the tables."""
    world.create("ballast")
    # Two rows to a block; then every second is deleted.
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
    """Update rows, a part of them twice."""
    world.update("ledger", version=1, every=2)
    world.update("ledger", version=2, every=3)
    world.update("stock", version=1)


def checkpoint(world: World) -> None:
    """Let the checkpointer write, whose descriptors are its own."""
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
    world.run("vacuum (freeze, truncate) {name}", name=name)
    assert world.size_bytes(name) < before, f"{name} was not truncated"


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


def reindex(world: World) -> None:
    """Rebuild indexes, also concurrently."""
    world.run("reindex index ledger_v")
    world.run("reindex table stock")
    world.run("reindex index concurrently ledger_pkey")
    world.update("ledger", version=6, every=7)


def truncate_and_roll_back(world: World) -> None:
    """Truncate and fill a table anew, and roll all of it back."""
    before = dict(world.tables["postgres", "ledger"])
    world.run("begin")
    world.run("truncate ledger")
    world.insert("ledger", 1, 800, version=7)
    world.run("rollback")
    world.tables["postgres", "ledger"] = before


def truncate_and_refill(world: World) -> None:
    """Truncate a table and fill it with other rows, in one transaction and without."""
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
    """Truncate a table in place, as a transaction that made it does."""
    world.run("begin")
    world.create("brief")
    world.insert("brief", 1, 1500, version=1)
    world.run("truncate brief")
    world.tables["postgres", "brief"] = {}
    world.insert("brief", 1, 900, version=2)
    world.run("commit")


def drop_and_recreate(world: World) -> None:
    """Drop a table and make another one of its name."""
    world.drop("brief")
    world.run("checkpoint")
    world.create("brief")
    world.insert("brief", 1, 1100, version=3)


def insert_and_roll_back(world: World) -> None:
    """Let a table grow in vain, then vacuum the growth away."""
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
    """Rewrite a table by changing a column's type there and back."""
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


def use_temporary_tables(world: World) -> None:
    """Use temporary tables larger than their buffers, and drop them."""
    with world.server.connect() as session:
        session.execute("set temp_buffers = '800kB'")
        for version in (1, 2):
            session.execute("create temp table own (id int primary key, v int, pad text)")
            session.execute("create index own_v on own (v)")
            session.execute(
                query(
                    f"insert into own select i, {_VALUE}, repeat(md5({_VALUE}::text), 8)"
                    " from generate_series(1, 3000) i",
                    version=version,
                )
            )
            compare(session, "own", {i: value_of(i, version) for i in range(1, 3001)})
            session.execute("truncate own")
            compare(session, "own", {})
            session.execute("drop table own")


def make_many_tables(world: World) -> None:
    """Make more files than a session may hold open."""
    for number in range(MANY_TABLES):
        name = f"many_{number}"
        world.create(name)
        world.insert(name, 1, 60 + number, version=number)


def change_many_tables(world: World) -> None:
    """Change each of many files through descriptors that come and go."""
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


#: A number of its own, so that a database made again has the same files' names.
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
    """Make two databases whose files have the same names and other contents."""
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
    """Make a database by way of the WAL."""
    _create_tenant(world, "first_kind", "wal_log")


def recreate_database_by_wal(world: World) -> None:
    """Drop it and make it of other contents, its files under the names they had."""
    _drop_tenant(world)
    _create_tenant(world, "second_kind", "wal_log")


def recreate_database_by_copy(world: World) -> None:
    """Do that again by copying files."""
    _drop_tenant(world)
    _create_tenant(world, "first_kind", "file_copy")
    world.update("ledger", version=4, every=2, database="tenant")


def recreate_database_by_clone(world: World) -> None:
    """Do that again by cloning files, where the server can."""
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
    """Move it back to the place it came from."""
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
