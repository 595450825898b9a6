# SPDX-License-Identifier: PostgreSQL
"""Flash wears out whatever happens to the server: its record of writes and its budget outlive it.

A budget that starts over with each start limits nothing on a server that is restarted by a
script, killed by the kernel when memory runs out, or crashed again and again by a user who may.
"""

import struct
import time
from collections.abc import Callable

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer
from support.clock import Clock
from support.cluster import ClusterFactory
from support.patience import until
from support.warm import crash, create_warm, forget_memory, read_table, start_again

BLOCK = 8192
#: The two places of a cache file's record, and what it holds (core/src/ondisk.h).
PLACES = (65536, 65536 + BLOCK)
RECORD = struct.Struct("<8sII7Qq24Q")

#: 5 minutes' worth are 14 MB, more than the table takes; 47 kB flow in a second.
BUDGET_MB = 4096
BUDGET = {"pgflash.write_budget": f"{BUDGET_MB}MB"}
PER_SECOND = BUDGET_MB * 2**20 / 86400

#: The most that may be under way when a bucket runs dry: the staging ring.
RING = 64 * BLOCK

TEN_DAYS_S = 10 * 86400


def day_bytes(cached: CachedServer) -> int:
    """Return what the view says of the last 24 hours."""
    return int(cached.view()["flash_write_bytes_day"])


def recorded_bytes(cached: CachedServer) -> int:
    """Return what the cache file's newer record says of them."""
    records = []
    with cached.cache_file.open("rb") as file:
        for place in PLACES:
            file.seek(place)
            records.append(RECORD.unpack(file.read(RECORD.size)))
    newer = max((record for record in records if record[0] == b"pgfwear1"), key=lambda r: r[3])
    return int(sum(newer[-24:])) * BLOCK


@pytest.mark.extension
def test_the_days_writes_outlive_every_end_of_the_server(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """Restarting or killing the server, for whatever reason, does not make the flash new."""
    cached = create_warm(cluster, pgflash_install)
    written = day_bytes(cached)
    assert written > 4 * 2**20

    cached.server.stop()
    start_again(cached)
    assert day_bytes(cached) >= written, "stopped in order"

    # Cold: another size, and no map.
    cached.server.stop()
    cached.server.configure({"pgflash.cache_size": "32MB", "pgflash.warm_restart": "off"})
    start_again(cached)
    assert day_bytes(cached) >= written, "cold"
    read_table(cached)
    written = day_bytes(cached)

    # Killed: what is not on record is lost, at most 10 seconds of writes.
    until(lambda: recorded_bytes(cached) >= written)
    crash(cached)
    start_again(cached)
    assert day_bytes(cached) >= written, "killed"

    cached.server.stop()
    cached.cache_file.unlink()
    start_again(cached)
    assert day_bytes(cached) < written, "another file"


def test_without_records_the_day_starts_over(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    cached = create_warm(cluster, broken_install("WEAR"))
    written = day_bytes(cached)
    cached.server.stop()
    start_again(cached)
    assert day_bytes(cached) < written


def written_after_a_kill(cached: CachedServer) -> tuple[int, float]:
    """Kill a server that has used little of its budget, and have all filled again.

    Return what it wrote to flash then, and what its budget allows for that time.
    """
    crash(cached)
    begun = time.monotonic()
    forget_memory(cached)
    assert start_again(cached).startswith("cold")
    for _ in range(2):
        read_table(cached)
    view = cached.assert_serving()
    return int(view["flash_write_bytes"]), PER_SECOND * (time.monotonic() - begun) + RING


def test_a_server_that_is_killed_again_and_again_keeps_to_its_budget(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """A tenant whose statements make the kernel kill the server, over and over.

    Each life has only the budget that flows in while it lasts, not the 5 minutes' worth that the
    last one had.
    """
    cached = create_warm(cluster, pgflash_install, settings=BUDGET)
    for _ in range(3):
        written, allowed = written_after_a_kill(cached)
        assert written <= allowed
    assert cached.view()["insert_skip_budget"] > 0


def test_without_records_each_life_has_a_budget_of_its_own(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    cached = create_warm(cluster, broken_install("WEAR"), settings=BUDGET)
    tries = [written_after_a_kill(cached) for _ in range(3)]
    assert any(written > allowed for written, allowed in tries), tries


def test_a_clock_that_is_set_neither_opens_the_budget_nor_locks_it(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """A user sets the machine's clock, or it is wrong at boot: by 10 days, both ways."""
    cached = create_warm(cluster, pgflash_install, settings=BUDGET)
    cached.server.stop()
    clock = Clock.build(cached.server.base)
    cached.preloads = (*cached.preloads, clock.library)
    cached.preload_env = clock.env
    start_again(cached)
    written = day_bytes(cached)
    for ahead_s in (TEN_DAYS_S, -TEN_DAYS_S, 0):
        clock.set(ahead_s=ahead_s)
        assert day_bytes(cached) >= written, "while it runs"
        cached.server.stop()
        start_again(cached)
        assert written <= day_bytes(cached) < written + 2**30
        # Nor is it locked for ever: what flows in lets more through.
        before = cached.view()["flash_writes"]
        until(lambda: read_table(cached).misses == 0 or flash_writes(cached) > before)  # noqa: B023


def flash_writes(cached: CachedServer) -> int:
    return int(cached.view()["flash_writes"])
