# SPDX-License-Identifier: PostgreSQL
"""The cost of a snapshot: milliseconds by the number of relations, megabytes a day.

Milliseconds: a database with 1,000, 10,000 and 100,000 relations (a table and its index
each count), of which all, or a few, were written since the snapshot before.  Both the server's own
time (took_ms) and a client's wait for pgflash_snapshot().

Megabytes: 50 clients that never rest, at statements of many kinds, for some minutes that
are sampled 10 times a second; the size of the sections that grow by the minute, times the minutes
of a day, and that of all others, times the snapshots of a day.

Writes bench/results/snapshots.txt and prints it; --quick shows that it works.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

from pgflash_lab.server import Server
from support.cluster import build_install, find_install

RESULTS = Path(__file__).parent.parent / "results"

SETTINGS = {
    "shared_preload_libraries": "pgflash,pg_stat_statements",
    "pgflash.snapshot_interval": "0",
    "pgflash.account_relations": "262144",
    "shared_buffers": "256MB",
    "fsync": "off",
    "autovacuum": "off",
    "max_wal_size": "8GB",
    "max_connections": "120",
    "max_locks_per_transaction": "1024",
}

RELATIONS = (1_000, 10_000, 100_000)
#: At 10,000 relations.
MILLISECONDS_BAR = 100.0

CLIENTS = 50
MEBIBYTES_BAR = 25.0
SNAPSHOTS_A_DAY = 144
MINUTES_A_DAY = 1440
#: Sections that grow with the minutes between two snapshots.
BY_THE_MINUTE = ("samples", "sample_looks")
#: Different statements that the clients run at the same time.
STATEMENTS = 40

Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The duration of snapshots."""

    relations: int
    busy: int
    server_ms: float
    client_ms: float
    worst_ms: float


def make_relations(connection: Connection, count: int) -> None:
    """Make tables with an index each until there are so many relations."""
    row = connection.execute("select count(*) from pg_class where relname ~ '^r[0-9]+'").fetchone()
    have = int(row[0]) if row else 0
    for first in range(have // 2, count // 2, 500):
        last = min(first + 500, count // 2) - 1
        connection.execute(
            f"do $$ begin for i in {first}..{last} loop "
            "execute format('create table r%s (n int); create index r%s_i on r%s (n); "
            "insert into r%s values (1)', i, i, i, i); end loop; end $$"
        )
    connection.execute("checkpoint")


def write_some(connection: Connection, tables: int) -> None:
    """Write to so many tables, and their indexes."""
    for first in range(0, tables, 500):
        last = min(first + 500, tables) - 1
        connection.execute(
            f"do $$ begin for i in {first}..{last} loop "
            "execute format('insert into r%s values (1)', i); end loop; end $$"
        )
    connection.execute("checkpoint")


def time_snapshots(connection: Connection, relations: int, busy: int, rounds: int) -> Figure:
    """Take snapshots with so many relations written between."""
    server_ms, client_ms = [], []
    for _ in range(rounds + 1):
        write_some(connection, busy // 2)
        begin = time.perf_counter()
        row = connection.execute("select pgflash_snapshot()").fetchone()
        client_ms.append((time.perf_counter() - begin) * 1000)
        took = connection.execute(
            "select took_ms from pgflash_snapshots where snapshot_id = %s", row
        ).fetchone()
        server_ms.append(float(took[0]) if took else 0.0)
    # The first one meets relations that it has never seen.
    return Figure(
        relations=relations,
        busy=busy,
        server_ms=statistics.median(server_ms[1:]),
        client_ms=statistics.median(client_ms[1:]),
        worst_ms=max(server_ms),
    )


def scripts(folder: Path) -> list[str]:
    """Write the clients' scripts: different statements, some that wait for locks and WAL."""
    names = []
    for which in range(STATEMENTS):
        columns = ", ".join(f"abalance + {n} as c{n}" for n in range(which + 1))
        text = (
            f"\\set a random(1, 100000)\nselect {columns} from pgbench_accounts where aid = :a;\n"
        )
        if which % 4 == 0:
            text += (
                "begin;\nupdate pgbench_branches set bbalance = bbalance + 1 where bid = 1;\n"
                f"select {which}, count(*) from pgbench_tellers;\nend;\n"
            )
        path = folder / f"{which}.sql"
        path.write_text(text)
        path.chmod(0o644)
        names += ["-f", str(path)]
    return names


def bytes_by_section(connection: Connection, snapshot: int) -> dict[str, int]:
    """Return the sizes of a snapshot's sections, including the heads of rows and TOAST."""
    rows = connection.execute(
        "select section, pg_column_size(content) + 80 from pgflash_snapshot_sections "
        "where snapshot_id = %s",
        (snapshot,),
    ).fetchall()
    # Out-of-line values are in chunks of 2 kB, with their heads and an index.
    return {str(name): int(size * 1.04) for name, size in rows}


def measure_volume(server: Server, folder: Path, minutes: int) -> tuple[dict[str, float], int]:
    """Return bytes a day by section, and how many sessions were seen at once."""
    server.run(["pgbench", "-i", "-q", "-s1", "app"])
    with server.connect("app") as connection:
        load = server.popen(
            [
                *("pgbench", "-n", f"-c{CLIENTS}", "-j4", f"-T{minutes * 60 + 5}"),
                *scripts(folder),
                "app",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(2)
        connection.execute("select pgflash_snapshot()")
        time.sleep(minutes * 60)
        row = connection.execute("select pgflash_snapshot()").fetchone()
        active = connection.execute(
            "select content->'rows'->0 from pgflash_snapshot_sections "
            "where section = 'server' and snapshot_id = %s",
            row,
        ).fetchone()
        load.wait(timeout=60)
        taken = int(row[0]) if row else 0
        a_day = {
            name: float(size)
            * (MINUTES_A_DAY / minutes if name in BY_THE_MINUTE else SNAPSHOTS_A_DAY)
            for name, size in bytes_by_section(connection, taken).items()
        }
    return a_day, int(active[0][-2]) if active else 0


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--pg-major", type=int, default=18)
    options = parser.parse_args()
    install = build_install(find_install(options.pg_major))
    console = Console(record=True, width=100)
    times = Table("relations", "written since", "median ms", "client ms", "worst ms", "bar ms")
    volume = Table("section", "MiB a day")

    with tempfile.TemporaryDirectory(prefix="pgflash-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Server.create(install, folder / "server", settings=SETTINGS) as server:
            server.start()
            with server.connect() as connection:
                connection.execute("create database app")
            with server.connect("app") as connection:
                connection.execute("create extension pgflash")
                connection.execute("create extension pg_stat_statements")
            a_day, active = measure_volume(server, folder, 1 if options.quick else 5)
            with server.connect("app") as connection:
                for relations in RELATIONS[: 1 if options.quick else None]:
                    make_relations(connection, relations)
                    for busy in (200, min(relations, 10_000), relations):
                        figure = time_snapshots(
                            connection, relations, busy, rounds=2 if options.quick else 7
                        )
                        bar = f"{MILLISECONDS_BAR:.0f}" if relations == 10_000 else ""
                        times.add_row(
                            f"{relations:,}",
                            f"{busy:,}",
                            f"{figure.server_ms:.1f}",
                            f"{figure.client_ms:.1f}",
                            f"{figure.worst_ms:.1f}",
                            bar,
                        )
                        if busy == relations:
                            break

    for name, size in sorted(a_day.items(), key=lambda item: -item[1]):
        volume.add_row(name, f"{size / 2**20:.2f}")
    total = sum(a_day.values()) / 2**20
    volume.add_row(f"all ({active} active sessions; bar {MEBIBYTES_BAR:.0f})", f"{total:.2f}")
    console.print(f"PostgreSQL {install.version}", times, volume)
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "snapshots.txt").write_text(console.export_text())


if __name__ == "__main__":
    main()
