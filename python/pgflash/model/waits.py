# SPDX-License-Identifier: PostgreSQL
"""Which wait class a wait event belongs to.

PostgreSQL has some 250 wait events in nine types.  The classes below are those of the papers'
tables, so that profiles can be compared.  A sample without an event is a backend at work: class
CPU. Idle is shown, but never counted as DB time; System I/O (waits of processes that serve no
client) is also shown without being counted.
"""

import enum
from dataclasses import dataclass


class WaitClass(enum.StrEnum):
    """A class of wait events, in the order in which charts stack them."""

    CPU = "CPU"
    USER_IO = "User I/O"
    COMMIT = "Commit"
    CONFIGURATION = "Configuration"
    CONCURRENCY = "Concurrency"
    APPLICATION = "Application"
    NETWORK = "Network"
    OTHER = "Other"
    SYSTEM_IO = "System I/O"
    IDLE = "Idle"

    @property
    def counts(self) -> bool:
        """Tell whether time in this class is DB time."""
        return self not in (WaitClass.SYSTEM_IO, WaitClass.IDLE)


#: Backend types whose I/O a client waits for. PostgreSQL charges asynchronous reads to the client
#: backend, so io workers do not count as sessions.
FOREGROUND = frozenset({"client backend", "parallel worker"})

#: The case of event names changed between majors (WALWrite, WalWrite), so they are compared folded.
_COMMIT = frozenset(
    {("io", "walsync"), ("io", "walwrite"), ("lwlock", "walwrite"), ("ipc", "syncrep")}
)
_CONFIGURATION = frozenset(
    {
        ("lwlock", "walbufmapping"),
        ("timeout", "registersyncrequest"),
        ("io", "datafilewrite"),  # a backend that must clean a buffer before it can read
    }
)
_CONCURRENCY = frozenset({("lock", "extend"), ("lock", "page"), ("timeout", "spindelay")})
_USER_IO_NAMES = ("datafile", "buffile", "aioio", "slru")


def wait_class(*, backend_type: str, wait_type: str, event: str) -> WaitClass:
    """Return the class of one sampled wait; an empty event means a backend at work."""
    kind, name = wait_type.casefold(), event.casefold()
    if kind == "activity" or (kind, name) == ("client", "clientread"):
        return WaitClass.IDLE
    if backend_type not in FOREGROUND:
        return WaitClass.IDLE if kind in ("", "timeout") else WaitClass.SYSTEM_IO
    if kind == "":
        return WaitClass.CPU
    if kind == "client":
        return WaitClass.NETWORK
    if name == "flashcacheread":  # type Extension on 17 and later, LWLock before
        return WaitClass.USER_IO
    return _foreground_class(kind, name)


def _foreground_class(kind: str, name: str) -> WaitClass:
    """Classify a wait that is neither idle nor another process's I/O."""
    if (kind, name) in _COMMIT:
        return WaitClass.COMMIT
    if (kind, name) in _CONFIGURATION or (kind == "io" and name.startswith("walinit")):
        return WaitClass.CONFIGURATION
    if kind == "ipc" and name.startswith("checkpoint"):
        return WaitClass.CONFIGURATION
    if kind == "io" and name.startswith(_USER_IO_NAMES):
        return WaitClass.USER_IO
    if (kind, name) == ("ipc", "bufferio"):
        return WaitClass.USER_IO
    if kind in ("lwlock", "bufferpin", "buffer") or (kind, name) in _CONCURRENCY:
        return WaitClass.CONCURRENCY
    if kind == "lock" or (kind, name) == ("timeout", "pgsleep"):
        return WaitClass.APPLICATION
    if kind == "timeout":
        return WaitClass.IDLE  # throttling: a vacuum's nap, a checkpoint's pace
    return WaitClass.OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitCount:
    """How often one event was seen while sampling."""

    wait_class: WaitClass
    #: "Type:Event" as PostgreSQL names it, or "CPU".
    event: str
    samples: int
