# SPDX-License-Identifier: PostgreSQL
"""Wait for a condition, but never forever."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], wait_s: float, *, every_s: float) -> bool:
    """Test a condition every EVERY_S seconds until it holds; return False after WAIT_S."""
    deadline = time.monotonic() + wait_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True
