# SPDX-License-Identifier: PostgreSQL
"""A cached table, for tests that overwrite its file."""

from pathlib import Path

from support.cached import CachedServer
from support.patience import eventually
from support.world import World, read_single_rows

#: A write of this many bytes over the file meets a cached block: fewer are not cached.
BYTES = 100_000


def make_prey(cached: CachedServer, name: str, *, tablespace: str = "pg_default") -> Path:
    """Create a table that is cached and has been written; return the real path of its file."""
    world = World(server=cached.server, space=cached.space)
    if tablespace != "pg_default":
        world.create_space(tablespace)
    world.run("set default_tablespace = {name}", name=tablespace)
    world.create(name)
    # More blocks than shared_buffers have.
    world.run("alter table {name} set (fillfactor = 10)", name=name)
    world.insert(name, 1, 1000)
    world.run("checkpoint")
    paths: list[str] = []

    def is_cached() -> bool:
        read_single_rows(world.session(), name, world.tables["postgres", name], 1000)
        row = (
            world.session()
            .execute(
                "select pg_relation_filepath(relation),"
                " pg_relation_size(relation) / 8192 - cached_blocks from pgflash_relations"
                " where relation = %s::regclass and fork = 'main'",
                (name,),
            )
            .fetchone()
        )
        paths[:] = [str(row[0])] if row is not None else []
        return row is not None and int(row[1]) < BYTES // 8192

    assert eventually(is_cached)
    world.disconnect()
    return (cached.server.data / paths[0]).resolve()
