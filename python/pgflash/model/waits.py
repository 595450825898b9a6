# SPDX-License-Identifier: PostgreSQL
"""Which wait class a wait event belongs to.

definitions/wait_classes.toml declares the classes and the rules.  A sample without an event is a
backend at work: class CPU.  Idle and System I/O (waits of processes that serve no client) are
shown, but never counted as DB time.
"""

from dataclasses import dataclass
from functools import lru_cache

from pgflash.model.wait_classes import FOREGROUND as FOREGROUND
from pgflash.model.wait_classes import RULES
from pgflash.model.wait_classes import WaitClass as WaitClass


@lru_cache(maxsize=1000)
def wait_class(*, backend_type: str, wait_type: str, event: str) -> WaitClass:
    """Return the class of one sampled wait; an empty event means a backend at work."""
    process = "client" if backend_type in FOREGROUND else "other"
    for processes, kind, name, of_class in RULES:
        if processes in ("all", process) and _fits(kind, wait_type) and _fits(name, event):
            return of_class
    raise AssertionError("the last rules fit everything")


def _fits(pattern: str, text: str) -> bool:
    """Compare without case, which changed between majors; a star stands for any end."""
    pattern, text = pattern.casefold(), text.casefold()
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitCount:
    """How often one event was seen while sampling."""

    wait_class: WaitClass
    #: "Type:Event" as PostgreSQL names it, or "CPU".
    event: str
    samples: int
