# SPDX-License-Identifier: PostgreSQL
"""A period: what a server counted between two snapshots.

A period is a chain of intervals, each from one snapshot to the next.  Counters are subtracted
interval by interval and added up.  So a statistics reset, a dropped database or a section that
appears later costs no more than the interval in which it happens, and the periods A..B and B..C
always add up to A..C.

A restart within the period is refused: the counters in shared memory start over, and what happened
between the last snapshot before it and the restart is not known.  The crash of a backend is such a
restart, too; it shows as a fall of counters that otherwise never fall.

Gauges (settings, sizes) are available from both ends; those that move fast (memory, the lag of
standbys) from every snapshot.

Snapshots follow one another by their ids.  Their times do not say more: the server's clock may be
set back, and a period over that is refused as well, since nobody knows how long it was.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

from pgflash.analyze.figures import BLOCK_BYTES
from pgflash.analyze.sections import Reset, add, number, subtract
from pgflash.errors import UsageError
from pgflash.model.moments import print_moment, zone_named
from pgflash.model.snapshot import (
    MISSING,
    Section,
    SectionKind,
    SnapshotHead,
    SnapshotStore,
    Value,
)
from pgflash.model.snapshot_sections import SECTIONS

#: Sections read interval by interval: their sum would be long and meaningless.
OF_INTERVALS = frozenset({"samples", "sample_looks"})


class PeriodError(UsageError):
    """These snapshots are not the ends of one period."""


class RestartError(PeriodError):
    """The server was restarted between two of the snapshots."""

    def __init__(
        self, message: str, *, before: SnapshotHead, after: SnapshotHead, hint: str
    ) -> None:
        """Keep the snapshots around the restart."""
        super().__init__(message, hint=hint)
        self.before, self.after = before, after


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """From one snapshot to the next."""

    begin: SnapshotHead
    end: SnapshotHead
    #: What was counted, by section.
    deltas: Mapping[str, Section]
    #: The state at the end, and at the ends of the intervals that it was merged from.
    gauges: Mapping[str, tuple[Section, ...]] = field(default_factory=dict)

    @property
    def elapsed_s(self) -> float:
        """Return its length."""
        return (self.end.taken_at - self.begin.taken_at).total_seconds()

    def records(self, name: str) -> list[dict[str, Value]]:
        """Return a section's rows; none if it is absent."""
        return self.deltas[name].records() if name in self.deltas else []

    def gauge(self, name: str) -> list[list[dict[str, Value]]]:
        """Return the rows of a gauge, as of each snapshot in it."""
        return [section.records() for section in self.gauges.get(name, ())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """What happened between two snapshots."""

    intervals: tuple[Interval, ...]
    #: What was counted, by section: the sum of the deltas.
    totals: Mapping[str, Section]
    #: For how much of the period a section was available.
    covered_s: Mapping[str, float]
    begin_gauges: Mapping[str, Section]
    end_gauges: Mapping[str, Section]
    resets: tuple[Reset, ...] = ()
    #: Impossible values of the snapshots, which were left out.
    impossible: tuple[str, ...] = ()
    #: The times that were asked for, as printed, and why the period is another; or "".
    asked: str = ""
    not_as_asked: str = ""
    #: Texts of statements by their ids.
    queries: Mapping[int, str] = field(default_factory=dict)

    @property
    def begin(self) -> SnapshotHead:
        """Return the first snapshot."""
        return self.intervals[0].begin

    @property
    def end(self) -> SnapshotHead:
        """Return the last snapshot."""
        return self.intervals[-1].end

    @property
    def major(self) -> int:
        """Return the server's major version."""
        return self.end.major

    @property
    def elapsed_s(self) -> float:
        """Return its length."""
        return (self.end.taken_at - self.begin.taken_at).total_seconds()

    def records(self, name: str) -> list[dict[str, Value]]:
        """Return a section's rows; none if it is absent."""
        return self.totals[name].records() if name in self.totals else []

    def record(self, name: str) -> dict[str, Value] | None:
        """Return the row of a section that has one, or None."""
        found = self.records(name)
        return found[0] if found else None

    def gauge(self, name: str, *, at_begin: bool = False) -> list[dict[str, Value]]:
        """Return a gauge section's rows at one of the ends."""
        gauges = self.begin_gauges if at_begin else self.end_gauges
        return gauges[name].records() if name in gauges else []

    def every_gauge(self, name: str) -> list[list[dict[str, Value]]]:
        """Return the rows of a gauge, as of each snapshot after the first."""
        return [rows for interval in self.intervals for rows in interval.gauge(name)]

    def setting(self, name: str, *, at_begin: bool = False) -> str | None:
        """Return a setting at one of the ends, or None if it has its default."""
        for record in self.gauge("settings", at_begin=at_begin):
            if record.get("name") == name:
                return str(record.get("setting"))
        return None

    @property
    def block_bytes(self) -> int:
        """Return the size of a data file's block: 8 kB, unless the server was built for another."""
        return self._built("block_size")

    @property
    def wal_block_bytes(self) -> int:
        """Return the size of a block of the WAL."""
        return self._built("wal_block_size")

    def _built(self, column: str) -> int:
        sizes = (int(number(record.get(column))) for record in self.gauge("server"))
        return next(sizes, 0) or BLOCK_BYTES

    @property
    def zone(self) -> tzinfo:
        """Return the server's time zone."""
        return zone_of(self.gauge("settings"))

    def missing_reason(self, name: str) -> str:
        """Say why a section is absent."""
        for record in self.gauge(MISSING):
            if record.get("section") == name:
                return str(record.get("reason"))
        return ""


def zone_of(settings: Iterable[Mapping[str, Value]]) -> tzinfo:
    """Return the time zone of a server with these settings; a client's own does not count."""
    found = (
        str(one.get("setting"))
        for one in settings
        if one.get("name") == "TimeZone" and one.get("source") not in ("client", "session")
    )
    return zone_named(next(found, None))


def make_period(store: SnapshotStore, begin_id: int, end_id: int) -> Period:
    """Return the period between two snapshots of a store."""
    chain = _chain(store.list(), begin_id, end_id, store.name)
    first, last = store.sections(chain[0].id), store.sections(chain[-1].id)
    names = sorted({*first, *last})
    deltas: dict[str, dict[int, Section]] = {}
    resets: list[Reset] = []
    impossible = [
        *_impossible(chain[0].id, first.values()),
        *_impossible(chain[-1].id, last.values()),
    ]
    gauges: dict[str, dict[int, Section]] = {}
    for name in names:
        kind = (last.get(name) or first[name]).kind
        if kind is SectionKind.GAUGE:
            if name in SECTIONS and SECTIONS[name].every:
                every = store.sections_between(begin_id, end_id, name)
                gauges[name] = {head.id: section for head, section in every}
            continue
        if _ends_are_enough(name) and kind is SectionKind.COUNTER:
            found = {chain[-1].id: last[name]} if name in last else {}
        else:
            found = {h.id: s for h, s in store.sections_between(begin_id, end_id, name)}
        for snapshot_id, section in found.items():
            impossible += _impossible(snapshot_id, [section])
        if kind is SectionKind.DELTA:
            deltas[name] = _kept(found, chain)
        else:
            deltas[name], of_this = _differences(name, first.get(name), found, chain)
            resets.extend(of_this)
    intervals = tuple(
        Interval(
            begin=begin,
            end=end,
            deltas={name: by_id[end.id] for name, by_id in deltas.items() if end.id in by_id},
            gauges={name: (by_id[end.id],) for name, by_id in gauges.items() if end.id in by_id},
        )
        for begin, end in itertools.pairwise(chain)
    )
    return period_of(
        intervals,
        begin_gauges=_gauges(first),
        end_gauges=_gauges(last),
        resets=tuple(resets),
        impossible=tuple(dict.fromkeys(impossible)),
        queries=store.queries(_query_ids(intervals)),
        names=deltas,
    )


def period_of(
    intervals: Sequence[Interval],
    *,
    begin_gauges: Mapping[str, Section],
    end_gauges: Mapping[str, Section],
    resets: tuple[Reset, ...] = (),
    impossible: tuple[str, ...] = (),
    queries: Mapping[int, str] | None = None,
    names: Iterable[str] = (),
) -> Period:
    """Return the period made up of intervals, the earliest first.

    NAMES are the sections that one of its ends has, though perhaps no interval.
    """
    totals, covered = {}, dict.fromkeys(names, 0.0)
    for name in sorted({name for interval in intervals for name in interval.deltas}):
        having = [interval for interval in intervals if name in interval.deltas]
        if name not in OF_INTERVALS:
            totals[name] = add([interval.deltas[name] for interval in having])
        covered[name] = sum(interval.elapsed_s for interval in having)
        if _ends_are_enough(name):  # one difference stands for all
            covered[name] = sum(interval.elapsed_s for interval in intervals)
    return Period(
        intervals=tuple(intervals),
        totals=totals,
        covered_s=covered,
        begin_gauges=begin_gauges,
        end_gauges=end_gauges,
        resets=resets,
        impossible=impossible,
        queries=queries or {},
    )


def _chain(
    heads: Sequence[SnapshotHead], begin_id: int, end_id: int, store: str
) -> tuple[SnapshotHead, ...]:
    """Return the heads from the first to the last, or say why they do not form a period."""
    by_id = {head.id: head for head in heads}
    hint = "'pgflash snapshots' lists them."
    for wanted in (begin_id, end_id):
        if wanted not in by_id:
            there = f"it holds {heads[0].id} to {heads[-1].id}" if heads else "it holds none"
            raise PeriodError(f"there is no snapshot {wanted} in {store}: {there}", hint=hint)
    begin, end = by_id[begin_id], by_id[end_id]
    if begin_id == end_id:
        raise PeriodError(
            f"a period needs two snapshots, and both its ends are snapshot {begin_id}", hint=hint
        )
    if begin_id > end_id:
        raise PeriodError(
            f"snapshot {begin_id} was taken at {print_moment(begin.taken_at)}, after snapshot "
            f"{end_id} ({print_moment(end.taken_at)})",
            hint=f"Name the earlier one first: {end_id}..{begin_id}.",
        )
    chain = tuple(
        sorted((head for head in heads if begin_id <= head.id <= end_id), key=lambda head: head.id)
    )
    for before, after in itertools.pairwise(chain):
        if before.started_at != after.started_at or after.previous_id is None:
            raise _over_a_restart(chain, before, after, "the server was restarted")
        if before.taken_at >= after.taken_at:
            raise PeriodError(
                f"the clock was set back between the snapshots {before.id} "
                f"({print_moment(before.taken_at)}) and {after.id} "
                f"({print_moment(after.taken_at)}), so the time between them is not known",
                hint=_around(chain, before, after),
            )
    return chain


def _over_a_restart(
    chain: Sequence[SnapshotHead], before: SnapshotHead, after: SnapshotHead, what: str
) -> RestartError:
    return RestartError(
        f"{what} between the snapshots {before.id} ({print_moment(before.taken_at)}) and "
        f"{after.id} ({print_moment(after.taken_at)}), and its counters started over",
        before=before,
        after=after,
        hint=_around(chain, before, after),
    )


def _around(chain: Sequence[SnapshotHead], before: SnapshotHead, after: SnapshotHead) -> str:
    """Return what to ask for instead of a period that cannot contain BEFORE..AFTER."""
    parts = []
    if chain[0] is not before:
        parts.append(f"{chain[0].id}..{before.id}")
    if after is not chain[-1]:
        parts.append(f"{after.id}..{chain[-1].id}")
    if not parts:
        return "Take a snapshot now and another one later."
    return f"Ask for {' or '.join(parts)}."


def _impossible(snapshot_id: int, sections: Iterable[Section]) -> list[str]:
    return [
        f"{one} in snapshot {snapshot_id}" for section in sections for one in section.impossible
    ]


def _kept(found: Mapping[int, Section], chain: Sequence[SnapshotHead]) -> dict[int, Section]:
    """Return the deltas that begin at the beginning of their interval."""
    return {
        after.id: found[after.id]
        for before, after in itertools.pairwise(chain)
        if after.id in found and after.previous_id == before.id
    }


def _differences(
    name: str,
    first: Section | None,
    found: Mapping[int, Section],
    chain: Sequence[SnapshotHead],
) -> tuple[dict[int, Section], list[Reset]]:
    """Return what was counted in each interval with the section at both ends."""
    deltas: dict[int, Section] = {}
    resets: list[Reset] = []
    last, last_head = first, chain[0]
    for before, after in itertools.pairwise(chain):
        now = found.get(after.id)
        if now is None:
            last = last if _ends_are_enough(name) else None
            continue
        if last is not None:
            change = subtract(last, now)
            if change.restarted:
                at = last_head if _ends_are_enough(name) else before
                raise _over_a_restart(
                    chain, at, after, "the server's processes were restarted after a crash"
                )
            deltas[after.id] = change.section
            resets.extend(change.resets)
        last, last_head = now, after
    return deltas, resets


def _ends_are_enough(name: str) -> bool:
    """Tell whether the snapshots between a period's ends need not be read."""
    return name in SECTIONS and SECTIONS[name].ends


def _gauges(sections: Mapping[str, Section]) -> dict[str, Section]:
    """Return what is available from the ends: gauges, and the gauges within counters."""
    return {
        name: section
        for name, section in sections.items()
        if section.kind is SectionKind.GAUGE
        or (name in SECTIONS and SECTIONS[name].gauges and section.kind is SectionKind.COUNTER)
    }


def _query_ids(intervals: Iterable[Interval]) -> set[int]:
    found: set[int] = set()
    for interval in intervals:
        for name in ("statements", "statement_reads", "samples"):
            section = interval.deltas.get(name)
            column = section.column("query_id") if section else None
            found.update(int(number(one)) for one in column or () if one is not None)
    return found
