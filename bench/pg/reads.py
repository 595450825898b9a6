"""What reads gain and lose: scans, misses, and a flash device that stops answering.

Everything runs on emulated devices (a six-disk array, an NVMe drive), side by side on one
server per PostgreSQL major:

- a scan of a table that flash holds, against plain O_DIRECT reads of the same size and
  depth from the same cache file: the bar is 80 %; beside it the same scan of a table that
  lies on the flash device, without pgflash: what PostgreSQL itself makes of the device;
- a scan of a table that flash does not hold, with the cache and without: not slower; and the
  share of a warm working set that it displaced: at most 2 %;
- the latency of a read that misses, with the cache and without;
- the slowest query while flash does not answer at all, against pgflash.read_deadline.

Writes bench/results/reads.json and prints the tables.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from psycopg import Connection
from rich.console import Console
from rich.table import Table

from pgflash.lab.emulator import DeviceProfile, EmulatedDevice, Emulator
from pgflash.lab.postgres import PgInstall
from pgflash.lab.server import Server, make_server_dir, server_account
from support.cluster import build_install, find_install

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
BLOCK = 8192
DEADLINE_MS = 50

#: What PostgreSQL reads at once, and how many processes do it: io_combine_limit and
#: io_workers of 18; older servers read block by block in the backend.
IO_WORKERS = 3
RUN_BLOCKS = 16

#: A scan may pin its share of the buffers, so few connections, or runs stay short.
SETTINGS = {
    "shared_buffers": "32MB",
    "max_connections": "10",
    "max_worker_processes": "4",
    "autovacuum": "off",
    "fsync": "off",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "max_parallel_workers_per_gather": "0",
    "synchronize_seqscans": "off",
    "jit": "off",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of everything."""

    warm_mb: int
    cold_mb: int
    misses: int
    stall_s: float
    scans: int


FULL = Size(warm_mb=192, cold_mb=768, misses=3000, stall_s=10, scans=5)
QUICK = Size(warm_mb=96, cold_mb=96, misses=300, stall_s=2, scans=2)


@dataclass(slots=True, kw_only=True)
class Bench:
    """One server, its devices, and where its cache file lies."""

    server: Server
    emulator: Emulator
    cache_file: Path
    size: Size

    @contextmanager
    def session(self, *, cache: bool) -> Iterator[Connection[Any]]:
        """Start the server with or without the cache, delays on; stop it afterwards."""
        self.server.configure({"shared_preload_libraries": "pgflash" if cache else None})
        if not cache:
            self.server.configure({name: None for name in self.cache_settings})
        else:
            self.server.configure(self.cache_settings)
        self.server.start(self.emulator.env)
        with self.server.connect() as connection:
            connection.autocommit = True
            yield connection
        self.server.stop()

    @property
    def cache_settings(self) -> dict[str, str]:
        """Return the settings of the cache."""
        return {
            "pgflash.cache_file": str(self.cache_file),
            "pgflash.cache_size": f"{2 * self.size.warm_mb + 64}MB",
            "pgflash.read_deadline": f"{DEADLINE_MS}ms",
        }


def make_table(connection: Connection[Any], name: str, megabytes: int, space: str = "") -> int:
    """Make a table of one row a block; return its blocks."""
    blocks = megabytes * 1024 * 1024 // BLOCK
    connection.execute(
        f"create table {name} (pad text) with (fillfactor = 10)"
        + (f" tablespace {space}" if space else "")
    )
    connection.execute(f"alter table {name} alter pad set storage plain")
    connection.execute(
        f"insert into {name} select repeat('x', 7000) from generate_series(1, {blocks})"
    )
    connection.execute(f"vacuum (freeze) {name}")
    return blocks


def pick(connection: Connection[Any], name: str, block: int) -> None:
    connection.execute(f"select 1 from {name} where ctid = '({block},1)'").fetchone()


def read_scattered(connection: Connection[Any], name: str, blocks: int) -> None:
    """Read all blocks one by one in no order, as nothing but a scan is kept off flash."""
    connection.execute(
        f"do $$ begin for i in 0..{blocks - 1} loop"
        f" perform 1 from {name} where ctid = format('(%s,1)', i::bigint * 7919 % {blocks})::tid;"
        " end loop; end $$"
    )


def warm(bench: Bench, connection: Connection[Any], blocks: int) -> float:
    """Bring the table to flash, and out of shared_buffers; return the share on flash."""
    bench.emulator.off()
    for _ in range(6):
        read_scattered(connection, "warm", blocks)
        # Blocks of it in shared_buffers would cut the runs of a scan into pieces.
        read_scattered(connection, "on_flash", blocks)
        time.sleep(2)  # what is on its way to flash arrives
        if cached_share(connection, blocks) > 0.999:
            break
    bench.emulator.on()
    return cached_share(connection, blocks)


def cached_share(connection: Connection[Any], blocks: int) -> float:
    row = connection.execute(
        "select coalesce(sum(cached_blocks), 0) from pgflash_relations"
        " where relation = 'warm'::regclass and fork = 'main'"
    ).fetchone()
    assert row is not None
    return float(row[0]) / blocks


def scan_mb_s(connection: Connection[Any], name: str, blocks: int, times: int) -> float:
    """Scan a table some times; return the median speed."""
    speeds = []
    for _ in range(times):
        began = time.monotonic()
        connection.execute(f"select count(*) from {name}").fetchone()
        speeds.append(blocks * BLOCK / 1e6 / (time.monotonic() - began))
    return statistics.median(speeds)


def cached_scan_mb_s(connection: Connection[Any], times: int) -> float:
    """Do the same with a table that flash holds; what shared_buffers had does not count."""

    def flash_bytes() -> int:
        row = connection.execute("select flash_read_bytes from pgflash_cache").fetchone()
        assert row is not None
        return int(row[0])

    speeds = []
    for _ in range(times):
        before = flash_bytes()
        began = time.monotonic()
        connection.execute("select count(*) from warm").fetchone()
        seconds = time.monotonic() - began
        speeds.append((flash_bytes() - before) / 1e6 / seconds)
    return statistics.median(speeds)


def plain_mb_s(bench: Bench, *, size: int, depth: int, readers: int) -> float:
    """Return what the device gives to plain reads, in the same place."""
    seconds = 2
    done = subprocess.run(
        [HERE / "build/readers", bench.cache_file, *map(str, (size, depth, readers, seconds))],
        env=dict(bench.emulator.env),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout) / 1e6


def latencies_ms(connection: Connection[Any], name: str, blocks: int, count: int) -> list[float]:
    """Read single blocks far apart, each for the first time."""
    times = []
    for i in range(count):
        began = time.monotonic()
        pick(connection, name, (i * 7919 + 13) % blocks)
        times.append((time.monotonic() - began) * 1000)
    return sorted(times)


def at(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def slowest_in_a_stall_ms(bench: Bench, connection: Connection[Any], blocks: int) -> float:
    """Stop flash from answering; return the slowest single-block query meanwhile."""
    for i in range(20):
        pick(connection, "warm", i)
    slowest = 0.0
    bench.emulator.stall("flash", seconds=bench.size.stall_s)
    end = time.monotonic() + bench.size.stall_s
    number = 0
    while time.monotonic() < end:
        began = time.monotonic()
        pick(connection, "warm", number * 7919 % blocks)
        slowest = max(slowest, (time.monotonic() - began) * 1000)
        number += 1
    bench.emulator.stall("flash", seconds=0)
    return slowest


def measure(bench: Bench, major: int) -> dict[str, float]:
    """Take all figures on one server."""
    found: dict[str, float] = {}
    runs = major >= 17
    with bench.session(cache=False) as connection:
        connection.execute("create extension if not exists pgflash")
        bench.emulator.off()
        warm_blocks = make_table(connection, "warm", bench.size.warm_mb)
        cold_blocks = make_table(connection, "cold", bench.size.cold_mb)
        connection.execute(f"create tablespace flash location '{bench.cache_file.parent}/space'")
        make_table(connection, "on_flash", bench.size.warm_mb, "flash")
        connection.execute("checkpoint")
        bench.emulator.on()
    with bench.session(cache=False) as connection:
        found["table_on_flash_mb_s"] = scan_mb_s(
            connection, "on_flash", warm_blocks, bench.size.scans
        )
        found["cold_scan_without_mb_s"] = scan_mb_s(
            connection, "cold", cold_blocks, bench.size.scans
        )
        misses = latencies_ms(connection, "cold", cold_blocks, bench.size.misses)
        found["miss_p50_without_ms"], found["miss_p99_without_ms"] = (
            at(misses, 0.5),
            at(misses, 0.99),
        )
    with bench.session(cache=True) as connection:
        found["warm_share"] = warm(bench, connection, warm_blocks)
        found["cached_scan_mb_s"] = cached_scan_mb_s(connection, bench.size.scans)
        found["plain_8k_mb_s"] = plain_mb_s(
            bench,
            size=BLOCK,
            depth=RUN_BLOCKS if runs else 1,
            readers=IO_WORKERS if major >= 18 else 1,
        )
        if runs:
            found["plain_128k_mb_s"] = plain_mb_s(
                bench,
                size=BLOCK * RUN_BLOCKS,
                depth=1,
                readers=IO_WORKERS if major >= 18 else 1,
            )
        found["slowest_in_stall_ms"] = slowest_in_a_stall_ms(bench, connection, warm_blocks)
        time.sleep(2)
        before = cached_share(connection, warm_blocks)
        found["cold_scan_with_mb_s"] = scan_mb_s(connection, "cold", cold_blocks, bench.size.scans)
        found["displaced"] = 1 - cached_share(connection, warm_blocks) / before
        misses = latencies_ms(connection, "cold", cold_blocks, bench.size.misses)
        found["miss_p50_with_ms"], found["miss_p99_with_ms"] = at(misses, 0.5), at(misses, 0.99)
    return found


def run_major(install: PgInstall, major: int, size: Size) -> dict[str, float]:
    account = server_account()
    with tempfile.TemporaryDirectory(prefix="pgflash-bench-", dir="/dev/shm") as name:
        folder = Path(name)
        folder.chmod(0o755)
        flash = make_server_dir(folder / "flash")
        make_server_dir(flash / "space")
        server = Server.create(install, folder / "server", settings=SETTINGS)
        with (
            server,
            Emulator.create(
                folder / "state",
                devices=[
                    EmulatedDevice(
                        name="disk",
                        profile=DeviceProfile.named("sas15k-raid10-6"),
                        paths=(server.data,),
                    ),
                    EmulatedDevice(
                        name="flash", profile=DeviceProfile.named("nvme"), paths=(flash,)
                    ),
                ],
                owner=account.uid if account else None,
            ) as emulator,
        ):
            bench = Bench(server=server, emulator=emulator, cache_file=flash / "cache", size=size)
            return measure(bench, major)


def show(console: Console, results: Mapping[int, Mapping[str, float]]) -> None:
    scans = Table(
        "PostgreSQL",
        "cached scan MB/s",
        "plain 8 kB reads, same depth",
        "plain 128 kB reads",
        "share (bar 0.8)",
        "table on flash, no pgflash",
        "uncached scan with / without",
        "displaced (bar 2 %)",
    )
    reads = Table(
        "PostgreSQL",
        "miss p50 without, ms",
        "with",
        "miss p99 without, ms",
        "with",
        "slowest query in a stall, ms",
        "deadline, ms",
    )
    for major, found in results.items():
        scans.add_row(
            str(major),
            f"{found['cached_scan_mb_s']:.0f}",
            f"{found['plain_8k_mb_s']:.0f}",
            f"{found['plain_128k_mb_s']:.0f}" if "plain_128k_mb_s" in found else "-",
            f"{found['cached_scan_mb_s'] / found['plain_8k_mb_s']:.2f}",
            f"{found['table_on_flash_mb_s']:.0f}",
            f"{found['cold_scan_with_mb_s']:.0f} / {found['cold_scan_without_mb_s']:.0f}"
            f" = {found['cold_scan_with_mb_s'] / found['cold_scan_without_mb_s']:.2f}",
            f"{found['displaced']:.2%}",
        )
        reads.add_row(
            str(major),
            f"{found['miss_p50_without_ms']:.2f}",
            f"{found['miss_p50_with_ms']:.2f}",
            f"{found['miss_p99_without_ms']:.2f}",
            f"{found['miss_p99_with_ms']:.2f}",
            f"{found['slowest_in_stall_ms']:.1f}",
            str(DEADLINE_MS),
        )
    console.print(scans)
    console.print(reads)


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--major", type=int, nargs="+", default=[18, 15])
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    results = {
        major: run_major(build_install(find_install(major)), major, size) for major in options.major
    }
    show(Console(width=150), results)
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "reads.json").write_text(
            json.dumps({"size": asdict(size), "majors": results}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
