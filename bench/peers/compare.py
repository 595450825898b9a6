# SPDX-License-Identifier: PostgreSQL
"""pgflash beside bcache and dm-cache: the same disk, flash, server, load and warm-up, in turns.

Each turn makes a new file system on the disk, alone or behind a cache of the kernel's, and a new
server on it; pgflash has a file system on the flash for its cache file.  All of the flash is the
cache's.  After the warm-up, three loads run, of 16 clients and rows chosen by Zipf's law:

    oltp    pgbench's TPC-B-like transaction
    reads   one row by its number
    scans   the same, while one more client scans another table again and again

The server is PostgreSQL 15, whose memory, page cache included, a control group limits.  Settings of
the peers, from their own documentation: see README.md here.

Needs root, and erases both devices.  Prints the table; FOLDER has that of the turns so far.
"""

import argparse
import contextlib
import io
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

import psycopg
from rich.console import Console
from rich.table import Table

from pgflash_lab.account import make_server_dir
from pgflash_lab.leftovers import forget_memory
from pgflash_lab.oltp.pgbench_log import read_logs
from pgflash_lab.pgbench import run_pgbench
from pgflash_lab.server import Server
from pgflash_lab.throttled import Group, ThrottleError, make_group, retry, run
from support.cluster import build_install, find_install

MB = 1 << 20
MAJOR = 15
CLIENTS = 16
THREADS = 2
#: Zipf's exponent.
SKEW = 1.1
SETTINGS = {
    "shared_buffers": "64MB",
    "max_connections": "30",
    "max_worker_processes": "16",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "max_parallel_workers_per_gather": "0",
    "autovacuum": "off",
    "jit": "off",
}

#: Zipf's law prefers small numbers: permute() scatters them over all blocks.
ROW = r"""\set drawn random_zipfian(1, 100000 * :scale, :skew)
\set aid 1 + permute(:drawn - 1, 100000 * :scale, 1)
"""
READ = ROW + "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
OLTP = (
    ROW
    + r"""\set bid random(1, :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
    VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""
)
LOADS = {"oltp": OLTP, "reads": READ, "scans": READ}
SCANNED = """
create table scanned as
    select n, repeat('x', 400) as pad from generate_series(1, {rows}) n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The amount of everything."""

    scale: int
    memory_mb: int
    scanned_mb: int
    warm_s: int
    settle_s: int
    measure_s: int


FULL = Size(scale=60, memory_mb=300, scanned_mb=256, warm_s=300, settle_s=20, measure_s=60)
QUICK = Size(scale=4, memory_mb=200, scanned_mb=20, warm_s=20, settle_s=5, measure_s=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The two block devices, which are erased."""

    disk: Path
    flash: Path

    def reads(self) -> int:
        """Return the number of reads from the disk so far."""
        return int(Path(f"/sys/class/block/{self.disk.name}/stat").read_text().split()[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one load of a turn measured."""

    cache: str
    load: str
    tps: float
    p50_ms: float
    p99_ms: float
    #: Of the disk.
    reads_s: float


def sectors(device: Path) -> int:
    """Return the size of a device in units of 512 bytes."""
    return int(Path(f"/sys/class/block/{device.name}/size").read_text())


def why_not(device: Path) -> str:
    """Say why a device may not be erased; empty if nobody has it.

    Not mounted, nor is a partition of it, and in no volume group, array or swap.
    """
    if not device.is_block_device():
        return "not a block device"
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        return os.strerror(error.errno or 0)
    return ""


# ---- the caches


@contextlib.contextmanager
def alone(devices: Devices) -> Iterator[Path]:
    """Yield the disk itself."""
    yield devices.disk


@contextlib.contextmanager
def bcache(devices: Devices) -> Iterator[Path]:
    """Yield the disk behind bcache."""
    run("modprobe", "bcache")
    for device in (devices.disk, devices.flash):
        run("wipefs", "--all", str(device))
    # It writes through unless told otherwise.
    run("make-bcache", "--bdev", str(devices.disk), "--cache", str(devices.flash))
    backing = Path(f"/sys/class/block/{devices.disk.name}/bcache")
    for device in (devices.flash, devices.disk):
        # udev may have been faster.
        with contextlib.suppress(OSError):
            Path("/sys/fs/bcache/register").write_text(str(device))
    retry(lambda: (backing / "cache").resolve(strict=True))
    whole_set = (backing / "cache").resolve()
    cached = Path("/dev") / (backing / "dev").resolve().name
    try:
        (backing / "sequential_cutoff").write_text("0")
        for name in ("congested_read_threshold_us", "congested_write_threshold_us"):
            (whole_set / name).write_text("0")
        yield cached
    finally:
        (backing / "stop").write_text("1")
        (whole_set / "stop").write_text("1")
        flash = Path(f"/sys/class/block/{devices.flash.name}/bcache")
        retry(lambda: require_gone(backing, flash))
        for device in (devices.disk, devices.flash):
            retry(lambda device=device: run("wipefs", "--all", str(device)))  # type: ignore[misc]


def require_gone(*paths: Path) -> None:
    """Raise if one is still there."""
    for path in paths:
        if path.exists():
            raise ThrottleError(f"{path} is still there")


@contextlib.contextmanager
def dm_cache(devices: Devices) -> Iterator[Path]:
    """Yield the disk behind dm-cache."""
    for module in ("dm-cache", "dm-cache-smq"):
        run("modprobe", module)
    block = 64  # sectors: the smallest
    origin, flash = sectors(devices.disk), sectors(devices.flash)
    # 4 MB and 16 bytes for each block.
    metadata = -(-(4 * MB + 16 * (flash // block)) // MB) * MB // 512
    with devices.flash.open("r+b") as file:
        file.write(bytes(4096))
    with contextlib.ExitStack() as undo:

        def create(name: str, table: str) -> Path:
            run("dmsetup", "create", f"pgflash-{name}", "--table", table)
            undo.callback(retry, lambda: run("dmsetup", "remove", f"pgflash-{name}"))
            minor = run("dmsetup", "info", "-c", "--noheadings", "-o", "minor", f"pgflash-{name}")
            return Path(f"/dev/dm-{minor}")  # with udev or without

        kept = create("metadata", f"0 {metadata} linear {devices.flash} 0")
        fast = create("fast", f"0 {flash - metadata} linear {devices.flash} {metadata}")
        yield create(
            "cached",
            f"0 {origin} cache {kept} {fast} {devices.disk} {block} 1 writethrough smq 0",
        )


CACHES: dict[str, Callable[[Devices], AbstractContextManager[Path]]] = {
    "none": alone,
    "pgflash": alone,
    "bcache": bcache,
    "dm-cache": dm_cache,
}


@contextlib.contextmanager
def file_system(device: Path, path: Path) -> Iterator[Path]:
    """Make a file system on a device and mount it."""
    path.mkdir()
    run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(device))
    run("mount", str(device), str(path))
    try:
        yield path
    finally:
        retry(lambda: run("umount", str(path)))


# ---- a turn


def make_database(server: Server, size: Size) -> None:
    """Make the database."""
    server.configure({"fsync": "off"})
    server.start()
    server.run(["createdb", "bench"])
    server.run(["pgbench", "-i", "-q", "-s", str(size.scale), "bench"])
    with server.connect("bench") as connection:
        connection.execute(SCANNED.format(rows=size.scanned_mb * MB // 8192 * 18).encode())
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")
    server.stop()
    server.configure({"fsync": None})


def pgbench(server: Server, text: str, size: Size, seconds: int) -> list[int]:
    """Run a load; return the times of its transactions in microseconds, the shortest first."""
    with tempfile.TemporaryDirectory(prefix="pgflash-bench-") as name:
        work = Path(name)
        script = work / "script.sql"
        script.write_text(text)
        command = [
            *(str(server.install.program("pgbench")), "--no-vacuum", "--progress=1"),
            *(f"--client={CLIENTS}", f"--jobs={THREADS}", f"--time={seconds}"),
            *("--protocol=prepared", "--max-tries=2", "--log", f"--log-prefix={work / 'log'}"),
            *(f"--define=scale={size.scale}", f"--define=skew={SKEW}", f"--file={script}"),
            server.conninfo("bench"),
        ]
        ended = run_pgbench(
            server.install, command, workdir=work, run_s=seconds, heard=lambda *_second: None
        )
        return sorted(read_logs(work / "log", ended.pid).latencies_us)


@contextlib.contextmanager
def scanning(server: Server) -> Iterator[None]:
    """Scan the other table again and again."""
    with server.connect("bench") as connection:

        def scan() -> None:
            with contextlib.suppress(psycopg.errors.QueryCanceled):
                while True:
                    connection.execute("select count(*) from scanned")

        thread = threading.Thread(target=scan)
        thread.start()
        try:
            yield
        finally:
            while thread.is_alive():  # between two scans there is nothing to cancel
                connection.cancel()
                thread.join(0.1)


def measure(cache: str, server: Server, devices: Devices, size: Size) -> list[Measured]:
    """Warm the cache up, then run each load."""
    found = []
    pgbench(server, READ, size, size.warm_s)
    for load, text in LOADS.items():
        beside = scanning(server) if load == "scans" else contextlib.nullcontext()
        with beside:
            pgbench(server, text, size, size.settle_s)
            before = devices.reads()
            times = pgbench(server, text, size, size.measure_s)
            reads = devices.reads() - before
        if not times:
            raise SystemExit("no transaction ended: this machine is too slow")
        found.append(
            Measured(
                cache=cache,
                load=load,
                tps=len(times) / size.measure_s,
                p50_ms=times[len(times) // 2] / 1000,
                p99_ms=times[len(times) * 99 // 100] / 1000,
                reads_s=reads / size.measure_s,
            )
        )
    return found


def turn(cache: str, devices: Devices, group: Group, size: Size) -> list[Measured]:
    """Run one turn; raise ThrottleError if there is no such cache here."""
    install = build_install(find_install(MAJOR))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pgflash-peers-")))
        folder.chmod(0o755)
        device = stack.enter_context(CACHES[cache](devices))
        disk = stack.enter_context(file_system(device, folder / "disk"))
        settings = {}
        if cache == "pgflash":
            flash = stack.enter_context(file_system(devices.flash, folder / "flash"))
            room = os.statvfs(flash)
            settings = {
                "shared_preload_libraries": "pgflash",
                "pgflash.cache_file": str(make_server_dir(flash / "own") / "cache"),
                "pgflash.cache_size": f"{room.f_bfree * room.f_frsize * 9 // 10 // MB}MB",
            }
        server = Server.create(install, disk / "server", settings=SETTINGS)
        stack.callback(forget_memory, server.data)
        with server:
            make_database(server, size)
            server.configure(settings)
            run("sync")
            Path("/proc/sys/vm/drop_caches").write_text("3")
            with group.entered():
                server.start()
            found = measure(cache, server, devices, size)
            server.stop()
        return found


def keep(folder: Path, size: Size, found: list[Measured], missing: dict[str, str]) -> str:
    """Store what the turns so far have measured; return the table.

    It has the means of the turns, beside no cache, and how far the turns are apart.
    """
    table = Table(
        *("load", "cache", "tps", "of none", "turns differ by"),
        *("p50, ms", "p99, ms", "reads of the disk/s"),
    )
    for load in LOADS:
        plain = mean(one.tps for one in found if (one.cache, one.load) == ("none", load))
        for cache in dict.fromkeys(one.cache for one in found):
            own = [one for one in found if (one.cache, one.load) == (cache, load)]
            tps = [one.tps for one in own]
            table.add_row(
                load,
                cache,
                f"{mean(tps):,.0f}",
                f"{mean(tps) / plain:.2f}",
                f"{max(tps) / min(tps):.2f}",
                f"{mean(one.p50_ms for one in own):.2f}",
                f"{mean(one.p99_ms for one in own):.2f}",
                f"{mean(one.reads_s for one in own):,.0f}",
            )
    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(table)
    for cache, why in missing.items():
        console.print(f"{cache} not run: {why}", highlight=False, soft_wrap=True)
    text = console.export_text()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.txt").write_text(text)
    kept = {"size": asdict(size), "missing": missing, "measured": [asdict(one) for one in found]}
    (folder / "peers.json").write_text(json.dumps(kept, indent=1) + "\n")
    return text


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--disk", type=Path, help="block device of the database")
    parser.add_argument("--flash", type=Path, help="block device of the cache")
    parser.add_argument("--erase", action="store_true", help="yes, erase both")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="FOLDER")
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    parser.add_argument("--build", action="store_true", help="build what it needs, and end")
    options = parser.parse_args()
    if options.build:
        build_install(find_install(MAJOR))
        return
    if options.disk is None or options.flash is None or not options.erase:
        parser.error("name two block devices, --disk and --flash, and say that they may be erased")
    devices = Devices(disk=options.disk.resolve(), flash=options.flash.resolve())
    for device in (devices.disk, devices.flash):
        if why := why_not(device):
            parser.error(f'"{device}" cannot be erased: {why}')
    size = QUICK if options.quick else FULL
    found: list[Measured] = []
    missing: dict[str, str] = {}
    table = ""
    try:
        group = make_group("pgflash-peers", only_memory=True)
    except ThrottleError as error:
        parser.error(str(error))
    try:
        group.limit_memory(size.memory_mb * MB)
        for cache in (*CACHES, *reversed(CACHES)):
            if cache in missing:
                continue
            print(f"{cache} ...", flush=True)
            try:
                found += turn(cache, devices, group, size)
            except ThrottleError as error:
                if CACHES[cache] is alone:
                    raise
                missing[cache] = str(error)
            table = keep(options.out, size, found, missing)
    finally:
        group.remove()
    print(table, end="")


if __name__ == "__main__":
    main()
