# SPDX-License-Identifier: PostgreSQL
"""A user who may create objects in the extension's schema gains no rights by it.

The scripts of CREATE EXTENSION and ALTER EXTENSION UPDATE are run by a superuser, and superusers
and the server's own workers read the objects that they create.  The schema they run in has an
owner: since PostgreSQL 15, the owner of the database owns `public`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import until
from support.references import foreign_references, stored_expressions
from support.script import SOURCES, SQL_VERSION, VERSIONS_BEFORE, offer_before, script_folder
from support.script_traps import SPRUNG, as_user, functions_of, operators_of, set_traps
from support.world import Connection

pytestmark = pytest.mark.extension

EVERY_SECOND = {"pgflash.snapshot_interval": "1s", "max_worker_processes": "16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The schema for the extension, and the SQL that lets the tenant write to it."""

    schema: str
    given: str


PLACES = {
    "owner of the database": Place(schema="public", given="alter database app owner to tenant"),
    "everybody may create": Place(schema="public", given="grant create on schema public to public"),
    "owner of the schema": Place(
        schema="monitoring",
        given="create schema monitoring authorization tenant; grant pg_monitor to tenant",
    ),
}


def all_scripts(install: PgInstall) -> str:
    offer_before(install)
    return "\n".join(path.read_text() for path in script_folder(install).glob("pgflash--*.sql"))


def trapped(server: Server, place: Place) -> None:
    """Make the database app, whose schema the tenant has filled with traps."""
    with server.connect() as connection:
        connection.execute("create role tenant login")
        connection.execute("create database app")
    with server.connect("app") as connection:
        connection.execute(place.given)
    with as_user(server, "tenant", "app") as tenant:
        assert set_traps(tenant, place.schema, all_scripts(server.install)) > 1000


def admin(server: Server) -> Connection:
    """Return a superuser's session that cannot itself be trapped."""
    connection = server.connect("app")
    connection.execute("set search_path = pg_catalog, pg_temp")
    return connection


def is_superuser(server: Server) -> bool:
    with admin(server) as connection:
        row = connection.execute("select rolsuper from pg_roles where rolname = 'tenant'")
        return bool((row.fetchone() or (True,))[0])


def read_everything(connection: Connection, schema: str) -> int:
    """Read every view and table of the extension; return how many there are."""
    names = [
        row[0]
        for row in connection.execute(
            "select c.relname from pg_class c join pg_depend d on d.objid = c.oid "
            "and d.classid = 'pg_class'::regclass and d.deptype = 'e' "
            "where c.relkind in ('r', 'v') order by c.relname"
        ).fetchall()
    ]
    for name in names:
        connection.execute(f"select * from {schema}.{name}").fetchall()
    return len(names)


def use(server: Server, schema: str) -> None:
    """Use the extension as a superuser does, and let the workers do their part."""
    with admin(server) as connection:
        connection.execute(f"create table {schema}.kept as select generate_series(1, 1000)")
        # A call without types would find the tenant's function in any case.
        connection.execute(
            f"select {schema}.pgflash_set_cache_policy('{schema}.kept'::regclass, 'keep'::text)"
        )
        for _ in range(2):
            connection.execute(f"select {schema}.pgflash_snapshot()")
        connection.execute("select pg_reload_conf()")
        until(
            lambda: connection.execute(
                f"select 1 from {schema}.pgflash_snapshots where origin = 'schedule' "
                "and previous_id is not null"
            ).fetchone()
        )
        # The schema may be closed to pg_monitor, and the views are read as pg_monitor.
        (missing,) = connection.execute(
            f"select content::text from {schema}.pgflash_snapshot_sections "
            "where section = 'missing' order by snapshot_id desc limit 1"
        ).fetchone() or ("",)
        assert "version" in str(missing) or "pg_stat_statements" in str(missing)
        assert "denied" not in str(missing)
        assert read_everything(connection, schema) > 15
        connection.execute(f"select {schema}.pgflash_snapshot_drop(now())")
        assert connection.execute(
            f"select count(*) from {schema}.pgflash_snapshot_sections s where not exists "
            f"(select from {schema}.pgflash_snapshots h where h.snapshot_id = s.snapshot_id)"
        ).fetchone() == (0,)


def serve(cluster: ClusterFactory, install: PgInstall) -> Server:
    return cluster(install=install, preload="pgflash", settings=EVERY_SECOND)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_the_traps_of_a_tenant_are_not_stepped_into(
    cluster: ClusterFactory, pgflash_install: PgInstall, place: Place
) -> None:
    """A tenant owns the schema and has put there what the script might take for PostgreSQL's.

    He knows the scripts: there is an operator or function of each name that they use, for
    each near combination of types.  Then a superuser creates the extension, and uses it.  No
    code of the tenant's may run, and he must be no superuser.
    """
    server = serve(cluster, pgflash_install)
    trapped(server, place)
    with admin(server) as connection:
        connection.execute(f"create extension pgflash schema {place.schema}")
        assert foreign_references(connection) == []
    use(server, place.schema)
    assert SPRUNG not in server.log_text()
    assert not is_superuser(server)


@pytest.mark.parametrize("version", VERSIONS_BEFORE)
def test_an_update_cleans_what_a_tenant_had_subverted(
    cluster: ClusterFactory, pgflash_install: PgInstall, version: str
) -> None:
    """An earlier version of the extension was created in a schema full of traps.

    In 0.1 the views then call the tenant's functions, which shows that the traps work. No worker of
    the new library reads these views, and after a superuser's ALTER EXTENSION UPDATE they call none
    of the tenant's functions.
    """
    server = serve(cluster, pgflash_install)
    trapped(server, PLACES["owner of the database"])
    with admin(server) as connection:
        connection.execute(f"create extension pgflash schema public version '{version}'")
        subverted = foreign_references(connection)
        if version == "0.1":
            assert any("operator" in one and "/" in one for one in subverted)
            assert any("pg_relation_filenode" in one for one in subverted)
            assert any("pgflash_active_sessions_rows" in one for one in subverted)
        connection.execute("select pg_reload_conf()")
        until(lambda: "of another version than the library" in server.log_text())
        with pytest.raises(psycopg.Error, match="of another version than the library"):
            connection.execute("select public.pgflash_snapshot()")
        assert SPRUNG not in server.log_text()

        connection.execute("alter extension pgflash update")
        assert foreign_references(connection) == []
    use(server, "public")
    assert SPRUNG not in server.log_text()
    assert not is_superuser(server)


def test_the_traps_are_worth_something(cluster: ClusterFactory, pgflash_install: PgInstall) -> None:
    """The control: with 0.1, a superuser who reads the views makes the tenant one."""
    server = serve(cluster, pgflash_install)
    trapped(server, PLACES["owner of the database"])
    with admin(server) as connection:
        connection.execute("create extension pgflash schema public version '0.1'")
        # Not pgflash_io_relations, whose trap would be called a million times.
        for view in ("pgflash_io", "pgflash_wal", "pgflash_active_sessions"):
            connection.execute(f"select * from public.{view}").fetchall()
    assert f"{SPRUNG} by postgres" in server.log_text()
    assert is_superuser(server)


@pytest.mark.parametrize("fault", ["", "SQL_VERSION"])
def test_a_worker_reads_no_views_of_another_version(
    cluster: ClusterFactory,
    broken_install: Callable[[str], PgInstall],
    fault: str,
) -> None:
    """The library is new, the views are still those of 0.1, which may be subverted."""
    server = serve(cluster, broken_install(fault))
    offer_before(server.install)
    with server.connect() as connection:
        connection.execute("create extension pgflash version '0.1'")
        connection.execute("select pg_reload_conf()")

        def taken() -> bool:
            return bool(connection.execute("select 1 from pgflash_snapshots").fetchone())

        until(lambda: taken() or "of another version than the library" in server.log_text())
        assert taken() is (fault != "")


def test_what_makes_a_call_ambiguous_is_an_error_and_no_more(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """The tenant has functions of our names with defaults, and tables of our names."""
    server = serve(cluster, pgflash_install)
    with server.connect() as connection:
        connection.execute("create role tenant login")
        connection.execute("create database app owner tenant")
    for trap in (
        "create function public.pgflash_cache_row(x int default 0, out mode text) "
        "language plpgsql as $$ begin raise log 'trap sprung'; end $$",
        "create view public.pgflash_cache as select 1 as mode",
        "create table public.pgflash_cache_policies (relation text, policy text)",
        "create type public.pgflash_relation_name as (x int)",
    ):
        with as_user(server, "tenant", "app") as tenant:
            tenant.execute(trap)
            with admin(server) as connection, pytest.raises(psycopg.Error):
                connection.execute("create extension pgflash schema public")
            tenant.execute("drop owned by tenant")
    assert SPRUNG not in server.log_text()
    with admin(server) as connection:
        connection.execute("create schema if not exists public")
        connection.execute("create extension pgflash schema public")


def test_the_walk_sees_expressions_of_all_kinds(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """The control of the walk: it must find what it would miss if it looked at nothing."""
    server = serve(cluster, pgflash_install)
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        kinds = {what.split(" ")[0] for what, _text in stored_expressions(connection)}
        assert kinds == {"rule", "default", "constraint", "function"}
        connection.execute("create function public.own() returns int return 1")
        for view in ("pgflash_wait_events", "pgflash_backend_cpu"):
            connection.execute(
                f"create or replace view {view} as select *, own() from {view}_rows()"
            )
        assert any("function public.own()" in one for one in foreign_references(connection))
        assert any("funcid" in one for one in foreign_references(connection))


def test_the_traps_are_of_what_the_scripts_name() -> None:
    script = "".join(path.read_text() for path in SOURCES.glob("*.sql"))
    assert {"=", "<>", "<", "-", "/"} <= operators_of(script)
    assert {"sum", "count", "pg_relation_filenode", "pgflash_io_rows"} <= functions_of(script)
    assert operators_of("select a * b, 'x + y' from c -- d % e") == {"*", "="}
    assert SQL_VERSION not in VERSIONS_BEFORE
