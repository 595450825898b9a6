# SPDX-License-Identifier: PostgreSQL
"""What a killed server leaves in memory, for a next start that may never come.

The flash cache's memory is named after the server's user and its data folder.  PostgreSQL's own is
a System V segment, whose number is in postmaster.pid; that segment names a POSIX segment,
/dev/shm/PostgreSQL.N, which in turn lists the others.  Normally the next start finds and removes
them.  If the data folder is removed instead, nothing would ever remove them, so it is done here:
only for servers to which no process is attached any more, and only segments that bear PostgreSQL's
marks and belong to the owner of the data folder: everybody may create files in /dev/shm.
"""

import contextlib
import ctypes
import os
import shutil
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from pgflash.machine.tree import HERE

MEMORY = Path("/dev/shm")
SEGMENTS = "/proc/sysvipc/shm"

#: The header of the System V segment (PGShmemHeader): magic number, postmaster, sizes, and the
#: number of the POSIX segment that lists the others.
_HEADER = struct.Struct("=iiQQI")
_HEADER_MAGIC = 679834894
#: The header of that segment (dsm_control_header), and an entry of its list (dsm_control_item).
_CONTROL = struct.Struct("=III4x")
_CONTROL_MAGIC = 0x9A503D32
_ITEM = struct.Struct("=II32x")

_SHM_RDONLY = 0o10000
_IPC_RMID = 0


def forget_memory(data: Path) -> None:
    """Remove what a server that was not shut down left in memory for its next start."""
    with contextlib.suppress(FileNotFoundError):
        status = data.lstat()
        if stat.S_ISDIR(status.st_mode):
            name = f"pgflash.{status.st_uid}.{status.st_dev:x}.{status.st_ino:x}"
            _remove_memory(name, status.st_uid)
            _forget_postgresqls(data, status.st_uid)


def remove_data(data: Path) -> None:
    """Remove a data folder, and what its server left in memory."""
    forget_memory(data)
    shutil.rmtree(data, ignore_errors=True)


def _forget_postgresqls(data: Path, owner: int) -> None:
    """Remove PostgreSQL's own segments, if a server left any."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        lines = _read_owned(data / "postmaster.pid", owner).decode().splitlines()
        postmaster, segment = int(lines[0]), int(lines[6].split()[1])
        if not _is_abandoned(segment, owner):
            return
        libc = ctypes.CDLL(None, use_errno=True)
        header = _read_segment(libc, segment)
        if header is None:
            return
        magic, creator, _, _, control = _HEADER.unpack(header)
        if (magic, creator) != (_HEADER_MAGIC, postmaster):
            return
        for number in _listed(control, owner):
            _remove_memory(f"PostgreSQL.{number}", owner)
        libc.shmctl(segment, _IPC_RMID, None)


def _remove_memory(name: str, owner: int) -> None:
    """Remove a file in memory, if there is one and it belongs to this user."""
    path = MEMORY / name
    with contextlib.suppress(FileNotFoundError):
        if path.lstat().st_uid == owner:
            path.unlink()


def _read_owned(path: Path, owner: int) -> bytes:
    """Return the content of a regular file of this user; OSError if it is something else."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != owner:
            raise PermissionError(f"{path} is not a file of user {owner}")
        return file.read()


def _is_abandoned(segment: int, owner: int) -> bool:
    """Say whether a System V segment is this user's, and no process is attached to it."""
    rows = [line.split() for line in HERE.read(SEGMENTS).splitlines()]
    number, attached, creator = (rows[0].index(name) for name in ("shmid", "nattch", "cuid"))
    return any(
        (row[number], row[attached], row[creator]) == (str(segment), "0", str(owner))
        for row in rows[1:]
    )


def _read_segment(libc: ctypes.CDLL, segment: int) -> bytes | None:
    """Return the head of a System V segment; None if it may not be read."""
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(segment, None, _SHM_RDONLY)
    if address is None or address == ctypes.c_void_p(-1).value:
        return None
    try:
        return ctypes.string_at(address, _HEADER.size)
    finally:
        libc.shmdt(ctypes.c_void_p(address))


def _listed(control: int, owner: int) -> Iterator[int]:
    """Yield the numbers of the POSIX segments listed in one of them, and that one last."""
    try:
        content = _read_owned(MEMORY / f"PostgreSQL.{control}", owner)
        magic, count, _ = _CONTROL.unpack_from(content)
        if magic != _CONTROL_MAGIC:
            return
        for i in range(count):
            number, uses = _ITEM.unpack_from(content, _CONTROL.size + i * _ITEM.size)
            if uses > 0:
                yield number
    except (OSError, struct.error):
        return
    yield control


def remove_tree(folder: Path) -> None:
    """Remove a folder that contains data folders, and what their servers left in memory."""
    for depth in ("*", "*/*"):
        for control in folder.glob(f"{depth}/global/pg_control"):
            forget_memory(control.parent.parent)
    shutil.rmtree(folder, ignore_errors=True)
