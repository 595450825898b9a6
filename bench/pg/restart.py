"""What a restart costs with pgflash, and what a warm one is worth.

Starts: the time from the command to "ready to accept connections", with a cache of 100 GB
less that of the same server without pgflash, in turn; the data in memory, the cache file
on the machine's own disk.  Bar: 0.1 s.  A disk without the room gets the 100 GB by
sparse.c (a file with holes), and beside it stands a cache as large as was room for, its
space reserved.  Likewise what pgflash adds to a shutdown, which saves the map.

Recovery: a read-mostly load on emulated devices (an eight-disk array, an NVMe drive) of a
table 16 times shared_buffers, before and after a clean restart, a crash (kill -9 of the
postmaster), and a restart whose cache file was removed: throughput and hit ratio of each
second since the server was ready, and the seconds until throughput is at 90 % of what it
was before.

Prints the tables; a full run keeps them in bench/results/restart.txt and restart.json.
"""

import argparse
import json
import os
import re
import select
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from psycopg import Connection
from rich.console import Console
from rich.table import Table

from pgflash.errors import PgflashError
from pgflash.lab.emulator import DeviceProfile, EmulatedDevice, Emulator
from pgflash.lab.postgres import PgInstall
from pgflash.lab.server import Server, make_server_dir, server_account
from support.cluster import build_install, find_install, forget_memory

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
SPARSE = HERE / "build" / "libsparse.so"
#: A real disk, for the large cache files.
DISK = Path("/var/tmp")
MEMORY = Path("/dev/shm")
BLOCK = 8192
MB = 1 << 20
GB = 1 << 30

BAR_S = 0.1
RECOVERED = 0.9
WARM_SHARE = 0.97

CLIENTS = 16
ROWS_PER_BLOCK = 6
READS_PER_UPDATE = 19
SHOWN_SECONDS = [*range(1, 11), 12, 15, 20, 25, 30, 40, 50, 60, 75, 90, 120]

SETTINGS = {
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "log_line_prefix": "%n ",
    "jit": "off",
}


class RestartBenchError(PgflashError):
    """A restart went another way than the one that was to be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of everything."""

    geometry_gb: int
    rounds: int
    mapped_mb: int
    loaded_mb: int
    before_s: int
    warm_s: int
    cold_s: int


FULL = Size(
    geometry_gb=100, rounds=7, mapped_mb=512, loaded_mb=512, before_s=10, warm_s=20, cold_s=90
)
QUICK = Size(geometry_gb=100, rounds=2, mapped_mb=64, loaded_mb=64, before_s=4, warm_s=6, cold_s=12)


# ---- both parts ----------------------------------------------------------------------


def make_table(connection: Connection[Any], megabytes: int) -> None:
    """Make the table `item`, with room for an update in each block."""
    rows = megabytes * MB // BLOCK * ROWS_PER_BLOCK
    with connection.transaction():
        connection.execute("create table item (i int, v int, pad text) with (fillfactor = 85)")
        connection.execute("alter table item alter pad set storage plain")
        connection.execute(
            f"insert into item select i, 0, repeat('x', 1000) from generate_series(1, {rows}) i"
        )
    connection.execute("alter table item add primary key (i)")
    connection.execute("vacuum (freeze, analyze) item")
    connection.execute("create extension pgflash")
    connection.execute("checkpoint")


def warm(connection: Connection[Any]) -> None:
    """Read all blocks in no order, as scans do not fill, until they are on flash."""
    for _ in range(8):
        row = connection.execute(
            "select pg_relation_size('item') / 8192, coalesce(sum(cached_blocks), 0)"
            " from pgflash_relations where relation = 'item'::regclass and fork = 'main'"
        ).fetchone()
        assert row is not None
        blocks, cached = int(row[0]), int(row[1])
        if cached >= WARM_SHARE * blocks:
            return
        connection.execute(
            f"do $$ begin for n in 0..{blocks - 1} loop perform 1 from item"
            f" where ctid = format('(%s,1)', n::bigint * 7919 % {blocks})::tid;"
            " end loop; end $$"
        )
        time.sleep(1)  # what is on its way to flash arrives
    raise RestartBenchError("the table does not come to flash")


def one_value(connection: Connection[Any], what: str) -> Any:  # noqa: ANN401
    """Return a column of pgflash_cache."""
    row = connection.execute(f"select {what} from pgflash_cache").fetchone()
    assert row is not None
    return row[0]


def expect(connection: Connection[Any], reason: str) -> None:
    """Fail unless the cache started as it was to."""
    found = str(one_value(connection, "start_reason"))
    if not found.startswith(reason):
        raise RestartBenchError(f'the cache is "{found}", not "{reason}"')


@contextmanager
def connected(server: Server) -> Iterator[Connection[Any]]:
    with server.connect() as connection:
        connection.autocommit = True
        yield connection


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder in memory that the server's user can enter."""
    with tempfile.TemporaryDirectory(prefix="pgflash-bench-", dir=MEMORY) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def made_server(install: PgInstall, folder: Path) -> Iterator[Server]:
    """Give a server that leaves nothing behind."""
    server = Server.create(install, folder / "server", settings=SETTINGS)
    try:
        with server:
            yield server
    finally:
        forget_memory(server.data)


# ---- starts ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """A size of the cache file, and how it came to it."""

    gigabytes: int
    sparse: bool

    @property
    def title(self) -> str:
        """Return what the table calls it."""
        return f"{self.gigabytes} GB, " + ("sparse (sparse.c)" if self.sparse else "reserved")

    @property
    def env(self) -> dict[str, str]:
        """Return what the server needs for it."""
        return {"LD_PRELOAD": str(SPARSE)} if self.sparse else {}


def geometries(size: Size) -> list[Geometry]:
    """Return the size asked for, and if that is not to be had, also what is."""
    room_gb = shutil.disk_usage(DISK).free // GB
    wanted = size.geometry_gb
    if room_gb > wanted + 10:
        return [Geometry(gigabytes=wanted, sparse=False)]
    # Half of what is free: others want to live, too.
    return [
        Geometry(gigabytes=wanted, sparse=True),
        Geometry(gigabytes=max(1, room_gb // 2), sparse=False),
    ]


@dataclass(slots=True, kw_only=True)
class Starts:
    """One server that is started with pgflash and without, and what that took."""

    server: Server
    geometry: Geometry
    folder: Path
    seconds: dict[str, list[float]]

    def start(self, what: str, cache: str, env: Mapping[str, str] | None = None) -> None:
        """Start with this cache file, or without pgflash; note how long it took."""
        self.server.configure(
            {
                "shared_preload_libraries": "pgflash" if cache else None,
                "pgflash.cache_file": str(self.folder / cache) if cache else None,
                "pgflash.cache_size": f"{self.geometry.gigabytes}GB" if cache else None,
            }
        )
        began = time.time()
        self.server.start({**self.geometry.env, **(env or {})})
        ready = re.search(
            r"^([0-9.]+) .*ready to accept connections",
            self.server.log_text(since_start=True),
            re.MULTILINE,
        )
        assert ready is not None
        self.note(what, float(ready[1]) - began)

    def stop(self, what: str) -> None:
        """Shut down; note how long it took."""
        pid = self.server.postmaster_pid
        assert pid is not None
        gone = os.pidfd_open(pid)
        began = time.monotonic()
        os.kill(pid, signal.SIGINT)
        select.select([gone], [], [], 60)
        self.note(what, time.monotonic() - began)
        os.close(gone)
        self.server.stop()

    def note(self, what: str, seconds: float) -> None:
        """Remember what took how long."""
        self.seconds.setdefault(what, []).append(seconds)

    def expect(self, reason: str) -> None:
        """Fail unless the cache started as it was to."""
        with connected(self.server) as connection:
            expect(connection, reason)

    def await_blocks(self, blocks: int) -> None:
        """Wait until so many blocks of the map are taken in."""
        with connected(self.server) as connection:
            end = time.monotonic() + 60
            while int(one_value(connection, "used_slots")) < blocks:
                if time.monotonic() > end:
                    raise RestartBenchError("the map is not taken in")
                time.sleep(0.005)

    def fill(self, emulator: Emulator) -> int:
        """Make the cache file and bring a table to it; return the blocks there."""
        preloads = [*self.geometry.env.values(), emulator.env["LD_PRELOAD"]]
        self.start("", "cache", {**emulator.env, "LD_PRELOAD": ":".join(preloads)})
        with connected(self.server) as connection:
            if connection.execute("select to_regclass('item')").fetchone() == (None,):
                raise RestartBenchError("there is no table")
            warm(connection)
            used = int(one_value(connection, "used_slots"))
        self.stop("")
        return used

    def round(self, blocks: int) -> None:
        """Do all kinds of starts once, a cache's beside a bare server's."""
        self.start("bare", "")
        self.server.kill_postmaster()
        self.start("bare, crashed", "")
        self.stop("bare, stop")

        (self.folder / "first").unlink(missing_ok=True)
        self.start("first", "first")
        self.expect("cold: there was no earlier cache")
        self.stop("empty, stop")

        self.start("map", "cache")
        began = time.monotonic()
        self.expect("warm: from the map")
        # Some files change between any two lives.
        self.await_blocks(int(WARM_SHARE * blocks))
        self.note("map taken in", time.monotonic() - began)
        self.server.kill_postmaster()

        self.start("memory", "cache")
        self.expect("warm: its memory")
        self.stop("map, stop")


def measure_starts(install: PgInstall, size: Size, geometry: Geometry) -> dict[str, Any]:
    account = server_account()
    with (
        scratch() as folder,
        tempfile.TemporaryDirectory(prefix="pgflash-bench-", dir=DISK) as disk,
        made_server(install, folder) as server,
        # Off: it only hides the page cache, so that all reads are looked up.
        Emulator.create(
            folder / "state",
            devices=[
                EmulatedDevice(
                    name="disk", profile=DeviceProfile.named("nvme"), paths=(server.data,)
                )
            ],
            owner=account.uid if account else None,
            delays_on=False,
        ) as emulator,
    ):
        Path(disk).chmod(0o755)
        starts = Starts(
            server=server,
            geometry=geometry,
            folder=make_server_dir(Path(disk) / "flash"),
            seconds={},
        )
        server.start()
        with connected(server) as connection:
            make_table(connection, size.mapped_mb)
        server.stop()
        blocks = starts.fill(emulator)
        starts.seconds.clear()
        for _ in range(size.rounds):
            starts.round(blocks)
        return {"geometry": asdict(geometry), "blocks": blocks, "seconds": starts.seconds}


#: Row, what is measured, what it is compared with.
STARTS = [
    ("start, cache file made", "first", "bare"),
    ("start, map of {blocks} blocks", "map", "bare"),
    ("start after a crash, memory of {blocks} blocks", "memory", "bare, crashed"),
    ("shutdown, empty cache", "empty, stop", "bare, stop"),
    ("shutdown, map of {blocks} blocks", "map, stop", "bare, stop"),
]


def added(seconds: Mapping[str, Sequence[float]], what: str, base: str) -> float:
    return statistics.median(
        one - other for one, other in zip(seconds[what], seconds[base], strict=True)
    )


def starts_table(found: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("cache file", "", "without pgflash, s", "with, s", "added, s", f"bar {BAR_S:g} s")
    for one in found:
        seconds = one["seconds"]
        title = Geometry(**one["geometry"]).title
        for row, what, base in STARTS:
            more = added(seconds, what, base)
            verdict = "held" if more < BAR_S else "MISSED"
            table.add_row(
                title,
                row.format(blocks=f"{one['blocks']:,}"),
                f"{statistics.median(seconds[base]):.3f}",
                f"{statistics.median(seconds[what]):.3f}",
                f"{more:.3f}",
                "" if row.startswith("shutdown") else verdict,
            )
            title = ""
        table.add_row(
            "",
            "until the map is taken in, serving meanwhile",
            "",
            f"{statistics.median(seconds['map taken in']):.3f}",
            end_section=True,
        )
    return table


# ---- recovery --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """What one second brought."""

    tps: float
    hit_ratio: float


class Load:
    """Clients that read, and update now and then, until they are ended or disconnected."""

    def __init__(self, server: Server, folder: Path, rows: int) -> None:
        """Start the clients."""
        self._server = server
        self._output = folder / "pgbench.log"
        statement = "select v from item where i = :id;"
        update = "update item set v = v + 1 where i = :id;"
        scripts = []
        for name, text, weight in (("read", statement, READS_PER_UPDATE), ("write", update, 1)):
            script = folder / f"{name}.sql"
            script.write_text(f"\\set id random(1, {rows})\n{text}\n")
            script.chmod(0o644)
            scripts += ["-f", f"{script}@{weight}"]
        with self._output.open("w") as output:
            self._clients = server.popen(
                ["pgbench", "-n", "-Mprepared", f"-c{CLIENTS}", "-j1", "-T600", "-P1", *scripts],
                stdout=subprocess.DEVNULL,
                stderr=output,
            )

    def watch(self, seconds: int) -> list[Second]:
        """Return what each of the next seconds brings; only once for each load."""
        began = time.monotonic()
        ratios = []
        with connected(self._server) as connection:
            before = self._look_ups(connection)
            for number in range(1, seconds + 1):
                time.sleep(max(0, began + number - time.monotonic()))
                now = self._look_ups(connection)
                hits, all_of_it = now[0] - before[0], now[1] - before[1]
                ratios.append(hits / all_of_it if all_of_it else 0.0)
                before = now
        time.sleep(0.5)  # the last line is being written
        tps = re.findall(r"^progress: .* ([0-9.]+) tps", self._output.read_text(), re.MULTILINE)
        if len(tps) < seconds:
            raise RestartBenchError(f"the load ended early: {self._output.read_text()[-2000:]}")
        return [
            Second(tps=float(one), hit_ratio=ratio)
            for one, ratio in zip(tps[:seconds], ratios, strict=True)
        ]

    @staticmethod
    def _look_ups(connection: Connection[Any]) -> tuple[int, int]:
        row = connection.execute("select hits, hits + misses from pgflash_cache").fetchone()
        assert row is not None
        return int(row[0]), int(row[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._clients.terminate()
        self._clients.wait()


@dataclass(slots=True, kw_only=True)
class Recovery:
    """One server on emulated devices, its load, and its cache file."""

    server: Server
    emulator: Emulator
    folder: Path
    cache_file: Path
    rows: int

    def crash(self) -> None:
        """Kill the postmaster."""
        self.server.kill_postmaster()

    def stop(self) -> None:
        """Shut down."""
        self.server.stop()

    def stop_and_remove(self) -> None:
        """Shut down, and forget what was cached."""
        self.server.stop()
        self.cache_file.unlink()

    def measure(
        self, go_down: Callable[[], None], reason: str, before_s: int, after_s: int
    ) -> dict[str, Any]:
        """Go down under load and come back."""
        with connected(self.server) as connection:
            connection.execute("checkpoint")
        with Load(self.server, self.folder, self.rows) as load:
            before = load.watch(before_s)
            began = time.monotonic()
            go_down()
            down_s = time.monotonic() - began
        began = time.monotonic()
        self.server.start(self.emulator.env)
        up_s = time.monotonic() - began
        with Load(self.server, self.folder, self.rows) as load:
            after = load.watch(after_s)
        with connected(self.server) as connection:
            expect(connection, reason)
            kept, dropped = (
                one_value(connection, "files_kept"),
                one_value(connection, "files_dropped"),
            )
        # The first seconds fill shared_buffers.
        steady = before[len(before) // 2 :]
        return {
            "tps_before": statistics.mean(second.tps for second in steady),
            "hit_ratio_before": statistics.mean(second.hit_ratio for second in steady),
            "down_s": down_s,
            "up_s": up_s,
            "files_kept": kept,
            "files_dropped": dropped,
            "seconds": [asdict(second) for second in after],
        }


def measure_recovery(install: PgInstall, size: Size) -> dict[str, Any]:
    account = server_account()
    with scratch() as folder, made_server(install, folder) as server:
        flash = make_server_dir(folder / "flash")
        with Emulator.create(
            folder / "state",
            devices=[
                EmulatedDevice(
                    name="disk",
                    profile=DeviceProfile.named("sas15k-raid10-8"),
                    paths=(server.data,),
                ),
                EmulatedDevice(name="flash", profile=DeviceProfile.named("nvme"), paths=(flash,)),
            ],
            owner=account.uid if account else None,
            delays_on=False,
        ) as emulator:
            server.configure(
                {
                    "shared_buffers": f"{size.loaded_mb // 16}MB",
                    "shared_preload_libraries": "pgflash",
                    "pgflash.cache_file": str(flash / "cache"),
                    "pgflash.cache_size": f"{2 * size.loaded_mb}MB",
                }
            )
            server.start(emulator.env)
            with connected(server) as connection:
                make_table(connection, size.loaded_mb)
                warm(connection)
            emulator.on()
            recovery = Recovery(
                server=server,
                emulator=emulator,
                folder=folder,
                cache_file=flash / "cache",
                rows=size.loaded_mb * MB // BLOCK * ROWS_PER_BLOCK,
            )
            return {
                "clean, warm": recovery.measure(
                    recovery.stop, "warm: from the map", size.before_s, size.warm_s
                ),
                "crash, warm": recovery.measure(
                    recovery.crash, "warm: its memory", size.before_s, size.warm_s
                ),
                "clean, cold": recovery.measure(
                    recovery.stop_and_remove, "cold: there was no", size.before_s, size.cold_s
                ),
            }


def recovered_after(found: Mapping[str, Any]) -> int | None:
    """Return the first second from which on three have 90 % of the throughput before."""
    tps = [second["tps"] for second in found["seconds"]]
    for number in range(len(tps) - 2):
        if statistics.mean(tps[number : number + 3]) >= RECOVERED * found["tps_before"]:
            return number + 1
    return None


def recovery_table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(
        "restart",
        "stopped, s",
        "started, s",
        "tps before",
        "hit ratio before",
        "in second 1",
        "in seconds 1-10",
        "tps in second 1",
        "90 % of tps in second",
        "files kept / dropped",
    )
    for name, found in results.items():
        first = found["seconds"][:10]
        second = recovered_after(found)
        table.add_row(
            name,
            f"{found['down_s']:.2f}",
            f"{found['up_s']:.2f}",
            f"{found['tps_before']:.0f}",
            f"{found['hit_ratio_before']:.1%}",
            f"{first[0]['hit_ratio']:.1%}",
            f"{statistics.mean(one['hit_ratio'] for one in first):.1%}",
            f"{first[0]['tps']:.0f}",
            str(second) if second else f"> {len(found['seconds'])}",
            f"{found['files_kept']} / {found['files_dropped']}",
        )
    return table


def seconds_table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table("second", *(f"{name}: tps (hits)" for name in results))
    longest = max(len(found["seconds"]) for found in results.values())
    for number in SHOWN_SECONDS:
        if number > longest:
            break
        cells = []
        for found in results.values():
            seconds = found["seconds"]
            one = seconds[number - 1] if number <= len(seconds) else None
            cells.append(f"{one['tps']:.0f} ({one['hit_ratio']:.0%})" if one else "")
        table.add_row(str(number), *cells)
    return table


# ---- all of it --------------------------------------------------------------------------


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--major", type=int, default=18)
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    install = build_install(find_install(options.major))
    console = Console(width=150, record=True)

    starts = [measure_starts(install, size, geometry) for geometry in geometries(size)]
    console.print(f"PostgreSQL {install.version}. Starts and shutdowns, medians of {size.rounds}:")
    console.print(starts_table(starts))

    recovery = measure_recovery(install, size)
    console.print(
        f"{CLIENTS} clients, {READS_PER_UPDATE} reads to an update, {size.loaded_mb} MB of data,"
        f" {size.loaded_mb // 16} MB shared_buffers; emulated sas15k-raid10-8 and nvme:"
    )
    console.print(recovery_table(recovery))
    console.print(seconds_table(recovery))
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "restart.txt").write_text(console.export_text())
        (RESULTS / "restart.json").write_text(
            json.dumps(
                {
                    "postgres": install.version,
                    "size": asdict(size),
                    "starts": starts,
                    "recovery": recovery,
                },
                indent=1,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
