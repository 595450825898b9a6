# SPDX-License-Identifier: PostgreSQL
"""Which folder of WAL files is removed after a move: never the one that pg_wal leads to."""

import os
from pathlib import Path

import pytest

from pgflash.place.errors import PlaceError
from pgflash.place.walfolders import WalFolders

SEGMENT = "000000010000000000000001"
MARK = ".pgflash-wal"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory whose WAL is in the folder `new`, which still has our mark."""
    for name in ("data", "new"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "pg_wal").symlink_to(tmp_path / "new")
    for name in (SEGMENT, MARK):
        (tmp_path / "new" / name).touch()
    return tmp_path / "data"


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
    old = data.parent / "old"
    old.mkdir()
    for name in (SEGMENT, MARK):
        (old / name).touch()
    assert WalFolders(data).clean_up(old)
    assert not any(old.iterdir())


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
