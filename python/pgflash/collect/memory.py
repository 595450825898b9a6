# SPDX-License-Identifier: PostgreSQL
"""The memory of caches: which servers have left theirs behind, and how to remove it.

A server keeps its cache's memory in /dev/shm/pgflash.USER.DEVICE.INODE, named after its user and
its data directory (extension/src/bridge/bridge_restart.c).  It outlives a killed server, so that
the next start is warm; if there is no next start, it occupies memory until the machine restarts.

A server and its children share a lock on the object, which shows whether it is used, even in
another container.  Servers that are older than that lock are recognized by what their processes
have mapped, as far as /proc shows it.

Any user may create files in /dev/shm.  So nothing there is followed or trusted: only a plain file
with one link, with the user and mode that a server's file has, is looked at and removed, and it is
opened relative to the folder.  The lock is held during the removal, and the name is checked once
more before it.  As the folder is sticky, nobody but a file's owner can put another file in its
place; a user other than root sees only their own files.
"""

import contextlib
import fcntl
import os
import pwd
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pgflash.errors import PgflashError
from pgflash.machine.mounts import read_mounts
from pgflash.machine.processes import processes

FOLDER = Path("/dev/shm")

_NAME = re.compile(r"pgflash\.(\d{1,10})\.([0-9a-f]{1,16})\.([0-9a-f]{1,16})")
#: A server locks its memory as soon as it is created; before that it is empty.
_MADE_WITHIN_S = 60.0
#: Where packages put data directories.
_USUAL = (
    "/var/lib/postgresql/*/*",
    "/var/lib/postgresql/data",
    "/var/lib/pgsql/data",
    "/var/lib/pgsql/*/data",
)

#: The device and inode of a file or directory.
_Key = tuple[int, int]


class MemoryState(StrEnum):
    """Whether a server needs it."""

    USED = "used"
    LEFT = "left over"
    #: Not as a server creates it: never touched.
    STRANGE = "strange"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheMemory:
    """The memory of one server's cache."""

    name: str
    user: str
    #: "" if it was not found among the running servers' and the usual directories.
    data_directory: str
    #: What is known about the directory in that case.
    where: str
    size_bytes: int
    #: How long ago it was made.
    age_s: float
    state: MemoryState
    #: Its irregularities.
    why: str = ""
    #: The processes that have it mapped, as far as they are visible here.
    pids: tuple[int, ...] = ()


def list_memory(directories: Iterable[Path] = ()) -> tuple[CacheMemory, ...]:
    """Return the memory of all caches that we may look at; DIRECTORIES may be their clusters'."""
    with _open_folder() as folder:
        there = os.listdir(folder)  # noqa: PTH208 - the folder that was opened has no name
        names = sorted(name for name in there if _NAME.fullmatch(name))
        if not names:
            return ()
        mapped, known = _mapped(), _directories(directories)
        found = (_look(folder, name, mapped, known) for name in names)
        return tuple(one for one in found if one is not None)


def remove_memory(name: str) -> None:
    """Remove a server's leftover memory; refuse if a server uses it, or if it is not a server's."""
    if _NAME.fullmatch(name) is None:
        raise PgflashError(f'"{name}" is no name of a cache\'s memory')
    with _open_folder() as folder, _opened(folder, name) as (file, status):
        if _is_used(file, status, _mapped()):
            raise PgflashError(
                f'"{name}" is used by a server', hint="It is removed when that server is stopped."
            )
        try:
            now = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if _key(now) != _key(status):
                raise PgflashError(f'"{name}" was replaced meanwhile')
            os.unlink(name, dir_fd=folder)
        except OSError as error:
            raise _could_not("remove", name, error) from error


# ---- one of them


@contextlib.contextmanager
def _open_folder() -> Iterator[int]:
    try:
        folder = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise PgflashError(f'could not open "{FOLDER}": {error.strerror}') from error
    try:
        mode = os.fstat(folder).st_mode
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
            raise PgflashError(f'in "{FOLDER}" any user may replace the files of others')
        yield folder
    finally:
        os.close(folder)


@contextlib.contextmanager
def _opened(folder: int, name: str) -> Iterator[tuple[int, os.stat_result]]:
    """Open a server's memory, and nothing else."""
    try:
        # Do not even open anything but a plain file: that may block, or others may notice it.
        before = os.stat(name, dir_fd=folder, follow_symlinks=False)
        _refuse_strange(name, before)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        file = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        raise _could_not("open", name, error) from error
    try:
        status = os.fstat(file)
        _refuse_strange(name, status)
        yield file, status
    finally:
        os.close(file)


def _could_not(verb: str, name: str, error: OSError) -> PgflashError:
    return PgflashError(f'could not {verb} "{FOLDER / name}": {error.strerror}')


def _refuse_strange(name: str, status: os.stat_result) -> None:
    why = _strange(name, status)
    if why:
        raise PgflashError(f'"{name}" is not a server\'s memory: it is {why}')


def _strange(name: str, status: os.stat_result) -> str:
    """Return how a file differs from one that a server creates."""
    found = _NAME.fullmatch(name)
    assert found is not None
    if not stat.S_ISREG(status.st_mode):
        return "no plain file"
    if status.st_uid != int(found[1]):
        return f"owned by user {status.st_uid}, and named after {found[1]}"
    if os.geteuid() not in (0, status.st_uid):
        return "somebody else's"
    if stat.S_IMODE(status.st_mode) != 0o600:
        return "open to others"
    return "" if status.st_nlink == 1 else "a file with several names"


def _look(
    folder: int, name: str, mapped: Mapping[_Key, set[int]], known: Mapping[_Key, str]
) -> CacheMemory | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None  # it has just gone
    if os.geteuid() not in (0, status.st_uid):
        return None
    why, pids = _strange(name, status), _pids(mapped, status)
    state = MemoryState.STRANGE
    if not why:
        try:
            with _opened(folder, name) as (file, opened):
                used = _is_used(file, opened, mapped)
        except PgflashError:
            return None  # it has just gone, or has been replaced
        state = MemoryState.USED if used else MemoryState.LEFT
    _user, device, inode = name.removeprefix("pgflash.").split(".")
    key = (int(device, 16), int(inode, 16))
    return CacheMemory(
        name=name,
        user=_user_name(status.st_uid),
        data_directory=known.get(key, ""),
        where="" if key in known else _where(key),
        size_bytes=status.st_size,
        age_s=max(time.time() - status.st_mtime, 0.0),
        state=state,
        why=why,
        pids=pids,
    )


def _is_used(file: int, status: os.stat_result, mapped: Mapping[_Key, set[int]]) -> bool:
    """Say whether a server uses it; if not, lock it until it is closed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    being_made = status.st_size == 0 and time.time() - status.st_mtime < _MADE_WITHIN_S
    return being_made or bool(_pids(mapped, status))


# ---- processes and directories


def _key(status: os.stat_result) -> _Key:
    return status.st_dev, status.st_ino


def _pids(mapped: Mapping[_Key, set[int]], status: os.stat_result) -> tuple[int, ...]:
    return tuple(sorted(mapped.get(_key(status), ())))


def _mapped() -> dict[_Key, set[int]]:
    """Return the processes that have a cache's memory mapped, as far as we may see that."""
    found: dict[_Key, set[int]] = {}
    for process in processes():
        with contextlib.suppress(OSError):  # gone, or not visible to us
            for device, inode, name in process.mapped_files():
                if "/pgflash." in name:
                    found.setdefault((device, inode), set()).add(process.pid)
    return found


def _directories(named: Iterable[Path]) -> dict[_Key, str]:
    """Return data directories: of running servers, of the caller, and the usual ones."""
    found: dict[_Key, str] = {}
    for process in processes():
        with contextlib.suppress(OSError):
            if process.name().startswith("postgres"):
                found.setdefault(_key(process.folder_status()), str(process.folder()))
    usual = (path for pattern in _USUAL for path in Path("/").glob(pattern[1:]))
    for path in (*named, *filter(None, [_own_directory()]), *usual):
        with contextlib.suppress(OSError):
            found.setdefault(_key(path.stat()), str(path))
    return found


def _own_directory() -> Path | None:
    own = os.environ.get("PGDATA")
    return Path(own) if own else None


def _where(key: _Key) -> str:
    """Say what is known about a directory from its device and inode."""
    for mount in reversed(read_mounts()):
        with contextlib.suppress(OSError):
            if Path(mount.mount_point).stat().st_dev == key[0]:
                return f"directory with inode {key[1]} on {mount.mount_point}"
    return "a directory on a file system that is not mounted here"


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
