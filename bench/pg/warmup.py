# SPDX-License-Identifier: PostgreSQL
"""How fast a cold cache becomes warm: with the reads of neighbours and without, in turns.

16 clients read single rows of pgbench's accounts (256 MB) chosen by Zipf's law, and one statement
in twenty updates one.  The cache of 192 MB is empty at the start of each turn.  The disks are
emulated; the cache file is on the disk of FOLDER:

- a volume of 150 reads a second, which counts a read of up to 256 kB as one, as cloud volumes do;
- a small array of six disks.

A turn is warm once a second has 90 % of the transactions that the last quarter of all turns of the
disk had in the median.  The reads of the disk until then are what warming up costs.  The p99 is of
those transactions in the first seconds, until the first turn was warm, that took longer than a
read of flash: they waited for the disk.

Prints the table, and keeps it in bench/results (warmup.txt, warmup.json).
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from reads_rig import Bench
from rich.console import Console
from rich.table import Table
from scans import RESULTS, rigged
from throttled import READ, SKEW, WRITE

from pgflash_lab.emulator import DeviceProfile
from pgflash_lab.oltp.pgbench_log import read_logs
from pgflash_lab.pgbench import run_pgbench
from support.cluster import build_install, find_install

CLIENTS = 16
THREADS = 2
CACHE_MB = 192
#: Of pgbench: 256 MB of accounts.
SCALE = 20
#: Longer than flash takes, shorter than the disk.
WAITED_US = 2000
SETTINGS = {"shared_buffers": "16MB", "max_connections": "30"}
WARM_SHARE = 0.9
TURNS = ("off", "on", "on", "off")

VOLUME = {
    "kind": "flash",
    "description": "a volume of 150 reads a second",
    "channels": 64,
    "stripe_kb": 256,
    "read_us": [500.0, 1200.0],
    "write_us": [600.0, 1500.0],
    "bandwidth_mb_s": 1000.0,
    "log_sync_ms": [0.6, 1.5],
    "limit": {"iops": 150, "burst": 1, "io_kb": 256, "mb_s": 125.0},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One cold start."""

    neighbours: str
    #: Transactions of each second, and the disk's reads until its end.
    tps: tuple[int, ...]
    reads: tuple[int, ...]
    #: When each transaction that waited for the disk ended, and how long it took, in ms.
    waits: tuple[tuple[float, float], ...]
    hits: int
    misses: int
    neighbour_reads: int
    neighbour_inserts: int
    turned_away: int


def run(bench: Bench, neighbours: str, seconds: int) -> Turn:
    """Start with an empty cache, and run the load."""
    bench.cache_file.unlink(missing_ok=True)
    reads: list[int] = []
    with (
        bench.session(
            cache=True, settings=SETTINGS | {"pgflash.fill_neighbours": neighbours}
        ) as connection,
        tempfile.TemporaryDirectory(prefix="pgflash-bench-") as name,
    ):
        work = Path(name)
        read, write = work / "read.sql", work / "write.sql"
        read.write_text(READ)
        write.write_text(WRITE)
        bench.emulator.on()
        bench.emulator.reset()
        stop = threading.Event()

        def watch() -> None:
            began = time.monotonic()
            while not stop.wait(max(0.0, began + len(reads) + 1 - time.monotonic())):
                reads.append(bench.emulator.stats().device("disk").reads.count)

        watcher = threading.Thread(target=watch)
        watcher.start()
        install = bench.server.install
        command = [
            *(str(install.program("pgbench")), "--no-vacuum", "--progress=1"),
            *(f"--client={CLIENTS}", f"--jobs={THREADS}", f"--time={seconds}"),
            *("--protocol=prepared", "--max-tries=2", "--log", f"--log-prefix={work / 'log'}"),
            *(f"--define=rows={100_000 * SCALE}", f"--define=skew={SKEW}"),
            *(f"--file={read}@19", f"--file={write}@1"),
            bench.server.conninfo("postgres"),
        ]
        ended = run_pgbench(
            install, command, workdir=work, run_s=seconds, heard=lambda *_second: None
        )
        stop.set()
        watcher.join()
        log = read_logs(work / "log", ended.pid)
        row = connection.execute(
            "select hits, misses, neighbour_reads, neighbour_inserts, insert_skip_writer_overloaded"
            " from pgflash_cache"
        ).fetchone()
    assert row is not None
    ends = [(end - log.began_us) / 1e6 for end in log.ends_us]
    count = Counter(int(end) for end in ends)
    return Turn(
        neighbours=neighbours,
        tps=tuple(count[second] for second in range(seconds)),
        reads=tuple(reads),
        waits=tuple(
            (end, latency / 1000)
            for end, latency in zip(ends, log.latencies_us, strict=True)
            if latency > WAITED_US
        ),
        hits=row[0],
        misses=row[1],
        neighbour_reads=row[2],
        neighbour_inserts=row[3],
        turned_away=row[4],
    )


def warm_after_s(turn: Turn, goal: float) -> int:
    """Return the seconds until a second reached the goal; those of the turn if none did."""
    return next((s + 1 for s, tps in enumerate(turn.tps) if tps >= goal), len(turn.tps))


def summary(turns: list[Turn]) -> dict[str, float]:
    """Return the figures of one disk."""
    last = len(turns[0].tps) * 3 // 4
    goal = WARM_SHARE * statistics.median(tps for turn in turns for tps in turn.tps[last:])
    found: dict[str, float] = {"goal_tps": goal}
    cold_s = min(warm_after_s(turn, goal) for turn in turns)
    for kind in ("off", "on"):
        same = [turn for turn in turns if turn.neighbours == kind]
        times = [warm_after_s(turn, goal) for turn in same]
        waits = sorted(ms for turn in same for end, ms in turn.waits if end < cold_s)
        found[f"warm_{kind}_s"] = statistics.mean(times)
        found[f"reads_{kind}"] = statistics.mean(
            turn.reads[min(seconds, len(turn.reads)) - 1]
            for turn, seconds in zip(same, times, strict=True)
        )
        found[f"p99_{kind}_ms"] = waits[len(waits) * 99 // 100] if waits else 0.0
        found[f"last_{kind}_tps"] = statistics.mean(
            statistics.mean(turn.tps[last:]) for turn in same
        )
        offered = sum(turn.misses + turn.neighbour_inserts for turn in same)
        found[f"turned_away_{kind}"] = sum(turn.turned_away for turn in same) / max(1, offered)
    found["reads_ratio"] = found["reads_on"] / found["reads_off"]
    found["p99_ratio"] = found["p99_on_ms"] / max(found["p99_off_ms"], 0.001)
    return found


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="/var/tmp")
    parser.add_argument("--seconds", type=int, default=150, help="of one turn")
    parser.add_argument("--quick", action="store_true", help="short, to see that it works")
    options = parser.parse_args()
    seconds = 20 if options.quick else options.seconds
    console = Console(width=120, record=True)
    install = build_install(find_install(18))
    results: dict[str, dict[str, object]] = {}
    summaries: dict[str, dict[str, float]] = {}
    table = Table(
        "disk",
        "neighbours",
        "90 % after, s",
        "reads until then",
        "p99, ms",
        "tps at the end",
        "turned away",
    )
    for name, disk in (
        ("150 reads/s", DeviceProfile.from_mapping("volume-150", VOLUME)),
        ("6 disks", DeviceProfile.named("sas15k-raid10-6")),
    ):
        turns: list[Turn] = []
        with rigged(install, options.folder, CACHE_MB, disk=disk) as bench:
            bench.emulator.off()
            with bench.session() as connection:
                bench.server.run(["pgbench", "-i", "-q", "-s", str(SCALE), "postgres"])
                connection.execute("create extension pgflash")
                connection.execute("checkpoint")
            for neighbours in TURNS[: 2 if options.quick else 4]:
                console.print(f"{name}, neighbours {neighbours} ...")
                turns.append(run(bench, neighbours, seconds))
                bench.emulator.off()
        found = summaries[name] = summary(turns)
        results[name] = {
            "summary": found,
            "turns": [asdict(turn) | {"waits": len(turn.waits)} for turn in turns],
        }
        for kind in ("off", "on"):
            table.add_row(
                name,
                kind,
                f"{found[f'warm_{kind}_s']:.0f}",
                f"{found[f'reads_{kind}']:,.0f}",
                f"{found[f'p99_{kind}_ms']:.1f}",
                f"{found[f'last_{kind}_tps']:,.0f}",
                f"{found[f'turned_away_{kind}']:.1%}",
            )
    console.print(table)
    for name, found in summaries.items():
        console.print(
            f"{name}: {found['reads_ratio']:.2f} times the reads until warm, "
            f"p99 {found['p99_ratio']:.2f} times as long."
        )
    if not options.quick:
        (RESULTS / "warmup.txt").write_text(console.export_text())
        (RESULTS / "warmup.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
