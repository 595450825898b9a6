# SPDX-License-Identifier: PostgreSQL
"""One server for many faults: warm it, let something fail, check everything, note a row.

A case begins with a start of the server, so that counters and log belong to the case alone.  While
the fault is on, tables are changed and read in many ways; each read is compared with its expected
result, and each hit with its file.  Whatever the fault, no statement may fail and no byte may be
wrong; the case itself asserts what the counters, the mode and the log must say.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import (
    CachedServer,
    Row,
    assert_checksums_good,
    assert_indexes_whole,
    create_cached,
)
from support.clock import Clock
from support.cluster import REPOSITORY, ClusterFactory
from support.ddl import load_tables, regrow_tail, update_rows, vacuum_tail
from support.faults import Faults
from support.patience import eventually
from support.world import World

PAGE_BYTES = 8192

#: Columns of the view that a row of the table shows if they are not zero.
SHOWN = (
    *("flash_read_errors", "flash_write_errors", "read_timeouts", "corrupt_slots"),
    "verify_mismatches",
)

#: Hits of a warm cache before anything fails.
WARM_HITS = 500

#: Where `make fault-matrix` collects the tables.
TABLES = REPOSITORY / "out" / "fault-matrix"


@dataclass(slots=True, kw_only=True)
class Rig:
    """A server whose cache file can go wrong."""

    cached: CachedServer
    world: World
    faults: Faults
    clock: Clock
    rows: list[tuple[str, ...]] = field(default_factory=list)

    @classmethod
    def build(
        cls,
        cluster: ClusterFactory,
        install: PgInstall,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> "Rig":
        """Make the server and its tables, and stop it again."""
        cached = create_cached(cluster, install, settings=settings, start=False)
        faults = Faults.build(cached.server.base)
        clock = Clock.build(cached.server.base)
        cached.preloads = (faults.library, clock.library)
        cached.preload_env = {**faults.env(cached.cache_file), **clock.env}
        cached.start()
        cached.create_extension()
        rig = cls(
            cached=cached,
            world=World(server=cached.server, space=cached.space),
            faults=faults,
            clock=clock,
        )
        load_tables(rig.world)
        rig.stop()
        return rig

    # ---- a case

    def begin(self, *, aio: bool = True) -> None:
        """Start with a sound device and warm the cache."""
        self.stop()
        self.faults.hide_aio(hidden=not aio)
        self.cached.start()

        def is_warm() -> bool:
            self.world.check()
            return bool(self.cached.assert_serving()["hits"] > WARM_HITS)

        self.cached.await_serving()
        assert eventually(is_warm)

    def begin_ill(self) -> None:
        """Start while the fault is on."""
        self.faults.hide_aio(hidden=False)
        self.cached.start()

    def work(self) -> None:
        """Change tables and read all of them, as if nothing were wrong."""
        for step in (update_rows, vacuum_tail, regrow_tail):
            step(self.world)
        self.world.check()

    def work_until_struck(self, times: int) -> None:
        """Do so until faults have struck this often: a writer that is late writes less."""

        def struck() -> bool:
            self.work()
            return self.faults.count >= times

        assert eventually(struck), self.faults.count

    def check(self) -> Row:
        """Fail if anything is wrong with the data or the cached blocks; return the view."""
        view = self.cached.view()
        if view["mode"] == "serve":
            _, mismatched = self.cached.verify()
            assert mismatched == 0, f"{mismatched} cached blocks are not their file's"
            view = self.cached.view()
        assert view["verify_mismatches"] == 0, f"stale blocks were served: {view}"
        self.world.disconnect()
        assert_indexes_whole(self.cached.server)
        return view

    def stop(self) -> None:
        """End the fault and stop the server."""
        self.faults.stop()
        self.clock.set(ahead_s=0)
        self.world.disconnect()
        self.cached.server.stop()

    def close(self) -> None:
        """Check what a fresh start reads, and every block's checksum on disk."""
        self.begin()
        self.check()
        assert_checksums_good(self.cached.server)

    # ---- what the log says

    def says_once(self, sentence: str) -> bool:
        """Wait until the log of this start has the sentence; say whether it has it once."""
        text = self.cached.server.log_text
        assert eventually(lambda: sentence in text(since_start=True)), (
            f"the log does not say: {sentence}"
        )
        return text(since_start=True).count(sentence) == 1

    # ---- the table

    def note(self, name: str, *, struck: str, view: Row, says: str) -> None:
        """Add a row to the table."""
        shown = ", ".join(f"{key} {view[key]}" for key in SHOWN if view.get(key))
        self.rows.append((name, struck, shown or "-", view["mode"], says or "-"))

    def skip(self, name: str, reason: str) -> NoReturn:
        """Record in the table, too, that a case cannot run on this machine, and why."""
        self.rows.append((name, "not run", reason, "-", "-"))
        pytest.skip(reason)

    def table(self, major: int) -> str:
        """Return the table, ready to be printed."""
        head = ("what goes wrong", "how often", "what the counters say", "mode", "the log says")
        widths = [max(len(row[i]) for row in [head, *self.rows]) for i in range(len(head))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (head, tuple("-" * width for width in widths), *self.rows)
        ]
        ran = sum(row[1] != "not run" for row in self.rows)
        title = (
            f"PostgreSQL {major}: no statement failed, no byte was wrong "
            f"(every read compared, verify = all, amcheck, checksums) in {ran} cases"
        )
        return "\n".join([title, "", *lines, ""])

    def keep_table(self, major: int, which: str = "") -> Path:
        """Write the table where `make fault-matrix` finds it."""
        TABLES.mkdir(parents=True, exist_ok=True)
        path = TABLES / f"{major}{which}.txt"
        path.write_text(self.table(major))
        return path


# ---- damage to the medium itself


def flip_bits(cache_file: Path, offsets: list[int]) -> None:
    """Flip one bit at each of these offsets, on the medium itself."""
    fd = os.open(cache_file, os.O_RDWR)
    try:
        for offset in offsets:
            old = os.pread(fd, 1, offset)
            os.pwrite(fd, bytes([old[0] ^ 1 << offset % 8]), offset)
        os.fsync(fd)
    finally:
        os.close(fd)


def used_pages(cache_file: Path, first_offset: int) -> list[int]:
    """Return the offsets of the file's pages in use, from a given one on."""
    content = cache_file.read_bytes()
    nothing = bytes(PAGE_BYTES)
    return [
        offset
        for offset in range(first_offset, len(content), PAGE_BYTES)
        if content[offset : offset + PAGE_BYTES] != nothing
    ]
