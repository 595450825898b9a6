# SPDX-License-Identifier: PostgreSQL
"""Wait for something that happens by itself: for the condition, never for a fixed time.

The limit is not a statement about speed.  It makes a test whose condition is never met fail and say
so, and it is far longer than a machine needs that stalls for seconds.  Speed is measured by bench/.
"""

import time
from collections.abc import Callable

#: How long a test waits for one condition at most; pytest's own limit is for several.
PATIENCE_S = 120.0

#: One look at the condition counts for this long at most.
LOOK_S_MAX = 5.0


#: Pauses between looks grow from the first to the second: most waits are short, and a look of a
#: long one takes CPU time from what it waits for.
PAUSE_S = 0.02
PAUSE_S_MAX = 0.25


def nap() -> None:
    """Let other processes run."""
    time.sleep(PAUSE_S)


def eventually(
    condition: Callable[[], object],
    *,
    seconds: float = PATIENCE_S,
    pause: Callable[[], object] | None = None,
) -> bool:
    """Wait until a condition holds; say whether it did.

    A look that took longer counts for LOOK_S_MAX: so there are enough looks even on a machine that
    stalled.
    """
    left = seconds
    pause_s = PAUSE_S
    before = time.monotonic()
    while not condition():
        if left <= 0:
            return False
        if pause is not None:
            pause()
        else:
            time.sleep(pause_s)
            pause_s = min(1.2 * pause_s, PAUSE_S_MAX)
        now = time.monotonic()
        left -= min(now - before, LOOK_S_MAX)
        before = now
    return True


def until(condition: Callable[[], object], *, seconds: float = PATIENCE_S) -> None:
    """Wait until a condition holds; fail if it does not in time."""
    assert eventually(condition, seconds=seconds)
