# SPDX-License-Identifier: PostgreSQL
"""The server is killed while a process writes: that file is cold, for its block may be old.

A block is read between the announcement of its change and the write, when it is still the
old one: the end of the change drops it from the cache.  The writer is killed before that
end, but after it has written, and others have written to the same file and stamped it.

Such a block would be rewritten in recovery if its change were in the WAL.  Hint bits are
not, without data checksums: so here the old block would stay.
"""

import threading
from collections.abc import Callable
from contextlib import suppress

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, has_contrib
from support.cluster import ClusterFactory
from support.hold import Hold
from support.patience import eventually
from support.power import kill_all
from support.warm import assert_true, create_warm, path_of, read_table, start_again

InstallOf = Callable[[str], PgInstall]

#: Rows of the table `hinted`; four to a block.
ROWS = 80


def read_first_block(cached: CachedServer) -> int:
    """Read a block past shared_buffers; return how many hits that was."""
    before = int(cached.view()["hits"])
    with cached.server.connect() as session:
        session.execute("select pg_prewarm('hinted', 'read', 'main', 0, 0)")
    return int(cached.view()["hits"]) - before


def is_first_block_cached(cached: CachedServer) -> bool:
    """Read the block until it comes from the cache, and from nowhere else."""
    return eventually(lambda: read_first_block(cached) > 0)


def checkpoint(cached: CachedServer) -> None:
    """Request a checkpoint that no process lives to complete."""
    with suppress(psycopg.Error), cached.server.connect() as session:
        session.execute("checkpoint")


def kill_in_flight(cluster: ClusterFactory, install: PgInstall) -> CachedServer:
    """Return a server that was killed as described above, and started again, warm."""
    if not has_contrib(install, "pg_prewarm"):
        pytest.skip(f"PostgreSQL {install.version} came without pg_prewarm")
    cached = create_warm(cluster, install)
    cached.server.stop()
    cached.server.run(["pg_checksums", "--disable", "-D", cached.server.data])
    hold = Hold.build(cached.server.base)
    cached.preloads = (hold.library,)
    cached.preload_env = hold.env
    start_again(cached)
    with cached.server.connect() as session:
        session.execute("create extension pg_prewarm")
        session.execute("create table hinted (i int, pad text)")
        session.execute(
            "insert into hinted select i, repeat('x', 1800) from generate_series(1, %s) i", [ROWS]
        )
        session.execute("checkpoint")
    assert is_first_block_cached(cached)

    with cached.server.connect() as session:
        session.execute("select count(*) from hinted")
    hold.hold(path_of(cached, "hinted"), last=0)
    checkpointing = threading.Thread(target=checkpoint, args=(cached,))
    checkpointing.start()
    try:
        assert hold.stands_before()
        assert is_first_block_cached(cached), "the old block was not read"
        assert hold.write()
        # Writes the table's other blocks, to make room.
        read_table(cached)
    finally:
        kill_all(cached.server)
        checkpointing.join()
    hold.end()
    assert start_again(cached).startswith("warm: its memory")
    return cached


def test_a_file_with_a_writer_in_flight_is_dropped(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = kill_in_flight(cluster, pgflash_install)
    read_first_block(cached)
    assert_true(cached)
    assert cached.view()["files_kept"] > 0


def test_control_an_old_block_outlives_a_writer_that_is_not_counted(
    cluster: ClusterFactory, broken_install: InstallOf
) -> None:
    cached = kill_in_flight(cluster, broken_install("IN_FLIGHT"))
    read_first_block(cached)
    _, mismatched = cached.verify()
    assert mismatched + cached.view()["verify_mismatches"] > 0
