# SPDX-License-Identifier: PostgreSQL
"""Volumes that come back: under another device number, or another one under the same number.

A cloud's volume, a loop device or a subvolume gets the number that is free when it is attached.  A
clean shutdown's cache is warm whatever the number is; another file system is cold, even one whose
files have the same inodes, sizes and times.  After a crash a volume that was attached again may
have lost what was not synced, so the cache is cold.
"""

import mmap
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer
from support.cluster import ClusterFactory
from support.disk import Disk, attach, disk_under, make_image
from support.patience import eventually
from support.shim import compile_shim
from support.warm import (
    BLOCKS_MIN,
    assert_true,
    crash,
    create_warm,
    is_loaded,
    path_of,
    read_table,
    start_again,
    until_cached,
)

BLOCK = 8192
FROM_MAP = "warm: from the map"
MOUNTED = "cold: the machine was rebooted, or a file system of the data was mounted"


@contextmanager
def on_a_volume(
    cluster: ClusterFactory, install: PgInstall, file_system: str
) -> Iterator[tuple[CachedServer, Disk]]:
    """Yield a stopped server, cached, whose data directory is a separate volume."""
    cached = create_warm(cluster, install)
    cached.server.stop()
    with disk_under(cached.server, file_system) as disk:
        start_again(cached)
        until_cached(cached)
        cached.server.stop()
        yield cached, disk
        cached.server.stop()


@pytest.mark.parametrize("file_system", ["ext4", "xfs", "btrfs"])
def test_a_volume_under_another_number_is_the_same_volume(
    cluster: ClusterFactory, pgflash_install: PgInstall, file_system: str
) -> None:
    with on_a_volume(cluster, pgflash_install, file_system) as (cached, disk):
        disk.attach_again()
        assert start_again(cached).startswith(FROM_MAP)
        assert eventually(lambda: is_loaded(cached))
        assert read_table(cached).hits >= BLOCKS_MIN
        assert_true(cached)


def become_another(disk: Disk, block: bytes) -> None:
    """Make the volume a different one, whose files have the same inodes and times.

    One block of it, changed below the file system, is empty, which PostgreSQL takes for valid.
    """
    disk.unmount()
    with disk.image.open("r+b") as file, mmap.mmap(file.fileno(), 0) as volume:
        place = volume.find(block)
        assert place > 0
        assert volume.find(block, place + 1) < 0
        volume[place : place + BLOCK] = bytes(BLOCK)
    subprocess.run(["e2fsck", "-fp", disk.device], check=False, capture_output=True)
    subprocess.run(["tune2fs", "-U", "random", disk.device], check=True, capture_output=True)
    disk.mount()


def come_back_as_another(cluster: ClusterFactory, install: PgInstall) -> tuple[str, bool, int]:
    """Return why the cache is warm or cold on another volume, and what it serves.

    That is: whether the rows of the emptied block are back, and how many blocks are stale.
    """
    with on_a_volume(cluster, install, "ext4") as (cached, disk):
        start_again(cached)
        path, rows = path_of(cached), read_table(cached).digest
        cached.server.stop()
        before = path.stat()
        with path.open("rb") as file:
            file.seek(BLOCK)
            block = file.read(BLOCK)
        become_another(disk, block)
        with path.open("rb") as file:
            file.seek(BLOCK)
            assert file.read(BLOCK) == bytes(BLOCK)
        after = path.stat()
        for name in ("st_dev", "st_ino", "st_size", "st_ctime_ns"):
            assert getattr(after, name) == getattr(before, name)
        cached.server.configure({"pgflash.verify": "off"})
        reason = start_again(cached)
        if reason.startswith("warm"):
            assert eventually(lambda: is_loaded(cached))
        are_back = read_table(cached).digest == rows
        _, stale = cached.verify()
        return reason, are_back, stale


def test_another_file_system_under_the_same_number_is_cold(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    reason, are_back, stale = come_back_as_another(cluster, pgflash_install)
    assert reason.startswith("cold: the cache is another data directory's")
    assert not are_back
    assert stale == 0


def test_control_its_blocks_are_stale_if_file_systems_are_not_told_apart(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    reason, are_back, stale = come_back_as_another(cluster, broken_install("VOLUME"))
    assert reason.startswith(FROM_MAP)
    assert are_back
    assert stale == 1


#: A kernel before Linux 6.8: mounts have no numbers that are used once.
WITHOUT_MOUNT_NUMBERS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/stat.h>
int statx(int at, const char *path, int flags, unsigned mask, struct statx *status)
{
    int (*real)(int, const char *, int, unsigned, struct statx *) = dlsym(RTLD_NEXT, "statx");
    int result = real(at, path, flags, mask & ~0x4000U, status);

    status->stx_mask &= ~0x4000U;
    return result;
}
"""


def crash_and_attach_its_tablespace_again(
    cluster: ClusterFactory, install: PgInstall, *, another_number: bool
) -> str:
    """Return why the cache is warm or cold after a crash and a new mount of a tablespace."""
    cached = create_warm(cluster, install)
    cached.server.stop()
    cached.preloads = (compile_shim(cached.server.base, "statx", WITHOUT_MOUNT_NUMBERS),)
    image = cached.server.base / "tablespace"
    make_image(image, "ext4")
    devices = [attach(image)]
    subprocess.run(["mount", devices[0], cached.space], check=True)
    try:
        shutil.rmtree(cached.space / "lost+found")
        if cached.server.account is not None:
            shutil.chown(cached.space, cached.server.account.uid, cached.server.account.gid)
        start_again(cached)
        with cached.server.connect() as session:
            session.autocommit = True
            session.execute(f"create tablespace beside location '{cached.space}'")
            session.execute("checkpoint")
        cached.server.stop()
        start_again(cached)
        crash(cached)
        subprocess.run(["umount", cached.space], check=True)
        if another_number:
            devices.append(attach(image))
        subprocess.run(["mount", devices[-1], cached.space], check=True)
        reason = start_again(cached)
        cached.server.stop("immediate")
        return reason
    finally:
        cached.server.stop("immediate")
        subprocess.run(["umount", cached.space], check=True)
        for device in devices:
            subprocess.run(["losetup", "--detach", device], check=True)


def test_memory_is_cold_if_a_tablespace_has_another_number_since_a_crash(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    reason = crash_and_attach_its_tablespace_again(cluster, pgflash_install, another_number=True)
    assert reason.startswith(MOUNTED)


def test_control_it_is_warm_if_a_new_number_is_no_new_mount(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    install = broken_install("DEVICE_NUMBER")
    reason = crash_and_attach_its_tablespace_again(cluster, install, another_number=True)
    assert reason.startswith("warm: its memory")
