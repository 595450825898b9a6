# SPDX-License-Identifier: PostgreSQL
"""A server that was built with liburing reads by io_uring in all tests, and is served so.

The other tests of this room test the cache under io_uring: such a server passes them like any other
(support/uring.py). This one only makes sure that it does use io_uring.
"""

import random
from typing import Any

import pytest
from psycopg import Connection

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.items import create_items, settle
from support.patience import eventually
from support.uring import has_uring, reads_by_uring, uring_forbidden

#: Half a kilobyte each: several times the blocks of shared_buffers.
ROWS = 15000
#: Of these, each in a block of its own, some blocks from the next.
IDS = range(1, ROWS, 45)
SCATTERED = f"from item where id = any(array(select generate_series(1, {ROWS}, {IDS.step})))"


@pytest.mark.extension
def test_a_server_with_liburing_reads_by_it_and_is_served(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    if has_uring(pgflash_install) and uring_forbidden():
        pytest.skip(f"reads by io_uring: it is forbidden here ({uring_forbidden()})")
    cached = create_cached(cluster, pgflash_install)
    with cached.server.connect() as connection:
        used = connection.execute("select setting from pg_settings where name = 'io_method'")
        before_18 = pgflash_install.major < 18
        expected = "io_uring" if has_uring(pgflash_install) else "worker"
        assert used.fetchall() == ([] if before_18 else [(expected,)])
        create_items(connection, ROWS)
        settle(connection)

        def is_served() -> bool:
            connection.execute("select count(pad) from item where id % 3 = 0")
            return int(cached.view()["verify_compared"]) > 300

        assert eventually(is_served)
    cached.assert_serving()


def is_warm(cached: CachedServer, connection: Connection[Any]) -> bool:
    """Read the blocks; say whether many of them came from flash: not all are admitted."""
    before = cached.view()["hits"]
    assert connection.execute(f"select count(pad) {SCATTERED}").fetchall() == [(len(IDS),)]
    return int(cached.view()["hits"]) - int(before) > len(IDS) / 8


def read_unasked(cached: CachedServer) -> int:
    """Return how many reads of disks were no miss: flash was not asked by who made them."""
    view = cached.view()
    return int(view["disk_reads"]) - int(view["misses"])


@pytest.mark.extension
def test_a_read_that_an_idle_session_holds_is_finished_by_another(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    if not reads_by_uring(pgflash_install):
        pytest.skip("reads by io_uring: this server does not")
    cached = create_cached(cluster, pgflash_install)
    with cached.server.connect() as holder, cached.server.connect() as other:
        create_items(other, ROWS)
        settle(other)
        for connection in (holder, other):
            # A bitmap scan reads ahead of the rows that it returns, block by block.
            connection.execute("set enable_seqscan = off; set enable_indexscan = off")
            connection.execute("set effective_io_concurrency = 16")
        assert eventually(lambda: is_warm(cached, other))
        cached.emulator.on()

        def is_finished_by_another() -> bool:
            holder.execute("begin")
            holder.execute(f"declare ahead no scroll cursor for select id {SCATTERED}")
            # How far ahead it reads depends on what it had to wait for.
            rows = random.randrange(len(IDS) // 2)
            first = holder.execute(f"fetch {rows} from ahead").fetchall()
            before = read_unasked(cached)
            assert other.execute(f"select count(pad) {SCATTERED}").fetchall() == [(len(IDS),)]
            # Only the holder has what flash fetched for it, so these blocks come from disk.
            was_held = read_unasked(cached) > before
            rest = holder.execute("fetch all from ahead").fetchall()
            assert [row[0] for row in first + rest] == list(IDS)
            holder.execute("commit")
            return was_held

        assert eventually(is_finished_by_another)
        cached.emulator.off()
    cached.assert_serving()
