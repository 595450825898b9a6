# SPDX-License-Identifier: PostgreSQL
"""The cases of the fault matrix: what fails in the cache file, and what must be said about it.

Three tables: calls that fail while the server runs, calls that fail while it starts, and damage to
the medium. tests/crash/test_fault_matrix.py runs them.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.fault_rig import PAGE_BYTES, flip_bits, used_pages
from support.faults import NO_END, Call, Fault, Kind

READ_FAILED = "a read of the cache file failed"
WRITE_FAILED = "a write of the cache file failed"
CORRUPT = "a block came back from the cache file corrupt"
OFFLINE = "pgflash is offline now"
OFF = "pgflash is off"
BYPASSED = "is bypassed now: a read of it was not done in time"
IN_USE = "is in use again"

MB = 1024 * 1024

#: The superblock's page, and where slots begin.
SUPERBLOCK = (0, 4096)
SLOTS_OFFSET = MB
SLOTS = (SLOTS_OFFSET, 2**62)


# ---- calls that fail while the server runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A fault while the server runs, and what must be said about it."""

    name: str
    fault: Fault
    #: The counter of faults (or two counters together); with `some`, it counts only those that a
    #: later read finds.
    counter: str
    some: bool = False
    says: str
    mode: str = "serve"
    #: False: the machine has no Linux AIO, so plain calls are made.
    aio: bool = True


def failing(calls: Call, error: int, times: int = NO_END) -> Fault:
    """Return calls on slots that fail."""
    return Fault(calls=calls, error=error, times=times, where=SLOTS)


def wrong(calls: Call, kind: Kind, times: int = NO_END, *, amount: int = 0) -> Fault:
    """Return calls on slots that report success wrongly, or did half of it."""
    # A misplaced write must stay within the file, so the last slots are spared.
    where = (SLOTS_OFFSET, 60 * MB) if kind is Kind.MISPLACE else SLOTS
    return Fault(calls=calls, kind=kind, amount=amount, times=times, where=where)


EVERYWHERE = "reads fail with EIO from now on", "a few writes are torn after 512 bytes"

RUNNING = (
    Running(
        name="a few reads fail with EIO",
        fault=failing(Call.READ, errno.EIO, 3),
        counter="flash_read_errors",
        says=READ_FAILED,
    ),
    Running(
        name="reads fail with EIO from now on",
        fault=failing(Call.READ, errno.EIO),
        counter="flash_read_errors",
        says=READ_FAILED,
        mode="offline",
    ),
    Running(
        name="the same without Linux AIO",
        fault=failing(Call.READ, errno.EIO),
        counter="flash_read_errors",
        says=READ_FAILED,
        mode="offline",
        aio=False,
    ),
    Running(
        name="io_submit() fails with EIO from now on",
        fault=Fault(calls=Call.SUBMIT, error=errno.EIO),
        counter="flash_read_errors, flash_write_errors",
        says=OFFLINE,
        mode="offline",
    ),
    Running(
        name="a few reads come back short",
        fault=wrong(Call.READ, Kind.SHORT, 3),
        counter="flash_read_errors",
        says=READ_FAILED,
    ),
    Running(
        name="a few reads bring a wrong bit",
        fault=wrong(Call.READ, Kind.FLIP, 3),
        counter="corrupt_slots",
        says=CORRUPT,
    ),
    Running(
        name="every read brings a wrong bit",
        fault=wrong(Call.READ, Kind.FLIP),
        counter="corrupt_slots",
        # Data that was read ahead, and dropped when the cache goes offline, is never looked at.
        some=True,
        says=CORRUPT,
        mode="offline",
    ),
    Running(
        name="a few writes fail with EIO",
        fault=failing(Call.WRITE, errno.EIO, 3),
        counter="flash_write_errors",
        says=WRITE_FAILED,
    ),
    Running(
        name="writes fail with EIO from now on",
        fault=failing(Call.WRITE, errno.EIO),
        counter="flash_write_errors",
        says=WRITE_FAILED,
        mode="offline",
    ),
    Running(
        name="the same without Linux AIO: writes",
        fault=failing(Call.WRITE, errno.EIO),
        counter="flash_write_errors",
        says=WRITE_FAILED,
        mode="offline",
        aio=False,
    ),
    Running(
        name="a few writes find no space",
        fault=failing(Call.WRITE, errno.ENOSPC, 3),
        counter="flash_write_errors",
        says=WRITE_FAILED,
    ),
    Running(
        name="a few writes come back short",
        fault=wrong(Call.WRITE, Kind.SHORT, 3),
        counter="flash_write_errors",
        says=WRITE_FAILED,
    ),
    *(
        Running(
            name=f"a few writes {what}{'' if aio else ', without Linux AIO'}",
            fault=fault,
            counter="corrupt_slots",
            some=True,
            says=CORRUPT,
            aio=aio,
        )
        for what, fault, aio in (
            ("are torn after 512 bytes", wrong(Call.WRITE, Kind.TEAR, 40, amount=512), True),
            # More of these are needed: in many blocks only the first half has changed.
            ("are torn after 4 kB", wrong(Call.WRITE, Kind.TEAR, 200, amount=4096), True),
            ("are torn after 4 kB", wrong(Call.WRITE, Kind.TEAR, 200, amount=4096), False),
            ("are lost", wrong(Call.WRITE, Kind.TEAR, 40), True),
            (
                "go to another slot",
                wrong(Call.WRITE, Kind.MISPLACE, 40, amount=3 * PAGE_BYTES),
                True,
            ),
            (
                "go to another slot",
                wrong(Call.WRITE, Kind.MISPLACE, 40, amount=3 * PAGE_BYTES),
                False,
            ),
        )
    ),
)


# ---- calls that fail while it starts


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """A fault at the start: the server runs without a cache and says why."""

    name: str
    fault: Fault
    says: str


STARTING = (
    *(
        Starting(
            name=f"open() fails with {errno.errorcode[error]}",
            fault=Fault(calls=Call.OPEN, error=error),
            says="could not open cache file",
        )
        for error in (errno.EIO, errno.ENOSPC)
    ),
    Starting(
        name="posix_fallocate() finds no space",
        fault=Fault(calls=Call.ALLOCATE, error=errno.ENOSPC),
        says="no room for cache file",
    ),
    Starting(
        name="posix_fallocate() fails with EIO",
        fault=Fault(calls=Call.ALLOCATE, error=errno.EIO),
        says="could not write cache file",
    ),
    Starting(
        name="the superblock cannot be written: EIO",
        fault=Fault(calls=Call.WRITE, error=errno.EIO, where=SUPERBLOCK),
        says="could not write cache file",
    ),
    Starting(
        name="the superblock cannot be written: ENOSPC",
        fault=Fault(calls=Call.WRITE, error=errno.ENOSPC, where=SUPERBLOCK),
        says="no room for cache file",
    ),
    Starting(
        name="the superblock cannot be synced: EIO",
        fault=Fault(calls=Call.SYNC, error=errno.EIO),
        says="could not write cache file",
    ),
    Starting(
        name="the superblock cannot be read",
        fault=Fault(calls=Call.READ, error=errno.EIO, where=SUPERBLOCK),
        says=OFF,
    ),
)


# ---- damage to the medium


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Damage to the cache file, done behind the server's back while it runs."""

    name: str
    do: Callable[[Path], None]
    counter: str = ""
    says: str = ""
    mode: str = "serve"
    #: Whether the next start can use the file.
    usable: bool = True


def flip_superblock(path: Path) -> None:
    """Flip bits in every field of the superblock."""
    flip_bits(path, list(range(0, 64)))


def flip_superblock_crc(path: Path) -> None:
    """Flip one bit that only the superblock's checksum reveals."""
    flip_bits(path, [40])


def flip_between(path: Path) -> None:
    """Flip bits between the superblock and the slots, where the map is."""
    flip_bits(path, list(range(4096, SLOTS_OFFSET, 509)))


def flip_some_slots(path: Path) -> None:
    """Flip a bit in each of some twenty slots."""
    pages = used_pages(path, SLOTS_OFFSET)
    flip_bits(path, [page + page // 8 % PAGE_BYTES for page in pages[:: max(1, len(pages) // 20)]])


def flip_all_slots(path: Path) -> None:
    """Flip a bit in every slot in use."""
    flip_bits(path, [page + 61 for page in used_pages(path, SLOTS_OFFSET)])


def zero_slots(path: Path) -> None:
    """Overwrite all slots with zeros."""
    with path.open("r+b") as file:
        file.seek(SLOTS_OFFSET)
        file.write(bytes(path.stat().st_size - SLOTS_OFFSET))
        file.flush()
        os.fsync(file.fileno())


def cut_off(path: Path) -> None:
    """Leave only the first slots."""
    os.truncate(path, SLOTS_OFFSET + 16 * PAGE_BYTES)


DAMAGES = (
    Damage(name="bits of the superblock flip", do=flip_superblock, usable=False),
    Damage(name="bits between superblock and slots flip", do=flip_between),
    Damage(
        name="a bit flips in some slots", do=flip_some_slots, counter="corrupt_slots", says=CORRUPT
    ),
    Damage(
        name="a bit flips in every slot",
        do=flip_all_slots,
        counter="corrupt_slots",
        says=CORRUPT,
        mode="offline",
    ),
    Damage(
        name="the slots are overwritten with zeros",
        do=zero_slots,
        counter="corrupt_slots",
        says=CORRUPT,
        mode="offline",
    ),
    Damage(name="the file is cut off", do=cut_off, counter="flash_read_errors", says=READ_FAILED),
    Damage(name="the file is removed", do=Path.unlink),
)
