# SPDX-License-Identifier: PostgreSQL
"""The requests to each file in the last quarter of an hour, in intervals of ten seconds.

While there are viewers, the collector reads the counts that have changed every ten seconds, or less
often if very many files change, to limit the cost.  To limit memory, an interval keeps the files
that took most time one by one, and the sum of the others.  A time range gets a part of each
interval, in proportion to their common time.

Locking: the collector's thread replaces the tuple of intervals; readers use the tuple they find.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from heapq import nlargest
from operator import add, sub

from pgflash.collect.segments import FILES_MAX
from pgflash.model.live import FileChange, FileCount, FileKey, FileRow, Span, TimeRangeRow
from pgflash.model.words import count, percent, size

#: How often the counts are read, in samples.
EVERY = 10
INTERVALS_MAX = 90
#: Files of an interval that are kept one by one.
FILES_KEPT = 200
ROWS_MAX = 10
#: The key of the sum of all others.
OTHERS: FileKey = (0, 0, 0)

_NAMES = tuple(one.name for one in fields(FileCount))
_NOTHING: FileRow = (0.0,) * len(_NAMES)
_Interval = tuple[datetime, datetime, dict[FileKey, FileCount]]


class Segments:
    """Keeps the requests to files."""

    def __init__(self) -> None:
        """Start without counts."""
        self._intervals: tuple[_Interval, ...] = ()
        self._looked_at: datetime | None = None
        #: By position in the server's table: the file and its counts when last read.
        self._known: dict[int, tuple[FileKey, FileRow]] = {}

    def forget(self) -> None:
        """Do not compare with earlier counts: the server may have restarted its counters."""
        self._looked_at = None
        self._known.clear()

    def clear(self) -> None:
        """Forget everything: the counts belong to another server's files."""
        self.forget()
        self._intervals = ()

    def look(self, at: datetime, changes: Iterable[FileChange]) -> None:
        """Add the interval since the last call, from the counts that have changed since."""
        before, self._looked_at = self._looked_at, at
        asked = self._learn(changes)
        if before is None or at <= before:
            return
        # A counter that was reset says nothing about the time in between.
        counts = (
            (key, FileCount(**dict(zip(_NAMES, row, strict=True)))) for key, row in asked.items()
        )
        sound = {key: one for key, one in counts if one.reads >= 0 and one.writes >= 0}
        self._intervals = (*self._intervals, (before, at, _most(sound)))[-INTERVALS_MAX:]

    def _learn(self, changes: Iterable[FileChange]) -> dict[FileKey, FileRow]:
        """Return by how much each file's counts have grown since they were last read."""
        asked: dict[FileKey, FileRow] = {}
        for place, key, now in changes:
            known = self._known.get(place)
            if known is None and len(self._known) >= FILES_MAX:
                continue
            self._known[place] = (key, now)
            earlier = known[1] if known is not None and known[0] == key else _NOTHING
            if now != earlier:
                more = map(sub, now, earlier)
                asked[key] = tuple(map(add, asked.get(key, _NOTHING), more))
        return asked

    def within(self, begin: datetime, end: datetime) -> dict[FileKey, FileCount]:
        """Return the requests to files in a time range."""
        found: dict[FileKey, FileCount] = {}
        for _shared, share, (_first, _last, counts) in self._shared(begin, end):
            for key, one in counts.items():
                found[key] = _combined(found.get(key, FileCount()), one, share)
        return found

    def over_time(self, begin: datetime, end: datetime, keys: Collection[FileKey]) -> list[Span]:
        """Return the seconds of waiting per second for these files, interval by interval."""
        return [
            Span(
                at=min(last, end).isoformat(),
                elapsed_s=shared.total_seconds(),
                files={
                    what: sum(getattr(counts[key], f"{what}_ms") for key in keys if key in counts)
                    / (last - first).total_seconds()
                    / 1000
                    for what in ("read", "write")
                },
            )
            for shared, _share, (first, last, counts) in self._shared(begin, end)
        ]

    def _shared(
        self, begin: datetime, end: datetime
    ) -> Iterator[tuple[timedelta, float, _Interval]]:
        """Yield each interval that overlaps a range, with the overlap in time and as a share."""
        for interval in self._intervals:
            first, last, _counts = interval
            shared = min(last, end) - max(first, begin)
            if shared > timedelta(0):
                yield shared, shared / (last - first), interval


def _most(counts: dict[FileKey, FileCount]) -> dict[FileKey, FileCount]:
    """Return the files that took most time, and the sum of the others."""
    if len(counts) <= FILES_KEPT:
        return counts
    kept = nlargest(FILES_KEPT, counts, key=lambda key: counts[key].time_ms)
    found = {key: counts.pop(key) for key in kept}
    for one in counts.values():
        found[OTHERS] = _combined(found.get(OTHERS, FileCount()), one, 1.0)
    return found


def top_files(found: Mapping[FileKey, FileCount]) -> list[FileKey]:
    """Return the files that took most time."""
    return sorted(found, key=lambda key: -found[key].time_ms)[:ROWS_MAX]


def rows(
    found: Mapping[FileKey, FileCount], names: Mapping[FileKey, str], keys: Iterable[FileKey]
) -> tuple[TimeRangeRow, ...]:
    """Return these files' rows for a page."""
    total_ms = sum(one.time_ms for one in found.values())
    return tuple(
        TimeRangeRow(
            name=names.get(key, str(key[2])),
            detail=_words(found[key]),
            wait_class="reads" if found[key].read_ms >= found[key].write_ms else "writes",
            seconds=found[key].time_ms / 1000,
            share=found[key].time_ms / total_ms if total_ms > 0 else 0.0,
        )
        for key in keys
    )


def _words(one: FileCount) -> str:
    parts = []
    if one.reads >= 0.5:
        flash = f", {percent(one.flash_reads / one.reads)} from flash" if one.flash_reads else ""
        parts.append(f"{count(one.reads)} reads of {size(one.read_bytes)}{flash}")
    if one.writes >= 0.5:
        parts.append(f"{count(one.writes)} writes of {size(one.write_bytes)}")
    return "; ".join(parts)


def _combined(one: FileCount, other: FileCount, times: float) -> FileCount:
    return FileCount(**{name: getattr(one, name) + times * getattr(other, name) for name in _NAMES})
