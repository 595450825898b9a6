# SPDX-License-Identifier: PostgreSQL
"""Sessions with databases of any encoding, and with standbys that cancel statements."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from pgflash import api
from pgflash.session import KEPT_ALIVE, Connection, connect, connect_timeout_s, parse_dsn
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.commands import output
from support.patience import until
from support.script import SQL_VERSION
from support.sections import BY_HAND
from support.standby import REPLICATION, create_standby, has_replayed

#: A table whose name is in ISO 8859-1, as databases of encoding SQL_ASCII allow.
LATIN = b'create table "caf\xe9" as select n from generate_series(1, 10000) n'
READ_LATIN = b'select (select count(*) from "caf\xe9" where n <> g) from generate_series(1, 500) g'

SNOWMAN = 'create table "\N{SNOWMAN}" as select n from generate_series(1, 10000) n'
READ_SNOWMAN = """
select (select count(*) from "\N{SNOWMAN}" where n <> g) from generate_series(1, 500) g
"""


NIGHT = """
select '2026-10-25 00:55+00'::timestamptz, '2026-10-25 01:05+00'::timestamptz, null::timestamptz
"""
UNRESTRICTED = "set pgflash.restrict_objects = off"
SLEEP = "select pg_sleep(seconds) from public.waiting"
SLEEPING = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"


@pytest.fixture
def server(cluster: ClusterFactory, pgflash_install: PgInstall) -> Server:
    """A server with a database of encoding SQL_ASCII, whose extension has taken two snapshots."""
    server = cluster(install=pgflash_install, preload="pgflash", settings=BY_HAND)
    with server.connect() as connection:
        connection.execute(
            "create database legacy encoding 'SQL_ASCII' locale 'C' template template0"
        )
    with psycopg.connect(
        server.conninfo("legacy"), autocommit=True, client_encoding="SQL_ASCII"
    ) as legacy:
        legacy.execute("create extension pgflash")
        legacy.execute("select pgflash_snapshot()")
        legacy.execute(LATIN)
        legacy.execute(READ_LATIN)
        legacy.execute("select pg_stat_force_next_flush()")
        legacy.execute("select pgflash_snapshot()")
    return server


def test_a_database_without_an_encoding_is_read(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn = server.conninfo("legacy")
    shown = output(capsys, "version", "--dsn", dsn)
    assert f"library:    {SQL_VERSION}\n" in shown
    assert f"extension:  {SQL_VERSION} in database legacy\n" in shown
    report = output(capsys, "report", "--dsn", dsn)
    assert "caf\N{REPLACEMENT CHARACTER}" in report
    assert "b'" not in report
    store = tmp_path / "snapshots"
    output(capsys, "snapshot", "--dsn", dsn, "--store", str(store))
    assert len(api.snapshots(path=store)) == 1


def test_the_environments_encoding_does_not_matter(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        output(capsys, "snapshot", "--dsn", server.conninfo())
        connection.execute("set client_encoding = 'UTF8'")
        connection.execute(SNOWMAN)
        connection.execute(READ_SNOWMAN)
        connection.execute("select pg_stat_force_next_flush()")
        output(capsys, "snapshot", "--dsn", server.conninfo())
    assert "\N{SNOWMAN}" in output(capsys, "report", "--dsn", server.conninfo())


def test_a_server_that_vanished_is_noticed_within_a_minute_or_as_the_user_says(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is asked for it; that the kernel obeys is not tested here."""
    default = {name: str(value) for name, value in KEPT_ALIVE.items()}
    for dsn, wanted in (("", default), ("keepalives_idle=7", {**default, "keepalives_idle": "7"})):
        with closing(connect(f"{server.conninfo()} {dsn}")) as connection:
            assert wanted.items() <= connection.info.get_parameters().items()
    assert connect_timeout_s({}, 10) == 10
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "60")
    assert connect_timeout_s({}, 10) == "60"
    assert connect_timeout_s(parse_dsn("connect_timeout=20"), 10) == "20"


def test_times_are_read_whatever_the_style_and_the_clocks_change(
    cluster: ClusterFactory, pgflash_install: PgInstall, capsys: pytest.CaptureFixture[str]
) -> None:
    server = cluster(install=pgflash_install, preload="pgflash", settings=BY_HAND)
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute("alter database postgres set datestyle = 'German'")
        connection.execute("alter database postgres set timezone = 'Europe/Berlin'")
    output(capsys, "snapshot", "--dsn", server.conninfo())
    output(capsys, "snapshot", "--dsn", server.conninfo())
    assert len(api.snapshots(dsn=server.conninfo())) == 2
    assert "DB time" in output(capsys, "report", "--dsn", server.conninfo())
    # At 1:00 UTC the clocks went from 3:00 back to 2:00.
    with closing(connect(server.conninfo())) as session:
        before, after, never = session.execute(NIGHT).fetchone() or ()
        with pytest.raises(psycopg.DataError):
            session.execute("select 'infinity'::timestamptz").fetchone()
    assert (before.hour, after.hour) == (2, 2)
    assert after - before == timedelta(minutes=10)
    assert never is None


def cancelled(
    cluster: ClusterFactory, install: PgInstall, read: Callable[[Connection], object]
) -> Future[object]:
    """Have a standby cancel READ, whose query sleeps until then; return how it ended."""
    primary = cluster(install=install, settings=REPLICATION)
    with primary.connect() as writer, ThreadPoolExecutor(max_workers=1) as pool:
        writer.execute("create table waiting as select 300 as seconds")
        at_once = {"max_standby_streaming_delay": "0"}
        standby = create_standby(cluster, primary, settings=at_once).server
        until(lambda: has_replayed(primary, standby))
        with closing(connect(standby.conninfo())) as session:
            session.execute(UNRESTRICTED)
            reading = pool.submit(read, session)
            with standby.connect() as other:
                until(lambda: other.execute(SLEEPING).fetchone() == (1,))
                # The replay of this asks for the lock that the query holds.
                writer.execute("truncate waiting")
                reading.exception()  # wait for its end
    return reading


def test_a_statement_that_a_standby_cancels_is_run_again(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    reading = cancelled(cluster, pgflash_install, lambda session: session.execute(SLEEP).fetchall())
    assert reading.result() == []


def test_a_transaction_that_a_standby_cancels_is_not_run_again_in_part(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    def read(session: Connection) -> None:
        with session.transaction():
            session.execute("select 1")
            session.execute(SLEEP)

    reading = cancelled(cluster, pgflash_install, read)
    assert isinstance(reading.exception(), psycopg.errors.SerializationFailure)
