"""The server crashes, the machine does not: the cache is warm, and never stale."""

from __future__ import annotations

import pytest

from pgflash.lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.warm import (
    BLOCKS_MIN,
    assert_true,
    crash,
    create_warm,
    kill_backend,
    read_table,
    start_again,
)


@pytest.mark.extension
def test_a_killed_postmaster_leaves_the_cache_warm(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    before = read_table(cached)
    crash(cached)
    assert start_again(cached).startswith("warm: its memory")
    after = read_table(cached)
    assert after.digest == before.digest
    assert after.hits >= BLOCKS_MIN
    assert after.disk_reads < BLOCKS_MIN // 20
    assert cached.view()["files_kept"] > 0
    assert_true(cached)


@pytest.mark.extension
def test_a_killed_backend_leaves_the_cache_warm(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install, settings={"restart_after_crash": "on"})
    before = read_table(cached)
    kill_backend(cached)
    assert str(cached.view()["start_reason"]).startswith("warm: its memory")
    after = read_table(cached)
    assert after.digest == before.digest
    assert after.hits >= BLOCKS_MIN
    assert after.disk_reads < BLOCKS_MIN // 20
    assert_true(cached)
