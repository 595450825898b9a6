# SPDX-License-Identifier: PostgreSQL
"""Restarts of a server whose cache should stay warm, and of one whose cache must not.

A table is read until it is cached; the server is stopped, its files may be changed, and it starts
again.  The counters show whether the cache was warm: hits and misses of the table, which
shared_buffers cannot hold.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.patience import eventually

#: Rows of the table `item`; four to a block.
ROWS = 4000
BLOCKS_MIN = ROWS // 5

#: Only a server that syncs saves a map.
SYNCED = {"fsync": "on"}


@dataclass(slots=True, frozen=True, kw_only=True)
class Reads:
    """The reads caused by reading the table once: blocks of it, and of its index."""

    hits: int
    misses: int
    digest: str


def create_warm(
    cluster: ClusterFactory,
    install: PgInstall,
    *,
    settings: Mapping[str, str] | None = None,
    preloads: Sequence[Path] = (),
    preload_env: Mapping[str, str] | None = None,
) -> CachedServer:
    """Return a server whose table `item` is cached."""
    cached = create_cached(
        cluster,
        install,
        settings={
            **SYNCED,
            "bgwriter_lru_maxpages": "0",
            "checkpoint_timeout": "1h",
            **(settings or {}),
        },
        preloads=preloads,
        preload_env=preload_env,
    )
    with cached.server.connect() as session:
        session.execute("create table item (i int primary key, v int, pad text)")
        session.execute("alter table item set (autovacuum_enabled = off)")
        session.execute(
            "insert into item select i, 0, repeat('x', 1800) from generate_series(1, %s) i", [ROWS]
        )
    with cached.server.connect() as session:
        session.autocommit = True
        session.execute("vacuum (freeze, analyze) item")
        session.execute("checkpoint")
    until_cached(cached)
    return cached


def until_cached(cached: CachedServer) -> None:
    """Read the table until it is cached: a writer that is late leaves blocks out."""

    def is_cached() -> bool:
        reads = read_table(cached)
        return reads.hits >= BLOCKS_MIN and reads.misses <= BLOCKS_MIN // 100

    assert eventually(is_cached)


def read_table(cached: CachedServer) -> Reads:
    """Read every row of the table, one at a time, and return the reads that this caused."""
    with cached.server.connect() as session:
        before = _count_reads(session)
        # Row by row in random order, by the index: scans do not fill.
        for setting in ("seqscan", "bitmapscan", "hashjoin", "mergejoin", "memoize"):
            session.execute(f"set enable_{setting} = off")
        row = session.execute(
            "select md5(string_agg(i || ':' || v || ':' || length(pad), ',' order by i))"
            " from (select i from generate_series(1, %s) i order by md5(i::text) offset 0) k"
            " join item using (i)",
            [ROWS],
        ).fetchone()
        assert row is not None
        after = _count_reads(session)
    return Reads(
        hits=after[0] - before[0],
        misses=after[1] - before[1],
        digest=str(row[0]),
    )


def _count_reads(session: psycopg.Connection[tuple[Any, ...]]) -> tuple[int, int]:
    """Return hits and misses of the table and its index, without the catalogs."""
    row = session.execute(
        "select coalesce(sum(hits), 0)::int, coalesce(sum(misses), 0)::int"
        " from pgflash_relations where relation in ('item'::regclass, 'item_pkey'::regclass)"
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def crash(cached: CachedServer) -> None:
    """Kill the postmaster and wait until all its children are gone."""
    children = cached.server.child_pids()
    cached.server.kill_postmaster()
    assert eventually(lambda: not any(is_alive(pid) for pid in children))


def forget_memory(cached: CachedServer) -> bool:
    """Remove what a killed server left in shared memory; say whether there was any."""
    found = memory_of(cached)
    for path in found:
        path.unlink()
    return found != []


def memory_of(cached: CachedServer) -> list[Path]:
    """Return the parts of a server's memory that outlive it."""
    return list(Path("/dev/shm").glob(f"pgflash.*.{cached.server.data.stat().st_ino:x}"))


def kill_backend(cached: CachedServer, *, mode: str = "serve") -> None:
    """Kill a backend, so that the postmaster restarts all processes; wait for the cache's mode."""
    with cached.server.connect() as session:
        row = session.execute("select pg_backend_pid()").fetchone()
        assert row is not None
        os.kill(row[0], signal.SIGKILL)
        assert eventually(lambda: not is_alive(int(row[0])))
    assert eventually(lambda: is_in(cached, mode)), cached.server.log_text()[-3000:]


def is_alive(pid: int) -> bool:
    """Say whether a process exists."""
    return Path(f"/proc/{pid}").exists()


def is_loaded(cached: CachedServer) -> bool:
    """Say whether the saved map has been loaded, as far as it is valid."""
    return "the saved map is loaded" in cached.server.log_text(since_start=True)


def serves(cached: CachedServer) -> bool:
    """Say whether the server takes connections and its cache serves."""
    return is_in(cached, "serve")


def is_in(cached: CachedServer, mode: str) -> bool:
    """Say whether the server takes connections, and its cache is in this mode."""
    try:
        return bool(cached.view()["mode"] == mode)
    except Exception:
        return False


def start_again(cached: CachedServer) -> str:
    """Start a stopped or killed server; return why its cache is warm or cold."""
    cached.start()
    assert eventually(lambda: serves(cached)), cached.server.log_text()[-3000:]
    return str(cached.view()["start_reason"])


def assert_true(cached: CachedServer) -> None:
    """Fail if a hit differed from its file, or any cached block does now."""
    cached.assert_serving()
    compared, mismatched = cached.verify()
    assert mismatched == 0, f"{mismatched} of {compared} cached blocks are not their file's"
    cached.assert_serving()


def path_of(cached: CachedServer, relation: str = "item") -> Path:
    """Return the path of a relation's first segment."""
    with cached.server.connect() as session:
        row = session.execute("select pg_relation_filepath(%s)", [relation]).fetchone()
    assert row is not None
    return Path(cached.server.data) / str(row[0])
