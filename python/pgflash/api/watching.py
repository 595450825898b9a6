# SPDX-License-Identifier: PostgreSQL
"""What a server does now."""

from contextlib import AbstractContextManager

from pgflash.live.watch import Watch, watching


def top(
    *, dsn: str | None = None, interval_s: float = 1.0, readings: int | None = None
) -> AbstractContextManager[Watch]:
    """Watch a server: inside the block, iterate for a sample every INTERVAL_S seconds.

    The iteration ends after READINGS samples.  PgflashError is raised if the first one does not
    come; if the server goes away later, None takes the place of a sample until it is back.
    """
    return watching(dsn or "", interval_s=interval_s, readings=readings)
