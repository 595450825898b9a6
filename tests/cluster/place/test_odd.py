# SPDX-License-Identifier: PostgreSQL
"""Oddities of real databases: names, rights, half-made indexes, lost places."""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest
from psycopg import sql

from pgflash.model.plan import Move, MoveKind, MoveState
from pgflash.place import Cluster, Journal, PlaceError, apply_plan, look_at, undo_plan
from pgflash.place.journal import read_plan
from pgflash.place.objects import RelationMover
from pgflash.place.relations import TABLE_KINDS, find_relation
from pgflash.place.watch import watched
from pgflash.progress import Listener
from pgflash.session import SessionError
from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory, folder_in_memory
from support.patience import PATIENCE_S, eventually
from support.placed import PeakWatch, PlacedServer, placed_server


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


def test_a_role_that_is_granted_what_a_hint_says_moves_temporary_files(
    placed: PlacedServer,
) -> None:
    run(placed, 'create role "Temp User" login')
    run(placed, 'grant create on tablespace flash to "Temp User"')
    dsn = psycopg.conninfo.make_conninfo(placed.dsn, user="Temp User")
    path = placed.plan(Move(kind=MoveKind.TEMP, to="flash"), name="temp")
    (seen,) = look_at(read_plan(path), dsn)
    assert 'role "Temp User" may not change temp_tablespaces' in str(seen.refused)
    assert seen.refused is not None
    for grant in seen.refused.hint.partition("or: ")[2].rstrip(";").split("; "):
        run(placed, grant)
    apply_plan(Journal(path, read_plan(path)), dsn)
    assert read_plan(path).records[0].state is MoveState.DONE
    undo_plan(Journal(path, read_plan(path)), dsn)
    assert "temp_tablespaces" not in (placed.data / "postgresql.auto.conf").read_text()


def test_an_undone_plan_begins_again_from_where_things_are_now(placed: PlacedServer) -> None:
    placed.tablespace("other")
    run(placed, "create table again (n int)")
    path = placed.plan(table("again"), name="again")
    placed.apply(path)
    placed.undo(path)
    run(placed, "alter table again set tablespace other")
    placed.apply(path)
    assert place_of(placed, "again") == "flash"
    placed.undo(path)
    assert place_of(placed, "again") == "other"
    run(placed, "drop table again")


def test_an_index_that_cannot_become_valid_is_named_and_passed_over_when_dropped(
    placed: PlacedServer,
) -> None:
    run(placed, "create table twice (n int, m int)", "insert into twice values (1, 1), (1, 2)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        run(placed, "create unique index concurrently twice_n on twice (n)")
    run(placed, "create index twice_z on twice (m)")
    path = placed.plan(table("twice"), name="twice")
    look = look_at(read_plan(path), placed.dsn)[1].look
    assert look is not None
    assert "public.twice_n is not valid" in look.warnings[0]
    with pytest.raises(PlaceError, match="not valid before") as told:
        placed.apply(path)
    run(placed, told.value.hint.split(";")[0])
    states = [record.state for record in placed.apply(path).records]
    assert states == [MoveState.DONE, MoveState.GONE, MoveState.DONE]
    assert place_of(placed, "twice") == place_of(placed, "twice_z") == "flash"
    run(placed, "drop table twice")


@pytest.mark.parametrize("kind", [MoveKind.TABLE, MoveKind.INDEX])
def test_a_server_that_goes_down_within_a_move_is_the_reason_that_is_told(
    placed: PlacedServer, monkeypatch: pytest.MonkeyPatch, kind: MoveKind
) -> None:
    """Not that no session can connect to it then."""
    run(placed, "create table torn (n int constraint torn_pkey primary key)")
    name = "torn" if kind is MoveKind.TABLE else "torn_pkey"
    path = placed.plan(Move(kind=kind, to="flash", name=name), name="torn")
    run_statement = Cluster.run

    def open_none(_cluster: Cluster, _database: str) -> NoReturn:
        raise SessionError("could not connect")

    def end_before(
        cluster: Cluster, statement: sql.Composed, *, database: str = "", doing: str
    ) -> None:
        if doing.startswith(("move ", "rebuild ")):
            run(placed, f"select pg_terminate_backend({cluster.session().info.backend_pid}, 5000)")
            patch.setattr(Cluster, "_open", open_none)
        run_statement(cluster, statement, database=database, doing=doing)

    with monkeypatch.context() as patch:
        patch.setattr(Cluster, "run", end_before)
        with pytest.raises(PlaceError, match=r"terminating connection|closed the connection"):
            placed.apply(path)
    assert read_plan(path).records[0].state is MoveState.FAILED
    placed.apply(path)
    run(placed, "drop table torn")


def test_two_plans_for_one_index_take_turns(placed: PlacedServer) -> None:
    """Otherwise the later one drops the index that the earlier one is building."""
    run(placed, "create table turns (n int primary key)", "insert into turns values (1)")
    move = Move(kind=MoveKind.INDEX, to="flash", name="turns_pkey")
    first, later = placed.plan(move, name="first"), placed.plan(move, name="later")
    with placed.server.connect(autocommit=False) as older:
        # The new index is there, and this transaction is waited for.
        older.execute("update turns set n = n")

        movers = [Mover(placed, first)]
        assert eventually(lambda: half_made(placed) == ["turns_pkey_ccnew"])
        movers.append(Mover(placed, later))
        assert eventually(lambda: any("Another pgflash" in text for text in movers[1].said))
        assert half_made(placed) == ["turns_pkey_ccnew"]
        older.rollback()
    for mover in movers:
        mover.thread.join(PATIENCE_S)
        assert mover.said[-1].startswith(("done: ", "nothing to do: "))
    assert place_of(placed, "turns_pkey") == "flash"
    assert half_made(placed) == []
    run(placed, "drop table turns")


class Mover(Listener):
    """Applies a plan beside others, and keeps what was reported."""

    def __init__(self, placed: PlacedServer, path: Path) -> None:
        self.said = list[str]()
        journal = Journal(path, read_plan(path), self)
        self.thread = threading.Thread(target=apply_plan, args=(journal, placed.dsn), daemon=True)
        self.thread.start()

    def note(self, text: str) -> None:
        self.said.append(text)


class Heard(Listener):
    """Keeps the reported progress of a move."""

    def __init__(self) -> None:
        self.done = 0.0

    def advance(self, done: float) -> None:
        self.done = max(self.done, done)


def test_how_far_a_copy_is_follows_what_its_process_reads(placed: PlacedServer) -> None:
    run(placed, "create table read (wide text)")
    run(placed, "insert into read select repeat('x', 1000) from generate_series(1, 20000)")
    path = placed.plan(table("read"))
    heard = Heard()
    journal = Journal(path, read_plan(path), heard)
    with Cluster(placed.dsn) as cluster:
        relation = find_relation(cluster, "read", kinds=TABLE_KINDS, database="postgres")
        with watched(cluster, relation, journal.steps(0)):
            # Instead of the copy, which would end too soon.
            query = "select length(pg_read_binary_file(pg_relation_filepath('public.read')))"
            assert eventually(lambda: cluster.value(query, database="postgres") and heard.done)
    assert 0 < heard.done <= relation.bytes
    run(placed, "drop table read")


def half_made(placed: PlacedServer) -> list[str]:
    """Return the indexes that are not valid."""
    with placed.server.connect() as connection:
        rows = connection.execute(
            "select indexrelid::regclass::text from pg_index where not indisvalid"
        ).fetchall()
    return [name for (name,) in rows]


def test_a_table_of_another_schema_is_said_to_be_there(placed: PlacedServer) -> None:
    run(placed, "create schema app; create table app.stock (n int)")
    with pytest.raises(PlaceError, match="there is no table stock") as told:
        placed.plan(table("stock"), name="stock")
    assert "There is app.stock." in told.value.hint


def test_what_a_new_index_is_sorted_in_is_foreseen(placed: PlacedServer) -> None:
    """An index that stores equal keys once is much smaller than the data sorted for it."""
    placed.tablespace("spill")
    run(
        placed,
        "create table wide as select n, n % 10 few, to_tsvector('simple', 'a b c d e ' || n % 50) "
        "words from generate_series(1, 60000) n",
        "create index wide_few on wide (few)",
        "create index wide_words on wide using gin (words)",
        "create index wide_full on wide (n) with (fillfactor = 100)",
        "alter index wide_full set (fillfactor = 40)",
        "analyze wide",
        "alter database postgres set temp_tablespaces = spill",
        "alter database postgres set maintenance_work_mem = '1MB'",
    )
    base = placed.server.base
    for name in ("few", "words", "full"):
        move = Move(kind=MoveKind.INDEX, to="flash", name=f"wide_{name}")
        path = placed.plan(move, name=name)
        with Cluster(placed.dsn) as cluster:
            room = RelationMover(cluster, move).room("flash")
        with PeakWatch(flash=base / "space-flash", spill=base / "space-spill") as watch:
            placed.apply(path)
        # A spare twentieth is required in addition.
        assert watch.grown["flash"] <= 1.05 * room.stays["flash"] < 3 * watch.grown["flash"], name
        # An observer who looks now and then does not see the peak of temporary files.
        assert watch.grown["spill"] <= 1.05 * room.passes["spill"], name
        assert sum(room.passes.values()) == room.passes["spill"]
    run(placed, "alter database postgres reset all", "drop table wide")


def test_a_build_of_several_processes_is_sorted_in_files_whatever_memory_there_is(
    placed: PlacedServer,
) -> None:
    run(
        placed,
        "create table shared (n int); alter table shared set (parallel_workers = 2)",
        "insert into shared select generate_series(1, 150000)",
        "create index shared_n on shared (n)",
        "alter database postgres set maintenance_work_mem = '256MB'",
    )
    move = Move(kind=MoveKind.INDEX, to="flash", name="shared_n")
    base = placed.server.base
    before = temp_bytes(placed)
    with PeakWatch(home=placed.data / "base") as watch:
        placed.apply(placed.plan(move, name="shared"))
    run(placed, "alter index shared_n set tablespace pg_default")
    with Cluster(placed.dsn) as cluster:
        said = RelationMover(cluster, move).room(str(base / "space-flash")).passes
    assert eventually(lambda: temp_bytes(placed) > before + 1_000_000)
    assert watch.grown["home"] <= 1.05 * said["pg_default"]
    run(placed, "alter database postgres set max_parallel_maintenance_workers = 0")
    with Cluster(placed.dsn) as cluster:
        assert not any(RelationMover(cluster, move).room("flash").passes.values())
    run(placed, "alter database postgres reset all", "drop table shared")


def temp_bytes(placed: PlacedServer) -> int:
    """Return how much has been written to temporary files, as far as it was counted."""
    with placed.server.connect() as connection:
        row = connection.execute(
            "select temp_bytes from pg_stat_database where datname = 'postgres'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_what_came_from_a_tablespace_that_is_no_more_says_how_to_go_back(
    placed: PlacedServer,
) -> None:
    placed.tablespace("former")
    run(placed, "create table first (n int)", "create table other (n int) tablespace former")
    path = placed.plan(table("first"), table("other"), name="lost")
    placed.apply(path)
    run(placed, "drop tablespace former")
    expected = 'was in tablespace "former", which no longer exists'
    with pytest.raises(PlaceError, match=expected) as told:
        placed.undo(path)
    assert place_of(placed, "first") == "flash"
    folder = placed.folder("space-former")
    run(placed, told.value.hint.split(";")[0].replace("...", str(folder)))
    placed.undo(path)
    assert place_of(placed, "first") == "pg_default"
    assert place_of(placed, "other") == "former"


def test_nothing_that_must_last_goes_to_memory(pg_install: PgInstall) -> None:
    memory = folder_in_memory()
    if memory is None:
        pytest.skip("memory has no room for a folder (/dev/shm)")
    factory = ClusterFactory(pg_install)
    settings = {"archive_mode": "on", "archive_command": "true"}
    with (
        tempfile.TemporaryDirectory(prefix="pgflash-test-", dir=memory) as above,
        placed_server(factory, on_disk=True, settings=settings) as placed,
    ):
        Path(above).chmod(0o755)
        archive = make_server_dir(placed.server.base / "archive")
        folder = str(make_server_dir(Path(above) / "flash"))
        run(
            placed,
            "create database other",
            "create table kept (n int)",
            f"create tablespace lost location '{folder}'",
            f"alter system set archive_command = 'cp %p {archive}/%f'",
            "select pg_reload_conf()",
        )
        new = str(Path(above) / "new")
        moves = (
            Move(kind=MoveKind.WAL, to=new),
            Move(kind=MoveKind.ARCHIVE, to=new),
            table("kept", new),
            table("kept", "lost"),
            Move(kind=MoveKind.DATABASE, to="lost", name="other", options={"offline": "yes"}),
        )
        for number, move in enumerate(moves):
            (seen,) = look_at(read_plan(placed.plan(move, name=f"lost-{number}")), placed.dsn)
            assert " is memory)" in str(seen.refused), move
        assert not Path(new).exists()
        # Temporary files may be lost.
        temp = Move(kind=MoveKind.TEMP, to="lost")
        (seen,) = look_at(read_plan(placed.plan(temp, name="temp")), placed.dsn)
        assert seen.refused is None
    factory.close()
