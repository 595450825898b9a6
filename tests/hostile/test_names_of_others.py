# SPDX-License-Identifier: PostgreSQL
"""A superuser's command knows views and functions that this version of the extension lacks.

Mallory owns the database, and its schema public, where the extension is.  An extension that is
older than the command leaves her the names that came later, and any version leaves her those that
do not exist yet.  She makes views and functions of these names.  The command must not run them: it
says that the extension does not have them.
"""

import re
from pathlib import Path

import psycopg
import pytest

import pgflash
from pgflash.cli import main
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import create_cached
from support.cluster import ClusterFactory
from support.patience import until
from support.script import VERSIONS_BEFORE, offer_before
from support.served import served
from support.traps import sprung

_TRAP = """
create function public.spring(name text) returns text language plpgsql as $trap$ begin
    raise log 'TRAP %', name;
    begin execute 'alter role mallory superuser'; exception when others then null; end;
    return null;
end $trap$
"""
_ARGUMENTS = ("", "text", "text, bigint, bigint")


def names_in_program() -> set[str]:
    """Return the names of the extension's that our program asks for, in the schema it finds."""
    texts = [path.read_text() for path in Path(pgflash.__file__).parent.rglob("*.py")]
    return {name for text in texts for name in re.findall(r"\}\.(pgflash_\w+)", text)}


def set_traps(hers: psycopg.Connection) -> set[str]:
    """Take every name that the extension leaves; return them."""
    members = {
        name
        for (name,) in hers.execute(
            "select coalesce(c.relname, p.proname)::text from pg_depend d"
            " join pg_extension e on e.oid = d.refobjid and e.extname = 'pgflash'"
            " left join pg_class c on c.oid = d.objid and d.classid = 'pg_class'::regclass"
            " left join pg_proc p on p.oid = d.objid and d.classid = 'pg_proc'::regclass"
            " where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'"
        )
    }
    left = names_in_program() - members
    hers.execute(_TRAP)
    for name in left:
        hers.execute(
            f"create view public.{name} as select public.spring('{name}') as period,"
            " 0.5::float8 as warmth, public.spring('column') as name"
        )
        hers.execute(f"grant select on public.{name} to public")
        for arguments in _ARGUMENTS:
            hers.execute(
                f"create function public.{name}({arguments}) returns text language sql"
                f" as $$select public.spring('{name}()')$$"
            )
    return left


@pytest.fixture
def offered(pgflash_install: PgInstall) -> PgInstall:
    """An installation that can also create the extension's earlier versions."""
    offer_before(pgflash_install)
    return pgflash_install


def shop(cluster: ClusterFactory, install: PgInstall, version: str) -> Server:
    """Return a server with Mallory's database, in which all names are taken that are left."""
    server = create_cached(cluster, install).server
    with server.connect() as connection:
        connection.autocommit = True
        connection.execute("create role mallory login")
        connection.execute("create database shop owner mallory")
    with server.connect("shop") as connection:
        connection.execute(f"create extension pgflash schema public version '{version}'")
    with psycopg.connect(server.conninfo("shop"), user="mallory", autocommit=True) as hers:
        assert set_traps(hers), "our program asks for nothing that this version lacks"
        hers.execute("select public.spring('proof')")
    assert sprung(server.log_text()) == {"proof"}
    return server


@pytest.mark.parametrize("version", VERSIONS_BEFORE)
def test_names_that_the_extension_lacks_are_nobodys(
    cluster: ClusterFactory, offered: PgInstall, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    server = shop(cluster, offered, version)
    dsn = server.conninfo("shop")
    for command in (
        *(["cache"], ["check"], ["doctor"], ["snapshot"], ["report"], ["snapshots"]),
        *(["baseline"], ["baseline", "keep", "monday"], ["baseline", "drop", "monday"]),
        *(["fleet", "status"], ["top", "--seconds", "2", "--every", "0.2"]),
    ):
        main([*command, "--dsn", dsn])
        capsys.readouterr()
    with served(dsn) as page, page.collector.watched():
        until(lambda: page.collector.newest is not None)
        page.ask("/live/cache")
    assert sprung(server.log_text()) == {"proof"}
    with server.connect() as connection:
        assert connection.execute(
            "select rolsuper from pg_roles where rolname = 'mallory'"
        ).fetchone() == (False,)


@pytest.mark.parametrize(
    ("version", "command", "trap"),
    [
        ("0.1", ["cache"], "pgflash_cache_benefit"),
        ("0.1", ["fleet", "status"], "pgflash_cache_warmth"),
    ],
)
def test_a_command_that_takes_every_name_for_the_extensions_is_caught(
    cluster: ClusterFactory,
    offered: PgInstall,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    command: list[str],
    trap: str,
) -> None:
    """The library of another server cannot check names, and its schema is a superuser's now."""
    server = shop(cluster, offered, version)
    with server.connect() as connection:
        connection.execute("alter database shop owner to postgres")
    monkeypatch.setattr("pgflash.session._RESTRICT", "select %s::pg_catalog.text")
    monkeypatch.setattr("pgflash.session.own_names", lambda _connection: names_in_program())
    main([*command, "--dsn", server.conninfo("shop")])
    assert trap in sprung(server.log_text())
