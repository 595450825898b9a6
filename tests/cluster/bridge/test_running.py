# SPDX-License-Identifier: PostgreSQL
"""The cache in a running server: what bypasses it, what it shows, what it survives."""

import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import (
    SHARED_BUFFERS,
    CachedServer,
    Row,
    create_cached,
    has_contrib,
    process_titles,
    run_client,
)
from support.cluster import ClusterFactory
from support.items import create_items, settle
from support.patience import eventually
from support.shim import WITHOUT_AIO, compile_shim

#: Bytes in front of the first slot of a cache file.
SLOTS_OFFSET = 1024 * 1024
BLOCK = 8192

ROWS = 20_000


@pytest.fixture(scope="module")
def shared_server(pgflash_install: PgInstall) -> Iterator[CachedServer]:
    """One server for all tests here: making one takes longer than most of them."""
    factory = ClusterFactory(pgflash_install)
    server = create_cached(factory, pgflash_install)
    with server.server.connect() as connection:
        create_items(connection, ROWS, more="n % 97 as part,")
        connection.execute("create index on item (part)")
        settle(connection)
    yield server
    factory.close()


@pytest.fixture
def cached(shared_server: CachedServer) -> CachedServer:
    """The server with an empty cache that serves, and verification off."""
    if shared_server.server.running:
        shared_server.server.stop()
    shared_server.server.configure(
        {
            "pgflash.verify": "off",
            "pgflash.warm_restart": "off",
            "shared_buffers": SHARED_BUFFERS,
        }
    )
    shared_server.start()
    assert eventually(lambda: shared_server.view()["mode"] == "serve")
    return shared_server


def read_at_random(server: CachedServer, *, count: int = 400) -> None:
    with server.server.connect() as connection:
        for i in range(count):
            row = connection.execute(
                "select id, pad from item where id = %s", [i * 7919 % ROWS + 1]
            ).fetchone()
            assert row == (i * 7919 % ROWS + 1, "x" * 500)


def difference(server: CachedServer, action: Callable[[], object]) -> Row:
    """Return by how much each counter grew while ACTION ran."""
    before = server.view()
    action()
    after = server.view()
    return {
        name: after[name] - before[name]
        for name in after
        if isinstance(after[name], int) and not isinstance(after[name], bool)
    }


def warm(server: CachedServer) -> None:
    """Read until most of the blocks are cached: a slow writer leaves out many."""
    assert eventually(lambda: difference(server, lambda: read_at_random(server))["hits"] > 300)


def without_io_workers(server: CachedServer) -> dict[str, str]:
    """Return the setting with which sessions read by themselves: no io worker sees a whole scan."""
    return {"io_method": "sync"} if server.server.install.major >= 18 else {}


def restart_with(server: CachedServer, settings: Mapping[str, str]) -> None:
    server.server.stop()
    server.server.configure(settings)
    server.start()


# ---- who bypasses


@pytest.mark.extension
def test_a_base_backup_neither_fills_nor_is_looked_up(cached: CachedServer) -> None:
    read_at_random(cached)
    targets = (str(cached.server.base / f"backup-{number}") for number in itertools.count())
    options = ("--checkpoint=fast", "-X", "none")

    def passes_by() -> bool:
        """Take another one if pgflash's own visits, which read catalogs, fell into it."""
        grown = difference(
            cached,
            lambda: run_client(cached.server, "pg_basebackup", "-D", next(targets), *options),
        )
        assert grown["bypass_reads"] > 100
        # The walsender's own catalog look-ups aside, nothing happened.
        return bool(max(grown[name] for name in ("hits", "misses", "inserts")) < 50)

    assert eventually(passes_by)


@pytest.mark.extension
def test_a_large_scan_does_not_flush_what_others_use(cached: CachedServer) -> None:
    def scan() -> None:
        with cached.server.connect() as connection:
            connection.execute("set max_parallel_workers_per_gather = 0")
            connection.execute("select sum(length(pad)) from item").fetchone()

    settings = without_io_workers(cached)
    restart_with(cached, settings)
    blocks = (cached.server.data / filepath(cached)).stat().st_size // BLOCK
    grown = difference(cached, scan)
    cached.server.configure(dict.fromkeys(settings))
    assert blocks > 1000
    assert grown["disk_read_bytes"] > blocks * BLOCK // 2
    assert grown["inserts"] < blocks // 4, f"{grown['inserts']} of {blocks} blocks"


@pytest.mark.extension
def test_a_scan_that_is_served_from_flash_is_read_ahead_of(cached: CachedServer) -> None:
    def scan() -> None:
        with cached.server.connect() as connection:
            connection.execute("set max_parallel_workers_per_gather = 0")
            row = connection.execute("select count(*), sum(length(pad)) from item").fetchone()
            assert row == (ROWS, ROWS * 500)

    def timed_reads() -> int:
        return sum(cached.view()["flash_read_histogram"])

    if cached.view()["io_engine"] != "aio":
        pytest.skip("without Linux AIO nothing is read ahead")
    verified = {"pgflash.verify": "all", **without_io_workers(cached)}
    restart_with(cached, verified)
    fill_item(cached)
    blocks = (cached.server.data / filepath(cached)).stat().st_size // BLOCK

    def is_read_ahead_of() -> bool:
        """Scan once more: a machine that stands still makes blocks come late."""
        timed_before = timed_reads()
        grown = difference(cached, scan)
        timed = timed_reads() - timed_before
        assert grown["verify_compared"] >= grown["hits"]
        return bool(
            grown["hits"] > blocks * 9 // 10
            # Nobody waited for a block that had come by the time it was asked for.
            and timed < grown["hits"] // 2
            # And few blocks were read in vain.
            and grown["flash_reads"] < grown["hits"] * 11 // 10
        )

    assert eventually(is_read_ahead_of)
    cached.assert_serving()
    cached.server.configure(dict.fromkeys(verified))


def fill_item(server: CachedServer) -> None:
    """Bring nearly all blocks of the table to flash, in an order that is not a scan."""

    def missing() -> int:
        with server.server.connect() as connection:
            row = connection.execute(
                "select pg_relation_size('item') / 8192 - coalesce(sum(cached_blocks), 0)"
                " from pgflash_relations where relation = 'item'::regclass and fork = 'main'"
            ).fetchone()
        assert row is not None
        return int(row[0])

    def read_all() -> bool:
        with server.server.connect() as connection:
            connection.execute(
                "do $$ declare blocks bigint := pg_relation_size('item') / 8192;"
                " begin for i in 0..blocks - 1 loop perform 1 from item"
                " where ctid = format('(%s,1)', i * 7919 % blocks)::tid; end loop; end $$"
            )
        return missing() == 0

    assert eventually(read_all)


def filepath(server: CachedServer, relation: str = "item") -> str:
    with server.server.connect() as connection:
        row = connection.execute("select pg_relation_filepath(%s)", [relation]).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.extension
def test_advice_to_read_ahead_is_swallowed_for_cached_blocks(cached: CachedServer) -> None:
    if not has_contrib(cached.server.install, "pg_prewarm"):
        pytest.skip("this server has no pg_prewarm, which gives such advice when asked to")

    def advise() -> None:
        with cached.server.connect() as connection:
            connection.execute("create extension if not exists pg_prewarm")
            connection.execute("select pg_prewarm('item', 'prefetch')")

    def swallowed_after_reads() -> bool:
        # On a busy machine the staging ring is full at times, and then reads cache nothing.
        read_at_random(cached)
        return bool(difference(cached, advise)["prefetches_swallowed"] > 100)

    assert difference(cached, advise)["prefetches_swallowed"] == 0
    assert eventually(swallowed_after_reads)


# ---- what it shows


@pytest.mark.extension
def test_a_session_that_reads_flash_shows_it_as_its_wait(cached: CachedServer) -> None:
    warm(cached)
    expected = "LWLock" if cached.server.install.major < 17 else "Extension"
    with cached.server.connect() as reader, cached.server.connect() as watcher:
        watcher.autocommit = True
        # The watcher has read all it needs before the device stalls, or it would wait, too.
        watch_reads(reader, watcher)

        def seen() -> bool:
            # Too short for the device to be bypassed, and longer than the watcher needs.
            cached.emulator.stall("flash", seconds=0.8)
            return (expected, "FlashCacheRead") in watch_reads(reader, watcher)

        assert eventually(seen)


def watch_reads(reader: psycopg.Connection, watcher: psycopg.Connection) -> set[tuple[str, str]]:
    """Let READER read while WATCHER looks at what anybody waits for."""

    def read() -> None:
        for i in range(100):
            reader.execute("select pad from item where id = %s", [i * 7919 % ROWS + 1])

    seen: set[tuple[str, str]] = set()
    thread = threading.Thread(target=read)
    thread.start()
    try:
        while thread.is_alive():
            seen.update(
                watcher.execute(
                    "select wait_event_type, wait_event from pg_stat_activity"
                    " where wait_event is not null and pid <> pg_backend_pid()"
                ).fetchall()
            )
            thread.join(0.01)
    finally:
        thread.join()
    return seen


# ---- what it survives


def crash_a_backend(server: CachedServer) -> None:
    with server.server.connect() as connection:
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        assert eventually(lambda: "all server processes terminated" in log(server))
    assert eventually(lambda: can_connect(server))


def can_connect(server: CachedServer) -> bool:
    try:
        server.server.connect().close()
    except psycopg.Error:
        return False
    return True


def log(server: CachedServer) -> str:
    return server.server.log_text(since_start=True)


@pytest.mark.extension
@pytest.mark.parametrize("memory", ["sysv", "mmap"])
def test_after_a_crash_of_a_backend_the_cache_without_warm_restart_begins_empty(
    cached: CachedServer, memory: str
) -> None:
    cached.server.stop()
    cached.server.configure({"shared_memory_type": memory, "pgflash.warm_restart": "off"})
    cached.start()
    assert eventually(lambda: cached.view()["mode"] == "serve")
    warm(cached)
    used = cached.view()["used_slots"]
    assert used > 300
    crash_a_backend(cached)
    assert eventually(lambda: cached.view()["mode"] == "serve")
    # Recovery and the first sessions have read a little again.
    assert cached.view()["used_slots"] < used // 2
    warm(cached)
    assert cached.verify()[1] == 0


@pytest.mark.extension
@pytest.mark.parametrize("name", ["pgflash", "pgflash writer"])
def test_a_worker_comes_back_when_it_is_ended(cached: CachedServer, name: str) -> None:
    def workers() -> list[int]:
        return [pid for pid, title in process_titles(cached.server) if title == name]

    assert eventually(lambda: len(workers()) == 1)
    (first,) = workers()
    os.kill(first, signal.SIGTERM)
    assert eventually(lambda: len(workers()) == 1 and workers() != [first])
    assert cached.view()["mode"] == "serve"
    assert eventually(lambda: cached.view()["writer_running"])


def test_a_stopped_server_leaves_no_lock_on_its_cache_file(cached: CachedServer) -> None:
    cached.server.restart({**cached.emulator.env, "LD_PRELOAD": cached.emulator.env["LD_PRELOAD"]})
    assert eventually(lambda: cached.view()["mode"] == "serve")


def shows(server: CachedServer, setting: str) -> str:
    """Return the value of a setting in a new session."""
    with server.server.connect() as connection:
        row = connection.execute("select current_setting(%s)", [setting]).fetchone()
    assert row is not None
    return str(row[0])


def test_a_new_setting_of_verify_takes_hold_at_a_reload(cached: CachedServer) -> None:
    warm(cached)
    assert difference(cached, lambda: read_at_random(cached))["verify_compared"] == 0
    cached.server.configure({"pgflash.verify": "all"})
    cached.server.reload()
    assert eventually(
        lambda: difference(cached, lambda: read_at_random(cached, count=50))["verify_compared"] > 0
    )
    cached.server.configure({"pgflash.verify": "sample"})
    cached.server.reload()
    assert eventually(lambda: shows(cached, "pgflash.verify") == "sample")

    def many_hits() -> bool:
        grown = difference(cached, lambda: read_at_random(cached, count=1200))
        assert grown["verify_compared"] < max(grown["hits"], 200) // 20
        return bool(grown["hits"] > 600)

    assert eventually(many_hits)


# ---- a device that fails


def test_flipped_bits_are_noticed_counted_and_never_served(cached: CachedServer) -> None:
    warm(cached)
    used = cached.view()["used_slots"]
    assert used > 100
    with cached.cache_file.open("r+b") as file:
        size = cached.cache_file.stat().st_size
        for slot in range((size - SLOTS_OFFSET) // BLOCK):
            file.seek(SLOTS_OFFSET + slot * BLOCK + 4000)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))

    def is_given_up() -> bool:
        read_at_random(cached)
        return bool(cached.view()["mode"] == "offline")

    # So many errors are no accident: the device cannot be trusted.
    assert eventually(is_given_up)
    view = cached.view()
    assert view["corrupt_slots"] > 0
    assert "corrupt" in view["mode_reason"]
    assert eventually(lambda: "came back from the cache file corrupt" in log(cached))
    assert eventually(lambda: "pgflash is offline now" in log(cached))


def test_a_cache_file_that_was_cut_off_gives_misses(cached: CachedServer) -> None:
    warm(cached)
    os.truncate(cached.cache_file, SLOTS_OFFSET)

    def is_noticed() -> bool:
        """A write by the writer makes the file long again, with zeros in between."""
        read_at_random(cached)
        view = cached.view()
        return bool(view["flash_read_errors"] + view["corrupt_slots"] > 0)

    assert eventually(is_noticed)
    assert eventually(
        lambda: (
            "a read of the cache file failed" in log(cached)
            or "came back from the cache file corrupt" in log(cached)
        )
    )


def test_a_removed_cache_file_does_no_harm(cached: CachedServer) -> None:
    warm(cached)
    cached.cache_file.unlink()
    warm(cached)


@pytest.mark.parametrize("call", ["pread", "pwrite"])
def test_a_device_that_answers_with_errors_is_given_up(cached: CachedServer, call: str) -> None:
    broken = compile_shim(
        cached.server.base,
        f"eio-{call}",
        WITHOUT_AIO
        + f"""
        #include <stdio.h>
        #include <string.h>
        ssize_t {call}(int fd, {"const " * (call == "pwrite")}void *buffer, size_t size,
                       off_t offset)
        {{
            ssize_t (*real)(int, {"const " * (call == "pwrite")}void *, size_t, off_t) =
                dlsym(RTLD_NEXT, "{call}");
            char link[64];
            char path[4096] = "";

            snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
            if (offset >= {SLOTS_OFFSET} &&
                readlink(link, path, sizeof(path) - 1) > 0 && strstr(path, "/flash/cache"))
            {{
                errno = EIO;
                return -1;
            }}
            return real(fd, buffer, size, offset);
        }}
        """,
    )
    cached.server.stop()
    cached.preloads = [broken]
    try:
        cached.start()
    finally:
        cached.preloads = []

    def is_given_up() -> bool:
        read_at_random(cached)
        return bool(cached.view()["mode"] == "offline")

    assert eventually(is_given_up)
    view = cached.view()
    failed = "flash_read_errors" if call == "pread" else "flash_write_errors"
    assert view[failed] > 0
    assert "of the cache file failed" in view["mode_reason"]
    assert eventually(lambda: "pgflash is offline now" in log(cached))
