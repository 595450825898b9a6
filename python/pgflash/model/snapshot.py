# SPDX-License-Identifier: PostgreSQL
"""Snapshots: a server's counters at a moment, as plain values.

A snapshot is a head (when, of which server) and sections.  A section is a small table with a name;
its kind says how two of them may be combined:

    counter  cumulative: the difference of two snapshots is what happened between them,
             unless the counters started over (restart, reset), which a smaller value shows
    gauge    as of the moment of the snapshot
    delta    what happened since the previous snapshot: over a period they are summed up

The columns of a section depend on the server's version and on whether it has the extension.  A
section that could not be read is absent, and listed in the section `missing` with the reason.
Columns of PostgreSQL's own views keep the names that the server gives them;
docs/reference/snapshots.md lists ours.

Values are those of JSON: numbers, text, booleans, null, and lists of them.  Times are text in ISO
8601, as JSON has no type for them (`parse_time` reads them).  A store (pgflash.store) returns these
objects, wherever they are kept; `find_head` finds the one that a person names.
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from pgflash.errors import PgflashError
from pgflash.model.moments import print_moment

Value: TypeAlias = "str | int | float | bool | Sequence[Value] | None"
Row: TypeAlias = tuple[Value, ...]

#: Format version of a store's content. A store with a higher number is refused, an older one is
#: read.  2 has baselines.
FORMAT = 2

#: The section that lists what is absent: (section, reason).
MISSING = "missing"


class SnapshotError(PgflashError):
    """Snapshots cannot be taken, found or read."""


class SectionKind(enum.StrEnum):
    """What two sections of the same name mean together."""

    COUNTER = "counter"
    GAUGE = "gauge"
    DELTA = "delta"


class Falls(enum.Enum):
    """What it means if a count is smaller in the later section."""

    #: The counter was reset: its whole value was counted since then.
    RESET = "reset"
    #: The counter is not quite monotonic (the kernel's I/O wait, CPU time of ended
    #: processes).
    CLAMP = "clamp"
    #: The counter never falls while the server runs: it started over, after a crash.
    RESTART = "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCount:
    """A counter of a section of kind delta, as a client reads it."""

    name: str
    #: The counter's name in the server, in newer and older versions.
    sources: tuple[str, ...]
    #: Rows with the most of it are kept one by one.
    ranked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionDefinition:
    """What is declared of a section in definitions/snapshot_sections.toml, which says more."""

    name: str
    kind: SectionKind
    #: Whether a client takes it: yes, local (on the server's machine), or "".
    client: str = ""
    #: Why no client takes it.
    about: str = ""
    major_min: int = 0
    #: Those that are ours; before the counts if there are any.
    columns: tuple[str, ...] = ()
    #: The columns that identify a row.
    key: tuple[str, ...] = ()
    #: Numbers that are not counts.
    gauges: tuple[str, ...] = ()
    #: Counts of 32 bits, which begin again at 0.
    wraps: tuple[str, ...] = ()
    #: The column with the time of the last reset.
    reset: str = ""
    #: That time moves for counters outside the row, too: only a smaller count tells a reset.
    of_parts: bool = False
    falls: Falls = Falls.RESET
    #: The two ends of a period say as much as all the snapshots in between.
    ends: bool = False
    #: A gauge that is wanted of every snapshot of a period, not only of its ends.
    every: bool = False
    #: The client's query.
    query: str = ""
    counts: tuple[DeltaCount, ...] = ()
    read_key: tuple[str, ...] = ()
    birth: str = ""
    limit: int = 0
    #: Texts are kept to so many characters.
    text_max: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One table of a snapshot."""

    name: str
    kind: SectionKind
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    #: Values that were left out as impossible: "io.calls is inf".
    impossible: tuple[str, ...] = ()

    def records(self) -> list[dict[str, Value]]:
        """Return the rows as dictionaries."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def column(self, name: str) -> tuple[Value, ...] | None:
        """Return one column's values, or None if there is no such column."""
        if name not in self.columns:
            return None
        place = self.columns.index(name)
        return tuple(row[place] for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHead:
    """When a snapshot was taken, and of what."""

    id: int
    taken_at: datetime
    #: When the server had started; if two snapshots differ in this, there was a restart between
    #: them.
    started_at: datetime
    #: The snapshot at which the delta sections begin; None: they are absent, since there was no
    #: earlier snapshot, or the server has started since.
    previous_id: int | None
    took_ms: float
    origin: str  # schedule or command
    server_version_num: int
    #: Empty if the server has no extension, or was not asked for it.
    extension_version: str

    @property
    def major(self) -> int:
        """Return the server's major version."""
        return self.server_version_num // 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A period that is kept under a name: its snapshots are not dropped."""

    name: str
    begin_id: int
    end_id: int
    kept_at: datetime


class SnapshotStore(Protocol):
    """A place where snapshots are kept."""

    @property
    def name(self) -> str:
        """The name that people know this store by: a file's path, a database."""
        ...

    def list(self) -> tuple[SnapshotHead, ...]:
        """Return all heads, the oldest first; ids grow with time."""
        ...

    def sections(self, snapshot_id: int) -> dict[str, Section]:
        """Return a snapshot's sections by name."""
        ...

    def sections_between(
        self, begin_id: int, end_id: int, name: str
    ) -> tuple[tuple[SnapshotHead, Section], ...]:
        """Return the section of every snapshot after BEGIN_ID up to END_ID that has it.

        BEGIN_ID's own section is not included: the sum of the deltas is what happened from BEGIN_ID
        to END_ID.
        """
        ...

    def queries(self, query_ids: Iterable[int]) -> dict[int, str]:
        """Return the texts of statements by their ids, as far as they are known."""
        ...

    def baselines(self) -> "tuple[Baseline, ...]":
        """Return the periods that are kept under a name, in the order of their begins."""
        ...


def parse_time(text: str) -> datetime:
    """Parse a time from a section; without a zone it is local."""
    moment = datetime.fromisoformat(text)
    return moment.astimezone() if moment.tzinfo is None else moment


def find_head(heads: Sequence[SnapshotHead], word: str, *, store: str = "") -> SnapshotHead | None:
    """Return the snapshot that a person names: an id, first, last, last-N (N before the last one).

    None if the word is none of these: then it may be a time.
    """
    where = f" in {store}" if store else ""
    if not heads:
        raise SnapshotError(
            f"there are no snapshots{where}", hint="Take one: pgflash snapshot; later another."
        )
    word = word.strip()
    place = _place(word, len(heads))
    if place is not None:
        if 0 <= place < len(heads):
            return heads[place]
        raise SnapshotError(
            f'there is no snapshot "{word}"{where}, which holds {len(heads)}', hint=_LIST_HINT
        )
    return _by_id(heads, int(word), where) if word.isdecimal() else None


_LIST_HINT = "'pgflash snapshots' lists them."


def _place(word: str, count: int) -> int | None:
    """Return which of COUNT snapshots a word names by its position, if it does."""
    if word == "first":
        return 0
    if word == "last":
        return count - 1
    back = word.removeprefix("last-")
    return count - 1 - int(back) if back != word and back.isdecimal() else None


def _by_id(heads: Sequence[SnapshotHead], wanted: int, where: str) -> SnapshotHead:
    for head in heads:
        if head.id == wanted:
            return head
    raise SnapshotError(
        f"there is no snapshot {wanted}{where}: it holds {heads[0].id} to {heads[-1].id}",
        hint=_LIST_HINT,
    )


def find_baseline(baselines: Sequence[Baseline], name: str, *, store: str = "") -> Baseline:
    """Return the baseline of this name."""
    for one in baselines:
        if one.name == name:
            return one
    where = f" in {store}" if store else ""
    names = ", ".join(one.name for one in baselines)
    raise SnapshotError(
        f'there is no baseline "{name}"{where}',
        hint=f"There are: {names}." if names else f"Keep a period as one: {_KEEP}",
    )


_KEEP = "pgflash baseline keep NAME --from 10:00 --to 11:00"


def heads_around(
    heads: Sequence[SnapshotHead], begin: datetime, end: datetime, *, store: str = ""
) -> tuple[SnapshotHead, SnapshotHead]:
    """Return the last snapshot at or before BEGIN and the first later one at or after END.

    If none was taken after END, the second one is the last of all.  A snapshot is later than those
    before it even if the server's clock was set back.
    """
    find_head(heads, "last", store=store)  # or there is none
    before = [head for head in heads if head.taken_at <= begin]
    if not before:
        raise SnapshotError(
            f"there is no snapshot at or before {print_moment(begin)}: the first one was taken at "
            f"{print_moment(heads[0].taken_at)}",
            hint=_LIST_HINT,
        )
    first = before[-1]
    later = heads[heads.index(first) + 1 :]
    if not later:
        raise SnapshotError(
            f"no snapshot has been taken since {print_moment(first.taken_at)}",
            hint="Take one, such as with 'pgflash snapshot', or wait for the next one.",
        )
    return first, next((head for head in later if head.taken_at >= end), later[-1])
