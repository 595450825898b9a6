# SPDX-License-Identifier: PostgreSQL
"""A server runs without its cache file, then loses power: the saved map must not be trusted.

Nobody attacks: the flash drive is not mounted at boot, or the library is taken out for an
afternoon.  What must not happen: a row whose deletion was committed comes back.

A clean shutdown saves a map of the cache; a server that runs without the cache file leaves the map
as it is.  The power fails when a page is on disk and its inode's change time is not
(support/power.py), and recovery finds nothing to do for that page: a visibility map's bits are in
no full page of the WAL.  So the files look as they did when the map was saved.
"""

from collections.abc import Callable

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer
from support.cluster import ClusterFactory
from support.disk import FILE_SYSTEMS, disk_under, write_pages
from support.lives import (
    COUNTED,
    WITHOUT,
    Machine,
    Without,
    checkpoint_of,
    count_by_index,
    count_by_scan,
    create_machine,
    create_standby_machine,
    have_map_cached,
    library_out,
    lose_times_without_cache,
    not_mounted,
    visibility_map,
)
from support.warm import crash, create_warm, memory_of, path_of, start_again, until_cached


def come_back(machine: Machine) -> tuple[int, int, int]:
    """Start with the cache; return what two scans count, and how many blocks are stale.

    Hits are not verified, so that the scans show what flash holds.
    """
    cached = machine.cached
    cached.server.configure({"pgflash.verify": "off"})
    start_again(cached)
    by_index, by_scan = count_by_index(cached), count_by_scan(cached)
    _, mismatched = cached.verify()
    return by_index, by_scan, mismatched


#: A visibility map's changes are in full pages of the WAL in newer minor versions; for a server
#: that writes none any page will do.
WAYS = [
    pytest.param(not_mounted, "on", id="not mounted, full pages"),
    *(pytest.param(without, "off", id=without.__name__.replace("_", " ")) for without in WITHOUT),
]


@pytest.mark.extension
@pytest.mark.parametrize(("without", "full_page_writes"), WAYS)
def test_a_deleted_row_stays_deleted(
    cluster: ClusterFactory,
    pgflash_install: PgInstall,
    without: Without,
    full_page_writes: str,
) -> None:
    machine = create_machine(
        cluster, pgflash_install, settings={"full_page_writes": full_page_writes}
    )
    lose_times_without_cache(machine, without)
    assert come_back(machine) == (COUNTED - 1, COUNTED - 1, 0)


def test_control_it_comes_back_if_a_map_is_believed_of_any_checkpoint(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    machine = create_machine(
        cluster, broken_install("CHECKPOINT"), settings={"full_page_writes": "off"}
    )
    lose_times_without_cache(machine, not_mounted)
    by_index, _, mismatched = come_back(machine)
    assert by_index == COUNTED
    assert mismatched > 0


@pytest.mark.soak
@pytest.mark.parametrize("file_system", FILE_SYSTEMS)
@pytest.mark.parametrize("full_page_writes", ["on", "off"])
def test_a_deleted_row_stays_deleted_on_a_real_file_system(
    cluster: ClusterFactory, pgflash_install: PgInstall, file_system: str, full_page_writes: str
) -> None:
    """The same, with a file system that loses its journal and no model of one."""
    cached = create_warm(cluster, pgflash_install, settings={"full_page_writes": full_page_writes})
    map_file = visibility_map(path_of(cached))
    cached.server.stop()
    with disk_under(cached.server, file_system) as disk:
        start_again(cached)
        until_cached(cached)
        have_map_cached(cached)

        def lose_power() -> None:
            write_pages(map_file)
            write_pages(map_file.with_name(map_file.name.removesuffix("_vm")))
            disk.lose_power()

        machine = Machine(
            cached=cached,
            lose_power=lose_power,
            change_time=lambda: map_file.stat().st_ctime_ns,
        )
        lose_times_without_cache(machine, not_mounted)
        assert come_back(machine) == (COUNTED - 1, COUNTED - 1, 0)
        cached.server.stop()


# ---- the server is killed, and its memory waits for it


def kill_and_lose_times(cluster: ClusterFactory, install: PgInstall) -> Machine:
    """Return a server whose memory outlived a crash, three lives and their storage.

    The volume loses power and is mounted again, while the machine runs on; kernels before 6.8 do
    not show that, and here nothing is mounted at all.
    """
    machine = create_machine(cluster, install, settings={"full_page_writes": "off"}, boots=False)
    start_again(machine.cached)
    crash(machine.cached)
    with library_out(machine.cached):
        machine.cached.start()
        machine.cached.server.stop()
    lose_times_without_cache(machine, library_out)
    assert memory_of(machine.cached)
    return machine


@pytest.mark.extension
def test_a_row_that_was_deleted_while_memory_waited_stays_deleted(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    machine = kill_and_lose_times(cluster, pgflash_install)
    assert come_back(machine) == (COUNTED - 1, COUNTED - 1, 0)


def test_control_it_comes_back_if_memory_is_believed_whatever_was_written_since(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    machine = kill_and_lose_times(cluster, broken_install("CHECKPOINT"))
    by_index, _, mismatched = come_back(machine)
    assert by_index == COUNTED
    assert mismatched > 0


# ---- a standby has one checkpoint for many lives


@pytest.mark.extension
def test_a_row_that_was_deleted_on_a_standby_stays_deleted(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """A standby that has replayed no checkpoint is shut down at the one it began with."""
    primary, machine = create_standby_machine(cluster, pgflash_install)
    checkpoint = checkpoint_of(machine.cached.server)
    lose_times_without_cache(machine, not_mounted, primary=primary)
    assert checkpoint_of(machine.cached.server) == checkpoint
    assert come_back(machine) == (COUNTED - 1, COUNTED - 1, 0)


# ---- pg_checksums moves no checkpoint


def switch_checksums_off(cached: CachedServer) -> None:
    """Continue without checksums, and with a table whose blocks have none."""
    cached.server.stop()
    cached.server.run(["pg_checksums", "--disable", "--pgdata", cached.server.data])
    start_again(cached)
    with cached.server.connect() as session:
        for options in ("full", "freeze"):
            session.execute(f"vacuum ({options}) item")
        session.execute("checkpoint")
    until_cached(cached)


def switch_checksums_on(machine: Machine, *, power_goes: bool) -> None:
    """Write a checksum into each block; the power may fail before that is recorded.

    In the second run the checksums are right already, so it writes no block.
    """
    server = machine.cached.server
    control = server.data / "global" / "pg_control"
    before = control.read_bytes()
    (library,) = machine.cached.preloads
    variables = {"LD_PRELOAD": library, **machine.cached.preload_env}
    server.run(
        [
            *("/usr/bin/env", *(f"{name}={value}" for name, value in variables.items())),
            *(server.install.program("pg_checksums"), "--enable", "--no-sync"),
            *("--pgdata", server.data),
        ]
    )
    if power_goes:
        control.write_bytes(before)
        machine.lose_power()


@pytest.mark.extension
def test_blocks_are_as_pg_checksums_has_left_them(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """The power fails after it has written checksums, and it is run again."""
    machine = create_machine(cluster, pgflash_install, prepare=switch_checksums_off)
    before, checkpoint = machine.change_time(), checkpoint_of(machine.cached.server)
    switch_checksums_on(machine, power_goes=True)
    switch_checksums_on(machine, power_goes=False)
    assert (machine.change_time(), checkpoint_of(machine.cached.server)) == (before, checkpoint)
    assert come_back(machine) == (COUNTED, COUNTED, 0)
