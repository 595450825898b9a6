# SPDX-License-Identifier: PostgreSQL
"""Scenarios in which a stale block would be noticed: by DDL, by load, by a race.

They are here and not in the tests, so that the real library and the libraries without one safeguard
(tests/cluster/hooks/test_never_stale_controls.py) go through the same ones. Each raises
AssertionError if anything stale was served or is cached.
"""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from pgflash_lab.postgres import PgInstall
from support.cached import (
    CachedServer,
    assert_indexes_whole,
    assert_never_stale,
    create_cached,
    go_on_until_told,
    has_contrib,
    told,
)
from support.cluster import ClusterFactory
from support.ddl import STEPS, Step
from support.faults import Faults
from support.patience import eventually
from support.tpcb import assert_balanced, load_tpcb, run_tpcb, start_tpcb
from support.uring import reads_by_uring
from support.world import World

#: The fewest descriptors to which a server may be limited.
FEW_FILES = {"max_files_per_process": "64"}

#: A checkpoint every few seconds, a busy background writer, autovacuum at work: all other writers
#: shall write meanwhile.
BUSY = {
    "shared_buffers": "2MB",
    "checkpoint_timeout": "30s",
    "max_wal_size": "32MB",
    "bgwriter_delay": "10ms",
    "autovacuum": "on",
    "autovacuum_naptime": "1s",
    "fsync": "on",
}


# ---- by DDL


def variety(install: PgInstall) -> dict[str, str]:
    """Return settings that alternate between major versions, so that each is tested once."""
    major = install.major
    settings = {"max_prepared_transactions": "2"}
    if major in {16, 18}:
        # Relations that a transaction creates are synced instead of logged; a standby tests the
        # other way.
        settings |= {"wal_level": "minimal", "max_wal_senders": "0"}
    if major == 17:
        settings |= {"debug_io_direct": "data"}
    if major >= 18 and not reads_by_uring(install):
        settings |= {"io_method": "sync"}
    return settings


def walk(
    cluster: ClusterFactory,
    install: PgInstall,
    *,
    steps: tuple[Step, ...] = STEPS,
    compared_min: int,
) -> CachedServer:
    """Run the steps, each with its checks, on a new server, and leave no session behind."""
    cached = create_cached(cluster, install, settings={**FEW_FILES, **variety(install)})
    world = World(server=cached.server, space=cached.space)
    for step in steps:
        step(world)
        _, mismatched = cached.verify()
        assert mismatched == 0, f"{mismatched} stale blocks are cached after {step.__name__}"
        world.check()
        cached.assert_serving()
    world.disconnect()
    assert_indexes_whole(cached.server, catalogs=True)
    assert_never_stale(cached, compared_min=compared_min, go_on=world.check)
    world.disconnect()
    return cached


# ---- by load

#: More hits than can be compared in that time: run until something stale is found.
UNTIL_STALE = 10**9


def run_tpcb_cached(
    cluster: ClusterFactory,
    install: PgInstall,
    *,
    compared_min: int,
    cache_size: str = "64MB",
) -> CachedServer:
    """Load TPC-B on a new server, run it with several clients, check its sums."""
    cached = create_cached(cluster, install, settings={**BUSY, "pgflash.cache_size": cache_size})
    load_tpcb(cached.server)
    run_tpcb(cached.server, seconds=3)
    run_until_told(cached, compared_min)
    assert_balanced(cached.server)
    assert_never_stale(cached, compared_min=compared_min)
    return cached


def run_until_told(cached: CachedServer, compared_min: int) -> None:
    """Continue TPC-B until enough hits were compared."""
    go_on_until_told(cached, compared_min, lambda: run_tpcb(cached.server, seconds=1))


#: Small enough to be walked in a moment, large enough to hold much of TPC-B's tables.
SIZES = ("8MB", "24MB", "12MB", "32MB")


def run_tpcb_resizing(
    cluster: ClusterFactory, install: PgInstall, *, resizes: int, compared_min: int
) -> CachedServer:
    """Run TPC-B, creating and removing files, while the cache grows and shrinks."""
    cached = create_cached(
        cluster,
        install,
        settings={
            **BUSY,
            "pgflash.cache_size": SIZES[-1],
            "pgflash.cache_size_max": "32MB",
            "pgflash.read_deadline": "5s",
        },
    )
    load_tpcb(cached.server)
    load = start_tpcb(cached.server)
    try:
        for number in range(10 * resizes):
            resize(cached, SIZES[number % len(SIZES)])
            if number + 1 >= resizes and cached.view()["moved_blocks"] > resizes * 100:
                break
    finally:
        load.terminate()
        load.wait()
    run_until_told(cached, compared_min)
    assert_balanced(cached.server)
    assert_never_stale(cached, compared_min=compared_min)
    assert cached.view()["moved_blocks"] > resizes * 100
    return cached


def resize(cached: CachedServer, size: str) -> None:
    """Set another size, and wait until the cache and its file have it."""
    wanted = int(size.removesuffix("MB")) * 1024 * 1024
    cached.server.configure({"pgflash.cache_size": size})
    with cached.server.connect() as session:
        session.execute("select pg_reload_conf()")

    def done() -> bool:
        view = cached.assert_serving()
        file_bytes = cached.cache_file.stat().st_size
        return (
            bool(view["size_bytes"] == wanted)
            and view["resize_progress"] is None
            and file_bytes == wanted + 1024 * 1024
        )

    assert eventually(done), (cached.view(), cached.server.log_text()[-2000:])


# ---- by a race
#
# Within one server, a backend finds a block that is being written in shared_buffers and does
# not read its file.  pg_prewarm's mode `read` does: it bypasses shared_buffers.  So some
# sessions read single blocks at random while another updates and writes the same blocks.  The
# fault library sleeps after each read has fetched its bytes and before each write stores its
# own: this widens the moments in which a read holds old bytes.

BLOCKS = 8
READERS = 3
RACE_S = 4.0
DELAY_US = 1000

_READ = "select pg_prewarm('raced', 'read', 'main', %s::bigint, %s::bigint)"


def can_race(install: PgInstall) -> bool:
    """Say whether the server can read past shared_buffers."""
    return has_contrib(install, "pg_prewarm")


def race(cluster: ClusterFactory, install: PgInstall, *, compared_min: int) -> CachedServer:
    """Let sessions read and write the same few blocks on a new server."""
    cached = create_cached(cluster, install, start=False)
    faults = Faults.build(cached.server.base)
    cached.preloads = (faults.library,)
    cached.preload_env = faults.env(cached.server.data)
    cached.start()
    cached.create_extension()
    with cached.server.connect() as session:
        session.execute("create extension pg_prewarm")
        # One row to a block, with room for its next versions.
        session.execute("create table raced (id int, v int, pad text) with (fillfactor = 30)")
        session.execute("alter table raced alter pad set storage plain")
        session.execute(
            "insert into raced select i, 0, repeat('x', 2000) from generate_series(1, 8) i"
        )
        session.execute("checkpoint")
        faults.delay(DELAY_US)
        over = Event()

        def raced() -> bool:
            """Say whether reads lost races and did not keep their blocks, or a block is stale."""
            view = cached.view()
            return told(cached, compared_min) and (
                view["insert_skip_modification"] > 0 or view["verify_mismatches"] > 0
            )

        def some_cached() -> bool:
            for block in range(BLOCKS):
                session.execute(_READ, (block, block))
            view = cached.view()
            return bool(view["used_slots"] > 0 or view["mode"] != "serve")

        with ThreadPoolExecutor(READERS + 1) as pool:
            tasks = [pool.submit(_read, cached, seed, over) for seed in range(READERS)]
            tasks.append(pool.submit(_write, cached, over))
            time.sleep(RACE_S)
            eventually(raced)
            over.set()
            for task in tasks:
                task.result()
        faults.stop()
        assert eventually(some_cached)
    assert_never_stale(cached, compared_min=compared_min)
    return cached


def _read(cached: CachedServer, seed: int, over: Event) -> None:
    choice = random.Random(seed)
    with cached.server.connect() as session:
        while not over.is_set():
            block = choice.randrange(BLOCKS)
            session.execute(_READ, (block, block))


def _write(cached: CachedServer, over: Event) -> None:
    version = 0
    with cached.server.connect() as session:
        while not over.is_set():
            version += 1
            session.execute("update raced set v = %s", (version,))
            session.execute("checkpoint")
            # Each write refreshes a cached block; a miss needs something else.
            if version % 3 == 0:
                session.execute("select pgflash_cache_clear()")
