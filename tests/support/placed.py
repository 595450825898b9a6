# SPDX-License-Identifier: PostgreSQL
"""Servers whose parts are moved: started by pg_ctl like an administrator's, and killed movers.

A server of the lab is a child of its driver; one that pgflash has restarted is not.  So here pg_ctl
starts it from the beginning; a guard, which learns from the end of a pipe that the tests have
ended, stops it even if they are killed.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from pgflash.model.plan import Move, Plan
from pgflash.place import Cluster, Journal, Steps, apply_plan, moves_for, plan_for, undo_plan
from pgflash.place.journal import read_plan, write_plan
from pgflash_lab.account import ServerError, make_server_dir
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import PATIENCE_S, until

#: A variable of the server that a restart must preserve.
MARK = "PLACED_SERVER_MARK"

#: Stops the server when its driver ends, of which a signal tells it, too.
GUARD = 'trap "" TERM; read -r _; "$0" stop -D "$1" -m immediate >/dev/null 2>&1'


class PlacedServer:
    """A server started by pg_ctl."""

    def __init__(self, server: Server, env: Mapping[str, str] | None = None) -> None:
        """Start it with the caller's variables, and with a guard."""
        self.server = server
        self.data = server.data
        self._env = {**(env or {}), MARK: "kept"}
        self.start()
        self._guard = server.popen(
            ["/bin/sh", "-c", GUARD, server.install.program("pg_ctl"), self.data],
            stdin=subprocess.PIPE,
        )

    @property
    def dsn(self) -> str:
        """Its connection string."""
        return self.server.conninfo()

    @property
    def wal_folder(self) -> Path:
        """The real place of its WAL."""
        return (self.data / "pg_wal").resolve()

    def start(self) -> None:
        """Start it without pgflash, as anybody may."""
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.server.socket_dir}'"
        self.server.configure({})
        data, log, wait_s = str(self.data), str(self.server.log_path), str(int(PATIENCE_S))
        words = ["pg_ctl", "start", "-D", data, "-w", "-t", wait_s, "-l", log, "-o", options]
        self.server.run(words, extra_env=self._env, timeout_s=2 * PATIENCE_S)

    def started_with(self) -> tuple[bytes, bool]:
        """Return the arguments of the running server, and whether it has our variable."""
        pid = (self.data / "postmaster.pid").read_text().split()[0]
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return Path(f"/proc/{pid}/cmdline").read_bytes(), f"{MARK}=kept".encode() in variables

    def stop(self, mode: str = "fast") -> None:
        """Stop it."""
        words = ["pg_ctl", "stop", "-D", str(self.data), "-m", mode, "-w"]
        self.server.run(words, check=False, timeout_s=PATIENCE_S)

    def restart_commands(self, condition: str = "true") -> dict[str, str]:
        """Return commands of which the start fails unless a condition of the shell holds."""
        server = self.server
        user = "" if server.account is None else f"setpriv --reuid={server.account.uid} "
        library = f"LD_LIBRARY_PATH={server.install.env.get('LD_LIBRARY_PATH', '')} "
        control = f"{library}{user}{server.install.program('pg_ctl')}"
        options = f"-c listen_addresses= -c unix_socket_directories={server.socket_dir}"
        return {
            "stop_command": f"{control} stop -D {self.data} -m fast",
            "start_command": f"{condition} && {control} start -w -D {self.data} "
            f"-l {server.log_path} -o '{options}'",
        }

    @property
    def answers(self) -> bool:
        """Whether it takes connections."""
        try:
            self.server.connect().close()
        except psycopg.Error:
            return False
        return True

    def start_again(self) -> None:
        """Start it unless it answers: one that crashed may be about to end, or be in recovery."""

        def started() -> bool:
            with contextlib.suppress(ServerError):
                self.start()
            return self.answers

        until(lambda: self.answers or started())

    def folder(self, name: str) -> Path:
        """Return an empty folder beside the data that belongs to the server's user."""
        return make_server_dir(self.server.base / name)

    def tablespace(self, name: str) -> str:
        """Return a new tablespace."""
        folder = self.folder(f"space-{name}")
        with self.server.connect() as connection:
            connection.execute(f"create tablespace {name} location '{folder}'")
        return name

    @property
    def plans(self) -> Path:
        """The folder of plans."""
        return self.server.base.parent

    def plan(self, *asked: Move, name: str = "plan") -> Path:
        """Write a plan of moves to a file that the server's user cannot change."""
        path = self.plans / f"{name}.json"
        with Cluster(self.dsn) as cluster:
            moves = [move for one in asked for move in moves_for(cluster, one)]
            write_plan(path, plan_for(cluster, moves, id=name, now=datetime.now(UTC)))
        return path

    def apply(self, path: Path) -> Plan:
        """Carry out a plan."""
        apply_plan(Journal(path, read_plan(path)), self.dsn)
        return read_plan(path)

    def undo(self, path: Path) -> Plan:
        """Undo a plan."""
        undo_plan(Journal(path, read_plan(path)), self.dsn)
        return read_plan(path)

    def close(self) -> None:
        """Stop it for good."""
        self.stop("immediate")
        self.server.stop_leftover()
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(PATIENCE_S)


@contextlib.contextmanager
def placed_server(
    factory: ClusterFactory,
    *,
    env: Callable[[Server], Mapping[str, str]] = lambda _server: {},
    **options: object,
) -> Iterator[PlacedServer]:
    """Yield a server that ends with the block; ENV are the variables it is started with."""
    server = factory(start=False, **options)  # type: ignore[arg-type]
    placed = PlacedServer(server, env(server))
    try:
        yield placed
    finally:
        placed.close()


# ---- what must hold


class Rows:
    """The committed rows: each of them has to stay forever."""

    def __init__(self, placed: PlacedServer) -> None:
        self._placed = placed
        self.committed = 0
        with placed.server.connect() as connection:
            connection.execute("create table if not exists kept (n int)")
            connection.execute("truncate kept")

    def add(self) -> None:
        """Commit one more row, and check."""
        with self._placed.server.connect() as connection:
            connection.execute("insert into kept values (1)")
        self.committed += 1
        self.check()

    def check(self) -> None:
        """Fail if a row is missing."""
        with self._placed.server.connect() as connection:
            row = connection.execute("select count(*) from kept").fetchone()
        assert row == (self.committed,)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_wal_at_home(placed: PlacedServer, folder: Path) -> None:
    """Fail unless the WAL is in the data directory, as after initdb, and nothing is beside it."""
    assert placed.wal_folder == placed.data / "pg_wal"
    assert not (placed.data / "pg_wal").is_symlink()
    assert "pg_wal.pgflash" not in names(placed.data)
    assert not folder.exists()


# ---- interruptions

#: apply_plan() or undo_plan().
Work = Callable[[Journal, str], None]

#: A place where a move can be interrupted: a step or a statement, and how often it was reached.
Place = tuple[str, int]

#: Copied files are all alike: a move is interrupted in the first one of a step.
_COPYING = " (copying)"
_COPYING_TIMES = {1}
#: Settings of our own session change nothing permanent.
_OWN = ("limit the wait", "reset the limit", "load ")


class _Cuts:
    """Reports the places that are reached, and ends the process at one of them."""

    def __init__(self, pipe: int, cut_at: Place | None) -> None:
        self._pipe = pipe
        self._cut_at = cut_at
        self._times = Counter[str]()

    def come_to(self, place: str) -> None:
        """Report a place to the parent, or go no further."""
        self._times[place] += 1
        os.write(self._pipe, f"{place}\n".encode())
        if (place, self._times[place]) == self._cut_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch_statements(self) -> None:
        """Report a place before and after each statement that changes the server."""
        run = Cluster.run

        def watched(cluster: Cluster, statement: Any, *, database: str = "", doing: str) -> None:  # noqa: ANN401
            if doing.startswith(_OWN):
                return run(cluster, statement, database=database, doing=doing)
            self.come_to(f"before: {doing}")
            run(cluster, statement, database=database, doing=doing)
            self.come_to(f"after: {doing}")

        Cluster.run = watched  # type: ignore[assignment,method-assign]


class _CutOffSteps(Steps):
    def __init__(self, journal: Journal, index: int, cuts: _Cuts) -> None:
        super().__init__(journal, index)
        self._cuts = cuts

    def at(self, step: str, *, work: float | None = None) -> None:
        super().at(step, work=work)
        self._cuts.come_to(step)

    def beat(self, done: float) -> None:
        super().beat(done)
        self._cuts.come_to(f"{self.record.step}{_COPYING}")


class _CutOffJournal(Journal):
    def __init__(self, path: Path, plan: Plan, cuts: _Cuts) -> None:
        super().__init__(path, plan)
        self._cuts = cuts

    def steps(self, index: int) -> Steps:
        return _CutOffSteps(self, index, self._cuts)


def cut_off(work: Work, path: Path, dsn: str, place: Place | None) -> list[Place] | None:
    """Apply or undo a plan in a process, and kill it at a place; None: it was killed.

    Without a place, or if it never reaches the place, the process ends by itself: return the places
    that it reached.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            cuts = _Cuts(writer, place)
            cuts.watch_statements()
            work(_CutOffJournal(path, read_plan(path), cuts), dsn)
            code = 0
        except BaseException as error:
            os.write(writer, f"raised {error!r}".encode())
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    _pid, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return None
    assert os.WEXITSTATUS(status) == 0, said
    times: Counter[str] = Counter()
    places = []
    for step in said.splitlines():
        times[step] += 1
        if not step.endswith(_COPYING) or times[step] in _COPYING_TIMES:
            places.append((step, times[step]))
    return places


# ---- room


class PeakWatch:
    """Records the maximum growth of folders."""

    def __init__(self, **folders: Path) -> None:
        self._folders = folders
        self._begun = {name: _size(folder) for name, folder in folders.items()}
        self._most = dict(self._begun)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "PeakWatch":
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S)

    @property
    def grown(self) -> dict[str, int]:
        """The maximum growth of each in bytes."""
        return {name: most - self._begun[name] for name, most in self._most.items()}

    def _work(self) -> None:
        while not self._over.wait(0.003):
            self._look()
        self._look()  # possibly the first look, on a machine that stalls

    def _look(self) -> None:
        for name, folder in self._folders.items():
            self._most[name] = max(self._most[name], _size(folder))


def _size(folder: Path) -> int:
    """Return the size of all files below a folder; some may appear or vanish meanwhile."""
    total = 0
    for path, _folders, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(path) / name).stat().st_size
    return total


# ---- stalls


class StallWatch:
    """Repeats a small operation, and records the longest time that it took.

    If the server does not answer, the operation is repeated until it does: that time counts.
    """

    def __init__(self, dsn: str, statement: str) -> None:
        self._dsn = dsn
        self._statement = statement
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.longest_s = 0.0
        self.done = 0

    def __enter__(self) -> "StallWatch":
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S)

    def _work(self) -> None:
        last = time.monotonic()
        while not self._over.is_set():
            with (
                contextlib.suppress(psycopg.Error),
                psycopg.connect(self._dsn, autocommit=True) as connection,
            ):
                while not self._over.is_set():
                    connection.execute(self._statement)
                    now = time.monotonic()
                    self.longest_s = max(self.longest_s, now - last)
                    self.done += 1
                    last = now
                    time.sleep(0.002)
