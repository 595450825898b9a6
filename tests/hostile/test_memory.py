# SPDX-License-Identifier: PostgreSQL
"""Removing the memory of caches: any user may create files in /dev/shm.

An administrator, as root, has pgflash remove what killed servers have left there.  Mallory,
another user of the machine, plants links, pipes, folders and files under such names, so that
something else is opened, removed, or waited for.  Memory that a server still uses, in a container
whose processes are not visible, must stay.

Only what these tests made is removed: other servers' memory is in the real folder, too.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgflash.cli import main
from pgflash.collect import memory
from pgflash.collect.memory import MemoryState, list_memory, remove_memory
from pgflash.errors import PgflashError
from pgflash_lab.postgres import PgInstall
from support.cached import create_cached
from support.cluster import ClusterFactory
from support.commands import failure, output
from support.patience import eventually
from support.warm import crash, create_warm, memory_of, start_again

MALLORY, VICTIM = 65533, 65532
InstallOf = Callable[[str], PgInstall]


# ---- servers


@pytest.mark.extension
def test_what_a_server_uses_is_told_and_never_removed(
    cluster: ClusterFactory,
    pgflash_install: PgInstall,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cached = create_cached(cluster, pgflash_install)
    (path,) = memory_of(cached)
    (one,) = (one for one in list_memory() if one.name == path.name)
    assert (one.state, one.data_directory) == (MemoryState.USED, str(cached.server.data))
    assert one.pids
    assert one.size_bytes == path.stat().st_size
    assert "is used by a server" in _refused(capsys, path.name)
    # Run where its processes are not visible.
    monkeypatch.setattr(memory, "_mapped", dict)
    (one,) = (one for one in list_memory() if one.name == path.name)
    assert (one.state, one.pids) == (MemoryState.USED, ())
    assert "is used by a server" in _refused(capsys, path.name)
    assert path.exists()


def test_control_without_the_lock_memory_of_an_unseen_server_would_go(
    cluster: ClusterFactory,
    broken_install: InstallOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cached = create_cached(cluster, broken_install("MEMORY_LOCK"))
    (path,) = memory_of(cached)
    with pytest.raises(PgflashError, match="is used"):
        remove_memory(path.name)  # its processes are seen
    monkeypatch.setattr(memory, "_mapped", dict)
    remove_memory(path.name)
    assert not path.exists()


@pytest.mark.extension
def test_what_a_killed_server_left_is_warm_until_it_is_removed(
    cluster: ClusterFactory, pgflash_install: PgInstall, capsys: pytest.CaptureFixture[str]
) -> None:
    cached = create_warm(cluster, pgflash_install)
    data = str(cached.server.data)
    crash(cached)
    (path,) = memory_of(cached)
    (one,) = (one for one in list_memory([cached.server.data]) if one.name == path.name)
    assert (one.state, one.data_directory, one.pids) == (MemoryState.LEFT, data, ())
    assert start_again(cached).startswith("warm: its memory")
    crash(cached)
    said = output(capsys, "memory", "--data", data, "remove", path.name, "--yes")
    assert data in said
    assert f"Removed: {path.name}" in said
    assert not path.exists()
    assert start_again(cached).startswith("cold: ")


def _refused(capsys: pytest.CaptureFixture[str], name: str) -> str:
    code = main(["memory", "remove", name, "--yes"])
    captured = capsys.readouterr()
    assert code == 1
    return captured.err


# ---- strangers


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder as /dev/shm is, with memory of the victim's: one left over, one in use."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be several users")
    path = Path(tempfile.mkdtemp(prefix="pgflash-memory-"))
    path.chmod(0o1777)
    monkeypatch.setattr(memory, "FOLDER", path)
    for name in ("left", "used"):
        _make(path / _memory_name(VICTIM, name), VICTIM)
    with (path / _memory_name(VICTIM, "used")).open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        yield path
    shutil.rmtree(path)


def _memory_name(user: int, word: str) -> str:
    return f"pgflash.{user}.fe00.{word.encode().hex()}"


def _make(path: Path, user: int) -> None:
    path.write_bytes(b"memory")
    path.chmod(0o600)
    os.chown(path, user, user)


def _as_user(user: int, work: Callable[[], object]) -> None:
    """Do something as a user, in a separate process; fail unless it ends by itself."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            work()
            code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _plant(folder: Path, target: Path) -> None:
    """Create all that Mallory can: each under a name of hers, and one of the victim's."""
    for user in (MALLORY, VICTIM):
        (folder / _memory_name(user, "link")).symlink_to(target)
        (folder / _memory_name(user, "dangling")).symlink_to("/nowhere/at/all")
        os.mkfifo(folder / _memory_name(user, "pipe"), 0o600)
        (folder / _memory_name(user, "folder")).mkdir()
        (folder / _memory_name(user, "open")).write_bytes(b"")
        (folder / _memory_name(user, "open")).chmod(0o666)
        twice = folder / _memory_name(user, "twice")
        twice.write_bytes(b"")
        twice.chmod(0o600)
        (folder / f"other-{user}").hardlink_to(twice)
    (folder / _memory_name(VICTIM, "hers")).write_bytes(b"hers")
    (folder / _memory_name(VICTIM, "hers")).chmod(0o600)
    (folder / "pgflash.1.2.3\nRemoved: all").write_bytes(b"")
    (folder / "pgflash.x.y.z").write_bytes(b"")


def test_nothing_that_was_planted_is_followed_or_removed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mallory plants; root removes what is left over: the victim's one, and nothing else."""
    target = tmp_path / "target"
    target.write_text("root's")
    target.chmod(0o600)
    _as_user(MALLORY, lambda: _plant(folder, target))
    before = {path.name for path in folder.iterdir()}
    left = _memory_name(VICTIM, "left")
    found = {one.name: one.state for one in list_memory()}
    assert found.pop(left) is MemoryState.LEFT
    assert found.pop(_memory_name(VICTIM, "used")) is MemoryState.USED
    assert len(found) == 13
    assert set(found.values()) == {MemoryState.STRANGE}
    assert "Removed" in output(capsys, "memory", "remove", "--yes")
    assert {path.name for path in folder.iterdir()} == before - {left}
    assert target.read_text() == "root's"
    for name in found:
        with pytest.raises(PgflashError, match="not a server's memory"):
            remove_memory(name)
    assert {path.name for path in folder.iterdir()} == before - {left}


def test_who_is_not_root_sees_and_removes_his_own_only(folder: Path) -> None:
    """Mallory runs the command herself, on memory of the victim's."""
    own = _memory_name(MALLORY, "own")
    _make(folder / own, MALLORY)

    def work() -> None:
        assert [one.name for one in list_memory()] == [own]
        for word in ("left", "used"):
            with pytest.raises(PgflashError):
                remove_memory(_memory_name(VICTIM, word))
        remove_memory(own)

    _as_user(MALLORY, work)
    assert len([*folder.iterdir()]) == 2


def test_a_folder_in_which_names_can_be_given_away_is_refused(folder: Path) -> None:
    """Where it is not sticky, Mallory could put the victim's files in each other's place."""
    folder.chmod(0o777)
    with pytest.raises(PgflashError, match="any user may replace"):
        list_memory()
    with pytest.raises(PgflashError, match="any user may replace"):
        remove_memory(_memory_name(VICTIM, "left"))
    assert len([*folder.iterdir()]) == 2


def test_a_name_that_is_swapped_all_the_time_leads_nowhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mallory swaps a file of hers for a link to root's, again and again, while root removes."""
    target = tmp_path / "target"
    target.write_text("root's")
    name = _memory_name(MALLORY, "swapped")

    def swap() -> None:
        """Until the folder has a file that says so."""
        while not (folder / "enough").exists():
            (folder / "new").write_bytes(b"")
            (folder / "new").chmod(0o600)
            os.utime(folder / "new", (0, 0))  # so it is none that is being made
            (folder / "new").rename(folder / name)
            (folder / "link").symlink_to(target)
            (folder / "link").rename(folder / name)

    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            _as_mallory()
            swap()
        os._exit(0)
    # Reading all processes of a busy machine takes long, and is not what is tested.
    monkeypatch.setattr(memory, "_mapped", dict)
    removed = []

    def removed_often() -> bool:
        with contextlib.suppress(PgflashError):
            remove_memory(name)
            removed.append(name)
        return len(removed) >= 20

    try:
        assert eventually(removed_often, pause=lambda: None)
    finally:
        (folder / "enough").write_bytes(b"")
        os.waitpid(child, 0)
    assert target.read_text() == "root's"
    assert (folder / _memory_name(VICTIM, "used")).exists()
    assert (folder / _memory_name(VICTIM, "left")).exists()


def _as_mallory() -> None:
    os.setgroups([])
    os.setgid(MALLORY)
    os.setuid(MALLORY)


@pytest.mark.parametrize("name", ["../passwd", "pgflash.0.1.2/../x", "PostgreSQL.1", "", "."])
def test_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], name: str) -> None:
    with pytest.raises(PgflashError, match="is no name"):
        remove_memory(name)
    assert "there is no" in failure(capsys, 1, "memory", "remove", "--yes", name)
