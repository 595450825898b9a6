# SPDX-License-Identifier: PostgreSQL
"""A streaming standby of a server with a cache, with a cache of its own."""

from collections.abc import Mapping

from pgflash_lab.server import Server
from support.cached import CachedServer, attach_cache
from support.cluster import FAST_SETTINGS, ClusterFactory
from support.uring import uring_settings

REPLICATION = {
    "wal_level": "replica",
    "max_wal_senders": "4",
    "hot_standby": "on",
    "max_prepared_transactions": "2",
    # A standby that is late, or rewound, still finds the log.
    "wal_keep_size": "512MB",
}


def create_standby(
    cluster: ClusterFactory,
    primary: Server,
    *,
    settings: Mapping[str, str] | None = None,
    name: str = "standby",
    start: bool = True,
) -> CachedServer:
    """Return a standby of a server, with a cache file of its own, started unless told otherwise."""
    cached = create_copy(cluster, primary, settings=settings, name=name)
    (cached.server.data / "standby.signal").touch()
    if start:
        cached.start()
    return cached


def create_copy(
    cluster: ClusterFactory,
    primary: Server,
    *,
    settings: Mapping[str, str] | None = None,
    name: str = "copy",
) -> CachedServer:
    """Return a base backup of a server, with a cache file of its own; it is not started."""
    base = primary.base.parent / name
    server = cluster.adopt(
        Server(
            install=primary.install,
            base=base,
            settings={**FAST_SETTINGS, **uring_settings(primary.install), **REPLICATION},
        )
    )
    primary.run(["pg_basebackup", "--pgdata", server.data, "--checkpoint=fast", "--no-sync"])
    cached = attach_cache(server)
    conninfo = primary.conninfo()
    server.configure(
        {
            "shared_preload_libraries": "pgflash",
            "primary_conninfo": conninfo,
            # Replay waits for a test's own query, and does not cancel it.
            "max_standby_streaming_delay": "-1",
            **(settings or {}),
        }
    )
    return cached


def has_replayed(primary: Server, standby: Server) -> bool:
    """Say whether the standby has replayed everything that the primary has written."""
    with primary.connect() as connection:
        row = connection.execute("select pg_current_wal_lsn()").fetchone()
    assert row is not None
    with standby.connect() as connection:
        replayed = connection.execute(
            "select pg_last_wal_replay_lsn() >= %s::pg_lsn", row
        ).fetchone()
    return replayed == (True,)


def is_streaming_to(primary: Server, standbys: int) -> bool:
    """Say whether so many standbys follow the primary; until they do, it stops without them."""
    with primary.connect() as connection:
        row = connection.execute(
            "select count(*) from pg_stat_replication where state = 'streaming'"
        ).fetchone()
    return row == (standbys,)
