"""A cache file that goes bad under a running server costs hits and no query.

In each case the server does its work, the tables hold what they must, the counters tell
what happened and the log says it once.  None of it depends on the server's major version,
so one is enough.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pgflash.lab.postgres import PgInstall
from support.cached import CachedServer, assert_indexes_whole, create_cached, eventually
from support.cluster import ClusterFactory
from support.ddl import World, load_tables, regrow_tail, update_rows, vacuum_tail
from support.faults import NO_END, Faults

PAGE_BYTES = 8192

READ_FAILED = "a read of the cache file failed"
WRITE_FAILED = "a write of the cache file failed"
CORRUPT = "a block came back from the cache file corrupt"

Factory = Callable[..., tuple[CachedServer, World, Faults]]


@pytest.fixture
def warm(cluster: ClusterFactory, pgflash_install: PgInstall) -> Factory:
    """Return a factory of servers with a warm cache and a device ready to fail."""

    def make() -> tuple[CachedServer, World, Faults]:
        cached = create_cached(cluster, pgflash_install, start=False)
        faults = Faults.build(cached.server.base)
        cached.preloads = (faults.library,)
        cached.preload_env = faults.env(cached.cache_file)
        cached.start()
        cached.create_extension()
        world = World(server=cached.server, space=cached.space)
        load_tables(world)
        world.check()
        assert cached.assert_serving()["hits"] > 500
        return cached, world, faults

    return make


def work(world: World) -> None:
    """Change tables and read all of them, as if nothing were wrong."""
    for step in (update_rows, vacuum_tail, regrow_tail):
        step(world)
        world.check()


def finish(cached: CachedServer, world: World) -> None:
    """Check what stands in the files, and that the next start begins afresh."""
    world.disconnect()
    assert_indexes_whole(cached.server)
    cached.server.stop()
    cached.start()
    world.check()
    world.disconnect()
    cached.assert_serving()


def says_once(cached: CachedServer, sentence: str) -> bool:
    """Wait until the log has the sentence; say whether it has it once."""
    text = cached.server.log_text
    assert eventually(lambda: sentence in text()), f"the log does not say: {sentence}"
    return text().count(sentence) == 1


def used_pages(cache_file: Path) -> list[int]:
    """Return the numbers of the cache file's pages, beyond the first, that hold something."""
    content = cache_file.read_bytes()
    nothing = bytes(PAGE_BYTES)
    return [
        page
        for page in range(1, len(content) // PAGE_BYTES)
        if content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] != nothing
    ]


def flip_bits(cache_file: Path, pages: list[int]) -> None:
    """Flip one bit in each of these pages, on the medium itself."""
    fd = os.open(cache_file, os.O_RDWR)
    try:
        for page in pages:
            offset = page * PAGE_BYTES + (page * 61) % PAGE_BYTES
            old = os.pread(fd, 1, offset)
            os.pwrite(fd, bytes([old[0] ^ 1 << page % 8]), offset)
        os.fsync(fd)
    finally:
        os.close(fd)


def test_flipped_bits_cost_their_blocks_and_no_query(warm: Factory) -> None:
    cached, world, _ = warm()
    pages = used_pages(cached.cache_file)
    flip_bits(cached.cache_file, pages[:: max(1, len(pages) // 20)])
    work(world)
    _, mismatched = cached.verify()
    assert mismatched == 0
    view = cached.assert_serving()
    assert 0 < view["corrupt_slots"] <= 30
    assert says_once(cached, CORRUPT)
    finish(cached, world)


def test_a_device_that_corrupts_everything_is_given_up(warm: Factory) -> None:
    cached, world, _ = warm()
    flip_bits(cached.cache_file, used_pages(cached.cache_file))
    cached.verify()
    work(world)
    view = cached.view()
    assert view["verify_mismatches"] == 0
    assert view["mode"] == "offline"
    assert view["corrupt_slots"] >= 256
    assert says_once(cached, CORRUPT)
    assert says_once(cached, "pgflash is offline now")
    finish(cached, world)


@pytest.mark.parametrize(
    ("fault", "times", "counter", "sentence"),
    [
        ({"reads": errno.EIO}, 3, "flash_read_errors", READ_FAILED),
        ({"reads": errno.EIO}, NO_END, "flash_read_errors", READ_FAILED),
        ({"short_reads": True}, 3, "flash_read_errors", READ_FAILED),
        ({"writes": errno.EIO}, NO_END, "flash_write_errors", WRITE_FAILED),
        ({"writes": errno.ENOSPC}, 3, "flash_write_errors", WRITE_FAILED),
    ],
    ids=[
        "a few reads fail",
        "all reads fail",
        "a few reads come back short",
        "all writes fail",
        "a few writes find no space",
    ],
)
def test_when_the_device_fails_no_query_does(
    warm: Factory, fault: dict[str, int], times: int, counter: str, sentence: str
) -> None:
    cached, world, faults = warm()
    faults.fail(**fault, times=times)  # type: ignore[arg-type]
    work(world)
    view = cached.view()
    faults.stop()
    assert view["verify_mismatches"] == 0
    assert view[counter] == faults.count
    assert says_once(cached, sentence)
    if times == NO_END:
        assert view["mode"] == "offline"
        assert says_once(cached, "pgflash is offline now")
    else:
        assert faults.count == times
        assert view["mode"] == "serve"
    finish(cached, world)


def test_a_cache_file_cut_off_under_the_server_fails_no_query(warm: Factory) -> None:
    cached, world, _ = warm()
    os.truncate(cached.cache_file, 64 * PAGE_BYTES)
    work(world)
    view = cached.view()
    assert view["verify_mismatches"] == 0
    assert view["flash_read_errors"] > 0
    assert says_once(cached, READ_FAILED)
    finish(cached, world)


def test_a_cache_file_removed_under_the_server_is_served_until_the_restart(warm: Factory) -> None:
    cached, world, _ = warm()
    cached.cache_file.unlink()
    work(world)
    cached.assert_serving()
    finish(cached, world)
    assert cached.cache_file.exists()


def test_a_cache_file_overwritten_with_zeros_serves_no_zeros(warm: Factory) -> None:
    cached, world, _ = warm()
    size = cached.cache_file.stat().st_size
    with cached.cache_file.open("r+b") as file:
        file.seek(PAGE_BYTES)
        file.write(bytes(size - PAGE_BYTES))
        file.flush()
        os.fsync(file.fileno())
    work(world)
    view = cached.view()
    assert view["verify_mismatches"] == 0
    assert view["corrupt_slots"] > 0
    finish(cached, world)
