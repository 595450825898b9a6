# SPDX-License-Identifier: PostgreSQL
"""How many reads a flash cache of a size would serve, and which size is worth it.

The server's own miss-ratio curve (pgflash.advice) answers it.  Without one the size alone
has to do: a cache that holds the database misses only what is new, a smaller one serves at
least its share of the blocks, since nobody prefers the blocks that it lacks.
"""

from collections.abc import Sequence

from pgflash.advise.work import CurvePoint

#: A cache that holds everything misses what was just written or extended (lab: 0.97-0.99).
COVERED = 0.98
#: A doubling that saves less of all reads is not worth its flash.
GAIN_MIN = 0.02


def covered_hits(size_bytes: float, database_bytes: float) -> float:
    """Return the hit ratio of a cache of which only the sizes are known."""
    if database_bytes <= 0:
        return COVERED
    return COVERED * min(size_bytes / database_bytes, 1.0)


def curve_hits(curve: Sequence[CurvePoint], size_bytes: float) -> float:
    """Return the hit ratio of a size, between the curve's points as a straight line."""
    points = sorted(curve, key=lambda point: point.size_bytes)
    before = CurvePoint(size_bytes=0.0, hit_ratio=0.0)
    for point in points:
        if size_bytes <= point.size_bytes:
            width = point.size_bytes - before.size_bytes
            part = (size_bytes - before.size_bytes) / width if width > 0 else 1.0
            return before.hit_ratio + part * (point.hit_ratio - before.hit_ratio)
        before = point
    return before.hit_ratio


def knee(curve: Sequence[CurvePoint], *, bytes_max: float | None = None) -> CurvePoint | None:
    """Return the smallest size past which a doubling brings little, or None without a curve."""
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
