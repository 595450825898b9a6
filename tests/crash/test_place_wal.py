# SPDX-License-Identifier: PostgreSQL
"""The WAL moves to another folder: under load, interrupted at every step, refused, rolled back.

After each interruption pg_ctl alone starts the cluster, as for a user who has never heard of
pgflash, and the committed rows are counted.
"""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgflash.api import plan_restart_by
from pgflash.model.plan import Move, MoveKind, MoveState, Plan, PlanError
from pgflash.place import PlaceError, apply_plan, files, undo_plan
from pgflash.place.control import ServerProcess, Startup
from pgflash.place.journal import read_plan, write_plan
from pgflash.place.owner import Beat
from pgflash.place.wal import WalMover
from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.patience import eventually
from support.placed import (
    Place,
    PlacedServer,
    Rows,
    StallWatch,
    Work,
    assert_wal_at_home,
    cut_off,
    names,
    placed_server,
)
from support.tpcb import assert_balanced, end_load, load_tpcb, start_tpcb


@pytest.fixture(scope="module")
def placed(pg_install: PgInstall) -> Iterator[PlacedServer]:
    """One server for all tests here; each leaves its WAL in the data directory."""
    factory = ClusterFactory(pg_install)
    settings = {"max_prepared_transactions": "5", "min_wal_size": "2MB", "max_wal_size": "8MB"}
    with placed_server(factory, settings=settings, initdb_args=["--wal-segsize=1"]) as placed:
        yield placed
    factory.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class WalMove:
    """A plan that moves the WAL to a separate folder."""

    placed: PlacedServer
    folder: Path
    path: Path

    def go(self) -> None:
        """Carry it out, or resume it."""
        assert self.placed.apply(self.path).records[0].state is MoveState.DONE
        assert self.placed.wal_folder == self.folder

    def fails_with(self, why: str) -> None:
        """Fail unless it is refused, or stops, with these words."""
        with pytest.raises(PlaceError, match=why):
            self.placed.apply(self.path)

    def go_back(self) -> None:
        """Undo it: the WAL is where it was."""
        assert self.placed.undo(self.path).records[0].state is MoveState.UNDONE
        assert_wal_at_home(self.placed, self.folder)


def plan_move(
    placed: PlacedServer,
    name: str,
    folder: Path | None = None,
    options: Mapping[str, str] | None = None,
) -> WalMove:
    """Plan a move of the WAL to a new folder, or to this one."""
    folder = folder or placed.server.base / f"flash-{name}"
    move = Move(kind=MoveKind.WAL, to=str(folder), options=dict(options or {}))
    return WalMove(placed=placed, folder=folder, path=placed.plan(move, name=name))


@pytest.fixture
def move(placed: PlacedServer, request: pytest.FixtureRequest) -> WalMove:
    """A move that is named after its test."""
    return plan_move(placed, request.node.name.removeprefix("test_").replace("_", "-"))


@pytest.fixture
def rows(placed: PlacedServer) -> Rows:
    return Rows(placed)


def test_the_wal_goes_and_comes_back(placed: PlacedServer, move: WalMove, rows: Rows) -> None:
    folder = move.folder
    rows.add()
    started_with = placed.started_with()
    assert started_with[1]
    move.go()
    assert sorted(placed.started_with()[0].split(b"\0")) == sorted(started_with[0].split(b"\0"))
    assert placed.started_with()[1]
    assert (folder.stat().st_mode & 0o777) == 0o700
    assert folder.stat().st_uid == placed.data.stat().st_uid
    assert "pg_wal.pgflash" not in names(placed.data)
    rows.add()
    move.go_back()
    rows.add()


def test_every_cut_leaves_a_cluster_that_starts(
    placed: PlacedServer, move: WalMove, rows: Rows, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = list[str]()

    def cut(work: Work, place: Place) -> None:
        if cut_off(work, move.path, placed.dsn, place) is not None:
            return  # it did not come there this time
        up = placed.answers
        matrix.append(f"{work.__name__}: {place[0]} {place[1]}: {'up' if up else 'down'}")
        # Some are started by hand, some by pgflash.
        if not up and len(matrix) % 3:
            placed.start()
            up = True
        if up:
            rows.add()

    places = cut_off(apply_plan, move.path, placed.dsn, None)
    back = cut_off(undo_plan, move.path, placed.dsn, None)
    assert places
    assert back
    assert_wal_at_home(placed, move.folder)
    # Each interrupted move is resumed or undone in turn, and the next begins where that ends.
    to_cut: dict[Work, list[tuple[int, Place]]] = {
        apply_plan: list(enumerate(places)),
        undo_plan: list(enumerate(back)),
    }
    is_moved = False
    while any(to_cut.values()):
        work: Work = undo_plan if is_moved else apply_plan
        number = 0
        if to_cut[work]:
            number, place = to_cut[work].pop(0)
            cut(work, place)
        goes_on = number % 2 == 0
        is_moved = goes_on != is_moved
        if is_moved:
            move.go()
        else:
            move.go_back()
        rows.check()
    if is_moved:
        move.go_back()
    with capsys.disabled():
        print("", *matrix, sep="\n")  # noqa: T201 - the matrix is the result
    down = {line.split(": ")[1].rsplit(" ", 1)[0] for line in matrix if line.endswith("down")}
    # Where the server is down is where it matters.
    assert {"copy the rest", "switch", "start the server"} <= down


def test_the_wal_moves_under_load(
    placed: PlacedServer, rows: Rows, capsys: pytest.CaptureFixture[str]
) -> None:
    load_tpcb(placed.server)
    with placed.server.connect(autocommit=False) as prepared:
        prepared.execute("insert into kept values (0)")
        prepared.execute("prepare transaction 'stays'")
    move = plan_move(placed, "load")
    load = start_tpcb(placed.server, rate=200)
    with StallWatch(placed.dsn, "update pgbench_branches set filler = 'y'") as watch:
        assert eventually(lambda: watch.done > 30)
        move.go()
        after = watch.done
        assert eventually(lambda: watch.done > after + 30)
    end_load(load)  # the restart ended its sessions
    with capsys.disabled():
        down_s = float(read_plan(move.path).records[0].notes["down_s"])
        print(f"\nWAL: longest stall {watch.longest_s:.2f} s, down for {down_s:.2f} s")  # noqa: T201
    with placed.server.connect() as connection:
        connection.execute("rollback prepared 'stays'")
    assert_balanced(placed.server)
    move.go_back()
    assert_balanced(placed.server)
    rows.check()
    placed.stop()
    placed.server.run(["pg_checksums", "--check", "-D", str(placed.data)])
    placed.start()


# ---- the server does not come up


def test_a_server_that_does_not_start_gets_its_wal_back(placed: PlacedServer, rows: Rows) -> None:
    commands = placed.restart_commands(f"test ! -L {placed.data}/pg_wal")
    move = plan_move(placed, "back", options=commands)
    rows.add()
    move.fails_with("it is running again with its WAL in")
    record = read_plan(move.path).records[0]
    assert record.state is MoveState.FAILED
    assert placed.wal_folder == placed.data / "pg_wal"
    rows.add()
    move.go_back()
    rows.add()


def test_a_server_that_is_down_is_started_by_the_command_that_is_given_since(
    placed: PlacedServer, rows: Rows
) -> None:
    move = plan_move(placed, "mistyped", options=placed.restart_commands("false"))
    rows.add()
    move.fails_with("start")
    assert not placed.answers
    move.fails_with("start")
    right = plan_restart_by(read_plan(move.path), **placed.restart_commands())
    write_plan(move.path, right)
    move.go()
    rows.add()
    move.go_back()
    rows.add()


def fail_after_a_commit(placed: PlacedServer, rows: Rows, patch: pytest.MonkeyPatch) -> None:
    """Let the server start with its WAL in the new place, commit there, and then fail."""

    def check(_mover: WalMover) -> None:
        if (placed.data / "pg_wal").is_symlink():
            rows.add()
            raise PlaceError("the server does not work as it should")

    patch.setattr(WalMover, "_check", check)


def test_what_was_committed_in_the_new_place_comes_back_with_the_wal(
    placed: PlacedServer, move: WalMove, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fail_after_a_commit(placed, rows, patch)
        move.fails_with("it is running again")
    assert placed.wal_folder == placed.data / "pg_wal"
    rows.check()
    move.go_back()
    rows.check()


def test_a_rollback_that_is_cut_off_has_lost_nothing(
    placed: PlacedServer, move: WalMove, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, place in enumerate(("go back", "go back (copying)")):
        with monkeypatch.context() as patch:
            fail_after_a_commit(placed, rows, patch)
            assert cut_off(apply_plan, move.path, placed.dsn, (place, 1)) is None
        # The row was committed by the process that was killed.
        rows.committed += 1
        placed.start_again()
        rows.add()
        if number:
            move.go()
        move.go_back()
        rows.check()


def test_a_rollback_that_forgets_the_new_wal_is_caught(
    placed: PlacedServer, move: WalMove, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the last one: without the copy back the cluster is broken."""
    with monkeypatch.context() as patch:
        fail_after_a_commit(placed, rows, patch)
        patch.setattr(WalMover, "_control_digest", lambda _mover: "always the same")
        patch.setattr("pgflash.place.control.START_WAIT_S", 30)
        # A checkpoint that the former WAL has never seen: it does not even start.
        move.fails_with("did not start")
    assert not placed.answers
    # Nothing is lost, since the new place has it all: the rollback should have done this.
    aside = placed.data / "pg_wal.pgflash"
    files.exchange(placed.data / "pg_wal", aside)
    placed.start()
    rows.check()
    move.go_back()


# ---- refused


def test_a_folder_with_something_in_it_is_refused(placed: PlacedServer) -> None:
    folder = placed.folder("full")
    (folder / "lost+found").mkdir()
    plan_move(placed, "full", folder).fails_with("is not empty")
    assert names(folder) == ["lost+found"]
    assert placed.answers


def test_a_folder_in_the_data_directory_is_refused(placed: PlacedServer) -> None:
    plan_move(placed, "inside", placed.data / "wal").fails_with("inside the data directory")


def test_a_folder_in_the_wal_itself_is_refused(placed: PlacedServer, move: WalMove) -> None:
    move.go()
    plan_move(placed, "inner", move.folder / "inner").fails_with("where the WAL is now")
    move.go_back()


def test_a_server_that_is_not_the_one_in_the_folder_is_left_alone(
    placed: PlacedServer, move: WalMove, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container's paths, or a tunnel's end, may lead to another cluster of this machine."""
    with placed.server.connect() as connection:
        with monkeypatch.context() as patch:
            patch.setattr("pgflash.place.cluster.postmaster_pid", lambda _session: os.getpid())
            move.fails_with("is not the one in")
            patch.setattr("pgflash.place.cluster.why_not_local", lambda _session: "elsewhere")
            move.fails_with("runs on another machine")
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_folder_of_another_user_is_refused(placed: PlacedServer) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    folder = placed.server.base / "strange"
    folder.mkdir()
    plan_move(placed, "strange", folder).fails_with("does not belong to the server's user")
    assert placed.wal_folder == placed.data / "pg_wal"


def test_no_room_is_known_before_the_server_is_stopped(
    placed: PlacedServer, move: WalMove, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash.place.files.free_bytes", lambda _path: 65 << 20)
    with placed.server.connect() as connection:
        move.fails_with("are free")
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_disk_that_fills_up_while_the_server_is_down_changes_nothing(
    placed: PlacedServer, move: WalMove, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.add()
    mirror = files.mirror

    def full(source: Path, dest: Path, *, beat: Beat, live: bool, keep: str = "") -> None:
        if not live and source.name == "pg_wal":
            raise OSError(28, "No space left on device")
        mirror(source, dest, beat=beat, live=live, keep=keep)

    with monkeypatch.context() as patch:
        patch.setattr(files, "mirror", full)
        move.fails_with("No space left")
    assert placed.wal_folder == placed.data / "pg_wal"
    rows.add()
    move.go_back()


def test_an_interrupt_while_the_server_is_down_brings_it_up_first(
    placed: PlacedServer, move: WalMove, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.add()
    is_clean = ServerProcess.is_clean

    def interrupted(process: ServerProcess, startup: Startup) -> bool:
        assert not placed.answers
        os.kill(os.getpid(), signal.SIGINT)
        return is_clean(process, startup)

    with monkeypatch.context() as patch:
        patch.setattr(ServerProcess, "is_clean", interrupted)
        with pytest.raises(KeyboardInterrupt):
            placed.apply(move.path)
    record = read_plan(move.path).records[0]
    assert record.state is MoveState.DOING
    rows.add()
    move.go()
    move.go_back()
    rows.check()


def test_a_server_that_still_stops_is_waited_for_and_started(
    placed: PlacedServer, move: WalMove, rows: Rows
) -> None:
    assert cut_off(apply_plan, move.path, placed.dsn, ("stop the server", 1)) is None
    with placed.server.connect() as last:
        last.execute("select 1")
        # A slow shutdown: it waits for this session.
        pid = int((placed.data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGTERM)
        assert eventually(lambda: not placed.answers)
        timer = threading.Timer(0.5, last.close)
        timer.start()
        move.go()
        timer.join()
    assert placed.wal_folder == move.folder
    rows.add()
    move.go_back()


def test_a_journal_that_cannot_be_written_keeps_no_server_down(
    placed: PlacedServer, move: WalMove, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.add()

    def full(_path: Path, _plan: Plan) -> None:
        if not placed.answers:
            raise PlanError("could not write the plan: No space left on device")
        write_plan(_path, _plan)

    with monkeypatch.context() as patch:
        patch.setattr("pgflash.place.journal.write_plan", full)
        with pytest.raises(PlanError):
            placed.apply(move.path)
    rows.add()
    move.go()
    move.go_back()
    rows.check()


def test_a_journal_that_is_lost_after_the_switch_keeps_no_server_down(
    placed: PlacedServer, move: WalMove, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.add()

    def full(_path: Path, _plan: Plan) -> None:
        if (placed.data / "pg_wal").is_symlink():
            raise PlanError("could not write the plan: No space left on device")
        write_plan(_path, _plan)

    with monkeypatch.context() as patch:
        patch.setattr("pgflash.place.journal.write_plan", full)
        with pytest.raises(PlanError):
            placed.apply(move.path)
    assert placed.wal_folder == move.folder
    rows.add()
    move.go()
    move.go_back()
    rows.check()


def test_a_server_with_a_logging_collector_is_started_as_it_was(placed: PlacedServer) -> None:
    with placed.server.connect() as connection:
        connection.execute("alter system set logging_collector = on")
        connection.execute("alter system set log_directory = 'log'")
    placed.stop()
    placed.start()
    move = plan_move(placed, "log")
    move.go()
    with placed.server.connect() as connection:
        assert connection.execute("show logging_collector").fetchone() == ("on",)
    move.go_back()
    with placed.server.connect() as connection:
        connection.execute("alter system reset all")
    placed.stop()
    placed.start()
