# SPDX-License-Identifier: PostgreSQL
"""The writes that are saved if updates stay in memory before they are written to flash.

A block that is written again before its copy has reached flash needs one write.  Played
on the slot writes of a replay, in their order: updates wait in a window of so many blocks, and the
oldest leaves when it is full; a fill is written at once.
"""

from array import array
from collections import OrderedDict
from dataclasses import dataclass

UPDATE = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The savings of a window."""

    updates: int
    updates_written: int
    fills: int

    @property
    def of_updates(self) -> float:
        """As a share of the updates."""
        return 1 - self.updates_written / max(1, self.updates)

    @property
    def of_all(self) -> float:
        """As a share of all writes to flash."""
        return (self.updates - self.updates_written) / max(1, self.updates + self.fills)


def linger(slot_writes: "array[int]", window: int, *, renew: bool) -> Saved:
    """With renew, a block that is written again waits again."""
    waiting: OrderedDict[int, None] = OrderedDict()
    updates = written = fills = 0
    for write in slot_writes:
        block = write & ~UPDATE
        if write < UPDATE:
            fills += 1
            continue
        updates += 1
        if block in waiting:
            if renew:
                waiting.move_to_end(block)
            continue
        waiting[block] = None
        if len(waiting) > window:
            waiting.popitem(last=False)
            written += 1
    return Saved(updates=updates, updates_written=written + len(waiting), fills=fills)
