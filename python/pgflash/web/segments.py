# SPDX-License-Identifier: PostgreSQL
"""What was asked of which files in the last quarter of an hour, by ten seconds.

The collector looks at the counts every ten seconds, while somebody watches; with very many files
less often, so that it costs little.  Only what changed between two looks is kept, those that took
most time one by one and the rest together, so memory is bounded.  A stretch gets of each
interval that it shares time with as much as the time that they share.

Locking: intervals are replaced whole by the collector's thread; readers take the tuple as it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from heapq import nlargest
from operator import sub

from pgflash.analyze.words import count, percent, size
from pgflash.collect.segments import FILES_MAX
from pgflash.model.live import FileCount, FileKey, FileRow, StretchRow

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
        self._before: tuple[datetime, Mapping[FileKey, FileRow]] | None = None

    def forget(self) -> None:
        """Take no difference with what was before: the server may have begun to count anew."""
        self._before = None

    def clear(self) -> None:
        """Forget all: it was asked of another server's files."""
        self._before, self._intervals = None, ()

    def look(self, at: datetime, counts: Mapping[FileKey, FileRow]) -> None:
        """Take up what was counted at a moment."""
        before, self._before = self._before, (at, counts)
        if before is None or at <= before[0]:
            return
        # Of a file that may have been left out before it is not known what it has of now.
        new = _NOTHING if len(before[1]) < FILES_MAX else None
        changed = {
            key: FileCount(**dict(zip(_NAMES, map(sub, now, earlier), strict=True)))
            for key, now in counts.items()
            if (earlier := before[1].get(key, new)) is not None and now != earlier
        }
        # What began to count anew tells nothing of the time between.
        sound = {key: one for key, one in changed.items() if one.reads >= 0 and one.writes >= 0}
        self._intervals = (*self._intervals, (before[0], at, _most(sound)))[-INTERVALS_MAX:]

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
