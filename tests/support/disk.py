# SPDX-License-Identifier: PostgreSQL
"""A file system of its own under a data directory, which loses its power for real.

A file on a loop device, mounted where the data directory is.  For a power cut the file system
is told to go down at once without writing its journal, which it offers for such tests: what
was written of bytes and inodes until then is there when it is mounted again, and nothing
else.  Who loses bytes and who times is then the kernel's business; to have a page written
and not its inode, as a kernel may at any time, write_pages() asks for just that.

Only root may mount.
"""

import ctypes
import fcntl
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgflash.lab.server import Server
from support.patience import eventually
from support.power import PIECES, Lost, kill_all

#: Of ext4 and xfs, with no call of the C library: go down, and leave the journal as it is.
_GO_DOWN = 0x8004587D
_WITHOUT_JOURNAL = struct.pack("=I", 2)

#: Wait for what is being written, write what is dirty, wait for that.
_SYNC_FILE_RANGE_ALL = 7

SIZE = "400M"

#: A journal that is written by syncs only, as long as a test may last.
FILE_SYSTEMS = {"ext4": "commit=3600", "xfs": "defaults"}


@dataclass(slots=True, kw_only=True)
class Disk:
    """The file system that is mounted on a data directory."""

    server: Server
    device: str
    options: str

    def mount(self) -> None:
        """Put it in its place."""
        subprocess.run(["mount", "-o", self.options, self.device, self.server.data], check=True)

    def unmount(self) -> None:
        """Take it away; a process that ends may yet hold it."""

        def done() -> bool:
            return not subprocess.run(["umount", self.server.data], check=False).returncode

        assert eventually(done)

    def cut(self, server: Server, choice: random.Random, *, pieces: Sequence[int] = PIECES) -> Lost:
        """Lose the power, and boot."""
        for path in server.data.glob("base/*/*"):
            if choice.random() < 0.5:
                write_pages(path)
        self.lose_power()
        return Lost()

    def lose_power(self) -> None:
        """Go down, whatever has been written, and be mounted again."""
        folder = os.open(self.server.data, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(folder, _GO_DOWN, _WITHOUT_JOURNAL)
        finally:
            os.close(folder)
        if self.server.running:
            kill_all(self.server)
        self.unmount()
        self.mount()

    def sync(self) -> None:
        """Have all on disk that was written."""
        subprocess.run(["sync", "--file-system", self.server.data], check=True)

    def boot(self, choice: random.Random) -> None:
        """Be mounted anew."""
        self.unmount()
        self.mount()


def write_pages(path: Path) -> None:
    """Have a file's pages written, and not its inode."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(path, os.O_RDONLY)
    try:
        done = libc.sync_file_range(
            fd, ctypes.c_int64(0), ctypes.c_int64(0), ctypes.c_uint(_SYNC_FILE_RANGE_ALL)
        )
        assert done == 0, os.strerror(ctypes.get_errno())
    finally:
        os.close(fd)


@contextmanager
def disk_under(server: Server, file_system: str) -> Iterator[Disk]:
    """Move the data directory of a server that is down to a disk of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    if shutil.which(f"mkfs.{file_system}") is None:
        pytest.skip(f"there is no mkfs.{file_system}")
    image = server.base / "disk"
    subprocess.run(["truncate", "--size", SIZE, image], check=True)
    subprocess.run([f"mkfs.{file_system}", "-q", image], check=True)
    found = subprocess.run(
        ["losetup", "--find", "--show", image], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        pytest.skip(f"this machine has no loop device: {found.stderr.strip()}")
    device = found.stdout.strip()
    disk = Disk(server=server, device=device, options=FILE_SYSTEMS[file_system])
    original = server.data.with_name("original")
    server.data.rename(original)
    server.data.mkdir()
    try:
        disk.mount()
        try:
            subprocess.run(["cp", "-a", "-T", original, server.data], check=True)
            disk.sync()
            yield disk
        finally:
            server.stop("immediate")
            disk.unmount()
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
        server.data.rmdir()
        original.rename(server.data)
