# SPDX-License-Identifier: PostgreSQL
"""A program beside the server writes into a data file, unannounced, as a user with a shell can.

Nothing can prevent that, and until a process notices it the old block may be served.  What must
not happen is that the server's own work covers it up: then the old block would be served for
ever, over restarts too.
"""

from collections.abc import Callable

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer
from support.cluster import ClusterFactory
from support.patience import eventually
from support.warm import (
    create_warm,
    is_loaded,
    path_of,
    read_table,
    start_again,
    until_cached,
)

BLOCK = 8192


def prepare(cached: CachedServer) -> bytes:
    """Change the first block, have it cached, and return what it was before."""
    path = path_of(cached)
    with cached.server.connect() as session:
        session.execute("checkpoint")
        older = path.read_bytes()[:BLOCK]
        session.execute("delete from item where i = 2")
        session.execute("vacuum item")
        session.execute("checkpoint")
    assert path.read_bytes()[:BLOCK] != older
    until_cached(cached)
    return older


def write_as_a_stranger(cached: CachedServer, block: bytes) -> None:
    """Put an older block back, as a program that knows no server."""
    with path_of(cached).open("r+b") as file:
        file.write(block)


def is_met(cached: CachedServer) -> bool:
    """Have a new session read the table, and say whether the change was noticed."""
    read_table(cached)
    return int(cached.view()["foreign_changes"]) > 0


@pytest.mark.extension
def test_a_change_behind_the_server_is_met_and_named(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    write_as_a_stranger(cached, prepare(cached))
    assert eventually(lambda: is_met(cached))
    assert cached.verify()[1] == 0
    name = path_of(cached).relative_to(cached.server.data)
    said = f'file "{name}" was changed without this server\'s knowledge'
    assert eventually(lambda: said in cached.server.log_text())
    cached.assert_serving()


def change_and_restart(cached: CachedServer) -> int:
    """Change the table after a stranger, by the server, and restart; return what is stale then."""
    write_as_a_stranger(cached, prepare(cached))
    with cached.server.connect() as session:
        session.execute("delete from item where i = (select max(i) from item)")
        session.execute("checkpoint")
    cached.server.stop()
    assert start_again(cached).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(cached))
    read_table(cached)
    cached.verify()
    return int(cached.view()["verify_mismatches"])


@pytest.mark.extension
def test_the_server_s_own_writes_do_not_cover_it_up(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    assert change_and_restart(create_warm(cluster, pgflash_install)) == 0


def test_control_without_the_second_word_it_is_covered_up(
    cluster: ClusterFactory,
    pgflash_install: PgInstall,
    broken_install: Callable[[str], PgInstall],
) -> None:
    assert change_and_restart(create_warm(cluster, broken_install("ACCUSE"))) > 0
