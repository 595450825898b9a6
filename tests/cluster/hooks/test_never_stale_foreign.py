# SPDX-License-Identifier: PostgreSQL
"""A superuser may aim file functions at a data file; then nothing stale is served.

Nobody should do that, and the table is lost. But its cached blocks must not outlive it.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.prey import BYTES, make_prey


def export_to(cached: CachedServer, path: Path) -> None:
    """Write a large object over a file."""
    with cached.server.connect() as session:
        session.execute("select lo_from_bytea(4711, repeat('x', %s)::bytea)", (BYTES,))
        session.execute("select lo_export(4711, %s), lo_unlink(4711)", (str(path),))


def overwrite_in_each_way(cached: CachedServer) -> None:
    """Write over data files by their own paths, and by a symbolic link."""
    for name, tablespace in (("near", "pg_default"), ("linked", "pg_default"), ("far", "aside")):
        path = make_prey(cached, name, tablespace=tablespace)
        if name == "linked":
            link = cached.space / "report.txt"
            link.symlink_to(path)
            path = link
        export_to(cached, path)
        compared, mismatched = cached.verify()
        assert mismatched == 0, f"{mismatched} of {compared} cached blocks are stale: {name}"


def test_data_files_that_are_exported_to_leave_nothing_stale(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_cached(cluster, pgflash_install)
    overwrite_in_each_way(cached)
    cached.assert_serving()

    # A stream cannot be followed, whatever name leads to the file.
    target = make_prey(cached, "target", tablespace="beside")
    with cached.server.connect() as session:
        session.execute(f"copy (select 1) to '{cached.space}/2026'")
        cached.assert_serving()
        session.execute(f"copy (select 1) to '{target}'")
    assert cached.view()["mode"] == "offline"


def test_control_names_that_are_believed_are_caught(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    cached = create_cached(cluster, broken_install("FOREIGN"))
    with pytest.raises(AssertionError, match="stale"):
        overwrite_in_each_way(cached)
