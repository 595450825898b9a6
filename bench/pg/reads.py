# SPDX-License-Identifier: PostgreSQL
"""What reads gain and lose: uncached scans, misses, and a flash device that stops answering.

Everything runs on emulated devices (a six-disk array, an NVMe drive), side by side on one
server per PostgreSQL major:

- a scan of a table that flash does not hold, with the cache and without: not slower; and the
  share of a warm working set that it displaced: at most 2 %;
- the latency of a read that misses, with the cache and without;
- the slowest query while flash does not answer at all, against pgflash.read_deadline.

Scans of what flash holds: scans.py.  Prints the tables, and keeps them in bench/results
(reads.txt, reads.json).
"""

import argparse
import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from psycopg import Connection
from reads_rig import DEADLINE_MS, Bench, cached_share, make_table, pick, scan_mb_s, warm
from rich.console import Console
from rich.table import Table
from scans import RESULTS, rigged

from pgflash_lab.postgres import PgInstall
from support.cluster import build_install, find_install


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The amount of everything."""

    warm_mb: int
    cold_mb: int
    misses: int
    stall_s: float
    scans: int


FULL = Size(warm_mb=192, cold_mb=768, misses=3000, stall_s=10, scans=5)
QUICK = Size(warm_mb=160, cold_mb=160, misses=300, stall_s=2, scans=2)


def latencies_ms(
    connection: Connection[Any], name: str, blocks: int, numbers: range
) -> list[float]:
    """Read single blocks far apart, each for the first time."""
    times = []
    for i in numbers:
        began = time.monotonic()
        pick(connection, name, (i * 7919 + 13) % blocks)
        times.append((time.monotonic() - began) * 1000)
    return times


def at(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def slowest_in_a_stall_ms(
    bench: Bench, connection: Connection[Any], blocks: int, seconds: float
) -> float:
    """Stop flash from answering; return the slowest single-block query meanwhile."""
    for i in range(20):
        pick(connection, "warm", i)
    slowest = 0.0
    bench.emulator.stall("flash", seconds=seconds)
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        began = time.monotonic()
        pick(connection, "warm", number * 7919 % blocks)
        slowest = max(slowest, (time.monotonic() - began) * 1000)
        number += 1
    bench.emulator.stall("flash", seconds=0)
    return slowest


@dataclass(slots=True)
class Cold:
    """Reads that flash cannot speed up: each scan's speed, each miss's time."""

    scans_mb_s: list[float] = field(default_factory=list)
    misses_ms: list[float] = field(default_factory=list)

    def result(self, name: str) -> dict[str, float]:
        """Return the figures with the cache or without."""
        return {
            f"cold_scan_{name}_mb_s": statistics.median(self.scans_mb_s),
            f"miss_p50_{name}_ms": at(self.misses_ms, 0.5),
            f"miss_p99_{name}_ms": at(self.misses_ms, 0.99),
        }


def cold_figures(bench: Bench, blocks: int, size: Size) -> dict[str, float]:
    """Scan an uncached table, and miss single blocks of it, with and without in turn."""
    without, with_cache = Cold(), Cold()
    misses = size.misses // size.scans
    for turn in range(size.scans):
        numbers = range(turn * misses, (turn + 1) * misses)
        both = [(False, without), (True, with_cache)]
        for cache, cold in both if turn % 2 == 0 else reversed(both):
            with bench.session(cache=cache) as connection:
                cold.scans_mb_s.append(scan_mb_s(connection, "cold", blocks))
                cold.misses_ms += latencies_ms(connection, "cold", blocks, numbers)
    return without.result("without") | with_cache.result("with")


def measure(bench: Bench, size: Size) -> dict[str, float]:
    """Measure everything on one server."""
    found: dict[str, float] = {}
    with bench.session() as connection:
        connection.execute("create extension if not exists pgflash")
        bench.emulator.off()
        warm_blocks = make_table(connection, "warm", size.warm_mb)
        cold_blocks = make_table(connection, "cold", size.cold_mb)
        connection.execute("checkpoint")
        bench.emulator.on()
    with bench.session(cache=True) as connection:
        warm(bench, connection, warm_blocks)
        found["slowest_in_stall_ms"] = slowest_in_a_stall_ms(
            bench, connection, warm_blocks, size.stall_s
        )
        time.sleep(2)
        before = cached_share(connection, warm_blocks)
        for _ in range(size.scans):
            scan_mb_s(connection, "cold", cold_blocks)
        found["displaced"] = 1 - cached_share(connection, warm_blocks) / before
    return found | cold_figures(bench, cold_blocks, size)


def run_major(install: PgInstall, size: Size) -> dict[str, float]:
    # So small that a scan that filled it would displace its blocks.
    with rigged(install, "nvme", 2 * size.warm_mb) as bench:
        return measure(bench, size)


def show(console: Console, results: Mapping[int, Mapping[str, float]]) -> None:
    scans = Table("PostgreSQL", "uncached scan with / without, MB/s", "displaced (bar 2 %)")
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
        major: run_major(build_install(find_install(major)), size) for major in options.major
    }
    console = Console(width=150, record=True)
    show(console, results)
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "reads.txt").write_text(console.export_text())
        (RESULTS / "reads.json").write_text(
            json.dumps({"size": asdict(size), "majors": results}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
