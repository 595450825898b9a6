# SPDX-License-Identifier: PostgreSQL
"""Our code gives nobody the rights of the workers and superusers who run it."""

import contextlib
from collections.abc import Callable

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import until
from support.script_traps import SPRUNG, as_user
from support.world import Connection

pytestmark = pytest.mark.extension

BrokenInstall = Callable[[str], PgInstall]

#: The extension's tables that are written outside of cache policies.
TABLES = ("snapshots", "snapshot_sections", "snapshot_queries", "snapshot_last", "baselines")

#: A superuser's calls that write them.
CALLS = {
    "pgflash_baseline_keep(text, bigint, bigint)": "pgflash_baseline_keep('x', 1, 2)",
    "pgflash_baseline_drop(text)": "pgflash_baseline_drop('kept')",
    "pgflash_snapshot_drop(timestamptz)": "pgflash_snapshot_drop('infinity')",
}

#: A stranger's code: it tries all ways to become a superuser.
ESCAPE = f"""
create function public.sprung() returns bool language plpgsql as $$
declare
	way text;
begin
	raise log '{SPRUNG} by %', current_user;
	foreach way in array array['set role postgres', 'reset role',
		'reset session authorization', 'alter role tenant superuser'] loop
		begin
			execute way;
		exception when others then null;
		end;
	end loop;
	return true;
end $$
"""


def serve(cluster: ClusterFactory, install: PgInstall) -> Server:
    """Return a server with a tenant's database app, where the extension is."""
    server = cluster(
        install=install, preload="pgflash", settings={"pgflash.snapshot_interval": "1s"}
    )
    with server.connect() as connection:
        connection.execute("create role tenant login")
        connection.execute("create database app owner tenant")
    with as_user(server, "tenant", "app") as tenant:
        tenant.execute(ESCAPE)
    with server.connect("app") as connection:
        connection.execute("create extension pgflash")
    return server


def look_now(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("select pg_reload_conf()")


def is_superuser(connection: Connection) -> bool:
    row = connection.execute("select rolsuper from pg_roles where rolname = 'tenant'").fetchone()
    return row == (True,)


def scheduled(connection: Connection) -> int:
    row = connection.execute(
        "select count(*) from pgflash_snapshots where origin = 'schedule'"
    ).fetchone()
    return int((row or (0,))[0])


@pytest.mark.parametrize("fault", ["", "RIGHTS"])
def test_what_a_view_calls_is_no_superuser_s(
    cluster: ClusterFactory, broken_install: BrokenInstall, fault: str
) -> None:
    """A view of the extension calls a tenant's function, through a hole that nobody knows yet.

    A superuser stands in for the hole.  The worker reads the view in each snapshot; the
    function then runs, but as pg_monitor, and cannot become anybody else.
    """
    server = serve(cluster, broken_install(fault))
    with server.connect("app") as connection:
        connection.execute(
            "create or replace view pgflash_sampler as "
            "select r.* from pgflash_sampler_row() r where public.sprung()"
        )
        look_now(server)
        until(lambda: scheduled(connection) > 1)
        assert SPRUNG in server.log_text()
        assert (f"{SPRUNG} by postgres" in server.log_text()) is (fault != "")
        assert is_superuser(connection) is (fault != "")


def plant_triggers(server: Server) -> None:
    """As the tenant, make triggers on the extension's tables."""
    with as_user(server, "tenant", "app") as tenant:
        tenant.execute(
            "create function fired() returns trigger language plpgsql as "
            "$$ begin perform public.sprung(); return coalesce(new, old); end $$"
        )
        for table in TABLES:
            tenant.execute(
                f"create trigger t before insert or update or delete on pgflash_{table} "
                "for each row execute function fired()"
            )


@pytest.mark.parametrize("fault", ["", "TRIGGERS"])
def test_a_trigger_on_the_tables_does_not_fire(
    cluster: ClusterFactory, broken_install: BrokenInstall, fault: str
) -> None:
    """A tenant has all rights on all tables of the schema, so he can create triggers on ours."""
    server = serve(cluster, broken_install(fault))
    with server.connect("app") as connection:
        connection.execute("grant all on all tables in schema public to tenant")
        plant_triggers(server)
        connection.execute("select pgflash_snapshot()")
        look_now(server)
        until(lambda: scheduled(connection) > 1)
        # And when the old ones are dropped.
        connection.execute("set session_replication_role = replica")
        connection.execute("update pgflash_snapshots set taken_at = taken_at - interval '9 days'")
        until(
            lambda: (
                connection.execute(
                    "select 1 from pgflash_snapshots where taken_at < now() - interval '8 days'"
                ).fetchone()
                is None
            )
        )
        assert (SPRUNG in server.log_text()) is (fault != "")
        assert is_superuser(connection) is (fault != "")


def test_a_trigger_does_not_fire_for_a_superuser_who_keeps_or_drops(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """The same tenant waits for a superuser's `pgflash baseline` or `pgflash snapshot --keep`."""
    server = serve(cluster, pgflash_install)
    with server.connect("app") as connection:
        for _ in range(4):
            connection.execute("select pgflash_snapshot()")
        connection.execute("select pgflash_baseline_keep('kept', 1, 2)")
        connection.execute("grant all on all tables in schema public to tenant")
        plant_triggers(server)

        def tenant_got_it(call: str) -> bool:
            with connection.transaction(force_rollback=True):
                # Where nothing is written, no trigger could fire.
                (written,) = connection.execute(f"select {call}::int").fetchone() or ()
                assert written > 0
                return is_superuser(connection)

        for function, call in CALLS.items():
            assert not tenant_got_it(call)
            connection.execute(f"alter function {function} reset session_replication_role")
            assert tenant_got_it(call)
            connection.execute(f"alter function {function} set session_replication_role = replica")
        assert not is_superuser(connection)


def test_every_function_in_sql_that_may_write_does_so_without_triggers(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = serve(cluster, pgflash_install)
    with server.connect("app") as connection:
        rows = connection.execute(
            "select p.oid::regprocedure::text, prosecdef, proconfig from pg_proc p "
            "join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid "
            "join pg_extension e on d.refobjid = e.oid and e.extname = 'pgflash' "
            "join pg_language l on l.oid = prolang "
            "where d.deptype = 'e' and lanname <> 'c' and provolatile = 'v'"
        ).fetchall()
    safe = ["search_path=pg_catalog, pg_temp", "session_replication_role=replica"]
    assert {row[0]: row[1:] for row in rows} == {
        name.replace("timestamptz", "timestamp with time zone").replace(", ", ","): (True, safe)
        for name in CALLS
    }


@pytest.mark.parametrize("fault", ["", "SETTINGS"])
def test_settings_of_a_database_do_not_stop_snapshots(
    cluster: ClusterFactory, broken_install: BrokenInstall, fault: str
) -> None:
    """The owner of the database gives it settings, with which a snapshot would fail."""
    server = serve(cluster, broken_install(fault))
    settings = {
        "default_transaction_read_only": "on",
        "default_transaction_isolation": "serializable",
        "search_path": "public",
        "role": "tenant",
        "row_security": "off",
        "statement_timeout": "1",
        "restrict_nonsystem_relation_kind": "view",
        **({"transaction_timeout": "1"} if server.install.major >= 17 else {}),
    }
    with server.connect("app") as connection:
        with as_user(server, "tenant", "app") as tenant:
            for name, value in settings.items():
                tenant.execute(f"alter database app set {name} = '{value}'")
        look_now(server)
        # The next one may have begun before.
        enough = scheduled(connection) + 1
        until(
            lambda: (
                scheduled(connection) > enough
                or "read-only transaction" in server.log_text()
                or "transaction timeout" in server.log_text()
            )
        )
        assert (scheduled(connection) > enough) is (fault == "")


def test_a_setting_that_forbids_views_does_not_empty_a_snapshot(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """Any user may forbid the session views, and with them what pgflash measures."""
    server = serve(cluster, pgflash_install)
    with server.connect("app") as connection:
        connection.execute("set restrict_nonsystem_relation_kind = 'view, foreign-table'")
        taken = connection.execute("select pgflash_snapshot()").fetchone()
        rows = connection.execute(
            "select section from pgflash_snapshot_sections where snapshot_id = %s", taken
        ).fetchall()
    assert {"io", "io_histogram", "wal", "cache"} <= {section for (section,) in rows}


@pytest.mark.parametrize("fault", ["", "MEMBER"])
def test_a_table_of_our_name_is_not_ours(
    cluster: ClusterFactory, broken_install: BrokenInstall, fault: str
) -> None:
    """The extension's table is missing, and a tenant has made one of its name."""
    server = serve(cluster, broken_install(fault))
    with server.connect("app") as connection:
        connection.execute("alter extension pgflash drop table pgflash_cache_policies")
        connection.execute("drop table pgflash_cache_policies")
        with as_user(server, "tenant", "app") as tenant:
            tenant.execute(
                "create table pgflash_cache_policies (relation pgflash_relation_name, policy text)"
            )
            tenant.execute("create table t ()")
            tenant.execute("insert into pgflash_cache_policies values ('public.t', 'none')")
        try:
            found = connection.execute("select policy from pgflash_cache_policy").fetchall()
        except psycopg.errors.UndefinedTable:
            found = []
        assert found == ([("none",)] if fault else [])


def test_who_may_take_snapshots_cannot_fill_the_disk(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """A member of pg_monitor takes snapshots without a pause.

    After a thousand in a day he is refused; the schedule continues, and so may a superuser.
    """
    server = serve(cluster, pgflash_install)
    with server.connect("app") as connection:
        connection.execute("grant pg_monitor to tenant")
        connection.execute(
            "insert into pgflash_snapshots "
            "(taken_at, started_at, took_ms, origin, server_version_num, extension_version) "
            "select now() - interval '23 hours', now(), 0, 'command', 0, '' "
            "from generate_series(1, 999)"
        )
        with as_user(server, "tenant", "app") as tenant:
            tenant.execute("select pgflash_snapshot()")
            with pytest.raises(psycopg.Error, match="too many snapshots") as refused:
                tenant.execute("select pgflash_snapshot()")
            assert "Scheduled snapshots continue" in str(refused.value.diag.message_hint)
            connection.execute("select pgflash_snapshot()")
            look_now(server)
            until(lambda: scheduled(connection) > 1)
            connection.execute(
                "update pgflash_snapshots set taken_at = taken_at - interval '2 hours'"
            )
            tenant.execute("select pgflash_snapshot()")

            # What fails fills the disk as well.  These fail early, to be quick.
            connection.execute("alter table pgflash_snapshots add check (false) not valid")
            fails = (psycopg.errors.CheckViolation, psycopg.errors.ConfigurationLimitExceeded)
            for _ in range(1000):
                with contextlib.suppress(*fails):
                    tenant.execute("select pgflash_snapshot()")
            connection.execute(
                "alter table pgflash_snapshots drop constraint pgflash_snapshots_check"
            )
            with pytest.raises(psycopg.Error, match="too many snapshots"):
                tenant.execute("select pgflash_snapshot()")
            connection.execute("select pgflash_snapshot()")


def test_a_superuser_s_analyze_takes_no_snapshots(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """A member of pg_monitor has an index whose expression takes one for each row.

    ANALYZE and autovacuum evaluate it for a superuser, who has no limits.
    """
    server = serve(cluster, pgflash_install)
    with server.connect("app") as connection:
        connection.execute("grant pg_monitor to tenant")
        with as_user(server, "tenant", "app") as tenant:
            tenant.execute("create table switch ()")
            tenant.execute("create table bait as select n from generate_series(1, 100) n")
            tenant.execute(
                "create function once(n int) returns int immutable language plpgsql as $$ begin "
                "if to_regclass('public.switch') is null then perform public.pgflash_snapshot(); "
                "end if; return n; end $$"
            )
            tenant.execute("create index on bait (once(n))")
            tenant.execute("drop table switch")
        count = "select count(*) from pgflash_snapshots where origin = 'command'"
        before = connection.execute(count).fetchone()
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="security-restricted"):
            connection.execute("analyze bait")
        assert connection.execute(count).fetchone() == before


def test_who_may_take_snapshots_cannot_stop_the_schedule(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """A member of pg_monitor takes one, and does not end the transaction.

    It holds the lock for which scheduled snapshots wait.
    """
    server = serve(cluster, pgflash_install)
    call = "perform pgflash_snapshot()"
    with server.connect("app") as connection:
        connection.execute("grant pg_monitor to tenant")
        with as_user(server, "tenant", "app") as tenant:
            for attempt in (
                "begin; select pgflash_snapshot()",
                "select 1; select pgflash_snapshot()",
                f"do $$ begin {call}; exception when query_canceled then null; end $$",
            ):
                with pytest.raises(psycopg.errors.ActiveSqlTransaction) as refused:
                    tenant.execute(attempt)
                assert "No scheduled snapshot" in str(refused.value.diag.message_detail)
                tenant.execute("rollback")
            # In one statement, which nothing else would end.
            with pytest.raises(psycopg.errors.AdminShutdown):
                tenant.execute("select pgflash_snapshot(), pg_sleep(86400)")
        before = scheduled(connection)
        look_now(server)
        until(lambda: scheduled(connection) > before)
        with as_user(server, "tenant", "app") as tenant:
            # A function that ends at once may take one, and so may the session again.
            tenant.execute(f"do $$ begin {call}; end $$")
            tenant.execute("select pgflash_snapshot()")
        # A superuser may do it in a transaction, and holds up the schedule if he wants to.
        connection.execute("begin; select pgflash_snapshot(); commit")
