# SPDX-License-Identifier: PostgreSQL
"""ALTER EXTENSION UPDATE turns each earlier version into what CREATE EXTENSION creates now."""

from typing import Any

import pytest

from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.script import SQL_VERSION, VERSIONS_BEFORE, offer_before
from support.world import Connection

pytestmark = pytest.mark.extension

_MEMBERS = """
with member as (
	select d.classid, d.objid from pg_depend d join pg_extension e on e.oid = d.refobjid
	where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e' and e.extname = 'pgflash'
), relation as (
	select c.* from pg_class c join member m
		on m.classid = 'pg_class'::regclass and m.objid = c.oid
), function as (
	select p.* from pg_proc p join member m on m.classid = 'pg_proc'::regclass and m.objid = p.oid
)
"""

#: The properties of an extension, except for OIDs.
_CATALOG = {
    "members": "select pg_describe_object(classid, objid, 0) from member",
    "relations": "select relname, relkind, relpersistence, reloptions, relowner::regrole::text, "
    "array(select a::text from unnest(relacl) a order by 1), obj_description(oid), "
    "relkind = 'v' and pg_get_viewdef(oid) is not null, "
    "case relkind when 'v' then pg_get_viewdef(oid) end from relation",
    "columns": "select c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), "
    "a.attnotnull, a.attstorage, a.attidentity, a.attacl::text, pg_get_expr(d.adbin, d.adrelid), "
    "col_description(c.oid, a.attnum) from relation c join pg_attribute a on a.attrelid = c.oid "
    "left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum where a.attnum > 0",
    "constraints": "select c.relname, n.conname, pg_get_constraintdef(n.oid) "
    "from relation c join pg_constraint n on n.conrelid = c.oid",
    "indexes": "select c.relname, pg_get_indexdef(i.indexrelid) "
    "from relation c join pg_index i on i.indrelid = c.oid",
    "triggers": "select c.relname, pg_get_triggerdef(t.oid), t.tgenabled "
    "from relation c join pg_trigger t on t.tgrelid = c.oid where not t.tgisinternal",
    "functions": "select proname, pg_get_functiondef(oid), "
    "array(select a::text from unnest(proacl) a order by 1), obj_description(oid) from function",
    "types": "select t.typname, obj_description(t.oid) from pg_type t join member m "
    "on m.classid = 'pg_type'::regclass and m.objid = t.oid",
    "first rights": "select pg_describe_object(p.classoid, p.objoid, p.objsubid), p.privtype, "
    "array(select a::text from unnest(p.initprivs) a order by 1) "
    "from pg_init_privs p join member m on m.classid = p.classoid and m.objid = p.objoid",
    "dumped": "select extversion, extrelocatable, extcondition, "
    "array(select t::regclass::text from unnest(extconfig) t) "
    "from pg_extension where extname = 'pgflash'",
}


def catalog(connection: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Return everything about the extension in the catalogs."""
    return {
        what: sorted(connection.execute(f"{_MEMBERS} {query}").fetchall(), key=str)
        for what, query in _CATALOG.items()
    }


@pytest.mark.parametrize("version", VERSIONS_BEFORE)
def test_an_update_makes_what_a_new_extension_has(
    cluster: ClusterFactory, pgflash_install: PgInstall, version: str
) -> None:
    server = cluster(
        install=pgflash_install, preload="pgflash", settings={"pgflash.snapshot_interval": "0"}
    )
    offer_before(server.install)
    with server.connect() as connection:
        connection.execute("create database app")
        connection.execute("create extension pgflash")
        new = catalog(connection)
    assert len(new["relations"]) > 15
    with server.connect("app") as connection:
        connection.execute(f"create extension pgflash version '{version}'")
        connection.execute("create table t (); create table u ()")
        connection.execute("select pgflash_set_cache_policy('t', 'keep')")
        connection.execute("select pgflash_set_cache_policy('u', 'none')")
        connection.execute(
            "insert into pgflash_snapshots (taken_at, started_at, took_ms, origin, "
            "server_version_num, extension_version) values (now(), now(), 1, 'command', 1, '0.1')"
        )
        before = catalog(connection)
        assert before["dumped"] != new["dumped"]
        kept = {
            table: connection.execute(f"select * from {table}").fetchall()
            for table in ("pgflash_cache_policy", "pgflash_snapshots")
        }

        connection.execute("alter extension pgflash update")
        updated = catalog(connection)
        for what in _CATALOG:
            assert updated[what] == new[what]
        for table, rows in kept.items():
            assert len(rows) > 0
            assert connection.execute(f"select * from {table}").fetchall() == rows
        assert connection.execute("select pgflash_snapshot()").fetchone() == (2,)
        connection.execute("drop extension pgflash")


def test_a_view_of_one_s_own_stops_an_update_and_is_named(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install, preload="pgflash")
    offer_before(server.install)
    with server.connect() as connection:
        connection.execute("create extension pgflash version '0.1'")
        connection.execute("create view mine as select * from pgflash_wal")
        with pytest.raises(Exception, match="other objects depend") as refused:
            connection.execute("alter extension pgflash update")
        assert "view mine depends on view pgflash_wal" in str(refused.value)
        assert connection.execute(
            "select extversion from pg_extension where extname = 'pgflash'"
        ).fetchone() == ("0.1",)


def test_each_version_before_can_be_updated(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install, preload="pgflash")
    with server.connect() as connection:
        paths = connection.execute(
            "select source from pg_extension_update_paths('pgflash') "
            "where target = %s and path is not null",
            [SQL_VERSION],
        ).fetchall()
    assert {version for (version,) in paths} >= set(VERSIONS_BEFORE)
