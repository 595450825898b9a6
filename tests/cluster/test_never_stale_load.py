"""Under pgbench's TPC-B and under the oltp workload the cache serves no stale block."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgflash.lab import oltp
from pgflash.lab.postgres import PgInstall
from support.cached import (
    CachedServer,
    assert_checksums_good,
    assert_never_stale,
    client_install,
    create_cached,
)
from support.cluster import ClusterFactory
from support.tpcb import assert_balanced, load_tpcb, run_tpcb

pytestmark = pytest.mark.extension

#: A checkpoint every few seconds, a busy background writer, autovacuum at work: whatever
#: else writes shall write meanwhile.
BUSY = {
    "shared_buffers": "2MB",
    "checkpoint_timeout": "30s",
    "max_wal_size": "32MB",
    "bgwriter_delay": "10ms",
    "autovacuum": "on",
    "autovacuum_naptime": "1s",
    "fsync": "on",
}


def tpcb_for_seconds(cached: CachedServer, *, seconds: int) -> None:
    """Load TPC-B, run it with several clients, and check its sums."""
    load_tpcb(cached.server)
    run_tpcb(cached.server, seconds=seconds)
    assert_balanced(cached.server)


def test_tpcb_keeps_its_sums_and_reads_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(cluster, pgflash_install, settings=BUSY)
    tpcb_for_seconds(cached, seconds=6)
    assert_never_stale(cached, compared_min=5000)
    assert_checksums_good(cached.server)


def test_a_cache_that_keeps_evicting_serves_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    # 4 MB for 20 MB of blocks: nearly every fill has to evict.
    cached = create_cached(cluster, pgflash_install, settings={**BUSY, "pgflash.cache_size": "4MB"})
    tpcb_for_seconds(cached, seconds=4)
    view = assert_never_stale(cached, compared_min=500)
    assert view["eviction_aged_out"] > 100


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
