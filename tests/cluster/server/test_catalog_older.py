# SPDX-License-Identifier: PostgreSQL
"""The library of 0.1 itself beside this version's SQL, and its SQL beside this library.

A server goes the way of an upgrade and back: files are replaced, then it is restarted.  Building
the library takes half a minute and the repository's history, so only `make older-check` does it.
"""

import psycopg
import pytest

from pgflash.cli import main
from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer
from support.cluster import ClusterFactory
from support.commands import failure
from support.older import VERSION, TwoVersions, two_versions
from support.patience import eventually
from support.script import SQL_VERSION, offer_before
from support.warm import create_warm, read_table

pytestmark = pytest.mark.older_check

#: The views that 0.1 does not have.
NEW = {
    "pgflash_cache_benefit",
    "pgflash_cache_load_progress",
    "pgflash_cache_warmth",
    "pgflash_last_statement",
    "pgflash_lock_waits",
    "pgflash_statements",
}
#: Those of its views that have other columns now.
CHANGED = {"pgflash_cache", "pgflash_relations"}

_VIEWS = """
select c.relname from pg_class c join pg_depend d on d.objid = c.oid
  join pg_extension e on e.oid = d.refobjid
 where d.classid = 'pg_class'::regclass and d.deptype = 'e' and e.extname = 'pgflash'
   and c.relkind = 'v'
"""


@pytest.fixture
def versions(pgflash_install: PgInstall) -> TwoVersions:
    return two_versions(pgflash_install, SQL_VERSION)


def refused_views(cached: CachedServer) -> dict[str, psycopg.Error]:
    """Read each view of the extension; return the errors."""
    refused = {}
    with cached.server.connect() as connection:
        for (name,) in connection.execute(_VIEWS).fetchall():
            try:
                connection.execute(f"select * from {name}").fetchall()
            except psycopg.Error as error:
                refused[name] = error
    return refused


def restart(cached: CachedServer) -> None:
    cached.server.stop()
    cached.start()


def digest(cached: CachedServer) -> str:
    """Return what the table holds; the first time after a start it is read from its file."""
    with cached.server.connect() as connection:
        query = (
            "select md5(string_agg(i || ':' || v || ':' || length(pad), ',' order by i)) from item"
        )
        (found,) = connection.execute(query).fetchone() or ()
    return str(found)


def flash_reads(cached: CachedServer) -> int:
    """Return how many reads flash has answered; both versions have this view."""
    with cached.server.connect() as connection:
        query = "select coalesce(sum(calls), 0)::int from pgflash_io where source = 'flash'"
        (found,) = connection.execute(query).fetchone() or ()
    return int(found)


def serves(cached: CachedServer) -> bool:
    """Read the table by its index, which fills the cache; say whether flash answers."""
    before = flash_reads(cached)
    with cached.server.connect() as connection:
        for setting in ("seqscan", "bitmapscan"):
            connection.execute(f"set enable_{setting} = off")
        connection.execute("select sum(length(pad)) from item where i > 0")
    return flash_reads(cached) > before


def test_the_sql_of_this_version_and_the_library_of_0_1(
    cluster: ClusterFactory, versions: TwoVersions, capsys: pytest.CaptureFixture[str]
) -> None:
    """The packages went back: nothing is wrong, what is missing is named, and the cache serves."""
    cached = create_warm(cluster, versions.install)
    assert refused_views(cached) == {}
    before = digest(cached)
    versions.use_library(VERSION)
    versions.use_files(VERSION)
    restart(cached)

    refused = refused_views(cached)
    assert set(refused) == NEW | CHANGED
    for name in refused.keys() - {"pgflash_cache"}:
        assert isinstance(refused[name], psycopg.errors.UndefinedFunction)
        assert "could not find function" in str(refused[name])
    assert "does not know the column" in str(refused["pgflash_cache"])
    assert digest(cached) == before
    assert eventually(lambda: serves(cached))
    assert digest(cached) == before
    assert "terminated by signal" not in cached.server.log_text()

    dsn = cached.server.conninfo()
    assert "'pgflash version' says whether" in failure(capsys, 1, "cache", "--dsn", dsn)
    install = f"Install pgflash {SQL_VERSION} and restart the server"
    assert main(["check", "--dsn", dsn]) == 1
    assert install in capsys.readouterr().err
    assert main(["version", "--dsn", dsn]) == 0
    told = capsys.readouterr().out
    assert f"library:    {VERSION}\nextension:  {SQL_VERSION} in" in told
    assert install in told

    versions.use_library(SQL_VERSION)
    versions.use_files(SQL_VERSION)
    restart(cached)
    assert refused_views(cached) == {}
    assert digest(cached) == before


def test_a_server_of_0_1_becomes_one_of_this_version(
    cluster: ClusterFactory, versions: TwoVersions
) -> None:
    offer_before(versions.install)
    versions.use_library(VERSION)
    cached = create_first(cluster, versions)
    server = cached.server
    with server.connect() as connection:
        connection.execute("create database app")
    for database, command in (
        ("app", "create extension pgflash"),
        ("postgres", "alter extension pgflash update"),
    ):
        with (
            server.connect(database) as connection,
            pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught,
        ):
            connection.execute(command)
        assert f"the library of pgflash {VERSION}, and this SQL is of {SQL_VERSION}" in str(
            caught.value
        )
        assert caught.value.diag.message_hint == "Restart the server, and repeat the command."

    versions.use_library(SQL_VERSION)
    restart(cached)
    refused = refused_views(cached)
    # Columns of pgflash_cache are found by their names.
    assert set(refused) == CHANGED - {"pgflash_cache"}
    for error in refused.values():
        assert error.diag.message_hint == "Run ALTER EXTENSION pgflash UPDATE in this database."
    with server.connect() as connection:
        connection.execute("alter extension pgflash update")
        kept = connection.execute("select policy from pgflash_cache_policy").fetchall()
        assert kept == [("keep",)]
        assert connection.execute("select count(*) from pgflash_snapshots").fetchone() == (1,)
    assert refused_views(cached) == {}
    assert read_table(cached).digest


def create_first(cluster: ClusterFactory, versions: TwoVersions) -> CachedServer:
    """Return a server with the library and the SQL of 0.1, a policy and a snapshot."""
    versions.use_files(VERSION)
    cached = create_warm(cluster, versions.install)
    with cached.server.connect() as connection:
        connection.execute("select pgflash_set_cache_policy('item', 'keep')")
        connection.execute("select pgflash_snapshot()")
    versions.use_files(SQL_VERSION)
    return cached
