# SPDX-License-Identifier: PostgreSQL
"""Logical replication FOR ALL TABLES between two servers that both have the extension."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from pgflash.collect.server_settings import read_server
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import eventually, until

pytestmark = pytest.mark.extension

SETTINGS = {
    "wal_level": "logical",
    "pgflash.snapshot_interval": "0",
    "pgflash.sample_rate": "0",
    "max_worker_processes": "20",
}


def two_servers(cluster: ClusterFactory, install: PgInstall) -> tuple[Server, Server]:
    """Return a publisher and a subscriber, each with a snapshot; they are not connected yet."""
    publisher, subscriber = (
        cluster(install=install, preload="pgflash", settings=SETTINGS) for _ in range(2)
    )
    for server in (publisher, subscriber):
        with server.connect() as session:
            session.execute("create extension pgflash")
            session.execute("create table item (n int primary key)")
            session.execute("select pgflash_snapshot()")
    return publisher, subscriber


def subscribe(publisher: Server, subscriber: Server) -> None:
    with publisher.connect() as session:
        session.execute("create publication everything for all tables")
    with subscriber.connect() as session:
        session.autocommit = True
        session.execute(
            f"create subscription everything connection '{publisher.conninfo('postgres')}'"
            " publication everything"
        )


def unsubscribe(subscriber: Server) -> None:
    """Leave the publisher's slot behind: it goes with the publisher."""
    with subscriber.connect() as session:
        session.autocommit = True
        session.execute("alter subscription everything disable")
        session.execute("alter subscription everything set (slot_name = none)")
        session.execute("drop subscription everything")


def all_ready(session: psycopg.Connection[Any]) -> bool:
    return not session.execute("select from pg_subscription_rel where srsubstate <> 'r'").fetchall()


def test_what_is_about_another_server_is_ignored(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    publisher, subscriber = two_servers(cluster, pgflash_install)
    with subscriber.connect() as session:
        session.autocommit = True
        session.execute("select pgflash_set_cache_policy('item', 'keep')")
        kept = session.execute("select * from pgflash_snapshots").fetchall()
        subscribe(publisher, subscriber)
        until(lambda: all_ready(session))
        with publisher.connect() as changer:
            changer.autocommit = True
            for policy in ("none", "keep", "default"):
                changer.execute("select pgflash_set_cache_policy('item', %s)", [policy])
            for _ in range(3):
                changer.execute("select pgflash_snapshot()")
            changer.execute("select pgflash_baseline_keep('days', 1, 3)")
            changer.execute("select pgflash_baseline_drop('days')")
            changer.execute("select pgflash_snapshot_drop(now())")
            changer.execute("insert into item values (1)")
        until(lambda: session.execute("select n from item").fetchall() == [(1,)])
        assert session.execute("select * from pgflash_snapshots").fetchall() == kept
        assert session.execute("select policy from pgflash_cache_policy").fetchall() == [("keep",)]
        # Its own rows are written as before.
        assert session.execute("select pgflash_snapshot()").fetchone() == (2,)
        assert session.execute("select pgflash_snapshot_drop(now())").fetchone() == (2,)
    unsubscribe(subscriber)


@pytest.mark.parametrize("fault", ["REPLICATED"])
def test_without_the_trigger_they_collide(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall], fault: str
) -> None:
    publisher, subscriber = two_servers(cluster, broken_install(fault))
    subscribe(publisher, subscriber)
    assert eventually(lambda: 'constraint "pgflash_snapshots_pkey"' in subscriber.log_text())
    unsubscribe(subscriber)


def test_publications_that_include_its_tables_are_known_to_doctor(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install, settings={"wal_level": "logical"})
    with server.connect() as session:
        session.execute("create schema other")
        session.execute("create table item (n int primary key)")
        session.execute("create publication one_table for table item")
        session.execute("create publication public_tables for tables in schema public")
        session.execute("create publication other_tables for tables in schema other")
        assert read_server(session).publications == ()
        session.execute("create extension pgflash")
        assert read_server(session).publications == ("public_tables",)
        session.execute("drop extension pgflash")
        session.execute("create publication everything for all tables")
        assert read_server(session).publications == ("everything",)
