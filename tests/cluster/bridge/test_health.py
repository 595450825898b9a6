# SPDX-License-Identifier: PostgreSQL
"""Flash that stalls, is slow, recovers, or may be written only little."""

import itertools
import time
from collections.abc import Callable

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, Row, assert_never_stale, create_cached
from support.cluster import ClusterFactory
from support.items import create_items, settle
from support.patience import eventually

Installs = Callable[[str], PgInstall]

ROWS = 20_000

BYPASSED = "is bypassed now: a read of it was not done in time"
IN_USE_AGAIN = "is in use again"

#: Rows that are read: each in a different block, as far as there are so many.
NUMBERS = range(600)


def make_cached(factory: ClusterFactory, install: PgInstall, **settings: str) -> CachedServer:
    """Start a server whose data and whose cache file are on emulated devices, without delays."""
    cached = create_cached(
        factory,
        install,
        # A busy machine must not be taken for a device that hangs.
        settings={"autovacuum": "off", "pgflash.read_deadline": "2s", **settings},
    )
    with cached.server.connect() as connection:
        create_items(connection, ROWS, more="0 as version,")
        settle(connection)
    return cached


def row_id(number: int) -> int:
    return number * 7919 % ROWS + 1


def read(cached: CachedServer, numbers: range = NUMBERS) -> list[int]:
    """Read rows one by one; return their versions."""
    versions = []
    with cached.server.connect() as connection:
        for number in numbers:
            row = connection.execute(
                "select version from item where id = %s", [row_id(number)]
            ).fetchone()
            assert row is not None
            versions.append(row[0])
    return versions


def write(cached: CachedServer, numbers: range, version: int) -> None:
    """Write rows, and make sure that their blocks reach their file."""
    with cached.server.connect() as connection:
        connection.autocommit = True
        for number in numbers:
            connection.execute(
                "update item set version = %s where id = %s", [version, row_id(number)]
            )
        connection.execute("checkpoint")


def device(cached: CachedServer) -> Row:
    with cached.server.connect() as connection:
        cursor = connection.execute("select * from pgflash_cache_devices")
        assert cursor.description is not None
        (row,) = cursor.fetchall()
        return dict(zip([column.name for column in cursor.description], row, strict=True))


def log_count(cached: CachedServer, words: str) -> int:
    return cached.server.log_text(since_start=True).count(words)


def require_deadline(cached: CachedServer) -> None:
    if cached.view()["io_engine"] != "aio":
        pytest.skip("the kernel allows no AIO, so there is no deadline")


def hits_of_reading(cached: CachedServer, numbers: range = NUMBERS) -> int:
    """Read rows one by one; return how many blocks came from flash."""
    before = cached.view()["hits"]
    read(cached, numbers)
    return int(cached.view()["hits"] - before)


def stall_and_change(cached: CachedServer) -> None:
    """Make the flash stall, write rows that it holds, and let it answer again."""
    require_deadline(cached)
    assert eventually(lambda: hits_of_reading(cached) > 400)
    assert eventually(lambda: bool(device(cached)["state"] == "in use"))
    timeouts = device(cached)["read_timeouts"]
    said = log_count(cached, BYPASSED)

    cached.emulator.stall("flash", seconds=120)
    read(cached, range(20))
    assert device(cached)["state"] == "bypassed"
    write(cached, range(0, 600, 3), 1)
    read(cached)
    row = device(cached)
    assert row["state"] == "bypassed"
    assert row["state_reason"] == "a read of it was not done in time"
    # Each session and I/O worker may have been waiting when the breaker opened, no more.
    assert 1 <= row["read_timeouts"] - timeouts <= 12
    assert row["bypassed_reads"] > 100
    assert eventually(lambda: log_count(cached, BYPASSED) == said + 1)
    cached.emulator.stall("flash", seconds=0)
    assert eventually(lambda: bool(device(cached)["state"] == "in use"))
    # Reads what was changed and what was not, and compares each hit with its file.
    read(cached)
    cached.assert_serving()


def test_a_stalled_device_is_bypassed_and_comes_back_warm(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = make_cached(cluster, pgflash_install)
    stall_and_change(cached)
    assert eventually(lambda: bool(device(cached)["state"] == "in use"))
    before = cached.view()
    versions = read(cached)
    assert versions == [1 if number % 3 == 0 else 0 for number in NUMBERS]
    after = cached.view()
    # Warm: most of the blocks were there all the time.
    assert after["hits"] - before["hits"] > 300
    assert eventually(lambda: log_count(cached, BYPASSED) == log_count(cached, IN_USE_AGAIN))
    assert_never_stale(cached, compared_min=300, go_on=lambda: read(cached))


def test_a_library_that_forgets_changes_while_a_device_is_bypassed_is_caught(
    cluster: ClusterFactory, broken_install: Installs
) -> None:
    cached = make_cached(cluster, broken_install("BYPASSED"))
    with pytest.raises(AssertionError, match="stale"):
        stall_and_change(cached)


def test_a_device_slower_than_the_disk_is_bypassed_until_it_recovers(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = make_cached(
        cluster,
        pgflash_install,
        **{
            "pgflash.read_deadline": "10s",
            "pgflash.verify": "off",
            # Each of the disk's reads is one of a single block.
            "pgflash.fill_neighbours": "off",
        },
        **({"io_method": "sync"} if pgflash_install.major >= 18 else {}),
    )
    assert eventually(lambda: hits_of_reading(cached, range(500)) > 350)
    cached.emulator.on()
    # The disk's time: rows that were not read yet.
    read(cached, range(1000, 1400))
    assert device(cached)["state"] == "in use"

    cached.emulator.slow("flash", factor=200)

    def found_slow() -> bool:
        read(cached, range(500))
        return bool(device(cached)["state"] == "bypassed")

    assert eventually(found_slow)
    row = device(cached)
    assert row["state_reason"] == "reads of it took longer than reads of the disk"
    asked = row["reads"]
    read(cached, range(50))
    row = device(cached)
    assert row["reads"] == asked
    assert row["bypassed_reads"] > 20

    cached.emulator.slow("flash", factor=1)
    assert eventually(lambda: bool(device(cached)["state"] == "in use"))
    # A machine that stands still looks like slow flash for a moment.
    assert eventually(lambda: hits_of_reading(cached, range(50)) > 20)
    assert log_count(cached, "is bypassed now: reads of it took longer") >= 1
    compared, mismatched = cached.verify()
    assert compared > 200
    assert mismatched == 0


def test_the_write_budget_holds_under_load(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    budget = 200 * 1024 * 1024
    begun = time.monotonic()
    cached = make_cached(cluster, pgflash_install, **{"pgflash.write_budget": "200MB"})
    versions = itertools.count(1)

    def much_is_left_out() -> bool:
        read(cached)
        write(cached, range(0, 600, 2), next(versions))
        return bool(cached.view()["insert_skip_budget"] > 500)

    assert eventually(much_is_left_out)
    view = cached.assert_serving()
    seconds = time.monotonic() - begun
    allowed = budget / 86400 * (300 + seconds)
    # Beyond it, the blocks under way when the budget ran out: one ring.
    assert view["flash_write_bytes"] <= allowed + 64 * 8192
    assert view["flash_write_bytes"] > budget / 86400 * 300 * 0.9
    assert view["flash_write_bytes_day"] == view["flash_write_bytes"]
    assert view["write_budget_left_bytes"] == budget - view["flash_write_bytes"]

    with cached.server.connect() as connection:
        connection.autocommit = True
        connection.execute("alter system set pgflash.write_budget = 0")
        connection.execute("select pg_reload_conf()")
    assert eventually(lambda: cached.view()["write_budget_left_bytes"] is None)

    def more_is_written() -> bool:
        read(cached)
        return bool(cached.assert_serving()["flash_write_bytes"] > allowed)

    assert eventually(more_is_written)
    view = assert_never_stale(cached, compared_min=100, go_on=lambda: read(cached))

    with cached.server.connect() as connection:
        row = connection.execute(
            "select pgflash_drive_writes_per_day(%s), pgflash_drive_writes_per_day(%s),"
            " extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float8",
            [view["flash_write_bytes_day"], view["flash_write_bytes_day"] * 10],
        ).fetchone()
    assert row is not None
    # Once in the time that the server has run.
    assert 86400 / row[2] * 0.9 < row[0] < 86400 / row[2] * 5
    assert row[1] == pytest.approx(row[0] / 10, rel=0.01)
