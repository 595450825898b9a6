# SPDX-License-Identifier: PostgreSQL
"""To wait for a condition, and never for ever."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], wait_s: float, *, every_s: float) -> bool:
    """Ask a condition every EVERY_S seconds until it holds; False if WAIT_S ran out first."""
    deadline = time.monotonic() + wait_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True
