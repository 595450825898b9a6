# SPDX-License-Identifier: PostgreSQL
"""The owner of the schema where the extension is renames it while we use it.

The tenant owns the database app, and so its schema public.  A second schema of the tenant has a
view for each relation of the extension, with the same columns, whose query calls a function of the
tenant's.  Then the schemas change places: what we call by name is the tenant's.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

from pgflash.session import SessionError
from pgflash.store.pg import PgStore
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import until
from support.script_traps import SPRUNG, as_user
from support.world import Connection

pytestmark = pytest.mark.extension

BrokenInstall = Callable[[str], PgInstall]

#: The tenant's code: it tries to become a superuser.
SPRING = f"""
create function public.sprung() returns bool language plpgsql as $$
begin
	raise log '{SPRUNG} by %', current_user;
	begin
		alter role tenant superuser;
	exception when others then null;
	end;
	return true;
end $$
"""

#: For each relation of the extension, a view of its name and columns in the schema trap.
VIEWS = """
select format('create view trap.%I as select %s where public.sprung()', c.relname,
              string_agg(format('null::%s as %I', format_type(a.atttypid, null), a.attname), ', '
                         order by a.attnum))
  from pg_depend d join pg_extension e on e.oid = d.refobjid and e.extname = 'pgflash'
  join pg_class c
    on c.oid = d.objid and d.classid = 'pg_class'::regclass and c.relkind in ('r', 'v')
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where not exists (select from pg_depend t where t.objid = a.atttypid and t.refobjid = e.oid)
 group by c.relname
"""

#: Each of them reads and writes some forty names.
CALLS = 20

SWAP = """
alter schema public rename to away;
alter schema trap rename to public;
alter schema away rename to trap;
"""
SWAP_ON = f"do $$ begin loop {SWAP} commit; perform pg_sleep(0.001); end loop; end $$"


def serve(cluster: ClusterFactory, install: PgInstall, *, preload: str = "pgflash") -> Server:
    """Return a server with the tenant's database, where the extension is, and the trap."""
    server = cluster(install=install, preload=preload, settings={"pgflash.snapshot_interval": "1s"})
    with server.connect() as connection:
        connection.execute("create role tenant login")
        connection.execute("create database app owner tenant")
    with server.connect("app") as connection:
        connection.execute("create extension pgflash")
        views = [text for (text,) in connection.execute(VIEWS)]
    assert len(views) > 20
    with as_user(server, "tenant", "app") as tenant:
        tenant.execute(SPRING)
        tenant.execute("create schema trap")
        for view in views:
            tenant.execute(view)
        tenant.execute("grant usage on schema trap to public")
        tenant.execute("grant select on all tables in schema trap to public")
    return server


def is_superuser(connection: Connection) -> bool:
    row = connection.execute("select rolsuper from pg_roles where rolname = 'tenant'").fetchone()
    return row == (True,)


@contextlib.contextmanager
def swapping(server: Server) -> Iterator[None]:
    """Have the tenant swap the schemas again and again, and put them back."""
    with as_user(server, "tenant", "app") as tenant:
        home = tenant.execute("select 'public'::regnamespace::oid").fetchone()

        def swap() -> None:
            with pytest.raises(psycopg.errors.QueryCanceled):
                tenant.execute(SWAP_ON)

        thread = threading.Thread(target=swap)
        thread.start()
        try:
            yield
        finally:
            tenant.cancel()
            thread.join()
        if tenant.execute("select 'public'::regnamespace::oid").fetchone() != home:
            tenant.execute(SWAP)


@pytest.mark.parametrize("fault", ["", "MEMBER"])
def test_a_snapshot_reads_nothing_of_the_tenant_s(
    cluster: ClusterFactory, broken_install: BrokenInstall, fault: str
) -> None:
    """A superuser takes snapshots, and so does the worker, while the schemas change places."""
    server = serve(cluster, broken_install(fault))
    with server.connect("app") as connection:
        # It knows the function by its number, as a session does that has called it before.
        connection.execute("create schema safe")
        connection.execute(
            "create function safe.take() returns bigint begin atomic select pgflash_snapshot(); end"
        )

        def take() -> None:
            with contextlib.suppress(psycopg.Error):
                connection.execute("select safe.take()")

        def is_caught() -> bool:
            take()
            return SPRUNG in server.log_text()

        with swapping(server):
            if fault:
                until(is_caught)
            else:
                for _ in range(CALLS):
                    take()
        # What it does is undone if the snapshot fails later.
        assert (SPRUNG in server.log_text()) is (fault != "")
        assert fault or not is_superuser(connection)


@pytest.mark.parametrize("fault", ["", "MEMBER"])
def test_a_session_reads_nothing_of_the_tenant_s(
    cluster: ClusterFactory, broken_install: BrokenInstall, fault: str
) -> None:
    """The command has found the schema; then the tenant swaps it, once."""
    server = serve(cluster, broken_install(fault))
    with PgStore(server.conninfo("app")) as store, server.connect("app") as connection:
        store.list()
        with as_user(server, "tenant", "app") as tenant:
            tenant.execute(SWAP)
        if fault:
            store.list()
        else:
            with pytest.raises(SessionError, match="belongs neither to PostgreSQL nor to pgflash"):
                store.list()
        assert (SPRUNG in server.log_text()) is (fault != "")
        assert is_superuser(connection) is (fault != "")


STATEMENTS = {
    "a table": "select from hers",
    "a view": "select from hers_too",
    "a subquery": "select (select n from hers limit 1)",
    "a common table expression": "with c as (select n from hers) select 1 from c",
    "a set operation": "select 1 union select n from hers",
    "a target": "insert into hers select 1",
    "a function": "select f()",
    "a function in FROM": "select from f()",
    "a function of a column": "select from pg_class where f() = relname",
    "an operator": "select 1 where 'a'::text ### 'b'::text",
    "an aggregate": "select agg(relname::text) from pg_class",
    "a domain": "select 'a'::hers_as_well",
    "a function in a clause": "select relname from pg_class order by f() limit 1",
    "a function in a plan": "explain select f()",
}
OBJECTS = """
create table hers (n int);
create view hers_too as select 1 as n;
create function f() returns text language sql as $$ select 'a' $$;
create function f2(text, text) returns bool language sql as $$ select true $$;
create function f3(text, text) returns text language sql as $$ select 'a' $$;
create operator ### (function = f2, leftarg = text, rightarg = text);
create aggregate agg(text) (sfunc = f3, stype = text);
create domain hers_as_well as text check (f2(value, value));
"""


def is_refused(connection: Connection, statement: str) -> bool:
    try:
        connection.execute(statement)
    except psycopg.errors.UndefinedObject as error:
        return "belongs neither" in str(error)
    return False


def test_what_a_restricted_session_may_use(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install, preload="pgflash")
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        for statement in OBJECTS.split(";\n"):
            connection.execute(statement)
        connection.execute("set pgflash.restrict_objects = on")
        refused = {what: is_refused(connection, text) for what, text in STATEMENTS.items()}
        assert [what for what, is_so in refused.items() if not is_so] == []
        connection.execute("select count(*) from pgflash_io where calls > 0")
        connection.execute("select snapshot_id from pgflash_snapshots order by taken_at")
        connection.execute("select pgflash_snapshot()")
        connection.execute("select count(*) from pg_class, pg_stat_activity")
        connection.execute("set pgflash.restrict_objects = off")
        for statement in STATEMENTS.values():
            connection.execute(statement)


def test_a_schema_is_not_trusted_where_no_library_watches(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """The server has not loaded pgflash: it cannot check what a session uses, nor be told to."""
    server = serve(cluster, pgflash_install, preload="")
    with server.connect() as connection:
        # What the tenant could do while the library was loaded.
        connection.execute("alter database app set pgflash.restrict_objects = on")
    with pytest.raises(SessionError, match='schema "public" of the extension pgflash belongs to'):
        PgStore(server.conninfo("app"))
