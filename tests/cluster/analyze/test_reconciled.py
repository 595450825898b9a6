# SPDX-License-Identifier: PostgreSQL
"""The report's times lie between the device's own times and the waits of the load's driver.

Three sessions read a table on a disk that takes milliseconds, and sleep.  The report cannot show
less time than the disk took by its own clock, nor more than the driver by its clock around the
calls.  The difference between the two is the way there and back, which gets longer on a busy
machine; both limits hold on any machine.  The sampler agrees with the timed waits, for the time
that it sampled.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pgflash.api import open_store, report, snapshot
from pgflash.model.awr import AwrReport, plain
from pgflash_lab.account import make_server_dir
from pgflash_lab.emulator import DeviceProfile, EmulatedDevice, Emulator, OperationStats
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.items import create_items
from support.patience import eventually

pytestmark = pytest.mark.extension

ROWS = 20_000
SESSIONS = 3
ROUNDS = 25
READS = 12  # of a round
SLEEP_S = 0.05

SETTINGS = {
    "shared_buffers": "1MB",
    "max_parallel_workers_per_gather": "0",
    "bgwriter_lru_maxpages": "0",
    "pgflash.snapshot_interval": "0",
    "pgflash.sample_rate": "100",
    "pgflash.advice": "off",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What device, driver and report say of one period."""

    #: Reads of the table and its index, and their seconds.
    device: OperationStats
    #: Seconds that the driver's sessions spent in their calls, by what they called.
    driver_s: dict[str, float]
    #: Seconds that all other clients of the server spent in it.
    others_s: float
    report: AwrReport

    @property
    def device_s(self) -> float:
        return self.device.latency_ms / 1000


@pytest.fixture(scope="module")
def measured(pgflash_install: PgInstall) -> Iterator[Measured]:
    factory = ClusterFactory(pgflash_install)
    server = factory(start=False)
    # A session makes its reads itself: reads of an io worker are not waits of the session.
    own = {"io_method": "sync"} if pgflash_install.major >= 18 else {}
    server.configure({**SETTINGS, **own, "shared_preload_libraries": "pgflash"})
    space = make_server_dir(server.base / "space")
    with Emulator.create(
        server.base / "emulator.state",
        devices=[
            # Of its own: catalogs are read, too.
            EmulatedDevice(
                name="disk", profile=DeviceProfile.named("sas15k-raid10-6"), paths=(space,)
            )
        ],
        owner=server.account.uid if server.account is not None else None,
        delays_on=False,
    ) as emulator:
        server.start(emulator.env)
        with server.connect() as connection:
            connection.execute("create extension pgflash")
            connection.execute(f"create tablespace space location '{space}'")
            connection.execute("set default_tablespace = space")
            create_items(connection, ROWS)
            connection.execute("checkpoint")
        await_end_of_sessions(server)
        dsn = server.conninfo("postgres")
        emulator.on()
        begin = time.monotonic()
        snapshot(dsn=dsn)
        others_s = time.monotonic() - begin
        emulator.reset()
        driver_s = drive(server)
        device = emulator.stats().device("disk").reads
        begin = time.monotonic()
        await_end_of_sessions(server)
        snapshot(dsn=dsn)
        others_s += time.monotonic() - begin
        emulator.off()
        with open_store(dsn=dsn) as store:
            found = report(store, begin="last-1", end="last")
        yield Measured(device=device, driver_s=driver_s, others_s=others_s, report=found)
        factory.close()


def await_end_of_sessions(server: Server) -> None:
    """Wait for the driver's sessions: they hand in the last of their times when they end."""
    others = (
        "select from pg_stat_activity"
        " where backend_type = 'client backend' and pid <> pg_backend_pid()"
    )
    with server.connect() as connection:
        assert eventually(lambda: not connection.execute(others).fetchall())


def drive(server: Server) -> dict[str, float]:
    """Run some sessions at once; return the seconds that they waited for their calls."""
    spent: dict[str, float] = defaultdict(float)
    lock = threading.Lock()

    def work(number: int) -> None:
        mine: dict[str, float] = defaultdict(float)
        with server.connect() as connection:
            for i in range(ROUNDS):
                for j in range(READS):
                    key = ((number * ROUNDS + i) * READS + j) * 7919 % ROWS + 1
                    begin = time.monotonic()
                    connection.execute("select pad from item where id = %s", [key])
                    mine["read"] += time.monotonic() - begin
                begin = time.monotonic()
                connection.execute("select pg_sleep(%s)", [SLEEP_S])
                mine["sleep"] += time.monotonic() - begin
        with lock:
            for what, took_s in mine.items():
                spent[what] += took_s

    threads = [threading.Thread(target=work, args=(number,)) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return spent


def numbers(report: AwrReport, table_id: str, column: str) -> dict[str, float]:
    """Return a column of a table by its rows' first cells."""
    table = report.table(table_id)
    place = [one.name for one in table.columns].index(column)
    found = {}
    for row in table.rows:
        value = plain(row.cells[place])
        if isinstance(value, int | float):
            found[str(plain(row.cells[0]))] = float(value)
    return found


def test_db_time_is_between_the_device_s_and_the_driver_s(measured: Measured) -> None:
    slept_s = SESSIONS * ROUNDS * SLEEP_S
    driver_s = sum(measured.driver_s.values())
    assert measured.device_s > 1
    db_time_s = numbers(measured.report, "top-events", "total_s")["DB time"]
    assert measured.device_s + slept_s < db_time_s < driver_s + measured.others_s


def test_reads_are_between_the_device_s_and_the_driver_s(measured: Measured) -> None:
    # By relation: sessions read catalogs before the driver can call them.
    reads, read_ms = (
        {name: n for name, n in numbers(measured.report, *column).items() if "item" in name}
        for column in (("segments-reads", "reads"), ("segments-read-time", "read_time_ms"))
    )
    assert sum(reads.values()) == measured.device.count
    assert measured.device_s < sum(read_ms.values()) / 1000 < measured.driver_s["read"]


def test_what_was_sampled_agrees_with_what_was_timed(measured: Measured) -> None:
    found = numbers(measured.report, "db-time", "total_s")
    exact_s = found["DB time"]
    # For a moment without a sample nothing is known: any session may have been active.
    unseen_s = SESSIONS * (found["elapsed"] - found["covered by the sampler"])
    assert -0.2 * exact_s - unseen_s < found["DB time by samples alone"] - exact_s < 0.2 * exact_s
    unexplained_s = found["not explained by the rows above"]
    assert -0.15 * exact_s < unexplained_s < 0.15 * exact_s + unseen_s
    slept_seen_s = numbers(measured.report, "top-events", "total_s")["Timeout:PgSleep"]
    at_least_s = 0.75 * SESSIONS * ROUNDS * SLEEP_S - unseen_s
    assert at_least_s < slept_seen_s < 1.25 * measured.driver_s["sleep"]
