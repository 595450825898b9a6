# SPDX-License-Identifier: PostgreSQL
"""Our replacement policy beside every policy of libcachesim, on streams from below a cache.

All policies run over all streams at five sizes.  The measure is the share of the way from LRU to
the best possible (Belady) that a policy goes: (LRU - X) / (LRU - Belady) in miss ratio, pooled over
sizes and streams, so that a large gap weighs more than a small one.

Ours is played by core's replay tool: the real index, the real policy, 64-way sets, writes
as in production.  libcachesim's see the reads only, which is the same: a write neither
allocates nor counts as a reference.

Prints the tables and writes bench/results/policy.txt and policy.json.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from array import array
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coalesce import UPDATE, linger
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from streams import FOLDER, RECIPES, Stream, load, make

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RESULTS = HERE.parent / "results"
REPLAY = ROOT / "core/build/replay"
KNOWN = ROOT / "build/bench-policy/known"  # results of libcachesim's policies; new with its version

WAYS = 64
SHARES = (0.01, 0.05, 0.10, 0.25, 0.50)  # of the footprint
OURS = "pgflash"
LFU = "LFU + ghost, 64 ways"  # the first policy of pgflash
THEIRS = (
    *("LRU", "Belady", "ARC", "Cacheus", "Clock", "Clock2QPlus", "ClockPro", "FIFO", "FlashProb"),
    *("GDSF", "GLCache", "Hyperbolic", "LFU", "LFUDA", "LHD", "LIRS", "LRUK", "LRUProb", "LeCaR"),
    *("MQ", "Random", "S3FIFO", "SLRU", "Sieve", "ThreeLCache", "TwoQ", "WTinyLFU"),
)
QUICK = ("LRU", "Belady", "ARC", "LIRS", "MQ", "S3FIFO", "TwoQ", "WTinyLFU")
JOB_LIMIT_S = 300  # for one policy, one stream; LFUDA needs minutes where counts are equal
# Not run: LRB takes 0.1 ms a request, Size and BeladySize are for objects of many sizes.

GROUPS = ("pg", "oltp", "p", "cloud")
POOLED = [name for name, group in FOLDER.items() if group in GROUPS]

# If the best does not exceed LRU by this share of the reads, the ratio means nothing.
GAP_MIN = 0.005

NEVER = (1 << 62).to_bytes(8, "little")
WINDOWS = (32, 64, 128, 256, 512, 1024)


@dataclass(slots=True, kw_only=True)
class Played:
    """Miss ratios by stream and size, of one policy."""

    misses: dict[str, list[float]] = field(default_factory=dict)
    fills: dict[str, int] = field(default_factory=dict)  # of all sizes
    read_misses: dict[str, int] = field(default_factory=dict)
    ns: dict[str, list[float]] = field(default_factory=dict)


def sizes(stream: Stream) -> list[int]:
    """Whole sets, the same for every policy."""
    return [max(1, -(-round(stream.blocks * share) // WAYS)) * WAYS for share in SHARES]


def write_oracle(stream: Stream, path: Path) -> None:
    """Libcachesim's oracleGeneral: u32 time, u64 block, u32 size, i64 next read of the block."""
    reads = stream.reads()
    count = len(reads)
    low, high = (int.from_bytes(NEVER[at : at + 4], "little") for at in (0, 4))
    next_low = array("I", [low]) * count
    next_high = array("I", [high]) * count
    seen: dict[int, int] = {}
    for at in range(count - 1, -1, -1):
        block = reads[at]
        if block in seen:
            next_low[at] = seen[block]
            next_high[at] = 0
        seen[block] = at
    words = array("I", [0]) * (6 * count)
    words[0::6] = array("I", range(count))
    words[1::6] = reads
    words[3::6] = array("I", [1]) * count
    words[4::6] = next_low
    words[5::6] = next_high
    with path.open("wb") as file:
        words.tofile(file)


def run_theirs(python: Path, policy: str, path: Path, stream: Stream) -> list[float]:
    """Run a policy of libcachesim, or take its earlier result for the same stream."""
    known = KNOWN / f"{policy}-{hashlib.sha256(stream.requests).hexdigest()[:16]}.json"
    if known.exists():
        before: list[float] = json.loads(known.read_text())
        return before
    command = [str(python), str(HERE / "libcachesim_run.py"), policy, str(path)]
    command += [str(size) for size in sizes(stream)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_LIMIT_S, check=True)
    result: list[float] = json.loads(done.stdout.strip().splitlines()[-1].removeprefix("\x1b[0m"))
    known.write_text(json.dumps(result))
    return result


def run_ours(policy: str, folder: Path, stream: Stream, played: Played) -> None:
    played.misses[stream.name] = []
    played.ns[stream.name] = []
    fills = read_misses = 0
    for size in sizes(stream):
        result = replay(policy, folder, stream, size)
        played.misses[stream.name].append(result["read_misses"] / result["reads"])
        played.ns[stream.name].append(result["ns_per_request"])
        fills += result["fills"]
        read_misses += result["read_misses"]
    played.fills[stream.name] = fills
    played.read_misses[stream.name] = read_misses


def replay(policy: str, folder: Path, stream: Stream, size: int, *more: str) -> dict[str, Any]:
    command = [str(REPLAY), str(folder / f"{stream.name}.u32"), "--policy", policy]
    if stream.classes:
        command += ["--classes", str(folder / f"{stream.name}.cls")]
    command += ["--blocks", str(size), "--format", "json", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


# ---- what comes of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """How far a policy comes from LRU to the best."""

    lru: Played
    best: Played
    policy: Played

    def pooled(self, streams: list[str]) -> float | None:
        """Of all sizes of the streams together; None if one was not played."""
        won = gap = 0.0
        for name in streams:
            if name not in self.policy.misses:
                return None
            rows = zip(
                self.lru.misses[name],
                self.best.misses[name],
                self.policy.misses[name],
                strict=True,
            )
            for lru, best, own in rows:
                won += lru - own
                gap += lru - best
        return won / gap if gap else None

    def each(self, name: str) -> list[float | None]:
        """By size; None where the gap is negligible."""
        rows = zip(
            self.lru.misses[name], self.best.misses[name], self.policy.misses[name], strict=True
        )
        return [
            (lru - own) / (lru - best) if lru - best >= GAP_MIN else None for lru, best, own in rows
        ]

    def worst(self, streams: list[str]) -> tuple[float, str]:
        """Worst stream and size."""
        return min(
            (gap, f"{name} at {share:.0%}")
            for name in streams
            if name in self.policy.misses
            for gap, share in zip(self.each(name), SHARES, strict=True)
            if gap is not None
        )


def shown(number: float | None, form: str = ".3f") -> str:
    return "-" if number is None else format(number, form)


def main_table(played: dict[str, Played], made: list[str]) -> Table:
    table = Table(title="Part of the gap between LRU and the best possible that is closed")
    for column in ("policy", "pooled", "pg", "arc_oltp", "arc_p3,p12", "cloud", "made here"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    table.add_column("worst of the folder", justify="right")
    table.add_column("worst of all", justify="right")
    table.add_column("fills/miss", justify="right")
    table.add_column("ns", justify="right")

    lines = []
    for name, policy in played.items():
        if name in ("LRU", "Belady"):
            continue
        gaps = Gaps(lru=played["LRU"], best=played["Belady"], policy=policy)
        everything = [*policy.misses]
        lines.append((gaps.pooled(POOLED), name, gaps, everything))
    for pooled, name, gaps, everything in sorted(lines, key=lambda line: -(line[0] or -9)):
        groups = [
            gaps.pooled([stream for stream in POOLED if FOLDER[stream] == group])
            for group in GROUPS
        ]
        worst, where = gaps.worst([stream for stream in POOLED if stream in everything])
        worst_all, where_all = gaps.worst(everything)
        own = gaps.policy
        table.add_row(
            name,
            shown(pooled),
            *(shown(group) for group in groups),
            shown(gaps.pooled(made)),
            f"{worst:.2f} {where}",
            f"{worst_all:.2f} {where_all}",
            shown(fills_per_miss(own) if own.fills else None, ".2f"),
            shown(mean_ns(own) if own.ns else None, ".0f"),
        )
    return table


def fills_per_miss(own: Played) -> float:
    streams = [name for name in POOLED if FOLDER[name] == "pg"]
    return sum(own.fills[name] for name in streams) / sum(own.read_misses[name] for name in streams)


def mean_ns(own: Played) -> float:
    costs = [cost for name in POOLED for cost in own.ns[name]]
    return sum(costs) / len(costs)


def stream_table(played: dict[str, Played]) -> Table:
    table = Table(title="pgflash, stream by stream: gap closed (. = LRU is as good as the best)")
    table.add_column("stream")
    for share in SHARES:
        table.add_column(f"{share:.0%}", justify="right")
    for column in ("pooled", "fills/miss", "ns at most"):
        table.add_column(column, justify="right")
    own = played[OURS]
    gaps = Gaps(lru=played["LRU"], best=played["Belady"], policy=own)
    for name in own.misses:
        table.add_row(
            name,
            *("." if gap is None else f"{gap:.3f}" for gap in gaps.each(name)),
            shown(gaps.pooled([name])),
            f"{own.fills[name] / own.read_misses[name]:.2f}",
            f"{max(own.ns[name]):.0f}",
        )
    return table


def bars(played: dict[str, Played], made: list[str]) -> list[tuple[str, float, str, bool]]:
    own = Gaps(lru=played["LRU"], best=played["Belady"], policy=played[OURS])
    group = {
        name: own.pooled([stream for stream in POOLED if FOLDER[stream] == name]) or 0.0
        for name in GROUPS
    }
    others = {
        name: Gaps(lru=played["LRU"], best=played["Belady"], policy=policy)
        for name, policy in played.items()
        if name not in (OURS, "Belady")
    }
    best_other = max(gaps.pooled(POOLED) or 0.0 for gaps in others.values())
    best_made = max(gaps.pooled(made) or 0.0 for gaps in others.values())
    lines = [
        ("pooled on PostgreSQL's streams", group["pg"], ">=", 0.40),
        ("pooled on arc_oltp", group["oltp"], ">=", 0.19),
        ("pooled on arc_p3, arc_p12", group["p"], ">=", 0.24),
        ("worst stream and size of the folder", own.worst(POOLED)[0], ">=", -0.25),
        ("fills per read miss on PostgreSQL's streams", fills_per_miss(played[OURS]), "<=", 0.45),
        ("pooled, against the best of the others", own.pooled(POOLED) or 0.0, ">", best_other),
        ("pooled on the made streams, the same", own.pooled(made) or 0.0, ">", best_made),
        ("CPU of index and policy, ns a request", mean_ns(played[OURS]), "<=", 300.0),
    ]
    met = {
        ">=": lambda value, bar: value >= bar,
        "<=": lambda value, bar: value <= bar,
        ">": lambda value, bar: value > bar,
    }
    return [
        (what, value, f"{sign} {bar:.3g}", bool(met[sign](value, bar)))
        for what, value, sign, bar in lines
    ]


def bar_table(lines: list[tuple[str, float, str, bool]]) -> Table:
    table = Table(title="The bar")
    table.add_column("what")
    for column in ("pgflash", "bar", "met"):
        table.add_column(column, justify="right")
    for what, value, bar, met in lines:
        table.add_row(what, f"{value:.3g}", bar, "yes" if met else "NO")
    return table


def coalescing_table(folder: Path, streams: list[Stream]) -> Table:
    table = Table(title="Writes to flash saved by a window in which updates linger, cache of 10 %")
    table.add_column("stream")
    table.add_column("fills", justify="right")
    table.add_column("updates", justify="right")
    for window in WINDOWS:
        table.add_column(str(window), justify="right")
    table.add_column("1024, waiting again", justify="right")
    for stream in streams:
        log = folder / f"{stream.name}.writes"
        replay("gittins", folder, stream, sizes(stream)[2], "--slot-writes", str(log))
        writes = array("I")
        writes.frombytes(log.read_bytes())
        if not any(write >= UPDATE for write in writes):
            continue
        saved = [linger(writes, window, renew=False) for window in WINDOWS]
        saved.append(linger(writes, WINDOWS[-1], renew=True))
        table.add_row(
            stream.name,
            f"{saved[0].fills:,}",
            f"{saved[0].updates:,}",
            *(f"{one.of_updates:.1%} ({one.of_all:.1%})" for one in saved),
        )
    table.caption = "part of the updates saved (part of all writes to flash)"
    return table


# ---- the run


def prepare(folder: Path, traces: Path, names: list[str], progress: Progress) -> list[Stream]:
    streams = []
    for name in progress.track(names, description="streams"):
        stream = load(traces, name) if name in FOLDER else make(name)
        with (folder / f"{name}.u32").open("wb") as file:
            stream.requests.tofile(file)
        (folder / f"{name}.cls").write_bytes(stream.classes)
        write_oracle(stream, folder / f"{name}.bin")
        streams.append(stream)
    return streams


def play(
    options: argparse.Namespace, folder: Path, streams: list[Stream], progress: Progress
) -> tuple[dict[str, Played], list[str]]:
    theirs = QUICK if options.quick else THEIRS
    KNOWN.mkdir(parents=True, exist_ok=True)
    played = {name: Played() for name in (*theirs, OURS, LFU)}
    failed = []
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs: dict[Future[list[float]], tuple[str, str]] = {}
        for stream in sorted(streams, key=lambda stream: -len(stream.requests)):
            for name in theirs:
                job = pool.submit(
                    run_theirs, options.python, name, folder / f"{stream.name}.bin", stream
                )
                jobs[job] = (name, stream.name)
        for job in progress.track(as_completed(jobs), description="libcachesim", total=len(jobs)):
            name, stream_name = jobs[job]
            try:
                played[name].misses[stream_name] = job.result()
            except (subprocess.SubprocessError, ValueError, IndexError) as error:
                failed.append(f"{name} on {stream_name}: {type(error).__name__}")
    for stream in progress.track(streams, description="pgflash"):
        run_ours("gittins", folder, stream, played[OURS])
        run_ours("lfu", folder, stream, played[LFU])
    return played, failed


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder of the streams")
    parser.add_argument("--python", type=Path, required=True, help="one that has libcachesim")
    parser.add_argument("--quick", action="store_true", help="the best known policies only")
    parser.add_argument("--streams", nargs="*", help="these only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def main() -> int:
    options = parse()
    there = [name for name in FOLDER if (options.traces / f"{name}.u32.xz").exists()]
    if not set(POOLED) <= set(there) and not options.streams:
        print(
            f'compare: "{options.traces}" does not hold all streams of bench/policy/README.md;'
            " say where they are: make bench-policy TRACES=DIR",
            file=sys.stderr,
        )
        return 2
    names = options.streams or [*there, *RECIPES]
    made = [name for name in names if name in RECIPES]
    console = Console()
    with tempfile.TemporaryDirectory() as scratch, Progress(console=console) as progress:
        folder = Path(scratch)
        streams = prepare(folder, options.traces, names, progress)
        played, failed = play(options, folder, streams, progress)
        writers = [stream for stream in streams if FOLDER.get(stream.name) == "pg"]
        coalescing = coalescing_table(folder, writers)
    if options.streams:
        console.print(stream_table(played))
        return 0

    lines = bars(played, made)
    out = Console(record=True, width=180)
    for table in (main_table(played, made), bar_table(lines), stream_table(played), coalescing):
        out.print(table)
    for line in failed:
        out.print(f"did not finish: {line}", highlight=False)
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "policy.txt").write_text(out.export_text())
        misses = {name: policy.misses for name, policy in played.items()}
        result = {
            "shares": SHARES,
            "miss_ratio": misses,
            "bar": [
                {"what": what, "value": value, "bar": bar, "met": met}
                for what, value, bar, met in lines
            ],
        }
        (RESULTS / "policy.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(met for *_, met in lines) else 1


if __name__ == "__main__":
    raise SystemExit(main())
