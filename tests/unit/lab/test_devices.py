# SPDX-License-Identifier: PostgreSQL
"""Where a run's files are, and that they are removed."""

import dataclasses
import fcntl
from pathlib import Path

import pytest

from pgflash.errors import UsageError
from pgflash_lab import devices
from pgflash_lab.account import reachable_dir
from support.runs import ALL, BASELINE, BOTH, WAL


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that the lab takes for its memory."""
    tmp_path.chmod(0o755)
    monkeypatch.setattr(devices, "MEMORY", tmp_path)
    return tmp_path


def test_folders_exist_during_the_run_and_not_after_it(place: Path) -> None:
    with devices.emulated_folders(place, needed_bytes=0) as folders:
        assert folders.array.is_dir()
        assert folders.flash.is_dir()
        assert folders.array.is_relative_to(place)
    assert list(place.iterdir()) == []


def test_folders_go_away_when_the_run_fails(place: Path) -> None:
    with pytest.raises(KeyboardInterrupt), devices.emulated_folders(place, needed_bytes=0):
        raise KeyboardInterrupt
    assert list(place.iterdir()) == []


def test_what_a_killed_lab_left_is_cleared_and_a_living_labs_is_not(place: Path) -> None:
    dead, living, other = (place / f"pgflash-lab-{name}" for name in ("dead", "living", "other"))
    for folder in (dead, living, other):
        folder.mkdir()
    (dead / "in-use").touch()
    (dead / "gigabytes").touch()
    with (living / "in-use").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert devices.clear_leftovers(place) == [dead]
    assert not dead.exists()
    assert living.exists()
    assert other.exists()


def test_an_approach_decides_where_its_files_live() -> None:
    folders = devices.Folders(array=Path("/a"), flash=Path("/f"), flash_2=Path("/g"))
    assert folders.places(BASELINE) == devices.Places(
        base=Path("/a/server"),
        wal=None,
        cache_files=(),
        tablespaces={"flash": Path("/f/tablespace")},
        archive=None,
    )
    assert folders.places(WAL).wal == Path("/f/wal")
    assert folders.places(BOTH).cache_files == (Path("/f/cache/pgflash.cache"),)
    two = dataclasses.replace(BOTH, cache_files=2, archive="flash")
    assert folders.places(two).cache_files[1] == Path("/g/cache/pgflash.cache")
    assert folders.places(two).archive == Path("/f/archive")
    everything = folders.places(ALL)
    assert (everything.base, everything.wal) == (Path("/f/server"), None)
    assert everything.tablespaces == {"array": Path("/a/tablespace")}


def test_files_go_to_the_store_when_memory_is_short(place: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert devices.roomy_place(store, needed_bytes=0) == place
    assert devices.roomy_place(store, needed_bytes=2**60) == reachable_dir(store)


def test_a_device_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="is not a directory"),
        devices.real_folders(hdd=tmp_path, flash=tmp_path / "none"),
    ):
        pass


def test_a_real_device_is_described_as_real(tmp_path: Path) -> None:
    device = devices.real_device("array", tmp_path)
    assert not device.emulated
    assert device.title == str(tmp_path)
