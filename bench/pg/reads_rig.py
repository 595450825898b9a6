# SPDX-License-Identifier: PostgreSQL
"""The common base of reads.py and scans.py: a server, its tables, and how they get to flash."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import Connection

from pgflash.errors import PgflashError
from pgflash_lab.emulator import Emulator
from pgflash_lab.server import Server

BLOCK = 8192
MB = 1 << 20
DEADLINE_MS = 50

#: The part of its time that the disk takes while a table comes to flash: 0.3 ms a read.
WARMING = 0.05

#: Fewer buffers than a table has blocks.  A scan may pin its share of them, so few
#: connections: with less memory a scan does not look far enough ahead to keep io workers busy.
SETTINGS = {
    "shared_buffers": "128MB",
    "max_connections": "10",
    "max_worker_processes": "8",
    "autovacuum": "off",
    "fsync": "off",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "max_parallel_workers_per_gather": "0",
    "synchronize_seqscans": "off",
    "jit": "off",
}


class ReadsBenchError(PgflashError):
    """The situation that was to be measured did not occur."""


@dataclass(slots=True, kw_only=True)
class Bench:
    """One server, its devices, and the place of its cache file."""

    server: Server
    emulator: Emulator
    cache_file: Path
    cache_mb: int

    @contextmanager
    def session(
        self,
        *,
        cache: bool = False,
        emulated: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> Iterator[Connection[Any]]:
        """Start the server with or without the cache, its buffers empty; stop it afterwards."""
        chosen = {
            "shared_preload_libraries": "pgflash",
            "pgflash.cache_file": str(self.cache_file),
            "pgflash.cache_size": f"{self.cache_mb}MB",
            "pgflash.read_deadline": f"{DEADLINE_MS}ms",
        }
        self.server.configure({**(chosen if cache else dict.fromkeys(chosen)), **(settings or {})})
        self.server.start(self.emulator.env if emulated else {})
        with self.server.connect() as connection:
            connection.autocommit = True
            yield connection
        self.server.stop()
        self.server.configure(dict.fromkeys(settings or {}))


def make_table(connection: Connection[Any], name: str, megabytes: int, space: str = "") -> int:
    """Make a table of one row a block; return its blocks."""
    blocks = megabytes * MB // BLOCK
    connection.execute(
        f"create table {name} (number bigint, pad text) with (fillfactor = 10)"
        + (f" tablespace {space}" if space else "")
    )
    connection.execute(f"alter table {name} alter pad set storage plain")
    connection.execute(
        f"insert into {name} select i, repeat('x', 7000) from generate_series(0, {blocks - 1}) i"
    )
    connection.execute(f"vacuum (freeze) {name}")
    return blocks


def pick(connection: Connection[Any], name: str, block: int) -> None:
    connection.execute(f"select 1 from {name} where ctid = '({block},1)'").fetchone()


def read_scattered(connection: Connection[Any], name: str, blocks: int) -> None:
    """Read all blocks one by one in random order, since only scans are kept off flash."""
    connection.execute(
        f"do $$ begin for i in 0..{blocks - 1} loop"
        f" perform 1 from {name} where ctid = format('(%s,1)', i::bigint * 7919 % {blocks})::tid;"
        " end loop; end $$"
    )


def warm(bench: Bench, connection: Connection[Any], blocks: int) -> None:
    """Bring all of the table `warm` to flash, while the disk is faster than usual.

    Without any delay it would be faster than flash, which would then be left alone.
    Of ten tables that fill much of a cache one has more blocks in some set than the set
    has ways.  Rewritten, its blocks come to other sets.
    """
    bench.emulator.on()
    bench.emulator.slow("disk", factor=WARMING)
    share = 0.0
    for attempt in range(16):
        if attempt and attempt % 4 == 0:
            connection.execute("vacuum (full, freeze) warm")
            connection.execute("checkpoint")
        read_scattered(connection, "warm", blocks)
        time.sleep(1)  # blocks on their way to flash arrive
        share = cached_share(connection, blocks)
        if share == 1:
            bench.emulator.slow("disk", factor=1)
            return
    raise ReadsBenchError(f"only {share:.2%} of the table came to flash")


def cached_share(connection: Connection[Any], blocks: int) -> float:
    row = connection.execute(
        "select coalesce(sum(cached_blocks), 0) from pgflash_relations"
        " where relation = 'warm'::regclass and fork = 'main'"
    ).fetchone()
    assert row is not None
    return float(row[0]) / blocks


def scan_mb_s(connection: Connection[Any], name: str, blocks: int) -> float:
    """Scan a table; return the speed."""
    began = time.monotonic()
    connection.execute(f"select count(*) from {name}").fetchone()
    return blocks * BLOCK / 1e6 / (time.monotonic() - began)
