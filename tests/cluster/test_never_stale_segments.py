"""A table larger than a segment: block n of one segment is not block n of the next.

A gigabyte and more has to be written, so only `make soak` does.
"""

from __future__ import annotations

import pytest

from pgflash.lab.postgres import PgInstall
from support.cached import assert_never_stale, create_cached
from support.cluster import ClusterFactory
from support.world import World, read_single_rows

#: At two rows a block: 131,072 blocks of the first segment and 4,000 of the second.
ROWS = 2 * (131_072 + 4_000)
#: Rows at either end that are read one by one: the same block numbers in both segments.
ENDS = 6_000


def read_ends(world: World) -> None:
    """Read the rows at both ends twice, so that the second time they are cached."""
    rows = world.tables["postgres", "wide"]
    order = sorted(rows)
    ends = {i: rows[i] for i in order[:ENDS] + order[-ENDS:]}
    with world.server.connect() as session:
        for _ in range(2):
            read_single_rows(session, "wide", ends, len(ends))


@pytest.mark.soak
def test_blocks_of_two_segments_are_told_apart(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(
        cluster,
        pgflash_install,
        settings={"pgflash.cache_size": "512MB", "max_wal_size": "4GB"},
    )
    world = World(server=cached.server, space=cached.space)
    world.create("wide")
    world.run("alter table wide set (fillfactor = 10)")
    world.run("drop index wide_v")
    world.insert("wide", 1, ROWS)
    assert world.size_bytes("wide") > 2**30 + 2**24
    read_ends(world)
    world.run("vacuum freeze wide")
    world.run("create index wide_v on wide (v)")
    world.update("wide", version=1, every=97)
    read_ends(world)
    cached.assert_serving()

    world.delete_from("wide", ROWS // 2)
    world.run("vacuum (freeze, truncate) wide")
    assert world.size_bytes("wide") < 2**30
    assert cached.verify()[1] == 0
    world.insert("wide", ROWS // 2, ROWS, version=2)
    assert world.size_bytes("wide") > 2**30
    read_ends(world)
    world.check()
    assert cached.verify()[1] == 0

    world.run("vacuum full wide")
    read_ends(world)
    world.drop("wide")
    world.run("checkpoint")
    world.disconnect()
    assert_never_stale(cached, compared_min=3 * ENDS)
