# SPDX-License-Identifier: PostgreSQL
"""Copies in folders to which another user may write, for any user who runs pgflash.

A neighbour who may write to the new folder, or to one above it, puts links there that lead to files
of ours.  A copy must not write to, empty or change those files.
"""

import os
import threading
from pathlib import Path

import pytest

from pgflash.place import files
from pgflash.place.errors import PlaceError
from support.hostile import swap, swap_back


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "archive_status").mkdir(parents=True)
    (folder / "A").write_bytes(b"a" * (4 << 20))
    (folder / "archive_status" / "A.done").touch()
    return folder


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    folder = tmp_path / "dest"
    folder.mkdir()
    return folder


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder that no copy may touch."""
    folder = tmp_path / "precious"
    folder.mkdir(mode=0o755)
    (folder / "file").write_text("precious")
    (folder / "file").chmod(0o640)
    return folder


def assert_kept(precious: Path) -> None:
    assert [path.name for path in precious.iterdir()] == ["file"]
    assert (precious / "file").read_text() == "precious"
    assert (precious / "file").stat().st_mode & 0o777 == 0o640
    assert precious.stat().st_mode & 0o777 == 0o755


def mirror(source: Path, dest: Path) -> None:
    files.mirror(source, dest, beat=lambda _count: None, live=False)


@pytest.mark.parametrize("name", ["archive_status", "A", "A.pgflash-part", "of nobody"])
@pytest.mark.parametrize("leads_to", ["a folder", "a file"])
def test_a_link_in_the_new_folder_is_replaced_and_not_followed(
    source: Path, dest: Path, precious: Path, name: str, leads_to: str
) -> None:
    (dest / name).symlink_to(precious if leads_to == "a folder" else precious / "file")
    mirror(source, dest)
    assert_kept(precious)
    assert files.differences(source, dest) == []
    assert not any(path.is_symlink() for path in dest.iterdir())


def test_a_new_folder_that_is_a_link_is_not_filled(
    source: Path, dest: Path, precious: Path
) -> None:
    dest.rmdir()
    dest.symlink_to(precious)
    with pytest.raises(NotADirectoryError):
        mirror(source, dest)
    assert_kept(precious)


def test_a_new_folder_of_somebody_else_is_not_filled(
    source: Path, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the check he replaced it by another one of his."""
    monkeypatch.setattr(os, "geteuid", lambda: dest.stat().st_uid + 1)
    with pytest.raises(PlaceError, match="does not belong"):
        mirror(source, dest)
    assert list(dest.iterdir()) == []


def test_a_tree_is_removed_without_what_its_links_lead_to(dest: Path, precious: Path) -> None:
    (dest / "tree" / "below").mkdir(parents=True)
    (dest / "tree" / "below" / "link").symlink_to(precious)
    (dest / "tree" / "file").symlink_to(precious / "file")
    with files.opened(dest) as folder:
        files.remove(folder, "tree")
    assert list(dest.iterdir()) == []
    assert_kept(precious)


def test_a_pipe_among_the_files_keeps_nobody_waiting(source: Path, dest: Path) -> None:
    os.mkfifo(source / "pipe")
    with files.opened(source) as folder, pytest.raises(FileNotFoundError):
        files.read_file(folder, "pipe")
    with files.opened(source) as one, files.opened(dest) as other, pytest.raises(PlaceError):
        files.copy_file(one, other, "pipe", lambda _count: None, live=False)
    with pytest.raises(PlaceError, match="neither a file nor a folder"):
        mirror(source, dest)


@pytest.mark.parametrize("name", ["archive_status", "A", "A.pgflash-part"])
def test_what_is_swapped_all_the_time_leads_nobody_astray(
    source: Path, dest: Path, precious: Path, name: str
) -> None:
    over, bitten = threading.Event(), list[int]()

    def attack() -> None:
        while not over.is_set():
            try:
                bitten.append(swap(f"{dest}/{name}", precious / "file"))
                swap_back(f"{dest}/{name}")
            except OSError:
                continue

    thread = threading.Thread(target=attack)
    thread.start()
    try:
        while sum(bitten) < 20:
            (source / "A").touch()
            try:
                mirror(source, dest)
            except (OSError, PlaceError):
                continue
    finally:
        over.set()
        thread.join()
    assert_kept(precious)
