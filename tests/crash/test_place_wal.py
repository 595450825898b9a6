# SPDX-License-Identifier: PostgreSQL
"""The WAL moves to another folder: under load, cut off at every step, refused, rolled back.

After each cut the cluster is started by pg_ctl alone, as somebody would who has never
heard of pgflash, and what was committed is counted.
"""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def move_to(folder: Path) -> Move:
    return Move(kind=MoveKind.WAL, to=str(folder))


@pytest.fixture
def rows(placed: PlacedServer) -> Rows:
    return Rows(placed)


def test_the_wal_goes_and_comes_back(placed: PlacedServer, rows: Rows) -> None:
    folder = placed.server.base / "flash-wal"
    rows.add()
    path = placed.plan(move_to(folder))
    started_with = placed.started_with()
    assert started_with[1]
    plan = placed.apply(path)
    assert sorted(placed.started_with()[0].split(b"\0")) == sorted(started_with[0].split(b"\0"))
    assert placed.started_with()[1]
    assert plan.records[0].state is MoveState.DONE
    assert placed.wal_folder == folder
    assert (folder.stat().st_mode & 0o777) == 0o700
    assert folder.stat().st_uid == placed.data.stat().st_uid
    assert "pg_wal.pgflash" not in names(placed.data)
    rows.add()
    assert placed.undo(path).records[0].state is MoveState.UNDONE
    assert_wal_at_home(placed, folder)
    rows.add()


def test_every_cut_leaves_a_cluster_that_starts(
    placed: PlacedServer, rows: Rows, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = placed.server.base / "flash-cut"
    path = placed.plan(move_to(folder), name="cut")
    matrix = list[str]()

    def cut(work: Work, place: Place) -> None:
        if cut_off(work, path, placed.dsn, place) is not None:
            return  # it did not come there this time
        up = placed.answers
        matrix.append(f"{work.__name__}: {place[0]} {place[1]}: {'up' if up else 'down'}")
        # Some are started as anybody would, some are left to pgflash.
        if not up and len(matrix) % 3:
            placed.start()
            up = True
        if up:
            rows.add()

    places = cut_off(apply_plan, path, placed.dsn, None)
    back = cut_off(undo_plan, path, placed.dsn, None)
    assert places
    assert back
    assert_wal_at_home(placed, folder)
    # Each cut is gone on with or gone back from in turn, and the next begins where that ends.
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
            assert placed.apply(path).records[0].state is MoveState.DONE
            assert placed.wal_folder == folder
        else:
            assert placed.undo(path).records[0].state is MoveState.UNDONE
            assert_wal_at_home(placed, folder)
        rows.check()
    if is_moved:
        placed.undo(path)
    assert_wal_at_home(placed, folder)
    with capsys.disabled():
        print("", *matrix, sep="\n")  # noqa: T201 - the matrix is what one wants to see
    down = {line.split(": ")[1].rsplit(" ", 1)[0] for line in matrix if line.endswith("down")}
    # Where the server is down is where it matters.
    assert {"copy the rest", "switch", "start the server"} <= down


def test_the_wal_moves_under_load(
    placed: PlacedServer, rows: Rows, capsys: pytest.CaptureFixture[str]
) -> None:
    load_tpcb(placed.server)
    folder = placed.server.base / "flash-load"
    with placed.server.connect(autocommit=False) as prepared:
        prepared.execute("insert into kept values (0)")
        prepared.execute("prepare transaction 'stays'")
    path = placed.plan(move_to(folder), name="load")
    load = start_tpcb(placed.server)
    with StallWatch(placed.dsn, "update pgbench_branches set filler = 'y'") as watch:
        assert eventually(lambda: watch.done > 30)
        plan = placed.apply(path)
        after = watch.done
        assert eventually(lambda: watch.done > after + 30)
    end_load(load)  # the restart ended its sessions
    with capsys.disabled():
        down_s = float(plan.records[0].notes["down_s"])
        print(f"\nWAL: longest stall {watch.longest_s:.2f} s, down for {down_s:.2f} s")  # noqa: T201
    assert placed.wal_folder == folder
    with placed.server.connect() as connection:
        connection.execute("rollback prepared 'stays'")
    assert_balanced(placed.server)
    placed.undo(path)
    assert_balanced(placed.server)
    rows.check()
    placed.stop()
    placed.server.run(["pg_checksums", "--check", "-D", str(placed.data)])
    placed.start()


# ---- the server does not come up


def start_and_stop(placed: PlacedServer, condition: str) -> dict[str, str]:
    """Return commands of which the start fails unless a condition of the shell holds."""
    user = "" if placed.server.account is None else f"setpriv --reuid={placed.server.account.uid} "
    control = f"{user}{placed.server.install.program('pg_ctl')}"
    library = placed.server.install.env.get("LD_LIBRARY_PATH", "")
    variable = f"LD_LIBRARY_PATH={library} "
    options = f"-c listen_addresses= -c unix_socket_directories={placed.server.socket_dir}"
    return {
        "stop_command": f"{variable}{control} stop -D {placed.data} -m fast",
        "start_command": f"{condition} && {variable}{control} start -w -D {placed.data} "
        f"-l {placed.server.log_path} -o '{options}'",
    }


def test_a_server_that_does_not_start_gets_its_wal_back(placed: PlacedServer, rows: Rows) -> None:
    folder = placed.server.base / "flash-back"
    commands = start_and_stop(placed, f"test ! -L {placed.data}/pg_wal")
    path = placed.plan(Move(kind=MoveKind.WAL, to=str(folder), options=commands), name="back")
    rows.add()
    with pytest.raises(PlaceError, match="it is up again with its WAL in"):
        placed.apply(path)
    record = read_plan(path).records[0]
    assert record.state is MoveState.FAILED
    assert placed.wal_folder == placed.data / "pg_wal"
    rows.add()
    placed.undo(path)
    assert_wal_at_home(placed, folder)
    rows.add()


def fail_after_a_commit(placed: PlacedServer, rows: Rows, patch: pytest.MonkeyPatch) -> None:
    """Let the server come up with its WAL in the new place, commit there, and then be no good."""

    def check(_mover: WalMover) -> None:
        if (placed.data / "pg_wal").is_symlink():
            rows.add()
            raise PlaceError("the server does not work as it should")

    patch.setattr(WalMover, "_check", check)


def test_what_was_committed_in_the_new_place_comes_back_with_the_wal(
    placed: PlacedServer, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = placed.server.base / "flash-wrote"
    path = placed.plan(move_to(folder), name="wrote")
    with monkeypatch.context() as patch:
        fail_after_a_commit(placed, rows, patch)
        with pytest.raises(PlaceError, match="it is up again"):
            placed.apply(path)
    assert placed.wal_folder == placed.data / "pg_wal"
    rows.check()
    placed.undo(path)
    assert_wal_at_home(placed, folder)
    rows.check()


def test_a_rollback_that_is_cut_off_has_lost_nothing(
    placed: PlacedServer, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = placed.server.base / "flash-cut-back"
    path = placed.plan(move_to(folder), name="cut-back")
    for number, place in enumerate(("go back", "go back (copying)")):
        with monkeypatch.context() as patch:
            fail_after_a_commit(placed, rows, patch)
            assert cut_off(apply_plan, path, placed.dsn, (place, 1)) is None
        # The row was committed by the process that was killed.
        rows.committed += 1
        if not placed.answers:
            placed.start()
        rows.add()
        if number:
            assert placed.apply(path).records[0].state is MoveState.DONE
            assert placed.wal_folder == folder
        placed.undo(path)
        assert_wal_at_home(placed, folder)
        rows.check()


def test_a_rollback_that_forgets_the_new_wal_is_caught(
    placed: PlacedServer, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the last one: without the copy back the cluster is broken."""
    folder = placed.server.base / "flash-forgot"
    path = placed.plan(move_to(folder), name="forgot")
    with monkeypatch.context() as patch:
        fail_after_a_commit(placed, rows, patch)
        patch.setattr(WalMover, "_control_digest", lambda _mover: "always the same")
        patch.setattr("pgflash.place.control.START_WAIT_S", 5)
        # A checkpoint that the former WAL has never seen: it does not even start.
        with pytest.raises(PlaceError, match="did not start"):
            placed.apply(path)
    assert not placed.answers
    # Nothing is lost, as the new place has it all: this is what the rollback should have done.
    aside = placed.data / "pg_wal.pgflash"
    files.exchange(placed.data / "pg_wal", aside)
    placed.start()
    rows.check()
    placed.undo(path)
    assert_wal_at_home(placed, folder)


# ---- refused


def test_a_folder_with_something_in_it_is_refused(placed: PlacedServer) -> None:
    folder = placed.folder("full")
    (folder / "lost+found").mkdir()
    path = placed.plan(move_to(folder), name="full")
    with pytest.raises(PlaceError, match="is not empty"):
        placed.apply(path)
    assert names(folder) == ["lost+found"]
    assert placed.answers


def test_a_folder_in_the_data_directory_is_refused(placed: PlacedServer) -> None:
    path = placed.plan(move_to(placed.data / "wal"), name="inside")
    with pytest.raises(PlaceError, match="inside the data directory"):
        placed.apply(path)


def test_a_folder_in_the_wal_itself_is_refused(placed: PlacedServer) -> None:
    folder = placed.server.base / "outer"
    path = placed.plan(move_to(folder), name="outer")
    placed.apply(path)
    inner = placed.plan(move_to(folder / "inner"), name="inner")
    with pytest.raises(PlaceError, match="where the WAL is now"):
        placed.apply(inner)
    placed.undo(path)
    assert_wal_at_home(placed, folder)


def test_a_server_that_is_not_the_one_in_the_folder_is_left_alone(
    placed: PlacedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container's paths, or a tunnel's end, may lead to another cluster of this machine."""
    path = placed.plan(move_to(placed.server.base / "other"), name="other")
    with placed.server.connect() as connection:
        with monkeypatch.context() as patch:
            patch.setattr("pgflash.place.cluster.postmaster_pid", lambda _session: os.getpid())
            with pytest.raises(PlaceError, match="is not the one in"):
                placed.apply(path)
            patch.setattr("pgflash.place.cluster.why_not_local", lambda _session: "elsewhere")
            with pytest.raises(PlaceError, match="runs on another machine"):
                placed.apply(path)
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_folder_of_another_user_is_refused(placed: PlacedServer) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    folder = placed.server.base / "strange"
    folder.mkdir()
    path = placed.plan(move_to(folder), name="strange")
    with pytest.raises(PlaceError, match="does not belong to the server's user"):
        placed.apply(path)
    assert placed.wal_folder == placed.data / "pg_wal"


def test_no_room_is_known_before_the_server_is_stopped(
    placed: PlacedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = placed.plan(move_to(placed.server.base / "small"), name="small")
    monkeypatch.setattr("pgflash.place.files.free_bytes", lambda _path: 65 << 20)
    with placed.server.connect() as connection:
        with pytest.raises(PlaceError, match="are free"):
            placed.apply(path)
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_disk_that_fills_up_while_the_server_is_down_changes_nothing(
    placed: PlacedServer, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = placed.server.base / "filling"
    path = placed.plan(move_to(folder), name="filling")
    rows.add()
    mirror = files.mirror

    def full(source: Path, dest: Path, *, beat: Beat, live: bool, keep: str = "") -> None:
        if not live and source.name == "pg_wal":
            raise OSError(28, "No space left on device")
        mirror(source, dest, beat=beat, live=live, keep=keep)

    with monkeypatch.context() as patch:
        patch.setattr(files, "mirror", full)
        with pytest.raises(PlaceError, match="No space left"):
            placed.apply(path)
    assert placed.wal_folder == placed.data / "pg_wal"
    rows.add()
    placed.undo(path)
    assert_wal_at_home(placed, folder)


def test_an_interrupt_while_the_server_is_down_brings_it_up_first(
    placed: PlacedServer, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = placed.server.base / "interrupted"
    path = placed.plan(move_to(folder), name="interrupted")
    rows.add()
    is_clean = ServerProcess.is_clean

    def interrupted(process: ServerProcess, startup: Startup) -> bool:
        assert not placed.answers
        os.kill(os.getpid(), signal.SIGINT)
        return is_clean(process, startup)

    with monkeypatch.context() as patch:
        patch.setattr(ServerProcess, "is_clean", interrupted)
        with pytest.raises(KeyboardInterrupt):
            placed.apply(path)
    record = read_plan(path).records[0]
    assert record.state is MoveState.DOING
    rows.add()
    assert placed.apply(path).records[0].state is MoveState.DONE
    assert placed.wal_folder == folder
    placed.undo(path)
    assert_wal_at_home(placed, folder)
    rows.check()


def test_a_server_that_still_stops_is_waited_for_and_started(
    placed: PlacedServer, rows: Rows
) -> None:
    folder = placed.server.base / "stopping"
    path = placed.plan(move_to(folder), name="stopping")
    assert cut_off(apply_plan, path, placed.dsn, ("stop the server", 1)) is None
    with placed.server.connect() as last:
        last.execute("select 1")
        # A shutdown that takes its time: it waits for this session.
        pid = int((placed.data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGTERM)
        assert eventually(lambda: not placed.answers)
        timer = threading.Timer(0.5, last.close)
        timer.start()
        assert placed.apply(path).records[0].state is MoveState.DONE
        timer.join()
    assert placed.wal_folder == folder
    rows.add()
    placed.undo(path)
    assert_wal_at_home(placed, folder)


def test_a_journal_that_cannot_be_written_keeps_no_server_down(
    placed: PlacedServer, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = placed.server.base / "unwritten"
    path = placed.plan(move_to(folder), name="unwritten")
    rows.add()

    def full(_path: Path, _plan: Plan) -> None:
        if not placed.answers:
            raise PlanError("could not write the plan: No space left on device")
        write_plan(_path, _plan)

    with monkeypatch.context() as patch:
        patch.setattr("pgflash.place.journal.write_plan", full)
        with pytest.raises(PlanError):
            placed.apply(path)
    rows.add()
    assert placed.apply(path).records[0].state is MoveState.DONE
    placed.undo(path)
    assert_wal_at_home(placed, folder)
    rows.check()


def test_a_journal_that_is_lost_after_the_switch_keeps_no_server_down(
    placed: PlacedServer, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = placed.server.base / "lost"
    path = placed.plan(move_to(folder), name="lost")
    rows.add()

    def full(_path: Path, _plan: Plan) -> None:
        if (placed.data / "pg_wal").is_symlink():
            raise PlanError("could not write the plan: No space left on device")
        write_plan(_path, _plan)

    with monkeypatch.context() as patch:
        patch.setattr("pgflash.place.journal.write_plan", full)
        with pytest.raises(PlanError):
            placed.apply(path)
    assert placed.wal_folder == folder
    rows.add()
    assert placed.apply(path).records[0].state is MoveState.DONE
    placed.undo(path)
    assert_wal_at_home(placed, folder)
    rows.check()


def test_a_server_with_a_logging_collector_is_started_as_it_was(placed: PlacedServer) -> None:
    folder = placed.server.base / "flash-log"
    with placed.server.connect() as connection:
        connection.execute("alter system set logging_collector = on")
        connection.execute("alter system set log_directory = 'log'")
    placed.stop()
    placed.start()
    path = placed.plan(move_to(folder), name="log")
    placed.apply(path)
    assert placed.wal_folder == folder
    with placed.server.connect() as connection:
        assert connection.execute("show logging_collector").fetchone() == ("on",)
    placed.undo(path)
    assert_wal_at_home(placed, folder)
    with placed.server.connect() as connection:
        connection.execute("alter system reset all")
    placed.stop()
    placed.start()
