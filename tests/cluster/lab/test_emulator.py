# SPDX-License-Identifier: PostgreSQL
"""A real server on emulated devices: its own figures and the devices' must agree."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgflash_lab.account import make_server_dir, server_account
from pgflash_lab.emulator import DeviceProfile, EmulatedDevice, Emulator, emulator_folder
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import eventually

pytestmark = pytest.mark.skipif(
    not (emulator_folder() / "build" / "libpgflash_emulator.so").exists(),
    reason="the emulator is not built",
)

#: The time between two checks of a condition that is waited for.
POLL_S = 0.01

#: Each page of the table holds one row, so a ctid names a page.
PAGES = 5000
MAKE_TABLE = f"""
    CREATE TABLE pages (number int, filler text) WITH (autovacuum_enabled = off);
    ALTER TABLE pages ALTER filler SET STORAGE PLAIN;
    INSERT INTO pages SELECT n, repeat('x', 7000) FROM generate_series(1, {PAGES}) n;
    CHECKPOINT;
"""
READ_AT_RANDOM = f"""
    SELECT count(filler)
    FROM (SELECT (random() * {PAGES - 1})::int AS page FROM generate_series(1, 400)) r,
         LATERAL (SELECT filler FROM pages WHERE ctid = format('(%s,1)', page)::tid) p
"""


def disk(name: str, *, ms: float) -> DeviceProfile:
    """Return one disk whose every request takes the same time."""
    return DeviceProfile.from_mapping(
        name,
        {
            "kind": "disk",
            "description": "a disk without surprises",
            "layout": "stripe",
            "spindles": 1,
            "stripe_kb": 64,
            "seek_ms": [ms, ms],
            "rotation_ms": 0,
            "bandwidth_mb_s": 1000,
            "log_sync_ms": [ms, ms],
            "write_cache": {
                "size_mb": 1000,
                "latency_us": 0,
                "destage_factor": 0,
                "destage_share": 0,
                "fsync_destages": 0,
            },
        },
    )


@contextlib.contextmanager
def emulated(server: Server, *devices: EmulatedDevice) -> Iterator[Emulator]:
    """Start the server on these devices, with the delays off."""
    account = server_account()
    with Emulator.create(
        server.base / "emulator.state",
        devices=devices,
        owner=account.uid if account else None,
        delays_on=False,
    ) as emulator:
        server.start(emulator.env)
        yield emulator


def io_settings(cluster: ClusterFactory) -> dict[str, str]:
    """Return settings under which the backend reads by itself and measures it."""
    settings = {"track_io_timing": "on"}
    if cluster(start=False).install.major >= 18:
        settings["io_method"] = "sync"
    return settings


def test_reads_and_their_times_agree_with_the_server_s_own(cluster: ClusterFactory) -> None:
    server = cluster(settings=io_settings(cluster), start=False)
    device = EmulatedDevice(name="disk", profile=disk("disk", ms=3), paths=(server.data,))
    with emulated(server, device) as emulator:
        with server.connect() as connection:
            connection.autocommit = True
            connection.execute(MAKE_TABLE)
            connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {READ_AT_RANDOM}")
            emulator.reset()
            emulator.on()
            row = connection.execute(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {READ_AT_RANDOM}"
            ).fetchone()
            emulator.off()
            reads = emulator.stats().device("disk").reads
        server.stop()
    assert row is not None
    plan, took_ms = row[0][0]["Plan"], row[0][0]["Execution Time"]
    milliseconds = plan.get("Shared I/O Read Time", plan.get("I/O Read Time"))
    assert plan["Shared Read Blocks"] > 100
    assert reads.bytes == plan["Shared Read Blocks"] * 8192
    assert reads.mean_ms >= 3.0
    # The server's clock is around the device's, and its query's around that.
    assert reads.latency_ms <= milliseconds + 0.001 <= took_ms + 0.002


def test_the_log_is_charged_to_the_device_it_lies_on(cluster: ClusterFactory) -> None:
    wal = Path(cluster(start=False).base) / "elsewhere"
    make_server_dir(wal)
    server = cluster(
        settings={**io_settings(cluster), "fsync": "on"},
        initdb_args=[f"--waldir={wal / 'wal'}"],
        start=False,
    )
    devices = (
        EmulatedDevice(name="data", profile=disk("data", ms=1), paths=(server.data,)),
        EmulatedDevice(name="log", profile=disk("log", ms=5), paths=(wal,)),
    )
    with emulated(server, *devices) as emulator:
        with server.connect() as connection:
            connection.autocommit = True
            connection.execute("CREATE TABLE counter (n int)")
            emulator.reset()
            emulator.on()
            for number in range(20):
                connection.execute("INSERT INTO counter VALUES (%s)", [number])
            emulator.off()
            stats = emulator.stats()
        server.stop()
    log = stats.device("log")
    assert log.log_syncs.count >= 20
    assert log.log_syncs.mean_ms >= 5.0
    assert log.operations["log_write"].count >= 20
    assert stats.device("data").log_syncs.count == 0
    assert stats.device("data").operations["log_write"].count == 0


def test_a_backend_killed_while_it_waits_leaves_a_working_device(cluster: ClusterFactory) -> None:
    server = cluster(settings=io_settings(cluster), start=False)
    device = EmulatedDevice(name="disk", profile=disk("disk", ms=20), paths=(server.data,))
    with emulated(server, device) as emulator:
        with server.connect() as connection:
            connection.autocommit = True
            connection.execute(MAKE_TABLE)
            connection.execute(READ_AT_RANDOM)
            emulator.on()
            # Long enough to be seen, however seldom we get to look.
            long = READ_AT_RANDOM.replace("1, 400", "1, 20000")
            with server.popen(["psql", "-X", "-c", long, "postgres"]):
                os.kill(wait_for_reader(connection), signal.SIGKILL)
        emulator.off()
        wait_for_restart(server)
        emulator.reset()
        emulator.on()
        with server.connect() as connection:
            assert connection.execute("SELECT count(*) FROM pages").fetchone() == (PAGES,)
        assert emulator.stats().device("disk").reads.count > 0
        server.stop()


def wait_for_reader(connection: psycopg.Connection) -> int:
    """Return the process id of a backend that waits for a data file."""
    found: list[tuple[int]] = []

    def is_seen() -> bool:
        found[:] = connection.execute(
            "SELECT pid FROM pg_stat_activity"
            " WHERE wait_event = 'DataFileRead' AND query LIKE '%count(filler)%'"
            " AND pid <> pg_backend_pid()"
        ).fetchall()
        return found != []

    assert eventually(is_seen), "no backend was seen reading"
    return found[0][0]


def wait_for_restart(server: Server) -> None:
    """Return when the server takes connections again after a backend has crashed."""
    crashed = "all server processes terminated; reinitializing"
    assert eventually(lambda: crashed in server.log_text()), "the server did not notice the crash"

    def answers() -> bool:
        with contextlib.suppress(psycopg.OperationalError), server.connect():
            return True
        return False

    assert eventually(answers), "the server did not come back"
