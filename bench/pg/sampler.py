# SPDX-License-Identifier: PostgreSQL
"""The cost of the sampler, and how far back its ring reaches.

Cost: 200 sessions, of which none, 50 or all are in a query (a long sleep, so that the
processors are the sampler's), at 10, 100 and 1000 looks a second; the CPU time of
the sampler's process from /proc/PID/schedstat, as a share of one core, medians of rounds.
"all, busy" are sessions whose CPU time has to be read again each second, too: short queries,
in as many sessions as one driver can keep busy.  The null control is the sampler with its rate at
0.  Bar: 0.5 % of a core at 10 looks a second.

Ring: filled and overwritten at 1000 looks a second with 50 sessions in a query; its capacity is the
same at any rate.  The time to add it up (pgflash_sample_summary) and to make rows of all of it is
printed beside it.

Prints the tables; a full run keeps them in bench/results/sampler.txt and sampler.json.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from rich.console import Console
from rich.table import Table

from pgflash_lab.server import Server
from support.cluster import ClusterFactory, build_install, find_install

RESULTS = Path(__file__).parent.parent / "results"

SESSIONS = 200
ACTIVE = 50
RATES_HZ = (0, 10, 100, 1000)
BAR_PERCENT = 0.5
SETTINGS = {
    "max_connections": str(SESSIONS + 20),
    "pgflash.sample_rate": "0",
    "pgflash.cache_file": "",
    "pgflash.snapshot_interval": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How long to measure."""

    rounds: int
    seconds: float


FULL = Size(rounds=3, seconds=4)
QUICK = Size(rounds=1, seconds=1)


def ask(server: Server, query: str) -> dict[str, Any]:
    """Return the one row of a query."""
    with server.connect() as connection:
        cursor = connection.execute(query)
        row = cursor.fetchone()
        assert row is not None
        assert cursor.description is not None
        return {column.name: value for column, value in zip(cursor.description, row, strict=True)}


def wait_for(server: Server, condition: str) -> None:
    """Wait until a condition on pgflash_sampler holds."""
    deadline = time.monotonic() + 60
    while not ask(server, f"select {condition} as holds from pgflash_sampler")["holds"]:
        if time.monotonic() > deadline:
            raise TimeoutError(condition)
        time.sleep(0.05)


def set_rate(server: Server, rate_hz: int) -> None:
    """Set the sampler's rate."""
    server.configure({"pgflash.sample_rate": str(rate_hz)})
    server.reload()
    wait_for(server, f"rate_hz = {rate_hz}")


@contextmanager
def sessions(server: Server, *, asleep: int, busy: bool) -> Iterator[None]:
    """Hold SESSIONS sessions, so many of them in a long query; or all in short ones."""
    connections = [server.connect() for _ in range(SESSIONS)]
    stop = Event()

    def keep_busy() -> None:
        while not stop.is_set():
            for connection in connections:
                connection.execute("select 1")
            stop.wait(0.2)  # each runs a little, several times a second

    driver = Thread(target=keep_busy)
    if busy:
        driver.start()
    for connection in connections[:asleep]:
        # Sent without waiting: a thread for each would cost more than all the rest.
        connection.pgconn.send_query(b"select pg_sleep(100000)")
    try:
        yield
    finally:
        stop.set()
        if busy:
            driver.join()
        for connection in connections[:asleep]:
            connection.cancel_safe()
        for connection in connections:
            connection.close()


def cpu_ns(pid: int) -> int:
    """Return the CPU time of a process."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def measure_share(server: Server, seconds: float) -> float:
    """Return the sampler's percentage of a core over some seconds."""
    pid = ask(server, "select pid from pgflash_sampler")["pid"]
    begin, begin_at = cpu_ns(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_ns(pid) - begin) / 1e7 / (time.monotonic() - begin_at)


def measure_cost(server: Server, size: Size) -> dict[str, dict[int, list[float]]]:
    """Return the percentages of a core by load and rate, one for each round."""
    loads = {
        "idle": (0, False),
        f"{ACTIVE} in a query": (ACTIVE, False),
        "all in a query": (SESSIONS, False),
        "all busy": (0, True),
    }
    result: dict[str, dict[int, list[float]]] = {}
    for name, (asleep, busy) in loads.items():
        shares: dict[int, list[float]] = {rate: [] for rate in RATES_HZ}
        with sessions(server, asleep=asleep, busy=busy):
            for _ in range(size.rounds):
                for rate in RATES_HZ:
                    set_rate(server, rate)
                    shares[rate].append(measure_share(server, size.seconds))
        result[name] = shares
    return result


def timed_ms(server: Server, query: str) -> float:
    """Return how long a query takes in the server, the best of three."""
    times = []
    with server.connect() as connection:
        for _ in range(3):
            begin = time.monotonic()
            connection.execute(query)
            times.append((time.monotonic() - begin) * 1000)
    return min(times)


def measure_ring(server: Server) -> dict[str, float]:
    """Fill the ring with ACTIVE sessions and say how far it reaches."""
    with sessions(server, asleep=ACTIVE, busy=False):
        set_rate(server, 1000)
        oldest = ask(server, "select newest_at from pgflash_sampler")["newest_at"]
        wait_for(server, f"oldest_at > '{oldest}'")
        set_rate(server, 0)
        view = ask(server, "select * from pgflash_sampler")
        return {
            "ring_bytes": view["ring_bytes"],
            "looks": view["looks_kept"],
            "records": view["records_kept"],
            "hours_at_1_hz": view["looks_kept"] / 3600,
            "minutes_at_10_hz": view["looks_kept"] / 600,
            "summary_ms": timed_ms(
                server, "select count(*) from pgflash_sample_summary('-infinity', 'infinity')"
            ),
            "all_rows_ms": timed_ms(server, "select count(*) from pgflash_active_sessions"),
        }


def cost_table(cost: dict[str, dict[int, list[float]]]) -> Table:
    """Return the costs, medians."""
    table = Table(f"{SESSIONS} sessions", *(f"{rate} Hz" for rate in RATES_HZ), "at 10 Hz")
    for name, shares in cost.items():
        median = {rate: statistics.median(values) for rate, values in shares.items()}
        table.add_row(
            name,
            *(f"{median[rate]:.3f} %" for rate in RATES_HZ),
            "good" if median[10] <= BAR_PERCENT else f"above {BAR_PERCENT} %",
        )
    return table


def ring_table(ring: dict[str, float]) -> Table:
    """Return how far the ring reaches."""
    table = Table(
        "ring", "looks", "records", "at 1 Hz", "at 10 Hz", "to add it up", "to show all rows"
    )
    table.add_row(
        f"{ring['ring_bytes'] / 2**20:.0f} MiB",
        f"{ring['looks']:,}",
        f"{ring['records']:,}",
        f"{ring['hours_at_1_hz']:.1f} hours",
        f"{ring['minutes_at_10_hz']:.1f} minutes",
        f"{ring['summary_ms']:.0f} ms",
        f"{ring['all_rows_ms']:.0f} ms",
    )
    return table


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--major", type=int, default=18)
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    install = build_install(find_install(options.major))
    console = Console(width=120, record=True)
    factory = ClusterFactory(install)
    try:
        server = factory(preload="pgflash", settings=SETTINGS)
        with server.connect() as connection:
            connection.execute("create extension pgflash")
        cost = measure_cost(server, size)
        console.print(
            f"PostgreSQL {install.version}. The sampler's share of one core, medians of"
            f" {size.rounds} times {size.seconds:g} s:"
        )
        console.print(cost_table(cost))
        ring = measure_ring(server)
        console.print(f"pgflash.sample_memory at its default, {ACTIVE} sessions in a query:")
        console.print(ring_table(ring))
    finally:
        factory.close()
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "sampler.txt").write_text(console.export_text())
        (RESULTS / "sampler.json").write_text(
            json.dumps({"postgres": install.version, "percent": cost, "ring": ring}, indent=1)
            + "\n"
        )


if __name__ == "__main__":
    main()
