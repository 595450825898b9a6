# SPDX-License-Identifier: PostgreSQL
"""Negative controls: the tests detect snapshots of a library without a safeguard."""

from collections.abc import Callable

import pytest

from pgflash.store import open_store
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import has_contrib
from support.cluster import ClusterFactory

BY_HAND = {"pgflash.snapshot_interval": "0"}


def calls_after_a_reset(server: Server) -> list[object]:
    """Return the calls in a snapshot of a statement that was called 5 times since."""
    with server.connect() as connection:
        connection.execute("create extension pgflash; create extension pg_stat_statements")
        for _ in range(20):
            connection.execute("select 1 as counted")
        connection.execute("select pgflash_snapshot()")
        connection.execute("select pg_stat_statements_reset()")
        for _ in range(5):
            connection.execute("select 1 as counted")
        connection.execute("select pgflash_snapshot()")
    with open_store(dsn=server.conninfo()) as store:
        records = store.sections(store.list()[-1].id)["statements"].records()
        texts = store.queries(r["query_id"] for r in records if isinstance(r["query_id"], int))
    # Its text may have its constant, if it was prepared before.
    wanted = {number for number, text in texts.items() if "as counted" in text}
    return [r["calls"] for r in records if r["query_id"] in wanted]


def lives_are_kept_apart(server: Server) -> bool:
    """Say whether the first snapshot after a restart subtracts from nothing."""
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute("select pgflash_snapshot()")
    server.restart()
    with server.connect() as connection:
        connection.execute("select pgflash_snapshot()")
    with open_store(dsn=server.conninfo()) as store:
        return store.list()[-1].previous_id is None


@pytest.mark.parametrize("fault", ["", "ANEW"])
def test_counters_that_start_over_are_seen(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall], fault: str
) -> None:
    install = broken_install(fault)
    if not has_contrib(install, "pg_stat_statements"):
        pytest.skip("this build has no pg_stat_statements")
    server = cluster(install=install, preload="pgflash,pg_stat_statements", settings=BY_HAND)
    assert (calls_after_a_reset(server) == [5]) is (fault == "")


@pytest.mark.parametrize("fault", ["", "LIFE"])
def test_another_life_of_the_server_is_seen(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall], fault: str
) -> None:
    server = cluster(install=broken_install(fault), preload="pgflash", settings=BY_HAND)
    assert lives_are_kept_apart(server) is (fault == "")
