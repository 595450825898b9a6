# SPDX-License-Identifier: PostgreSQL
"""Redo on a streaming standby, with a cache on both sides, leaves no stale block on either.

The steps of support/ddl.py run on the primary; after each the standby replays and both are
read and compared with the model.  In the end the standby is promoted and changed.
"""

from pgflash_lab.postgres import PgInstall
from support.cached import (
    assert_checksums_good,
    assert_indexes_whole,
    assert_never_stale,
    create_cached,
)
from support.cluster import ClusterFactory
from support.ddl import (
    STEPS,
    Step,
    change_many_tables,
    drop_many_tables,
    make_many_tables,
    use_temporary_tables,
)
from support.patience import eventually
from support.sampled import sampler
from support.standby import REPLICATION, create_standby, has_replayed
from support.world import World

#: Steps that a standby does not see, or that only use up descriptors.
LEFT_OUT: frozenset[Step] = frozenset(
    {use_temporary_tables, make_many_tables, change_many_tables, drop_many_tables}
)


def test_redo_on_a_standby_leaves_no_stale_block(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_cached(cluster, pgflash_install, settings=REPLICATION)
    standby = create_standby(cluster, primary.server)
    # Both servers are on one machine: tablespaces have to be in their own folders.
    world = World(server=primary.server, space=None)
    for step in STEPS:
        if step in LEFT_OUT:
            continue
        step(world)
        assert eventually(lambda: has_replayed(primary.server, standby.server))
        world.check(standby.server)
        _, mismatched = standby.verify()
        assert mismatched == 0, f"{mismatched} stale blocks on the standby after {step.__name__}"
        standby.assert_serving()
    # Seeing it takes a standby, so it is tested here: the sampler runs during recovery, too.
    assert sampler(standby.server)["looks"] > 0
    world.check()
    assert_never_stale(primary, compared_min=2000, go_on=world.check)
    world.disconnect()

    with standby.server.connect() as connection:
        connection.execute("select pg_promote()")
    promoted = World(server=standby.server, space=None, tables=world.tables)
    promoted.update("ledger", version=20, every=2)
    promoted.check()
    assert_never_stale(standby, compared_min=15_000, go_on=promoted.check)
    promoted.disconnect()
    assert_indexes_whole(standby.server)
    assert_checksums_good(standby.server)
