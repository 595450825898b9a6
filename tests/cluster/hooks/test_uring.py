# SPDX-License-Identifier: PostgreSQL
"""A server that was built with liburing reads by io_uring in all tests, and is served so.

The other tests of this room test the cache under io_uring: such a server passes them like any other
(support/uring.py). This one only makes sure that it does use io_uring.
"""

import os
import random
import signal
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.items import create_items, settle
from support.patience import PATIENCE_S, eventually
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


def create_warm(cluster: ClusterFactory, install: PgInstall) -> CachedServer:
    """Return a server whose flash has the scattered blocks, and takes some time for each."""
    if not reads_by_uring(install):
        pytest.skip("reads by io_uring: this server does not")
    cached = create_cached(cluster, install, settings={"restart_after_crash": "on"})
    with cached.server.connect() as connection:
        create_items(connection, ROWS)
        settle(connection)
        scan_by_bitmap(connection)
        assert eventually(lambda: is_warm(cached, connection))
    cached.emulator.on()
    return cached


def scan_by_bitmap(connection: Connection[Any]) -> None:
    """Let a session read ahead of the rows that it returns, block by block."""
    connection.autocommit = True
    connection.execute("set enable_seqscan = off; set enable_indexscan = off")
    connection.execute("set effective_io_concurrency = 16")


def begin_scan(connection: Connection[Any]) -> list[int]:
    """Return the first rows of a scan that then goes no further; it may hold reads."""
    connection.execute("begin")
    connection.execute(f"declare ahead no scroll cursor for select id {SCATTERED}")
    # How far ahead it reads depends on what it had to wait for.
    rows = random.randrange(len(IDS) // 2)
    return [row[0] for row in connection.execute(f"fetch {rows} from ahead").fetchall()]


def count_scattered(connection: Connection[Any]) -> int:
    """Read all of the scattered blocks."""
    row = connection.execute(f"select count(pad) {SCATTERED}").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.extension
def test_a_read_that_an_idle_session_holds_is_finished_by_another(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    with cached.server.connect() as holder, cached.server.connect() as other:
        scan_by_bitmap(holder)
        scan_by_bitmap(other)

        def is_finished_by_another() -> bool:
            first = begin_scan(holder)
            before = read_unasked(cached)
            assert count_scattered(other) == len(IDS)
            # Only the holder has what flash fetched for it, so these blocks come from disk.
            was_held = read_unasked(cached) > before
            rest = holder.execute("fetch all from ahead").fetchall()
            assert [*first, *(row[0] for row in rest)] == list(IDS)
            holder.execute("commit")
            return was_held

        assert eventually(is_finished_by_another)
        cached.emulator.off()
    cached.assert_serving()


@pytest.mark.extension
def test_reads_that_an_error_leaves_held_stand_in_nobodys_way(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    with cached.server.connect() as holder, cached.server.connect() as other:
        scan_by_bitmap(holder)
        scan_by_bitmap(other)

        def leave_held() -> None:
            begin_scan(holder)
            with pytest.raises(psycopg.errors.DivisionByZero):
                holder.execute("select 1 / 0")
            holder.execute("rollback")

        def is_finished_by_another() -> bool:
            leave_held()
            before = read_unasked(cached)
            assert count_scattered(other) == len(IDS)
            return read_unasked(cached) > before

        assert eventually(is_finished_by_another)

        # Each of these has to get rid of the buffers that held reads are for.
        for rid, left in (
            ("update item set pad = repeat('y', 500)", len(IDS)),
            ("vacuum full item", len(IDS)),
            (
                f"delete from item where id > {ROWS // 2}; vacuum item",
                sum(number <= ROWS // 2 for number in IDS),
            ),
            ("truncate item", 0),
        ):
            leave_held()
            for statement in rid.split("; "):
                other.execute(statement)
            assert count_scattered(other) == left
            assert count_scattered(holder) == left
            cached.assert_serving()
        cached.emulator.off()
    cached.assert_serving()


@pytest.mark.extension
def test_a_session_that_holds_reads_can_be_ended(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    with cached.server.connect() as other:
        scan_by_bitmap(other)
        for _ in range(5):
            holder = cached.server.connect()
            scan_by_bitmap(holder)
            begin_scan(holder)
            ended = other.execute(
                "select pg_terminate_backend(%s, %s)",
                (holder.info.backend_pid, int(PATIENCE_S * 1000)),
            ).fetchone()
            assert ended == (True,)
            holder.close()
            assert count_scattered(other) == len(IDS)
        cached.emulator.off()
    cached.assert_serving()


@pytest.mark.extension
def test_a_session_that_holds_reads_can_be_killed(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)

    def reads_again() -> bool:
        with suppress(psycopg.OperationalError), cached.server.connect() as connection:
            scan_by_bitmap(connection)
            return count_scattered(connection) == len(IDS)
        return False

    for _ in range(3):
        holder = cached.server.connect()
        scan_by_bitmap(holder)
        begin_scan(holder)
        os.kill(holder.info.backend_pid, signal.SIGKILL)
        with suppress(psycopg.Error):
            holder.execute("select")
        holder.close()
        assert eventually(reads_again)
    cached.emulator.off()
    cached.await_serving()
