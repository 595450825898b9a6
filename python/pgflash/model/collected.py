# SPDX-License-Identifier: PostgreSQL
"""A snapshot on its way from a server (pgflash.collect) into a file (pgflash.store).

What a section of kind delta is subtracted from is no part of a snapshot: it is remembered
once, beside the newest one, and replaced with the next.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from pgflash.model.snapshot import Section, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A row of cumulative counters."""

    values: tuple[float, ...]
    #: Changes when the counters begin anew, where the server tells.
    birth: str | None = None
    #: What names it to people.
    labels: tuple[Value, ...] = ()


#: The rows of a section, by what tells them apart.
Rows: TypeAlias = dict[tuple[int, ...], Counted]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSnapshot:
    """What a store remembers of its newest snapshot."""

    id: int
    started_at: datetime
    remembered: dict[str, Rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSnapshot:
    """A snapshot that was collected and is not kept yet."""

    taken_at: datetime
    started_at: datetime
    previous_id: int | None
    took_ms: float
    origin: str
    server_version_num: int
    #: Of the cluster: a file keeps snapshots of one only.
    system_identifier: str
    sections: tuple[Section, ...]
    remembered: dict[str, Rows]
    queries: dict[int, str]
