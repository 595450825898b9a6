# SPDX-License-Identifier: PostgreSQL
"""The cost of reading the counters of all files, as the live page does every ten seconds.

A database with 1,000 and one with 8,000 relations (a table and its index each count), of which 100
are written between two readings.  One session asks for all of them (pgflash_io_relation_rows), one
for those that changed (pgflash_io_relation_changes, as pgflash serve does), in turn; CPU time
of the server's process and of the client's, medians.

Writes bench/results/files.txt and files.json and prints it; --quick shows that it works.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from snapshots import make_relations, write_some

from pgflash.collect.live import LiveReader
from pgflash.collect.segments import FileReader
from pgflash.session import Connection, connect
from support.cluster import ClusterFactory, build_install, find_install

RESULTS = Path(__file__).parent.parent / "results"

RELATIONS = (1_000, 8_000)
CHANGED = 100
ROUNDS = 40
SETTINGS = {
    "pgflash.snapshot_interval": "0",
    "shared_buffers": "256MB",
    "fsync": "off",
    "autovacuum": "off",
    "max_locks_per_transaction": "1024",
}

#: By file, forks together, as FileReader asks for it.
ALL = """
select coalesce(tablespace_oid, 0), coalesce(database_oid, 0), coalesce(relfilenumber, 0),
       sum(reads)::float8, sum(flash_reads)::float8, sum(read_bytes)::float8,
       sum(read_time_ms)::float8, sum(writes + extends)::float8,
       sum(write_bytes + extend_bytes)::float8, sum(write_time_ms + extend_time_ms)::float8
  from pgflash_io_relation_rows()
 group by 1, 2, 3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Milliseconds of CPU time for a reading."""

    rows: float
    server_ms: float
    client_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Readings of so many relations."""

    relations: int
    all: Look
    changes: Look


def cpu_ms(pid: int) -> float:
    """Return the CPU time of a process, by the kernel's scheduler."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


def one_look(connection: Connection, look: Callable[[], int]) -> tuple[int, float, float]:
    """Return rows, and milliseconds of the server and of the client."""
    pid = connection.info.backend_pid
    server, client = cpu_ms(pid), time.thread_time()
    rows = look()
    client = 1000 * (time.thread_time() - client)
    # It is counted when the process sleeps again.
    time.sleep(0.01)
    return rows, cpu_ms(pid) - server, client


def median(looks: list[tuple[int, float, float]]) -> Look:
    """Return the medians of readings."""
    rows, server_ms, client_ms = map(statistics.median, zip(*looks, strict=True))
    return Look(rows=rows, server_ms=server_ms, client_ms=client_ms)


def measure(dsn: str, relations: int, changed: int, rounds: int) -> Figure:
    """Read so many relations in both ways, in turn."""
    with connect(dsn) as writer, connect(dsn) as asks_all, connect(dsn) as asks_changes:
        make_relations(writer, relations)
        known = LiveReader(asks_changes).server
        reader = FileReader(asks_changes)

        def look_at_all() -> int:
            with asks_all.cursor(binary=True) as cursor:
                rows = cursor.execute(ALL, prepare=True).fetchall()
            return len({row[:3]: row[3:] for row in rows})

        ways = [
            (asks_all, look_at_all, list[tuple[int, float, float]]()),
            (asks_changes, lambda: len(reader.read(known)), list[tuple[int, float, float]]()),
        ]
        for number in range(rounds + 2):
            write_some(writer, changed // 2)
            for connection, look, looks in ways[:: 1 if number % 2 else -1]:
                looks.append(one_look(connection, look))
    # The first reading returns all files, the second is the first with a mark.
    return Figure(relations=relations, all=median(ways[0][2][2:]), changes=median(ways[1][2][2:]))


def table(found: list[Figure]) -> Table:
    """Return the figures as a table."""
    made = Table("relations", "asked for", "rows", "server", "client")
    for figure in found:
        for name, look in (("all", figure.all), ("changes", figure.changes)):
            made.add_row(
                f"{figure.relations:,}",
                name,
                f"{look.rows:,.0f}",
                f"{look.server_ms:.2f} ms",
                f"{look.client_ms:.2f} ms",
            )
    return made


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    options = parser.parse_args()
    install = build_install(find_install(18))
    console = Console(width=110, record=True)
    factory = ClusterFactory(install)
    try:
        server = factory(preload="pgflash", settings=SETTINGS)
        with server.connect() as connection:
            connection.execute("create extension pgflash")
        found = (
            [measure(server.conninfo(), relations, CHANGED, ROUNDS) for relations in RELATIONS]
            if not options.quick
            else [measure(server.conninfo(), 200, 20, 4)]
        )
    finally:
        factory.close()
    console.print(
        f"PostgreSQL {install.version}, {CHANGED} relations written between two looks; "
        "CPU time of a look"
    )
    console.print(table(found))
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "files.txt").write_text(console.export_text())
        figures = {"postgres": install.version, "figures": [asdict(one) for one in found]}
        (RESULTS / "files.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
