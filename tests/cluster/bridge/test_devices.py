# SPDX-License-Identifier: PostgreSQL
"""A cache striped over several files, of which one may be missing, fail or hang."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, Row, assert_never_stale, create_cached
from support.cluster import ClusterFactory
from support.faults import Call, Fault, Faults
from support.items import create_items, settle
from support.patience import eventually

FILES = 3
ROWS = 20_000


@pytest.fixture
def factory(pgflash_install: PgInstall) -> Iterator[ClusterFactory]:
    made = ClusterFactory(pgflash_install)
    yield made
    made.close()


def cache_files(cached: CachedServer) -> list[Path]:
    """Name three cache files, each in a folder of its own."""
    return [
        make_server_dir(cached.server.base / f"flash{number}") / "cache" for number in range(FILES)
    ]


def fill_tables(cached: CachedServer) -> None:
    with cached.server.connect() as connection:
        create_items(connection, ROWS)
        settle(connection)


def read_at_random(cached: CachedServer, *, count: int = 600) -> None:
    with cached.server.connect() as connection:
        for i in range(count):
            row = connection.execute(
                "select pad from item where id = %s", [i * 7919 % ROWS + 1]
            ).fetchone()
            assert row == ("x" * 500,)


def devices(cached: CachedServer) -> list[Row]:
    with cached.server.connect() as connection:
        cursor = connection.execute("select * from pgflash_cache_devices")
        assert cursor.description is not None
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


@pytest.fixture
def striped(pgflash_install: PgInstall, factory: ClusterFactory) -> CachedServer:
    """A server that is not started, with its cache on three files of 16 MB."""
    cached = create_cached(factory, pgflash_install, start=False)
    cached.server.configure(
        {
            "pgflash.cache_file": ", ".join(map(str, cache_files(cached))),
            "pgflash.cache_size": "16MB",
        }
    )
    return cached


def start(cached: CachedServer) -> None:
    cached.start()
    cached.create_extension()
    cached.await_serving()


def hits_of_reading(cached: CachedServer) -> int:
    """Read rows all over the table; return how many blocks came from flash."""
    before = cached.view()["hits"]
    read_at_random(cached)
    return int(cached.view()["hits"] - before)


def warm(cached: CachedServer, *, hits: int = 600) -> None:
    """Read until most of the blocks are cached: a slow writer leaves out many."""
    assert eventually(lambda: hits_of_reading(cached) > hits)


def test_all_files_have_their_share_of_the_work(striped: CachedServer) -> None:
    start(striped)
    fill_tables(striped)
    warm(striped)
    view = striped.view()
    assert view["size_bytes"] == FILES * 16 * 1024 * 1024
    assert view["io_engine"] in {"aio", "plain"}
    rows = devices(striped)
    assert [row["cache_file"] for row in rows] == [str(path) for path in cache_files(striped)]
    for row in rows:
        assert row["state"] == "in use"
        assert row["reads"] > sum(other["reads"] for other in rows) / FILES / 2
        assert row["writes"] > sum(other["writes"] for other in rows) / FILES / 2
        assert row["read_mean_ms"] > 0
    assert_never_stale(striped, compared_min=200)


def test_a_missing_file_costs_its_share_and_comes_back_at_the_next_start(
    striped: CachedServer,
) -> None:
    lost = cache_files(striped)[1].parent
    aside = lost.with_name("aside")
    lost.rename(aside)
    start(striped)
    log = striped.server.log_text(since_start=True)
    assert "runs without one of its cache files" in log
    assert f'could not open cache file "{lost / "cache"}"' in log
    fill_tables(striped)
    warm(striped, hits=300)
    striped.await_devices()
    assert [row["state"] for row in devices(striped)] == ["in use", "missing", "in use"]
    view = assert_never_stale(striped, compared_min=200)
    assert view["insert_skip_device"] > 0

    striped.server.stop()
    aside.rename(lost)
    start(striped)
    warm(striped, hits=300)
    striped.await_devices()
    assert {row["state"] for row in devices(striped)} == {"in use"}
    assert_never_stale(striped, compared_min=200)


def test_without_any_file_the_server_runs_without_the_cache(striped: CachedServer) -> None:
    for path in cache_files(striped):
        path.parent.rmdir()
    striped.start()
    striped.create_extension()
    assert striped.view()["mode"] == "offline"
    assert "could not open cache file" in striped.view()["mode_reason"]
    assert devices(striped) == []


def test_a_file_that_fails_is_given_up_alone(striped: CachedServer) -> None:
    faults = Faults.build(striped.server.base)
    failing = cache_files(striped)[2]
    striped.preloads = [faults.library]
    striped.preload_env = faults.env(failing)
    start(striped)
    fill_tables(striped)
    warm(striped)
    faults.strike(Fault(calls=Call.READ, error=errno.EIO))

    def has_failed() -> bool:
        read_at_random(striped)
        return bool(devices(striped)[2]["state"] == "failed")

    assert eventually(has_failed)
    striped.await_devices()
    assert [row["state"] for row in devices(striped)] == ["in use", "in use", "failed"]
    assert eventually(
        lambda: (
            f'cache file "{failing}" is out of use now: too many reads'
            in striped.server.log_text(since_start=True)
        )
    )
    asked = devices(striped)[2]["reads"]
    warm(striped, hits=200)
    assert devices(striped)[2]["reads"] == asked
    assert_never_stale(striped, compared_min=200)


def test_a_device_that_hangs_costs_no_query_more_than_the_deadline(
    pgflash_install: PgInstall, factory: ClusterFactory
) -> None:
    cached = create_cached(
        factory,
        pgflash_install,
        settings={"pgflash.verify": "off", "pgflash.read_deadline": "20ms"},
    )
    if cached.view()["io_engine"] != "aio":
        pytest.skip("the kernel allows no AIO, so there is no deadline")
    fill_tables(cached)
    assert eventually(lambda: hits_of_reading(cached) > 300)
    with cached.server.connect() as connection:
        connection.execute(
            "select pad from item where id = 1"
        )  # and the blocks that a session reads once

        def a_query_meets_it() -> bool:
            """Let the device hang; say whether a query met it.

            On a busy machine it may be bypassed just before that, and then no query does.
            """
            cached.await_devices()
            timeouts = cached.view()["read_timeouts"]

            def timed_out() -> bool:
                return bool(cached.view()["read_timeouts"] > timeouts)

            def is_over() -> bool:
                for number in range(100):
                    connection.execute(
                        "select pad from item where id = %s", [number * 7919 % ROWS + 1]
                    ).fetchone()
                return timed_out() or devices(cached)[0]["state"] == "bypassed"

            # As long as the emulator can: a query that had to wait for the device would exceed its
            # time.
            cached.emulator.stall("flash", seconds=120)
            try:
                assert eventually(is_over)
                assert cached.emulator.stats().device("flash").stalled_s > 0, "a query waited"
            finally:
                cached.emulator.stall("flash", seconds=0)
            return timed_out()

        assert eventually(a_query_meets_it)
    assert cached.view()["mode"] == "serve"
    before = cached.view()["hits"]
    assert eventually(lambda: _hits_again(cached, before))
    compared, mismatched = cached.verify()
    assert compared > 0
    assert mismatched == 0


def _hits_again(cached: CachedServer, before: int) -> bool:
    read_at_random(cached, count=50)
    return bool(cached.view()["hits"] > before + 20)
