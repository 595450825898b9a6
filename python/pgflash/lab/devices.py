# SPDX-License-Identifier: PostgreSQL
"""The two devices of a run: folders for files, real or played by the emulator.

Real devices are two folders that the user names.  Without them the lab puts its files
in memory (or, where memory is short, on the disk of the store) and the emulator delays
the server's calls on them as the two device profiles say.

Each device gets one folder of this run, removed when the run ends, however it ends.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pgflash.errors import UsageError
from pgflash.lab import host
from pgflash.lab.server import make_server_dir, reachable_dir
from pgflash.model.run import Approach, Device

#: Where files in memory go, and what must stay free there.
MEMORY = Path("/dev/shm")
SPARE_BYTES = 2 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where one approach's files live."""

    base: Path  # of the server: its data directory is below
    wal: Path | None  # None: inside the data directory
    cache_file: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """The folder of each device, by role."""

    array: Path
    flash: Path

    def of(self, role: str) -> Path:
        """Return the folder of a device."""
        return self.array if role == "array" else self.flash

    def places(self, approach: Approach) -> Places:
        """Return where an approach's files live."""
        wal = self.of(approach.wal) / "wal" if approach.wal != approach.data else None
        cache_file = self.flash / "cache" / "pgflash.cache" if approach.cache else None
        return Places(base=self.of(approach.data) / "server", wal=wal, cache_file=cache_file)


@contextlib.contextmanager
def emulated_folders(store: Path, *, needed_bytes: int) -> Iterator[Folders]:
    """Yield folders for emulated devices: in memory if there is room, else in the store."""
    root = Path(tempfile.mkdtemp(prefix="pgflash-lab-", dir=roomy_place(store, needed_bytes)))
    try:
        make_server_dir(root)
        yield Folders(array=make_server_dir(root / "array"), flash=make_server_dir(root / "flash"))
    finally:
        shutil.rmtree(root, ignore_errors=True)


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
    made: list[Path] = []
    try:
        for device in (hdd, flash):
            try:
                made.append(Path(tempfile.mkdtemp(prefix="pgflash-lab-", dir=device)))
            except OSError as error:
                raise UsageError(f'could not write to "{device}": {error.strerror}') from error
            make_server_dir(made[-1])
        yield Folders(array=made[0], flash=made[1])
    finally:
        for folder in made:
            shutil.rmtree(folder, ignore_errors=True)


def roomy_place(store: Path, needed_bytes: int) -> Path:
    """Return memory if the run's files fit there with room to spare, else the store."""
    if MEMORY.is_dir():
        free = min(shutil.disk_usage(MEMORY).free, host.available_memory_bytes())
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
        summary=f"{kind}, {usage.total / 2**30:.0f} GiB",
        facts={"file system": kind, "size": f"{usage.total / 2**30:.0f} GiB"},
    )
