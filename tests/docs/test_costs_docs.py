# SPDX-License-Identifier: PostgreSQL
"""The figures of docs/guide/cost-and-gain.md are those in the benchmarks' stored results."""

import json
import re
import statistics
from pathlib import Path
from typing import Any

from pgflash.model.words import figure

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "bench" / "results"
PAGE = (REPOSITORY / "docs/guide/cost-and-gain.md").read_text()
ADVICE = (REPOSITORY / "docs/guide/advise.md").read_text()
#: The rows of its tables: the subject, and the rest.
ROWS = dict(re.findall(r"^\| ([^|]+) \| (.*) \|$", PAGE, re.M))


def kept(name: str) -> Any:  # noqa: ANN401 - as JSON has it
    return json.loads((RESULTS / name).read_text())


def found(pattern: str, name: str) -> str:
    """Return what a pattern's group finds in a stored table."""
    match = re.search(pattern, (RESULTS / name).read_text(), re.M)
    assert match is not None, pattern
    return match[1]


def test_what_it_costs_when_it_does_nothing() -> None:
    cost = kept("cost.json")
    added = cost["added_ns_per_call"]
    read = ROWS["a read call, added time"]
    assert f"{added['off']['pread']:.0f} ns off, {added['offline']['pread']:.0f} ns offline" in read
    for load, title in (("tpcb-like", "TPC-B-like"), ("select-only", "select-only")):
        row = ROWS[f"share of the server's CPU time, pgbench {title}"]
        assert f"{100 * cost[load]['share_of_cpu']:.2f} %" in row


def test_what_the_measuring_costs() -> None:
    alone = found(r"^alone .*read on (\d+),", "account.txt")
    shared = found(r"^shared .*read on (\d+),", "account.txt")
    assert ROWS["counting and timing a read"].startswith(f"{alone} ns; {shared} ns")
    at_ten = [statistics.median(rates["10"]) for rates in kept("sampler.json")["percent"].values()]
    row = ROWS["sampling 200 sessions ten times a second"]
    assert row.startswith(f"{min(at_ten):.2f} to {max(at_ten):.2f} % of a core")
    snapshot = found(r"^│ 10,000 +│ 200 +│ ([\d.]+)", "snapshots.txt")
    assert ROWS["a snapshot of a server with 10,000 relations"].startswith(f"{snapshot} ms")
    statement = ROWS["following a statement that looks up a row"]
    for protocol, words in (("prepared", "prepared"), ("simple", "by the simple protocol")):
        added = found(rf"^│ {protocol} +│ none, top .*\+([\d.]+)%", "statements.txt")
        assert f"{added} % " in statement
        assert words in statement
    for row in kept("live.json")["percent"]:
        if row["page"] == "/" and row["viewers"]:
            viewers = "one viewer, 8,000 relations" if row["viewers"] == 1 else "twenty viewers"
            share = f"{row['own'] + row['sessions']:.2f} % of a core"
            assert ROWS[f"`pgflash serve` with {viewers}"].startswith(share)


def test_what_the_cache_costs() -> None:
    for megabytes, title in ((1024, "1 GB"), (102400, "100 GB")):
        memory = found(rf"^ *{megabytes} MB +([\d.]+)", "memory.txt")
        assert ROWS[f"memory, {title} of cache"].startswith(f"{figure(float(memory))} MB |")
    listing = found(r"^seconds for the list +([\d.]+)", "list.txt")
    row = ROWS["a list of what is cached, 100 GB of cache"]
    assert row.startswith(f"{listing} s of CPU time")
    hit = found(r"^whole hit / plain pread +([\d.]+)", "core.txt")
    assert ROWS["a hit, compared with a read of the same bytes from memory"].startswith(hit)
    reads = kept("reads.json")["majors"]
    for major, title, name in (
        ("18", "a read that misses, median (emulated array)", "p50"),
        ("18", "a read that misses, 99th percentile", "p99"),
        ("15", "a read that misses on PostgreSQL 15, median (emulated array)", "p50"),
        ("15", "a read that misses on PostgreSQL 15, 99th percentile", "p99"),
    ):
        with_cache, without = (reads[major][f"miss_{name}_{one}_ms"] for one in ("with", "without"))
        assert ROWS[title].startswith(f"{with_cache:.2f} ms, without the cache {without:.2f} ms")
    single, bitmap = re.findall(
        r"^│ (?:misses, io_uring|the same, bitmap).*misses_without +│ ([\d.]+)",
        (RESULTS / "uring.txt").read_text(),
        re.M,
    )
    row = ROWS["reads that miss with `io_method = io_uring` (disk of `/var/tmp`)"]
    assert row.startswith(f"{single} of the speed without pgflash; bitmap scans {bitmap} |")
    ratios = {
        major: reads[major]["cold_scan_with_mb_s"] / reads[major]["cold_scan_without_mb_s"]
        for major in ("18", "15")
    }
    row = ROWS["scan of a table that is not cached"]
    assert row.startswith(f"{ratios['18']:.2f} of the speed without the cache; {ratios['15']:.2f} ")
    stalled = ROWS["slowest query while flash hangs for ten seconds"]
    assert stalled.startswith(f"{reads['18']['slowest_in_stall_ms']:.1f} ms")


def test_beside_other_caches() -> None:
    """The turns' means, of that without a cache."""
    tps: dict[tuple[str, str], list[float]] = {}
    for one in kept("peers.json")["measured"]:
        tps.setdefault((one["load"], one["cache"]), []).append(one["tps"])
    peers = (REPOSITORY / "bench/peers/README.md").read_text()
    told = dict(re.findall(r"^\| ([^|]+) \| (.*) \|$", peers, re.M))
    for load, title, words in (
        ("reads", "reads, by Zipf's law", "beside other caches, "),
        (
            "scans",
            "the same beside a scan of another table, over and over",
            "the same beside scans",
        ),
        ("oltp", "TPC-B-like", ""),
    ):
        plain = statistics.mean(tps[load, "none"])
        ours, bcache, dm_cache = (
            f"{statistics.mean(tps[load, cache]) / plain:.2f}"
            for cache in ("pgflash", "bcache", "dm-cache")
        )
        assert told[title] == f"{ours} | {bcache} | {dm_cache}"
        if words:
            (row,) = (row for subject, row in ROWS.items() if subject.startswith(words))
            assert row.startswith(f"{ours} times; bcache {bcache}, dm-cache {dm_cache} ")
    apart = [max(one) / min(one) for (_load, cache), one in tps.items() if cache == "dm-cache"]
    assert f"differ by {min(apart):.2f} to {max(apart):.2f}" in " ".join(peers.split())


def test_starts_and_shutdowns() -> None:
    start = kept("restart.json")["starts"][0]
    assert start["geometry"]["gigabytes"] == 100
    seconds = {name: statistics.median(times) for name, times in start["seconds"].items()}
    added = seconds["map"] - seconds["bare"]
    assert ROWS["added to the start, 100 GB of cache"].startswith(f"{added:.2f} s")
    added = seconds["map, stop"] - seconds["bare, stop"]
    row = ROWS["added to the shutdown, 100 GB of cache"]
    assert row.startswith(f"{added:.1f} s with {start['blocks']:,} cached blocks")


def test_restarts() -> None:
    lives = kept("restart.json")["recovery"]
    first = {
        name: f"{life['seconds'][0]['tps']:,.0f} transactions/s of {life['tps_before']:,.0f}"
        for name, life in lives.items()
    }
    cold = first["clean, cold"].replace(" transactions/s", "")
    assert (
        f"{first['clean, warm']}; cold: {cold}"
        in ROWS["second 1 after a clean restart, of the throughput before it"]
    )
    back = {name: found(rf"^│ {name} +│.*│ (\d+) +│ [\d/ ]+│$", "restart.txt") for name in lives}
    row = ROWS["until 90 % of the throughput before the restart is back"]
    assert row.startswith(f"second {back['clean, warm']}; cold: second {back['clean, cold']} ")
    assert ROWS["until 90 % is back after a crash"].startswith(f"second {back['crash, warm']} ")


def test_what_the_cache_gains() -> None:
    scans = kept("scans.json")
    shares = {
        major: scans[major]["nvme"]["cached"]["mb_s"] / scans[major]["nvme"]["plain_8k"]["mb_s"]
        for major in ("18", "15")
    }
    (row,) = (row for title, row in ROWS.items() if title.startswith("scan of a cached table"))
    assert f"{shares['18']:.2f} of their speed; on PostgreSQL 15, {shares['15']:.2f} times" in row
    policies = re.findall(r"^│ ([^│]+?) +│ +([\d.]+) │", (RESULTS / "policy.txt").read_text(), re.M)
    (best, ours), (_next, second) = policies[:2]
    assert best == "pgflash"
    (row,) = (row for title, row in ROWS.items() if title.startswith("share of the gap"))
    assert f"{ours}; the next best policy {second}" in row


def test_throughputs_are_those_of_the_advice_guide() -> None:
    measured = re.findall(r"^\|.*?\| ([^|]+) \| [\d.]+ \| ([\d.]+) \| ", ADVICE, re.M)
    known = set(measured)
    names = {
        "flash cache": "Flash cache",
        "WAL on flash": "WAL on flash",
        "WAL on flash and flash cache": r"WAL on flash \+ flash cache",
        "everything on flash": "Everything on flash",
        "flash cache twice `shared_buffers`": r"Flash cache, 2 times shared\_buffers",
        "flash cache ten times `shared_buffers`": r"Flash cache, 10 times shared\_buffers",
    }
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| ([\d.]+) \| `pgflash lab", PAGE, re.M)
    assert len(rows) == len(names)
    for title, ratio in rows:
        assert (names[title], ratio) in known, title
