# SPDX-License-Identifier: PostgreSQL
"""A whole server on a small cloud volume, with the flash cache and without: nothing is emulated.

The volume is a loop device whose reads the kernel limits (500 a second), for a server that has
700 MB of memory (pgflash_lab/throttled.py).  The database is pgbench's accounts, 1.5 GB; 16 clients
read single rows, and one statement in ten updates one, chosen by Zipf's law.  The cache
file is on the disk of FOLDER, without a limit.

The server runs without pgflash and with it in turns, each time with its memory empty; the cache
is filled by pgflash_cache_load() before, without the limit, as it would be after days.  Two
turns of the same kind show the noise.

Needs root.  Prints the table, and keeps it in bench/results (throttled.txt, throttled.json).
"""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from scans import RESULTS

from pgflash_lab.account import make_server_dir, server_account
from pgflash_lab.leftovers import forget_memory
from pgflash_lab.oltp.pgbench_log import read_logs
from pgflash_lab.pgbench import run_pgbench
from pgflash_lab.server import Server
from pgflash_lab.throttled import ThrottleError, Volume, throttled_volume
from support.cluster import build_install, find_install

MB = 1 << 20
CLIENTS = 16
THREADS = 2
#: Zipf's exponent.
SKEW = 1.15
SETTINGS = {
    "shared_buffers": "128MB",
    "max_connections": "30",
    "max_worker_processes": "16",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
    "jit": "off",
}
TURNS = ("without", "with", "with", "without")

#: Zipf's law prefers small numbers: permute() scatters them over all blocks.
ROW = r"""\set drawn random_zipfian(1, :rows, :skew)
\set aid 1 + permute(:drawn - 1, :rows, 1)
"""
READ = ROW + "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
WRITE = ROW + "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The amount of everything."""

    scale: int
    memory_mb: int
    read_iops: int
    warm_s: int
    measure_s: int


FULL = Size(scale=100, memory_mb=700, read_iops=500, warm_s=60, measure_s=60)
QUICK = Size(scale=10, memory_mb=300, read_iops=500, warm_s=5, measure_s=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one turn measured."""

    tps: float
    p50_ms: float
    p99_ms: float
    reads_s: float
    #: Of all reads of data files, those that flash answered; None without the cache.
    hit_ratio: float | None


def load(volume: Volume, server: Server, scale: int) -> None:
    """Make the database, without the limit."""
    server.configure({"fsync": "off"})
    server.start()
    server.run(["createdb", "bench"])
    server.run(["pgbench", "-i", "-q", "-s", str(scale), "bench"])
    with server.connect("bench") as connection:
        connection.execute("create extension pgflash")
        connection.execute("checkpoint")
    server.stop()
    server.configure({"fsync": None})
    volume.mount_again()


def fill(server: Server) -> None:
    """Bring all of the table and its index to flash."""
    with server.connect("bench") as connection:
        connection.execute("select pgflash_cache_load('pgbench_accounts')")
        while connection.execute(
            "select 1 from pgflash_cache_load_progress where state in ('waiting', 'loading')"
        ).fetchone():
            time.sleep(0.5)


def pgbench(
    server: Server, scripts: tuple[Path, Path], work: Path, size: Size, seconds: int
) -> int:
    """Run the load; return the number of its process, which its logs bear."""
    read, write = scripts
    command = [
        *(str(server.install.program("pgbench")), "--no-vacuum", "--progress=1"),
        *(f"--client={CLIENTS}", f"--jobs={THREADS}", f"--time={seconds}"),
        *("--protocol=prepared", "--max-tries=2", "--log", f"--log-prefix={work / 'log'}"),
        *(f"--define=rows={100_000 * size.scale}", f"--define=skew={SKEW}"),
        *(f"--file={read}@9", f"--file={write}@1"),
        server.conninfo("bench"),
    ]
    ended = run_pgbench(
        server.install, command, workdir=work, run_s=seconds, heard=lambda *_second: None
    )
    return ended.pid


def measure(volume: Volume, server: Server, cache_file: Path, size: Size, kind: str) -> Turn:
    """Run one turn."""
    cache = {
        "shared_preload_libraries": "pgflash",
        "pgflash.cache_file": str(cache_file),
        "pgflash.cache_size": f"{32 * size.scale}MB",
        "pgflash.load_rate": "500MB",
    }
    server.configure(cache if kind == "with" else dict.fromkeys(cache))
    volume.limit(read_iops=None)
    volume.mount_again()
    with volume.entered():
        server.start()
    if kind == "with":
        fill(server)
    volume.limit(read_iops=size.read_iops)
    with tempfile.TemporaryDirectory(prefix="pgflash-bench-") as name:
        work = Path(name)
        read, write = work / "read.sql", work / "write.sql"
        read.write_text(READ)
        write.write_text(WRITE)
        pgbench(server, (read, write), work, size, size.warm_s)
        before, counted = volume.reads(), hits(server, kind)
        pid = pgbench(server, (read, write), work, size, size.measure_s)
        reads, after = volume.reads() - before, hits(server, kind)
        times = sorted(read_logs(work / "log", pid).latencies_us)
    server.stop()
    ratio = None
    if counted is not None and after is not None:
        found, missed = (now - then for now, then in zip(after, counted, strict=True))
        ratio = found / max(1, found + missed)
    return Turn(
        tps=len(times) / size.measure_s,
        p50_ms=times[len(times) // 2] / 1000,
        p99_ms=times[len(times) * 99 // 100] / 1000,
        reads_s=reads / size.measure_s,
        hit_ratio=ratio,
    )


def hits(server: Server, kind: str) -> tuple[int, int] | None:
    """Return hits and misses so far."""
    if kind == "without":
        return None
    with server.connect("bench") as connection:
        row = connection.execute("select hits, misses from pgflash_cache").fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def show(console: Console, size: Size, turns: list[tuple[str, Turn]]) -> dict[str, float]:
    """Print the turns and their ratios; return the ratios."""
    table = Table("cache", "tps", "p50, ms", "p99, ms", "reads of the volume/s", "hit ratio")
    for kind, turn in turns:
        table.add_row(
            kind,
            f"{turn.tps:,.0f}",
            f"{turn.p50_ms:.2f}",
            f"{turn.p99_ms:.2f}",
            f"{turn.reads_s:,.0f}",
            "" if turn.hit_ratio is None else f"{turn.hit_ratio:.3f}",
        )
    console.print(table)
    tps = {kind: [turn.tps for other, turn in turns if other == kind] for kind in TURNS}
    p99 = {kind: [turn.p99_ms for other, turn in turns if other == kind] for kind in TURNS}
    found = {
        "tps_ratio": statistics.mean(tps["with"]) / statistics.mean(tps["without"]),
        "p99_ratio": statistics.mean(p99["with"]) / statistics.mean(p99["without"]),
        "noise_without": max(tps["without"]) / min(tps["without"]),
        "noise_with": max(tps["with"]) / min(tps["with"]),
    }
    console.print(
        f"PostgreSQL 15, {CLIENTS} clients, {100_000 * size.scale:,} rows, {size.memory_mb} MB of "
        f"memory, {size.read_iops} reads/s: {found['tps_ratio']:.1f} times the transactions, p99 "
        f"{found['p99_ratio']:.3f} times as long. Two turns of a kind differ by a factor of "
        f"{found['noise_without']:.2f} without the cache and of {found['noise_with']:.2f} with it."
    )
    return found


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    console = Console(width=120, record=True)
    account = server_account()
    install = build_install(find_install(15))
    turns: list[tuple[str, Turn]] = []
    try:
        with (
            throttled_volume(
                options.folder,
                size_bytes=(40 * size.scale + 1000) * MB,
                memory_bytes=size.memory_mb * MB,
            ) as volume,
            tempfile.TemporaryDirectory(prefix="pgflash-bench-", dir=options.folder) as flash,
        ):
            Path(flash).chmod(0o755)
            cache_file = make_server_dir(Path(flash) / "flash") / "cache"
            assert account is not None
            server = Server.create(install, volume.path / "server", settings=SETTINGS)
            try:
                with server:
                    load(volume, server, size.scale)
                    for kind in TURNS:
                        console.print(f"{kind} the cache ...")
                        turns.append((kind, measure(volume, server, cache_file, size, kind)))
            finally:
                forget_memory(server.data)
    except ThrottleError as error:
        console.print(f"not run: {error}")
        return
    found = show(console, size, turns)
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "throttled.txt").write_text(console.export_text())
        (RESULTS / "throttled.json").write_text(
            json.dumps(
                {"size": asdict(size), "turns": [(k, asdict(t)) for k, t in turns], **found},
                indent=1,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
