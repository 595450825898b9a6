# SPDX-License-Identifier: PostgreSQL
"""The cost of a restart with pgflash, and the value of a warm one.

Starts: the time from the command to "ready to accept connections", with a cache of 100 GB
less that of the same server without pgflash, in turn; the data in memory, the cache file
on the machine's own disk.  Bar: 0.1 s.  A disk without enough space gets the 100 GB by sparse.c (a
file with holes); a cache as large as fits, with its space reserved, is measured as well.  Likewise
what pgflash adds to a shutdown, which saves the map.

Recovery: a read-mostly load on emulated devices (an eight-disk array, an NVMe drive) of a
table 16 times shared_buffers, before and after a clean restart, a crash (kill -9 of the
postmaster), and a restart whose cache file was removed: throughput and hit ratio of each
second since the server was ready, and the seconds until throughput is at 90 % of its former value.

Prints the tables; a full run keeps them in bench/results/restart.txt and restart.json.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from restart_recovery import (
    CLIENTS,
    READS_PER_UPDATE,
    measure_recovery,
    recovery_table,
    seconds_table,
)
from restart_rig import Size
from restart_starts import geometries, measure_starts, starts_table
from rich.console import Console

from support.cluster import build_install, find_install

RESULTS = Path(__file__).parent.parent / "results"

FULL = Size(
    geometry_gb=100, rounds=7, mapped_mb=512, loaded_mb=512, before_s=10, warm_s=20, cold_s=90
)
QUICK = Size(geometry_gb=100, rounds=2, mapped_mb=64, loaded_mb=64, before_s=4, warm_s=6, cold_s=12)


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
