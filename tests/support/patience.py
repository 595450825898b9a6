# SPDX-License-Identifier: PostgreSQL
"""Waiting for what comes by itself: for the condition, never for a time.

The limit is no claim about speed.  It is there so that a test whose condition never comes
fails and says so, and it is far beyond what a machine takes that stands still for seconds.
What must be fast is measured by bench/.
"""

import time
from collections.abc import Callable

#: So long a test waits for one condition at most; pytest's own limit is for several.
PATIENCE_S = 120.0

#: What one look at the condition counts for at most.
LOOK_S_MAX = 5.0


def nap() -> None:
    """Let others go on."""
    time.sleep(0.02)


def eventually(
    condition: Callable[[], object],
    *,
    seconds: float = PATIENCE_S,
    pause: Callable[[], object] = nap,
) -> bool:
    """Wait until a condition holds; say whether it came to that.

    A look that took long counts for LOOK_S_MAX: on a machine that stood still there were
    looks enough all the same.
    """
    left = seconds
    before = time.monotonic()
    while not condition():
        if left <= 0:
            return False
        pause()
        now = time.monotonic()
        left -= min(now - before, LOOK_S_MAX)
        before = now
    return True


def until(condition: Callable[[], object], *, seconds: float = PATIENCE_S) -> None:
    """Wait until a condition holds; fail if it does not come to that."""
    assert eventually(condition, seconds=seconds)
