# SPDX-License-Identifier: PostgreSQL
"""Folders are copied so that neither a kill, a power cut nor a busy server spoils the copy."""

import errno
import os
import time
from pathlib import Path

import pytest

from pgflash.place import files
from pgflash.place.errors import PlaceError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder such as pg_wal, untouched for a while."""
    folder = tmp_path / "source"
    (folder / "archive_status").mkdir(parents=True)
    for name, content in {"A": b"a" * 5000, "B": b"b" * 3000, "archive_status/A.done": b""}.items():
        (folder / name).write_bytes(content)
        settle(folder / name)
    return folder


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    folder = tmp_path / "dest"
    folder.mkdir()
    return folder


def settle(path: Path) -> None:
    """Make a file look as if it was last changed a minute ago."""
    minute_ago = time.time() - 60
    os.utime(path, (minute_ago, minute_ago))


def mirror(source: Path, dest: Path, *, live: bool = False, keep: str = "") -> int:
    """Mirror, and return how many bytes were copied."""
    copied = list[int]()
    files.mirror(source, dest, beat=copied.append, live=live, keep=keep)
    return sum(copied)


def test_a_mirror_has_the_same_files_owners_and_modes(source: Path, dest: Path) -> None:
    (source / "A").chmod(0o640)
    mirror(source, dest)
    assert (dest / "A").read_bytes() == b"a" * 5000
    assert (dest / "archive_status" / "A.done").exists()
    assert (dest / "A").stat().st_mode == (source / "A").stat().st_mode
    assert files.differences(source, dest) == []


def test_what_is_there_is_not_copied_again(source: Path, dest: Path) -> None:
    assert mirror(source, dest, live=True) == 8000
    assert mirror(source, dest) == 0
    (source / "B").write_bytes(b"c" * 3000)
    assert mirror(source, dest) == 3000
    assert (dest / "B").read_bytes() == b"c" * 3000


def test_a_file_that_may_still_be_changing_is_copied_again(source: Path, dest: Path) -> None:
    path = source / "A"
    path.write_bytes(b"1" * 5000)
    now = path.stat()
    mirror(source, dest, live=True)
    # Written once more within the same tick of the clock: its time does not show it.
    path.write_bytes(b"2" * 5000)
    os.utime(path, ns=(now.st_atime_ns, now.st_mtime_ns))
    mirror(source, dest)
    assert (dest / "A").read_bytes() == b"2" * 5000


def test_without_that_care_the_change_would_be_missed(
    source: Path, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the last one."""
    monkeypatch.setattr(files, "_SETTLED_NS", -(10**18))
    with pytest.raises(AssertionError):
        test_a_file_that_may_still_be_changing_is_copied_again(source, dest)


def test_a_copy_gets_its_time_only_after_it_was_synced(
    source: Path, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut must not leave a file that looks finished and is not."""
    order = list[str]()
    fsync, utime = os.fsync, os.utime

    def synced(number: int) -> None:
        order.append("sync")
        fsync(number)

    def timed(path: Path, *, ns: tuple[int, int]) -> None:
        order.append("time")
        utime(path, ns=ns)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "utime", timed)
    (source / "B").unlink()
    (source / "archive_status" / "A.done").unlink()
    mirror(source, dest)
    assert order[:2] == ["sync", "time"]
    # Then the folders, so that the names last, too.
    assert order[2:] == ["sync", "sync"]


def test_a_copy_that_fails_leaves_what_was_there(
    source: Path, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror(source, dest)
    (source / "A").write_bytes(b"new" * 2000)

    def full(_number: int, _view: memoryview) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        mirror(source, dest)
    assert (dest / "A").read_bytes() == b"a" * 5000


def test_what_the_source_lacks_goes_but_our_own_file_stays(source: Path, dest: Path) -> None:
    for name in ("C", "mark"):
        (dest / name).touch()
    (dest / "left").mkdir()
    (dest / "left" / "over").touch()
    mirror(source, dest, keep="mark")
    assert sorted(path.name for path in dest.iterdir()) == ["A", "B", "archive_status", "mark"]
    assert files.differences(source, dest, keep="mark") == []
    assert files.differences(source, dest) == ["mark"]


def test_a_file_that_vanishes_is_left_out_only_while_a_server_runs(
    source: Path, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status_of = files.status_of

    def gone(folder: int, name: str) -> os.stat_result:
        if name == "A":
            raise FileNotFoundError(errno.ENOENT, "gone")
        return status_of(folder, name)

    monkeypatch.setattr(files, "status_of", gone)
    assert mirror(source, dest, live=True) == 3000
    with pytest.raises(FileNotFoundError):
        mirror(source, dest)


def test_a_link_among_the_files_is_refused(source: Path, dest: Path) -> None:
    (source / "link").symlink_to("A")
    with pytest.raises(PlaceError, match="neither a file nor a folder"):
        mirror(source, dest)


def test_two_names_change_places_at_once(tmp_path: Path) -> None:
    folder, link = tmp_path / "pg_wal", tmp_path / "aside"
    folder.mkdir()
    (folder / "file").touch()
    link.symlink_to("elsewhere")
    assert files.can_exchange(tmp_path)
    files.exchange(folder, link)
    assert folder.is_symlink()
    assert (link / "file").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["aside", "pg_wal"]


def test_a_file_system_that_cannot_switch_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(_folder: int, _one: str, _other: str) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(files, "_rename_exchange", cannot)
    assert not files.can_exchange(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_room_is_asked_for_with_some_to_spare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = 1000 << 20
    needed = wanted + wanted // 20 + (64 << 20)
    monkeypatch.setattr(files, "free_bytes", lambda _path: needed)
    files.need_room(tmp_path / "not" / "there", wanted, "it")
    monkeypatch.setattr(files, "free_bytes", lambda _path: needed - 1)
    with pytest.raises(PlaceError, match=r"it needs 1,114 MB below .*, where 1,113 MB are free"):
        files.need_room(tmp_path / "not" / "there", wanted, "it")


def test_what_is_usable_is_what_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for free in (10 << 30, 100 << 20):
        monkeypatch.setattr(files, "free_bytes", lambda _path, free=free: free)
        files.need_room(tmp_path, files.usable_bytes(free), "it")
        with pytest.raises(PlaceError, match="it needs"):
            files.need_room(tmp_path, files.usable_bytes(free) + 2, "it")
    assert files.usable_bytes(1 << 20) == 0


def test_a_link_does_not_hide_that_a_folder_is_inside(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    assert files.is_inside(tmp_path / "link" / "wal", tmp_path / "data")
    assert not files.is_inside(tmp_path / "data2", tmp_path / "data")


def test_both_folders_of_a_temporary_folder_are_on_one_device(tmp_path: Path) -> None:
    assert files.same_device(tmp_path / "a" / "b", tmp_path)
    if Path("/proc/self").exists():
        assert not files.same_device(tmp_path, Path("/proc/self"))
