# SPDX-License-Identifier: PostgreSQL
"""The usage of the server between two moments: DB time = work + wait.

Work is the CPU time of the server's processes; wait is the time that its client backends and
parallel workers waited for files.  With the extension, every file call is counted and timed.  A
server without it reports the blocks read of relations, but only the bytes of temporary files, so
its waits do not include the latter.

A session reports to the server's statistics when it is idle, and at most once a second unless it is
asked to; so the driver asks for it after each step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from pgflash.model.waits import FOREGROUND
from pgflash_lab.warehouse.model import Use

#: Processor seconds of all the server's processes so far.
CpuSeconds = Callable[[], float]

_EXTENSION = """
select file_class = 'temp' as temp, operation in ('write', 'extend') as written,
       sum(calls)::bigint, sum(bytes)::bigint, sum(time_ms) / 1000
  from pgflash_io
 where backend_type = any(%s)
   and file_class in ('data', 'temp') and operation <> 'sync'
 group by 1, 2
"""
_STOCK = """
select blks_read, blks_read * current_setting('block_size')::bigint, blk_read_time / 1000,
       temp_bytes
  from pg_stat_database where datname = current_database()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """All cumulative counters; a triple is calls, bytes, seconds."""

    work_s: float | None
    reads: tuple[int, int, float]
    writes: tuple[int, int, float]
    temp_reads: tuple[int, int, float]
    temp_writes: tuple[int, int, float]


class UsageMeter:
    """Reads the counters over its own connection, and returns the differences."""

    def __init__(self, connection: psycopg.Connection[Any], cpu_s: CpuSeconds | None) -> None:
        self._connection = connection
        self._cpu_s = cpu_s
        row = connection.execute("select to_regclass('pgflash_io') is not null").fetchone()
        assert row is not None
        self._extension = bool(row[0])
        self._mark = self._take()

    def begin(self) -> None:
        """Count from now on."""
        self._mark = self._take()

    def end(self) -> Use:
        """Return what was counted since begin()."""
        before, after = self._mark, self._take()
        reads, writes, temp_reads, temp_writes = (
            tuple(b - a for a, b in zip(getattr(before, name), getattr(after, name), strict=True))
            for name in ("reads", "writes", "temp_reads", "temp_writes")
        )
        return Use(
            work_s=(
                None
                if before.work_s is None or after.work_s is None
                else after.work_s - before.work_s
            ),
            wait_s=reads[2] + writes[2] + temp_reads[2] + temp_writes[2],
            reads=int(reads[0]),
            read_bytes=int(reads[1]),
            read_s=reads[2],
            temp_reads=int(temp_reads[0]),
            temp_read_bytes=int(temp_reads[1]),
            temp_read_s=temp_reads[2],
            temp_writes=int(temp_writes[0]),
            temp_write_bytes=int(temp_writes[1]),
            temp_write_s=temp_writes[2],
        )

    def _take(self) -> _Mark:
        work_s = self._cpu_s() if self._cpu_s is not None else None
        nothing = (0, 0, 0.0)
        if self._extension:
            rows = {
                (row[0], row[1]): (int(row[2]), int(row[3] or 0), float(row[4]))
                for row in self._connection.execute(_EXTENSION, (sorted(FOREGROUND),), prepare=True)
            }
            return _Mark(
                work_s=work_s,
                reads=rows.get((False, False), nothing),
                writes=rows.get((False, True), nothing),
                temp_reads=rows.get((True, False), nothing),
                temp_writes=rows.get((True, True), nothing),
            )
        row = self._connection.execute(_STOCK, prepare=True).fetchone()
        assert row is not None
        return _Mark(
            work_s=work_s,
            reads=(int(row[0]), int(row[1]), float(row[2])),
            writes=nothing,
            temp_reads=nothing,
            temp_writes=(0, int(row[3]), 0.0),
        )
