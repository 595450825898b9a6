# SPDX-License-Identifier: PostgreSQL
"""A superuser exports large objects to names that lead into the cache, or only look like it.

Who: any superuser of the database, by lo_export(), which writes a file as the server's user.  What
they prepare: a link in the data directory, so that a harmless relative name leads to a file of a
cached table, or a file elsewhere whose name is a number, as those of tables are.  What must not
happen: a block is served that the file no longer has, or an export to a file of no table drops the
cached blocks of others.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.prey import BYTES, make_prey

pytestmark = pytest.mark.extension

Installs = Callable[[str], PgInstall]


def export(cached: CachedServer, name: str, size: int) -> None:
    """Overwrite a file, by the name the server uses, with a large object of this many bytes."""
    with cached.server.connect() as session:
        session.execute("select lo_from_bytea(4711, repeat('x', %s)::bytea)", (size,))
        session.execute("select lo_export(4711, %s), lo_unlink(4711)", (name,))


# ---- links in the data directory


def link_to_file(cached: CachedServer) -> tuple[str, Path]:
    """Give a table's file another name; return a relative one, and the file."""
    prey = make_prey(cached, "by_file")
    link = cached.server.data / "report"
    link.symlink_to(prey.relative_to(link.parent.resolve()))
    return link.name, prey


def link_to_folder(cached: CachedServer) -> tuple[str, Path]:
    """Give its folder another name."""
    prey = make_prey(cached, "by_folder")
    link = cached.server.data / "reports"
    link.symlink_to(prey.parent.relative_to(link.parent.resolve()))
    return f"{link.name}/{prey.name}", prey


def link_to_tablespace(cached: CachedServer) -> tuple[str, Path]:
    """Give a file in a tablespace another name."""
    prey = make_prey(cached, "far", tablespace="aside")
    link = cached.server.data / "report.csv"
    link.symlink_to(prey)
    return f"./{link.name}", prey


LINKS = (link_to_file, link_to_folder, link_to_tablespace)


def export_through(
    cached: CachedServer, links: tuple[Callable[..., tuple[str, Path]], ...]
) -> None:
    """Write over tables through links, and look for stale blocks after each."""
    for link in links:
        name, prey = link(cached)
        before = prey.read_bytes()
        export(cached, name, BYTES)
        assert prey.read_bytes() != before
        compared, mismatched = cached.verify()
        assert mismatched == 0, f"{mismatched} of {compared} cached blocks are stale: {name}"


def test_exports_through_relative_links_leave_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """A superuser exports to "report", which leads to the file of a cached table."""
    cached = create_cached(cluster, pgflash_install)
    export_through(cached, LINKS)
    cached.assert_serving()


@pytest.mark.parametrize("fault", ["FOREIGN"])
@pytest.mark.parametrize("link", LINKS)
def test_control_names_that_are_believed_are_caught(
    cluster: ClusterFactory,
    broken_install: Installs,
    link: Callable[[CachedServer], tuple[str, Path]],
    fault: str,
) -> None:
    """The same attack on a library that trusts the name."""
    cached = create_cached(cluster, broken_install(fault))
    with pytest.raises(AssertionError, match="stale"):
        export_through(cached, (link,))


# ---- numbers as names

#: lo_export() writes that much in hundreds of calls.
LARGE = 4 * 1024 * 1024


def cached_blocks(cached: CachedServer, table: str) -> int:
    """Return how many blocks of a table are in the cache."""
    with cached.server.connect() as session:
        row = session.execute(
            "select sum(cached_blocks)::int from pgflash_relations"
            " where relation = %s::regclass and fork = 'main'",
            (table,),
        ).fetchone()
    return int(row[0] or 0) if row is not None else 0


def number_of_no_file(cached: CachedServer) -> int:
    """Return a number that no file of a relation has."""
    with cached.server.connect() as session:
        row = session.execute("select max(relfilenode)::bigint from pg_class").fetchone()
    assert row is not None
    return int(row[0]) + 12345


def test_an_export_to_a_number_costs_nobody_the_cache(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """A superuser exports 4 MB to 12345, outside the data: what is cached stays cached."""
    cached = create_cached(cluster, pgflash_install)
    prey = make_prey(cached, "prey")
    make_prey(cached, "other")
    with cached.server.connect() as session:
        # Dirty blocks would be written sooner or later, and that drops cached blocks, too.
        session.execute("checkpoint")
    clears = cached.view()["clears"]
    before = {table: cached_blocks(cached, table) for table in ("prey", "other")}
    assert min(before.values()) > 0

    outside = cached.space / str(number_of_no_file(cached))
    export(cached, str(outside), LARGE)
    assert outside.stat().st_size == LARGE
    for table, blocks in before.items():
        assert cached_blocks(cached, table) >= blocks

    # A table whose file has this number is forgotten, and only this one.
    export(cached, str(cached.space / prey.name), LARGE)
    assert cached_blocks(cached, "prey") == 0
    assert cached_blocks(cached, "other") >= before["other"]

    view = cached.assert_serving()
    assert view["clears"] == clears
    assert view["used_slots"] >= before["other"]
