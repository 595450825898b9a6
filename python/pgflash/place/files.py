# SPDX-License-Identifier: PostgreSQL
"""A server's folders: how much room, which device, and copies that survive a power cut.

Everything here is done as the owner of these folders (Owner.do), never as root.  It works with
descriptors: a folder is opened once, never through a link, and its content is named relative to it.
An attacker gains nothing by swapping such a folder, or one inside it: only what was opened is read,
written and removed.

**A copy** (mirror) makes one folder the image of another and can be interrupted anywhere: a file
that is already there is not copied again.  "Already there" means the same size and the same
modification time, so that time has to obey two rules.  It is set only after the content was synced:
a power cut cannot leave it on a file whose content is lost.  And it is not set on the copy of a
file that was changed a moment ago: a server may write again within the same tick of the file
system's clock.  Such a file is copied again the next time.

**A switch** (exchange) is one system call, renameat2(RENAME_EXCHANGE): at every moment, and after
every power cut, one of the two is in place. can_exchange() detects file systems that cannot do it
(NFS) before anything is begun.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from pgflash.model.sizes import MB
from pgflash.model.words import whole
from pgflash.place.errors import PlaceError
from pgflash.place.owner import Beat, held

_CHUNK_BYTES = 1 << 20

#: A file changed this recently may change again without its modification time showing it.
_SETTLED_NS = 2_000_000_000

_RENAME_EXCHANGE = 2

#: Open a folder, never through a link; and a file, without waiting for a pipe's writer.
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK

#: Free space to leave after a move.
SPARE_BYTES = 64 << 20
SPARE_SHARE = 0.05


class VanishedError(Exception):
    """A file to be copied is gone."""

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
    """Return how much an ordinary user may still write where this path is or would be."""
    status = os.statvfs(nearest(path))
    return status.f_bavail * status.f_frsize


def usable_bytes(free: int) -> int:
    """Return how much need_room() lets be put into so much free space."""
    return max(int((free - SPARE_BYTES) / (1 + SPARE_SHARE)), 0)


def why_no_room(path: Path, wanted_bytes: int, what: str) -> str:
    """Return why it does not fit there with some room to spare; empty if it does."""
    free = free_bytes(path)
    needed = round(wanted_bytes * (1 + SPARE_SHARE)) + SPARE_BYTES
    if free >= needed:
        return ""
    return (
        f"{what} needs {whole(-(-needed // MB))} MB below {nearest(path)}, where "
        f"{whole(free // MB)} MB are free"
    )


def need_room(path: Path, wanted_bytes: int, what: str) -> None:
    """Refuse unless there is room for it, and some to spare."""
    if why := why_no_room(path, wanted_bytes, what):
        raise PlaceError(why, hint="Free some space there, or name another place.")


def same_device(one: Path, other: Path) -> bool:
    """Say whether both are, or would be, on the same file system."""
    return nearest(one).stat().st_dev == nearest(other).stat().st_dev


def is_inside(path: Path, folder: Path) -> bool:
    """Say whether a path leads into a folder, symbolic links followed."""
    return path.resolve().is_relative_to(folder.resolve())


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder, except those that vanish meanwhile."""
    with opened(folder) as number:
        return _bytes_in(number)


def _bytes_in(folder: int) -> int:
    total = 0
    for name in names_in(folder):
        # A folder that we may not enter (lost+found) is not ours.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            status = status_of(folder, name)
            if stat.S_ISDIR(status.st_mode):
                with opened_in(folder, name) as below:
                    total += _bytes_in(below)
            else:
                total += status.st_size
    return total


# ---- open folders


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[int]:
    """Yield an open descriptor of a folder."""
    number = os.open(folder, _FOLDER)
    try:
        yield number
    finally:
        os.close(number)


@contextlib.contextmanager
def opened_in(folder: int, name: str) -> Iterator[int]:
    """Yield an open descriptor of a folder inside an open one."""
    number = os.open(name, _FOLDER, dir_fd=folder)
    try:
        yield number
    finally:
        os.close(number)


@contextlib.contextmanager
def locked(folder: Path, *, wait_s: float) -> Iterator[bool]:
    """Lock a folder without changing anything in it, and yield whether that succeeded."""
    with opened(folder) as number:
        deadline, is_locked = time.monotonic() + wait_s, False
        while not is_locked and time.monotonic() < deadline:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_locked = True
            except BlockingIOError:
                time.sleep(0.05)
        with held(number):
            yield is_locked


def names_in(folder: int) -> list[str]:
    """Return the names in an open folder, in order."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


def status_of(folder: int, name: str) -> os.stat_result:
    """Return the status of a name in an open folder; of a link, that of the link itself."""
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def is_there(folder: int, name: str) -> bool:
    """Say whether an open folder has something of this name."""
    try:
        status_of(folder, name)
    except FileNotFoundError:
        return False
    return True


def read_file(folder: int, name: str, *, max_bytes: int = 1 << 16) -> bytes:
    """Return the beginning of a file; raise FileNotFoundError also for anything but a file."""
    number = os.open(name, _FILE, dir_fd=folder)
    with os.fdopen(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise FileNotFoundError(errno.ENOENT, "It is no file", name)
        return file.read(max_bytes)


def read_path(path: Path) -> bytes:
    """Return the beginning of a file of a folder."""
    with opened(path.parent) as folder:
        return read_file(folder, path.name)


def is_empty(folder: Path) -> bool:
    """Say whether a folder does not exist or contains nothing that we can see."""
    try:
        with opened(folder.resolve()) as number:
            return not names_in(number)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return True


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    with opened(folder) as number:
        os.fsync(number)


# ---- copies


def mirror(source: Path, dest: Path, *, beat: Beat, live: bool, keep: str = "") -> None:
    """Make DEST the image of SOURCE (files, folders, modes), removing whatever SOURCE lacks.

    LIVE: a server may be changing SOURCE, so files may vanish.  KEEP names a file of ours that is
    neither copied nor removed.
    """
    with opened(source) as reader, opened(dest) as writer:
        # A name that led to either may lead elsewhere by now.
        for folder, path in ((reader, source), (writer, dest)):
            if os.fstat(folder).st_uid != os.geteuid():
                raise PlaceError(f"{path} does not belong to the server's user any more")
        _mirror(reader, writer, shown=source, beat=beat, live=live, keep=keep)


def _mirror(source: int, dest: int, *, shown: Path, beat: Beat, live: bool, keep: str = "") -> None:
    wanted = {keep}
    for name in names_in(source):
        if name == keep:
            continue
        wanted.add(name)
        try:
            _take_over(source, dest, name, shown=shown / name, beat=beat, live=live)
        except VanishedError as error:
            # A server recycles its files while we look. The next mirror, which is not live, takes
            # care of any copy in DEST.
            if not live:
                raise error.reason from None
    for name in names_in(dest):
        if name not in wanted:
            remove(dest, name)
    os.fsync(dest)


def _take_over(source: int, dest: int, name: str, *, shown: Path, beat: Beat, live: bool) -> None:
    """Make one file or folder the image of another."""
    try:
        status = status_of(source, name)
    except FileNotFoundError as error:
        raise VanishedError(error) from error
    if stat.S_ISDIR(status.st_mode):
        if is_there(dest, name) and not stat.S_ISDIR(status_of(dest, name).st_mode):
            os.unlink(name, dir_fd=dest)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=dest)
        with opened_in(source, name) as reader, opened_in(dest, name) as writer:
            _dress(writer, status)
            _mirror(reader, writer, shown=shown, beat=beat, live=live)
    elif stat.S_ISREG(status.st_mode):
        if not is_same(status, dest, name):
            copy_file(source, dest, name, beat, live=live)
    else:
        raise PlaceError(
            f"{shown} is neither a file nor a folder", hint="Move it out of the way yourself."
        )


def is_same(status: os.stat_result, folder: int, name: str) -> bool:
    """Say whether a file of an open folder is a finished copy of the one with this status."""
    try:
        there = status_of(folder, name)
    except FileNotFoundError:
        return False
    return (
        stat.S_ISREG(there.st_mode)
        and there.st_size == status.st_size
        and there.st_mtime_ns == status.st_mtime_ns
    )


def copy_file(source: int, dest: int, name: str, beat: Beat, *, live: bool) -> None:
    """Copy a file, sync it, and only then set the time that marks it as whole."""
    begun_ns = time.time_ns()
    try:
        reader = os.open(name, _FILE, dir_fd=source)
    except FileNotFoundError as error:
        raise VanishedError(error) from error
    try:
        status = os.fstat(reader)
        if not stat.S_ISREG(status.st_mode):
            raise PlaceError(
                f"{name} is not a file any more", hint="Find out what changes it, and resume."
            )
        # Copy under another name, so that a failed copy does not destroy an existing file.
        part = f"{name}.pgflash-part"
        remove(dest, part)
        writer = os.open(
            part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=dest
        )
        try:
            while chunk := os.read(reader, _CHUNK_BYTES):
                _write_all(writer, chunk)
                beat(len(chunk))
            _dress(writer, status)
            os.fsync(writer)
            settled = not live or begun_ns - status.st_mtime_ns > _SETTLED_NS
            os.utime(writer, ns=(status.st_atime_ns, status.st_mtime_ns if settled else 0))
        finally:
            os.close(writer)
    finally:
        os.close(reader)
    if is_there(dest, name) and stat.S_ISDIR(status_of(dest, name).st_mode):
        remove(dest, name)
    os.rename(part, name, src_dir_fd=dest, dst_dir_fd=dest)


def _write_all(number: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(number, view) :]


def _dress(number: int, status: os.stat_result) -> None:
    """Give an open file another file's mode, and its group if we belong to it."""
    if os.fstat(number).st_gid != status.st_gid:
        with contextlib.suppress(PermissionError):
            os.fchown(number, -1, status.st_gid)
    os.fchmod(number, stat.S_IMODE(status.st_mode))


def differences(source: Path, dest: Path, *, keep: str = "") -> list[str]:
    """Return the files whose names or sizes differ between two folders at rest."""
    with opened(source) as one, opened(dest) as other:
        ours, theirs = _sizes(one), _sizes(other)
    names = (ours.keys() | theirs.keys()) - {keep}
    return sorted(name for name in names if ours.get(name) != theirs.get(name))


def _sizes(folder: int) -> dict[str, tuple[int, int]]:
    """Return the kind and size of each file of a folder and of all folders below it."""
    sizes: dict[str, tuple[int, int]] = {}
    for name in names_in(folder):
        status = status_of(folder, name)
        kind = stat.S_IFMT(status.st_mode)
        if stat.S_ISDIR(kind):
            with opened_in(folder, name) as number:
                below = _sizes(number)
            sizes |= {f"{name}/{one}": size for one, size in below.items()}
            sizes[f"{name}/"] = kind, 0
        else:
            sizes[name] = kind, status.st_size
    return sizes


# ---- removing


def remove(folder: int, name: str) -> None:
    """Remove a file, a link or a folder with all below it, if it is there."""
    try:
        if stat.S_ISDIR(status_of(folder, name).st_mode):
            with opened_in(folder, name) as below:
                for one in names_in(below):
                    remove(below, one)
            os.rmdir(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


# ---- swapping two names


def exchange(one: Path, other: Path) -> None:
    """Swap two names of one folder, atomically and durably."""
    with opened(one.parent) as folder:
        _rename_exchange(folder, one.name, other.name)
        os.fsync(folder)


def can_exchange(folder: Path) -> bool:
    """Say whether the file system of a folder can swap two names atomically."""
    own = f"pgflash-{secrets.token_hex(6)}"
    with opened(folder) as above:
        os.mkdir(own, 0o700, dir_fd=above)
        try:
            with opened_in(above, own) as number:
                os.mkdir("one", 0o700, dir_fd=number)
                os.symlink("one", "other", dir_fd=number)
                _rename_exchange(number, "one", "other")
        except OSError as error:
            if error.errno in {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}:
                return False
            raise
        finally:
            remove(above, own)
    return True


def _rename_exchange(folder: int, one: str, other: str) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    code = library.renameat2(folder, os.fsencode(one), folder, os.fsencode(other), _RENAME_EXCHANGE)
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), one)
