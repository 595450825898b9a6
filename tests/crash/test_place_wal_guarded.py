# SPDX-License-Identifier: PostgreSQL
"""A server is not stopped for a move of its WAL that cannot succeed; no running one loses its WAL.

Everything that would prevent a restart is found before the server is stopped; and a server that
somebody else starts during the move keeps its WAL where it is.
"""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgflash.model.plan import Move, MoveKind, MoveState
from pgflash.place import PlaceError, Steps, look_at
from pgflash.place.control import ServerProcess
from pgflash.place.journal import read_plan
from pgflash.place.wal import WalMover
from pgflash_lab.account import ServerError
from pgflash_lab.postgres import PgInstall
from pgflash_lab.processes import servers_in
from support.cluster import ClusterFactory
from support.patience import eventually
from support.placed import PlacedServer, Rows, assert_wal_at_home, placed_server


@pytest.fixture(scope="module")
def placed(pg_install: PgInstall) -> Iterator[PlacedServer]:
    """One server for all tests here; each leaves its WAL in the data directory."""
    factory = ClusterFactory(pg_install)
    settings = {"min_wal_size": "2MB", "max_wal_size": "8MB"}
    with placed_server(factory, settings=settings, initdb_args=["--wal-segsize=1"]) as placed:
        yield placed
    factory.close()


@pytest.fixture
def rows(placed: PlacedServer) -> Rows:
    return Rows(placed)


def wal_to(placed: PlacedServer, name: str) -> Path:
    """Write a plan to move the WAL beside the data."""
    folder = placed.server.base / name
    return placed.plan(Move(kind=MoveKind.WAL, to=str(folder)), name=folder.name)


def assert_refused_untouched(placed: PlacedServer, path: Path, message: str) -> None:
    """Fail unless a plan is refused, and a session lives through it."""
    with placed.server.connect() as connection:
        with pytest.raises(PlaceError, match=message):
            placed.apply(path)
        assert connection.execute("select 1").fetchone() == (1,)
    assert placed.wal_folder == placed.data / "pg_wal"


def test_a_link_leads_to_another_place_and_back(placed: PlacedServer, rows: Rows) -> None:
    first, second = (placed.server.base / name for name in ("first", "second"))
    there = wal_to(placed, "first")
    placed.apply(there)
    further = wal_to(placed, "second")
    placed.apply(further)
    assert placed.wal_folder == second
    rows.add()
    placed.undo(further)
    assert placed.wal_folder == first
    assert not second.exists()
    rows.add()
    placed.undo(there)
    assert_wal_at_home(placed, first)
    rows.add()


def test_a_configuration_that_was_spoiled_since_the_start_is_found(placed: PlacedServer) -> None:
    configuration = placed.data / "postgresql.conf"
    former = configuration.read_text()
    path = wal_to(placed, "spoiled")
    configuration.write_text(f"{former}\nshared_bufers = 1GB\n")
    try:
        assert_refused_untouched(placed, path, 'would not start again: .*"shared_bufers"')
    finally:
        configuration.write_text(former)


def test_settings_that_wait_for_a_restart_are_named(placed: PlacedServer) -> None:
    path = wal_to(placed, "waiting")
    with placed.server.connect() as connection:
        connection.execute("alter system set max_connections = 150")
        connection.execute("select pg_reload_conf()")
        pending = "select count(*) from pg_settings where pending_restart"
        assert eventually(lambda: connection.execute(pending).fetchone() == (1,))
        (seen,) = look_at(read_plan(path), placed.dsn)
        connection.execute("alter system reset max_connections")
        connection.execute("select pg_reload_conf()")
    assert seen.look is not None
    assert any("take effect: max_connections" in text for text in seen.look.warnings)


def test_a_folder_that_the_server_could_not_enter_is_refused(placed: PlacedServer) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder where the server's user cannot")
    closed = placed.server.base / "closed"
    closed.mkdir(mode=0o700)
    path = wal_to(placed, "closed/entered")
    assert_refused_untouched(placed, path, f"cannot enter {closed}")
    assert list(closed.iterdir()) == []


def test_a_mounted_wal_folder_is_refused(placed: PlacedServer) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    wal = placed.data / "pg_wal"
    subprocess.run(["mount", "--bind", wal, wal], check=True)
    try:
        assert_refused_untouched(placed, wal_to(placed, "unmounted"), "pg_wal is a mount point")
    finally:
        subprocess.run(["umount", "--lazy", wal], check=True)


def test_a_server_that_was_started_by_a_relative_path_starts_again(
    placed: PlacedServer, rows: Rows
) -> None:
    placed.stop()
    words = ["pg_ctl", "start", "-D", placed.data.name, "-w", "-l", str(placed.server.log_path)]
    sockets = f"-c listen_addresses='' -c unix_socket_directories='{placed.server.socket_dir}'"
    placed.server.run([*words, "-o", sockets], cwd=placed.data.parent)
    assert f"\0-D\0{placed.data.name}\0".encode() in placed.started_with()[0]
    rows.add()
    path = wal_to(placed, "relative")
    assert placed.apply(path).records[0].state is MoveState.DONE
    rows.add()
    placed.undo(path)
    assert_wal_at_home(placed, placed.server.base / "relative")
    placed.stop()
    placed.start()


def test_a_server_that_starts_from_a_path_nobody_knows_is_left_running(
    placed: PlacedServer,
) -> None:
    """A configuration file is looked for from where the server is started."""
    placed.stop()
    for source, name in (("postgresql.conf", "own.conf"), ("pgflash.conf", "pgflash.conf")):
        placed.server.run(["/bin/cp", placed.data / source, placed.server.base / name])
    words = ["pg_ctl", "start", "-D", str(placed.data), "-w", "-l", str(placed.server.log_path)]
    sockets = f"-c listen_addresses='' -c unix_socket_directories='{placed.server.socket_dir}'"
    options = f"{sockets} -c config_file=own.conf"
    placed.server.run([*words, "-o", options], cwd=placed.server.base)
    assert_refused_untouched(placed, wal_to(placed, "unknown"), "would not start again: .*own.conf")
    placed.stop()
    placed.start()


def test_a_server_that_another_process_looks_after_is_not_stopped(placed: PlacedServer) -> None:
    placed.stop()
    sockets = (
        "-c",
        "listen_addresses=",
        "-c",
        f"unix_socket_directories={placed.server.socket_dir}",
    )
    again = 'while :; do "$@"; sleep 0.1; done'
    program = placed.server.install.program("postgres")
    words = ["/bin/sh", "-c", again, "looks-after", str(program), "-D", str(placed.data), *sockets]
    with placed.server.log_path.open("a") as log:
        keeper = placed.server.popen(words, stderr=log)
    try:
        assert eventually(lambda: placed.answers)
        message = rf"process {keeper.pid} \(\w+\) started this server"
        assert_refused_untouched(placed, wal_to(placed, "kept"), message)
    finally:
        keeper.kill()
        keeper.wait()
        placed.stop()
        placed.start()


# ---- somebody starts it during the move


def meanwhile(patch: pytest.MonkeyPatch, work: Callable[[], None]) -> None:
    """Do something after the rest has been copied, and before the names change."""
    exchange = WalMover._exchange

    def worked(mover: WalMover, control: str) -> None:
        work()
        exchange(mover, control)

    patch.setattr(WalMover, "_exchange", worked)


def test_a_server_that_somebody_else_starts_keeps_its_wal(
    placed: PlacedServer, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wal_to(placed, "started")
    with monkeypatch.context() as patch:
        meanwhile(patch, placed.start)
        with pytest.raises(PlaceError, match="something else started the server"):
            placed.apply(path)
    assert placed.wal_folder == placed.data / "pg_wal"
    rows.add()
    assert placed.apply(path).records[0].state is MoveState.DONE
    placed.undo(path)
    assert_wal_at_home(placed, placed.server.base / "started")
    rows.check()


def test_a_server_that_ran_meanwhile_keeps_its_wal(
    placed: PlacedServer, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wal_to(placed, "ran")

    def run() -> None:
        placed.start()
        rows.add()
        placed.stop()

    with monkeypatch.context() as patch:
        meanwhile(patch, run)
        with pytest.raises(PlaceError, match="started and stopped the server"):
            placed.apply(path)
    rows.add()
    placed.undo(path)
    assert_wal_at_home(placed, placed.server.base / "ran")
    rows.check()


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("copy while the server runs", "not shut down cleanly"),
        ("check", "has ended; it is running again with its WAL in .*/data/pg_wal$"),
    ],
)
def test_a_server_that_is_killed_within_a_move_comes_up_and_keeps_its_wal(
    placed: PlacedServer,
    rows: Rows,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    message: str,
) -> None:
    path = wal_to(placed, f"killed-{step[:5]}")
    at = Steps.at
    killed = list[str]()

    def at_and_kill(steps: Steps, name: str, *, work: float | None = None) -> None:
        at(steps, name, work=work)
        if name == step and not killed:
            killed.append(name)
            os.kill(int((placed.data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    rows.add()
    with monkeypatch.context() as patch:
        patch.setattr(Steps, "at", at_and_kill)
        with pytest.raises(PlaceError) as told:
            placed.apply(path)
    assert re.search(message, told.value.message)
    rows.add()
    assert placed.wal_folder == placed.data / "pg_wal"
    assert placed.apply(path).records[0].state is MoveState.DONE
    rows.add()
    placed.undo(path)
    assert_wal_at_home(placed, placed.server.base / path.stem)
    rows.check()


def test_a_move_that_does_not_look_who_else_starts_the_server_is_caught(
    placed: PlacedServer, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control, and the last test: what was committed meanwhile is lost."""
    path = wal_to(placed, "careless")

    def work() -> None:
        placed.start()
        with placed.server.connect() as connection:
            # More than the page that the next writer writes again.
            connection.execute("select pg_logical_emit_message(true, '', repeat('x', 100000))")
        rows.add()

    with monkeypatch.context() as patch:
        meanwhile(patch, work)
        patch.setattr(ServerProcess, "refuse_if_started", lambda _process: None)
        patch.setattr(WalMover, "_control_digest", lambda _mover: "always the same")
        assert placed.apply(path).records[0].state is MoveState.DONE
    kill_server(placed)
    with pytest.raises((AssertionError, ServerError)):
        start_and_check(placed, rows)


def kill_server(placed: PlacedServer) -> None:
    """Kill it, and wait until no process of it is left, not even a zombie."""
    number = int((placed.data / "postmaster.pid").read_text().split()[0])
    os.kill(number, signal.SIGKILL)
    assert eventually(lambda: not servers_in(placed.data) and not Path(f"/proc/{number}").exists())


def start_and_check(placed: PlacedServer, rows: Rows) -> None:
    placed.start()
    rows.check()
