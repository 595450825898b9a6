# SPDX-License-Identifier: PostgreSQL
"""The lab's device emulator against the kernel: the same limit, the same server, the same load.

A volume of 500 reads a second, by the kernel (pgflash_lab/throttled.py) and by an emulated profile
of the same limit and no latency of its own, in turns: kernel, emulator, emulator, kernel.  Both
times the files are on the same loop device, and the server reads by direct I/O, so that the page
cache, which the emulator ignores, answers nothing.  1, 4 and 16 clients read single rows, chosen
evenly from a table of six times shared_buffers; pgflash is not loaded.

This holds the emulator's limit of requests against a real one; its positions, queues and streams
are held against arithmetic by its own tests (emulator/README.md, Calibration).

Needs root.  Prints the table, and keeps it in bench/results (emulated.txt, emulated.json).
"""

import argparse
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

from rich.console import Console
from rich.table import Table
from scans import RESULTS

from pgflash_lab.account import make_server_dir, server_account
from pgflash_lab.emulator import DeviceProfile, EmulatedDevice, Emulator
from pgflash_lab.oltp.pgbench_log import read_logs
from pgflash_lab.pgbench import run_pgbench
from pgflash_lab.server import Server
from pgflash_lab.throttled import ThrottleError, Volume, throttled_volume
from support.cluster import find_install

MB = 1 << 20
MAJOR = 17
READ_IOPS = 500
CLIENTS = (1, 4, 16)
TURNS = ("kernel", "emulator", "emulator", "kernel")
SETTINGS = {
    "shared_buffers": "32MB",
    "debug_io_direct": "data",
    "max_connections": "30",
    "autovacuum": "off",
    "jit": "off",
}
#: Rows of pgbench's accounts, 13 MB for each 100,000.
SCALE = 15
READ = r"""\set aid random(1, :rows)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
"""
#: The kernel counts reads in portions of 100 ms: so many pass at once (p99 shows it).
BURST = READ_IOPS // 10
PROFILE = DeviceProfile.from_mapping(
    "limit-alone",
    {
        "kind": "flash",
        "description": f"{READ_IOPS} reads a second and nothing else",
        "channels": 64,
        "stripe_kb": 64,
        "read_us": [0.0, 1.0],
        "write_us": [0.0, 1.0],
        "bandwidth_mb_s": 10000.0,
        "log_sync_ms": [0.0, 0.001],
        "limit": {"iops": READ_IOPS, "burst": BURST, "io_kb": 256},
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one turn measured."""

    kind: str
    clients: int
    tps: float
    p50_ms: float
    p99_ms: float
    #: Of the loop device, which the emulator's reads reach, too.
    reads_s: float


def load(volume: Volume, server: Server) -> None:
    """Make the database, without a limit."""
    server.start()
    server.run(["createdb", "bench"])
    server.run(["pgbench", "-i", "-q", "-s", str(SCALE), "bench"])
    server.stop()
    volume.mount_again()


def measure(volume: Volume, server: Server, kind: str, clients: int, seconds: int) -> Turn:
    """Run one turn, on a server whose buffers are full of the table."""
    volume.limit(read_iops=None)
    volume.mount_again()
    state = make_server_dir(server.base / "emulated") / "state"
    devices = [EmulatedDevice(name="volume", profile=PROFILE, paths=(server.data,))]
    account = server_account()
    owner = None if account is None else account.uid
    with (
        Emulator.create(state, devices=devices, owner=owner, delays_on=False) as emulator,
        tempfile.TemporaryDirectory(prefix="pgflash-bench-") as name,
    ):
        work = Path(name)
        script = work / "read.sql"
        script.write_text(READ)

        def pgbench(run_s: int) -> int:
            command = [
                *(str(server.install.program("pgbench")), "--no-vacuum", "--progress=1"),
                *(f"--client={clients}", "--jobs=2", f"--time={run_s}"),
                *("--protocol=prepared", "--max-tries=2", "--log", f"--log-prefix={work / 'log'}"),
                *(f"--define=rows={100_000 * SCALE}", f"--file={script}"),
                server.conninfo("bench"),
            ]
            ended = run_pgbench(
                server.install, command, workdir=work, run_s=run_s, heard=lambda *_second: None
            )
            return ended.pid

        with volume.entered():
            server.start(emulator.env if kind == "emulator" else None)
        pgbench(max(2, seconds // 6))
        if kind == "emulator":
            emulator.on()
        else:
            volume.limit(read_iops=READ_IOPS)
        before = volume.reads()
        pid = pgbench(seconds)
        reads = volume.reads() - before
        times = sorted(read_logs(work / "log", pid).latencies_us)
        server.stop()
    return Turn(
        kind=kind,
        clients=clients,
        tps=len(times) / seconds,
        p50_ms=times[len(times) // 2] / 1000,
        p99_ms=times[len(times) * 99 // 100] / 1000,
        reads_s=reads / seconds,
    )


def ratios(turns: list[Turn]) -> list[dict[str, float]]:
    """Return for each number of clients the emulator's means as parts of the kernel's."""
    found = []
    for clients in CLIENTS:
        of = {kind: [t for t in turns if (t.kind, t.clients) == (kind, clients)] for kind in TURNS}
        row: dict[str, float] = {"clients": clients}
        for name in ("tps", "reads_s"):
            emulator, kernel = (
                mean(getattr(turn, name) for turn in of[kind]) for kind in ("emulator", "kernel")
            )
            row[name] = emulator / kernel
        tps = [turn.tps for turn in of["kernel"]]
        row["noise"] = max(tps) / min(tps)
        found.append(row)
    return found


def show(console: Console, turns: list[Turn]) -> None:
    """Print the turns and their ratios."""
    table = Table("limited by", "clients", "tps", "p50, ms", "p99, ms", "reads/s")
    for turn in sorted(turns, key=lambda turn: (turn.clients, turn.kind)):
        figures = (turn.tps, turn.p50_ms, turn.p99_ms, turn.reads_s)
        table.add_row(turn.kind, str(turn.clients), *(f"{figure:,.1f}" for figure in figures))
    console.print(table)
    for row in ratios(turns):
        console.print(
            f"{row['clients']:2} clients: the emulator gives {row['tps']:.3f} of the kernel's "
            f"transactions and {row['reads_s']:.3f} of its reads. The kernel's turns differ by a "
            f"factor of {row['noise']:.3f}."
        )
    console.print(
        f"Latencies differ: the kernel lets {BURST} reads pass in each 100 ms and then none, "
        "the emulator lets one pass every 2 ms."
    )


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--quick", action="store_true", help="short, to see that it works")
    options = parser.parse_args()
    console = Console(width=120, record=True)
    install = find_install(MAJOR)
    turns: list[Turn] = []
    try:
        with throttled_volume(
            options.folder, size_bytes=1500 * MB, memory_bytes=1000 * MB
        ) as volume:
            server = Server.create(install, volume.path / "server", settings=SETTINGS)
            with server:
                load(volume, server)
                for clients in CLIENTS:
                    for kind in TURNS:
                        turns.append(
                            measure(volume, server, kind, clients, 5 if options.quick else 30)
                        )
    except ThrottleError as error:
        console.print(f"not run: {error}")
        return
    show(console, turns)
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "emulated.txt").write_text(console.export_text())
        (RESULTS / "emulated.json").write_text(
            json.dumps(
                {"turns": [asdict(turn) for turn in turns], "ratios": ratios(turns)}, indent=1
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
