# SPDX-License-Identifier: PostgreSQL
"""The advice on the cache's size: right, the same in every mode, and there without a cache."""

from typing import Any

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.patience import eventually

#: About 1400 blocks: more than shared_buffers and than 1/8 of 64 MB, less than 1/4.
ROWS = 20_000
SCANS = 24


def make_item(cached: CachedServer) -> int:
    """Make a table and return how many blocks it has."""
    with cached.server.connect() as connection:
        connection.execute(
            "create table item as select n as id, repeat('x', 500) as pad"
            f" from generate_series(1, {ROWS}) n"
        )
        row = connection.execute("select pg_relation_size('item') / 8192").fetchone()
    assert row is not None
    blocks = int(row[0])
    assert 1100 < blocks < 1900
    return blocks


def scan(cached: CachedServer, times: int) -> None:
    with cached.server.connect() as connection:
        for _ in range(times):
            connection.execute("select count(*) from item")


def advice(cached: CachedServer) -> list[dict[str, Any]]:
    with cached.server.connect() as connection:
        cursor = connection.execute("select * from pgflash_cache_advice order by size_factor")
        assert cursor.description is not None
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def assert_a_loop(rows: list[dict[str, Any]], blocks: int, present_bytes: int) -> None:
    """Check the rows against the theory of a loop: all hits if all of it fits, or none."""
    assert [row["size_factor"] for row in rows] == [0.125, 0.25, 0.5, 1, 2, 4, 8, 16]
    for row in rows:
        assert row["size_bytes"] == present_bytes * row["size_factor"]
        # Catalogs and the creation of the table are in the stream, too.
        if row["size_bytes"] < blocks * 8192 * 0.8:
            assert row["hit_ratio"] < 0.15, row
        if row["size_bytes"] > blocks * 8192 * 1.3:
            assert row["hit_ratio"] > 0.85, row
        expected = row["requests_per_s"] * (1 - row["hit_ratio"])
        assert row["disk_reads_per_s"] == pytest.approx(expected)
        saved_ms = row["disk_read_mean_ms"] - row["flash_read_mean_ms"]
        assert row["saved_ms_per_s"] == pytest.approx(
            row["requests_per_s"] * row["hit_ratio"] * saved_ms
        )
    one = next(row for row in rows if row["size_factor"] == 1)
    for row in rows:
        assert row["disk_reads_factor"] == pytest.approx(
            row["disk_reads_per_s"] / one["disk_reads_per_s"]
        )
    # The number of requests: an error of a third is chance, since one read in 32 is counted.
    assert one["requests_per_s"] * one["window_s"] == pytest.approx(SCANS * blocks, rel=0.4)
    assert one["sampled_blocks"] >= 0.8 * blocks * one["sample_rate"]


@pytest.mark.parametrize("mode", ["serve", "passthrough", "offline"])
def test_the_curve_of_a_loop_is_the_same_in_every_mode(
    cluster: ClusterFactory, pgflash_install: PgInstall, mode: str
) -> None:
    cached = create_cached(cluster, pgflash_install)
    blocks = make_item(cached)
    cached.server.stop()
    cached.start()
    assert eventually(lambda: cached.view()["mode"] == "serve")
    with cached.server.connect() as connection:
        connection.execute("select pgflash_cache_set_mode(%s)", [mode])
    scan(cached, SCANS)
    rows = advice(cached)
    assert_a_loop(rows, blocks, 64 * 1024 * 1024)
    assert {row["size_of"] for row in rows} == {"cache"}


def test_there_is_advice_without_a_cache(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(
        cluster,
        pgflash_install,
        settings={"pgflash.cache_file": ""},
        start=False,
    )
    cached.start()
    cached.create_extension()
    blocks = make_item(cached)
    cached.server.stop()
    cached.start()
    scan(cached, SCANS)
    rows = advice(cached)
    assert_a_loop(rows, blocks, 1024 * 1024)
    assert {row["size_of"] for row in rows} == {"shared_buffers"}
    assert {row["flash_read_mean_from"] for row in rows} == {"assumed"}
    view = cached.view()
    assert view["mode"] == "offline"
    assert view["mode_reason"] == "pgflash.cache_file is not set"


def test_there_is_none_if_it_is_off_and_it_costs_what_the_view_says(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(cluster, pgflash_install, settings={"pgflash.advice": "off"})
    make_item(cached)
    scan(cached, 2)
    assert advice(cached) == []
    without = cached.view()["metadata_bytes"]

    cached.server.stop()
    cached.server.configure({"pgflash.advice": "on"})
    cached.start()
    assert eventually(lambda: cached.view()["mode"] == "serve")
    # 1,024 tracked blocks, at 16 bytes for each of twice as many places, and a little more.
    assert 0 < cached.view()["metadata_bytes"] - without - 1024 * 2 * 8 < 12_000
