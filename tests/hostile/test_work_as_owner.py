# SPDX-License-Identifier: PostgreSQL
"""The child that works in a server's folders for root: its rights, and how it ends.

It runs as the attacker's user.  Other processes of that user must gain nothing by that: not what
root has open or in memory, and no rights.  They may kill it, or root's command may be killed: then
no process continues that nobody waits for.
"""

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pgflash.errors import PgflashError
from pgflash.model.plan import MoveState
from pgflash.place import PlaceError, Steps, look_at
from pgflash.place.journal import read_plan
from pgflash.place.owner import Owner, held, make_folder
from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.hostile import KINDS, moves, the_attacker
from support.patience import eventually
from support.placed import PlacedServer, Rows, placed_server

#: The facts about a process that /proc gives in one word.
FACTS = ("Uid", "Gid", "CapPrm", "CapEff", "NoNewPrivs")


@pytest.fixture
def owner() -> Owner:
    account = the_attacker()
    return Owner(uid=account.uid, gid=account.gid, mode=0o700)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can come to."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def facts() -> dict[str, str]:
    lines = (line.partition(":") for line in Path("/proc/self/status").read_text().splitlines())
    return {name: " ".join(value.split()) for name, _colon, value in lines if name in FACTS}


def test_it_is_the_owner_and_stays_so(owner: Owner) -> None:
    def work() -> list[object]:
        with pytest.raises(PermissionError):
            os.setuid(0)
        with pytest.raises(PermissionError):
            os.setgroups([0])
        return [facts(), sorted(os.getgroups()), str(Path.cwd())]

    told, groups, cwd = owner.do(work)
    uid, gid = str(owner.uid), str(owner.groups()[0])
    assert told == {
        "Uid": " ".join([uid] * 4),
        "Gid": " ".join([gid] * 4),
        "CapPrm": "0" * 16,
        "CapEff": "0" * 16,
        "NoNewPrivs": "1",
    }
    assert groups == sorted(owner.groups())
    assert cwd == "/"
    assert os.geteuid() == 0


def test_it_has_nothing_open_that_root_has(owner: Owner, folder: Path) -> None:
    secret, lock = folder / "secret", folder / "lock"
    with secret.open("w"), lock.open("w") as ours, held(ours.fileno()):

        def work() -> list[str]:
            open_files = Path("/proc/self/fd").iterdir()
            return sorted(str(one.readlink()) for one in open_files if one.exists())

        found = owner.do(work)
    assert str(secret) not in found
    assert [one for one in found if one.startswith("/")] == ["/dev/null"] * 3 + [str(lock)]


def test_other_processes_of_the_user_cannot_look_into_it(owner: Owner) -> None:
    """It has the memory of root's command, with passwords, and its pipe."""
    account = the_attacker()

    def look(process: int) -> str:
        words = "import os, sys; p = sys.argv[1]\nfor name in ('mem', 'environ', 'fd/1'):\n"
        words += "    try: os.open(f'/proc/{p}/{name}', os.O_RDONLY); print('open')\n"
        words += "    except OSError as error: print(error.errno)\n"
        done = subprocess.run(
            [sys.executable, "-c", words, str(process)],
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
            user=account.uid,
            group=account.gid,
            extra_groups=[],
        )
        return done.stdout

    seen = list[str]()

    def work(beat: Callable[[int], None]) -> None:
        beat(os.getpid())
        time.sleep(3600)

    def looked(process: int) -> None:
        seen.append(look(process))
        os.kill(process, signal.SIGKILL)

    with pytest.raises(PlaceError, match=r"was killed \(signal 9\)"):
        owner.do(work, beat=looked)
    assert seen == [f"{errno.EACCES}\n" * 3]


def test_what_it_cannot_do_is_said_as_if_root_had_tried(owner: Owner, folder: Path) -> None:
    with pytest.raises(PermissionError) as refused:
        owner.do(os.mkdir, folder / "new")
    assert refused.value.filename == str(folder / "new")

    def refuse() -> None:
        raise PlaceError("no", hint="why")

    with pytest.raises(PlaceError, match="no") as said:
        owner.do(refuse)
    assert said.value.hint == "why"
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        owner.do(lambda: 1 // 0)


def test_an_interrupt_ends_it(owner: Owner) -> None:
    def work(beat: Callable[[int], None]) -> None:
        beat(os.getpid())
        time.sleep(3600)

    ended = list[int]()

    def interrupted(process: int) -> None:
        ended.append(process)
        # A terminal sends it to both.
        os.kill(process, signal.SIGINT)
        assert Path(f"/proc/{process}").exists()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        owner.do(work, beat=interrupted)
    assert not Path(f"/proc/{ended[0]}").exists()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_it_ends_with_root_s_command_and_keeps_the_lock_until_then(
    owner: Owner, folder: Path
) -> None:
    lock = folder / "lock"
    lock.touch()
    told, tell = os.pipe()
    command = os.fork()
    if command == 0:
        with lock.open() as ours, held(ours.fileno()):
            fcntl.flock(ours, fcntl.LOCK_EX)

            def work(beat: Callable[[int], None]) -> None:
                beat(os.getpid())
                time.sleep(3600)

            def passed_on(process: int) -> None:
                os.write(tell, b"%d" % process)

            owner.do(work, beat=passed_on)
        os._exit(1)
    worker = int(os.read(told, 20))
    with lock.open() as ours:
        # Stopped, it cannot end yet: the kernel kills it as soon as the command is gone.
        with pytest.raises(BlockingIOError):
            fcntl.flock(ours, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.kill(command, signal.SIGKILL)
        os.waitpid(command, 0)
        fcntl.flock(ours, fcntl.LOCK_EX)
    assert eventually(lambda: not is_alive(worker))
    os.close(told)
    os.close(tell)


def is_alive(process: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


# ---- the folder that was asked for


def test_root_makes_a_folder_where_only_root_can_change_the_way(owner: Owner, folder: Path) -> None:
    assert make_folder(folder / "new", owner, was_asked_for=True)
    status = (folder / "new").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (owner.uid, owner.gid, 0o700)
    assert not make_folder(folder / "new", owner, was_asked_for=True)
    assert [path.name for path in folder.iterdir()] == ["new"]


def test_root_makes_none_that_only_the_server_named(owner: Owner, folder: Path) -> None:
    with pytest.raises(PlaceError, match="could not make"):
        make_folder(folder / "new", owner, was_asked_for=False)
    assert list(folder.iterdir()) == []


def test_root_makes_none_where_others_write(owner: Owner, folder: Path) -> None:
    theirs = folder / "theirs"
    theirs.mkdir()
    theirs.chmod(0o775)
    os.chown(theirs, 0, 12345)
    with pytest.raises(PlaceError, match="could not make"):
        make_folder(theirs / "new", owner, was_asked_for=True)
    assert list(theirs.iterdir()) == []


def test_a_folder_of_the_server_s_own_is_made_as_its_user(owner: Owner, folder: Path) -> None:
    own = make_server_dir(folder / "own")
    assert make_folder(own / "new", owner, was_asked_for=True)
    assert (own / "new").stat().st_uid == owner.uid


def test_a_kill_before_the_folder_is_given_away_is_gone_on_with(
    owner: Owner, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "fchown", lambda *_args: os.kill(os.getpid(), signal.SIGKILL))
        child = os.fork()
        if child == 0:
            make_folder(folder / "new", owner, was_asked_for=True)
            os._exit(0)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert not (folder / "new").exists()
    assert make_folder(folder / "new", owner, was_asked_for=True)
    assert [path.name for path in folder.iterdir()] == ["new"]


# ---- a whole move


@pytest.fixture(scope="module")
def placed(pg_install: PgInstall) -> Iterator[PlacedServer]:
    the_attacker()
    factory = ClusterFactory(pg_install)
    settings = {"archive_mode": "on", "min_wal_size": "2MB", "max_wal_size": "8MB"}
    with placed_server(factory, settings=settings, initdb_args=["--wal-segsize=1"]) as placed:
        archive = placed.folder("archive")
        with placed.server.connect() as connection:
            connection.execute("create table a as select n from generate_series(1, 1000) n")
            connection.execute("create index a_n on a (n)")
            connection.execute(f"alter system set archive_command = 'cp %p {archive}/%f'")
            connection.execute("select pg_reload_conf()")
        yield placed
    factory.close()


@pytest.mark.parametrize("step", ["copy while the server runs", "copy the rest"])
def test_a_move_whose_child_is_killed_is_gone_on_with(
    placed: PlacedServer, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The server's user kills root's child: his server keeps all it has committed."""
    rows = Rows(placed)
    folder = placed.server.base / f"killed-{len(step)}"
    path = placed.plan(moves(folder)["wal"], name=folder.name)
    at, do = Steps.at, Owner.do
    steps_made, killed = [""], list[str]()

    def noted(steps: Steps, name: str, *, work: float | None = None) -> None:
        steps_made.append(name)
        at(steps, name, work=work)

    def do_and_die(owner: Owner, work: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401
        if killed or steps_made[-1] != step or "beat" not in options:
            return do(owner, work, *args, **options)
        killed.append(step)

        def cut(*args: Any, **options: Any) -> None:  # noqa: ANN401
            options["beat"] = lambda _done: os.kill(os.getpid(), signal.SIGKILL)
            work(*args, **options)

        return do(owner, cut, *args, **options)

    rows.add()
    with monkeypatch.context() as patch:
        patch.setattr(Steps, "at", noted)
        patch.setattr(Owner, "do", do_and_die)
        with pytest.raises(PlaceError, match="was killed"):
            placed.apply(path)
    assert placed.wal_folder == placed.data / "pg_wal"
    rows.add()
    assert placed.apply(path).records[0].state is MoveState.DONE
    assert placed.wal_folder == folder
    rows.add()
    placed.undo(path)
    rows.check()


# ---- the whole class: root itself opens, lists, makes, changes and removes nothing by name


_EVENTS = {
    *("open", "os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.link", "os.symlink"),
    *("os.chmod", "os.chown", "os.truncate", "os.utime", "os.listdir", "os.scandir", "os.chdir"),
}


class RootsDeeds:
    """What root's own process does to files of a server, as the interpreter reports it."""

    def __init__(self, placed: PlacedServer) -> None:
        self._placed = placed
        self._is_on = False
        self._process = os.getpid()
        self.found = list[str]()
        sys.addaudithook(self._hear)

    def __enter__(self) -> "RootsDeeds":
        self._is_on = True
        return self

    def __exit__(self, *_exc: object) -> None:
        self._is_on = False

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._is_on or event not in _EVENTS or os.getpid() != self._process:
            return
        what = args[0]
        if event == "open" and isinstance(what, int):
            return  # it was open before
        if isinstance(what, int):
            with contextlib.suppress(OSError):
                what = os.readlink(f"/proc/self/fd/{what}")  # noqa: PTH115
        name = "" if what is None else os.fsdecode(what)
        if name.startswith(f"{self._placed.server.base}/") and not self._is_lock(event, args):
            self.found.append(f"{event} {name}")
        # Beside an open folder: of a plan, a lock, or on the way to them.
        is_a_plan = name.startswith(("/", ".")) or name.endswith(".json")
        if event == "open" and not is_a_plan and not args[2] & os.O_PATH:
            self.found.append(f"{event} {name}")

    def _is_lock(self, event: str, args: tuple[Any, ...]) -> bool:
        """Say whether the data directory is opened, to be locked."""
        only_looked_at = os.O_DIRECTORY | os.O_NOFOLLOW
        return event == "open" and (
            Path(args[0]) == self._placed.data and args[2] & only_looked_at == only_looked_at
        )


@pytest.fixture(scope="module")
def deeds(placed: PlacedServer) -> RootsDeeds:
    """One for all tests: the interpreter never forgets who listens."""
    return RootsDeeds(placed)


def go_there_and_back(placed: PlacedServer, kind: str, name: str) -> None:
    """Look at a move, make it and undo it."""
    path = placed.plan(moves(placed.server.base / name)[kind], name=name)
    look_at(read_plan(path), placed.dsn)
    assert placed.apply(path).records[0].state is MoveState.DONE
    assert placed.undo(path).records[0].state is MoveState.UNDONE


@pytest.mark.parametrize("kind", KINDS)
def test_root_itself_touches_no_file_of_the_server(
    placed: PlacedServer, deeds: RootsDeeds, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What the server's user may rename at any moment, root must not name."""
    users = list[object]()
    popen = subprocess.Popen.__init__

    def started(self: Any, *args: Any, **options: Any) -> None:  # noqa: ANN401
        users.append(options.get("user"))
        popen(self, *args, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", started)
    deeds.found.clear()
    with deeds:
        go_there_and_back(placed, kind, f"seen-{kind}")
    assert deeds.found == []
    assert set(users) <= {the_attacker().uid}
    assert users or kind != "wal"


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_where_only_root_may_write_is_made_filled_and_left(
    placed: PlacedServer, kind: str
) -> None:
    folder = placed.plans / f"by-root-{kind}"
    path = placed.plan(moves(folder)[kind], name=f"by-root-{kind}")
    assert placed.apply(path).records[0].state is MoveState.DONE
    assert folder.stat().st_uid == the_attacker().uid
    assert any(folder.iterdir())
    assert placed.undo(path).records[0].state is MoveState.UNDONE
    # The folder of a WAL goes with it; the others hold what is not ours to remove.
    assert folder.exists() == (kind != "wal")


@pytest.mark.parametrize("kind", KINDS)
def test_root_who_works_himself_is_caught(
    placed: PlacedServer, deeds: RootsDeeds, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The negative control of the last one."""

    def do(_owner: Owner, work: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401
        return work(*args, **options)

    monkeypatch.setattr(Owner, "do", do)
    deeds.found.clear()
    with deeds, contextlib.suppress(PgflashError):
        # What root has made is root's, so it may go no further than that.
        go_there_and_back(placed, kind, f"caught-{kind}")
    assert deeds.found
