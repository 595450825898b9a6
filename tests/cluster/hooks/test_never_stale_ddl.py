# SPDX-License-Identifier: PostgreSQL
"""No step that moves, cuts, copies or replaces files makes the cache serve a stale block.

The steps are those of support/ddl.py.  After each of them all tables are read and compared
with a model, and every cached block with its file.
"""

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import assert_checksums_good, assert_never_stale, create_cached
from support.cluster import ClusterFactory
from support.ddl import load_tables, truncate_twice, update_rows
from support.never_stale import walk
from support.world import World

pytestmark = pytest.mark.extension

#: Hits that one run compares at least; it makes three times as many.
COMPARED_MIN = 30_000


def test_no_step_that_changes_files_leaves_a_stale_block(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = walk(cluster, pgflash_install, compared_min=COMPARED_MIN)
    assert_checksums_good(cached.server)


def test_unlogged_tables_are_empty_after_a_crash_and_not_what_the_cache_held(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    minimal = {"wal_level": "minimal", "max_wal_senders": "0"}
    cached = create_cached(cluster, pgflash_install, settings=minimal)
    world = World(server=cached.server, space=cached.space)
    load_tables(world)
    update_rows(world)
    # Its rows are not in the WAL: they are synced, and cached, as they are written.
    truncate_twice(world)
    world.create("passing", prefix="unlogged")
    world.insert("passing", 1, 1500)
    world.run("checkpoint")
    world.check()
    compared = cached.assert_serving()["verify_compared"]
    world.disconnect()

    cached.server.stop("immediate")
    cached.start()
    world.tables["postgres", "passing"] = {}
    world.check()
    world.insert("passing", 1, 900, version=2)
    world.check()
    world.disconnect()
    assert_never_stale(cached, compared_min=3000, compared_before=compared)
