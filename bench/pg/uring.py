# SPDX-License-Identifier: PostgreSQL
"""Reads by io_uring: cached scans, cached single blocks, and misses.

PostgreSQL 18 or later, built with liburing.  The device emulator does not see PostgreSQL's reads by
io_uring, so the files that are read are on a real disk: the cache file of the hits, the table of
the misses (whose cache file is in memory).  In rounds:

- cached scan: the table's blocks come from the cache file; beside it a program (`readers.c`) that
  reads 8 kB pieces with O_DIRECT, as many at once as a run has blocks.  The bar is 80 % of it;
- cached blocks: single blocks of that table, far apart, by io_uring and by `io_method = worker`:
  one by one, as an index scan reads them, and ahead of their use by a bitmap scan;
- misses: the same two on another table, read with `debug_io_direct`, with pgflash and without.
  The bar is 1.05 times the time without.

Prints the table, and keeps it in bench/results (uring.txt, uring.json).
"""

import argparse
import json
import os
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from psycopg import Connection
from reads_rig import BLOCK, MB, Bench, ReadsBenchError, cached_share, make_table, warm
from rich.console import Console
from rich.table import Table
from scans import (
    CACHE_TABLES,
    RESULTS,
    RUN_BLOCKS,
    Figure,
    Figures,
    cached_scan_mb_s,
    cpu_seconds,
    note_plain,
    note_scans,
    rigged,
)
from scans import FULL as FULL_SCANS
from scans import QUICK as QUICK_SCANS
from scans import Size as ScanSize

from pgflash_lab.account import make_server_dir
from support.cluster import build_install, find_install

URING = {"io_method": "io_uring"}
WORKER = {"io_method": "worker"}
#: The block read first, and the step to the next; no divisor in common with a table's blocks.
FIRST = 13
STEP = 7919


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The amount of everything."""

    scans: ScanSize
    reads: int
    misses: int
    #: Blocks of a bitmap scan.
    apart: int


FULL = Size(scans=FULL_SCANS, reads=8000, misses=2000, apart=2000)
QUICK = Size(scans=QUICK_SCANS, reads=400, misses=100, apart=100)


def note_reads(
    figure: Figure, bench: Bench, connection: Connection[Any], table: str, numbers: range
) -> None:
    """Read single blocks far apart, in one statement; note their speed and CPU time."""
    blocks = connection.execute(f"select pg_relation_size('{table}') / {BLOCK}").fetchone()
    assert blocks is not None
    before, began = cpu_seconds(bench.server), time.monotonic()
    connection.execute(
        f"do $$ begin for i in {numbers.start}..{numbers.stop - 1} loop perform 1 from {table}"
        f" where ctid = format('(%s,1)', (i::bigint * {STEP} + {FIRST}) % {blocks[0]})::tid;"
        " end loop; end $$"
    )
    seconds = time.monotonic() - began
    figure.mb_s.append(len(numbers) * BLOCK / 1e6 / seconds)
    figure.cpu_us.append((cpu_seconds(bench.server) - before) / len(numbers) * 1e6)


def note_bitmap(
    figure: Figure, bench: Bench, connection: Connection[Any], table: str, numbers: range
) -> None:
    """Read single blocks far apart by a bitmap scan; note their speed and CPU time."""
    connection.execute("set enable_seqscan = off; set enable_indexscan = off")
    before, began = cpu_seconds(bench.server), time.monotonic()
    found = connection.execute(
        f"select count(pad) from {table} where place_of(number)"
        f" between {numbers.start} and {numbers.stop - 1}"
    ).fetchone()
    seconds = time.monotonic() - began
    if found != (len(numbers),):
        raise ReadsBenchError(f"{found} blocks were read instead of {len(numbers)}")
    figure.mb_s.append(len(numbers) * BLOCK / 1e6 / seconds)
    figure.cpu_us.append((cpu_seconds(bench.server) - before) / len(numbers) * 1e6)


def make_apart(connection: Connection[Any], table: str, mb: int, space: str = "") -> None:
    """Make a table of one row a block, with an index in the order of `note_reads`."""
    blocks = make_table(connection, table, mb, space)
    connection.execute(
        "create or replace function place_of(number bigint) returns bigint immutable"
        f" return (number + {blocks - FIRST}) * {pow(STEP, -1, blocks)} % {blocks}"
    )
    connection.execute(f"create index on {table} (place_of(number))")


def await_serving(connection: Connection[Any]) -> None:
    """Wait until the self-test has passed."""
    end = time.monotonic() + 60
    while connection.execute("select mode from pgflash_cache").fetchone() != ("serve",):
        if time.monotonic() > end:
            raise ReadsBenchError("the cache does not serve")
        time.sleep(0.1)


def forget_pages(folder: Path) -> None:
    """Drop a folder's files from the page cache."""
    os.sync()
    for file in folder.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def measure_hits(bench: Bench, size: Size) -> dict[str, Any]:
    """Scan and read the blocks in the cache file on the disk, by both methods in turn."""
    figures: Figures = defaultdict(Figure)
    mb = size.scans.table_mb
    blocks = mb * MB // BLOCK
    with bench.session(settings=WORKER) as connection:
        connection.execute("create extension if not exists pgflash")
        bench.emulator.off()
        make_apart(connection, "warm", mb)
        connection.execute("checkpoint")
    with bench.session(cache=True, settings=WORKER) as connection:
        warm(bench, connection, blocks)
    # Delays off: io_uring would not meet them, and only the file that hits are read from counts.
    bench.emulator.off()
    (bench.cache_file.parent / "plain").write_bytes(os.urandom(MB) * mb)
    os.sync()
    share = 1.0
    for turn in range(size.scans.rounds):
        numbers = range(turn * size.reads, (turn + 1) * size.reads)
        # Blocks that the single reads have not brought into shared_buffers.
        first = numbers.stop % (blocks - size.apart)
        apart = range(first, first + size.apart)
        both = [("uring", URING), ("worker", WORKER)]
        for name, settings in both if turn % 2 == 0 else reversed(both):
            with bench.session(cache=True, settings=settings) as connection:
                await_serving(connection)
                connection.execute("set enable_indexonlyscan = off")
                scan = partial(cached_scan_mb_s, connection)
                note_scans(figures[f"scan_{name}"], bench, scan, size.scans)
                note_reads(figures[f"reads_{name}"], bench, connection, "warm", numbers)
                note_bitmap(figures[f"bitmap_{name}"], bench, connection, "warm", apart)
                share = min(share, cached_share(connection, blocks))
        note_plain(
            figures["plain"],
            bench,
            size=BLOCK,
            depth=RUN_BLOCKS,
            at_once=RUN_BLOCKS,
            readers=1,
            seconds=size.scans.plain_s,
        )
    return {"cached_share": share} | {name: figure.result() for name, figure in figures.items()}


def measure_misses(bench: Bench, size: Size, disk: Path) -> dict[str, Any]:
    """Read blocks that no cache holds from the disk, with pgflash and without in turn."""
    figures: Figures = defaultdict(Figure)
    with bench.session(settings=WORKER) as connection:
        connection.execute(f"create tablespace disk location '{disk}'")
        make_apart(connection, "cold", size.scans.table_mb, "disk")
        connection.execute("checkpoint")
    direct = URING | {"debug_io_direct": "data"}
    for turn in range(size.scans.rounds):
        numbers = range(turn * size.misses, (turn + 1) * size.misses)
        # Blocks that were not read before.
        first = size.scans.rounds * size.misses + turn * size.apart
        apart = range(first, first + size.apart)
        both = [("without", False), ("with", True)]
        for name, cache in both if turn % 2 == 0 else reversed(both):
            forget_pages(disk)
            with bench.session(cache=cache, emulated=False, settings=direct) as connection:
                if cache:
                    connection.execute("create extension if not exists pgflash")
                    await_serving(connection)
                note_reads(figures[f"misses_{name}"], bench, connection, "cold", numbers)
                note_bitmap(figures[f"bitmap_misses_{name}"], bench, connection, "cold", apart)
    return {name: figure.result() for name, figure in figures.items()}


def show(console: Console, found: dict[str, Any]) -> None:
    table = Table("what", "MB/s", "CPU a block, us", "beside", "ratio", "bar")
    for what, name, beside, bar in (
        ("cached scan, io_uring", "scan_uring", "plain", ">= 0.8"),
        ("cached scan, worker", "scan_worker", "plain", ""),
        ("cached blocks, io_uring", "reads_uring", "reads_worker", ">= 1"),
        ("the same, bitmap scan", "bitmap_uring", "bitmap_worker", ">= 1"),
        ("misses, io_uring, with pgflash", "misses_with", "misses_without", ">= 0.95"),
        ("the same, bitmap scan", "bitmap_misses_with", "bitmap_misses_without", ">= 0.95"),
    ):
        ours, other = found[name], found[beside]
        table.add_row(
            what,
            f"{ours['mb_s']:.1f}",
            f"{ours['cpu_us']:.1f}",
            f"{other['mb_s']:.1f} ({other['cpu_us']:.1f} us), {beside}",
            f"{ours['mb_s'] / other['mb_s']:.2f}",
            bar,
        )
    if found["cached_share"] < 1:
        console.print(f"{found['cached_share']:.2%} was cached")
    console.print(table)


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="18-uring", help="a name of tools/pg.py")
    parser.add_argument("--disk", default="/var/tmp", help="a folder on a real disk")
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    install = build_install(find_install(options.server), variant=options.server)
    cache_mb = int(CACHE_TABLES * size.scans.table_mb)
    with rigged(install, options.disk, cache_mb) as bench:
        found = measure_hits(bench, size)
    with tempfile.TemporaryDirectory(prefix="pgflash-bench-", dir=options.disk) as name:
        Path(name).chmod(0o755)
        with rigged(install, "nvme", cache_mb) as bench:
            found |= measure_misses(bench, size, make_server_dir(Path(name) / "space"))
    console = Console(width=130, record=True)
    show(console, found)
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "uring.txt").write_text(console.export_text())
        (RESULTS / "uring.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
