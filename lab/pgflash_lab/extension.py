# SPDX-License-Identifier: PostgreSQL
"""The extension in the lab's servers: whether it is installed and serving, and its cache full."""

import time
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg
from psycopg.rows import dict_row

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from pgflash_lab.workload import DATABASE, MeasureError

_SERVING_WAIT_S = 30.0
#: Each round leaves out fewer blocks than the previous one; the last rounds only a handful.
PREFILL_ROUNDS_MAX = 20

#: Including catalogs and the free space and visibility maps: the load reads them as well.
_READ_EACH_BLOCK = """
select count(pg_prewarm(c.oid::regclass, 'read', f, b, b))
  from pg_class c,
       unnest(array['main', 'fsm', 'vm']) f,
       generate_series(0, pg_relation_size(c.oid, f) / current_setting('block_size')::int - 1) b
 where c.relkind in ('r', 'i', 't') and c.relpersistence = 'p'
"""

_DATABASE_BLOCKS = """
select (pg_database_size(current_database()) + pg_tablespace_size('pg_global'))
       / current_setting('block_size')::int,
       coalesce(sum(cached_blocks), 0)::bigint,
       coalesce(sum(misses), 0)::bigint
  from pgflash_relations
"""


class Connects(Protocol):
    """A server that takes connections."""

    def connect(self, dbname: str) -> psycopg.Connection[tuple[Any, ...]]:
        """Connect to a database as superuser; each statement commits itself."""

    def conninfo(self, dbname: str) -> str:
        """Return a connection string of a database."""


def has_extension(install: PgInstall) -> bool:
    """Tell whether the extension is installed in a PostgreSQL."""
    library = install.pkglibdir / "pgflash.so"
    return library.exists() and (install.sharedir / "extension" / "pgflash.control").exists()


def can_prefill(install: PgInstall) -> bool:
    """Tell whether the cache can be filled before a load, which needs pg_prewarm."""
    return (install.sharedir / "extension" / "pg_prewarm.control").exists()


def create_extension(server: Server, *, statements: bool) -> None:
    """Create the extension."""
    with server.connect(DATABASE) as connection:
        connection.execute("create extension if not exists pgflash")
        if statements:
            connection.execute("create extension if not exists pg_stat_statements")


def require_serving(server: Connects) -> None:
    """Refuse to measure a flash cache that is missing."""
    deadline = time.monotonic() + _SERVING_WAIT_S
    while True:
        row = cache_row(server)
        if row["mode"] == "serve":
            return
        if time.monotonic() > deadline:
            raise MeasureError(
                f"the flash cache does not serve: its mode is {row['mode']} "
                f"({row['mode_reason'] or 'no reason given'})",
                hint="The server's log says more about the cache file.",
            )
        time.sleep(0.05)


def prefill(server: Server) -> None:
    """Read each block of the database, one at a time: runs of blocks are not admitted.

    This follows the warm-up, which at full speed changes blocks faster than the cache takes them
    in again.  It reads past shared_buffers, which keep what the warm-up has brought.

    Repeat this as long as reading outruns the cache's writer, whose ring then is full: the blocks
    that were left out miss again, while cached blocks are not read from the disk.
    """
    with server.connect(DATABASE) as connection:
        connection.execute("create extension if not exists pg_prewarm")
        left_out = _left_out(connection)
        for _ in range(PREFILL_ROUNDS_MAX):
            connection.execute(_READ_EACH_BLOCK)
            before, left_out = left_out, _left_out(connection)
            if left_out == before:
                break
        connection.execute("drop extension pg_prewarm")


def _left_out(connection: psycopg.Connection[Any]) -> int:
    """Return how many blocks were not put into the cache because its ring was full."""
    row = connection.execute(
        "select insert_skip_writer_overloaded from pgflash_cache_row()"
    ).fetchone()
    assert row is not None
    return int(row[0])


@dataclass(frozen=True, slots=True)
class DatabaseBlocks:
    """Blocks of the load's database, and of the catalogs that all databases share."""

    #: Those of its files.
    all: int
    #: Those of them that are cached.
    cached: int
    #: Times that one of them was not read from flash, since the server's start.
    misses: int


def database_blocks(server: Server) -> DatabaseBlocks:
    """Count the blocks of the load's database, and what the cache says of them."""
    with server.connect(DATABASE) as connection:
        row = connection.execute(_DATABASE_BLOCKS).fetchone()
    assert row is not None
    return DatabaseBlocks(*(int(number) for number in row))


def cache_row(server: Connects) -> dict[str, Any]:
    """Return the view pgflash_cache."""
    with psycopg.connect(
        server.conninfo(DATABASE),
        row_factory=dict_row,
        autocommit=True,
        application_name="pgflash lab",
    ) as connection:
        row = connection.execute("select * from pgflash_cache").fetchone()
    if row is None:
        raise MeasureError("the view pgflash_cache has no row")
    return row
