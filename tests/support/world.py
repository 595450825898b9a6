# SPDX-License-Identifier: PostgreSQL
"""A server, the expected contents of its tables, and the sessions that read them.

The World keeps a model of what each table must now contain, computed in Python and never read back.
check() reads every table of every database in five ways (sequential scan, two indexes in order,
index-only scan, some single rows in a scattered order) and compares the results with the model:
once in a session that has had its files open since they were created, and once in a new session.

Before each check, a ballast table of more blocks than shared_buffers holds is read in a scattered
order, so that dirty blocks are written out and the next read of anything is a read of a file.  The
order is scattered because the cache takes long runs for scans and does not keep them.
"""

import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgflash_lab.account import make_server_dir
from pgflash_lab.server import Server

Connection = psycopg.Connection[tuple[Any, ...]]

#: A row a block: several times the shared_buffers of 1 MB.
BALLAST_ROWS = 300
#: Number of a table's rows that are read one by one: enough to touch most of its blocks.
SINGLE_ROWS = 150
#: The value of a row, in SQL and in Python.
VALUE = "((i::bigint * 31 + {version} * 1009) % 100003)::int"


def value_of(row_id: int, version: int) -> int:
    """Return what VALUE computes."""
    return (row_id * 31 + version * 1009) % 100_003


@cache
def _order_of(count: int) -> list[int]:
    order = list(range(count))
    random.Random(count).shuffle(order)
    return order


def scattered(ids: Iterable[int]) -> list[int]:
    """Return the ids in an order that does not look like a scan, the same in every run."""
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
    """A server, the expected contents of its tables, and the sessions that read them."""

    server: Server
    #: The folder of tablespaces; None creates them in the data folder, which two servers on one
    #: machine require.
    space: Path | None
    #: The expected content of each table: id -> v, by database and name.
    tables: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    _sessions: dict[str, Connection] = field(default_factory=dict)

    # ---- sessions

    def session(self, database: str = "postgres") -> Connection:
        """Return the session that stays open and keeps its files open."""
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
        """Create an empty table with two indexes."""
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
            f"insert into {{name}} select i, {VALUE}, repeat(md5({VALUE}::text), 8)"
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
        value = VALUE.replace("i::", "id::")
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
        """Delete the rows with this id or a later one."""
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
        """Give a database the model of another one."""
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

    # ---- checks

    def size_bytes(self, name: str) -> int:
        """Return the size of a table's main fork."""
        row = self.session().execute("select pg_relation_size(%s)", (name,)).fetchone()
        assert row is not None
        return int(row[0])

    def wal_is_minimal(self) -> bool:
        """Say whether the server writes too little WAL for what decodes it."""
        return self.session().execute("show wal_level").fetchone() == ("minimal",)

    def churn(self) -> None:
        """Push everything out of shared_buffers by reading the ballast."""
        rows = self.tables.get(("postgres", "ballast"))
        if rows:
            read_single_rows(self.session(), "ballast", rows, len(rows))

    def check(self, server: Server | None = None) -> None:
        """Fail unless every table has its expected content, in an old session and in a new one.

        If another server (a standby) is given, all of its sessions are new.
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
    """Fail unless this many rows, read one by one in a scattered order, are right."""
    order = scattered(rows)[:count]
    with session.transaction():
        # One row at a time, by its index, in the order of the array.
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
