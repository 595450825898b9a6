# SPDX-License-Identifier: PostgreSQL
"""The cost of pgflash for a server whose cache is off, per call and per transaction.

Two views of the same cost.  From below: nanoseconds that a hooked call adds (hooks.c,
with its null control) times the file calls of a transaction, as a share of the server
CPU of that transaction.  From above: server CPU per transaction with the library loaded
and without, in turn, with a stock server against itself as the null control.  The view
from above is as noisy as the machine; the one from below is not.

Writes bench/results/cost.json and prints the tables.
"""

import argparse
import json
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from pgflash_lab.account import make_server_dir, server_account
from pgflash_lab.emulator import DeviceProfile, EmulatedDevice, Emulator
from pgflash_lab.host import server_cpu
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"

SCALE = 10
CLIENTS = 2
TRANSACTIONS = 4000  # per client and round
ROUNDS = 5
SETTINGS = {
    "shared_buffers": "32MB",  # of 160 MB: most look-ups read a file
    "fsync": "off",
    "max_wal_size": "4GB",
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
}
#: With all off no hook is installed, so "offline" is the cost of hooks.
VARIANTS: dict[str, dict[str, str]] = {
    "stock": {},
    "stock again": {},
    "loaded, no cache file": {
        "shared_preload_libraries": "pgflash",
        "pgflash.advice": "off",
        "pgflash.account": "off",
    },
    "loaded, advice only": {"shared_preload_libraries": "pgflash", "pgflash.account": "off"},
    "loaded, accounting only": {"shared_preload_libraries": "pgflash", "pgflash.advice": "off"},
    "cache offline": {
        "shared_preload_libraries": "pgflash",
        "pgflash.cache_size": "64MB",
        "pgflash.account": "off",
    },
}
OFFLINE = "cache offline"


def pgbench(server: Server, *, builtin: str) -> tuple[int, float]:
    """Run one round; return its transactions and the server's CPU seconds."""
    pid = server.postmaster_pid
    assert pid is not None
    before = server_cpu(pid)
    done = server.run(
        ["pgbench", "-n", "-b", builtin, "-M", "prepared", f"-c{CLIENTS}", f"-t{TRANSACTIONS}"]
    )
    after = server_cpu(pid)
    found = re.search(r"actually processed: (\d+)", done.stdout)
    assert found is not None, done.stdout
    return int(found[1]), after.user_s - before.user_s + after.system_s - before.system_s


def start(server: Server, variant: str, cache_file: Path) -> None:
    """Start the server in a variant, with its cache offline if it has one."""
    none = dict.fromkeys(name for settings in VARIANTS.values() for name in settings)
    file = str(cache_file) if variant == OFFLINE else None
    server.configure({**none, "pgflash.cache_file": file, **VARIANTS[variant]})
    server.start()
    if variant == OFFLINE:
        with server.connect() as connection:
            connection.execute("create extension if not exists pgflash")
            connection.execute("select pgflash_cache_set_mode('offline')")


def cpu_per_transaction(
    server: Server, cache_file: Path, *, builtin: str
) -> dict[str, list[float]]:
    """Return microseconds of server CPU per transaction, per variant, round by round."""
    rounds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for number in track(range(ROUNDS), description=f"{builtin}: variants in turn"):
        names = list(VARIANTS)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            start(server, name, cache_file)
            pgbench(server, builtin=builtin)
            transactions, cpu_s = pgbench(server, builtin=builtin)
            rounds[name].append(cpu_s / transactions * 1e6)
            server.stop()
    return rounds


def calls_per_transaction(server: Server, folder: Path, *, builtin: str) -> dict[str, float]:
    """Count file calls below the data directory with the emulator, delays off."""
    account = server_account()
    server.configure(
        {
            "shared_preload_libraries": None,
            "pgflash.cache_file": None,
            "pgflash.cache_size": None,
        }
    )
    device = EmulatedDevice(
        name="counted", profile=DeviceProfile.named("nvme"), paths=(server.data,)
    )
    with Emulator.create(
        folder / "state",
        devices=[device],
        owner=account.uid if account else None,
        delays_on=False,
    ) as emulator:
        server.start(extra_env=emulator.env)
        pgbench(server, builtin=builtin)
        emulator.reset()
        transactions, _cpu_s = pgbench(server, builtin=builtin)
        stats = emulator.stats().device("counted")
        server.stop()
    return {name: operation.count / transactions for name, operation in stats.operations.items()}


def hook_costs() -> dict[str, dict[str, float]]:
    """Return the added nanoseconds per call, by state of the cache and kind of call."""
    output = subprocess.run(
        [HERE / "build" / "hooks", "--format", "json"], capture_output=True, text=True, check=True
    ).stdout
    rows = json.loads(output)["figures"]
    return {row["of"]: row["added_ns"] for row in rows if "added_ns" in row}


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pg-config", type=Path)
    options = parser.parse_args()
    install = (
        PgInstall.from_pg_config(options.pg_config) if options.pg_config else PgInstall.embedded()
    )
    console = Console()
    hooks = hook_costs()
    result: dict[str, object] = {"postgres": install.version, "added_ns_per_call": hooks}
    table = Table("load", "variant", "CPU us / transaction", "ratio to stock")
    shares = Table("load", "calls / transaction", "added ns / call", "share of CPU", "null control")

    with tempfile.TemporaryDirectory(prefix="pgflash-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        cache_file = make_server_dir(folder / "flash") / "cache"
        server = Server.create(install, folder / "server", settings=SETTINGS)
        with server:
            server.start()
            server.run(["pgbench", "-i", "-q", f"-s{SCALE}"])
            server.stop()
            for builtin in ("tpcb-like", "select-only"):
                rounds = cpu_per_transaction(server, cache_file, builtin=builtin)
                stock = statistics.median(rounds["stock"])
                for variant, values in rounds.items():
                    ratio = statistics.median(
                        value / base for value, base in zip(values, rounds["stock"], strict=True)
                    )
                    table.add_row(
                        builtin, variant, f"{statistics.median(values):.1f}", f"{ratio:.3f}"
                    )
                calls = calls_per_transaction(server, folder, builtin=builtin)
                count = sum(calls.values())
                added = max(cost[call] for cost in hooks.values() for call in ("pread", "pwrite"))
                share = count * added / (stock * 1000)
                null = count * abs(hooks["off"]["null"]) / (stock * 1000)
                shares.add_row(
                    builtin, f"{count:.2f}", f"{added:.0f}", f"{share:.3%}", f"{null:.3%}"
                )
                result[builtin] = {
                    "cpu_us_per_transaction": rounds,
                    "calls_per_transaction": calls,
                    "share_of_cpu": share,
                    "null_control": null,
                }

    console.print(table)
    console.print(shares)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "cost.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
