# SPDX-License-Identifier: PostgreSQL
"""The fault matrix of the saved map: whatever happens to it, nothing stale is served.

The map is saved at a clean shutdown, behind the slots: records of what each set holds,
then the list of files, then, when all is synced, a superblock that says "clean".  A failed save is
reported, and leaves the cache's memory for the next start; if that is lost as well (the machine
restarted) the cache is cold.  A part that was torn unnoticed, or is read wrongly, costs its own
blocks, or all of them.  In no case does a query fail or see a wrong byte.
"""

import errno
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.fault_rig import Rig
from support.faults import NO_END, Call, Fault, Kind
from support.patience import eventually
from support.warm import SYNCED, forget_memory, serves

MB = 1024 * 1024

#: The superblock; and behind 64 MB of slots the records (1 MB), and the list of files.
SUPERBLOCK = (0, 4096)
RECORDS = (65 * MB, 66 * MB)
FILES = (66 * MB, 2**62)

NOT_SAVED = "could not save the map of the cache"


@pytest.fixture(scope="module")
def rig(pgflash_install: PgInstall) -> Iterator[Rig]:
    """One server for all cases; at the end its data is checked once more."""
    factory = ClusterFactory(pgflash_install)
    built = Rig.build(factory, pgflash_install, settings=SYNCED)
    yield built
    try:
        built.close()
        print(built.keep_table(pgflash_install.major, "-map").read_text())  # noqa: T201
    finally:
        factory.close()


@pytest.fixture(autouse=True)
def log_tail(rig: Rig) -> Iterator[None]:
    """Leave the server stopped, and print its log, for the report of a failed test."""
    yield
    rig.stop()
    print("\n".join(rig.cached.server.log_text(since_start=True).splitlines()[-30:]))  # noqa: T201


def stop_with(rig: Rig, fault: Fault) -> None:
    """Warm the cache, and stop with this fault on."""
    rig.begin()
    rig.world.disconnect()
    rig.faults.strike(fault)
    rig.cached.server.stop()
    rig.faults.stop()
    assert rig.faults.count > 0


def go_on(rig: Rig, name: str, *, starts: str) -> None:
    """Start again, with the expected reason; use and check everything."""
    rig.begin_ill()
    assert eventually(lambda: serves(rig.cached))
    reason = str(rig.cached.view()["start_reason"])
    assert reason.startswith(starts), reason
    rig.work()
    view = rig.check()
    assert view["mode"] == "serve"
    rig.note(name, struck=str(rig.faults.count), view=view, says=reason)


FAILS = {
    "a record cannot be written: EIO": Fault(calls=Call.WRITE, error=errno.EIO, where=RECORDS),
    "a record cannot be written: ENOSPC": Fault(
        calls=Call.WRITE, error=errno.ENOSPC, where=RECORDS
    ),
    "the list of files cannot be written: EIO": Fault(
        calls=Call.WRITE, error=errno.EIO, where=FILES
    ),
    "there is no room for the map": Fault(calls=Call.ALLOCATE, error=errno.ENOSPC),
    "the map cannot be synced: EIO": Fault(calls=Call.SYNC, error=errno.EIO),
    "the superblock cannot say clean: EIO": Fault(
        calls=Call.WRITE, error=errno.EIO, where=SUPERBLOCK
    ),
}


@pytest.mark.parametrize("name", FAILS)
def test_a_map_that_cannot_be_saved_is_said_and_not_used(rig: Rig, name: str) -> None:
    stop_with(rig, FAILS[name])
    assert rig.says_once(NOT_SAVED)
    go_on(rig, f"{name}, at shutdown", starts="warm: its memory")


#: The part of the map written before the failure: some, and all.
HALF_SAVED = (
    "the list of files cannot be written: EIO",
    "the superblock cannot say clean: EIO",
)


@pytest.mark.parametrize("name", HALF_SAVED)
def test_a_map_that_was_not_saved_is_not_used_when_the_memory_is_lost(rig: Rig, name: str) -> None:
    stop_with(rig, FAILS[name])
    assert forget_memory(rig.cached)
    go_on(rig, f"{name}; the machine starts", starts="cold: the server was not shut down")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnoticed:
    """A save that failed without an error, and the next start."""

    name: str
    fault: Fault
    starts: str


def torn(where: tuple[int, int], amount: int) -> Fault:
    """Return writes of which only so many bytes arrive, though they report success."""
    return Fault(calls=Call.WRITE, kind=Kind.TEAR, amount=amount, where=where, times=NO_END)


WARM, DAMAGED = "warm: from the map", "cold: the cache file's superblock or map is damaged"

UNNOTICED = (
    Unnoticed(name="records are torn after 4 kB", fault=torn(RECORDS, 4096), starts=WARM),
    Unnoticed(name="records are lost", fault=torn(RECORDS, 0), starts=WARM),
    Unnoticed(name="the list of files is torn", fault=torn(FILES, 512), starts=DAMAGED),
    Unnoticed(name="the list of files is lost", fault=torn(FILES, 0), starts=DAMAGED),
)


@pytest.mark.parametrize("case", UNNOTICED, ids=lambda case: case.name)
def test_a_map_that_was_torn_costs_what_it_held(rig: Rig, case: Unnoticed) -> None:
    stop_with(rig, case.fault)
    go_on(rig, f"{case.name}, at shutdown", starts=case.starts)


READ_WRONG = (
    Unnoticed(
        name="the list of files cannot be read: EIO",
        fault=Fault(calls=Call.READ, error=errno.EIO, where=FILES),
        starts="cold: the operating system refused",
    ),
    Unnoticed(
        name="the list of files is read with a wrong bit",
        fault=Fault(calls=Call.READ, kind=Kind.FLIP, where=FILES),
        starts=DAMAGED,
    ),
    Unnoticed(
        name="records cannot be read: EIO",
        fault=Fault(calls=Call.READ, error=errno.EIO, where=RECORDS),
        starts=WARM,
    ),
    Unnoticed(
        name="records are read with a wrong bit",
        fault=Fault(calls=Call.READ, kind=Kind.FLIP, where=RECORDS),
        starts=WARM,
    ),
)


@pytest.mark.parametrize("case", READ_WRONG, ids=lambda case: case.name)
def test_a_map_that_is_read_wrong_costs_what_it_held(rig: Rig, case: Unnoticed) -> None:
    rig.begin()
    rig.world.disconnect()
    rig.cached.server.stop()
    rig.faults.strike(case.fault)
    go_on(rig, f"{case.name}, at the start", starts=case.starts)
    assert rig.faults.count > 0
