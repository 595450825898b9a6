# SPDX-License-Identifier: PostgreSQL
"""The segments of an Oracle report, and the curve that its Buffer Pool Advisory draws.

A report lists five segments by default, with their share of all reads: all others become one
segment more, which cannot be moved, so that shares are those of all reads.

The advisory says how many blocks would have been read with a buffer cache of other sizes.  A block
that a larger buffer cache would have kept is kept by a flash cache behind the present one: a flash
cache of size F serves what a buffer cache larger by F would not have read.  It ends at about twice
the present size; from there to the size of the database, if that is known, hits are assumed to grow
in proportion, which is a lower bound.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pgflash.advise.awr_events import number
from pgflash.advise.awr_tables import AwrTable
from pgflash.advise.sizes import COVERED, curve_hits
from pgflash.advise.work import CurvePoint, Reads, Segment

_MIB = 2**20
#: Oracle's own objects stay where they are.
_OWN = ("SYS", "SYSTEM", "** MISSING", "** UNAVAIL", "** TRANSIEN")
OTHERS = "all other segments"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Segments by one measure, and the total of all segments; 0: unknown."""

    counts: dict[tuple[str, str, str], float]
    total: float

    @property
    def sum(self) -> float:
        """Return the total, which is at least what is listed."""
        return max(self.total, sum(self.counts.values()))


def read_segments(
    tables: Iterable[AwrTable],
    words: str,
    reads: Reads,
    writes: float,
    *,
    blocks_read: float = 0.0,
) -> tuple[Segment, ...]:
    """Return the segments with their part of the reads, their time, and the writes."""
    tables = list(tables)
    # Requests correspond to waits better than blocks do.
    read = _listed(tables, words, "Physical Read Requests", ("Phys Read Req", "Physical Read Req"))
    if not read.counts:
        read = _listed(tables, words, "Physical Reads", ("Physical Reads", "Phys Reads"))
        read = replace(read, total=max(read.total, blocks_read if read.counts else 0.0))
    written = _listed(tables, words, "Physical Write Requests", ("Phys Write Req",))
    if not written.counts:
        written = _listed(tables, words, "Physical Writes", ("Physical Writes", "Phys Writes"))
    found = []
    # The reads of a segment that is listed only for its writes are unknown.
    for key, count in sorted(read.counts.items()):
        name, tablespace, kind = key
        part = _part(count, read.sum)
        found.append(
            Segment(
                name=name,
                database="",
                tablespace=tablespace,
                kind=kind,
                reads=part * reads.count,
                read_s=part * reads.seconds,
                writes=_part(written.counts.get(key, 0.0), written.sum) * writes,
            )
        )
    if not found:
        return ()
    rest = 1.0 - _part(sum(read.counts.values()), read.sum)
    other = Segment(
        name=OTHERS,
        database="",
        tablespace="",
        kind="others",
        reads=rest * reads.count,
        read_s=rest * reads.seconds,
        writes=max(writes - sum(one.writes for one in found), 0.0),
    )
    return (*found, other)


def _listed(tables: Iterable[AwrTable], words: str, measure: str, heads: tuple[str, ...]) -> Listed:
    counts: dict[tuple[str, str, str], float] = {}
    shares = 0.0
    for table in tables:
        place = table.place(*heads)
        if table.place("Object Name") is None or place is None:
            continue
        share = table.place("%Total", "Pct Total")
        for row in table.rows:
            count = number(table.cells(place, row))
            if count is None:
                continue
            key = _key(table, row)
            counts[key] = counts.get(key, 0.0) + count
            shares += (number(table.cells(share, row)) or 0.0) / 100
    match = re.search(rf"Total {measure}s*:\s*([\d,]+)", words)
    total = (number(match[1]) or 0.0) if match else 0.0
    if not total and 0 < shares <= 1:
        total = sum(counts.values()) / shares
    return Listed(counts=counts, total=total)


def _key(table: AwrTable, row: tuple[str, ...]) -> tuple[str, str, str]:
    owner = table.cells(table.place("Owner"), row)
    name = f"{owner}.{table.cells(table.place('Object Name'), row)}"
    if part := table.cells(table.place("Subobject"), row):
        name += f":{part}"
    kind = table.cells(table.place("Obj. Type", "Obj. Typ", "Type"), row).lower().split(" ")[0]
    if owner.startswith(_OWN):
        kind = "catalog"
    return name, table.cells(table.place("Tablespace"), row), kind


def buffer_cache_bytes(words: str) -> float | None:
    """Return the size of the buffer cache at the end, of section Cache Sizes."""
    match = re.search(r"\bBuffer Cache:\s+([\d,.]+[KMG])(?:\s+([\d,.]+[KMG]))?", words)
    return _bytes(match[2] or match[1]) if match else None


def block_bytes(words: str) -> float | None:
    """Return the standard block size."""
    match = re.search(r"\bStd Block Size:\s+([\d,.]+[KM])", words)
    return _bytes(match[1]) if match else None


def _bytes(words: str) -> float:
    return (number(words[:-1]) or 0.0) * {"K": 2**10, "M": _MIB, "G": 2**30}[words[-1]]


def advisory_curve(
    tables: Iterable[AwrTable], buffers_bytes: float | None
) -> tuple[CurvePoint, ...]:
    """Return what flash caches behind the buffer cache would have served of its misses."""
    points: dict[float, float] = {}
    now: tuple[float, float, float] | None = None
    for table in tables:
        size, reads = table.place("Size for Est"), table.place("Estimated Phys", "Est Phys Reads")
        factor = table.place("Size Fact")
        if None in (size, reads, factor) or table.place("P") != 0:
            continue
        for row in table.rows:
            found = tuple(number(table.cells(place, row)) for place in (size, reads, factor))
            if row[0] != "D" or found[0] is None or found[1] is None or found[2] is None:
                continue
            size_bytes = found[0] * _MIB
            points.setdefault(size_bytes, found[1])
            # The present size is the row that fits Cache Sizes, or else that of size factor 1.
            off = abs(size_bytes - buffers_bytes) if buffers_bytes else abs(found[2] - 1)
            if now is None or off < now[0]:
                now = (off, size_bytes, found[1])
    if now is None or now[2] <= 0:
        return ()
    _off, present, misses = now
    return tuple(
        CurvePoint(size_bytes=size - present, hit_ratio=min(max(1 - read / misses, 0.0), 1.0))
        for size, read in sorted(points.items())
        if size > present
    )


def extended(
    curve: tuple[CurvePoint, ...],
    *,
    database_bytes: float,
    buffers_bytes: float,
    sizes: Iterable[float],
) -> tuple[CurvePoint, ...]:
    """Continue a curve from its end to the size of the database, with points of some sizes."""
    end = max(database_bytes - buffers_bytes, buffers_bytes / 16)
    kept = tuple(point for point in curve if point.size_bytes < end)
    whole = (*kept, CurvePoint(size_bytes=end, hit_ratio=COVERED))
    last = kept[-1].size_bytes if kept else 0.0
    more = tuple(
        CurvePoint(size_bytes=size, hit_ratio=curve_hits(whole, size))
        for size in sorted({*sizes, end})
        if last < size <= end
    )
    return (*kept, *more)


def through_buffers(curve: tuple[CurvePoint, ...], part: float) -> tuple[CurvePoint, ...]:
    """Return the curve as shares of all reads, of which a part goes through the buffer cache."""
    return tuple(replace(point, hit_ratio=point.hit_ratio * part) for point in curve)


def _part(part: float, whole: float) -> float:
    return min(part / whole, 1.0) if whole > 0 else 0.0
