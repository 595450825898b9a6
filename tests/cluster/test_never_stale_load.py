"""Under pgbench's TPC-B and under the oltp workload the cache serves no stale block."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgflash.lab import oltp
from pgflash.lab.postgres import PgInstall
from support.cached import (
    assert_checksums_good,
    assert_never_stale,
    client_install,
    create_cached,
)
from support.cluster import ClusterFactory
from support.never_stale import BUSY, run_tpcb_cached


@pytest.mark.extension
def test_tpcb_keeps_its_sums_and_reads_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = run_tpcb_cached(cluster, pgflash_install, seconds=5, compared_min=4000)
    assert_checksums_good(cached.server)


def test_a_cache_that_keeps_evicting_serves_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    # 4 MB for 20 MB of blocks: nearly every fill has to evict.
    cached = run_tpcb_cached(
        cluster, pgflash_install, seconds=4, compared_min=500, cache_size="4MB"
    )
    assert cached.view()["eviction_aged_out"] > 100


def test_oltp_keeps_its_consistency_conditions_and_reads_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall, tmp_path: Path
) -> None:
    cached = create_cached(
        cluster, pgflash_install, settings={**BUSY, "pgflash.cache_size": "256MB"}
    )
    conninfo = cached.server.conninfo()
    config = oltp.OltpConfig(warehouses=1, clients=4, duration_s=5, ramp_up_s=1)
    oltp.load(conninfo, config)
    result = oltp.run(client_install(pgflash_install), conninfo, config, tmp_path)
    assert result.counts_agree
    broken = [one for one in oltp.check_consistency(conninfo) if not one.holds]
    assert not broken
    assert_never_stale(cached, compared_min=5000)
