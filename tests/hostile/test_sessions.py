# SPDX-License-Identifier: PostgreSQL
"""A superuser looks at a server that is partly others': none of their code runs with his rights.

Mallory may create objects in the schema public, as every user may in clusters that were created by
PostgreSQL 14 or earlier, and as the owner of a database always may.  She prepares operators and
functions there that a statement of ours might find before the catalog's, or instead of them
(support/traps.py).  An administrator then takes snapshots, makes reports and looks at the live
page.  None of hers may be called.
"""

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest

from definitions.exporters import EPOCH
from definitions.metric_queries import flat_queries, metric_queries
from pgflash import session
from pgflash.cli import main
from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import create_cached, has_contrib
from support.cluster import ClusterFactory, elsewhere
from support.commands import output
from support.patience import until
from support.served import Served, served
from support.traps import set_traps, sprung

#: What a session would have if nothing set it.
AS_IT_IS = 'set search_path = "$user", public'

TYPE_TRAP = """
create function public.trap_text(pg_catalog.text) returns bool language plpgsql
    as $trap$begin raise log 'TRAP text'; return true; end$trap$;
create domain public.text as pg_catalog.text check (public.trap_text(value));
"""

#: Databases, and where the extension is in them.
SCHEMAS = {"app": "watching", "shop": "public"}


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    """A server whose databases are Mallory's, with her traps, and with the extension.

    In app it is in a schema of its own, in shop in public, where she may overload its functions.
    """
    factory = ClusterFactory(pgflash_install)
    contrib = has_contrib(pgflash_install, "pg_stat_statements")
    libraries = "pgflash, pg_stat_statements" if contrib else "pgflash"
    server = create_cached(
        factory, pgflash_install, settings={"shared_preload_libraries": libraries}
    ).server
    with server.connect() as connection:
        connection.execute("create role mallory login")
        for database in SCHEMAS:
            connection.execute(f"create database {database} owner mallory")
        folder = make_server_dir(server.base / "fast")
        connection.execute(f"create tablespace fast location '{folder}'")
    for database, schema in SCHEMAS.items():
        with server.connect(database) as connection:
            connection.execute(f"create schema if not exists {schema}")
            connection.execute(f"create extension pgflash schema {schema}")
            if contrib:
                connection.execute(f"create extension pg_stat_statements schema {schema}")
            connection.execute("create table stock as select generate_series(1, 20000) as id")
            connection.execute("create index on stock (id)")
        dsn = server.conninfo(database)
        with psycopg.connect(dsn, user="mallory", autocommit=True) as hers:
            assert set_traps(hers, "mallory") > 5000
    yield server
    factory.close()


def look_around(
    server: Server, capsys: pytest.CaptureFixture[str], folder: Path, database: str
) -> None:
    """Run as a superuser what reads a server, twice where the second time reads more."""
    dsn = ("--dsn", server.conninfo(database))
    file = ("--store", str(folder / "snapshots"))
    for _ in range(2):
        output(capsys, "snapshot", *dsn)
        output(capsys, "snapshot", *dsn, *file)
        with server.connect(database) as connection:
            connection.execute("select pg_catalog.count(*) from public.stock")
    output(capsys, "snapshots", *dsn)
    for source in (dsn, file):
        output(capsys, "report", *source)
    output(capsys, "advise", *dsn, "--flash-bytes", "8GB")
    with elsewhere(server.data) as flash:
        output(capsys, "advise", *dsn, "--flash", str(flash))
    output(capsys, "devices", *dsn)
    output(capsys, "doctor", *dsn)
    for name in ("check", "cache"):  # they fail without the extension, or if not all is well
        assert main([name, *dsn]) in (0, 1)
    output(capsys, "top", *dsn, "--seconds", "2", "--every", "0.2")
    look_at_the_page(server, database)


def look_at_the_page(server: Server, database: str) -> None:
    """Look at all that the live page shows, twice: its sessions are lost in between."""
    with served(server.conninfo(database)) as page, page.collector.watched():
        for _ in range(2):
            began = time.monotonic()
            until(lambda began=began: is_read(page, since_s=began))  # type: ignore[misc]
            look_at_details(page)
            with server.connect() as connection:
                connection.execute(
                    "select pg_terminate_backend(pid, 60000) from pg_stat_activity "
                    "where application_name = 'pgflash'"
                )


def is_read(page: Served, *, since_s: float) -> bool:
    """Say whether the server was read since then, and its files were."""
    newest, now = page.collector.newest, datetime.now(UTC)
    return (
        page.collector.status.state == "live"
        and newest is not None
        and newest.monotonic_s > since_s
        and bool(page.collector.segments.within(now - timedelta(hours=1), now))
    )


#: What a page can be about.
FOCUSES = (
    "query=1",
    "session=1",
    "wait=IO%3ADataFileRead",
    "relation=pg_class",
    "user=postgres&database=postgres&application=x&client=local",
)


def look_at_details(page: Served) -> None:
    """Ask for the cache, for recent activity, and for what only snapshots have."""
    now = datetime.now(UTC)
    assert page.ask("/live/cache").json["present"]
    for length in (timedelta(seconds=5), timedelta(hours=1)):
        times = urlencode({"from": (now - length).isoformat(), "to": now.isoformat()})
        for path in ("/live/details", "/live/history"):
            answer = page.ask(f"{path}?{times}")
            assert answer.code == 200, answer.text
        for focus in FOCUSES:
            answer = page.ask(f"/?{times}&{focus}")
            assert answer.code == 200, answer.text
            assert ("Size at its last VACUUM" in answer.text) == focus.startswith("relation")
    assert page.ask("/blocking").code == 200


def look_where_to_place(server: Server, capsys: pytest.CaptureFixture[str], database: str) -> None:
    """Ask what moves would bring."""
    dsn = ("--dsn", server.conninfo(database), "--dry-run")
    output(capsys, "place", "table", "stock", "--on", "fast", *dsn)
    output(capsys, "place", "index", "stock_id_idx", "--on", "fast", *dsn)
    output(capsys, "place", "database", database, "--on", "fast", *dsn)
    output(capsys, "place", "temp", "--on", "fast", *dsn)
    commands = ("--stop-command", "true", "--start-command", "true")
    output(capsys, "place", "wal", "--on", str(server.base / "wal"), *commands, *dsn)


def is_superuser(server: Server) -> bool:
    with server.connect() as connection:
        row = connection.execute(
            "select rolsuper from pg_roles where rolname = 'mallory'"
        ).fetchone()
    assert row is not None
    return bool(row[0])


def test_a_superuser_who_looks_runs_nobodys_operators(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The owner of a database has traps in public; nothing else is prepared."""
    look_around(server, capsys, tmp_path, "shop")
    look_where_to_place(server, capsys, "shop")
    assert sprung(server.log_text()) == set()
    assert not is_superuser(server)


@pytest.mark.extension
def test_a_search_path_of_the_databases_owner_does_not_count(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """She also makes every session of her database search public before the catalog."""
    with psycopg.connect(server.conninfo("app"), user="mallory", autocommit=True) as hers:
        hers.execute("alter database app set search_path = public, pg_catalog")
    try:
        look_around(server, capsys, tmp_path, "app")
        look_where_to_place(server, capsys, "app")
    finally:
        with server.connect("app") as connection:
            connection.execute("alter database app reset search_path")
    assert sprung(server.log_text()) == set()
    assert not is_superuser(server)


@pytest.mark.extension
def test_a_pooler_that_forgets_the_search_path_opens_no_door(
    server: Server,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pooler gives each statement another session, with an unchanged search_path.

    Moves are left out: they need one session throughout, and say so by failing.
    """
    monkeypatch.setattr(session, "SEARCH_PATH", AS_IT_IS)
    look_around(server, capsys, tmp_path, "shop")
    assert sprung(server.log_text()) == set()
    assert not is_superuser(server)


@pytest.mark.parametrize(("database", "schema"), SCHEMAS.items())
def test_an_exporter_runs_nothing_of_the_databases_owner(
    server: Server, database: str, schema: str
) -> None:
    """She also has a type called text, and makes every session search public first."""
    with server.connect(database) as admin:
        admin.execute("drop role if exists watcher")
        admin.execute("create role watcher login in role pg_monitor")
        admin.execute(f"grant usage on schema {schema} to watcher")
    with psycopg.connect(server.conninfo(database), user="mallory", autocommit=True) as hers:
        hers.execute(f"alter database {database} set search_path = public, pg_catalog")
        hers.execute(TYPE_TRAP)
    try:
        with psycopg.connect(server.conninfo(database), user="watcher", autocommit=True) as one:
            assert one.execute("show search_path").fetchone() == ("public, pg_catalog",)
            begin = len(server.log_text())
            for query in (*metric_queries(schema), *flat_queries(schema)):
                told = query.arrays() if query.histogram else query
                one.execute(told.sql(mark="tag_", last=EPOCH).encode())
            assert sprung(server.log_text()[begin:]) == set()
            # The control: what a careless query finds is hers.
            one.execute("select 'x'::text")
            assert "text" in sprung(server.log_text()[begin:])
    finally:
        with server.connect(database) as admin:
            admin.execute(f"alter database {database} reset search_path")
            admin.execute("drop domain public.text")
            admin.execute(f"revoke usage on schema {schema} from watcher")
            admin.execute("drop role watcher")


def test_the_traps_spring_where_a_session_begins_otherwise(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without the first statement of a session, hers are called and she wins."""
    monkeypatch.setattr(session, "SEARCH_PATH", "set search_path = public, pg_catalog")
    begin = len(server.log_text())
    try:
        with closing(session.connect(server.conninfo("app"))) as connection:
            connection.execute("select from pg_class where oid = 1 or relname like 'a'")
        found = sprung(server.log_text()[begin:])
        assert found & {"oid = int4", "oid = oid"}
        assert is_superuser(server)
    finally:
        with server.connect() as admin:
            admin.execute("alter role mallory nosuperuser")
