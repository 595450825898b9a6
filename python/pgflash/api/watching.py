# SPDX-License-Identifier: PostgreSQL
"""What a server does now."""

from contextlib import AbstractContextManager

from pgflash.live.watch import Watch, watching


def top(
    *, dsn: str | None = None, interval_s: float = 1.0, readings: int | None = None
) -> AbstractContextManager[Watch]:
    """Watch a server: inside the block, iterate for a sample every INTERVAL_S seconds.

    After READINGS of them the iteration ends.  PgflashError if the first does not come; later
    a server that goes away is None instead of a sample, until it is back.
    """
    return watching(dsn or "", interval_s=interval_s, readings=readings)
