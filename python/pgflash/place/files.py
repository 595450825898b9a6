# SPDX-License-Identifier: PostgreSQL
"""Folders of a server: how much room, which device, copied so that a power cut loses nothing.

**A copy** (mirror) makes one folder the image of another and can be stopped anywhere: what
is there already is not copied again.  "There already" means of the same size and of the
same modification time, so two things have to be true of that time.  It is set only after
the content was synced: a power cut cannot leave it on a file whose content is lost.  And it
is not set on a copy of a file that was changed a moment ago: a server may still write to
it, within the same tick of the file system's clock; such a copy is made again the next time.

**A switch** (exchange) is one system call, renameat2(RENAME_EXCHANGE): at every moment, and
after every power cut, one of the two is in place.  File systems that cannot do it (NFS)
are found out by can_exchange() before anything is begun.
"""

import contextlib
import ctypes
import errno
import os
import pwd
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgflash.place.errors import PlaceError

#: Called with the number of bytes that were copied since the last call.
Beat = Callable[[int], None]

_CHUNK_BYTES = 1 << 20

#: A file changed so recently may still be changing without its time showing it.
_SETTLED_NS = 2_000_000_000

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2

#: Room that stays free beside what is moved.
SPARE_BYTES = 64 << 20
SPARE_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose folders they are, and how open."""

    uid: int
    gid: int
    #: 0700, or 0750 where the group may read, as in the data directory.
    mode: int

    @classmethod
    def of(cls, folder: Path) -> "Owner":
        """Return the owner of a folder."""
        status = folder.stat()
        return cls(uid=status.st_uid, gid=status.st_gid, mode=stat.S_IMODE(status.st_mode) & 0o750)

    @property
    def name(self) -> str:
        """What the user is called."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    def as_user(self) -> dict[str, Any]:
        """Return the arguments that let root run a program as the owner, with its groups."""
        if os.geteuid() != 0:
            return {}
        groups = os.getgrouplist(self.name, self.gid)
        return {"user": self.uid, "group": self.gid, "extra_groups": groups}


class VanishedError(Exception):
    """A file that was to be copied is gone."""

    def __init__(self, reason: FileNotFoundError) -> None:
        super().__init__()
        self.reason = reason


def nearest(path: Path) -> Path:
    """Return the path, or the closest folder above it that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def free_bytes(path: Path) -> int:
    """Return what an ordinary user may still write where this path is or would be."""
    status = os.statvfs(nearest(path))
    return status.f_bavail * status.f_frsize


def need_room(path: Path, wanted_bytes: int, what: str) -> None:
    """Refuse unless there is room for it, and some to spare."""
    free = free_bytes(path)
    needed = round(wanted_bytes * (1 + SPARE_SHARE)) + SPARE_BYTES
    if free < needed:
        raise PlaceError(
            f"{what} needs {needed >> 20:,} MB below {nearest(path)}, where "
            f"{free >> 20:,} MB are free",
            hint="Make room there, or name another place.",
        )


def same_device(one: Path, other: Path) -> bool:
    """Say whether both are, or would be, on the same file system."""
    return nearest(one).stat().st_dev == nearest(other).stat().st_dev


def is_inside(path: Path, folder: Path) -> bool:
    """Say whether a path leads into a folder, symbolic links followed."""
    return path.resolve().is_relative_to(folder.resolve())


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder; what vanishes meanwhile is not counted."""
    total = 0
    for entry in _entries(folder):
        with contextlib.suppress(FileNotFoundError):
            if entry.is_dir(follow_symlinks=False):
                total += folder_bytes(Path(entry.path))
            else:
                total += entry.stat(follow_symlinks=False).st_size
    return total


def refuse_folder(path: Path, owner: Owner) -> None:
    """Refuse a folder that the server could not use, or that cannot be made for it."""
    if not path.parent.is_dir():
        raise PlaceError(f"there is no folder {path.parent}", hint="Make it first.")
    if path.exists():
        _refuse_strange(path, owner)
    if not os.access(nearest(path), os.W_OK | os.X_OK):
        raise PlaceError(
            f"nothing can be written to {nearest(path)} by who runs pgflash",
            hint=f"Make {path} yourself, owned by {owner.name}, and empty.",
        )
    # Root comes everywhere.
    enter = ["test", "-x", str(nearest(path))]
    if subprocess.run(enter, check=False, **owner.as_user()).returncode != 0:
        raise PlaceError(
            f"the server's user {owner.name} cannot enter {nearest(path)}",
            hint="Give all folders above it the right to be entered (chmod o+x), or name another.",
        )


def _refuse_strange(path: Path, owner: Owner) -> None:
    """Refuse what is no folder, or not the server's."""
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise PlaceError(f"{path} is no folder")
    if status.st_uid != owner.uid:
        raise PlaceError(
            f"{path} does not belong to the server's user",
            hint=f"chown {owner.uid}:{owner.gid} {path}",
        )


def make_folder(path: Path, owner: Owner) -> bool:
    """Make a folder that the server may use, or see that it is one; say if it was made."""
    made = not path.exists()
    try:
        if made:
            path.mkdir(mode=0o700)
            if os.geteuid() == 0:
                os.chown(path, owner.uid, owner.gid)
        _refuse_strange(path, owner)
        path.chmod(owner.mode)
        sync_folder(path)
        sync_folder(path.parent)
    except OSError as error:
        raise PlaceError(
            f"could not make {path}: {error.strerror}",
            hint="Make it yourself, owned by the server's user, and empty.",
        ) from error
    return made


def is_empty(folder: Path) -> bool:
    """Say whether a folder has nothing in it, or is not there."""
    return not folder.is_dir() or not any(folder.iterdir())


def sync_folder(folder: Path) -> None:
    """Make what a folder names survive a power cut."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def mirror(source: Path, dest: Path, *, beat: Beat, live: bool, keep: str = "") -> None:
    """Make DEST the image of SOURCE: files, folders, owners, modes; what is too much goes.

    LIVE: a server may be changing SOURCE, so files may vanish.  KEEP names a file that is
    ours: it is neither copied nor removed.
    """
    wanted = {keep}
    for entry in _entries(source):
        if entry.name == keep:
            continue
        wanted.add(entry.name)
        try:
            _take_over(Path(entry.path), dest / entry.name, beat=beat, live=live)
        except VanishedError as error:
            # A server recycles its files while we look.  The copy in DEST, if any, is
            # taken care of by the next mirror, which is not live.
            if not live:
                raise error.reason from None
    for entry in _entries(dest):
        if entry.name not in wanted:
            _remove(Path(entry.path))
    sync_folder(dest)


def _take_over(source: Path, dest: Path, *, beat: Beat, live: bool) -> None:
    """Make one file or folder the image of another."""
    try:
        status = source.lstat()
    except FileNotFoundError as error:
        raise VanishedError(error) from error
    if stat.S_ISDIR(status.st_mode):
        if not dest.is_dir():
            dest.mkdir(mode=0o700)
        _dress(dest, status)
        mirror(source, dest, beat=beat, live=live)
    elif stat.S_ISREG(status.st_mode):
        if not is_same(status, dest):
            copy_file(source, dest, beat, live=live)
    else:
        raise PlaceError(
            f"{source} is neither a file nor a folder", hint="Move it out of the way yourself."
        )


def is_same(status: os.stat_result, dest: Path) -> bool:
    """Say whether DEST is a finished copy of the file with this status."""
    try:
        there = dest.lstat()
    except FileNotFoundError:
        return False
    return (
        stat.S_ISREG(there.st_mode)
        and there.st_size == status.st_size
        and there.st_mtime_ns == status.st_mtime_ns
    )


def copy_file(source: Path, dest: Path, beat: Beat, *, live: bool) -> None:
    """Copy a file, sync it, and only then give it the time that says it is whole."""
    begun_ns = time.time_ns()
    try:
        reader = source.open("rb", buffering=0)
    except FileNotFoundError as error:
        raise VanishedError(error) from error
    with reader:
        status = os.fstat(reader.fileno())
        # Under another name, so that a copy that fails costs nothing that was there.
        part = dest.with_name(f"{dest.name}.pgflash-part")
        part.unlink(missing_ok=True)
        with part.open("xb", buffering=0) as writer:
            while chunk := reader.read(_CHUNK_BYTES):
                _write_all(writer.fileno(), chunk)
                beat(len(chunk))
            _dress(part, status)
            os.fsync(writer.fileno())
    settled = not live or begun_ns - status.st_mtime_ns > _SETTLED_NS
    os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns if settled else 0))
    part.replace(dest)


def _write_all(number: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(number, view) :]


def _dress(path: Path, status: os.stat_result) -> None:
    """Give a file the owner and mode of another."""
    if os.geteuid() == 0:
        os.chown(path, status.st_uid, status.st_gid)
    path.chmod(stat.S_IMODE(status.st_mode))


def differences(source: Path, dest: Path, *, keep: str = "") -> list[str]:
    """Return the files of two folders at rest whose names or sizes differ."""
    ours, theirs = _sizes(source), _sizes(dest)
    names = (ours.keys() | theirs.keys()) - {keep}
    return sorted(name for name in names if ours.get(name) != theirs.get(name))


def _sizes(folder: Path) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            below = _sizes(Path(entry.path))
            sizes |= {f"{entry.name}/{name}": size for name, size in below.items()}
            sizes[f"{entry.name}/"] = 0
        else:
            sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
    return sizes


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def remove_tree(folder: Path) -> None:
    """Remove a folder and all below it."""
    for entry in _entries(folder):
        _remove(Path(entry.path))
    folder.rmdir()


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from sorted(entries, key=lambda entry: entry.name)


def exchange(one: Path, other: Path) -> None:
    """Let two names of one folder change places, at once and for good."""
    _rename_exchange(one, other)
    sync_folder(one.parent)


def can_exchange(folder: Path) -> bool:
    """Say whether the file system of a folder lets two names change places at once."""
    with tempfile.TemporaryDirectory(prefix="pgflash-", dir=folder) as name:
        one, other = Path(name) / "one", Path(name) / "other"
        one.mkdir()
        other.symlink_to("one")
        try:
            _rename_exchange(one, other)
        except OSError as error:
            if error.errno in {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}:
                return False
            raise
    return True


def _rename_exchange(one: Path, other: Path) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    code = library.renameat2(
        _AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE
    )
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))
