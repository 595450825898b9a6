# SPDX-License-Identifier: PostgreSQL
"""Tables, indexes and databases move to another tablespace: under load, interrupted, undone."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from pgflash.errors import PgflashError
from pgflash.model.plan import Move, MoveKind, MoveState, PlanError, Record
from pgflash.place import (
    Cluster,
    Journal,
    PlaceError,
    Steps,
    apply_plan,
    files,
    look_at,
    moves_for,
    undo_plan,
)
from pgflash.place.journal import read_plan, write_plan
from pgflash.place.objects import RelationMover
from pgflash_lab.postgres import PgInstall
from support.cached import assert_indexes_whole
from support.cluster import ClusterFactory
from support.patience import eventually
from support.placed import PlacedServer, StallWatch, cut_off, placed_server
from support.tpcb import assert_balanced, end_load, load_tpcb, start_tpcb

SHAPES = """
create schema s;
create table s.part (id int primary key, v text) partition by range (id);
create table s.part_1 partition of s.part for values from (0) to (100);
create table s.part_2 partition of s.part for values from (100) to (200);
insert into s.part select n, repeat('x', 100) from generate_series(0, 199) n;
create table s."Odd name" (id int primary key, wide text);
alter table s."Odd name" alter wide set storage external;
insert into s."Odd name" select n, repeat('y', 5000) from generate_series(1, 50) n;
create materialized view s.seen as select id from s.part;
create unique index seen_id on s.seen (id);
create table s.ranges (during int4range, exclude using gist (during with &&));
insert into s.ranges select int4range(n, n + 1) from generate_series(1, 100) n;
create unlogged table s.unlogged (n int);
create schema "Sc""hema";
create table "Sc""hema"."T%s of 'a' {b}" (id int primary key);
insert into "Sc""hema"."T%s of 'a' {b}" select generate_series(1, 30);
create index "In""dex %" on "Sc""hema"."T%s of 'a' {b}" (id);
"""


@pytest.fixture(scope="module")
def placed(pg_install: PgInstall) -> Iterator[PlacedServer]:
    """One server with a tablespace; each test makes what it moves."""
    factory = ClusterFactory(pg_install)
    settings = {"max_wal_size": "1GB", "max_prepared_transactions": "2", "wal_level": "logical"}
    with placed_server(factory, settings=settings) as placed:
        placed.tablespace("flash")
        with placed.server.connect() as connection:
            connection.execute(SHAPES)
        load_tpcb(placed.server)
        yield placed
    factory.close()


def table(name: str, **options: str) -> Move:
    return Move(kind=MoveKind.TABLE, to="flash", name=name, options=options)


def index(name: str) -> Move:
    return Move(kind=MoveKind.INDEX, to="flash", name=name)


def places(placed: PlacedServer, like: str, database: str = "postgres") -> dict[str, str]:
    """Return the tablespaces of relations with such names, TOAST and its index included."""
    with placed.server.connect(database) as connection:
        rows = connection.execute(
            "select c.relname, coalesce(t.spcname, 'pg_default') from pg_class c "
            "left join pg_tablespace t on t.oid = c.reltablespace "
            "where c.relname like %s and c.relkind in ('r', 'm', 'p', 'i', 'I')",
            (like,),
        ).fetchall()
    return dict(rows)


def invalid_indexes(placed: PlacedServer) -> list[str]:
    with placed.server.connect() as connection:
        rows = connection.execute(
            "select indexrelid::regclass::text from pg_index where not indisvalid"
        ).fetchall()
    return [name for (name,) in rows]


@contextlib.contextmanager
def load(placed: PlacedServer) -> Iterator[subprocess.Popen[str]]:
    """Run TPC-B, and fail if it ended by itself."""
    running = start_tpcb(placed.server, rate=200)
    try:
        yield running
        assert running.poll() is None, "a client of the load failed"
    finally:
        running.terminate()
        end_load(running)


def test_a_subscriber_is_no_standby_that_a_new_tablespace_would_stop(placed: PlacedServer) -> None:
    goal = Move(kind=MoveKind.INDEX, to=str(placed.server.base / "made"), name="s.seen_id")
    path = placed.plan(goal, name="subscribed")
    words = ["pg_recvlogical", "--slot=reader", "--start", "--file=/dev/null", "--option"]
    words += ["proto_version=1", "--option=publication_names=nothing", f"--dbname={placed.dsn}"]
    with placed.server.connect() as connection:
        connection.execute("create publication nothing")
        connection.execute("select pg_create_logical_replication_slot('reader', 'pgoutput')")
        reader = placed.server.popen(words)
        streams = "select from pg_stat_replication where state = 'streaming'"
        try:
            assert eventually(lambda: connection.execute(streams).rowcount == 1)
            (seen,) = look_at(read_plan(path), placed.dsn)
        finally:
            reader.terminate()
            reader.wait()
        idle = "select from pg_replication_slots where active"
        assert eventually(lambda: connection.execute(idle).rowcount == 0)
        connection.execute("select pg_drop_replication_slot('reader')")
    assert seen.refused is None


def test_a_table_moves_with_its_indexes_under_load(
    placed: PlacedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    look_up = "select abalance from pgbench_accounts where aid = 4711"
    path = placed.plan(table("pgbench_accounts", method="alter"), name="accounts")
    with load(placed), StallWatch(placed.dsn, look_up) as watch:
        assert eventually(lambda: watch.done > 50)
        plan = placed.apply(path)
    assert [record.state for record in plan.records] == [MoveState.DONE, MoveState.DONE]
    assert set(places(placed, "pgbench_accounts%").values()) == {"flash"}
    seconds = plan.records[0].seconds
    with capsys.disabled():
        print(  # noqa: T201
            f"\ntable of 13 MB, ALTER: longest stall {watch.longest_s:.2f} s of {seconds:.1f} s"
        )
    placed.undo(path)
    assert set(places(placed, "pgbench_accounts%").values()) == {"pg_default"}
    assert_balanced(placed.server)
    assert_indexes_whole(placed.server)


def test_an_index_moves_and_nobody_waits(
    placed: PlacedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    path = placed.plan(index("public.pgbench_accounts_pkey"), name="pkey")
    write = "update pgbench_accounts set abalance = abalance where aid = 4711"
    with StallWatch(placed.dsn, write) as watch:
        assert eventually(lambda: watch.done > 50)
        plan = placed.apply(path)
    assert places(placed, "pgbench_accounts_pkey") == {"pgbench_accounts_pkey": "flash"}
    with capsys.disabled():
        print(  # noqa: T201
            f"\nindex, REINDEX CONCURRENTLY: longest stall {watch.longest_s * 1000:.0f} ms "
            f"of {plan.records[0].seconds:.1f} s"
        )
    placed.undo(path)
    assert_indexes_whole(placed.server)


def test_all_shapes_of_relations_move_and_come_back(placed: PlacedServer) -> None:
    asked = [table("s.part"), table("s.Odd name"), table("s.seen"), table("s.ranges")]
    quoted = table("""Sc"hema.T%s of 'a' {b}""")
    path = placed.plan(*asked, table("s.unlogged"), quoted, name="shapes")
    toast = "select reltoastrelid::regclass::text from pg_class where relname = 'Odd name'"
    with placed.server.connect() as connection:
        (toast_name,) = connection.execute(toast).fetchone() or ("",)
    toast_like = f"{toast_name.removeprefix('pg_toast.')}%"
    before = {**places(placed, "part%"), **places(placed, "Odd%"), **places(placed, "seen%")}
    placed.apply(path)
    for like in ("part%", "Odd%", "seen%", "ranges%", "unlogged", "T%", 'In"dex %', toast_like):
        found = places(placed, like)
        assert found
        assert set(found.values()) == {"flash"}, found
    with placed.server.connect() as connection:
        counts = connection.execute(
            'select (select count(*) from s.part), (select sum(length(wide)) from s."Odd name"), '
            "(select count(*) from s.seen), (select count(*) from s.ranges), "
            """(select count(*) from "Sc""hema"."T%s of 'a' {b}")"""
        ).fetchone()
    assert counts == (200, 250_000, 200, 100, 30)
    placed.undo(path)
    after = {**places(placed, "part%"), **places(placed, "Odd%"), **places(placed, "seen%")}
    assert after == before
    assert set(places(placed, toast_like).values()) == {"pg_default"}
    assert_indexes_whole(placed.server)


def test_what_is_there_already_is_not_touched(placed: PlacedServer) -> None:
    path = placed.plan(index("s.seen_id"), name="there")
    placed.apply(path)
    with placed.server.connect() as connection:
        node = "select relfilenode from pg_class where relname = 'seen_id'"
        before = connection.execute(node).fetchone()
        again = placed.plan(index("s.seen_id"), name="again")
        assert placed.apply(again).records[0].was == "flash"
        assert connection.execute(node).fetchone() == before
    placed.undo(again)
    assert places(placed, "seen_id") == {"seen_id": "flash"}
    placed.undo(path)
    assert places(placed, "seen_id") == {"seen_id": "pg_default"}


def test_a_lock_that_is_held_delays_others_only_for_moments(
    placed: PlacedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    path = placed.plan(table("pgbench_tellers", indexes="no", lock_timeout_ms="200"), name="held")
    look_up = "select tbalance from pgbench_tellers where tid = 1"
    with placed.server.connect(autocommit=False) as holder:
        holder.execute("select from pgbench_tellers limit 1")
        with StallWatch(placed.dsn, look_up) as watch, ThreadPoolExecutor(1) as pool:
            others = pool.submit(others_get_on, placed, watch, holder)
            plan = placed.apply(path)
    assert plan.records[0].state is MoveState.DONE
    # Queueing behind a session that waits all the time would have held them until it had the lock.
    assert others.result()
    with capsys.disabled():
        print(f"\nlock held: longest stall {watch.longest_s:.2f} s")  # noqa: T201
    placed.undo(path)


def others_get_on(placed: PlacedServer, watch: StallWatch, holder: psycopg.Connection[Any]) -> bool:
    """Release the lock once others have continued while it was waited for; say whether they did."""
    waits = "select from pg_locks where not granted and mode = 'AccessExclusiveLock'"
    try:
        with placed.server.connect() as connection:
            for _ in range(2):
                if not eventually(lambda: connection.execute(waits).rowcount):
                    return False
                done = watch.done
                if not eventually(lambda: watch.done > done + 20):  # noqa: B023
                    return False
        return True
    finally:
        holder.rollback()


def test_a_lock_that_is_never_to_be_had_is_given_up(placed: PlacedServer) -> None:
    path = placed.plan(
        table("pgbench_tellers", indexes="no", lock_timeout_ms="100", patience_s="0.2"),
        name="never",
    )
    with placed.server.connect(autocommit=False) as holder:
        holder.execute("select from pgbench_tellers limit 1")
        with pytest.raises(PlaceError, match=f"by process {holder.info.backend_pid}"):
            placed.apply(path)
    record = read_plan(path).records[0]
    assert record.state is MoveState.FAILED
    assert "could not be locked" in record.message
    assert places(placed, "pgbench_tellers") == {"pgbench_tellers": "pg_default"}
    assert placed.apply(path).records[0].state is MoveState.DONE
    placed.undo(path)


def test_a_prepared_transaction_in_the_way_is_named(placed: PlacedServer) -> None:
    path = placed.plan(index("public.pgbench_tellers_pkey"), name="prepared")
    with placed.server.connect(autocommit=False) as connection:
        connection.execute("update pgbench_tellers set tbalance = tbalance where tid = 1")
        connection.execute("prepare transaction 'in the way'")
    with pytest.raises(PlaceError, match='"in the way" holds a lock'):
        placed.apply(path)
    with placed.server.connect() as connection:
        connection.execute("rollback prepared 'in the way'")
    placed.apply(path)
    placed.undo(path)


def test_an_index_gives_up_behind_a_transaction_that_does_not_end(placed: PlacedServer) -> None:
    asked = replace(index("public.pgbench_tellers_pkey"), options={"patience_s": "0.3"})
    path = placed.plan(asked, name="old")
    with placed.server.connect(autocommit=False) as older:
        older.execute("update pgbench_tellers set tbalance = tbalance where tid = 1")
        with pytest.raises(PlaceError, match="lock timeout"):
            placed.apply(path)
        older.rollback()
    assert read_plan(path).records[0].state is MoveState.FAILED
    placed.apply(path)
    assert invalid_indexes(placed) == []
    placed.undo(path)
    assert places(placed, "pgbench_tellers_pkey%") == {"pgbench_tellers_pkey": "pg_default"}


def test_every_cut_of_a_table_and_its_index_is_gone_on_with(placed: PlacedServer) -> None:
    path = placed.plan(table("pgbench_branches", method="alter"), name="cut")
    steps = cut_off(apply_plan, path, placed.dsn, None)
    assert steps is not None
    moved, built = "move public.pgbench_branches", "rebuild public.pgbench_branches_pkey"
    assert steps == [
        ("copy under a lock", 1),
        *((f"before: {moved}", 1), (f"after: {moved}", 1)),
        ("build it again", 1),
        *((f"before: {built}", 1), (f"after: {built}", 1)),
    ]
    placed.undo(path)
    for place in steps:
        assert cut_off(apply_plan, path, placed.dsn, place) is None
        assert MoveState.DOING in {record.state for record in read_plan(path).records}
        plan = placed.apply(path)
        assert {record.state for record in plan.records} == {MoveState.DONE}
        assert {record.was for record in plan.records} == {"pg_default"}
        assert cut_off(undo_plan, path, placed.dsn, place) is None
        placed.undo(path)
        assert set(places(placed, "pgbench_branches%").values()) == {"pg_default"}
    assert_balanced(placed.server)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_mover_stopped_within_a_statement_leaves_no_lock_and_no_rest(
    placed: PlacedServer, number: signal.Signals
) -> None:
    path = placed.plan(index("public.pgbench_accounts_pkey"), name=f"within-{number}")
    with placed.server.connect(autocommit=False) as older:
        # REINDEX CONCURRENTLY has built its copy and waits for this transaction.
        older.execute("select from pgbench_accounts limit 1")
        older.execute("select pg_current_xact_id()")
        mover = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(path), placed.dsn], stderr=subprocess.DEVNULL
        )
        assert eventually(lambda: bool(invalid_indexes(placed)))
        mover.send_signal(number)
        mover.wait()
        # The server notices that its client is gone, although the statement only waits.
        assert eventually(lambda: not building(placed))
        left = invalid_indexes(placed)
    assert left
    assert all(name.startswith("pgbench_accounts_pkey_cc") for name in left)
    assert read_plan(path).records[0].state is MoveState.DOING
    if number is signal.SIGKILL:
        placed.apply(path)
        assert places(placed, "pgbench_accounts_pkey%") == {"pgbench_accounts_pkey": "flash"}
    # Going back instead of on leaves nothing behind, either.
    placed.undo(path)
    assert invalid_indexes(placed) == []
    assert places(placed, "pgbench_accounts_pkey%") == {"pgbench_accounts_pkey": "pg_default"}
    assert_indexes_whole(placed.server)


DRIVER = """
import sys; from pathlib import Path
from pgflash.place import Journal, apply_plan; from pgflash.place.journal import read_plan
path = Path(sys.argv[1]); apply_plan(Journal(path, read_plan(path)), sys.argv[2])
"""


def building(placed: PlacedServer) -> bool:
    with placed.server.connect() as connection:
        row = connection.execute("select count(*) from pg_stat_progress_create_index").fetchone()
    return row != (0,)


def test_a_valid_index_of_a_like_name_is_left_alone(placed: PlacedServer) -> None:
    with placed.server.connect() as connection:
        connection.execute("create table likely (n int)")
        connection.execute("create index likely_n on likely (n)")
        connection.execute("create index likely_n_ccnew on likely (n)")
    path = placed.plan(index("likely_n"), name="likely")
    placed.apply(path)
    assert places(placed, "likely_n%") == {"likely_n": "flash", "likely_n_ccnew": "pg_default"}
    placed.undo(path)


def test_a_database_moves_object_by_object_under_load_and_is_gone_on_with_when_cut_off(
    placed: PlacedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Move(kind=MoveKind.DATABASE, to="flash", name="postgres", options={"method": "alter"})
    path = placed.plan(asked, name="in-use")
    write = "update pgbench_accounts set abalance = abalance where aid = 4711"
    # The load creates and drops tables all the time: one that a plan has seen may be gone.
    with load(placed), StallWatch(placed.dsn, write) as watch:
        assert eventually(lambda: watch.done > 30)
        cut_at = ("before: move public.pgbench_tellers", 1)
        assert cut_off(apply_plan, path, placed.dsn, cut_at) is None
        assert len(read_plan(path).records) > 10
        assert places(placed, "pgbench_accounts")["pgbench_accounts"] == "flash"
        plan = placed.apply(path)
    states = {
        move.name: record.state for move, record in zip(plan.moves, plan.records, strict=True)
    }
    lasting = {name: state for name, state in states.items() if "scratch" not in name}
    assert set(lasting.values()) == {MoveState.DONE}
    assert set(states.values()) <= {MoveState.DONE, MoveState.GONE}
    assert set(places(placed, "pgbench%").values()) == {"flash"}
    with capsys.disabled():
        longest = max(record.seconds for record in plan.records)
        print(  # noqa: T201
            f"\ndatabase of {len(plan.moves)} objects: longest stall {watch.longest_s:.2f} s, "
            f"longest move {longest:.2f} s"
        )
    placed.undo(path)
    assert set(places(placed, "pgbench%").values()) == {"pg_default"}
    assert set(places(placed, "seen%").values()) == {"pg_default"}
    assert_balanced(placed.server)
    assert_indexes_whole(placed.server)


def test_what_is_dropped_meanwhile_is_passed_over_and_what_is_made_again_is_moved(
    placed: PlacedServer,
) -> None:
    with placed.server.connect() as connection:
        connection.execute("create table g1 (n int); create table g2 (n int primary key)")
        connection.execute("create table g3 (n int)")
        path = placed.plan(table("g1"), table("g2"), table("g3"), name="gone")
        placed.apply(path)
        connection.execute("drop table g2")

        def states() -> list[str]:
            return [record.state.value for record in read_plan(path).records]

        placed.undo(path)
        assert states() == ["undone", "gone", "gone", "undone"]
        assert [one.is_gone for one in look_at(read_plan(path), placed.dsn)] == [
            *(False, True, True, False)
        ]
        connection.execute("create table g2 (n int primary key)")
        placed.apply(path)
        assert states() == ["done"] * 4
        assert set(places(placed, "g_%").values()) == {"flash"}
        connection.execute("drop table g1")
        placed.apply(path)
        assert states() == ["done"] * 4
        placed.undo(path)
        assert states() == ["gone", "undone", "undone", "undone"]
        connection.execute("drop table g2, g3")


def test_a_database_in_a_plan_becomes_its_objects_when_it_is_applied(placed: PlacedServer) -> None:
    with placed.server.connect() as connection:
        connection.execute("create database later")
    path = placed.plan(index("s.seen_id"), name="later")
    plan = replace(
        read_plan(path),
        moves=(Move(kind=MoveKind.DATABASE, to="flash", name="later"),),
        records=(Record(),),
    )
    with placed.server.connect("later") as used:
        # It was not there when the plan was made.
        used.execute("create table late (n int)")
        write_plan(path, plan)
        applied = placed.apply(path)
        assert [move.name for move in applied.moves] == ["public.late"]
        assert places(placed, "late", "later") == {"late": "flash"}
        placed.undo(path)
        assert places(placed, "late", "later") == {"late": "pg_default"}


def test_a_database_moves_at_once_when_nobody_uses_it_and_whatever_is_cut_off(
    placed: PlacedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with placed.server.connect() as connection:
        connection.execute("create database whole")
    with placed.server.connect("whole") as own:
        own.execute("create table kept as select generate_series(1, 1000) n")
    asked = Move(kind=MoveKind.DATABASE, to="flash", name="whole", options={"offline": "yes"})
    path = placed.plan(asked, name="whole")
    tablespace = (
        "select spcname from pg_database d join pg_tablespace t on t.oid = dattablespace "
        "where datname = 'whole'"
    )

    def is_in(name: str) -> bool:
        with placed.server.connect("whole") as own:
            assert own.execute("select count(*) from kept").fetchone() == (1000,)
        with placed.server.connect() as connection:
            sessions = "select from pg_stat_activity where datname = 'whole'"
            assert eventually(lambda: not connection.execute(sessions).fetchall())
            return connection.execute(tablespace).fetchone() == (name,)

    with placed.server.connect("whole"), pytest.raises(PlaceError, match="is in use"):
        placed.apply(path)
    assert is_in("pg_default")
    write = "update pgbench_branches set filler = 'z'"
    with load(placed), StallWatch(placed.dsn, write) as watch:
        steps = cut_off(apply_plan, path, placed.dsn, None)
        assert is_in("flash")
        placed.undo(path)
        assert is_in("pg_default")
    with capsys.disabled():
        print(  # noqa: T201
            f"\ndatabase at once: longest stall of another one {watch.longest_s:.2f} s"
        )
    assert steps is not None
    said = "move database whole"
    assert [step for step, _times in steps] == [
        *("copy the database", f"before: {said}", f"after: {said}")
    ]
    for place in steps:
        assert cut_off(apply_plan, path, placed.dsn, place) is None
        assert is_in("flash" if place[0].startswith("after") else "pg_default")
        assert placed.apply(path).records[0].state is MoveState.DONE
        assert is_in("flash")
        assert cut_off(undo_plan, path, placed.dsn, place) is None
        placed.undo(path)
        assert is_in("pg_default")


def test_a_folder_becomes_a_tablespace_and_the_same_one_again(placed: PlacedServer) -> None:
    folder = placed.server.base / "new-space"
    asked = Move(kind=MoveKind.INDEX, to=str(folder), name="s.seen_id")
    placed.apply(placed.plan(asked, name="folder"))
    assert places(placed, "seen_id") == {"seen_id": "new_space"}
    assert placed.apply(placed.plan(asked, name="folder2")).records[0].was == "new_space"
    placed.undo(placed.plans / "folder.json")


def test_a_cut_while_a_tablespace_is_made_leaves_one_that_is_found_again(
    placed: PlacedServer,
) -> None:
    folder = placed.server.base / "cut-space"
    asked = Move(kind=MoveKind.INDEX, to=str(folder), name="s.seen_id")
    path = placed.plan(asked, name="cut-space")
    said = f"make a tablespace in {folder}"
    for place in (f"before: {said}", f"after: {said}"):
        assert cut_off(apply_plan, path, placed.dsn, (place, 1)) is None
        assert places(placed, "seen_id") == {"seen_id": "pg_default"}
    placed.apply(path)
    assert places(placed, "seen_id") == {"seen_id": "cut_space"}
    with placed.server.connect() as connection:
        row = connection.execute(
            "select count(*) from pg_tablespace where spcname like 'cut_space%'"
        ).fetchone()
    assert row == (1,)
    placed.undo(path)


def test_a_table_that_is_made_again_while_it_is_its_turn_is_moved(
    placed: PlacedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, made = RelationMover._go, list[int]()
    with placed.server.connect() as connection:
        connection.execute("create table again (n int)")
        path = placed.plan(table("again"), name="again-made")

        def made_again(mover: RelationMover, place: str, steps: Steps) -> None:
            if not made:
                made.append(1)
                connection.execute("drop table again")
                connection.execute("create table again (n int)")
                raise PlaceError("could not open relation with OID 4711")
            go(mover, place, steps)

        monkeypatch.setattr(RelationMover, "_go", made_again)
        assert placed.apply(path).records[0].state is MoveState.DONE
        assert places(placed, "again") == {"again": "flash"}
        connection.execute("drop table again")


def test_a_table_that_is_made_again_all_the_time_is_passed_over_until_it_lasts(
    placed: PlacedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with placed.server.connect() as connection:
        connection.execute("create table restless (n int); create table calm (n int)")
        path = placed.plan(table("restless"), table("calm"), name="restless")
        go = RelationMover._go

        def made_again(mover: RelationMover, place: str, steps: Steps) -> None:
            if "restless" in mover._move.name:
                connection.execute("drop table restless")
                connection.execute("create table restless (n int)")
                raise PlaceError("restless is still in pg_default")
            go(mover, place, steps)

        with monkeypatch.context() as patch:
            patch.setattr(RelationMover, "_go", made_again)
            states = [record.state for record in placed.apply(path).records]
        assert states == [MoveState.GONE, MoveState.DONE]
        states = [record.state for record in placed.apply(path).records]
        assert states == [MoveState.DONE, MoveState.DONE]
        assert places(placed, "restless") == {"restless": "flash"}
        connection.execute("drop table restless, calm")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (table("nothing"), "there is no table nothing"),
        (index("pgbench_accounts"), "there is no index pgbench_accounts"),
        (table("pg_catalog.pg_class"), "belongs to PostgreSQL"),
        (table("information_schema.sql_features"), "belongs to PostgreSQL"),
        (index("pg_catalog.pg_class_oid_index"), "belongs to PostgreSQL"),
        (index("pg_toast.pg_toast_2619_index"), "belongs to PostgreSQL"),
        (table("pg_toast.pg_toast_2619"), "there is no table"),
        (table("pgbench_tellers", methd="alter"), 'option "methd"'),
        (Move(kind=MoveKind.TABLE, to="no", name="pgbench_tellers"), 'no tablespace "no"'),
        (Move(kind=MoveKind.TABLE, to="pg_global", name="pgbench_tellers"), "pg_global"),
        (Move(kind=MoveKind.TABLE, to="/nowhere/there", name="pgbench_tellers"), "no folder"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_done(
    placed: PlacedServer, asked: Move, message: str
) -> None:
    with pytest.raises(PgflashError, match=message):
        placed.apply(placed.plan(asked, name="refused"))


def test_a_temporary_table_is_refused(placed: PlacedServer) -> None:
    with placed.server.connect() as own:
        own.execute("create temp table mine_only (n int)")
        row = own.execute(
            "select nspname || '.mine_only' from pg_namespace where oid = pg_my_temp_schema()"
        ).fetchone()
        assert row is not None
        with pytest.raises(PlaceError, match="a temporary relation of some session"):
            placed.apply(placed.plan(table(str(row[0])), name="temporary"))


def test_a_tablespace_inside_the_data_directory_is_refused(placed: PlacedServer) -> None:
    inside = Move(kind=MoveKind.TABLE, to=str(placed.data / "inside"), name="pgbench_tellers")
    with pytest.raises(PlaceError, match="inside the data directory"):
        placed.apply(placed.plan(inside, name="inside"))
    assert not (placed.data / "inside").exists()


def test_what_does_not_fit_is_refused_before_anything_is_done(
    placed: PlacedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = placed.plan(table("pgbench_accounts"), name="room")
    monkeypatch.setattr("pgflash.place.files.free_bytes", lambda _path: 70 << 20)
    with pytest.raises(PlaceError, match="are free"):
        placed.apply(path)
    assert set(places(placed, "pgbench_accounts%").values()) == {"pg_default"}
    assert {record.state for record in read_plan(path).records} == {MoveState.PLANNED}


def test_what_fits_one_by_one_and_not_together_is_refused(
    placed: PlacedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WAL that fills its device up ends the server: it needs max_wal_size beside the table."""
    wal = Move(kind=MoveKind.WAL, to=str(placed.server.base / "space-flash-wal"))
    whole, spare = 1 << 30, 64 << 20
    monkeypatch.setattr(
        "pgflash.place.files.free_bytes", lambda _path: round(whole * 1.05) + spare + (4 << 20)
    )
    together = placed.plan(table("pgbench_accounts"), wal, name="together")
    with placed.server.connect() as connection:
        with pytest.raises(PlaceError, match="the moved data needs"):
            placed.apply(together)
        assert connection.execute("select 1").fetchone() == (1,)
    assert set(places(placed, "pgbench_accounts%").values()) == {"pg_default"}
    alone = placed.plan(table("pgbench_accounts"), name="alone")
    placed.apply(alone)
    placed.undo(alone)


def test_a_sort_that_would_spill_needs_its_room_where_it_spills(
    placed: PlacedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = placed.plan(index("public.pgbench_accounts_pkey"), name="spill")
    flash = placed.server.base / "space-flash"
    # There is enough space where the index goes, and none where it would be sorted.
    with monkeypatch.context() as patch, placed.server.connect() as connection:
        patch.setattr(Cluster, "device_of", lambda _cluster, at: int(at == flash))
        patch.setattr(files, "free_bytes", lambda at: (1 << 40) if at == flash else 64 << 20)
        connection.execute("alter database postgres set maintenance_work_mem = '1MB'")
        with pytest.raises(PlaceError, match=f"sorting and building there.* below {placed.data}"):
            placed.apply(path)
        connection.execute("alter database postgres reset maintenance_work_mem")
        connection.execute("alter database postgres set max_parallel_maintenance_workers = 0")
        # In the memory of one process it needs none.
        assert placed.apply(path).records[0].state is MoveState.DONE
        connection.execute("alter database postgres reset max_parallel_maintenance_workers")
    placed.undo(path)


def test_missing_rights_are_named_with_the_grant_that_helps(placed: PlacedServer) -> None:
    with placed.server.connect() as connection:
        connection.execute("create role mover login; create role other login")
        connection.execute("create table mine (n int); alter table mine owner to mover")
        connection.execute("create table theirs (n int); alter table theirs owner to other")
    dsn = psycopg.conninfo.make_conninfo(placed.dsn, user="mover")

    def hint(name: str) -> str:
        path = placed.plan(table(name), name=f"rights-{name}")
        (seen,) = look_at(read_plan(path), dsn)
        assert seen.refused is not None
        assert isinstance(seen.refused, PlaceError)
        return seen.refused.hint

    assert hint("mine") == "GRANT CREATE ON TABLESPACE flash TO mover;"
    assert "GRANT other TO mover" in hint("theirs")


def test_a_plan_is_for_its_cluster_only(placed: PlacedServer) -> None:
    path = placed.plan(table("pgbench_tellers"), name="foreign")
    other = replace(read_plan(path), system_identifier="1")
    with pytest.raises(PlanError, match="another cluster"):
        apply_plan(Journal(path, other), placed.dsn)


def test_a_look_says_what_is_locked_and_for_how_long(placed: PlacedServer) -> None:
    path = placed.plan(table("pgbench_accounts"), name="look")
    heap, pkey = look_at(read_plan(path), placed.dsn)
    assert heap.look is not None
    assert pkey.look is not None
    assert "Readers and writers" in heap.look.lock
    assert "pg_repack is not installed" in heap.look.warnings[0]
    assert "Nobody waits" in pkey.look.lock
    with placed.server.connect() as connection:
        size = connection.execute("select pg_table_size('pgbench_accounts')").fetchone()
    assert size == (heap.look.bytes,)
    with Cluster(placed.dsn) as cluster:
        assert len(moves_for(cluster, table("s.part"))) == 6
