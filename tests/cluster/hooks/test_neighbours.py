# SPDX-License-Identifier: PostgreSQL
"""A miss reads its neighbours while there is room: fewer reads fill a cache, and none is stale."""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.account import read_by_sessions
from support.cached import CachedServer, assert_never_stale, create_cached
from support.cluster import ClusterFactory
from support.patience import until
from support.shim import compile_shim

pytestmark = pytest.mark.extension

BLOCKS = 4000


#: A disk that charges for a call: data in memory is charged by the byte, so neighbours do not pay.
DISK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>
ssize_t pread(int fd, void *to, size_t size, off_t offset)
{
    ssize_t (*real)(int, void *, size_t, off_t) = dlsym(RTLD_NEXT, "pread");

    if (size == 8192 && offset % 8192 == 0)
        usleep(300);
    return real(fd, to, size, offset);
}
ssize_t preadv(int fd, const struct iovec *to, int count, off_t offset)
{
    ssize_t (*real)(int, const struct iovec *, int, off_t) = dlsym(RTLD_NEXT, "preadv");

    usleep(300);
    return real(fd, to, count, offset);
}
"""


def create_server(cluster: ClusterFactory, install: PgInstall, **env: str) -> CachedServer:
    """Return a server whose sessions make their reads themselves; ENV are its variables."""
    settings = read_by_sessions(install, {})
    cached = create_cached(cluster, install, settings=settings, preload_env=env, start=False)
    cached.preloads = (compile_shim(cached.server.base, "disk", DISK),)
    cached.start()
    cached.create_extension()
    cached.await_serving()
    return cached


def create_item(session: psycopg.Connection[Any]) -> None:
    """Make a table of one row a block."""
    session.execute("create table item (n int, pad text) with (fillfactor = 10)")
    session.execute("alter table item alter pad set storage plain")
    session.execute(
        f"insert into item select n, repeat('x', 7000) from generate_series(0, {BLOCKS - 1}) n"
    )
    session.execute("vacuum (freeze) item")
    session.execute("checkpoint")


def read_scattered(session: psycopg.Connection[Any], *, step: int = 1009) -> None:
    """Read each row of the table by itself, the next one far away."""
    session.execute(
        f"do $$ begin for i in 0..{BLOCKS - 1} loop"
        " perform from item where ctid ="
        f" format('(%s,1)', i::bigint * {step} % {BLOCKS})::tid; end loop; end $$"
    )


def fill_anew(
    cached: CachedServer, session: psycopg.Connection[Any], *, neighbours: str
) -> dict[str, int]:
    """Read the table with an empty cache; return what was counted."""
    session.execute(f"alter system set pgflash.fill_neighbours = {neighbours}")
    session.execute("select pg_reload_conf()")
    until(
        lambda: session.execute("show pgflash.fill_neighbours").fetchone() == (neighbours,),
    )
    session.execute("select pgflash_cache_clear()")
    before = cached.view()
    read_scattered(session)
    after = cached.view()
    return {
        name: after[name] - before[name]
        for name in ("disk_reads", "neighbour_reads", "neighbour_inserts")
    }


def test_a_cold_table_takes_fewer_reads(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_server(cluster, pgflash_install)
    with cached.server.connect() as session:
        session.autocommit = True
        create_item(session)
        alone = fill_anew(cached, session, neighbours="off")
        assert alone["neighbour_reads"] == alone["neighbour_inserts"] == 0
        assert alone["disk_reads"] > BLOCKS * 0.9

        def together() -> bool:
            """On a busy machine the ring may be full again and again."""
            found = fill_anew(cached, session, neighbours="on")
            assert 0 < found["neighbour_reads"] <= found["disk_reads"]
            assert found["neighbour_inserts"] <= 15 * found["neighbour_reads"]
            return found["disk_reads"] < alone["disk_reads"] * 0.7

        until(together)
        assert_never_stale(
            cached, compared_min=2 * BLOCKS, go_on=lambda: read_scattered(session, step=1013)
        )


def change_and_fill(cached: CachedServer, *, rounds: int) -> None:
    """Read a table with an empty cache while another session changes it."""
    stop = threading.Event()
    with cached.server.connect() as reader, cached.server.connect() as changer:
        reader.autocommit = changer.autocommit = True
        reader.execute("drop table if exists item")
        create_item(reader)

        def change() -> None:
            number = 0
            while not stop.is_set():
                number += 7919
                changer.execute(
                    "update item set pad = repeat(%s, 7000) where ctid = any (array(select"
                    f" format('(%%s,1)', (%s + i * 211) %% {BLOCKS})::tid"
                    " from generate_series(1, 20) i))",
                    [chr(97 + number % 26), number],
                )

        changing = threading.Thread(target=change)
        changing.start()
        try:
            for number in range(rounds):
                reader.execute("select pgflash_cache_clear()")
                read_scattered(reader)
                if number % 3 == 2:
                    reader.execute("vacuum full item")
                cached.assert_serving()
        finally:
            stop.set()
            changing.join()
        assert_never_stale(cached, compared_min=BLOCKS, go_on=lambda: read_scattered(reader))


def test_neighbours_beside_changes_are_never_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_server(cluster, pgflash_install)
    change_and_fill(cached, rounds=6 if pgflash_install.major == 18 else 3)
    assert cached.view()["neighbour_inserts"] > 100


@pytest.mark.parametrize("fault", ["NEIGHBOUR_TICKET"])
def test_a_ticket_taken_after_the_read_is_caught(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall], fault: str
) -> None:
    cached = create_server(cluster, broken_install(fault), FC_AWAIT_CHANGE="yes")
    with cached.server.connect() as session:
        create_item(session)
    # Nothing is in shared buffers then.
    cached.server.stop()
    cached.start()
    cached.await_serving()
    blocks = itertools.count(8, 16)
    with cached.server.connect() as changer, cached.server.connect() as reader:

        def read(block: int) -> None:
            reader.execute("select pad from item where ctid = %s::tid", [f"({block},1)"])

        # The first misses of a relation are read alone.
        for block in range(BLOCKS - 64 * 32, BLOCKS, 64):
            read(block)

        def caught() -> bool:
            """Change the neighbours of a block between its read and their tickets."""
            block = next(blocks)
            rows = [f"({block - 8 + i},1)" for i in range(16) if i != 8]
            # The rows to be changed are in memory, and the block that is read is not.
            changer.execute("select pad from item where ctid = any (%s::tid[])", [rows])
            changer.execute("select pgflash_cache_clear()")
            read(block - 1)  # the session has read the catalogs
            before = cached.view()["neighbour_reads"]
            reading = threading.Thread(target=read, args=[block])
            reading.start()
            until(lambda: cached.view()["neighbour_reads"] > before or not reading.is_alive())
            changer.execute(
                "update item set pad = repeat('y', 7000) where ctid = any (%s::tid[])", [rows]
            )
            changer.execute("checkpoint")
            reading.join()
            return cached.verify()[1] > 0

        until(caught)
