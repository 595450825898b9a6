# SPDX-License-Identifier: PostgreSQL
"""Folders that look like those of killed labs.

The lab removes what killed labs left in /dev/shm and /tmp, and their servers' memory with it.
A user of the machine, who has no other right, makes such folders there.  In them he names other
servers' data folders and memory segments, or puts files that never end.
"""

import contextlib
import ctypes
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgflash_lab import devices, leftovers
from pgflash_lab.account import make_server_dir
from support.hostile import the_attacker
from support.patience import PATIENCE_S

#: A user who is neither root nor the one that servers run as.
STRANGER = 65533


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that everybody may write to, in place of /dev/shm."""
    the_attacker()
    path = Path(tempfile.mkdtemp(prefix="pgflash-test-", dir="/var/tmp"))
    path.chmod(0o1777)
    monkeypatch.setattr(leftovers, "MEMORY", path)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of somebody's server."""
    data = make_server_dir(tmp_path_factory.mktemp("server") / "data")
    (data / "postmaster.pid").touch()
    return data


def memory_of(data: Path, place: Path) -> Path:
    """Make the memory of a server's cache."""
    status = data.stat()
    path = place / f"pgflash.{status.st_uid}.{status.st_dev:x}.{status.st_ino:x}"
    path.touch()
    os.chown(path, status.st_uid, status.st_gid)
    return path


def lab_folder(place: Path, owner: int) -> Path:
    """Make what looks like a killed lab's folder."""
    root = place / "pgflash-lab-x"
    (root / "array" / "server").mkdir(parents=True)
    (root / "in-use").touch()
    for path in (root, *root.rglob("*")):
        os.chown(path, owner, owner)
    return root


@contextlib.contextmanager
def segment(creator: int, numbers: list[int], place: Path, owner: int) -> Iterator[str]:
    """Make a System V segment like a server's, which lists others; yield a postmaster.pid."""
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    control = place / "PostgreSQL.77"
    control.write_bytes(
        struct.pack("=III4x", 0x9A503D32, len(numbers), len(numbers))
        + b"".join(struct.pack("=II32x", one, 2) for one in numbers)
    )
    os.chown(control, owner, owner)
    made = subprocess.run(
        [sys.executable, "-c",
         "import ctypes, os, struct, sys\n"
         "os.setuid(int(sys.argv[1]))\n"
         "libc = ctypes.CDLL(None)\n"
         "libc.shmat.restype = ctypes.c_void_p\n"
         "number = libc.shmget(0, 4096, 0o1644)\n"
         "at = libc.shmat(number, None, 0)\n"
         "ctypes.memmove(at, struct.pack('=iiQQI', 679834894, 4711, 4096, 56, 77), 28)\n"
         "print(number)\n",
         str(creator)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    number = int(made.stdout)
    try:
        yield f"4711\n/\n0\n1\n/\n*\n0 {number}\nready\n"
    finally:
        libc.shmctl(number, 0, None)


def test_a_link_to_a_servers_data_keeps_its_memory(place: Path, server: Path) -> None:
    memory = memory_of(server, place)
    root = lab_folder(place, STRANGER)
    (root / "array" / "server" / "data").symlink_to(server)
    assert devices.clear_leftovers(place) == []
    assert memory.exists()


def test_a_folder_of_the_labs_own_has_no_links_to_data(place: Path, server: Path) -> None:
    """The server's user, who owns the folders, has made one."""
    memory = memory_of(server, place)
    root = lab_folder(place, the_attacker().uid)
    (root / "array" / "server" / "data").symlink_to(server)
    assert devices.clear_leftovers(place) == [root]
    assert memory.exists()


@pytest.mark.parametrize("of_stranger", [True, False], ids=["a stranger's", "a killed lab's"])
def test_only_what_belongs_to_a_data_folders_owner_goes_with_it(
    place: Path, *, of_stranger: bool
) -> None:
    """A segment of his own lists those of other servers."""
    account = the_attacker()
    owner = STRANGER if of_stranger else account.uid
    data = make_server_dir(lab_folder(place, account.uid) / "array" / "server" / "data")
    own, others = place / "PostgreSQL.5", place / "PostgreSQL.6"
    for path, uid in ((own, account.uid), (others, 0)):
        path.touch()
        os.chown(path, uid, uid)
    with segment(owner, [5, 6], place, owner) as pid_file:
        (data / "postmaster.pid").write_text(pid_file)
        os.chown(data / "postmaster.pid", account.uid, account.gid)
        leftovers.forget_memory(data)
    assert own.exists() == of_stranger
    assert others.exists()


@pytest.mark.parametrize(
    "make",
    [os.mkfifo, lambda path: path.symlink_to("/dev/zero")],
    ids=["a pipe", "a file without an end"],
)
@pytest.mark.parametrize("owned", [True, False], ids=["of the server's user", "of a stranger"])
def test_files_without_an_end_do_not_stop_a_lab(
    place: Path, make: Callable[[Path], None], *, owned: bool
) -> None:
    owner = the_attacker().uid if owned else STRANGER
    root = lab_folder(place, owner)
    data = make_server_dir(root / "array" / "server" / "data")
    make(data / "postmaster.pid")
    (root / "in-use").unlink()
    make(root / "in-use")
    for path in (root / "in-use", data / "postmaster.pid"):
        os.chown(path, owner, owner, follow_symlinks=False)
    subprocess.run(
        [sys.executable, "-c",
         "import pathlib, sys; from pgflash_lab import devices\n"
         "devices.clear_leftovers(pathlib.Path(sys.argv[1]))",
         place],
        check=True, timeout=PATIENCE_S,
    )  # fmt: skip
