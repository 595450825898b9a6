# SPDX-License-Identifier: PostgreSQL
"""The report's DB time against the time that the load's own driver measured around its calls.

Three sessions read a table on a disk that takes milliseconds, and sleep.  What the driver
waited for is what the server was busy with, but for the way there and back; and what the
sampler saw agrees with what was timed.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pgflash.api import open_store, report_period, take_snapshot
from pgflash.lab.emulator import DeviceProfile, EmulatedDevice, Emulator
from pgflash.lab.postgres import PgInstall
from pgflash.lab.server import Server
from pgflash.model.awr import AwrReport, plain
from support.cluster import ClusterFactory

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
    """What driver and report say of one period."""

    #: Seconds that the driver's sessions spent in their calls, by what they called.
    driver_s: dict[str, float]
    report: AwrReport


@pytest.fixture(scope="module")
def measured(pgflash_install: PgInstall) -> Iterator[Measured]:
    factory = ClusterFactory(pgflash_install)
    server = factory(start=False)
    # A session makes its reads itself: those of an io worker are no wait of the session's.
    own = {"io_method": "sync"} if pgflash_install.major >= 18 else {}
    server.configure({**SETTINGS, **own, "shared_preload_libraries": "pgflash"})
    with Emulator.create(
        server.base / "emulator.state",
        devices=[
            EmulatedDevice(
                name="disk",
                profile=DeviceProfile.named("sas15k-raid10-6"),
                paths=(server.data / "base",),
            )
        ],
        owner=server.account.uid if server.account is not None else None,
        delays_on=False,
    ) as emulator:
        server.start(emulator.env)
        with server.connect() as connection:
            connection.execute("create extension pgflash")
            connection.execute(
                "create table item as select n as id, repeat('x', 500) as pad"
                f" from generate_series(1, {ROWS}) n"
            )
            connection.execute("alter table item add primary key (id)")
            connection.execute("checkpoint")
        dsn = server.conninfo("postgres")
        emulator.on()
        take_snapshot(dsn=dsn)
        driver_s = drive(server)
        take_snapshot(dsn=dsn)
        emulator.off()
        with open_store(dsn=dsn) as store:
            report = report_period(store, begin="last-1", end="last")
        yield Measured(driver_s=driver_s, report=report)
        factory.close()


def drive(server: Server) -> dict[str, float]:
    """Have some sessions at work at once; return the seconds they waited for their calls."""
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


def test_db_time_agrees_with_the_driver(measured: Measured) -> None:
    driver_s = sum(measured.driver_s.values())
    db_time_s = numbers(measured.report, "top-events", "total_s")["DB time"]
    assert driver_s > SESSIONS * ROUNDS * SLEEP_S + 1
    # The driver waits a little longer than the server works; the snapshots themselves are work.
    assert 0.85 * driver_s < db_time_s < 1.05 * driver_s + 0.5


def test_reads_and_sleeps_agree_with_the_driver(measured: Measured) -> None:
    slept_s = SESSIONS * ROUNDS * SLEEP_S
    slept_seen_s = numbers(measured.report, "top-events", "total_s")["Timeout:PgSleep"]
    assert 0.75 * slept_s < slept_seen_s < 1.25 * slept_s + 0.3
    # By relation: sessions read catalogs before the driver can call them.
    read_ms = numbers(measured.report, "segments-read-time", "read_time_ms")
    read_s = sum(ms for name, ms in read_ms.items() if "item" in name) / 1000
    assert 0.75 * measured.driver_s["read"] < read_s < 1.01 * measured.driver_s["read"]


def test_what_was_sampled_agrees_with_what_was_timed(measured: Measured) -> None:
    found = numbers(measured.report, "db-time", "total_s")
    exact_s = found["DB time"]
    assert 0.8 * exact_s < found["DB time by samples alone"] < 1.2 * exact_s
    assert abs(found["not explained by the rows above"]) < 0.15 * exact_s
