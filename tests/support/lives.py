# SPDX-License-Identifier: PostgreSQL
"""A server's lives with and without its cache, and what becomes of its files' change times.

A table is read until its visibility map is cached; the server is shut down.  Then the server runs
without this cache file, for one of several reasons, and the power fails when the map's page is on
disk but the time of its inode is not.  Its recovery finds nothing to do for that file.  Only the
server's control file shows all this.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import CachedServer
from support.cluster import ClusterFactory
from support.patience import eventually
from support.power import KeepsBytes, PowerCut
from support.standby import REPLICATION, create_standby, has_replayed
from support.warm import SYNCED, create_warm, path_of, start_again

#: Rows that the index-only scan counts; one of them is deleted.
COUNTED = 100
DELETED = 5
COUNT = f"select count(*) from item where i between 1 and {COUNTED}"


# ---- without the cache


@contextmanager
def _configured(cached: CachedServer, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Use other settings for a while."""
    before = {name: cached.server.settings.get(name) for name in settings}
    cached.server.configure(settings)
    yield
    cached.server.configure(before)


@contextmanager
def not_mounted(cached: CachedServer) -> Iterator[None]:
    """Make the flash device's folder unavailable."""
    folder = cached.cache_file.parent
    away = folder.with_name("not-mounted")
    folder.rename(away)
    yield
    away.rename(folder)


@contextmanager
def elsewhere(cached: CachedServer) -> Iterator[None]:
    """Use another cache file."""
    folder = make_server_dir(cached.server.base / "flash2")
    with _configured(cached, {"pgflash.cache_file": str(folder / "cache")}):
        yield


@contextmanager
def library_out(cached: CachedServer) -> Iterator[None]:
    """Do not load the library."""
    with _configured(cached, {"shared_preload_libraries": ""}):
        yield


#: The ways in which a server comes to run without its cache file.
WITHOUT = (not_mounted, elsewhere, library_out)

Without = Callable[[CachedServer], AbstractContextManager[None]]


# ---- queries


def count_by_index(cached: CachedServer) -> int:
    """Count rows by an index-only scan, which trusts the visibility map."""
    with cached.server.connect() as session:
        for setting in ("seqscan", "bitmapscan"):
            session.execute(f"set enable_{setting} = off")
        plan = session.execute(f"explain (costs off) {COUNT}").fetchall()
        assert any("Index Only Scan" in row[0] for row in plan), plan
        row = session.execute(COUNT).fetchone()
    assert row is not None
    return int(row[0])


def count_by_scan(cached: CachedServer) -> int:
    """Count the same rows by a sequential scan."""
    with cached.server.connect() as session:
        for setting in ("indexscan", "indexonlyscan", "bitmapscan"):
            session.execute(f"set enable_{setting} = off")
        row = session.execute(COUNT).fetchone()
    assert row is not None
    return int(row[0])


# ---- the story


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A stopped server whose table's visibility map is cached, and its power."""

    cached: CachedServer
    #: Loses every change time that can be lost, but no byte that was written.
    lose_power: Callable[[], None]
    #: When the map's inode was last changed, as reported to the server.
    change_time: Callable[[], int]


def create_machine(
    cluster: ClusterFactory,
    install: PgInstall,
    *,
    settings: Mapping[str, str] | None = None,
    prepare: Callable[[CachedServer], None] | None = None,
    boots: bool = True,
) -> Machine:
    """Return a server that was shut down, with its cache's map saved."""
    cached = create_warm(cluster, install, settings=settings)
    if prepare is not None:
        prepare(cached)
    return _shut_down(cached, path_of(cached), boots=boots)


def create_standby_machine(
    cluster: ClusterFactory, install: PgInstall
) -> tuple[CachedServer, Machine]:
    """Return a primary, and its standby that was shut down with its cache's map saved."""
    settings = {**REPLICATION, "full_page_writes": "off"}
    primary = create_warm(cluster, install, settings=settings)
    standby = create_standby(cluster, primary.server, settings=SYNCED)
    assert eventually(lambda: has_replayed(primary.server, standby.server))
    return primary, _shut_down(standby, path_of(standby))


def _shut_down(cached: CachedServer, table: Path, *, boots: bool = True) -> Machine:
    """Shut down, on a machine whose power cuts are modelled."""
    cached.server.stop()
    watched = [cached.server.data, cached.cache_file.parent]
    power = PowerCut.build(cached.server.base, watched=watched)
    cached.preloads = (power.library,)
    cached.preload_env = power.env

    def lose_power() -> None:
        power.cut(cached.server, KeepsBytes(), boots=boots)

    assert start_again(cached).startswith("warm: from the map")
    have_map_cached(cached)
    return Machine(
        cached=cached,
        lose_power=lose_power,
        change_time=partial(power.change_time_ns, visibility_map(table)),
    )


def visibility_map(table: Path) -> Path:
    """Return the file with the visibility map of a table's file."""
    return table.with_name(f"{table.name}_vm")


def have_map_cached(cached: CachedServer) -> None:
    """Read until the table's visibility map is cached, and shut down."""

    def is_cached() -> bool:
        assert count_by_index(cached) == COUNTED
        evict(cached)
        return _has_blocks(cached, "vm")

    assert eventually(is_cached)
    cached.server.stop()


def _has_blocks(cached: CachedServer, fork: str) -> bool:
    """Say whether blocks of a fork of the table are cached."""
    with cached.server.connect() as session:
        row = session.execute(
            "select cached_blocks > 0 from pgflash_relations"
            " where relation = 'item'::regclass and fork = %s",
            [fork],
        ).fetchone()
    return row == (True,)


def evict(cached: CachedServer) -> None:
    """Have dirty buffers written without a checkpoint, by reading more than shared_buffers hold."""
    with cached.server.connect() as session:
        for setting in ("seqscan", "bitmapscan"):
            session.execute(f"set enable_{setting} = off")
        session.execute("select count(length(pad)) from item where i > 1000")


def checkpoint_of(server: Server) -> list[str]:
    """Return the last checkpoint from a stopped server's control file."""
    lines = server.run(["pg_controldata", server.data]).stdout.splitlines()
    return [line for line in lines if line.startswith(("Latest checkpoint", "Time of latest"))]


def lose_times_without_cache(
    machine: Machine, without: Without, *, primary: CachedServer | None = None
) -> None:
    """Run without the cache, delete a row, lose the power, recover, and shut down."""
    cached = machine.cached
    before = machine.change_time()
    with without(cached):
        cached.start()
        with (primary or cached).server.connect() as session:
            session.execute("delete from item where i = %s", [DELETED])
        if primary is not None:
            assert eventually(lambda: has_replayed(primary.server, cached.server))
        evict(cached)
        assert machine.change_time() > before
        machine.lose_power()
        assert machine.change_time() == before
        cached.start()
        # Do not use the index: its scan would mark the row's entry as dead.
        assert count_by_scan(cached) == COUNTED - 1
        cached.server.stop()
