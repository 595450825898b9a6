# SPDX-License-Identifier: PostgreSQL
"""The server crashes, the machine does not: the cache is warm, and never stale."""

import os
import random
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer
from support.cluster import ClusterFactory
from support.hold import Hold
from support.patience import eventually
from support.power import PowerCut
from support.warm import (
    BLOCKS_MIN,
    assert_true,
    crash,
    create_warm,
    forget_memory,
    is_in,
    is_loaded,
    kill_backend,
    memory_of,
    path_of,
    read_table,
    start_again,
)

#: Behind the slots of a cache of 64 MB.
MAP_OFFSET = 65 * 2**20

MOUNTED = "cold: the machine was rebooted, or a file system of the data was mounted, since then"


@pytest.mark.extension
def test_a_killed_postmaster_leaves_the_cache_warm(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    before = read_table(cached)
    crash(cached)
    assert start_again(cached).startswith("warm: its memory")
    after = read_table(cached)
    assert after.digest == before.digest
    assert after.hits >= BLOCKS_MIN
    assert after.misses < BLOCKS_MIN // 20
    assert cached.view()["files_kept"] > 0
    assert_true(cached)


@pytest.mark.extension
def test_a_killed_backend_leaves_the_cache_warm(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install, settings={"restart_after_crash": "on"})
    before = read_table(cached)
    kill_backend(cached)
    assert str(cached.view()["start_reason"]).startswith("warm: its memory")
    after = read_table(cached)
    assert after.digest == before.digest
    assert after.hits >= BLOCKS_MIN
    assert after.misses < BLOCKS_MIN // 20
    assert_true(cached)


def set_mode(cached: CachedServer, mode: str) -> None:
    with cached.server.connect() as session:
        session.execute("select pgflash_cache_set_mode(%s)", [mode])


@pytest.mark.extension
@pytest.mark.parametrize("mode", ["passthrough", "offline"])
def test_a_mode_set_by_hand_outlives_a_killed_backend(
    cluster: ClusterFactory, pgflash_install: PgInstall, mode: str
) -> None:
    cached = create_warm(cluster, pgflash_install, settings={"restart_after_crash": "on"})
    set_mode(cached, mode)
    for _ in range(2):
        kill_backend(cached, mode=mode)
        assert cached.view()["mode_reason"] == "set by pgflash_cache_set_mode"
    assert read_table(cached).hits == 0
    if mode == "passthrough":
        set_mode(cached, "serve")
        assert read_table(cached).hits >= BLOCKS_MIN
        kill_backend(cached)
    cached.server.stop()
    start_again(cached)
    assert eventually(lambda: is_in(cached, "serve"))
    assert_true(cached)


def test_a_cache_with_a_wrong_block_stays_offline_after_a_killed_backend(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install, settings={"restart_after_crash": "on"})
    path = path_of(cached)
    with path.open("r+b") as file:
        for block in range(path.stat().st_size // 8192):
            file.seek(block * 8192 + 8191)
            file.write(b"!")
    assert cached.verify()[1] > 0
    kill_backend(cached, mode="offline")
    assert cached.view()["mode_reason"] == "verification found a cached block unlike its file"
    with pytest.raises(psycopg.Error, match="could not set the flash cache to mode"):
        set_mode(cached, "serve")


def create_on_machine(cluster: ClusterFactory, install: PgInstall) -> tuple[CachedServer, PowerCut]:
    """Return a warm server, and the machine it runs on, which can be rebooted."""
    cached = create_warm(cluster, install)
    cached.server.stop()
    # It only has to reboot, not to lose anything: nothing is ever written there.
    machine = PowerCut.build(cached.server.base, watched=[cached.space])
    cached.preloads = (machine.library,)
    cached.preload_env = machine.env
    assert start_again(cached).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(cached))
    return cached, machine


@pytest.mark.parametrize("end", ["killed", "stopped at once"])
def test_a_machine_that_boots_after_a_crash_is_cold(
    cluster: ClusterFactory, pgflash_install: PgInstall, end: str
) -> None:
    cached, machine = create_on_machine(cluster, pgflash_install)
    if end == "killed":
        crash(cached)
    else:
        # The postmaster exits, but nothing was written for it.
        cached.server.stop("immediate")
    machine.boot(random.Random(1))
    reason = start_again(cached)
    assert reason.startswith("cold: the machine was rebooted")
    assert reason in cached.server.log_text(since_start=True)
    assert cached.view()["files_kept"] == 0
    assert_true(cached)


def test_a_machine_that_boots_after_a_shutdown_is_warm(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached, machine = create_on_machine(cluster, pgflash_install)
    cached.server.stop()
    machine.boot(random.Random(1))
    assert start_again(cached).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(cached))
    assert read_table(cached).hits >= BLOCKS_MIN
    assert_true(cached)


def skip_without_mounts() -> None:
    """Skip a test that needs a kernel that tells mounts apart."""
    kernel = tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])
    if kernel < (6, 8):
        pytest.skip("this kernel does not tell mounts apart")


@contextmanager
def mounted_again(folder: Path) -> Iterator[None]:
    """Give a folder another mount, of the same device and inode; skip if that is not possible."""
    done = subprocess.run(
        ["mount", "--bind", str(folder), str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"this machine does not mount: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_data_directory_that_was_mounted_since_a_crash_is_cold(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """A file system that was mounted again may have lost what was not synced."""
    skip_without_mounts()
    cached = create_warm(cluster, pgflash_install)
    crash(cached)
    with mounted_again(cached.server.data):
        reason = start_again(cached)
        cached.server.stop()
    assert reason.startswith(MOUNTED)


def crash_with_tablespace(cluster: ClusterFactory, install: PgInstall) -> CachedServer:
    """Return a killed server that has a tablespace in a separate folder."""
    cached = create_warm(cluster, install)
    with cached.server.connect() as session:
        session.autocommit = True
        session.execute(f"create tablespace beside location '{cached.space}'")
        session.execute("checkpoint")
    crash(cached)
    return cached


@pytest.mark.parametrize("mounts", [False, True], ids=["as it was", "mounted again"])
def test_a_tablespace_that_was_mounted_since_a_crash_makes_the_cache_cold(
    cluster: ClusterFactory, pgflash_install: PgInstall, mounts: bool
) -> None:
    skip_without_mounts()
    cached = crash_with_tablespace(cluster, pgflash_install)
    with mounted_again(cached.space) if mounts else nullcontext():
        reason = start_again(cached)
        cached.server.stop()
    assert reason.startswith(MOUNTED if mounts else "warm: its memory")


def test_control_it_stays_warm_if_only_the_data_directory_is_asked(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    skip_without_mounts()
    cached = crash_with_tablespace(cluster, broken_install("MOUNTS"))
    with mounted_again(cached.space):
        assert start_again(cached).startswith("warm: its memory")
        cached.server.stop()


def let_others_write(memory: Path) -> None:
    """Give others the right."""
    memory.chmod(0o660)


def give_another_name(memory: Path) -> None:
    """Make a second name, by which somebody may have kept it."""
    memory.with_name(f"{memory.name}.kept").hardlink_to(memory)


def test_memory_that_others_may_have_written_is_cold(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    for spoil in (let_others_write, give_another_name):
        crash(cached)
        (memory,) = memory_of(cached)
        spoil(memory)
        try:
            assert start_again(cached).startswith("cold: the size of the cache, or of its memory")
            assert memory_of(cached) == [memory]
            assert memory.stat().st_mode & 0o777 == 0o600
            assert memory.stat().st_nlink == 1
        finally:
            memory.with_name(f"{memory.name}.kept").unlink(missing_ok=True)
        assert_true(cached)


@pytest.mark.parametrize("memory_stays", [True, False], ids=["memory", "no-memory"])
def test_a_server_killed_while_it_saves_the_map(
    cluster: ClusterFactory, pgflash_install: PgInstall, memory_stays: bool
) -> None:
    cached = create_warm(cluster, pgflash_install)
    cached.server.stop()
    hold = Hold.build(cached.server.base)
    cached.preloads = (hold.library,)
    cached.preload_env = hold.env
    start_again(cached)
    assert eventually(lambda: is_loaded(cached))

    postmaster = cached.server.postmaster_pid
    assert postmaster is not None
    hold.hold(cached.cache_file, first=MAP_OFFSET)
    os.kill(postmaster, signal.SIGINT)
    assert hold.stands_before()
    cached.server.kill_postmaster()
    hold.end()
    assert memory_stays or forget_memory(cached)
    reason = start_again(cached)
    if memory_stays:
        assert reason.startswith("warm: its memory")
        assert read_table(cached).hits >= BLOCKS_MIN
    else:
        assert reason.startswith("cold: the server was not shut down")
    assert_true(cached)


@pytest.mark.extension
def test_a_server_whose_cache_was_refused_survives_a_crash(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """Its memory was not requested as a part of PostgreSQL's, and is not available there now."""
    server = cluster(install=pgflash_install, start=False)
    server.configure(
        {
            "shared_preload_libraries": "pgflash",
            "pgflash.cache_file": str(server.base / "missing" / "cache"),
            "pgflash.cache_size": "4GB",
            "pgflash.advice": "off",
            "pgflash.account": "off",
            "restart_after_crash": "on",
        }
    )
    server.start()
    assert "could not open cache file" in server.log_text()
    with server.connect() as session:
        row = session.execute("select pg_backend_pid()").fetchone()
        assert row is not None
        os.kill(row[0], signal.SIGKILL)

    def answers() -> bool:
        with suppress(psycopg.OperationalError), server.connect() as session:
            return session.execute("select 1").fetchone() == (1,)
        return False

    assert eventually(lambda: "all server processes terminated" in server.log_text())
    assert eventually(answers), server.log_text()[-2000:]
