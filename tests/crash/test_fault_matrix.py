# SPDX-License-Identifier: PostgreSQL
"""The fault matrix: whatever happens to the cache file, no query fails and no byte is wrong.

Calls that go wrong while the server runs or while it starts, damage to the medium (these
three are tables of cases, in support/fault_cases.py), a file system that goes away, a device
that hangs, a clock that jumps.  Each asserts what the counters, the mode and the log say about
it.  The rows come together in one table, which `make fault-matrix` prints and keeps.

A few cases run on every major; nothing in the others depends on it.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.fault_cases import (
    BYPASSED,
    DAMAGES,
    EVERYWHERE,
    IN_USE,
    MB,
    OFF,
    OFFLINE,
    RUNNING,
    STARTING,
    Damage,
    Running,
    Starting,
    cut_off,
    failing,
    flip_all_slots,
    flip_superblock_crc,
)
from support.fault_rig import Rig, flip_bits
from support.faults import NO_END, Call, Fault
from support.patience import eventually


@pytest.fixture(scope="module")
def rig(pgflash_install: PgInstall) -> Iterator[Rig]:
    """One server for all cases; at the end its data is checked once more."""
    factory = ClusterFactory(pgflash_install)
    built = Rig.build(factory, pgflash_install)
    yield built
    try:
        built.close()
        print(built.keep_table(pgflash_install.major).read_text())  # noqa: T201 - the result
    finally:
        factory.close()


@pytest.fixture(autouse=True)
def log_tail(request: pytest.FixtureRequest, rig: Rig) -> Iterator[None]:
    """Leave the server stopped, and print its log, for the report of a failed test."""
    yield
    rig.stop()
    print("\n".join(rig.cached.server.log_text(since_start=True).splitlines()[-30:]))  # noqa: T201


# ---- calls that go wrong while the server runs


def counted(rig: Rig, case: Running) -> int:
    """Return the values of the case's counters."""
    view = rig.cached.view()
    return sum(int(view[name]) for name in case.counter.split(", "))


def everywhere(name: str) -> tuple[pytest.MarkDecorator, ...]:
    """Return the mark of a case that runs on every major."""
    return (pytest.mark.extension,) if name in EVERYWHERE else ()


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=everywhere(case.name)) for case in RUNNING]
)
def test_a_call_that_goes_wrong_fails_no_query(rig: Rig, case: Running) -> None:
    rig.begin(aio=case.aio)
    rig.faults.strike(case.fault)
    rig.work_until_struck(case.fault.times if case.fault.times != NO_END else 1)
    rig.check()
    rig.faults.stop()
    count = rig.faults.count
    assert count == case.fault.times if case.fault.times != NO_END else count > 0
    if case.some:
        assert 0 < counted(rig, case) <= 2 * count
    else:
        assert eventually(lambda: counted(rig, case) == count), (
            f"{count} faults, {rig.cached.view()}"
        )
    if not case.aio:
        assert rig.faults.aio_count == 0
    elif case.fault.calls & (Call.READ | Call.WRITE):
        assert rig.faults.aio_count > 0
    view = rig.cached.view()
    assert view["mode"] == case.mode
    assert rig.says_once(case.says)
    if case.mode == "offline":
        assert rig.says_once(OFFLINE)
    rig.note(case.name, struck=str(count), view=view, says=case.says)


# ---- calls that go wrong while the server starts


@pytest.mark.parametrize("case", STARTING, ids=lambda case: case.name)
def test_a_start_that_fails_costs_the_cache_and_nothing_else(rig: Rig, case: Starting) -> None:
    rig.stop()
    if case.fault.calls == Call.ALLOCATE:
        # A file that has its space already is not given it again.
        rig.cached.cache_file.unlink()
    rig.faults.strike(case.fault)
    rig.begin_ill()
    assert rig.says_once(OFF)
    assert rig.says_once(case.says)
    rig.work()
    view = rig.check()
    assert view["mode"] == "offline"
    assert rig.faults.count > 0
    rig.note(case.name, struck=str(rig.faults.count), view=view, says=case.says)


def test_a_file_that_cannot_be_cut_off_costs_the_cache_only(rig: Rig) -> None:
    rig.begin()
    rig.stop()
    rig.cached.server.configure({"pgflash.cache_size": "32MB"})
    rig.faults.strike(Fault(calls=Call.TRUNCATE, error=errno.EIO))
    try:
        rig.begin_ill()
        assert rig.says_once("could not write cache file")
        rig.work()
        view = rig.check()
    finally:
        rig.stop()
        rig.cached.server.configure({"pgflash.cache_size": "64MB"})
    assert view["mode"] == "offline"
    rig.note(
        "ftruncate() of a larger file fails with EIO",
        struck=str(rig.faults.count),
        view=view,
        says="could not write cache file",
    )


# ---- damage to the medium


@pytest.mark.parametrize("case", DAMAGES, ids=lambda case: case.name)
def test_damage_to_the_cache_file_fails_no_query(rig: Rig, case: Damage) -> None:
    rig.begin()
    case.do(rig.cached.cache_file)
    # Reads all that is cached, so that all damage is found.
    rig.cached.verify()
    rig.work()
    view = rig.check()
    assert not case.counter or view[case.counter] > 0
    if case.name != "the file is cut off":
        assert view["mode"] == case.mode
    if case.says:
        assert rig.says_once(case.says)
    rig.note(case.name, struck="-", view=view, says=case.says)
    if not case.usable:
        rig.stop()
        rig.cached.cache_file.unlink()


def test_a_removed_file_is_made_again_at_the_next_start(rig: Rig) -> None:
    rig.stop()
    rig.cached.cache_file.unlink(missing_ok=True)
    rig.begin()
    assert rig.cached.cache_file.exists()


@pytest.mark.parametrize(
    ("name", "offset", "kept"),
    [("the magic number of the superblock", 0, False), ("the rest of the superblock", 20, True)],
)
def test_a_superblock_that_flipped_while_nobody_looked(
    rig: Rig, name: str, offset: int, kept: bool
) -> None:
    rig.begin()
    rig.stop()
    flip_bits(rig.cached.cache_file, [offset])
    rig.begin_ill()
    rig.work()
    view = rig.check()
    rig.stop()
    if kept:
        assert view["mode"] == "serve"
    else:
        # It might be another user's file: it is left alone.
        assert view["mode"] == "offline"
        assert rig.says_once("is not empty and is not a cache file")
        rig.cached.cache_file.unlink()
    rig.note(
        f"a bit of {name} flips while the server is down",
        struck="-",
        view=view,
        says="" if kept else "is not empty and is not a cache file",
    )


@pytest.mark.parametrize(
    ("name", "do", "start", "counter"),
    [
        ("a bit of the superblock flips", flip_superblock_crc, "cold", ""),
        ("a bit flips in every slot", flip_all_slots, "warm", "corrupt_slots"),
        ("the file is cut off", cut_off, "warm", "corrupt_slots"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_damage_between_a_crash_and_the_next_start(
    rig: Rig, name: str, do: Callable[[Path], None], start: str, counter: str
) -> None:
    rig.begin()
    rig.world.disconnect()
    rig.cached.server.kill_postmaster()
    do(rig.cached.cache_file)
    rig.begin_ill()
    assert eventually(lambda: rig.cached.view()["mode"] == "serve")
    reason = str(rig.cached.view()["start_reason"])
    assert reason.startswith(start), reason
    rig.cached.verify()
    rig.work()
    view = rig.check()
    assert not counter or view[counter] > 0
    rig.note(f"{name} after a crash of the server", struck="-", view=view, says=reason)


# ---- the file system goes away

EXT4_IOC_SHUTDOWN = 0x8004587D
GOING_NOLOGFLUSH = 2


@contextlib.contextmanager
def mounted(rig: Rig, kind: str, name: str) -> Iterator[Path]:
    """Mount a small separate file system for the cache file; skip if that is not possible."""
    if os.geteuid() != 0:
        rig.skip(name, "only root may mount")
    folder = rig.cached.cache_file.parent
    image = rig.cached.server.base / "image"
    if kind == "tmpfs":
        command = ["mount", "-t", "tmpfs", "-o", "size=80m", "pgflash-test", str(folder)]
    else:
        if shutil.which("mkfs.ext4") is None:
            rig.skip(name, "there is no mkfs.ext4: apt-get install e2fsprogs")
        with image.open("wb") as file:
            file.truncate(100 * MB)
        subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", str(image)], check=True)
        command = ["mount", "-o", "loop", str(image), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        rig.skip(name, f"this machine does not mount: {done.stderr.strip()}")
    make_server_dir(folder)
    try:
        yield folder
    finally:
        rig.stop()
        subprocess.run(["umount", str(folder)], capture_output=True, check=False)
        image.unlink(missing_ok=True)


def test_a_file_system_that_dies_under_the_cache_fails_no_query(rig: Rig) -> None:
    name = "the file system of the cache file dies (ext4 on a loop device)"
    rig.stop()
    with mounted(rig, "ext4", name) as folder:
        rig.begin()
        fd = os.open(folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, ctypes.c_uint32(GOING_NOLOGFLUSH))
        except OSError as error:
            rig.skip(name, f"this kernel does not shut ext4 down: {error}")
        finally:
            os.close(fd)
        rig.work()
        view = rig.check()
        assert view["mode"] == "offline"
        assert view["flash_read_errors"] + view["flash_write_errors"] >= 32
        assert rig.says_once(OFFLINE)
        rig.note(
            name,
            struck="-",
            view=view,
            says=OFFLINE,
        )


def test_a_folder_that_is_unmounted_under_the_cache_fails_no_query(rig: Rig) -> None:
    name = "the folder is unmounted (tmpfs, lazily)"
    rig.stop()
    with mounted(rig, "tmpfs", name) as folder:
        rig.begin()
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        rig.work()
        view = rig.check()
        # The open file remains, without a name; the next start finds none.
        assert view["mode"] == "serve"
        rig.note(name, struck="-", view=view, says="")


def test_a_file_system_without_room_costs_the_cache_only(rig: Rig) -> None:
    name = "the file system is full (tmpfs)"
    rig.stop()
    with mounted(rig, "tmpfs", name):
        rig.cached.server.configure({"pgflash.cache_size": "1GB"})
        try:
            rig.begin_ill()
            assert rig.says_once("no room for cache file")
            rig.work()
            view = rig.check()
        finally:
            rig.stop()
            rig.cached.server.configure({"pgflash.cache_size": "64MB"})
        assert view["mode"] == "offline"
        rig.note(
            name,
            struck="-",
            view=view,
            says="no room for cache file",
        )


# ---- a device that hangs (the emulator provides the delay)

#: As long as the emulator can: a query that had to wait for the device would exceed its time.
STALL_S = 120.0


def set_deadline(rig: Rig, value: str) -> None:
    """Set how long reads wait for flash, and wait until new sessions know."""
    server = rig.cached.server
    server.configure({"pgflash.read_deadline": value})
    server.reload()

    def known() -> bool:
        with server.connect() as connection:
            return connection.execute("show pgflash.read_deadline").fetchone() == (value,)

    assert eventually(known)


def test_a_device_that_hangs_holds_up_no_query(rig: Rig) -> None:
    rig.begin()
    set_deadline(rig, "50ms")
    rows = rig.world.tables["postgres", "ledger"]
    rig.cached.emulator.stall("flash", seconds=STALL_S)
    try:
        with rig.cached.server.connect() as session:

            def has_met_it() -> bool:
                for key in random.sample(list(rows), 100):
                    row = session.execute("select v from ledger where id = %s", (key,)).fetchone()
                    assert row == (rows[key],)
                return bool(rig.cached.view()["read_timeouts"] > 0)

            assert eventually(has_met_it)
        assert rig.cached.emulator.stats().device("flash").stalled_s > 0, "a query waited for it"
    finally:
        rig.cached.emulator.stall("flash", seconds=0)
        set_deadline(rig, "10s")
    view = rig.check()
    assert view["mode"] == "serve"
    assert view["read_timeouts"] > 0
    assert rig.says_once(BYPASSED)
    assert eventually(lambda: IN_USE in rig.cached.server.log_text(since_start=True))
    rig.note("the device hangs for seconds (emulator)", struck="-", view=view, says=BYPASSED)


# ---- the clock


def server_ahead_s(rig: Rig) -> float:
    """Return how far the server's time of day is ahead of ours."""
    with rig.cached.server.connect() as connection:
        row = connection.execute("select extract(epoch from clock_timestamp())").fetchone()
    assert row is not None
    return float(row[0]) - time.time()


def test_a_clock_that_is_set_back_and_forth_fails_no_query(rig: Rig) -> None:
    rig.begin()
    for hours in (-2, 48, -1):
        rig.clock.set(ahead_s=hours * 3600)
        assert server_ahead_s(rig) == pytest.approx(hours * 3600, abs=60)
        rig.work()
    # Errors are counted by the hour: by a clock that nobody sets.
    rig.faults.strike(failing(Call.READ, errno.EIO, 31))
    rig.work_until_struck(31)
    assert rig.faults.count == 31
    rig.clock.set(ahead_s=-24 * 3600)
    assert rig.cached.view()["mode"] == "serve"
    rig.faults.strike(failing(Call.READ, errno.EIO, 1))
    rig.work()
    view = rig.check()
    assert view["mode"] == "offline"
    assert view["flash_read_errors"] == 32
    rig.note(
        "the clock is set back by hours, and forth; then reads fail with EIO",
        struck="32",
        view=view,
        says=OFFLINE,
    )
    assert rig.says_once(OFFLINE)
