# SPDX-License-Identifier: PostgreSQL
"""pgflash place and pgflash plan, as users type them."""

import csv
import getpass
import io
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pgflash import api
from pgflash.cli import main
from pgflash.errors import UsageError
from pgflash.model.plan import Move, MoveKind, MoveState, PlanError, Record
from pgflash.place import Cluster, Startup, apply_plan
from pgflash.place.journal import read_plan, write_plan
from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.placed import PlacedServer, cut_off, placed_server


@pytest.fixture(scope="module")
def placed(pg_install: PgInstall) -> Iterator[PlacedServer]:
    factory = ClusterFactory(pg_install)
    with placed_server(factory, initdb_args=["--wal-segsize=1"]) as placed:
        placed.tablespace("flash")
        with placed.server.connect() as connection:
            connection.execute("create table stock (id int primary key)")
        yield placed
    factory.close()


@pytest.fixture
def folder(placed: PlacedServer) -> Iterator[Path]:
    """A folder of the test's own in memory: each step of a plan is synced."""
    with tempfile.TemporaryDirectory(dir=placed.plans) as name:
        yield Path(name)


@pytest.fixture(autouse=True)
def state(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for plans that are not given a file."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "pgflash" / "plans"


def said(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> str:
    """Run a command line that must exit with a code, and return all that it printed."""
    assert main(list(words)) == code, capsys.readouterr()
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.out + captured.err


def tablespace_of(placed: PlacedServer, name: str) -> str:
    with Cluster(placed.dsn) as cluster:
        return str(
            cluster.value(
                "select coalesce(spcname, 'pg_default') from pg_class c left join pg_tablespace t "
                "on t.oid = reltablespace where relname = %s",
                name,
            )
        )


def test_a_dry_run_says_it_all_and_does_nothing(
    capsys: pytest.CaptureFixture[str], placed: PlacedServer, state: Path
) -> None:
    words = ("place", "table", "stock", "--on", "flash", "--dsn", placed.dsn, "--dry-run")
    text = said(capsys, 0, *words)
    assert "table public.stock" in text
    assert "index public.stock_pkey" in text
    assert "Lock: Readers and writers" in text
    assert "Lock: Nobody waits" in text
    assert re.search(r"table public.stock .* at most \d+ s\n", text)
    # A table without a block cannot be read.
    assert re.search(r"Speed: partly assumed, .*/s to .*/s; waiting for locks comes on top", text)
    assert tablespace_of(placed, "stock") == "pg_default"
    assert not state.exists()


def test_what_is_done_is_kept_in_a_plan_that_is_listed_shown_and_undone(
    capsys: pytest.CaptureFixture[str], placed: PlacedServer, state: Path
) -> None:
    dsn = ("--dsn", placed.dsn)
    text = said(capsys, 0, "place", "table", "stock", "--on", "flash", *dsn, "--yes")
    (path,) = state.iterdir()
    assert f"pgflash plan undo {path}" in text
    assert tablespace_of(placed, "stock_pkey") == "flash"
    assert f"{path}" in said(capsys, 0, "plan", "show")
    (listed,) = json.loads(said(capsys, 0, "plan", "show", "--format", "json"))
    assert (listed["file"], listed["moves"], listed["states"]) == (str(path), "2", "done")
    assert "public.stock" in said(capsys, 0, "plan", "show", str(path))
    shown = json.loads(said(capsys, 0, "plan", "show", str(path), "--format", "json"))
    assert [move["state"] for move in shown["moves"]] == ["done", "done"]
    assert [move["was"] for move in shown["moves"]] == ["pg_default", "pg_default"]
    rows = list(
        csv.DictReader(io.StringIO(said(capsys, 0, "plan", "show", str(path), "--format", "csv")))
    )
    assert rows[1]["name"] == "public.stock_pkey"
    # A second apply has nothing to do, and reports that.
    assert "nothing to do" in said(capsys, 0, "plan", "apply", str(path), *dsn, "--yes")
    said(capsys, 0, "plan", "undo", str(path), *dsn, "--yes")
    assert tablespace_of(placed, "stock") == "pg_default"
    assert "undone" in said(capsys, 0, "plan", "show", str(path))
    said(capsys, 0, "plan", "apply", str(path), *dsn, "--yes")
    assert tablespace_of(placed, "stock") == "flash"
    said(capsys, 0, "plan", "undo", str(path), *dsn, "--yes")


def test_the_wal_moves_by_command(
    capsys: pytest.CaptureFixture[str], placed: PlacedServer, folder: Path
) -> None:
    wal = placed.server.base / "wal"
    plan = str(folder / "wal.json")
    words = ("--on", str(wal), "--dsn", placed.dsn, "--yes", "--plan", plan)
    text = said(capsys, 0, "place", "wal", *words)
    assert "The server is stopped and started (by pg_ctl)" in text
    assert "on the same device" in text
    assert placed.wal_folder == wal
    said(capsys, 0, "plan", "undo", plan, "--dsn", placed.dsn, "--yes")
    assert placed.wal_folder == placed.data / "pg_wal"


def test_the_commands_of_a_restart_are_given_with_a_plan_that_has_none(
    capsys: pytest.CaptureFixture[str], placed: PlacedServer
) -> None:
    """As a plan by pgflash advise; they are kept for its undo."""
    wal = placed.server.base / "by-command"
    path = placed.plan(Move(kind=MoveKind.WAL, to=str(wal)), name="by-command")
    commands = placed.restart_commands()
    restart = [
        word for name in commands for word in (f"--{name.replace('_', '-')}", commands[name])
    ]
    plan = (str(path), "--dsn", placed.dsn)
    assert "go together" in said(capsys, 2, "plan", "apply", *plan, *restart[:2])
    text = said(capsys, 0, "plan", "apply", *plan, *restart, "--yes")
    assert f"to stop the server: {commands['stop_command']}\n" in text
    assert placed.wal_folder == wal
    assert read_plan(path).moves[0].options == commands
    text = said(capsys, 0, "plan", "undo", *plan, "--yes")
    assert f"to start the server: {commands['start_command']}\n" in text
    assert placed.wal_folder == placed.data / "pg_wal"
    table = placed.plan(Move(kind=MoveKind.TABLE, to="flash", name="stock"), name="no-wal")
    text = said(capsys, 2, "plan", "undo", str(table), "--dsn", placed.dsn, *restart)
    assert "for moves of the WAL only" in text


def test_a_plan_that_was_carried_out_before_is_asked_for_again(
    capsys: pytest.CaptureFixture[str], placed: PlacedServer, folder: Path
) -> None:
    """It would stop the server: each run needs its own consent."""
    plan, wal = str(folder / "again.json"), str(placed.server.base / "again")
    dsn = ("--dsn", placed.dsn)
    said(capsys, 0, "place", "wal", "--on", wal, *dsn, "--yes", "--plan", plan)
    said(capsys, 0, "plan", "undo", plan, *dsn, "--yes")
    with placed.server.connect() as connection:
        assert "standard input is not a terminal" in said(capsys, 1, "plan", "apply", plan, *dsn)
        assert connection.execute("select 1").fetchone() == (1,)


def test_the_commands_of_a_plan_are_shown_before_anybody_agrees(
    capsys: pytest.CaptureFixture[str], placed: PlacedServer
) -> None:
    """They run as the user who applies the plan; no part may be hidden from a reader."""
    user = getpass.getuser()
    options = {"stop_command": "systemctl stop db; rm x\r\x1b[2K", "start_command": "start db"}
    folder = placed.server.base / "commanded"
    wal = Move(kind=MoveKind.WAL, to=str(folder), options=options)
    path = placed.plan(wal, name="commanded")
    for verb in ("apply", "undo"):
        text = said(capsys, 1, "plan", verb, str(path), "--dsn", placed.dsn)
        assert f"Runs as {user} to stop the server: systemctl stop db; rm x \\u001b[2K\n" in text
        assert f"Runs as {user} to start the server: start db\n" in text
        assert "standard input is not a terminal" in text
    noted = Startup(
        bindir="/b b",
        config_directory="/d",
        environment={"LD_PRELOAD": "/x.so", "HOME": "/h"},
        start_command="start it otherwise",
    )
    record = Record(state=MoveState.DOING, notes={"startup": noted.to_json()})
    # Those of a server that was stopped, unless others are given since.
    for given, start in ((options, "start db"), ({}, "start it otherwise")):
        plan = replace(read_plan(path), moves=(replace(wal, options=given),))
        write_plan(path, plan.with_record(0, record))
        for text in (
            said(capsys, 1, "plan", "apply", str(path), "--dsn", placed.dsn),
            said(capsys, 0, "plan", "show", str(path)),
        ):
            assert re.findall("to start the server: (.*)", text) == [start]
            assert "server's user: LD_PRELOAD=/x.so '/b b/pg_ctl'\n" in text


def test_a_server_that_a_killed_move_left_down_is_asked_for_and_started(
    capsys: pytest.CaptureFixture[str], placed: PlacedServer
) -> None:
    folder = placed.server.base / "down"
    path = placed.plan(Move(kind=MoveKind.WAL, to=str(folder)), name="down")
    assert cut_off(apply_plan, path, placed.dsn, ("switch", 1)) is None
    words = ("plan", "apply", str(path), "--dsn", placed.dsn)
    text = said(capsys, 1, *words)
    assert "the server is down because a move of the WAL was interrupted" in text
    assert "standard input is not a terminal" in text
    assert not placed.answers
    said(capsys, 0, *words, "--yes")
    assert placed.wal_folder == folder
    said(capsys, 0, "plan", "undo", str(path), "--dsn", placed.dsn, "--yes")


def test_a_move_that_was_killed_after_its_switch_is_finished(
    capsys: pytest.CaptureFixture[str], placed: PlacedServer
) -> None:
    folder = placed.server.base / "finished"
    path = placed.plan(Move(kind=MoveKind.WAL, to=str(folder)), name="finished")
    assert cut_off(apply_plan, path, placed.dsn, ("remove the previous copy", 1)) is None
    assert placed.wal_folder == folder
    aside = placed.data / "pg_wal.pgflash"
    assert aside.is_dir()
    words = ("plan", "apply", str(path), "--dsn", placed.dsn)
    assert "to be finished" in said(capsys, 0, *words, "--dry-run")
    said(capsys, 0, *words, "--yes")
    assert not aside.exists()
    assert not (folder / ".pgflash-wal").exists()
    assert read_plan(path).records[0].state is MoveState.DONE
    assert "There is nothing to do." in said(capsys, 0, *words)
    said(capsys, 0, "plan", "undo", str(path), "--dsn", placed.dsn, "--yes")


def test_a_finished_plan_is_not_carried_out_again(
    capsys: pytest.CaptureFixture[str], placed: PlacedServer, folder: Path
) -> None:
    """Somebody has moved the table home: a plan that is done says so."""
    plan, dsn = str(folder / "twice.json"), ("--dsn", placed.dsn)
    words = ("place", "table", "stock", "--no-indexes", "--on", "flash", *dsn, "--yes")
    said(capsys, 0, *words, "--plan", plan)
    with placed.server.connect() as connection:
        connection.execute("alter table stock set tablespace pg_default")
    text = said(capsys, 0, "plan", "apply", plan, *dsn)
    assert "table public.stock to flash is skipped: it was moved before." in text
    assert "There is nothing to do." in text
    assert tablespace_of(placed, "stock") == "pg_default"


def test_a_plan_that_another_pgflash_carries_out_meanwhile_is_left_to_it(
    placed: PlacedServer, folder: Path
) -> None:
    """Otherwise the later one forgets where things were, and nothing can be undone."""
    plan = api.place_table("stock", "flash", dsn=placed.dsn, indexes=False)
    path = api.plan_keep(plan, folder / "shared.json")
    api.plan_apply(path, dsn=placed.dsn)
    for work in (api.plan_apply, api.plan_undo):
        with pytest.raises(PlanError, match="was changed after it was read"):
            work(path, plan, dsn=placed.dsn)
    assert read_plan(path).records[0].was == "pg_default"
    api.plan_undo(path, dsn=placed.dsn)
    assert tablespace_of(placed, "stock") == "pg_default"


def test_what_was_dropped_is_said_to_be_passed_over(
    capsys: pytest.CaptureFixture[str], placed: PlacedServer, folder: Path
) -> None:
    plan, dsn = str(folder / "dropped.json"), ("--dsn", placed.dsn)
    with placed.server.connect() as connection:
        connection.execute("create table dropped (n int)")
        words = ("place", "table", "dropped", "--on", "flash", *dsn, "--yes", "--plan", plan)
        said(capsys, 0, *words)
        connection.execute("drop table dropped")
    assert "public.dropped to flash is skipped" in said(capsys, 0, "plan", "apply", plan, *dsn)
    said(capsys, 0, "plan", "undo", plan, *dsn, "--yes")
    assert "gone" in said(capsys, 0, "plan", "show", plan)


def test_nobody_to_ask_is_an_error_and_nothing_is_done(
    capsys: pytest.CaptureFixture[str], placed: PlacedServer
) -> None:
    words = ("place", "index", "stock_pkey", "--on", "flash", "--dsn", placed.dsn)
    assert "--yes" in said(capsys, 1, *words)
    assert tablespace_of(placed, "stock_pkey") == "pg_default"


def test_a_move_that_fails_says_how_to_go_on_and_how_to_go_back(
    capsys: pytest.CaptureFixture[str], placed: PlacedServer
) -> None:
    with placed.server.connect(autocommit=False) as holder:
        holder.execute("select from stock")
        words = ("--no-indexes", "--patience", "0", "--dsn", placed.dsn, "--yes")
        text = said(capsys, 1, "place", "table", "stock", "--on", "flash", *words)
    assert "could not be locked" in text
    assert "pgflash plan apply" in text
    assert "pgflash plan undo" in text


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("table", "nothing", "--on", "flash"), 1, "there is no table nothing"),
        (("table", "stock", "--on", "nowhere"), 1, 'there is no tablespace "nowhere"'),
        (("archive", "--on", "/tmp/x"), 1, "WAL is not archived"),
        (("wal", "--on", "/tmp"), 1, "is not empty"),
        (("wal", "--on", ""), 2, "names no folder"),
        (("wal", "--on", "flash"), 2, '"flash" has no "/"'),
        (("archive", "--on", "flash"), 2, "cannot be in a tablespace"),
        (("wal", "--on", "/x", "--stop-command", "x"), 2, "go together"),
        (("database", "nothing", "--on", "flash", "--offline"), 1, "there is no database"),
        (("table", "stock"), 2, "Missing option '--on'"),
    ],
)
def test_what_cannot_be_is_one_line_and_a_hint(
    capsys: pytest.CaptureFixture[str],
    placed: PlacedServer,
    words: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    assert message in said(capsys, code, "place", *words, "--dsn", placed.dsn, "--yes")


def test_what_is_there_is_said_to_be_there(
    capsys: pytest.CaptureFixture[str], placed: PlacedServer, state: Path
) -> None:
    words = ("--on", "pg_default", "--dsn", placed.dsn, "--yes")
    assert "nothing to do" in said(capsys, 0, "place", "table", "stock", *words)
    assert not state.exists()


def test_the_library_does_what_the_commands_do(placed: PlacedServer, state: Path) -> None:
    plan = api.place_table("stock", "flash", dsn=placed.dsn, indexes=False, patience_s=5)
    (seen,) = api.plan_look(plan, dsn=placed.dsn)
    assert seen.refused is None
    assert tablespace_of(placed, "stock") == "pg_default"  # a plan changes nothing
    path = api.plan_keep(plan)
    assert path.parent == state == api.plan_folder()
    with pytest.raises(UsageError, match="exists"):
        api.plan_keep(plan, path)
    made = api.plan_apply(path, plan, dsn=placed.dsn)
    assert [one.state for one in made.records] == [MoveState.DONE]
    assert tablespace_of(placed, "stock") == "flash"
    undone = api.plan_undo(path, dsn=placed.dsn)
    assert undone == api.plan_show(path)
    assert tablespace_of(placed, "stock") == "pg_default"


def test_the_library_watches_a_server(placed: PlacedServer) -> None:
    with api.top(dsn=placed.dsn, interval_s=0.2, readings=2) as watch:
        samples = [one for one in watch if one is not None]
        assert watch.server is not None
    assert len(samples) == 2
    assert all(one.headline and one.elapsed_s > 0 for one in samples)
