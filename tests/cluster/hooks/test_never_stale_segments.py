# SPDX-License-Identifier: PostgreSQL
"""A table larger than a segment: block n of one segment is not block n of the next.

A gigabyte need not be written for that: PostgreSQL takes a hole at a table's end for empty
blocks, so the table's file is made as long as a segment but for some blocks.  To vacuum such a
table takes long, so the test that truncates it to another segment is part of `make soak`.
"""

import os

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, assert_never_stale, create_cached, go_on_until_told
from support.cluster import ClusterFactory
from support.world import World, read_single_rows

SEGMENT_BLOCKS = 131_072

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


def lengthen(cached: CachedServer, world: World, blocks: int) -> None:
    """Append a hole to the table's rows, so that it has so many blocks; restart the server."""
    row = world.session().execute("select pg_relation_filepath('wide')").fetchone()
    assert row is not None
    world.disconnect()
    cached.server.stop()
    os.truncate(cached.server.data / str(row[0]), blocks * 8192)
    cached.start()


def replace_end(world: World, *, version: int) -> None:
    """Change blocks in both segments; by the index, since a scan would read the hole."""
    world.run("set enable_seqscan = off")
    world.delete_from("wide", 601)
    world.insert("wide", 601, 1200, version=version)


def test_blocks_of_two_segments_are_told_apart(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(cluster, pgflash_install)
    world = World(server=cached.server, space=cached.space)
    world.create("wide")
    world.run("alter table wide set (fillfactor = 10)")
    world.run("drop index wide_v")
    # Two rows to a block: 200 blocks, then the last 200 of the segment, then 200 of the next.
    world.insert("wide", 1, 400)
    lengthen(cached, world, SEGMENT_BLOCKS - 200)
    world.insert("wide", 401, 1200, version=1)
    assert world.size_bytes("wide") > (SEGMENT_BLOCKS + 190) * 8192
    read_ends(world)
    replace_end(world, version=2)
    read_ends(world)
    assert cached.verify()[1] == 0

    compared = cached.assert_serving()["verify_compared"]
    world.disconnect()
    cached.server.stop()
    cached.start()
    read_ends(world)
    replace_end(world, version=3)
    read_ends(world)
    assert go_on_until_told(cached, 2000 - compared, lambda: read_ends(world))
    world.drop("wide")
    world.run("checkpoint")
    world.disconnect()
    assert_never_stale(cached, compared_min=2000, compared_before=compared)


@pytest.mark.soak
def test_a_table_of_two_segments_is_cut_off_and_grows_again(
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
