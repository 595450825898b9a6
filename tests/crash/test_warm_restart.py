# SPDX-License-Identifier: PostgreSQL
"""A clean restart: the cache is warm, and a block that changed meanwhile is not served.

Each rule has its test, in which something happens to the files while the server is down, and a
negative control: the same test catches a build without the rule.
"""

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pgflash.errors import PgflashError
from pgflash_lab.account import reachable_install
from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer
from support.cluster import ClusterFactory, build_install, find_install
from support.patience import eventually
from support.warm import (
    BLOCKS_MIN,
    assert_true,
    crash,
    create_warm,
    is_loaded,
    memory_of,
    path_of,
    read_table,
    start_again,
)

#: Where a cache file's slots begin.
SLOTS_OFFSET = 1 << 20

InstallOf = Callable[[str], PgInstall]


def assert_cold(cached: CachedServer, why: str) -> None:
    """Fail unless the cache starts cold for this reason, and the log says so."""
    reason = start_again(cached)
    assert reason.startswith("cold: "), reason
    assert why in reason
    assert reason in cached.server.log_text(since_start=True)
    assert_true(cached)


@pytest.mark.extension
def test_a_clean_restart_is_warm(cluster: ClusterFactory, pgflash_install: PgInstall) -> None:
    cached = create_warm(cluster, pgflash_install)
    before = read_table(cached)
    for _ in range(2):
        cached.server.stop()
        assert cached.server.log_text().endswith("database system is shut down\n")
        assert not memory_of(cached)
        assert start_again(cached).startswith("warm: from the map")
        assert eventually(lambda: is_loaded(cached))
        after = read_table(cached)
        assert after.digest == before.digest
        assert after.hits >= BLOCKS_MIN
        assert after.misses < BLOCKS_MIN // 20
        assert_true(cached)


def test_the_cache_is_warm_under_another_build_of_the_same_major(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """As after a minor release of the server: another executable, the same data and cache."""
    if pgflash_install.major != 18:
        pytest.skip("there are two builds of 18 only")
    name = "18-uring" if "debian" not in str(pgflash_install.root) else "18"
    other = build_install(find_install(name), assertions=True)
    cached = create_warm(cluster, pgflash_install)
    before = read_table(cached)
    executable = cached.server.install.program("postgres").read_bytes()
    # Only one of the two has io_uring.
    cached.server.configure({"io_method": "worker"})
    for install in (other, pgflash_install):
        cached.server.stop()
        cached.server.install = reachable_install(install)
        assert (install is other) is (install.program("postgres").read_bytes() != executable)
        assert start_again(cached).startswith("warm: from the map")
        assert eventually(lambda: is_loaded(cached))
        after = read_table(cached)
        assert after.digest == before.digest
        assert after.hits >= BLOCKS_MIN
        assert_true(cached)


@pytest.mark.extension
def test_asking_for_a_setting_leaves_no_memory(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    memory = f"pgflash.*.{cached.server.data.stat().st_ino:x}"
    ask: list[str | Path] = [pgflash_install.program("postgres"), "-D", cached.server.data]
    ask += ["-C", "shared_memory_size"]
    cached.server.stop()
    assert int(cached.server.run(ask).stdout) > 0
    assert not list(Path("/dev/shm").glob(memory))
    assert start_again(cached).startswith("warm: from the map")

    # The next server inherits what a crashed one left.
    crash(cached)
    assert int(cached.server.run(ask).stdout) > 0
    assert list(Path("/dev/shm").glob(memory))
    assert start_again(cached).startswith("warm: its memory")


def edit_a_byte(path: Path) -> None:
    """Change a byte of a row's text in each block, and set the modification time back."""
    status = path.stat()
    with path.open("r+b") as file:
        for offset in range(0, status.st_size, 8192):
            file.seek(offset + 8192 - 100)
            file.write(b"y")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def edited_while_down(cached: CachedServer) -> Path:
    """Stop the server and edit its table; return the table's file."""
    path = path_of(cached)
    cached.server.configure({"ignore_checksum_failure": "on"})
    cached.server.stop()
    edit_a_byte(path)
    return path


def test_a_file_edited_while_the_server_is_down_is_dropped(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    edited_while_down(cached)
    assert start_again(cached).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(cached))
    read_table(cached)
    assert cached.view()["files_dropped"] >= 1
    assert cached.view()["files_kept"] >= 1
    assert_true(cached)


def test_control_a_file_edited_is_served_stale_without_stamps(
    cluster: ClusterFactory, broken_install: InstallOf
) -> None:
    cached = create_warm(cluster, broken_install("STAMP"))
    edited_while_down(cached)
    assert start_again(cached).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(cached))
    read_table(cached)
    assert cached.view()["verify_mismatches"] > 0


def test_a_file_restored_while_the_server_is_down_is_dropped(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    path = path_of(cached)
    cached.server.stop()
    copy = path.with_name("copy")
    shutil.copy2(path, copy)
    edit = path.stat()
    # As cp -p restores it: the same bytes, name, size and times, but another state.
    copy.replace(path)
    os.chown(path, edit.st_uid, edit.st_gid)
    assert start_again(cached).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(cached))
    read_table(cached)
    assert cached.view()["files_dropped"] >= 1
    assert_true(cached)


def test_a_killed_server_s_file_that_was_edited_is_dropped(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    path = path_of(cached)
    cached.server.configure({"ignore_checksum_failure": "on"})
    crash(cached)
    edit_a_byte(path)
    assert start_again(cached).startswith("warm: its memory")
    read_table(cached)
    assert cached.view()["files_dropped"] >= 1
    assert_true(cached)


def test_a_tool_that_writes_the_control_file_leaves_the_cache_cold(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """Its writes, and a power cut in between, cannot be known afterwards."""
    cached = create_warm(cluster, pgflash_install)
    for switch in ("--disable", "--enable"):
        cached.server.stop()
        cached.server.run(["pg_checksums", switch, "-D", cached.server.data])
        assert start_again(cached).startswith("cold: the server has run without this cache")
        read_table(cached)
        assert_true(cached)
    cached.server.stop()
    assert start_again(cached).startswith("warm: from the map")
    assert_true(cached)


def put_back(older: Path, cached: CachedServer) -> None:
    """Replace the cache file by an older copy."""
    owner = cached.cache_file.stat()
    older.replace(cached.cache_file)
    os.chown(cached.cache_file, owner.st_uid, owner.st_gid)


def change_rows(cached: CachedServer) -> None:
    """Change every row, and have the blocks cached as they are now."""
    with cached.server.connect() as session:
        session.execute("update item set v = v + 1")
        session.execute("vacuum item")
        session.execute("checkpoint")
    read_table(cached)
    read_table(cached)


def test_an_older_copy_of_the_cache_file_is_of_another_life(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    cached.server.stop()
    older = cached.cache_file.with_name("older")
    shutil.copy2(cached.cache_file, older)
    start_again(cached)
    change_rows(cached)
    crash(cached)
    put_back(older, cached)
    # The memory is of another life; the copy's own map is checked against the stamps.
    reason = start_again(cached)
    assert not reason.startswith("warm: its memory"), reason
    read_table(cached)
    assert_true(cached)


def stop_with_older_copy(cached: CachedServer) -> None:
    """Take a copy of the cache file, change what is cached, stop, and put the copy back.

    Both shutdowns are clean, so the copy is whole: a map, and slots with the bytes that the map
    describes. Only the control file and the data files show that they have changed.
    """
    cached.server.stop()
    older = cached.cache_file.with_name("older")
    shutil.copy2(cached.cache_file, older)
    assert start_again(cached).startswith("warm: from the map")
    change_rows(cached)
    cached.server.stop()
    put_back(older, cached)


def test_an_older_copy_of_the_cache_file_is_cold(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    stop_with_older_copy(cached)
    assert start_again(cached).startswith("cold: the server has run without this cache")
    read_table(cached)
    assert_true(cached)


def test_control_what_is_believed_of_an_older_copy_is_held_to_the_stamps(
    cluster: ClusterFactory, broken_install: InstallOf
) -> None:
    cached = create_warm(cluster, broken_install("CHECKPOINT"))
    stop_with_older_copy(cached)
    assert start_again(cached).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(cached))
    read_table(cached)
    assert cached.view()["files_dropped"] >= 1
    assert_true(cached)


def test_another_cluster_s_cache_file_is_cold(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    one = create_warm(cluster, pgflash_install)
    other = create_warm(cluster, pgflash_install)
    account = other.cache_file.stat()
    one.server.stop()
    other.server.stop()
    shutil.copy2(one.cache_file, other.cache_file)
    os.chown(other.cache_file, account.st_uid, account.st_gid)
    assert_cold(other, "another cluster's")


def test_another_size_is_cold(cluster: ClusterFactory, pgflash_install: PgInstall) -> None:
    cached = create_warm(cluster, pgflash_install)
    cached.server.stop()
    cached.server.configure({"pgflash.cache_size": "96MB"})
    assert_cold(cached, "size")


def test_a_damaged_superblock_is_cold(cluster: ClusterFactory, pgflash_install: PgInstall) -> None:
    cached = create_warm(cluster, pgflash_install)
    cached.server.stop()
    flip(cached.cache_file, 20)
    assert_cold(cached, "damaged")


def flip(path: Path, offset: int) -> None:
    """Flip a bit of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x10]))


def has_size(cached: CachedServer, size: str) -> bool:
    """Say whether the cache has this size, and its file answers: shortening it takes a while."""
    settled = f"the size of the cache is {size} MB now" in cached.server.log_text(since_start=True)
    with cached.server.connect() as session:
        return settled and session.execute(
            "select state from pgflash_cache_devices"
        ).fetchall() == [("in use",)]


def test_a_size_changed_by_reload_is_warm_at_the_next_start(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install, settings={"pgflash.cache_size_max": "128MB"})
    for size in ("128", "32"):
        cached.server.configure({"pgflash.cache_size": f"{size}MB"})
        cached.server.reload()
        assert eventually(partial(has_size, cached, size))
        read_table(cached)
        before = read_table(cached)
        cached.server.stop()
        assert start_again(cached).startswith("warm: from the map")
        assert eventually(lambda: is_loaded(cached))
        after = read_table(cached)
        assert after.digest == before.digest
        assert after.hits >= BLOCKS_MIN
        assert_true(cached)


def test_a_torn_map_costs_what_is_torn(cluster: ClusterFactory, pgflash_install: PgInstall) -> None:
    cached = create_warm(cluster, pgflash_install)
    before = read_table(cached)
    cached.server.stop()
    records = SLOTS_OFFSET + 64 * 2**20
    for offset in range(records, records + 2**17, 3000):
        flip(cached.cache_file, offset)
    assert start_again(cached).startswith("warm: from the map")
    assert read_table(cached).digest == before.digest
    assert_true(cached)


@pytest.mark.extension
def test_a_start_that_fails_leaves_the_map_to_the_next(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    cached = create_warm(cluster, pgflash_install)
    cached.server.stop()
    rules = cached.server.data / "pg_hba.conf"
    good = rules.read_bytes()
    # Read when the cache has been made, and before there is any other process.
    rules.write_bytes(good + b"\nno such rule\n")
    for _ in range(2):
        with pytest.raises(PgflashError, match=r"(?s)did not start in .*pg_hba\.conf"):
            cached.start()
    rules.write_bytes(good)
    assert start_again(cached).startswith("warm: from the map")
    assert eventually(lambda: is_loaded(cached))
    assert read_table(cached).misses <= BLOCKS_MIN // 20
    assert_true(cached)
