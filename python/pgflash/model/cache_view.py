# SPDX-License-Identifier: PostgreSQL
"""What a page about the flash cache shows, as of one moment.

Rows of views are kept by the names of their columns, whatever columns this version of the extension
has; a page does not show columns that it does not know.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Cell = str | float | int | bool | None | list[float]
ViewRow = Mapping[str, Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRelation:
    """The cached part of a relation's fork, and the requests to it."""

    #: "" if the file belongs to no relation that is visible in this database.
    relation: str
    fork: str
    cached_bytes: int
    hits: int
    misses: int
    #: None: there were no requests.
    hit_ratio: float | None
    disk_read_time_ms: float
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePolicy:
    """A relation that is kept in the cache, or never admitted."""

    relation: str
    policy: str
    #: The partitioned relation for which the policy was set; otherwise the relation itself.
    set_on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBudget:
    """How much may be written to flash in a day, and how much of that is left."""

    day_bytes: int
    left_bytes: int
    written_day_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheView:
    """The flash cache of a server."""

    at: str
    #: Whether there is a cache that could be described; if not, `missing` says why.
    present: bool
    missing: Mapping[str, str] = field(default_factory=dict)
    mode: str = ""
    mode_reason: str = ""
    cache: ViewRow = field(default_factory=dict)
    #: Blocks that left the cache, and blocks that were not admitted, by reason.
    evictions: Mapping[str, float] = field(default_factory=dict)
    insert_skips: Mapping[str, float] = field(default_factory=dict)
    #: None: there is no limit.
    budget: WriteBudget | None = None
    devices: tuple[ViewRow, ...] = ()
    #: The relations with the most cached blocks, and the number of all.
    relations: tuple[CacheRelation, ...] = ()
    relations_all: int = 0
    #: What was saved in the last hour, the last day, and since the start.
    benefit: tuple[ViewRow, ...] = ()
    #: By size; present_bytes is the cache's own size.
    advice: tuple[ViewRow, ...] = ()
    present_bytes: float | None = None
    policies: tuple[CachePolicy, ...] = ()
