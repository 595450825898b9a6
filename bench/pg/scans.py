# SPDX-License-Identifier: PostgreSQL
"""The speed of a scan of cached blocks, beside the speed of the device.

On each device, for each PostgreSQL major, in rounds:

- cached scan: the table's blocks come from the cache file;
- plain 8 kB: a program (`readers.c`) reads 8 kB pieces at random from a file on the same
  device with O_DIRECT, with as many at once and as many processes as the scan: the device gets the
  same requests from the scan.  The bar is 80 % of it;
- kept full: the same, but each finished read is replaced at once.  A process that has to wait for
  its run, as io workers and backends do, cannot request that much;
- direct scan: PostgreSQL itself, without pgflash, scans a table that is on the device,
  with `debug_io_direct` (16 and later), in runs of 128 kB of neighbouring blocks (`--run-kb`);
- plain 128 kB: the program does that; the ratio of these two is the share of a device's speed that
  PostgreSQL's own path through io workers, buffers and executor leaves;
- page cache: the same scan without a device: the executor's limit.

Beside the speeds is the CPU time of all processes for a block.  If the machine's processors are
busy, they are what is compared: plain reads have no executor.

Prints the tables, and keeps them in bench/results (scans.txt, scans.json) unless told to be quick
or to read other runs than usual.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from psycopg import Connection
from reads_rig import BLOCK, MB, SETTINGS, Bench, cached_share, make_table, scan_mb_s, warm
from rich.console import Console
from rich.table import Table

from pgflash_lab.account import make_server_dir, server_account
from pgflash_lab.emulator import DeviceProfile, EmulatedDevice, Emulator
from pgflash_lab.leftovers import forget_memory
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import build_install, find_install

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
MEMORY = Path("/dev/shm")
TICKS = os.sysconf("SC_CLK_TCK")

#: What PostgreSQL reads at once, and how many processes do it: io_combine_limit and
#: io_workers of 18; older servers read in the backend, those before 17 block by block.
IO_WORKERS = 3
RUN_BLOCKS = 16
#: A process of pgflash has so many reads under way at most.
DEPTH_MAX = 32

#: The cache's size in tables.  A cache in use is full; with more than this full, a set
#: overflows and blocks of the table are missing.
CACHE_TABLES = 1.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The amount of everything."""

    table_mb: int
    rounds: int
    scans: int
    plain_s: int


FULL = Size(table_mb=192, rounds=5, scans=5, plain_s=1)
QUICK = Size(table_mb=160, rounds=1, scans=1, plain_s=1)


@dataclass(slots=True, kw_only=True)
class Figure:
    """Speeds, and the CPU time of a block."""

    mb_s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def result(self) -> dict[str, float]:
        """Return the medians."""
        return {"mb_s": statistics.median(self.mb_s), "cpu_us": statistics.median(self.cpu_us)}


Figures = defaultdict[str, Figure]


def cpu_seconds(server: Server) -> float:
    """Return the CPU time of the server's processes."""
    postmaster = int((server.data / "postmaster.pid").read_text().split()[0])
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended
        if int(fields[1]) == postmaster:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS


def note_scans(figure: Figure, bench: Bench, scan: Callable[[], float], size: Size) -> None:
    """Scan several times."""
    blocks = size.table_mb * MB // BLOCK
    before = cpu_seconds(bench.server)
    figure.mb_s.extend(scan() for _ in range(size.scans))
    figure.cpu_us.append((cpu_seconds(bench.server) - before) / size.scans / blocks * 1e6)


def cached_scan_mb_s(connection: Connection[Any]) -> float:
    """Return the speed of a cached scan; blocks in shared_buffers do not count."""

    def flash_bytes() -> int:
        row = connection.execute("select flash_read_bytes from pgflash_cache").fetchone()
        assert row is not None
        return int(row[0])

    before = flash_bytes()
    began = time.monotonic()
    connection.execute("select count(*) from warm").fetchone()
    seconds = time.monotonic() - began
    return (flash_bytes() - before) / 1e6 / seconds


def note_plain(
    figure: Figure, bench: Bench, *, size: int, depth: int, at_once: int, readers: int, seconds: int
) -> None:
    """Record the device's speed for plain reads of a file beside the cache file."""
    done = subprocess.run(
        [
            HERE / "build/readers",
            bench.cache_file.parent / "plain",
            *map(str, (size, depth, readers, seconds, at_once)),
        ],
        env=dict(bench.emulator.env),
        capture_output=True,
        text=True,
        check=True,
    )
    bytes_s, cpu_s = map(float, done.stdout.split())
    figure.mb_s.append(bytes_s / 1e6)
    figure.cpu_us.append(cpu_s / (bytes_s * seconds / BLOCK) * 1e6)


def runs_of(major: int, run_kb: int) -> dict[str, str]:
    """Return the settings for runs of a size; servers before 17 read block by block."""
    names = {"io_max_combine_limit": 18, "io_combine_limit": 17}
    return {name: f"{run_kb}kB" for name, since in names.items() if major >= since}


def measure(bench: Bench, major: int, size: Size, run_kb: int) -> dict[str, Any]:
    """Measure everything on one server and device."""
    figures: Figures = defaultdict(Figure)
    readers = IO_WORKERS if major >= 18 else 1
    depth = min(run_kb * 1024 // BLOCK, DEPTH_MAX) if major >= 17 else 1
    bench.server.configure(runs_of(major, run_kb))
    blocks = size.table_mb * MB // BLOCK
    table = ("on_flash", blocks)
    share = 1.0
    with bench.session() as connection:
        connection.execute("create extension if not exists pgflash")
        bench.emulator.off()
        make_table(connection, "warm", size.table_mb)
        connection.execute(f"create tablespace flash location '{bench.cache_file.parent}/space'")
        make_table(connection, "on_flash", size.table_mb, "flash")
        connection.execute("checkpoint")
    (bench.cache_file.parent / "plain").write_bytes(os.urandom(MB) * size.table_mb)
    os.sync()
    for _ in range(size.rounds):
        with bench.session(emulated=False) as connection:
            scan_mb_s(connection, "on_flash", blocks)  # it may not be in the page cache
            note_scans(figures["page_cache"], bench, partial(scan_mb_s, connection, *table), size)
        if major >= 16:
            with bench.session(settings={"debug_io_direct": "data"}) as connection:
                note_scans(figures["direct"], bench, partial(scan_mb_s, connection, *table), size)
        with bench.session(cache=True) as connection:
            warm(bench, connection, blocks)  # it is cold after a life without this cache file
        with bench.session(cache=True) as connection:
            note_scans(figures["cached"], bench, partial(cached_scan_mb_s, connection), size)
            share = min(share, cached_share(connection, blocks))
        for name, piece, in_flight, at_once in (
            ("plain_8k", BLOCK, depth, depth),
            ("kept_full", BLOCK, depth, 1),
            ("plain_run", run_kb * 1024, 1, 1),
        ):
            note_plain(
                figures[name],
                bench,
                size=piece,
                depth=in_flight,
                at_once=at_once,
                readers=readers,
                seconds=size.plain_s,
            )
    return {
        "cached_share": share,
        "depth": depth,
        "readers": readers,
        **{name: figure.result() for name, figure in figures.items()},
    }


@contextmanager
def rigged(
    install: PgInstall, device: str, cache_mb: int, *, disk: DeviceProfile | None = None
) -> Iterator[Bench]:
    """Yield a server whose cache file is on a device: a profile's name, or a folder.

    DISK is what its data is on; omitted, a small array.
    """
    account = server_account()
    real = "/" in device
    with (
        tempfile.TemporaryDirectory(prefix="pgflash-bench-", dir=MEMORY) as name,
        tempfile.TemporaryDirectory(prefix="pgflash-bench-", dir=device if real else MEMORY) as at,
    ):
        for folder in (name, at):
            Path(folder).chmod(0o755)
        flash = make_server_dir(Path(at) / "flash")
        make_server_dir(flash / "space")
        server = Server.create(install, Path(name) / "server", settings=SETTINGS)
        devices = [
            EmulatedDevice(
                name="disk",
                profile=disk or DeviceProfile.named("sas15k-raid10-6"),
                paths=(server.data,),
            )
        ]
        if not real:
            devices.append(
                EmulatedDevice(name="flash", profile=DeviceProfile.named(device), paths=(flash,))
            )
        try:
            with (
                server,
                Emulator.create(
                    Path(name) / "state",
                    devices=devices,
                    owner=account.uid if account else None,
                ) as emulator,
            ):
                yield Bench(
                    server=server,
                    emulator=emulator,
                    cache_file=flash / "cache",
                    cache_mb=cache_mb,
                )
        finally:
            forget_memory(server.data)


def name_of(device: str) -> str:
    return f"disk of {device}" if "/" in device else f"{device} (emulated)"


def figure_of(found: Mapping[str, Any], name: str, which: str, digits: int) -> str:
    return f"{found[name][which]:.{digits}f}" if name in found else "-"


def share_of(found: Mapping[str, Any], name: str, of: str) -> str:
    return f"{found[name]['mb_s'] / found[of]['mb_s']:.2f}" if name in found else "-"


def show(
    console: Console, results: Mapping[int, Mapping[str, Mapping[str, Any]]], run_kb: int
) -> None:
    speeds = Table(
        "PostgreSQL",
        "device",
        "cached scan",
        "plain 8 kB, depth",
        "share (bar 0.8)",
        "kept full",
        "direct scan",
        f"plain {run_kb} kB",
        "share",
        "page cache",
        title="MB/s",
    )
    costs = Table(
        "PostgreSQL",
        "device",
        "cached scan",
        "plain 8 kB",
        "direct scan",
        f"plain {run_kb} kB",
        "page cache",
        title="CPU time a block, us",
    )
    for major, devices in results.items():
        for device, found in devices.items():
            speeds.add_row(
                str(major),
                name_of(device),
                figure_of(found, "cached", "mb_s", 0),
                f"{figure_of(found, 'plain_8k', 'mb_s', 0)}, {found['depth']} x {found['readers']}",
                share_of(found, "cached", "plain_8k"),
                figure_of(found, "kept_full", "mb_s", 0),
                figure_of(found, "direct", "mb_s", 0),
                figure_of(found, "plain_run", "mb_s", 0),
                share_of(found, "direct", "plain_run"),
                figure_of(found, "page_cache", "mb_s", 0),
            )
            costs.add_row(
                str(major),
                name_of(device),
                *(
                    figure_of(found, name, "cpu_us", 1)
                    for name in ("cached", "plain_8k", "direct", "plain_run", "page_cache")
                ),
            )
            if found["cached_share"] < 1:
                console.print(f"{major}, {device}: {found['cached_share']:.2%} was cached")
    console.print(speeds)
    console.print(costs)


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--major", type=int, nargs="+", default=[18, 17, 15])
    parser.add_argument(
        "--device",
        nargs="+",
        default=["nvme", "sata-ssd", "/var/tmp"],
        help="profiles of emulated devices, and folders on real ones",
    )
    parser.add_argument(
        "--run-kb",
        type=int,
        default=RUN_BLOCKS * BLOCK // 1024,
        help="what PostgreSQL 17 and later read at once",
    )
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    results: dict[int, dict[str, dict[str, Any]]] = {}
    for major in options.major:
        install = build_install(find_install(major))
        for device in options.device:
            with rigged(install, device, int(CACHE_TABLES * size.table_mb)) as bench:
                found = measure(bench, major, size, options.run_kb)
            results.setdefault(major, {})[device] = found
            share = share_of(found, "cached", "plain_8k")
            print(f"PostgreSQL {major}, {name_of(device)}: {share} of plain reads", flush=True)
    console = Console(width=150, record=True)
    show(console, results, options.run_kb)
    if not options.quick and options.run_kb == parser.get_default("run_kb"):
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "scans.txt").write_text(console.export_text())
        (RESULTS / "scans.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
