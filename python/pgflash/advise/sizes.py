# SPDX-License-Identifier: PostgreSQL
"""How many reads a flash cache of a given size would serve, and which size is worth it.

The server's own miss-ratio curve (pgflash.advice) answers this, with two corrections.  It counts
the first read of each block as a miss: after days there are no first reads, so these become hits in
proportion to the part of the database that a size holds.  And it models a cache that evicts the
least recently used block, while ours learns: if a cache has served, the misses of the curve are
scaled so that they match the cache's own misses at its size.

Without a curve, only the size is available: a cache that holds the database misses only what is
new; a smaller one serves at least its share of the blocks, since the blocks that it lacks are not
read more often than others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pgflash.advise.work import CurvePoint, Work

#: A cache that holds everything misses what was just written or extended (measured: 0.97-0.99).
COVERED = 0.98
#: Size of a flash cache without a known curve, in multiples of shared_buffers (Oracle: 4-10).
CACHE_FACTOR = 4.0
#: A doubling that saves less than this share of all reads is not worth its flash.
GAIN_MIN = 0.02
#: How far a cache's own misses may differ from its curve's.
_SCALE = (0.2, 2.0)


def covered_hits(size_bytes: float, database_bytes: float) -> float:
    """Return the hit ratio of a cache from the sizes alone."""
    if database_bytes <= 0:
        return COVERED
    return COVERED * min(size_bytes / database_bytes, 1.0)


def curve_hits(curve: Sequence[CurvePoint], size_bytes: float) -> float:
    """Return the hit ratio of a size, interpolated linearly between the curve's points."""
    points = sorted(curve, key=lambda point: point.size_bytes)
    before = CurvePoint(size_bytes=0.0, hit_ratio=0.0)
    for point in points:
        if size_bytes <= point.size_bytes:
            width = point.size_bytes - before.size_bytes
            part = (size_bytes - before.size_bytes) / width if width > 0 else 1.0
            return before.hit_ratio + part * (point.hit_ratio - before.hit_ratio)
        before = point
    return before.hit_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """Hit ratios by size, as they will be in the long run."""

    curve: Sequence[CurvePoint]
    database_bytes: float | None = None
    #: A cache that served: its size and its hit ratio.
    served: CurvePoint | None = None

    def of(self, size_bytes: float) -> float:
        """Return the hit ratio of a size."""
        misses = 1 - self._warm(size_bytes)
        if self.served is not None:
            low, high = _SCALE
            theirs = max(1 - self._warm(self.served.size_bytes), 1 - COVERED)
            misses *= min(max((1 - self.served.hit_ratio) / theirs, low), high)
        return min(max(1 - misses, 0.0), max(COVERED, curve_hits(self.curve, size_bytes)))

    def _warm(self, size_bytes: float) -> float:
        """Return the curve's hit ratio, with the first reads of blocks left out."""
        plain = curve_hits(self.curve, size_bytes)
        if not self.database_bytes:
            return plain
        first = max(COVERED - max(point.hit_ratio for point in self.curve), 0.0)
        return plain + first * min(size_bytes / self.database_bytes, 1.0)


def hits_of(work: Work, database_bytes: float | None) -> Hits | None:
    """Return the hit ratios from a period's curve, or None without one."""
    if not work.curve:
        return None
    if work.oracle:
        # Its advisory has no first reads, and was continued to the database's size.
        database_bytes = None
    served = None
    if work.hit_ratio is not None and work.cache_bytes:
        served = CurvePoint(size_bytes=work.cache_bytes, hit_ratio=work.hit_ratio)
    return Hits(curve=work.curve, database_bytes=database_bytes, served=served)


def knee(curve: Sequence[CurvePoint], *, bytes_max: float | None = None) -> CurvePoint | None:
    """Return the smallest size whose doubling brings little, or None without a curve."""
    points = sorted(curve, key=lambda point: point.size_bytes)
    if bytes_max is not None:
        fitting = [point for point in points if point.size_bytes <= bytes_max]
        if not fitting and points:
            return CurvePoint(size_bytes=bytes_max, hit_ratio=curve_hits(points, bytes_max))
        points = fitting
    for index, point in enumerate(points):
        best = max((later.hit_ratio for later in points[index:]), default=0.0)
        if best - point.hit_ratio < GAIN_MIN:
            return point
    return None
