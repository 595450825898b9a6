# SPDX-License-Identifier: PostgreSQL
"""Hit ratio and throughput after a restart under load; see restart.py."""

import re
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from psycopg import Connection
from restart_rig import (
    BLOCK,
    MB,
    ROWS_PER_BLOCK,
    RestartBenchError,
    Size,
    connected,
    expect,
    made_server,
    make_table,
    one_value,
    scratch,
    warm,
)
from rich.table import Table

from pgflash_lab.account import make_server_dir, server_account
from pgflash_lab.emulator import DeviceProfile, EmulatedDevice, Emulator
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server

RECOVERED = 0.9
CLIENTS = 16
READS_PER_UPDATE = 19
SHOWN_SECONDS = [*range(1, 11), 12, 15, 20, 25, 30, 40, 50, 60, 75, 90, 120]


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """The figures of one second."""

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
        """Return the figures of each of the next seconds; only once for each load."""
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
        # The clients count their seconds from when they are connected.
        end = time.monotonic() + 5
        while len(tps := self._progress()) < seconds and time.monotonic() < end:
            time.sleep(0.05)
        if len(tps) < seconds:
            raise RestartBenchError(f"the load ended early: {self._output.read_text()[-2000:]}")
        return [
            Second(tps=one, hit_ratio=ratio)
            for one, ratio in zip(tps[:seconds], ratios, strict=True)
        ]

    def _progress(self) -> list[float]:
        """Return the transactions of each second so far."""
        lines = re.findall(r"^progress: .* ([0-9.]+) tps,", self._output.read_text(), re.MULTILINE)
        return [float(tps) for tps in lines]

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
        """Shut down, and remove the cache file."""
        self.server.stop()
        self.cache_file.unlink()

    def measure(
        self, go_down: Callable[[], None], reason: str, before_s: int, after_s: int
    ) -> dict[str, Any]:
        """Stop under load and restart."""
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
