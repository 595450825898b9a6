# SPDX-License-Identifier: PostgreSQL
"""A library that is older or newer than the extension's SQL says so, and does what it can.

The newer SQL is made of this version's: a view with one more column, and a function that the
library does not have.  The older SQL is that of 0.1.
"""

import re

import psycopg
import pytest

from pgflash.cli import main
from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer
from support.cluster import ClusterFactory
from support.commands import output
from support.patience import eventually
from support.script import SQL_VERSION, offer, offer_before, script_folder
from support.standby import REPLICATION, create_standby, has_replayed
from support.warm import assert_true, create_warm, read_table
from support.world import Connection

pytestmark = pytest.mark.extension

#: Versions that do not exist yet.  The first asks for a library of its own, the second does not:
#: as where it came from a primary, or before the packages went back.
NEWER = "9.0"
ARRIVED = "9.1"

#: The launcher of snapshots says what it finds.
EVERY_SECOND = {"pgflash.snapshot_interval": "1s", "max_worker_processes": "16"}

#: The part of a script that asks for the library.
ASKS = re.compile(r"^DO LANGUAGE plpgsql \$\$\nDECLARE\n\tloaded text.*?^\$\$;$", re.M | re.S)

MORE = """
DROP VIEW pgflash_wal;
DROP FUNCTION pgflash_wal_row();
CREATE FUNCTION pgflash_wal_row(OUT a bigint, OUT b text) RETURNS record
AS 'MODULE_PATHNAME', 'pgflash_wal_row' LANGUAGE C;
CREATE VIEW pgflash_wal AS SELECT * FROM pgflash_wal_row();
GRANT SELECT ON pgflash_wal TO pg_monitor;
"""


def offer_newer(install: PgInstall) -> None:
    """Let CREATE EXTENSION ... VERSION create versions of the future; see offer()."""
    script = (script_folder(install) / f"pgflash--{SQL_VERSION}.sql").read_text()
    assert len(ASKS.findall(script)) == 1
    asks = script.replace(f"'{SQL_VERSION}'", f"'{NEWER}'")
    offer(install, NEWER, asks + MORE)
    offer(install, ARRIVED, ASKS.sub("", script) + MORE)


def views_of(connection: Connection) -> list[str]:
    """Return the names of the extension's views."""
    return [
        name
        for (name,) in connection.execute(
            "select c.relname from pg_class c join pg_depend d on d.objid = c.oid "
            "join pg_extension e on e.oid = d.refobjid "
            "where d.classid = 'pg_class'::regclass and d.deptype = 'e' "
            "and e.extname = 'pgflash' and c.relkind = 'v' order by 1"
        ).fetchall()
    ]


def read_views(connection: Connection) -> dict[str, psycopg.Error]:
    """Read each view of the extension; return the errors."""
    refused = {}
    for name in views_of(connection):
        try:
            connection.execute(f"select * from {name} limit 10").fetchall()
        except psycopg.Error as error:
            refused[name] = error
    return refused


def assert_alive(cached: CachedServer) -> None:
    """Fail if a process died, or if the table that is read is not cached and right."""
    assert_true(cached)
    assert "terminated by signal" not in cached.server.log_text()


def test_sql_that_needs_a_newer_library_is_refused_with_the_remedy(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install, preload="pgflash")
    offer_newer(server.install)
    with server.connect() as connection:
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as refused:
            connection.execute(f"create extension pgflash version '{NEWER}'")
        assert f"the library of pgflash {SQL_VERSION}" in str(refused.value)
        assert refused.value.diag.message_hint == "Restart the server, and repeat the command."
        assert not connection.execute(
            "select from pg_extension where extname = 'pgflash'"
        ).fetchall()


def test_a_library_that_is_older_than_the_sql_says_so_and_serves(
    cluster: ClusterFactory, pgflash_install: PgInstall, capsys: pytest.CaptureFixture[str]
) -> None:
    cached = create_warm(cluster, pgflash_install, settings=EVERY_SECOND)
    server = cached.server
    offer_newer(server.install)
    remedy = f"install pgflash {ARRIVED} and restart the server"
    with server.connect() as connection:
        connection.execute("drop extension pgflash")
        connection.execute(f"create extension pgflash version '{ARRIVED}'")
        refused = read_views(connection)
        assert set(refused) == {"pgflash_wal"}
        assert isinstance(refused["pgflash_wal"], psycopg.errors.DatatypeMismatch)
        assert remedy in str(refused["pgflash_wal"].diag.message_hint)
        with pytest.raises(psycopg.Error, match="of another version than the library") as error:
            connection.execute("select pgflash_snapshot()")
        assert remedy in str(error.value.diag.message_hint)
        connection.execute("select pgflash_set_cache_policy('item', 'keep')")
        # It may have looked while there was no extension, and would wait for a minute.
        connection.execute("select pg_reload_conf()")
    assert eventually(lambda: "The library is older" in server.log_text())
    assert read_table(cached).hits > 0
    assert_alive(cached)

    assert main(["check", "--dsn", server.conninfo()]) == 1
    assert f"the extension in database postgres {ARRIVED}" in capsys.readouterr().out
    shown = output(capsys, "version", "--dsn", server.conninfo()).splitlines()
    assert shown[-1].startswith(f"Install pgflash {ARRIVED} and restart the server")


def test_a_library_that_is_newer_than_the_sql_says_so_and_serves(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install, settings=EVERY_SECOND)
    offer_before(cached.server.install)
    with cached.server.connect() as connection:
        connection.execute("drop extension pgflash")
        connection.execute("create extension pgflash version '0.1'")
        views = views_of(connection)
        refused = read_views(connection)
        assert 0 < len(refused) < len(views)
        for error in refused.values():
            assert "Run ALTER EXTENSION pgflash UPDATE" in str(error.diag.message_hint)
        connection.execute("select pgflash_set_cache_policy('item', 'keep')")
        # It may have looked while there was no extension, and would wait for a minute.
        connection.execute("select pg_reload_conf()")
    assert eventually(lambda: "of another version than the library" in cached.server.log_text())
    assert "The library is older" not in cached.server.log_text()
    assert_alive(cached)
    with cached.server.connect() as connection:
        connection.execute("alter extension pgflash update")
        assert read_views(connection) == {}
    assert read_table(cached).hits > 0


def test_a_standby_is_upgraded_before_its_primary_and_after_it(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """SQL is replicated and libraries are not: each may be newer than the other."""
    primary = create_warm(cluster, pgflash_install, settings=REPLICATION)
    offer_before(primary.server.install)
    offer_newer(primary.server.install)
    with primary.server.connect() as connection:
        connection.execute("drop extension pgflash")
        connection.execute("create extension pgflash version '0.1'")
    standby = create_standby(cluster, primary.server)

    def replayed() -> bool:
        return has_replayed(primary.server, standby.server)

    def refused() -> dict[str, psycopg.Error]:
        assert eventually(replayed)
        with standby.server.connect() as connection:
            return read_views(connection)

    old = refused()
    assert len(old) > 0
    for error in old.values():
        assert "UPDATE in this database, on the primary" in str(error.diag.message_hint)
    with primary.server.connect() as connection:
        connection.execute("alter extension pgflash update")
    assert refused() == {}
    digest = read_table(primary).digest
    assert eventually(lambda: read_table(standby).hits > 0)

    with primary.server.connect() as connection:
        connection.execute("drop extension pgflash")
        connection.execute(f"create extension pgflash version '{ARRIVED}'")
    assert set(refused()) == {"pgflash_wal"}
    reads = read_table(standby)
    assert reads.digest == digest
    assert reads.hits > 0
    assert_alive(standby)
