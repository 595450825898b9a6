# SPDX-License-Identifier: PostgreSQL
"""The source and the owner of each read in the accounting, on devices that are known.

An emulated disk, the flash cache and io workers each know what they did.
"""

import threading
import time
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import psycopg
import pytest

from pgflash_lab.account import make_server_dir
from pgflash_lab.emulator import DeviceProfile, EmulatedDevice, Emulator
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.account import (
    ROWS,
    SETTINGS,
    flush,
    io,
    load,
    one,
    read_by_sessions,
    relation,
    rows,
    session,
    total,
)
from support.cached import create_cached
from support.cluster import ClusterFactory
from support.items import create_items
from support.patience import until
from support.uring import call_settings

pytestmark = pytest.mark.extension


@pytest.fixture(scope="module")
def slow_disk(pgflash_install: PgInstall) -> Iterator[tuple[Server, Emulator]]:
    """Return a server whose relations are on an emulated disk, its delays off."""
    factory = ClusterFactory(pgflash_install)
    server = factory(start=False)
    # The advice asks the kernel about reads of its own choice, at first about all.
    server.configure({**read_by_sessions(pgflash_install, SETTINGS), "pgflash.advice": "off"})
    with Emulator.create(
        server.base / "emulator.state",
        devices=[
            EmulatedDevice(
                name="disk",
                profile=DeviceProfile.named("sas15k-raid10-6"),
                paths=(server.data / "base", server.data / "global"),
            )
        ],
        owner=server.account.uid if server.account is not None else None,
        delays_on=False,
    ) as emulator:
        server.start(emulator.env)
        with session(server) as worker:
            worker.execute("create extension pgflash")
            create_items(worker, ROWS)
            worker.execute("checkpoint")
        yield server, emulator
        factory.close()


def test_calls_and_times_agree_with_those_of_a_slow_disk(
    slow_disk: tuple[Server, Emulator],
) -> None:
    server, emulator = slow_disk
    with session(server) as worker:
        io(worker)
        emulator.on()
        emulator.reset()
        before = io(worker)
        begin = time.monotonic()
        for i in range(150):
            worker.execute("select pad from item where id = %s", [i * 7919 % ROWS + 1])
        took_ms = (time.monotonic() - begin) * 1000
        disk = emulator.stats().device("disk").reads
        after = io(worker)
        emulator.off()
        histogram = rows(
            worker,
            "select sum(calls) filter (where lower_us >= 1000) as slow"
            " from pgflash_io_histogram where file_class = 'data' and operation = 'read'"
            " and source = 'disk' and backend_type = 'client backend'",
        )[0]
    key = ("client backend", "data", "read", "disk")
    calls = after[key]["calls"] - before.get(key, {"calls": 0})["calls"]
    time_ms = after[key]["time_ms"] - before.get(key, {"time_ms": 0})["time_ms"]
    assert disk.count > 100
    assert calls == disk.count
    assert disk.mean_ms > 2
    # The disk's clock is read within that of the account, which is within ours.
    assert disk.latency_ms <= time_ms <= took_ms
    assert histogram["slow"] > 0.9 * disk.count


def test_sources_that_nobody_was_asked_for_are_told_by_time(
    slow_disk: tuple[Server, Emulator],
) -> None:
    """One table is on the slow disk, the other in the page cache."""
    server, emulator = slow_disk
    space = make_server_dir(server.base / "space")
    with session(server) as worker:
        worker.execute(f"create tablespace memory location '{space}'")
        worker.execute("create table quick tablespace memory as select * from item")
        worker.execute("create index on quick (id) tablespace memory")
    # From a disk without delays the cache has learned that disks are as fast as memory.
    server.stop()
    emulator.on()
    server.start(emulator.env)
    with session(server) as worker:
        for name in ("item", "quick"):
            worker.execute(f"select pad from {name} where id = 1")
        # A busy processor holds up some copies from memory for as long as a disk would take.
        numbers = count()
        until(lambda: told_right(worker, numbers))
        emulator.off()


def told_right(worker: psycopg.Connection[Any], numbers: Iterator[int]) -> bool:
    """Read the next 200 rows of each table; say whether time told nearly all reads correctly."""
    names = ("item", "quick")
    before = {name: relation(worker, name) for name in names}
    asked_before = total(io(worker), "told_calls")
    for i in islice(numbers, 200):
        for name in names:
            worker.execute(f"select pad from {name} where id = %s", [i * 7919 % ROWS + 1])
    assert total(io(worker), "told_calls") - asked_before < 200
    after = {name: relation(worker, name) for name in names}
    shares = list[float]()
    for name, source in zip(names, ("disk_reads", "page_cache_reads"), strict=True):
        reads = after[name]["reads"] - before[name]["reads"]
        assert reads > 100
        shares.append((after[name][source] - before[name][source]) / reads)
    return bool(min(shares) > 0.95)


def test_many_sessions_at_once_lose_nothing(slow_disk: tuple[Server, Emulator]) -> None:
    server, emulator = slow_disk
    sessions = [session(server) for _ in range(4)]
    for worker in sessions:
        load(worker, updates=1)
    with session(server) as observer:
        io(observer)
        before = io(observer)
        emulator.reset()
        threads = [
            threading.Thread(target=load, args=[worker], kwargs={"updates": 100})
            for worker in sessions
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        disk = emulator.stats().device("disk")
        after = io(observer)
    for worker in sessions:
        worker.close()
    classes = ("data", "temp relation", "temp")

    def ours(number: str, *operations: str) -> float:
        return total(after, number, before=before, classes=classes, operations=operations)

    assert (ours("calls", "read"), ours("bytes", "read")) == (disk.reads.count, disk.reads.bytes)
    assert disk.reads.count > 1000
    assert ours("calls", "write", "extend") >= disk.writes.count > 500


def test_reads_that_flash_serves_agree_with_the_cache(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(cluster, pgflash_install)
    with session(cached.server) as worker:
        # The accounting begins before the cache serves.
        cache_earlier = rows(worker, "select * from pgflash_cache")[0]
        earlier = io(worker)
        create_items(worker, ROWS)
        for _ in range(2):
            for i in range(300):
                worker.execute("select pad from item where id = %s", [i * 7919 % ROWS + 1])
        counts = io(worker)
        cache = {
            name: value - cache_earlier[name] if isinstance(value, int) else value
            for name, value in rows(worker, "select * from pgflash_cache")[0].items()
        }

    def read(number: str, source: str) -> float:
        """Return by how much a number of the reads from there has grown."""
        now, then = (
            {key: row for key, row in of.items() if row["source"] == source}
            for of in (counts, earlier)
        )
        return total(now, number, before=then)

    by_source = {source: read("calls", source) for source in ("disk", "flash", "page cache")}
    assert by_source["flash"] > 100
    # The cache is read a query later.
    flash_bytes = read("bytes", "flash")
    assert flash_bytes <= cache["hits"] * 8192
    assert flash_bytes >= (cache["hits"] - 50) * 8192
    assert abs(by_source["disk"] - cache["disk_reads"]) < 50
    told = total(counts, "told_calls", before=earlier)
    assert sum(by_source.values()) - told < 100


# ---- io workers -------------------------------------------------------------------


def test_a_read_by_an_io_worker_counts_for_who_asked(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    if pgflash_install.major < 18:
        pytest.skip("before PostgreSQL 18 everybody reads for himself")
    server = cluster(
        install=pgflash_install, settings={**SETTINGS, **call_settings(pgflash_install)}
    )
    with session(server) as worker:
        worker.execute("create extension pgflash")
        worker.execute(
            "create table item as select n as id, repeat('x', 500) as pad"
            f" from generate_series(1, {ROWS}) n"
        )
        worker.execute("checkpoint")
        before = io(worker)
        flush(worker)
        blocks_before = one(
            worker,
            "select pg_stat_get_blocks_fetched('item'::regclass)"
            " - pg_stat_get_blocks_hit('item'::regclass)",
        )
        for _ in range(3):
            worker.execute("select count(*) from item")
        flush(worker)
        after = io(worker)
        blocks = one(
            worker,
            "select pg_stat_get_blocks_fetched('item'::regclass)"
            " - pg_stat_get_blocks_hit('item'::regclass)",
        )
        pids = {
            row["backend_type"] for row in rows(worker, "select backend_type from pg_stat_activity")
        }
    assert "io worker" in pids
    assert (
        total(after, "bytes", before=before, backend_type="client backend")
        >= (blocks - blocks_before) * 8192
    )
    assert total(after, "worker_calls", before=before, backend_type="client backend") > 50
    assert total(after, "worker_time_ms", backend_type="client backend") > 0
    assert total(after, "calls", backend_type="io worker") == 0
