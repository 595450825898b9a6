# SPDX-License-Identifier: PostgreSQL
"""A snapshot that was read from a server (pgflash.collect) and goes into a file (pgflash.store).

The values from which a section of kind delta is subtracted are not part of a snapshot: they are
kept once, beside the newest one, and replaced with the next.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from pgflash.model.snapshot import Section, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A row of cumulative counters."""

    values: tuple[float, ...]
    #: Changes when the counters start over, if the server reports that.
    birth: str | None = None
    #: The names that people see.
    labels: tuple[Value, ...] = ()


#: The rows of a section, by their keys.
Rows: TypeAlias = dict[tuple[int, ...], Counted]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSnapshot:
    """What a store remembers of its newest snapshot."""

    id: int
    started_at: datetime
    remembered: dict[str, Rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSnapshot:
    """A snapshot that was collected and is not stored yet."""

    taken_at: datetime
    started_at: datetime
    previous_id: int | None
    took_ms: float
    origin: str
    server_version_num: int
    #: The cluster's: a file keeps snapshots of only one.
    system_identifier: str
    sections: tuple[Section, ...]
    remembered: dict[str, Rows]
    queries: dict[int, str]
