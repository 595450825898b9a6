# SPDX-License-Identifier: PostgreSQL
"""The difference between two readings of cumulative counters, for each row.

A row that counts less than before, or whose birth differs, started over (a reset, an eviction):
everything that it counts now has happened since.  So no difference is negative.  A row that is gone
contributes nothing.  The extension does the same in C (extension/src/snapshot/snapshot_delta.c).
"""

import math
from collections.abc import Iterable, Sequence

from pgflash.model.collected import Counted, Rows


def difference(before: Rows, now: Rows) -> Rows:
    """Return what was counted between the readings, without rows that counted nothing."""
    between: Rows = {}
    for key, row in now.items():
        values = _since(before.get(key), row)
        if any(value > 0 for value in values):
            between[key] = Counted(values=values, birth=row.birth, labels=row.labels)
    return between


def _since(before: Counted | None, now: Counted) -> tuple[float, ...]:
    if before is None or _started_over(before, now):
        return now.values
    return tuple(after - ago for ago, after in zip(before.values, now.values, strict=True))


def _started_over(before: Counted, now: Counted) -> bool:
    # The earlier row is from another version of the server, which counts other things.
    if len(before.values) != len(now.values) or before.birth != now.birth:
        return True
    return any(after < ago for ago, after in zip(before.values, now.values, strict=True))


def choose(rows: Rows, *, ranked: Sequence[int], limit: int) -> tuple[Rows, Rows]:
    """Return the rows with the most of any of these values, and all others.

    Rows are taken from each ranking in turn, so that none of them crowds out the others.
    """
    rankings = [
        sorted(
            (key for key, row in rows.items() if row.values[place] > 0),
            key=lambda key: -rows[key].values[place],
        )
        for place in ranked
    ]
    chosen: Rows = {}
    for rank in range(max(map(len, rankings), default=0)):
        for ranking in rankings:
            if rank < len(ranking) and len(chosen) < limit:
                chosen[ranking[rank]] = rows[ranking[rank]]
    return chosen, {key: row for key, row in rows.items() if key not in chosen}


def summed(rows: Iterable[Counted], width: int) -> tuple[float, ...]:
    """Return the sum of each of WIDTH values."""
    columns = zip(*(row.values for row in rows), strict=True)
    return tuple(math.fsum(column) for column in columns) or (0.0,) * width
