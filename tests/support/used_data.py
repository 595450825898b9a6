# SPDX-License-Identifier: PostgreSQL
"""Data folders of earlier tests, restored for later ones.

A data folder has a thousand files, of which a test changes some dozens.  A file that has not
changed since the folder was handed out (including its change time) needs no copy: only the others
are written again.  This also spares file systems on which removing and creating files is expensive.
"""

import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from pgflash_lab.leftovers import forget_memory

#: A file's identity: its numbers, permissions, size and times.
Facts = tuple[int, ...]
#: The facts of all files of a folder, by their relative paths.
Notes = dict[str, Facts]

KEPT_MAX = 2


class UsedData:
    """Hands out data folders that equal their template, and takes them back."""

    def __init__(self) -> None:
        """Start without any; kept ones are in folders of this process."""
        self._shelves: dict[int, Path] = {}  # by the device of a file system
        self._kept: list[tuple[Path, Path, Notes]] = []
        self._out: dict[Path, tuple[Path, Notes]] = {}

    def take(self, template: Path, data: Path) -> None:
        """Make DATA, which must not exist yet, a copy of the template, owners included."""
        for number, (made_of, folder, notes) in enumerate(self._kept):
            if made_of == template and _device(folder) == _device(data.parent):
                del self._kept[number]
                _restore(template, folder, notes)
                folder.rename(data)
                break
        else:
            subprocess.run(["cp", "-a", "--reflink=auto", template, data], check=True)
            notes = {name: _facts(data / name) for name in _files(template)}
        self._out[data] = (template, notes)

    def give_back(self, data: Path) -> None:
        """Keep DATA for later if it was handed out here; no server may run on it any more.

        Kept folders are beside the test's folder, in which a server has a folder for its data.
        """
        template, notes = self._out.pop(data, (None, {}))
        if template is None or not _is_folder(data):
            return
        if len(self._kept) == KEPT_MAX:
            _made_of, oldest, _notes = self._kept.pop(0)
            shutil.rmtree(oldest.parent)
        forget_memory(data)
        device = _device(data)
        if device not in self._shelves:
            beside = data.parent.parent.parent
            self._shelves[device] = Path(tempfile.mkdtemp(prefix="pgflash-data-", dir=beside))
        folder = Path(tempfile.mkdtemp(dir=self._shelves[device])) / "data"
        data.rename(folder)
        self._kept.append((template, folder, notes))

    def close(self) -> None:
        """Remove the kept folders."""
        self._kept.clear()
        for shelf in self._shelves.values():
            shutil.rmtree(shelf, ignore_errors=True)
        self._shelves.clear()


def _files(folder: Path) -> list[str]:
    """Return the paths of all files in a folder, relative to it."""
    return [
        os.path.relpath(os.path.join(path, name), folder)  # noqa: PTH118 - a thousand of them
        for path, _folders, names in os.walk(folder)
        for name in names
    ]


def _facts(path: str | Path) -> Facts:
    one = os.lstat(path)
    return (
        *(one.st_dev, one.st_ino, one.st_mode, one.st_uid, one.st_gid, one.st_nlink),
        *(one.st_size, one.st_mtime_ns, one.st_ctime_ns),
    )


def _device(path: Path) -> int:
    return path.stat().st_dev


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _remove(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink()


def _restore(template: Path, folder: Path, notes: Notes, inside: str = "") -> None:
    """Restore a folder, or its part INSIDE, from its template; notes are kept up to date."""
    theirs, ours = template / inside, folder / inside
    with os.scandir(theirs) as entries:
        wanted = {entry.name: entry for entry in entries}
    there = {}
    with os.scandir(ours) as entries:
        for entry in list(entries):
            one = wanted.get(entry.name)
            if one is None or (one.is_dir() != entry.is_dir(follow_symlinks=False)):
                _remove(Path(entry.path))
            else:
                there[entry.name] = entry.path
    for name, entry in wanted.items():
        path = f"{inside}/{name}" if inside else name
        if entry.is_dir():
            (ours / name).mkdir(exist_ok=True)
            _restore(template, folder, notes, path)
        elif name not in there or notes.get(path) != _facts(there[name]):
            _copy(theirs / name, ours / name)
            notes[path] = _facts(ours / name)
    _copy_rights(theirs, ours)


def _copy(source: Path, target: Path) -> None:
    """Copy a file over an existing one, which stays the same file if it is a plain file."""
    if target.is_symlink() or (target.exists() and not _is_ours_alone(target)):
        target.unlink()
    shutil.copyfile(source, target)
    _copy_rights(source, target)
    shutil.copystat(source, target)


def _copy_rights(source: Path, target: Path) -> None:
    facts = source.stat()
    there = target.stat()
    if (facts.st_uid, facts.st_gid) != (there.st_uid, there.st_gid):
        os.chown(target, facts.st_uid, facts.st_gid)
    if facts.st_mode != there.st_mode:
        target.chmod(stat.S_IMODE(facts.st_mode))


def _is_ours_alone(path: Path) -> bool:
    facts = path.lstat()
    return stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1
