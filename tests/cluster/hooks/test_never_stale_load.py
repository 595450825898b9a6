# SPDX-License-Identifier: PostgreSQL
"""Under pgbench's TPC-B and under the oltp workload the cache serves no stale block."""

import itertools
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from pgflash_lab import oltp
from pgflash_lab.postgres import PgInstall
from support.cached import (
    assert_checksums_good,
    assert_never_stale,
    client_install,
    create_cached,
)
from support.cluster import ClusterFactory
from support.never_stale import BUSY, run_tpcb_cached, run_until_told
from support.patience import eventually
from support.tpcb import assert_balanced, load_tpcb, run_tpcb
from support.workloads import parameters_of


@pytest.mark.extension
def test_tpcb_keeps_its_sums_and_reads_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = run_tpcb_cached(cluster, pgflash_install, compared_min=4000)
    assert_checksums_good(cached.server)


def test_a_cache_that_keeps_evicting_serves_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    # 4 MB for 20 MB of blocks: nearly every fill has to evict.
    cached = run_tpcb_cached(cluster, pgflash_install, compared_min=500, cache_size="4MB")

    def evicted() -> bool:
        run_tpcb(cached.server, seconds=1)
        return bool(cached.assert_serving()["eviction_aged_out"] > 100)

    assert eventually(evicted)
    assert_never_stale(cached, compared_min=500)


def test_a_cache_switched_and_cleared_under_load_serves_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(cluster, pgflash_install, settings=BUSY)
    load_tpcb(cached.server)
    switches = (
        "select pgflash_cache_set_mode('passthrough')",
        "select pgflash_cache_set_mode('serve')",
        "select pgflash_cache_set_mode('passthrough')",
        "select pgflash_cache_set_mode('serve')",
        "select pgflash_cache_clear()",
    )
    with ThreadPoolExecutor(1) as pool, cached.server.connect() as session:
        load = pool.submit(run_tpcb, cached.server, seconds=4)
        for switch in itertools.cycle(switches):
            session.execute(switch)
            # The load runs for a while in this mode, and may end in any mode.
            if wait([load], timeout=0.05).done:
                if cached.view()["clears"] >= 3:
                    break
                load.result()
                load = pool.submit(run_tpcb, cached.server, seconds=1)
        load.result()
        session.execute("select pgflash_cache_set_mode('serve')")
    run_until_told(cached, 500)
    assert_balanced(cached.server)
    view = assert_never_stale(cached, compared_min=500)
    assert view["clears"] >= 3


def test_oltp_keeps_its_consistency_conditions_and_reads_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall, tmp_path: Path
) -> None:
    cached = create_cached(
        cluster, pgflash_install, settings={**BUSY, "pgflash.cache_size": "256MB"}
    )
    conninfo = cached.server.conninfo()
    few = parameters_of(oltp.OltpParameters, warehouses=1, clients=4, measure_s=5)
    oltp.load(conninfo, few)
    result = oltp.run(client_install(pgflash_install), conninfo, few, tmp_path)
    assert result.counts_agree
    broken = [one for one in oltp.check_consistency(conninfo) if not one.holds]
    assert not broken
    assert_never_stale(cached, compared_min=5000, go_on=lambda: oltp.check_consistency(conninfo))
