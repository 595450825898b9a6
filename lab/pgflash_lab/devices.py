# SPDX-License-Identifier: PostgreSQL
"""The two devices of a run: folders for files, on real or emulated devices.

Real devices are two folders that the user names.  Without them, the lab puts its files in memory
(or, if memory is short, on the disk of the store), and the emulator delays the server's calls on
them according to the two device profiles.

Each device gets one folder for this run, which is removed however the run ends.  A killed lab
cannot do that, and its memory would stay allocated; so a folder contains a file that its lab keeps
locked, and the next lab removes folders whose file is no longer locked.
"""

import contextlib
import dataclasses
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgflash.errors import UsageError
from pgflash.machine.host import available_memory_bytes
from pgflash.model.words import size
from pgflash_lab import host
from pgflash_lab.account import make_server_dir, reachable_dir, server_account
from pgflash_lab.leftovers import forget_memory, remove_data
from pgflash_lab.model.run import Approach, Device
from pgflash_lab.throttled import Limits

#: Where files in memory go, and how much must stay free there.
MEMORY = Path("/dev/shm")
SPARE_BYTES = 2 * 2**30

_PREFIX = "pgflash-lab-"
#: Locked while the folder's lab lives.
_LOCK = "in-use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the files of one approach are."""

    base: Path  # of the server: its data directory is below
    wal: Path | None  # None: inside the data directory
    cache_files: tuple[Path, ...]
    #: Folders for tablespaces, by role; the data's own device needs none.
    tablespaces: Mapping[str, Path]
    archive: Path | None

    def clear(self) -> None:
        """Free the space before the next attempt: it may be memory."""
        remove_data(self.base / "data")
        for folder in (self.wal, self.archive, *self.tablespaces.values()):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        for file in self.cache_files:
            file.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """The folder of each device, by role."""

    array: Path
    flash: Path
    #: A second device like flash, for a cache of two files.  Only emulated runs have such a cache.
    flash_2: Path

    def of(self, role: str) -> Path:
        """Return the folder of a device."""
        return self.array if role == "array" else self.flash

    def places(self, approach: Approach) -> Places:
        """Return where an approach's files are."""
        caches = (self.flash, self.flash_2)[: approach.cache_files] if approach.cache else ()
        return Places(
            base=self.of(approach.data) / "server",
            wal=self.of(approach.wal) / "wal" if approach.wal != approach.data else None,
            cache_files=tuple(folder / "cache" / "pgflash.cache" for folder in caches),
            tablespaces={
                role: self.of(role) / "tablespace"
                for role in ("array", "flash")
                if role != approach.data
            },
            archive=self.of(approach.archive) / "archive" if approach.archive else None,
        )


@contextlib.contextmanager
def emulated_folders(store: Path, *, needed_bytes: int, memory: bool = True) -> Iterator[Folders]:
    """Yield folders for emulated devices: in MEMORY if allowed and roomy, else in the store."""
    place = roomy_place(store, needed_bytes) if memory else reachable_dir(store)
    with own_folder(place) as root:
        yield Folders(
            array=make_server_dir(root / "array"),
            flash=make_server_dir(root / "flash"),
            flash_2=make_server_dir(root / "flash-2"),
        )


@contextlib.contextmanager
def real_folders(*, hdd: Path, flash: Path) -> Iterator[Folders]:
    """Yield a folder of this run on each of two real devices."""
    for folder in (hdd, flash):
        if not folder.is_dir():
            raise UsageError(
                f'"{folder}" is not a directory', hint="Name two existing mount points."
            )
    if hdd.stat().st_dev == flash.stat().st_dev:
        raise UsageError(
            f'"{hdd}" and "{flash}" are on the same device',
            hint="Name a folder on each device, or leave both out to use emulated devices.",
        )
    with own_folder(hdd) as array_root, own_folder(flash) as flash_root:
        yield Folders(
            array=make_server_dir(array_root / "array"),
            flash=make_server_dir(flash_root / "flash"),
            flash_2=make_server_dir(flash_root / "flash-2"),
        )


@contextlib.contextmanager
def own_folder(place: Path) -> Iterator[Path]:
    """Yield a new folder that is ours while we live, and remove those of dead labs."""
    clear_leftovers(place)
    try:
        root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    except OSError as error:
        raise UsageError(f'could not write to "{place}": {error.strerror}') from error
    try:
        with (root / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            make_server_dir(root)
            yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def clear_leftovers(place: Path) -> list[Path]:
    """Remove the folders of killed labs that were ours; return them.

    Everybody may create folders in /tmp and /dev/shm, so those of others are not even looked into.
    """
    cleared = []
    account = server_account()
    ours = {os.geteuid()} | ({account.uid} if account is not None else set())
    for root in place.glob(f"{_PREFIX}*"):
        try:
            status = root.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid not in ours:
                continue
            number = os.open(root / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(number) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A server with a flash cache keeps memory for a next start that will never come.
                # The second pattern is that of several servers (failover/fleet.py).
                for pattern in ("*/server/data", "*/*/server/data"):
                    for data in root.glob(pattern):
                        forget_memory(data)
                shutil.rmtree(root, ignore_errors=True)
        except OSError:
            continue  # in use, or no lab's
        cleared.append(root)
    return cleared


def roomy_place(store: Path, needed_bytes: int) -> Path:
    """Return memory if the run's files fit there with room to spare, else the store."""
    if MEMORY.is_dir():
        free = min(shutil.disk_usage(MEMORY).free, available_memory_bytes())
        if free >= needed_bytes + SPARE_BYTES:
            return MEMORY
    return reachable_dir(store)


def real_device(role: str, folder: Path) -> Device:
    """Describe a device that the user named."""
    kind = host.file_system(folder)
    usage = shutil.disk_usage(folder)
    return Device(
        role=role,
        name=str(folder),
        emulated=False,
        summary=f"{kind}, {size(usage.total)}",
        facts={"file system": kind, "size": size(usage.total)},
    )


def throttled_device(device: Device, limits: Limits) -> Device:
    """Describe a volume on a real device whose reads the kernel limits (throttled.py)."""
    return dataclasses.replace(
        device,
        summary=f"a volume on it, limited by the kernel: {limits.summary}",
        facts={
            **device.facts,
            "limited to": limits.summary,
        },
    )
