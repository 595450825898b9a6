# SPDX-License-Identifier: PostgreSQL
"""A server that counts all its reads, and queries of these counts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.items import create_items
from support.patience import eventually

Row = dict[str, Any]

#: So small that a table of some megabytes is read again and again.
SETTINGS = {
    "shared_preload_libraries": "pgflash",
    "shared_buffers": "1MB",
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "track_io_timing": "on",
    "track_wal_io_timing": "on",
    "fsync": "on",
    "bgwriter_lru_maxpages": "0",
    "checkpoint_timeout": "1h",
    "max_wal_size": "4GB",
    # No other process may read meanwhile.
    "pgflash.snapshot_interval": "0",
    "pgflash.sample_rate": "0",
}
ROWS = 20_000


def read_by_sessions(install: PgInstall, settings: dict[str, str]) -> dict[str, str]:
    """Return the settings with which a session makes its reads itself."""
    return {**settings, "io_method": "sync"} if install.major >= 18 else settings


@contextmanager
def counted_server(install: PgInstall) -> Iterator[Server]:
    """Return a server with the table, whose sessions make their reads themselves."""
    factory = ClusterFactory(install)
    made = factory(settings=read_by_sessions(install, SETTINGS))
    with made.connect() as connection:
        connection.execute("create extension pgflash")
        create_items(connection, ROWS)
    yield made
    factory.close()


def session(server: Server) -> psycopg.Connection[Any]:
    """Return a session in which each statement is a transaction."""
    connection = server.connect()
    connection.autocommit = True
    return connection


def rows(connection: psycopg.Connection[Any], query: str) -> list[Row]:
    cursor = connection.execute(query)
    assert cursor.description is not None
    names = [column.name for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def io(connection: psycopg.Connection[Any]) -> dict[tuple[str, ...], Row]:
    """Return pgflash_io by its key."""
    key = ("backend_type", "file_class", "operation", "source")
    return {
        tuple(row[name] for name in key): row
        for row in rows(connection, "select * from pgflash_io")
    }


def total(
    counts: dict[tuple[str, ...], Row],
    number: str,
    *,
    before: dict[tuple[str, ...], Row] | None = None,
    backend_type: str | None = None,
    classes: tuple[str, ...] = ("data",),
    operations: tuple[str, ...] = ("read",),
) -> float:
    """Return the sum of a number over rows of pgflash_io, less its earlier value."""

    def one(of: dict[tuple[str, ...], Row]) -> float:
        return sum(
            float(row[number])
            for row in of.values()
            if backend_type in (None, row["backend_type"])
            and row["file_class"] in classes
            and row["operation"] in operations
        )

    return one(counts) - (one(before) if before is not None else 0)


def blocks(connection: psycopg.Connection[Any], name: str, kind: str = "read") -> int:
    """Return the number of blocks of a relation that were read, all its forks together."""
    size = one(
        connection,
        f"select sum({kind}_bytes) from pgflash_io_relations where relation = '{name}'"
        " and database_oid <> 0",
    )
    assert size % 8192 == 0
    return int(size) // 8192


def relation(connection: psycopg.Connection[Any], name: str) -> Row:
    """Return the row of a relation's main fork."""
    (row,) = rows(
        connection,
        "select * from pgflash_io_relations"
        f" where relation = '{name}' and fork = 'main' and database_oid <> 0",
    )
    return row


def one(connection: psycopg.Connection[Any], query: str) -> Any:  # noqa: ANN401
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def wait_until_alone(*sessions: psycopg.Connection[Any]) -> None:
    """Wait until other sessions have ended: only then does PostgreSQL count all that they did."""
    query = "select count(*) from pg_stat_activity where backend_type = 'client backend'"
    assert eventually(lambda: one(sessions[0], query) == len(sessions))


def load(connection: psycopg.Connection[Any], *, updates: int = 300) -> None:
    """Read the table, look rows up, and change some, all over the table."""
    connection.execute("select count(*) from item")
    for i in range(updates):
        connection.execute(
            "update item set pad = repeat('y', 500) where id = %s", [i * 7919 % ROWS + 1]
        )
    # Numbers need no TOAST table; pg_stat_io does not see PostgreSQL making its index.
    connection.execute("create temp table spill as select id, -id as o from item order by pad, o")
    connection.execute("drop table spill")


def flush(connection: psycopg.Connection[Any]) -> None:
    """Make a session's own statistics visible at once."""
    connection.execute("select pg_stat_force_next_flush()")
    connection.execute("select 1")
