# SPDX-License-Identifier: PostgreSQL
"""Which folder of WAL files is removed after a move: never one that is some cluster's WAL."""

import os
import sys
from pathlib import Path

import pytest

from pgflash.place.errors import PlaceError
from pgflash.place.walfolders import WalFolders

SEGMENT = "000000010000000000000001"
MARK = ".pgflash-wal"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory whose WAL is in the folder `new`, which still has our mark."""
    data = a_cluster(tmp_path / "data", identifier=7)
    (tmp_path / "new").mkdir()
    (data / "pg_wal").symlink_to(tmp_path / "new")
    filled_for(data, tmp_path / "new")
    return data


def a_cluster(data: Path, *, identifier: int) -> Path:
    """Make a data directory without WAL."""
    (data / "global").mkdir(parents=True)
    content = identifier.to_bytes(8, sys.byteorder) + bytes(100)
    (data / "global" / "pg_control").write_bytes(content)
    return data


def filled_for(data: Path, folder: Path) -> Path:
    """Mark a folder for a cluster, and put a segment there."""
    folder.mkdir(exist_ok=True)
    assert WalFolders(data).claim(folder)
    (folder / SEGMENT).write_bytes(bytes(100))
    return folder


def test_the_wal_is_kept_by_whatever_name_it_is_reached(data: Path) -> None:
    (data.parent / "alias").symlink_to(data.parent)
    new = data.parent / "alias" / "new"
    assert not WalFolders(data).clean_up(new)
    assert os.listdir(new) == [SEGMENT]  # noqa: PTH208
    aside = data / "pg_wal.pgflash"
    aside.symlink_to(new)
    WalFolders(data).remove_aside()
    assert os.listdir(new) == [SEGMENT]  # noqa: PTH208
    assert not aside.is_symlink()


def test_a_copy_is_removed(data: Path) -> None:
    old = filled_for(data, data.parent / "old")
    assert WalFolders(data).clean_up(old)
    assert not any(old.iterdir())


@pytest.mark.parametrize("own", ["the WAL", "a copy"])
@pytest.mark.parametrize(("where", "identifier"), [("other", 8), ("other", 7), ("moved", 8)])
def test_another_cluster_s_wal_is_no_copy_of_ours(
    data: Path, where: str, identifier: int, own: str
) -> None:
    """Its move has not removed its mark yet, or was killed before."""
    name = "new" if own == "the WAL" else "copy"
    folder = filled_for(data, data.parent / name)
    if where == "moved":
        # Another machine's, whose data are at the same path, had this folder before.
        data.rename(data.parent / "away")
        other = a_cluster(data, identifier=identifier)
    else:
        other = a_cluster(data.parent / where, identifier=identifier)
    (other / "pg_wal").mkdir()
    before = sorted(path.name for path in folder.iterdir())
    assert not WalFolders(other).is_ours(folder)
    assert not WalFolders(other).claim(folder)
    assert not WalFolders(other).clean_up(folder)
    assert sorted(path.name for path in folder.iterdir()) == before == [MARK, SEGMENT]


def test_a_mark_that_was_half_written_stops_nobody(data: Path) -> None:
    folder = data.parent / "half"
    folder.mkdir()
    (folder / MARK).touch()
    folders = WalFolders(data)
    assert folders.is_ours(folder)
    assert folders.claim(folder)
    (folder / SEGMENT).write_bytes(bytes(100))
    assert folders.is_ours(folder)
    (folder / MARK).write_bytes(b"")
    assert not folders.is_ours(folder)


def test_what_an_interrupted_move_has_copied_is_counted(data: Path) -> None:
    folders, half = WalFolders(data), filled_for(data, data.parent / "half")
    assert folders.copied_bytes(half) == 100 + (half / MARK).stat().st_size
    assert folders.copied_bytes(data.parent / "nowhere") == 0
    (half / MARK).unlink()
    assert folders.copied_bytes(half) == 0
    assert folders.copied_bytes(folders.wal) == 0
    folders.aside.mkdir()
    (folders.aside / SEGMENT).write_bytes(bytes(100))
    assert folders.copied_bytes(folders.wal) == 100


def test_nothing_is_removed_while_pg_wal_leads_to_a_folder_of_others(data: Path) -> None:
    """The server's user swaps the folder for a link to another one, for a moment."""
    new, old = data.parent / "new", data.parent / "old"
    new.rename(old)
    if os.geteuid() == 0:
        others = data.parent / "others"
        others.mkdir()
        os.chown(others, 65534, 65534)
    else:
        others = Path("/usr")
    new.symlink_to(others)
    with pytest.raises(PlaceError, match="does not belong to the server's user any more"):
        WalFolders(data).clean_up(old)
    with pytest.raises(PlaceError, match="does not belong to the server's user any more"):
        WalFolders(data).copy(new.resolve(), old, live=False, beat=lambda _count: None)
    assert sorted(os.listdir(old)) == [MARK, SEGMENT]  # noqa: PTH208
