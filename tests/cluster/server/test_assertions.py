# SPDX-License-Identifier: PostgreSQL
"""A broken invariant ends a process of the server at the assertion that states it.

Tests that need no server are in core/test/assert_test.c and extension/test.
"""

from collections.abc import Callable

import psycopg
import pytest

from pgflash_lab.account import ServerError, make_server_dir
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory, failed_assertions

Installs = Callable[[str], PgInstall]


def made(cluster: ClusterFactory, install: PgInstall, *, start: bool = True) -> Server:
    """Return a server that takes no snapshot by itself."""
    settings = {"pgflash.snapshot_interval": "0"}
    return cluster(install=install, preload="pgflash", settings=settings, start=start)


def dies_at(server: Server, condition: str) -> bool:
    """Say whether an assertion that states this was the first to fail."""
    failed = failed_assertions(server)
    return bool(failed) and condition in failed[0]


@pytest.mark.parametrize("fault", ["PROCESSES"])
def test_a_cache_has_room_for_all_processes(
    cluster: ClusterFactory, broken_install: Installs, fault: str
) -> None:
    server = made(cluster, broken_install(fault), start=False)
    cache_file = make_server_dir(server.base / "flash") / "cache"
    server.configure({"pgflash.cache_file": str(cache_file), "pgflash.cache_size": "8MB"})
    with pytest.raises(ServerError):
        server.start()
    assert dies_at(server, "config.process_count > 1")


@pytest.mark.parametrize(
    ("fault", "query", "condition"),
    [
        # A process that writes a policy has locked the table, ...
        ("POLICY_LOCK", "select pgflash_set_cache_policy('t', 'keep')", "CheckRelationLockedByMe"),
        # ... and one that asks for a file's name, the names.
        ("NAMES_LOCK", "select pgflash_snapshot()", "LWLockHeldByMeInMode"),
    ],
)
def test_a_session_holds_the_lock_that_it_needs(
    cluster: ClusterFactory, broken_install: Installs, fault: str, query: str, condition: str
) -> None:
    server = made(cluster, broken_install(fault))
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute("create table t (n int)")
        connection.execute("create database other")
        with server.connect("other") as other:
            other.execute("create table t as select n from generate_series(1, 1000) n")
        with pytest.raises(psycopg.OperationalError):
            connection.execute(query)
    assert dies_at(server, condition)
