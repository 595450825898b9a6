# SPDX-License-Identifier: PostgreSQL
"""Where snapshots are kept: in the database, by the extension, or in a file.

with open_store(dsn="dbname=app") as store:       # the extension's tables
with open_store(path=Path("app.snapshots")) as store:   # what `pgflash snapshot --store` kept

Both give the same objects (pgflash.model.snapshot).
"""

from pathlib import Path
from typing import Protocol, Self

from pgflash.model.snapshot import SnapshotStore
from pgflash.store.file import FileStore
from pgflash.store.pg import PgStore

__all__ = ["FileStore", "OpenStore", "PgStore", "open_store"]


class OpenStore(SnapshotStore, Protocol):
    """A store that is closed at the end of its block, and in which periods can be kept."""

    def keep(self, name: str, begin_id: int, end_id: int) -> None:
        """Keep the snapshots from one to another under a name that is free."""
        ...

    def release(self, name: str) -> None:
        """Drop a baseline; its snapshots are then dropped by their age, like all others."""
        ...

    def close(self) -> None:
        """Close it."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exc: object) -> None: ...


def open_store(*, dsn: str | None = None, path: Path | None = None) -> OpenStore:
    """Open a store for reading: a file, or else a database (an empty DSN: the environment's)."""
    return PgStore(dsn or "") if path is None else FileStore.open(path)
