# SPDX-License-Identifier: PostgreSQL
"""Blocks that are changed but not written when the server is shut down stay warm.

The last checkpoint writes them after the cache's writer has ended, so the checkpointer writes them
to flash itself.  It is killed while it does that, its device hangs, and the power fails after it.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached, process_titles
from support.cluster import ClusterFactory
from support.hold import Hold
from support.patience import eventually
from support.power import PowerCut
from support.standby import REPLICATION, create_standby, has_replayed
from support.warm import (
    ROWS,
    SYNCED,
    assert_true,
    create_warm,
    is_loaded,
    path_of,
    read_table,
    start_again,
    until_cached,
)

if TYPE_CHECKING:
    from _typeshed import SupportsLenAndGetItem

InstallOf = Callable[[str], PgInstall]
Choice = TypeVar("Choice")

#: Blocks of the table when each has room for a row's next version.
BLOCKS_MIN = ROWS // 2

#: Some of these may miss, since the policy may have evicted them.
MISSES_MAX = BLOCKS_MIN // 20

#: As long as the emulator can.  The last checkpoint waits for a second, and the process that saves
#: the map for five: the server has ended long before.
HANGS_S = 120.0

#: With these dice the first file loses all that was not synced.
LOSES_ALL = 0

#: On a machine that stands still flash may take too long for the last checkpoint, or what comes
#: then may come before we are there.  Then it is repeated, at most so often.
TRIALS = 5


def change_half(cached: CachedServer) -> str:
    """Change a row in each block, in place; return the table's new content."""
    with cached.server.connect() as session:
        session.execute("update item set v = v + 1 where i % 2 = 0")
    return read_table(cached).digest


def make_room(cached: CachedServer) -> None:
    """Leave space in each block of the table, and cache all of it."""
    with cached.server.connect() as session:
        session.autocommit = True
        session.execute("alter table item set (fillfactor = 50)")
        session.execute("vacuum (full, freeze, analyze) item")
        session.execute("checkpoint")
    until_cached(cached)


def create_changed(
    cluster: ClusterFactory,
    install: PgInstall,
    *,
    while_down: Callable[[CachedServer], None] = lambda cached: None,
) -> tuple[CachedServer, str]:
    """Return a server whose every block of `item` is cached and changed, and its digest."""
    cached = create_warm(cluster, install)
    make_room(cached)
    cached.server.stop()
    # All changed blocks must stay in memory until the shutdown.
    cached.server.configure({"shared_buffers": "64MB"})
    while_down(cached)
    assert start_again(cached).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(cached))
    return cached, change_half(cached)


def stop_in_time(cached: CachedServer) -> bool:
    """Stop a server; say whether flash accepted in time all writes of the last checkpoint."""
    cached.server.stop()
    return "flash was too slow" not in cached.server.log_text(since_start=True)


def assert_warm(cached: CachedServer, digest: str) -> None:
    """Fail unless the table is unchanged and nearly all of it really comes from flash."""
    after = read_table(cached)
    assert after.digest == digest
    assert after.hits >= BLOCKS_MIN - MISSES_MAX, after
    assert after.misses <= MISSES_MAX, after
    assert cached.view()["corrupt_slots"] == 0
    assert_true(cached)


@pytest.mark.extension
def test_what_the_last_checkpoint_writes_stays_warm(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    for _ in range(TRIALS):
        cached, digest = create_changed(cluster, pgflash_install)
        if stop_in_time(cached):
            break
    assert start_again(cached).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(cached))
    assert_warm(cached, digest)


def test_control_it_is_cold_if_nobody_stands_in_for_the_writer(
    cluster: ClusterFactory, broken_install: InstallOf
) -> None:
    cached, digest = create_changed(cluster, broken_install("STAND_IN"))
    # The misses are counted: none may bring another block's neighbours.
    cached.server.configure({"pgflash.fill_neighbours": "off"})
    cached.server.stop()
    assert start_again(cached).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(cached))
    after = read_table(cached)
    assert after.digest == digest
    assert after.misses > BLOCKS_MIN // 2


def test_what_a_standby_writes_at_its_end_stays_warm(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_cached(cluster, pgflash_install, settings={**REPLICATION, "autovacuum": "off"})
    with primary.server.connect() as session:
        session.execute("create table item (i int primary key, v int, pad text)")
        session.execute(
            "insert into item select i, 0, repeat('x', 1800) from generate_series(1, %s) i", [ROWS]
        )
    standby = create_standby(cluster, primary.server, settings=SYNCED)
    make_room_on_primary(primary, standby)
    for _ in range(TRIALS):
        digest = change_half(primary)
        with primary.server.connect() as session:
            session.execute("checkpoint")
        assert eventually(lambda: has_replayed(primary.server, standby.server))
        if stop_in_time(standby):
            break
        start_again(standby)
        until_cached(standby)
    assert start_again(standby).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(standby))
    assert_warm(standby, digest)


def make_room_on_primary(primary: CachedServer, standby: CachedServer) -> None:
    """Do the same as for one server, and cache it on the standby, too."""
    make_room(primary)
    assert eventually(lambda: has_replayed(primary.server, standby.server))
    until_cached(standby)
    standby.server.stop()
    standby.server.configure({"shared_buffers": "64MB", "bgwriter_lru_maxpages": "0"})
    assert start_again(standby).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(standby))


# ---- a device that hangs at that moment


@contextmanager
def hanging_at_the_end(
    cluster: ClusterFactory, install: PgInstall
) -> Iterator[tuple[CachedServer, str]]:
    """Yield a server whose last checkpoint has begun, and whose flash no longer answers."""
    holds: list[Hold] = []

    def preload(cached: CachedServer) -> None:
        holds.append(Hold.build(cached.server.base))
        cached.preloads = (holds[0].library,)
        cached.preload_env = holds[0].env

    cached, digest = create_changed(cluster, install, while_down=preload)
    (hold,) = holds
    hold.hold(path_of(cached))
    stopping = threading.Thread(target=cached.server.stop)
    stopping.start()
    try:
        assert hold.stands_before()
        cached.emulator.stall("flash", seconds=HANGS_S)
        assert hold.write()
        hold.release()
        yield cached, digest
    finally:
        stopping.join()
        cached.emulator.stall("flash", seconds=0)
        hold.end()


def test_a_device_that_hangs_at_the_end_delays_it_by_seconds(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    with hanging_at_the_end(cluster, pgflash_install) as (cached, digest):
        assert eventually(lambda: not cached.server.running)
        assert cached.emulator.stats().device("flash").stalled_s > 0, "the device was waited for"
        said = cached.server.log_text(since_start=True)
        assert (
            "not all blocks that the last checkpoint wrote are cached: flash was too slow" in said
        )
        assert "the map of the cache is not saved" in said
    # Blocks that are not on flash are forgotten.  The others stay, in memory.
    assert start_again(cached).startswith("warm: its memory")
    assert read_table(cached).digest == digest
    assert_true(cached)

    # The same if nothing is left to write, and nobody has used it since it hangs.
    with cached.server.connect() as session:
        session.autocommit = True
        session.execute("checkpoint")
    assert eventually(lambda: cached.view()["staging_used"] == 0)
    cached.emulator.stall("flash", seconds=HANGS_S)
    cached.server.stop()
    cached.emulator.stall("flash", seconds=0)
    said = cached.server.log_text(since_start=True)
    assert "the map of the cache is not saved: flash does not answer" in said
    assert "database system is shut down" in said, "it was not killed"
    assert start_again(cached).startswith("warm: its memory")
    assert_true(cached)


def stands_still(pid: int) -> bool:
    """Say whether a process is not writing to a file at present."""
    counts = Path(f"/proc/{pid}/io")
    before = counts.read_text()
    time.sleep(0.1)
    return counts.read_text() == before


def test_a_checkpointer_killed_at_it_leaves_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    killed = False
    for _ in range(TRIALS):
        with hanging_at_the_end(cluster, pgflash_install) as (cached, digest):
            # It has filled the ring, begun to empty it, and waits for a second.
            with suppress(OSError, ValueError):  # it does not any more
                (checkpointer,) = (
                    pid
                    for pid, title in process_titles(cached.server)
                    if title.startswith("checkpointer")
                )
                assert eventually(lambda: stands_still(checkpointer))  # noqa: B023
                os.kill(checkpointer, signal.SIGKILL)
                killed = True
            assert eventually(lambda: not cached.server.running)
        if killed:
            break
    assert killed
    assert start_again(cached).startswith("warm: its memory")
    after = read_table(cached)
    assert after.digest == digest
    assert_true(cached)


# ---- the power fails after the shutdown


def test_what_the_last_checkpoint_wrote_outlives_the_power(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cuts: list[PowerCut] = []

    def preload(cached: CachedServer) -> None:
        cuts.append(PowerCut.build(cached.server.base, watched=[cached.cache_file.parent]))
        cached.preloads = (cuts[0].library,)
        cached.preload_env = cuts[0].env

    for _ in range(TRIALS):
        cuts.clear()
        cached, digest = create_changed(cluster, pgflash_install, while_down=preload)
        if stop_in_time(cached):
            break
    # Of the cache file all was synced before the map said that it is there.
    assert cuts[0].cut(cached.server, random.Random(LOSES_ALL)).pieces == 0
    assert start_again(cached).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(cached))
    assert_warm(cached, digest)


# ---- ... and the server had not synced


class Unlucky(random.Random):
    """Dice that lose everything that can be lost, and keep every change time."""

    def random(self) -> float:
        """Take every chance."""
        return 0.0

    def choice(self, seq: "SupportsLenAndGetItem[Choice]") -> Choice:
        """Take the worst, which stands last."""
        return seq[len(seq) - 1]


def lose_relations(
    cluster: ClusterFactory, install: PgInstall, *, then_syncs: bool = False
) -> CachedServer:
    """Return a server without fsync whose data files lost everything after its shutdown.

    It may turn fsync on before that: what it wrote until then is on disk no sooner.
    """
    cuts: list[PowerCut] = []

    def preload(cached: CachedServer) -> None:
        cached.server.configure({"fsync": "off"})
        # Not the control file or the WAL: the server starts, and trusts its files.
        cuts.append(PowerCut.build(cached.server.base, watched=[cached.server.data / "base"]))
        cached.preloads = (cuts[0].library,)
        cached.preload_env = cuts[0].env

    cached, _ = create_changed(cluster, install, while_down=preload)
    cached.server.stop()
    if then_syncs:
        cached.server.configure({"fsync": "on"})
        assert start_again(cached).startswith("warm: its memory")
        cached.server.stop()
    assert cuts[0].cut(cached.server, Unlucky()).pieces > BLOCKS_MIN
    return cached


def is_caught(cached: CachedServer) -> bool:
    """Verify, and say whether a block was found to differ from its file."""
    said = cached.server.log_text(since_start=True)
    if "differed between cache and file" not in said:
        # Every hit is verified; the first stale block may be a catalog's.
        with suppress(psycopg.Error):
            cached.verify()
    return "differed between cache and file" in said


@pytest.mark.parametrize("then_syncs", [False, True], ids=["at once", "a life later"])
def test_what_a_server_without_fsync_has_lost_is_not_served(
    cluster: ClusterFactory, pgflash_install: PgInstall, then_syncs: bool
) -> None:
    cached = lose_relations(cluster, pgflash_install, then_syncs=then_syncs)
    said = cached.server.log_text(since_start=True)
    assert "the map of the cache is not saved: fsync was off" in said
    assert start_again(cached).startswith("cold: the machine was rebooted")
    assert cached.verify()[1] == 0


def test_control_a_map_of_what_is_lost_is_served_stale(
    cluster: ClusterFactory, broken_install: InstallOf
) -> None:
    # If flash took too long there is no map, or one without the latest changes.
    for _ in range(TRIALS):
        cached = lose_relations(cluster, broken_install("UNSYNCED"))
        cached.start()
        if eventually(partial(is_caught, cached), seconds=20):
            break
        cached.server.stop("immediate")
    else:
        pytest.fail("no map of what was lost was served")
    assert "the cache is warm: from the map" in cached.server.log_text()


def test_a_server_without_fsync_is_warm_until_the_machine_boots(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install, settings={"fsync": "off"})
    cached.server.stop()
    assert start_again(cached).startswith("warm: its memory")
    assert read_table(cached).misses <= BLOCKS_MIN // 100  # as create_warm() leaves it
    assert_true(cached)


def test_a_server_that_once_ran_without_fsync_saves_no_map(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)

    def reload(fsync: str, budget: str) -> bool:
        """Set fsync; the budget tells when the cache has heard of it."""
        cached.server.configure({"fsync": fsync, "pgflash.write_budget": budget})
        with cached.server.connect() as session:
            session.execute("select pg_reload_conf()")
        unlimited = budget == "0"
        return eventually(lambda: (cached.view()["write_budget_left_bytes"] is None) == unlimited)

    assert reload("off", "100GB")
    assert reload("on", "0")
    cached.server.stop()
    said = cached.server.log_text(since_start=True)
    assert "the map of the cache is not saved: fsync was off" in said


# ---- ... nor a standby that has nothing to make a restartpoint of


def lose_on_standby(cluster: ClusterFactory, install: PgInstall) -> tuple[CachedServer, int]:
    """Return a standby that was shut down and lost its power, and how much that took.

    Since its last restartpoint it has replayed no checkpoint, so that it syncs nothing at
    its end.  Nor are there full pages in the WAL, which would make good what is lost.
    """
    primary = create_cached(
        cluster,
        install,
        settings={
            **REPLICATION,
            "autovacuum": "off",
            "checkpoint_timeout": "1h",
            "full_page_writes": "off",
        },
    )
    with primary.server.connect() as session:
        session.execute("create table item (i int primary key, v int, pad text)")
        session.execute(
            "insert into item select i, 0, repeat('x', 1800) from generate_series(1, %s) i", [ROWS]
        )
    standby = create_standby(cluster, primary.server, settings=SYNCED)
    make_room(primary)
    assert eventually(lambda: has_replayed(primary.server, standby.server))
    standby.server.stop()
    cut = PowerCut.build(standby.server.base, watched=[standby.server.data / "base"])
    standby.preloads = (cut.library,)
    standby.preload_env = cut.env
    standby.start()
    until_cached(standby)
    change_half(primary)
    assert eventually(lambda: has_replayed(primary.server, standby.server))
    standby.server.stop()
    primary.server.stop()
    return standby, cut.cut(standby.server, Unlucky()).pieces


def test_what_a_standby_has_not_synced_is_synced_before_its_map_is_saved(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    standby, lost = lose_on_standby(cluster, pgflash_install)
    assert lost == 0
    assert start_again(standby).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(standby))
    assert read_table(standby).hits > 0
    assert_true(standby)


def test_control_a_standby_that_has_lost_it_serves_what_is_not_in_its_files(
    cluster: ClusterFactory, broken_install: InstallOf
) -> None:
    # If flash took too long, none of the blocks changed last is cached.
    for _ in range(TRIALS):
        standby, lost = lose_on_standby(cluster, broken_install("RECOVERY_SYNC"))
        assert lost > BLOCKS_MIN // 2
        standby.start()
        if eventually(partial(is_caught, standby), seconds=20):
            break
        standby.server.stop("immediate")
    else:
        pytest.fail("no map of what was lost was served")
    assert "the cache is warm: from the map" in standby.server.log_text()
