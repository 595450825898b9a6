# SPDX-License-Identifier: PostgreSQL
"""The wait classes, and the rules by which wait events belong to them.

Generated from definitions/ by `make generate`.
"""

import enum


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


#: Backend types whose waits a client waits for.
FOREGROUND = frozenset({"client backend", "parallel worker"})

#: Processes (client, other or all), type, event and class; the first rule that fits counts.
RULES = (
    ("all", "Activity", "*", WaitClass.IDLE),
    ("all", "Client", "ClientRead", WaitClass.IDLE),
    ("other", "", "", WaitClass.IDLE),
    ("other", "Timeout", "*", WaitClass.IDLE),
    ("other", "*", "*", WaitClass.SYSTEM_IO),
    ("client", "", "", WaitClass.CPU),
    ("client", "*", "FlashCacheRead", WaitClass.USER_IO),
    ("client", "IO", "WalSync", WaitClass.COMMIT),
    ("client", "IO", "WalWrite", WaitClass.COMMIT),
    ("client", "LWLock", "WALWrite", WaitClass.COMMIT),
    ("client", "IPC", "SyncRep", WaitClass.COMMIT),
    ("client", "LWLock", "WALBufMapping", WaitClass.CONFIGURATION),
    ("client", "Timeout", "RegisterSyncRequest", WaitClass.CONFIGURATION),
    ("client", "IO", "DataFileWrite", WaitClass.CONFIGURATION),
    ("client", "IO", "WalInit*", WaitClass.CONFIGURATION),
    ("client", "IPC", "Checkpoint*", WaitClass.CONFIGURATION),
    ("client", "IO", "DataFile*", WaitClass.USER_IO),
    ("client", "IO", "BufFile*", WaitClass.USER_IO),
    ("client", "IO", "AioIo*", WaitClass.USER_IO),
    ("client", "IO", "Slru*", WaitClass.USER_IO),
    ("client", "IPC", "BufferIo", WaitClass.USER_IO),
    ("client", "LWLock", "*", WaitClass.CONCURRENCY),
    ("client", "BufferPin", "*", WaitClass.CONCURRENCY),
    ("client", "Buffer", "*", WaitClass.CONCURRENCY),
    ("client", "Lock", "extend", WaitClass.CONCURRENCY),
    ("client", "Lock", "page", WaitClass.CONCURRENCY),
    ("client", "Timeout", "SpinDelay", WaitClass.CONCURRENCY),
    ("client", "Lock", "*", WaitClass.APPLICATION),
    ("client", "Timeout", "PgSleep", WaitClass.APPLICATION),
    ("client", "Client", "*", WaitClass.NETWORK),
    ("client", "Timeout", "*", WaitClass.IDLE),
    ("client", "*", "*", WaitClass.OTHER),
)
