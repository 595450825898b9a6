# SPDX-License-Identifier: PostgreSQL
"""What was asked of which files in the last quarter of an hour, by ten seconds.

The collector looks every ten seconds what has changed, while somebody watches; where very much
does less often, so that it costs little.  What was asked between two looks is kept, those that
took most time one by one and the rest together, so memory is bounded.  A stretch gets of each
interval that it shares time with as much as the time that they share.

Locking: intervals are replaced whole by the collector's thread; readers take the tuple as it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from heapq import nlargest
from operator import add, sub

from pgflash.analyze.words import count, percent
from pgflash.collect.segments import FILES_MAX
from pgflash.model.live import FileChange, FileCount, FileKey, FileRow, StretchRow
from pgflash.model.sizes import size

#: How often the counts are looked at, in samples.
EVERY = 10
INTERVALS_MAX = 90
#: Files of an interval that are kept one by one.
FILES_KEPT = 200
ROWS_MAX = 10
#: All others together.
OTHERS: FileKey = (0, 0, 0)

_NAMES = tuple(one.name for one in fields(FileCount))
_NOTHING: FileRow = (0.0,) * len(_NAMES)
_Interval = tuple[datetime, datetime, dict[FileKey, FileCount]]


class Segments:
    """Keeps what was asked of files."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._intervals: tuple[_Interval, ...] = ()
        self._looked_at: datetime | None = None
        #: By place, as it was when it last changed.
        self._known: dict[int, tuple[FileKey, FileRow]] = {}

    def forget(self) -> None:
        """Take no difference with what was before: the server may have begun to count anew."""
        self._looked_at = None
        self._known.clear()

    def clear(self) -> None:
        """Forget all: it was asked of another server's files."""
        self.forget()
        self._intervals = ()

    def look(self, at: datetime, changes: Iterable[FileChange]) -> None:
        """Take up what has changed since the last look; at the first one all has."""
        before, self._looked_at = self._looked_at, at
        asked = self._learn(changes)
        if before is None or at <= before:
            return
        # What began to count anew tells nothing of the time between.
        counts = (
            (key, FileCount(**dict(zip(_NAMES, row, strict=True)))) for key, row in asked.items()
        )
        sound = {key: one for key, one in counts if one.reads >= 0 and one.writes >= 0}
        self._intervals = (*self._intervals, (before, at, _most(sound)))[-INTERVALS_MAX:]

    def _learn(self, changes: Iterable[FileChange]) -> dict[FileKey, FileRow]:
        """Return by how much counts differ from what was known of their places."""
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
        """Return what was asked of files in a stretch of time."""
        found: dict[FileKey, FileCount] = {}
        for first, last, counts in self._intervals:
            shared = min(last, end) - max(first, begin)
            if shared > timedelta(0):
                share = shared / (last - first)
                for key, one in counts.items():
                    found[key] = _combined(found.get(key, FileCount()), one, share)
        return found


def _most(counts: dict[FileKey, FileCount]) -> dict[FileKey, FileCount]:
    """Return those that took most time, and the others together."""
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
) -> tuple[StretchRow, ...]:
    """Return what a page shows of these files."""
    total_ms = sum(one.time_ms for one in found.values())
    return tuple(
        StretchRow(
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
