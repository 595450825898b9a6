# SPDX-License-Identifier: PostgreSQL
"""The common base of both parts of restart.py: a server, a table, and how it gets to flash."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import Connection

from pgflash.errors import PgflashError
from pgflash_lab.leftovers import forget_memory
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server

MEMORY = Path("/dev/shm")
BLOCK = 8192
MB = 1 << 20
GB = 1 << 30
WARM_SHARE = 0.97
ROWS_PER_BLOCK = 6

SETTINGS = {
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "log_line_prefix": "%n ",
    "jit": "off",
}


class RestartBenchError(PgflashError):
    """A restart was of another kind than the one to be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The amount of everything."""

    geometry_gb: int
    rounds: int
    mapped_mb: int
    loaded_mb: int
    before_s: int
    warm_s: int
    cold_s: int


def make_table(connection: Connection[Any], megabytes: int) -> None:
    """Make the table `item`, with room for an update in each block."""
    rows = megabytes * MB // BLOCK * ROWS_PER_BLOCK
    with connection.transaction():
        connection.execute("create table item (i int, v int, pad text) with (fillfactor = 85)")
        connection.execute("alter table item alter pad set storage plain")
        connection.execute(
            f"insert into item select i, 0, repeat('x', 1000) from generate_series(1, {rows}) i"
        )
    connection.execute("alter table item add primary key (i)")
    connection.execute("vacuum (freeze, analyze) item")
    connection.execute("create extension pgflash")
    connection.execute("checkpoint")


def warm(connection: Connection[Any]) -> None:
    """Read all blocks in random order, since scans do not fill, until they are on flash."""
    for _ in range(8):
        row = connection.execute(
            "select pg_relation_size('item') / 8192, coalesce(sum(cached_blocks), 0)"
            " from pgflash_relations where relation = 'item'::regclass and fork = 'main'"
        ).fetchone()
        assert row is not None
        blocks, cached = int(row[0]), int(row[1])
        if cached >= WARM_SHARE * blocks:
            return
        connection.execute(
            f"do $$ begin for n in 0..{blocks - 1} loop perform 1 from item"
            f" where ctid = format('(%s,1)', n::bigint * 7919 % {blocks})::tid;"
            " end loop; end $$"
        )
        time.sleep(1)  # blocks on their way to flash arrive
    raise RestartBenchError("the table does not come to flash")


def one_value(connection: Connection[Any], what: str) -> Any:  # noqa: ANN401
    """Return a column of pgflash_cache."""
    row = connection.execute(f"select {what} from pgflash_cache").fetchone()
    assert row is not None
    return row[0]


def expect(connection: Connection[Any], reason: str) -> None:
    """Fail unless the cache started as intended."""
    found = str(one_value(connection, "start_reason"))
    if not found.startswith(reason):
        raise RestartBenchError(f'the cache is "{found}", not "{reason}"')


@contextmanager
def connected(server: Server) -> Iterator[Connection[Any]]:
    with server.connect() as connection:
        connection.autocommit = True
        yield connection


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder in memory that the server's user can enter."""
    with tempfile.TemporaryDirectory(prefix="pgflash-bench-", dir=MEMORY) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def made_server(install: PgInstall, folder: Path) -> Iterator[Server]:
    """Yield a server that leaves nothing behind."""
    server = Server.create(install, folder / "server", settings=SETTINGS)
    try:
        with server:
            yield server
    finally:
        forget_memory(server.data)
