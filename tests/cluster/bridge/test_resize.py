# SPDX-License-Identifier: PostgreSQL
"""The size of the cache changes while the server runs: what stays, what disk space it takes."""

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import CachedServer, assert_never_stale, create_cached
from support.cluster import ClusterFactory
from support.items import create_items, settle
from support.never_stale import UNTIL_STALE, resize, run_tpcb_resizing
from support.patience import eventually
from support.shim import compile_shim
from support.tpcb import load_tpcb, run_tpcb

MB = 1024 * 1024
#: The server rounds the size of its shared memory up to a multiple of this.
PAGE = 8192
SMALL, LARGE, MAX = "16MB", "32MB", "64MB"

#: About 12 MB, so that it fits into the smallest cache here.
ROWS = 20_000


@pytest.fixture(scope="module")
def cached(pgflash_install: PgInstall) -> Iterator[CachedServer]:
    """A server whose cache has 16 MB and can have 64."""
    factory = ClusterFactory(pgflash_install)
    server = create_cached(
        factory,
        pgflash_install,
        settings={
            "pgflash.cache_size": SMALL,
            "pgflash.cache_size_max": MAX,
            # On a busy machine a read may take long without the device being ill.
            "pgflash.read_deadline": "5s",
        },
    )
    with server.server.connect() as connection:
        create_items(connection, ROWS)
        settle(connection)
    yield server
    factory.close()


def read_all(cached: CachedServer) -> None:
    """Read every block in random order: in order it would be a scan, which is not cached."""
    with cached.server.connect() as connection:
        for i in range(1, ROWS, 13):
            connection.execute("select pad from item where id = %s", [i * 7919 % ROWS + 1])


def hit_ratio(cached: CachedServer) -> float:
    """Return the share of hits of one round of reads: the table's and its index's."""
    before = reads(cached)
    read_all(cached)
    after = reads(cached)
    hits, misses = after[0] - before[0], after[1] - before[1]
    assert hits + misses > 500
    return hits / (hits + misses)


def reads(cached: CachedServer) -> tuple[int, int]:
    """Return hits and misses so far; those of the catalogs do not matter here."""
    with cached.server.connect() as connection:
        row = connection.execute(
            "select coalesce(sum(hits), 0)::int, coalesce(sum(misses), 0)::int"
            " from pgflash_relations where relation in ('item'::regclass, 'item_pkey'::regclass)"
        ).fetchone()
    assert row is not None
    return row[0], row[1]


def cache_all(cached: CachedServer) -> float:
    """Read until nearly all is cached, and return the share: a slow writer leaves some out."""
    ratio = 0.0

    def is_cached() -> bool:
        nonlocal ratio
        ratio = hit_ratio(cached)
        return ratio > 0.98

    assert eventually(is_cached), f"{ratio:.3f} of the reads are hits: {cached.view()}"
    return ratio


def reload_settings(cached: CachedServer, **settings: str) -> None:
    cached.server.configure({f"pgflash.{name}": value for name, value in settings.items()})
    with cached.server.connect() as connection:
        connection.execute("select pg_reload_conf()")


def disk_bytes(cached: CachedServer) -> int:
    return cached.cache_file.stat().st_blocks * 512


@pytest.mark.extension
def test_growing_keeps_what_is_cached_and_moves_what_must(cached: CachedServer) -> None:
    before = cache_all(cached)
    moved = cached.view()["moved_blocks"]
    resize(cached, LARGE)
    view = cached.view()
    assert hit_ratio(cached) > before - 0.02
    assert 0.3 < (view["moved_blocks"] - moved) / view["used_slots"] < 0.7
    assert disk_bytes(cached) >= 32 * MB, "the space is reserved"
    assert cached.verify()[1] == 0
    assert cached.assert_serving()["flash_read_errors"] == 0


def test_shrinking_keeps_what_fits_and_gives_the_disk_back(cached: CachedServer) -> None:
    resize(cached, LARGE)
    before = cache_all(cached)
    used = cached.view()["used_slots"]
    resize(cached, SMALL)
    assert eventually(lambda: disk_bytes(cached) <= 17 * MB + 64 * 1024)
    view = cached.view()
    assert view["used_slots"] > 0.8 * min(used, view["slots"])
    assert hit_ratio(cached) > before - 0.1
    compared, mismatched = cached.verify()
    assert compared > 1000
    assert mismatched == 0
    assert cached.assert_serving()["flash_read_errors"] == 0


def test_a_size_beyond_the_maximum_is_refused_and_said(cached: CachedServer) -> None:
    resize(cached, SMALL)
    reload_settings(cached, cache_size="128MB")
    assert eventually(lambda: "can have from 512 kB to 64 MB" in cached.server.log_text())
    assert cached.view()["size_bytes"] == 16 * MB
    assert cached.view()["size_max_bytes"] == 64 * MB
    assert "512 kB to 64 MB" in cached.view()["resize_reason"]
    resize(cached, LARGE)
    assert cached.view()["resize_reason"] is None
    # The same size is refused again, not forgotten.
    reload_settings(cached, cache_size="128MB")
    assert eventually(lambda: "512 kB to 64 MB" in (cached.view()["resize_reason"] or ""))
    resize(cached, LARGE)


def test_after_a_restart_the_cache_has_the_size_of_the_setting(cached: CachedServer) -> None:
    resize(cached, LARGE)
    cached.server.stop()
    cached.start()
    assert eventually(lambda: cached.view()["mode"] == "serve")
    assert cached.view()["size_bytes"] == 32 * MB


def test_changing_the_size_under_load_leaves_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    run_tpcb_resizing(cluster, pgflash_install, resizes=8, compared_min=2000)


def test_changes_that_forget_the_old_home_are_caught(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    with pytest.raises(AssertionError, match="stale"):
        run_tpcb_resizing(cluster, broken_install("OLD_HOME"), resizes=40, compared_min=UNTIL_STALE)


#: A file system on which no file can have more than 24 MB, until the file "freed" is there.
SMALL_DISK = """
#include <errno.h>
#include <unistd.h>
int posix_fallocate(int fd, off_t offset, off_t size)
{
    if (offset + size > 24 << 20 && access("freed", F_OK) != 0)
        return ftruncate(fd, 24 << 20) == 0 ? ENOSPC : EIO;
    return ftruncate(fd, offset + size) == 0 ? 0 : EIO;
}
"""


def test_a_full_device_leaves_the_cache_as_it_was(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(
        cluster,
        pgflash_install,
        settings={"pgflash.cache_size": SMALL, "pgflash.cache_size_max": MAX},
        start=False,
    )
    cached.preloads = (compile_shim(cached.server.base, "small-disk", SMALL_DISK),)
    cached.start()
    cached.create_extension()
    reload_settings(cached, cache_size=LARGE)
    assert eventually(lambda: "no room to grow the cache from 16 to 32 MB" in log(cached))
    # The disk space is returned.
    assert eventually(lambda: cached.cache_file.stat().st_size == 17 * MB)
    view = cached.assert_serving()
    assert view["size_bytes"] == 16 * MB
    assert view["resize_progress"] is None
    assert view["resize_reason"] == "no room to grow: No space left on device"
    assert log(cached).count("no room to grow") == 1
    resize(cached, "20MB")
    assert cached.view()["resize_reason"] is None

    # Room comes back: the same size is tried again when the settings are reloaded.
    reload_settings(cached, cache_size=LARGE)
    assert eventually(lambda: log(cached).count("no room to grow") == 2)
    (cached.server.data / "freed").touch()
    reload_settings(cached, cache_size=LARGE)
    assert eventually(lambda: cached.assert_serving()["size_bytes"] == 32 * MB)
    assert eventually(lambda: cached.view()["resize_progress"] is None)
    assert cached.view()["resize_reason"] is None


def test_all_cache_files_grow_and_shrink_alike(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(cluster, pgflash_install, start=False)
    files = [cached.cache_file, cached.cache_file.with_name("other")]
    cached.server.configure(
        {
            "pgflash.cache_file": ", ".join(map(str, files)),
            "pgflash.cache_size": "4MB",
            "pgflash.cache_size_max": MAX,
            "pgflash.read_deadline": "5s",
        }
    )
    cached.start()
    cached.create_extension()
    load_tpcb(cached.server)
    for size in itertools.chain((12, 6, 16), itertools.cycle((6, 16))):
        run_tpcb(cached.server, seconds=1)
        reload_settings(cached, cache_size=f"{size}MB")
        assert eventually(
            lambda: all(file.stat().st_size == (size + 1) * MB for file in files)  # noqa: B023
        )
        assert eventually(lambda: cached.view()["resize_progress"] is None)
        view = cached.assert_serving()
        assert view["size_bytes"] == 2 * size * MB
        if size == 16 and view["moved_blocks"] > 500:
            break
    assert_never_stale(cached, compared_min=500, go_on=lambda: run_tpcb(cached.server, seconds=1))


def log(cached: CachedServer) -> str:
    return cached.server.log_text()


def shared_bytes(server: Server) -> int:
    """Return the size of all memory that the server's first process shares with its children."""
    total = 0
    shared = False
    for line in Path(f"/proc/{server.postmaster_pid}/smaps").read_text().splitlines():
        words = line.split()
        if re.fullmatch(r"[0-9a-f]+-[0-9a-f]+", words[0]):
            shared = words[1].endswith("s")
        elif shared and words[0] == "Size:":
            total += int(words[1]) * 1024
    return total


#: Bytes a block from 768 MB on; below that, the parts that all blocks share have a floor (see
#: layout_test.c).
LIMIT_FROM = 768 * MB
FLOOR = 22, 448 * 1024


def test_a_block_takes_at_most_28_bytes_of_memory(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(cluster, pgflash_install, start=False)
    # Without cache and advice all the rest is there: accounting, sampler, snapshots.
    cached.server.configure({"pgflash.cache_file": None, "pgflash.advice": "off"})
    cached.start()
    without = shared_bytes(cached.server)
    cached.create_extension()
    cached.server.stop()
    cached.server.configure({"pgflash.cache_file": str(cached.cache_file), "pgflash.advice": "on"})
    for size_mb in (64, 200, 768, 1024):
        cached.server.configure({"pgflash.cache_size": f"{size_mb}MB"})
        cached.start()
        taken = shared_bytes(cached.server) - without
        view = cached.view()
        cached.server.stop()
        assert view["slots"] == size_mb * 128
        if size_mb * MB >= LIMIT_FROM:
            # The server's memory is a whole number of pages, without the cache as well.
            assert 16 < (taken - PAGE) / view["slots"] <= 28, f"{size_mb} MB: {taken} bytes"
            assert view["metadata_bytes_per_block"] <= 28
        else:
            assert 16 * view["slots"] < taken <= FLOOR[0] * view["slots"] + FLOOR[1]
        # The view shows all of it, except for the ends of pages.
        assert abs(taken - view["metadata_bytes"]) < 16 * 1024, (size_mb, taken, view)
