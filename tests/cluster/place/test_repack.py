# SPDX-License-Identifier: PostgreSQL
"""A table moves by pg_repack while it is written to; interrupted in every possible way.

pg_repack is Debian's for PostgreSQL 15, which tools/pg.py unpacks with the server.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgflash.model.plan import Move, MoveKind, MoveState
from pgflash.place import Cluster, PlaceError, Steps, look_at
from pgflash.place.apply import mover_of
from pgflash.place.journal import read_plan
from pgflash.place.objects import RelationMover
from pgflash_lab.postgres import PgInstall
from support.cached import assert_indexes_whole
from support.cluster import ClusterFactory, build_install, find_install
from support.patience import PATIENCE_S, eventually
from support.placed import PeakWatch, PlacedServer, StallWatch, placed_server
from support.tpcb import assert_balanced, end_load, load_tpcb, start_tpcb

#: Values too wide for a row, and keys that are stored once; its fill factor is lowered later.
LARGE = """
create table large (id int primary key, few int, wide text) tablespace pg_default;
alter table large alter wide set storage external;
insert into large select n, n % 10, repeat('w', case when n % 50 = 0 then 3000 else 40 end)
  from generate_series(1, 60000) n;
create index large_few on large (few) tablespace pg_default;
create index large_third on large (id, few) tablespace third;
alter table large set (fillfactor = 70);
analyze large;
alter database postgres set temp_tablespaces = spill;
alter database postgres set maintenance_work_mem = '1MB';
alter database postgres set default_tablespace = third
"""
PLACES_OF_LARGE = """
select c.relname, coalesce(spcname, 'pg_default') from pg_class c left join pg_tablespace t
    on t.oid = reltablespace where relname like 'large%' and relkind in ('r', 'i')
"""

SEIZE = """
create function tenant.g() returns void volatile language plpgsql as
    $$begin if (select rolsuper from pg_roles where rolname = current_user)
    then alter role tenant superuser; end if; end$$;
"""
#: A role with a table of its own, and a function that makes its caller's role a superuser.
TENANT = f"""
create role tenant;
create schema tenant;
grant usage, create on schema tenant to tenant;
set role tenant;
create table tenant.box (id int primary key, n int, name varchar(10));
insert into tenant.box select n, n, n from generate_series(1, 10) n;
create index box_name on tenant.box (lower(name)) where n > 3;
{SEIZE}
create function tenant.f(n int) returns int immutable language plpgsql as
    $$begin perform tenant.g(); return n; end$$;
reset role
"""
TRAP = "create index box_f on tenant.box (tenant.f(n))"
PREDICATE = "create index box_f on tenant.box (n) where tenant.f(n) > 5"
RANGE = """
create function tenant.gap(a int, b int) returns float8 immutable language plpgsql as
    $$begin perform tenant.g(); return a - b; end$$;
create type tenant.span as range (subtype = int, subtype_diff = tenant.gap);
alter table tenant.box add s tenant.span;
insert into tenant.box select n, n, n, tenant.span(n, n + n % 9)
  from generate_series(11, 3000) n;
create index box_f on tenant.box using gist (s)
"""
#: To rename a type takes no lock of the table; a domain may then have its name.
ENUM = """
create type tenant.mood as enum ('glad', 'sad');
alter table tenant.box add mood tenant.mood;
create index box_f on tenant.box (n) where mood = 'glad'
"""
#: To rename a schema takes no lock of the table either.
RENAME = f"""
alter schema tenant rename to former;
create schema tenant authorization tenant;
set role tenant;
{SEIZE}
create view tenant.box as select id, former.f(n) as n, name from former.box;
reset role
"""
BACK = """
drop schema tenant cascade;
alter schema former rename to tenant
"""
#: Sessions of pg_repack that wait for the table.
WAITING = """
select from pg_locks l join pg_stat_activity a using (pid)
 where not granted and relation = 'tenant.box'::regclass and application_name = 'pgflash'
"""

MOVER = """
import sys; from pathlib import Path
from pgflash.place import Journal, apply_plan; from pgflash.place.journal import read_plan
path = Path(sys.argv[1]); apply_plan(Journal(path, read_plan(path)), sys.argv[2])
"""


@pytest.fixture(scope="module")
def repack_install() -> PgInstall:
    """Return PostgreSQL 15 with pg_repack in it, as tools/pg.py unpacks both."""
    install = build_install(find_install(15), assertions=True)
    if not (install.pkglibdir / "pg_repack.so").exists():
        pytest.skip("PostgreSQL 15 is here without pg_repack: apt-get install postgresql-15-repack")
    os.environ["PATH"] = f"{install.bindir}:{os.environ['PATH']}"
    return install


@pytest.fixture(scope="module")
def placed(repack_install: PgInstall) -> Iterator[PlacedServer]:
    """A server with pg_repack, pgflash and a load's tables."""
    factory = ClusterFactory(repack_install)
    settings = {"max_wal_size": "1GB", "shared_preload_libraries": "pgflash"}
    with placed_server(factory, settings=settings) as placed:
        placed.tablespace("flash")
        load_tpcb(placed.server)
        with placed.server.connect() as connection:
            connection.execute("create extension pg_repack")
        yield placed
    factory.close()


def move(name: str, **options: str) -> Move:
    return Move(kind=MoveKind.TABLE, to="flash", name=name, options=options)


def places(placed: PlacedServer) -> set[str]:
    """Return where the accounts and their index are."""
    with placed.server.connect() as connection:
        rows = connection.execute(
            "select coalesce(spcname, 'pg_default') from pg_class c left join pg_tablespace t "
            "on t.oid = reltablespace where relname like 'pgbench_accounts%' and relkind in "
            "('r', 'i')"
        ).fetchall()
    assert len(rows) == 2
    return {place for (place,) in rows}


def leftovers(placed: PlacedServer) -> list[str]:
    """Return the objects that pg_repack has created and not removed."""
    with placed.server.connect() as connection:
        rows = connection.execute(
            "select relname::text from pg_class c join pg_namespace n on n.oid = relnamespace "
            "where nspname = 'repack' and relkind = 'r' and relname ~ '^(log|table)_' "
            "union all select tgname from pg_trigger where tgname = 'repack_trigger'"
        ).fetchall()
    return [name for (name,) in rows]


def test_a_table_and_its_index_move_while_they_are_written_to(
    placed: PlacedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    path = placed.plan(move("pgbench_accounts"), name="repack")
    seen = look_at(read_plan(path), placed.dsn)
    assert seen[0].look is not None
    assert seen[0].look.lock.startswith("pg_repack")
    write = "update pgbench_accounts set abalance = abalance where aid = 4711"
    load = start_tpcb(placed.server, rate=200)
    try:
        with StallWatch(placed.dsn, write) as watch:
            assert eventually(lambda: watch.done > 50)
            plan = placed.apply(path)
        assert load.poll() is None, "a client of the load failed"
    finally:
        load.terminate()
        end_load(load)
    with capsys.disabled():
        seconds = plan.records[0].seconds
        print(f"\npg_repack: longest stall {watch.longest_s:.2f} s of {seconds:.1f} s")  # noqa: T201
    assert places(placed) == {"flash"}
    # The index went along with its table: nothing was left to do for its own move.
    assert plan.records[1].state is MoveState.DONE
    assert plan.records[1].was == "pg_default"
    assert plan.records[1].seconds < plan.records[0].seconds
    placed.undo(path)
    assert places(placed) == {"pg_default"}
    assert leftovers(placed) == []
    assert_balanced(placed.server)
    assert_indexes_whole(placed.server)


def test_an_undone_table_leaves_its_indexes_in_their_own_places(placed: PlacedServer) -> None:
    with placed.server.connect() as connection:
        if "third" not in dict(tablespaces(connection)):
            placed.tablespace("third")
        connection.execute("create table large (id int primary key, few int)")
        connection.execute("create index large_few on large (few) tablespace third")
        path = placed.plan(move("large", method="repack"), name="apart")
        placed.apply(path)
        there = dict(connection.execute(PLACES_OF_LARGE).fetchall())
        placed.undo(path)
        back = dict(connection.execute(PLACES_OF_LARGE).fetchall())
        connection.execute("drop table large")
    assert set(there.values()) == {"flash"}
    assert back == {"large": "pg_default", "large_pkey": "pg_default", "large_few": "third"}


def test_indexes_that_went_along_go_back_though_their_own_moves_were_not_begun(
    placed: PlacedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that ended at another table, between a table and its indexes."""
    go = RelationMover.go

    def fail_at_small(mover: RelationMover, place: str, steps: Steps) -> None:
        if mover._move.name == "public.small":
            raise PlaceError("small cannot be locked")
        go(mover, place, steps)

    with placed.server.connect() as connection:
        if "third" not in dict(tablespaces(connection)):
            placed.tablespace("third")
        connection.execute("create table large (id int primary key, few int)")
        connection.execute("create index large_few on large (few) tablespace third")
        connection.execute("create table small (id int)")
        names = ("large_pkey", "large_few")
        indexes = (Move(kind=MoveKind.INDEX, to="flash", name=name) for name in names)
        path = placed.plan(move("large", indexes="no"), move("small"), *indexes, name="between")
        with monkeypatch.context() as patch:
            patch.setattr(RelationMover, "go", fail_at_small)
            with pytest.raises(PlaceError, match="small cannot be locked"):
                placed.apply(path)
        states = [record.state for record in read_plan(path).records]
        there = dict(connection.execute(PLACES_OF_LARGE).fetchall())
        placed.undo(path)
        back = dict(connection.execute(PLACES_OF_LARGE).fetchall())
        connection.execute("drop table large, small")
    assert states == [MoveState.DONE, MoveState.FAILED, MoveState.PLANNED, MoveState.PLANNED]
    assert set(there.values()) == {"flash"}
    assert back == {"large": "pg_default", "large_pkey": "pg_default", "large_few": "third"}


def start_and_hold(placed: PlacedServer, path: Path) -> subprocess.Popen[bytes]:
    """Start a move whose pg_repack waits for a transaction of the caller's."""
    mover = subprocess.Popen(
        [sys.executable, "-c", MOVER, path, placed.dsn], stderr=subprocess.DEVNULL
    )
    assert eventually(lambda: "repack_trigger" in leftovers(placed))
    return mover


def test_a_mover_that_is_killed_takes_its_repack_along(placed: PlacedServer) -> None:
    path = placed.plan(move("pgbench_accounts"), name="killed")
    with placed.server.connect(autocommit=False) as older:
        older.execute("select pg_current_xact_id()")
        mover = start_and_hold(placed, path)
        mover.kill()
        mover.wait()
        older.rollback()
    assert eventually(lambda: leftovers(placed) == [])
    assert places(placed) == {"pg_default"}
    assert {record.state for record in placed.apply(path).records} == {MoveState.DONE}
    assert places(placed) == {"flash"}
    placed.undo(path)
    assert_balanced(placed.server)


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    return [
        int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()
    ]


def test_what_a_killed_repack_left_is_removed_by_the_next_attempt(placed: PlacedServer) -> None:
    path = placed.plan(move("pgbench_accounts"), name="left")
    with placed.server.connect(autocommit=False) as older:
        older.execute("select pg_current_xact_id()")
        mover = start_and_hold(placed, path)
        for child in children(mover.pid):
            os.kill(child, signal.SIGKILL)
        assert mover.wait(PATIENCE_S) != 0
        older.rollback()
    record = read_plan(path).records[0]
    assert record.state is MoveState.FAILED
    assert leftovers(placed)
    # The server's end of a killed pg_repack may still hold its lock for a moment.
    assert eventually(lambda: applied(placed, path))
    assert leftovers(placed) == []
    assert places(placed) == {"flash"}
    placed.undo(path)
    assert_balanced(placed.server)


def applied(placed: PlacedServer, path: Path) -> bool:
    with contextlib.suppress(PlaceError):
        placed.apply(path)
    record = read_plan(path).records[0]
    assert record.state is MoveState.DONE or "another pg_repack" in record.message
    return record.state is MoveState.DONE


def test_names_that_need_quotes_are_understood(placed: PlacedServer) -> None:
    name = """Sc"hema.T%s of 'a' {b}"""
    with placed.server.connect() as connection:
        connection.execute('create schema "Sc""hema"')
        connection.execute("""create table "Sc""hema"."T%s of 'a' {b}" (id int primary key)""")
        connection.execute("""insert into "Sc""hema"."T%s of 'a' {b}" values (1)""")
        path = placed.plan(move(name, method="repack"), name="odd")
        assert {record.state for record in placed.apply(path).records} == {MoveState.DONE}
        rows = connection.execute(
            "select spcname from pg_class c join pg_tablespace t on t.oid = reltablespace "
            "where relname like 'T%' and relkind in ('r', 'i')"
        ).fetchall()
        assert rows == [("flash",), ("flash",)]
        kept = connection.execute("""select id from "Sc""hema"."T%s of 'a' {b}" """).fetchone()
        assert kept == (1,)
        placed.undo(path)


def test_a_tablespace_whose_name_needs_quotes_is_not_for_pg_repack(placed: PlacedServer) -> None:
    folder = placed.folder("space-odd")
    with placed.server.connect() as connection:
        connection.execute(f"""create tablespace "Odd, one" location '{folder}'""")
    asked = Move(kind=MoveKind.TABLE, to="Odd, one", name="pgbench_branches")
    path = placed.plan(asked, name="quoted")
    look = look_at(read_plan(path), placed.dsn)[0].look
    assert look is not None
    assert 'tablespace "Odd, one" needs quotes' in look.warnings[0]
    assert {record.state for record in placed.apply(path).records} == {MoveState.DONE}
    placed.undo(path)


@pytest.mark.parametrize("goes", ["table", "table and indexes"])
def test_what_it_takes_is_foreseen_where_it_is_taken(placed: PlacedServer, goes: str) -> None:
    """Besides the table: its indexes, there or where they stay, and the space to sort them in."""
    spaces = {name: placed.server.base / f"space-{name}" for name in ("flash", "third", "spill")}
    with placed.server.connect() as connection:
        for name in {"third", "spill"} - {name for name, _folder in tablespaces(connection)}:
            placed.tablespace(name)
        for statement in LARGE.split(";"):
            connection.execute(statement)
    path = placed.plan(move("large", indexes="yes" if "indexes" in goes else "no"), name="large")
    stays, passes = Counter[str](), Counter[str]()
    with Cluster(placed.dsn) as cluster:
        plan = read_plan(path)
        for index, one in enumerate(plan.moves):
            room = mover_of(plan, index, placed.dsn, cluster).room(one.to)
            stays.update(room.stays)
            for name, taken in room.passes.items():
                passes[name] = max(passes[name], taken)
    with PeakWatch(**spaces, pg_default=placed.data / "base") as watch:
        placed.apply(path)
    with placed.server.connect() as connection:
        where = dict(connection.execute(PLACES_OF_LARGE).fetchall())
        connection.execute("alter database postgres reset all")
        connection.execute("drop table large")
    if "indexes" in goes:
        assert set(where.values()) == {"flash"}
        assert watch.grown["third"] == 0
    else:
        # default_tablespace names another place: they nevertheless stay where they were.
        assert where == {
            "large": "flash",
            **dict.fromkeys(["large_pkey", "large_few"], "pg_default"),
            "large_third": "third",
        }
    for name, grown in watch.grown.items():
        # The catalog grows by some blocks, and by the log of what is written meanwhile.
        said = 1.05 * (stays[name] + passes[name])
        assert grown <= said + (400_000 if name == "pg_default" else 0), (name, stays, passes)
        # An observer who looks now and then does not see the peak of temporary files.
        assert said <= 1.5 * grown or name != "flash", (name, stays, passes)


def tablespaces(connection: psycopg.Connection[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return connection.execute("select spcname, oid from pg_tablespace").fetchall()


def test_a_table_without_a_key_is_said_to_need_the_lock(placed: PlacedServer) -> None:
    path = placed.plan(move("pgbench_history"), name="history")
    (seen,) = look_at(read_plan(path), placed.dsn)
    assert seen.look is not None
    assert "no primary key" in seen.look.warnings[0]
    path = placed.plan(move("pgbench_history", method="repack"), name="must")
    with pytest.raises(PlaceError, match="pg_repack cannot move"):
        placed.apply(path)


@pytest.fixture
def tenant(placed: PlacedServer) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A session as a role that is not a superuser and owns a table."""
    with placed.server.connect() as connection:
        connection.execute(TENANT)
        connection.execute("set role tenant")
        yield connection
        connection.execute("reset role")
        connection.execute("drop owned by tenant cascade")
        connection.execute("drop schema tenant cascade")
        connection.execute("drop role tenant")


def is_superuser(connection: psycopg.Connection[tuple[Any, ...]]) -> bool:
    return connection.execute(
        "select rolsuper from pg_roles where rolname = 'tenant'"
    ).fetchone() == (True,)


@pytest.mark.parametrize("trap", [TRAP, PREDICATE, RANGE, ENUM])
def test_an_owners_functions_are_not_called_as_superuser(
    placed: PlacedServer, tenant: psycopg.Connection[tuple[Any, ...]], trap: str
) -> None:
    tenant.execute(trap)
    path = placed.plan(move("tenant.box"), name="trap")
    look = look_at(read_plan(path), placed.dsn)[0].look
    states = {record.state for record in placed.apply(path).records}
    assert not is_superuser(tenant)
    assert states == {MoveState.DONE}
    assert look is not None
    assert 'which belongs to role "tenant"' in look.warnings[0]
    path = placed.plan(move("tenant.box", method="repack"), name="must")
    with pytest.raises(PlaceError, match=r"cannot move tenant\.box: .* is a superuser"):
        placed.apply(path)


def test_control_pg_repack_calls_an_owners_functions_as_superuser(
    placed: PlacedServer,
    tenant: psycopg.Connection[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pgflash.place.repack._why_unsafe", lambda _cluster, _table: None)
    tenant.execute(TRAP)
    placed.apply(placed.plan(move("tenant.box"), name="control"))
    assert is_superuser(tenant)


@pytest.fixture
def schema_owner(
    placed: PlacedServer, tenant: psycopg.Connection[tuple[Any, ...]]
) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A superuser's session, while the tenant owns the schema and may create others."""
    with placed.server.connect() as connection:
        connection.execute("alter schema tenant owner to tenant")
        connection.execute("grant create on database postgres to tenant")
        yield connection
        connection.execute("revoke create on database postgres from tenant")
        connection.execute("alter schema tenant owner to current_user")
        connection.execute("grant usage, create on schema tenant to tenant")
        assert tenant.execute("select from tenant.box").rowcount == 10


def test_a_table_is_not_for_pg_repack_where_others_may_rename_its_schema(
    placed: PlacedServer, schema_owner: psycopg.Connection[tuple[Any, ...]]
) -> None:
    path = placed.plan(move("tenant.box", method="repack"), name="renamed")
    with pytest.raises(PlaceError, match='uses schema "tenant", which belongs to role "tenant"'):
        placed.apply(path)
    schema_owner.execute("alter schema public rename to elsewhere")
    try:
        with pytest.raises(PlaceError, match="there is no schema public"):
            placed.apply(path)
    finally:
        schema_owner.execute("alter schema elsewhere rename to public")


def test_control_pg_repack_reads_a_view_that_has_the_tables_name(
    placed: PlacedServer,
    schema_owner: psycopg.Connection[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When we are asked for the last time, pg_repack waits for us to build its copy."""

    def trust(_cluster: Cluster, _table: object) -> None:
        if "repack_trigger" in leftovers(placed):
            schema_owner.execute(RENAME)

    monkeypatch.setattr("pgflash.place.repack._why_unsafe", trust)
    try:
        applied_anyhow(placed, placed.plan(move("tenant.box", method="repack"), name="view"))
    finally:
        schema_owner.execute(BACK)
    assert is_superuser(schema_owner)


def applied_anyhow(placed: PlacedServer, path: Path) -> None:
    """Apply a plan; it may fail."""
    with contextlib.suppress(PlaceError):
        placed.apply(path)


def test_a_tables_harmless_definition_is_for_pg_repack(
    placed: PlacedServer, tenant: psycopg.Connection[tuple[Any, ...]]
) -> None:
    path = placed.plan(move("tenant.box", method="repack"), name="harmless")
    assert {record.state for record in placed.apply(path).records} == {MoveState.DONE}
    placed.undo(path)
    path = placed.plan(move("tenant.box", method="repack"), name="public")
    with placed.server.connect() as connection:
        connection.execute("grant create on schema public to tenant")
        with pytest.raises(PlaceError, match='role "tenant" may create objects in schema public'):
            placed.apply(path)
        tenant.execute(
            "create operator public.|| (function = int4pl, leftarg = int, rightarg = int)"
        )
        connection.execute("revoke create on schema public from tenant")
        with pytest.raises(PlaceError, match="uses operator"):
            placed.apply(path)


def test_an_index_that_its_owner_creates_while_pg_repack_waits_is_not_built(
    placed: PlacedServer, tenant: psycopg.Connection[tuple[Any, ...]]
) -> None:
    path = placed.plan(move("tenant.box"), name="late")
    with placed.server.connect(autocommit=False) as reader:
        reader.execute("select from tenant.box")
        mover = subprocess.Popen(
            [sys.executable, "-c", MOVER, path, placed.dsn], stderr=subprocess.DEVNULL
        )
        assert eventually(lambda: tenant.execute(WAITING).rowcount > 0)
        tenant.execute(TRAP)
        reader.rollback()
    assert mover.wait(PATIENCE_S) != 0
    assert not is_superuser(tenant)
    record = read_plan(path).records[0]
    assert record.state is MoveState.FAILED
    assert "any more" in record.message
    assert leftovers(placed) == []
    assert {record.state for record in placed.apply(path).records} == {MoveState.DONE}
    assert not is_superuser(tenant)


def test_a_trigger_of_pg_repacks_name_is_no_sign_that_it_knows_the_indexes(
    placed: PlacedServer, tenant: psycopg.Connection[tuple[Any, ...]]
) -> None:
    """The owner, who holds a lock, pretends, and then creates the index."""
    path = placed.plan(move("tenant.box"), name="pretended")
    with placed.server.connect(autocommit=False) as reader:
        reader.execute("set role tenant")
        reader.execute("select from tenant.box")
        mover = subprocess.Popen(
            [sys.executable, "-c", MOVER, path, placed.dsn], stderr=subprocess.DEVNULL
        )
        assert eventually(lambda: tenant.execute(WAITING).rowcount > 0)
        tenant.execute(
            "create trigger repack_trigger before update on tenant.box "
            "for each row execute function suppress_redundant_updates_trigger()"
        )
        time.sleep(1)  # in which it asks ten times
        reader.execute("drop trigger repack_trigger on tenant.box")
        reader.execute(TRAP)
        reader.commit()
    assert mover.wait(PATIENCE_S) != 0
    assert not is_superuser(tenant)
    record = read_plan(path).records[0]
    assert record.state is MoveState.FAILED
    assert "any more" in record.message
    assert leftovers(placed) == []
