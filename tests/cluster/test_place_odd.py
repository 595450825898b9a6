"""What a database has that is not as in the book: names, rights, half-made indexes, lost places."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from pgflash.lab.postgres import PgInstall
from pgflash.model.plan import Move, MoveKind, MoveState, read_plan
from pgflash.place import Journal, PlaceError, apply_plan, look_at
from support.cluster import ClusterFactory
from support.placed import PlacedServer, placed_server


@pytest.fixture(scope="module")
def placed(pg_install: PgInstall) -> Iterator[PlacedServer]:
    """One server with a tablespace; each test makes what it moves."""
    factory = ClusterFactory(pg_install)
    with placed_server(factory) as placed:
        placed.tablespace("flash")
        yield placed
    factory.close()


def table(name: str, to: str = "flash") -> Move:
    return Move(kind=MoveKind.TABLE, to=to, name=name)


def run(placed: PlacedServer, *statements: str) -> None:
    with placed.server.connect() as connection:
        for statement in statements:
            connection.execute(statement)


def place_of(placed: PlacedServer, relation: str) -> str:
    """Return the tablespace of a relation, named as SQL names it."""
    with placed.server.connect() as connection:
        row = connection.execute(
            "select coalesce(spcname, 'pg_default') from pg_class c left join pg_tablespace t "
            "on t.oid = reltablespace where c.oid = %s::regclass",
            (relation,),
        ).fetchone()
    assert row is not None
    return str(row[0])


def test_dots_in_names_confuse_no_tables(placed: PlacedServer) -> None:
    run(
        placed,
        'create schema "a.b"; create schema a',
        'create table "a.b".c (id int primary key)',
        'create table a."b.c" (id int primary key)',
    )
    path = placed.plan(table('"a.b".c'), name="dots")
    placed.apply(path)
    assert place_of(placed, '"a.b".c') == place_of(placed, '"a.b".c_pkey') == "flash"
    assert place_of(placed, 'a."b.c"') == place_of(placed, 'a."b.c_pkey"') == "pg_default"
    placed.undo(path)
    assert place_of(placed, '"a.b".c') == place_of(placed, '"a.b".c_pkey') == "pg_default"


def test_a_folder_of_a_long_name_becomes_a_tablespace(placed: PlacedServer) -> None:
    run(placed, "create table long (n int)")
    path = placed.plan(table("long", str(placed.server.base / ("very-" * 16))), name="long")
    assert placed.apply(path).records[0].state is MoveState.DONE
    placed.undo(path)


def test_a_server_that_is_read_only_by_default_is_written_to_as_asked(
    placed: PlacedServer,
) -> None:
    run(placed, "create table frozen (n int)")
    run(placed, "alter database postgres set default_transaction_read_only = on")
    path = placed.plan(table("frozen"), name="frozen")
    assert placed.apply(path).records[0].state is MoveState.DONE
    placed.undo(path)
    run(
        placed,
        "set default_transaction_read_only = off",
        "alter database postgres reset default_transaction_read_only",
    )


def test_a_role_without_rights_may_bring_its_table_home_and_is_told_what_to_ask_for(
    placed: PlacedServer,
) -> None:
    run(
        placed,
        'create role "Data Owner" login; create role "Some One" login',
        "create table own (n int) tablespace flash",
        'alter table own owner to "Data Owner"',
    )
    dsn = psycopg.conninfo.make_conninfo(placed.dsn, user="Data Owner")
    path = placed.plan(table("own", "pg_default"), name="home")
    apply_plan(Journal(path, read_plan(path)), dsn, room_is_there=True)
    assert place_of(placed, "own") == "pg_default"
    back = placed.plan(table("own"), name="away")
    (seen,) = look_at(read_plan(back), dsn)
    assert seen.refused is not None
    run(placed, seen.refused.hint)
    (seen,) = look_at(read_plan(back), dsn)
    assert seen.refused is None
    dsn = psycopg.conninfo.make_conninfo(placed.dsn, user="Some One")
    (seen,) = look_at(read_plan(back), dsn)
    assert 'belongs to role "Data Owner"' in str(seen.refused)
    assert seen.refused is not None
    run(placed, seen.refused.hint.partition(", or ")[2])
    assert look_at(read_plan(back), dsn)[0].refused is None


def test_what_came_from_a_tablespace_that_is_no_more_says_how_to_go_back(
    placed: PlacedServer,
) -> None:
    placed.tablespace("former")
    run(placed, "create table first (n int)", "create table other (n int) tablespace former")
    path = placed.plan(table("first"), table("other"), name="lost")
    placed.apply(path)
    run(placed, "drop tablespace former")
    with pytest.raises(PlaceError, match='was in tablespace "former", which is no more') as told:
        placed.undo(path)
    assert place_of(placed, "first") == "flash"
    folder = placed.folder("space-former")
    run(placed, told.value.hint.split(";")[0].replace("...", str(folder)))
    placed.undo(path)
    assert place_of(placed, "first") == "pg_default"
    assert place_of(placed, "other") == "former"
