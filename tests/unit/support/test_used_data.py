# SPDX-License-Identifier: PostgreSQL
"""A data folder that a test has changed is as its template when the next test gets it."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.used_data import UsedData


@pytest.fixture
def used() -> Iterator[UsedData]:
    """Return a store of used folders that is removed with the test."""
    one = UsedData()
    yield one
    one.close()


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """Return a folder with some files in folders."""
    folder = tmp_path / "template"
    for name in ("PG_VERSION", "base/1/1259", "base/1/1249", "global/pg_control", "pg_wal/1"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 100)
    (folder / "pg_tblspc").mkdir()
    (folder / "base").chmod(0o700)
    return folder


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return everything in a folder, with rights and content."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            b"" if path.is_dir() and not path.is_symlink() else path.read_bytes(),
        )
        for path in sorted(folder.rglob("*"))
    }


def in_place(data: Path) -> None:
    """Change a file, and leave it the size and the time of change that it had."""
    path = data / "base/1/1259"
    facts = path.stat()
    path.write_bytes(b"x" * facts.st_size)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def linked_away(data: Path) -> None:
    """Move a folder away and leave a link to it."""
    shutil.move(data / "pg_wal", data.parent / "wal")
    (data / "pg_wal").symlink_to(data.parent / "wal")


def linked_file(data: Path) -> None:
    """Replace a file by a link."""
    (data / "PG_VERSION").unlink()
    (data / "PG_VERSION").symlink_to("global/pg_control")


def two_names(data: Path) -> None:
    """Give a file a second name elsewhere and change it."""
    os.link(data / "PG_VERSION", data.parent / "second")
    (data / "PG_VERSION").write_text("changed")


CHANGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda _data: None,
    "a file in place": in_place,
    "a longer file": lambda data: (data / "global/pg_control").open("ab").write(b"more"),
    "an emptied file": lambda data: os.truncate(data / "base/1/1249", 0),
    "a removed file": lambda data: (data / "pg_wal/1").unlink(),
    "a removed folder": lambda data: shutil.rmtree(data / "base"),
    "new files": lambda data: (data / "pg_tblspc" / "16384").symlink_to("/tmp"),
    "a new folder": lambda data: shutil.copytree(data / "base/1", data / "base/5"),
    "rights of a file": lambda data: (data / "PG_VERSION").chmod(0o444),
    "rights of a folder": lambda data: (data / "base").chmod(0o755),
    "a folder moved away": linked_away,
    "a file that became a link": linked_file,
    "a file with a second name": two_names,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_used_folder_is_as_its_template(
    used: UsedData, template: Path, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    sound = tree(template)
    numbers = []
    for name in ("first", "second", "third"):
        data = tmp_path / name / "server" / "data"
        data.parent.mkdir(parents=True)
        used.take(template, data)
        assert tree(data) == sound
        numbers.append(data.stat().st_ino)
        change(data)
        used.give_back(data)
        assert not data.exists()
    assert len(set(numbers)) == 1, "it was not used again"
    assert tree(template) == sound


def test_what_was_not_handed_out_stays(used: UsedData, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    used.give_back(data)
    assert data.exists()


def test_a_file_with_a_second_name_is_not_written_to(
    used: UsedData, template: Path, tmp_path: Path
) -> None:
    data = tmp_path / "test" / "server" / "data"
    data.parent.mkdir(parents=True)
    used.take(template, data)
    two_names(data)
    used.give_back(data)
    used.take(template, data)
    assert (data.parent / "second").read_text() == "changed"


def test_each_file_system_has_its_own(used: UsedData, template: Path, tmp_path: Path) -> None:
    memory = Path(os.environ.get("MEMDIR", "/dev/shm"))
    sound = tree(template)
    with tempfile.TemporaryDirectory(dir=memory) as elsewhere:
        for base in (tmp_path, Path(elsewhere), tmp_path, Path(elsewhere)):
            data = base / "test" / "server" / "data"
            data.parent.mkdir(parents=True)
            used.take(template, data)
            assert tree(data) == sound
            in_place(data)
            used.give_back(data)
            shutil.rmtree(base / "test")
        assert list(memory.glob(f"{Path(elsewhere).name}/pgflash-data-*"))
