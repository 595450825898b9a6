# SPDX-License-Identifier: PostgreSQL
"""A data directory's own file system, which really loses its power.

The file system is in a file on a loop device, mounted on the data directory.  For a power cut it is
told to go down at once without writing its journal, which file systems offer for such tests: when
it is mounted again, it has the bytes and inodes that had been written until then, and nothing else.
So the kernel decides which bytes and times are lost.  A kernel may at any time have written a page
but not its inode; write_pages() requests just that.

Only root may mount.
"""

import ctypes
import errno
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

from pgflash_lab.server import Server
from support.patience import eventually
from support.power import PIECES, Lost, kill_all

#: The ioctl of ext4 and xfs, without a function in the C library: go down, and leave the journal as
#: it is.
_GO_DOWN = 0x8004587D
_WITHOUT_JOURNAL = struct.pack("=I", 2)

#: Wait for pages being written, write dirty pages, and wait for them.
_SYNC_FILE_RANGE_ALL = 7

SIZE = "400M"

#: Only syncs write the journal, for as long as a test may last.
FILE_SYSTEMS = {"ext4": "commit=3600", "xfs": "defaults"}

#: What a test is skipped for where a file system cannot be made.
_MISSING = {
    "ext4": "there is no mkfs.ext4: apt-get install e2fsprogs",
    "xfs": "there is no mkfs.xfs: apt-get install xfsprogs",
    "btrfs": "there is no mkfs.btrfs: apt-get install btrfs-progs",
}


@dataclass(slots=True, kw_only=True)
class Disk:
    """The file system mounted on a data directory."""

    server: Server
    image: Path
    device: str
    options: str

    def mount(self) -> None:
        """Mount it."""
        subprocess.run(["mount", "-o", self.options, self.device, self.server.data], check=True)

    def unmount(self) -> None:
        """Unmount it; a process that is ending may still hold it.

        A mount namespace that another program made meanwhile has its own mount of it.  As long as
        that lasts, mounting it again would bring back the file system that has gone down.
        """

        def done() -> bool:
            return not subprocess.run(["umount", self.server.data], check=False).returncode

        def free() -> bool:
            try:
                os.close(os.open(self.device, os.O_RDONLY | os.O_EXCL))
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                return False
            return True

        assert eventually(done)
        assert eventually(free), f"{self.device} is still mounted in another mount namespace"

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
        """Put everything that was written on disk."""
        subprocess.run(["sync", "--file-system", self.server.data], check=True)

    def attach_again(self) -> None:
        """Come back under another device number, as a volume that was attached again."""
        before = self.server.data.stat().st_dev
        self.unmount()
        device = attach(self.image)
        subprocess.run(["losetup", "--detach", self.device], check=True)
        self.device = device
        # btrfs takes a number that no device has: other file systems take all up to the old one.
        others = list[Path]()
        try:
            self.mount()
            while self.server.data.stat().st_dev == before:
                self.unmount()
                others.append(self.image.with_name(f"other-{len(others)}"))
                others[-1].mkdir()
                subprocess.run(["mount", "-t", "tmpfs", "none", others[-1]], check=True)
                self.mount()
        finally:
            for other in others:
                subprocess.run(["umount", other], check=True)
                other.rmdir()

    def boot(self, choice: random.Random) -> None:
        """Mount it again."""
        self.unmount()
        self.mount()


def attach(image: Path) -> str:
    """Return a free loop device that now is a file's; skip if there is none."""
    found = subprocess.run(
        ["losetup", "--find", "--show", image], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        pytest.skip(f"this machine has no loop device: {found.stderr.strip()}")
    return found.stdout.strip()


def make_image(image: Path, file_system: str) -> None:
    """Make a file system in a file; skip where that cannot be mounted."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    if shutil.which(f"mkfs.{file_system}") is None:
        pytest.skip(_MISSING[file_system])
    subprocess.run(["truncate", "--size", SIZE, image], check=True)
    subprocess.run([f"mkfs.{file_system}", "-q", image], check=True)


def write_pages(path: Path) -> None:
    """Write a file's pages to disk, but not its inode."""
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
    """Move the data directory of a stopped server to a disk of its own."""
    image = server.base / "disk"
    make_image(image, file_system)
    disk = Disk(
        server=server,
        image=image,
        device=attach(image),
        options=FILE_SYSTEMS.get(file_system, "defaults"),
    )
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
        subprocess.run(["losetup", "--detach", disk.device], check=True)
        server.data.rmdir()
        original.rename(server.data)
