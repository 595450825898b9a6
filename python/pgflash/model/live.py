# SPDX-License-Identifier: PostgreSQL
"""The live page's figures: a server's counters at a moment, and the rates between two moments.

A Reading holds the counters of one moment; a Sample is the difference of two consecutive readings,
as rates.  A reading identifies its server by the server's start time: across a restart there is no
difference.  Order and length are taken from our own monotonic clock; the time shown is the
server's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

#: The sources that serve requests, in the order in which charts stack them.
FLOWS = ("page cache", "flash", "disk", "disk writes", "wal", "temp")

#: Requests whose latency is shown, beside their amount: reads by source, and syncs of the WAL.
TIMED = ("page cache", "flash", "disk", "wal sync")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveServer:
    """What a server is and what it can tell; determined again with every connection."""

    version_num: int
    system_identifier: str
    started_at: datetime
    in_recovery: bool
    database: str
    role: str
    #: "" if the extension is not in the database; its schema is quoted for SQL.
    extension_version: str = ""
    schema: str = ""
    #: Whether the sampler looks; otherwise this page looks at pg_stat_activity once a second.
    sampler: bool = False
    #: None if the server is on another machine.
    cores: int | None = None
    #: What cannot be shown, and why.
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Requests of one kind, counted since the server started."""

    calls: float = 0.0
    bytes: float = 0.0
    #: How long processes waited for them.
    time_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseCounts:
    """What one database has counted; its counters alone start over, and end with it."""

    #: Its name; "" for what belongs to no database.
    name: str = ""
    commits: int = 0
    rollbacks: int = 0
    #: Requests that PostgreSQL counts by database.
    flows: Mapping[str, Flow] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTime:
    """What sessions did since the previous reading, and their total time."""

    wait_class: str
    #: "Type:Event", or "CPU".
    event: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A server's counters at a moment."""

    #: The server's clock, and ours.
    at: datetime
    monotonic_s: float
    started_at: datetime
    sessions: int
    active: int
    #: By oid; that of no database is 0.
    databases: Mapping[str, DatabaseCounts] = field(default_factory=dict)
    wal_bytes: int | None = None
    #: Requests that are counted for the whole server.
    flows: Mapping[str, Flow] = field(default_factory=dict)
    #: By what is timed: the number of requests in each range, keyed by its start in microseconds.
    latencies: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    #: For the seconds before this reading, of which samples represent covered_s.
    waits: tuple[WaitTime, ...] = ()
    covered_s: float = 0.0
    #: A row of pgflash_cache, with saved_ms and saved_share of pgflash_cache_benefit since the
    #: start; empty without a cache.
    cache: Mapping[str, float | str | None] = field(default_factory=dict)
    #: The state of each cache file.
    devices: Mapping[str, str] = field(default_factory=dict)
    #: Syncs of the WAL: how long processes waited for them.
    wal_sync_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """How long the requests of one second took, in milliseconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSecond:
    """How many sessions waited for an event, on average."""

    event: str
    wait_class: str
    sessions: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSecond:
    """What the flash cache did in a second."""

    mode: str
    #: None: there were no requests to it.
    hit_ratio: float | None
    hits_s: float
    misses_s: float
    inserts_s: float
    evictions_s: float
    used_bytes: float
    #: Read time saved since the server started (modelled), as pgflash_cache_benefit has it;
    #: None: it is not known, or flash is slower than the disk.
    saved_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What happened in about a second."""

    #: Increases by one; a page that has this sample asks for those after it.
    number: int
    #: ISO 8601 with its zone, by the server's clock.
    at: str
    elapsed_s: float
    #: Average active sessions by wait class; None: there was no sample.
    aas: Mapping[str, float] | None
    #: The events behind it, the most frequent first, up to a limit.
    events: tuple[EventSecond, ...]
    commits_s: float
    rollbacks_s: float
    sessions: int
    active: int
    #: By flow; a flow that this server does not distinguish is absent.
    bytes_s: Mapping[str, float]
    requests_s: Mapping[str, float]
    latency: Mapping[str, Quantiles]
    #: Mean wait for a commit: the time waited in class Commit, divided by commits; None without
    #: either.
    commit_ms: float | None
    wal_bytes_s: float | None
    cache: CacheSecond | None
    #: The sample in one sentence; "" for samples made from snapshots.
    headline: str = ""


#: Tablespace, database and number of a relation's files; the number is 0 for the sum of all others.
FileKey = tuple[int, int, int]
#: The requests to a relation's files since the server started, in the order of FileCount.
FileRow = tuple[float, ...]
#: The present content of a position in the server's table of files; it replaces the former one. A
#: relation has a position for each of its forks.
FileChange = tuple[int, FileKey, FileRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCount:
    """The requests to a relation's files, its forks together."""

    reads: float = 0.0
    flash_reads: float = 0.0
    read_bytes: float = 0.0
    read_ms: float = 0.0
    writes: float = 0.0
    write_bytes: float = 0.0
    write_ms: float = 0.0

    @property
    def time_ms(self) -> float:
        """Return the time waited for them."""
        return self.read_ms + self.write_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """What a page is about; a field that is "" does not restrict it."""

    #: A statement's identifier, a session's process ID.
    query: str = ""
    session: str = ""
    #: An event as "Type:Event", or a wait class.
    wait: str = ""
    #: As the top segments name it.
    relation: str = ""
    user: str = ""
    database: str = ""
    application: str = ""
    client: str = ""

    @property
    def is_all(self) -> bool:
        """Whether it is about everything."""
        return self == Focus()


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The server's present facts about a focus."""

    #: A statement's text, or that of a session's last statement.
    text: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    #: The missing facts, and why.
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRow:
    """A session that waits for a lock, or for which one waits; it comes before those that wait."""

    session: str
    #: The length of the chain of sessions that it waits for.
    depth: int
    owner: str
    #: What it does, and since when, in seconds.
    state: str
    seconds: float | None
    #: The lock that it waits for; "" if it waits for none.
    wants: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a time range."""

    #: Its end.
    at: str
    elapsed_s: float
    #: Average active sessions by wait class.
    aas: Mapping[str, float] = field(default_factory=dict)
    #: Seconds a second that were waited for a relation's files, by reads and writes.
    files: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRangeRow:
    """One of the rows that took most of a time range."""

    name: str
    #: A statement's text, a session's user and database, or the requests to a relation.
    detail: str
    #: The class in which most time was spent; for a relation, reads or writes.
    wait_class: str
    seconds: float
    #: Share of the range's DB time; for a relation, of the time spent on all files.
    share: float
    #: Where a statement's blocks came from, and since when; "" if that is not known, or it read
    #: none.
    reads: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """What sessions did in a time range, as far as the sampler or the snapshots know."""

    begin: str
    end: str
    #: The time from which on something is known; "" if nothing is.
    remembered_from: str
    seconds: float
    #: memory: the sampler's; snapshots: those around the range, by the minute.
    source: str = "memory"
    waits: tuple[TimeRangeRow, ...] = ()
    statements: tuple[TimeRangeRow, ...] = ()
    sessions: tuple[TimeRangeRow, ...] = ()
    segments: tuple[TimeRangeRow, ...] = ()
    #: What is in focus, over time; empty without a focus.
    spans: tuple[Span, ...] = ()
    #: By "user", "database", "application" and "client": those in which most time was spent.
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    #: When to ask again for what follows, according to the server's effort for an answer.
    again_s: float = 10.0
