# SPDX-License-Identifier: PostgreSQL
"""The cost of following statements, as a share of a transaction's CPU time.

One session looks up a row by its key, all blocks in shared buffers, prepared and by the simple
protocol.  Batches with pgflash.track_statements = none and top alternate, and so do batches of none
and none, the null control; the backend's CPU time is that of /proc/PID/schedstat.  What is
shown is the median of the ratios of neighbours.  pg_stat_statements is not loaded.  Bar: 1 %.

Apart from that, the same with compute_query_id off and on: what PostgreSQL's identifiers cost,
which pgflash does not ask for (docs/decisions, 71).

Prints the table; a full run keeps it in bench/results/statements.txt and statements.json.
"""

import argparse
import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

from support.cluster import ClusterFactory, build_install, find_install
from support.items import create_items

RESULTS = Path(__file__).parent.parent / "results"

ROWS = 10_000
BAR = 0.01
SETTINGS = {
    "pgflash.cache_file": "",
    "pgflash.snapshot_interval": "0",
    "pgflash.sample_rate": "0",
    "shared_buffers": "64MB",
    "jit": "off",
}
NONE, TOP = "pgflash.track_statements = 'none'", "pgflash.track_statements = 'top'"
#: What is compared: the settings of the first batch, and those of the second.
PAIRS = {
    "none, none (null control)": (NONE, NONE),
    "none, top": (NONE, TOP),
    "no identifiers, identifiers": ("compute_query_id = off", "compute_query_id = on"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much to measure."""

    rounds: int
    statements: int


FULL = Size(rounds=100, statements=1500)
QUICK = Size(rounds=2, statements=100)


def cpu_ns(pid: int) -> int:
    """Return the CPU time of a process."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def batch(
    connection: psycopg.Connection[Any], setting: str, size: Size, *, prepared: bool
) -> float:
    """Return the nanoseconds of a statement in a batch."""
    connection.execute("set " + setting)
    cursor = psycopg.ClientCursor(connection) if not prepared else connection.cursor()
    query = "select length(pad) from item where id = %s"

    def run(count: int) -> None:
        for number in range(count):
            if prepared:
                cursor.execute(query, [number % ROWS + 1], prepare=True)
            else:
                cursor.execute(query, [number % ROWS + 1])

    run(size.statements // 10)
    before = cpu_ns(connection.info.backend_pid)
    run(size.statements)
    return (cpu_ns(connection.info.backend_pid) - before) / size.statements


def compare(
    connection: psycopg.Connection[Any], pair: tuple[str, str], size: Size, *, prepared: bool
) -> tuple[float, float]:
    """Return a statement's time with the first settings, and the median ratio of the second."""
    first: list[float] = []
    ratios: list[float] = []
    for number in range(size.rounds):
        # Whichever comes first may find the processor as others left it.
        order = pair if number % 2 == 0 else pair[::-1]
        times = [batch(connection, one, size, prepared=prepared) for one in order]
        one, other = times if number % 2 == 0 else times[::-1]
        first.append(one)
        ratios.append(other / one)
    return statistics.median(first), statistics.median(ratios)


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="see that it works; store nothing")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    install = build_install(find_install(18))
    factory = ClusterFactory(install)
    try:
        server = factory(install=install, preload="pgflash", settings=SETTINGS)
        with server.connect() as connection:
            connection.autocommit = True
            create_items(connection, ROWS)
            connection.execute("vacuum analyze item")
            connection.execute("select count(*) from item")
            results = [
                (protocol, name, *compare(connection, pair, size, prepared=prepared))
                for protocol, prepared in (("prepared", True), ("simple", False))
                for name, pair in PAIRS.items()
            ]
    finally:
        factory.close()

    table = Table("protocol", "batches", "CPU us / statement", "added", "bar")
    for protocol, name, ns, ratio in results:
        bar = f"{BAR:.0%}" if name == "none, top" else ""
        table.add_row(protocol, name, f"{ns / 1000:.1f}", f"{ratio - 1:+.2%}", bar)
    console = Console(width=100)
    console.print(table)
    if options.quick:
        return
    with (RESULTS / "statements.txt").open("w") as file:
        Console(file=file, width=100).print(table)
    figures = [
        {"protocol": protocol, "batches": name, "ns": ns, "ratio": ratio}
        for protocol, name, ns, ratio in results
    ]
    stored = {"postgres": install.version, "figures": figures}
    (RESULTS / "statements.json").write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
