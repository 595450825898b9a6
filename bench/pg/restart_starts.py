# SPDX-License-Identifier: PostgreSQL
"""The time that pgflash adds to a start and to a shutdown; see restart.py."""

import os
import re
import select
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from restart_rig import (
    GB,
    MEMORY,
    WARM_SHARE,
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

HERE = Path(__file__).parent
SPARSE = HERE / "build" / "libsparse.so"
#: A real disk, for the large cache files.
DISK = Path("/var/tmp")

BAR_S = 0.1
RESERVING = "memory reserved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """A size of the cache file, and how it was made."""

    gigabytes: int
    sparse: bool

    @property
    def title(self) -> str:
        """Return its name in the table."""
        return f"{self.gigabytes} GB, " + ("sparse (sparse.c)" if self.sparse else "reserved")

    @property
    def env(self) -> dict[str, str]:
        """Return the settings that the server needs for it."""
        return {"LD_PRELOAD": str(SPARSE)} if self.sparse else {}


def geometries(size: Size) -> list[Geometry]:
    """Return the requested size, and if there is no space for it, also one that fits."""
    room_gb = shutil.disk_usage(DISK).free // GB
    wanted = size.geometry_gb
    if room_gb > wanted + 10:
        return [Geometry(gigabytes=wanted, sparse=False)]
    # Half of the free space: the rest is for other programs.
    return [
        Geometry(gigabytes=wanted, sparse=True),
        Geometry(gigabytes=max(1, room_gb // 2), sparse=False),
    ]


@dataclass(slots=True, kw_only=True)
class Starts:
    """One server that is started with pgflash and without, and the times."""

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
        """Record a time."""
        self.seconds.setdefault(what, []).append(seconds)

    def expect(self, reason: str) -> None:
        """Fail unless the cache started as intended."""
        with connected(self.server) as connection:
            expect(connection, reason)

    def reserve(self) -> None:
        """Record how long the system takes to reserve as much memory as the cache has."""
        size = re.search(r"([0-9]+) bytes of shared memory", self.server.log_text(since_start=True))
        assert size is not None
        path = MEMORY / f"pgflash-bench-{os.getpid()}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            began = time.monotonic()
            os.posix_fallocate(fd, 0, int(size[1]))
            self.note(RESERVING, time.monotonic() - began)
        finally:
            os.close(fd)
            path.unlink()

    def await_blocks(self, blocks: int) -> None:
        """Wait until so many blocks of the map are loaded."""
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
        self.reserve()
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
            "of a start: the memory reserved, measured by itself",
            "",
            "",
            f"{statistics.median(seconds[RESERVING]):.3f}",
        )
        table.add_row(
            "",
            "until the map is taken in, serving meanwhile",
            "",
            f"{statistics.median(seconds['map taken in']):.3f}",
            end_section=True,
        )
    return table
