# SPDX-License-Identifier: PostgreSQL
"""A library with one safeguard left out is caught by the tests that the true one passes.

Each is built from the same source with one FC_BREAK of extension/src/broken.h and goes
through the same passage of support/never_stale.py.

Some are not here, since SQL does not reach a stale block when only they are missing; another
safeguard comes before or after each of them, and the tests of extension/ and core/ cover them:

    ZERO_EXTEND     the blocks beyond a file's end were invalidated when it was cut
    CREATE          a name that was removed was retired then
    FILECOPY        files are only copied to names that were retired before
    DEAD_FILE       a session does not read a relation that it knows to be dropped
    UNKNOWN_FILE    the server opens all its files where the hooks see it
"""

from collections.abc import Callable

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import create_cached
from support.cluster import ClusterFactory
from support.ddl import (
    Step,
    checkpoint,
    copy_database_by_wal,
    create_templates,
    load_tables,
    recreate_database_by_wal,
    regrow_tail,
    update_rows,
    vacuum_tail,
)
from support.never_stale import UNTIL_STALE, can_race, race, run_tpcb_cached, walk
from support.world import World

CHANGES: tuple[Step, ...] = (load_tables, update_rows, checkpoint, vacuum_tail, regrow_tail)
DATABASES: tuple[Step, ...] = (
    load_tables,
    create_templates,
    copy_database_by_wal,
    recreate_database_by_wal,
)

Installs = Callable[[str], PgInstall]


def test_the_true_library_passes_what_the_broken_ones_shall_not(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    walk(cluster, pgflash_install, steps=CHANGES + DATABASES[1:], compared_min=5000)


@pytest.mark.parametrize(
    ("fault", "steps"),
    [("WRITE", CHANGES), ("TRUNCATE", CHANGES), ("UNLINK", DATABASES)],
    ids=["writes", "truncation", "removal"],
)
def test_ddl_catches_a_library_that_forgets(
    cluster: ClusterFactory, broken_install: Installs, fault: str, steps: tuple[Step, ...]
) -> None:
    with pytest.raises(AssertionError, match="stale"):
        walk(cluster, broken_install(fault), steps=steps, compared_min=0)


def test_the_model_of_the_tables_notices_by_itself_when_nothing_is_verified(
    cluster: ClusterFactory, broken_install: Installs
) -> None:
    install = broken_install("WRITE")

    def change_and_look() -> None:
        cached = create_cached(cluster, install, settings={"pgflash.verify": "off"})
        world = World(server=cached.server, space=cached.space)
        try:
            for step in CHANGES:
                step(world)
                world.check()
        finally:
            world.disconnect()

    # A catalog's block may be stale as well, and then the server fails, possibly as early as when
    # the extension is created.
    with pytest.raises((AssertionError, psycopg.Error)):
        change_and_look()


def test_load_catches_a_library_that_forgets_writes(
    cluster: ClusterFactory, broken_install: Installs
) -> None:
    with pytest.raises(AssertionError, match="stale"):
        run_tpcb_cached(cluster, broken_install("WRITE"), compared_min=UNTIL_STALE)


@pytest.mark.parametrize("fault", ["TICKET_AFTER", "CHANGE_END"])
def test_a_race_catches_a_library_that_is_careless_about_the_order(
    cluster: ClusterFactory, broken_install: Installs, fault: str
) -> None:
    install = broken_install(fault)
    if not can_race(install):
        pytest.skip(f"PostgreSQL {install.version} here has no pg_prewarm")
    with pytest.raises(AssertionError, match="stale"):
        race(cluster, install, compared_min=UNTIL_STALE)
