# SPDX-License-Identifier: PostgreSQL
"""Which period is meant: snapshots by name, by time, or the last ones.

A time means the snapshot nearest to it, since scheduled ones are taken a moment after the hour; the
report says what was requested.  Named snapshots are used or refused.  If none was named, a restart
of the server shortens the period: its last complete part is used, and the report says so, because
after a restart a report is needed most.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo

from pgflash.analyze.period import Period, PeriodError, RestartError, make_period, zone_of
from pgflash.errors import UsageError
from pgflash.model.moments import print_moment, read_moment
from pgflash.model.snapshot import SnapshotHead, SnapshotStore, find_head, heads_around

#: The ends of a period may be off by this, or by a tenth of the requested length, without a
#: finding.
OFF_MAX = timedelta(minutes=1)

_Heads = Sequence[SnapshotHead]


def choose_period(store: SnapshotStore, *, now: datetime, begin: str = "", end: str = "") -> Period:
    """Return the period between two snapshots as a person names them.

    A name is an id, first, last, last-N or a time.  The default end is the last snapshot, the
    default begin the one before the end.  Raises PeriodError if they do not form a period.
    """
    heads = store.list()
    find_head(heads, "last", store=store.name)  # or there is none
    zone = server_zone(store, heads)
    now = now.astimezone(zone)
    since = until = None
    if begin:
        first, since = _meant(heads, begin, now, None, store.name)
    last, until = _meant(heads, end or "last", now, since, store.name)
    if not begin:
        first = _before(heads, last, store.name)
    if first.id == last.id and (since or until):
        raise PeriodError(
            f"the nearest snapshot to both ends is {first.id}, of "
            f"{print_moment(first.taken_at, zone)}",
            hint="Ask for a longer time: 'pgflash snapshots' lists them.",
        )
    named = (begin and since is None) or (end and until is None)
    period = _whole(store, heads, first, last, cut=not named, alone=not begin)
    return _told(period, since, until)


def choose_around(store: SnapshotStore, begin: datetime, end: datetime) -> Period:
    """Return the period between the snapshots that lie around two times."""
    heads = store.list()
    first, last = heads_around(heads, begin, end, store=store.name)
    period = _whole(store, heads, first, last, cut=True, alone=False)
    return _told(period, begin, end, around=True)


def server_zone(store: SnapshotStore, heads: Sequence[SnapshotHead]) -> tzinfo:
    """Return the time zone of the server as of the last snapshot."""
    found = store.sections_between(heads[-1].id - 1, heads[-1].id, "settings") if heads else ()
    return zone_of(found[-1][1].records() if found else ())


def _meant(
    heads: _Heads, word: str, now: datetime, after: datetime | None, store: str
) -> tuple[SnapshotHead, datetime | None]:
    """Return the snapshot that a word means, and the time in the zone of NOW if it is one."""
    named = find_head(heads, word, store=store)
    if named is not None:
        return named, None
    try:
        moment = read_moment(word, now=now, after=after).astimezone(now.tzinfo)
    except (ValueError, OverflowError):
        raise UsageError(
            f'"{word}" is not a snapshot',
            hint="Name one by its id, by first, last or last-1, or by a time such as 10:00, "
            "2026-11-22T10:00, yesterday or -1h.",
        ) from None
    return min(heads, key=lambda head: abs(head.taken_at - moment)), moment


def _before(heads: _Heads, last: SnapshotHead, store: str) -> SnapshotHead:
    earlier = [head for head in heads if head.id < last.id]
    if not earlier:
        raise UsageError(
            f"there is no snapshot before {last.id} in {store}",
            hint="A period needs two: take another with pgflash snapshot.",
        )
    return earlier[-1]


def _whole(
    store: SnapshotStore,
    heads: _Heads,
    first: SnapshotHead,
    last: SnapshotHead,
    *,
    cut: bool,
    alone: bool,
) -> Period:
    """Return the period; over a restart, if it may be cut, its last whole part.

    With ALONE any two snapshots that follow one another will do.
    """
    met: RestartError | None = None
    while True:
        try:
            period = make_period(store, first.id, last.id)
        except RestartError as restart:
            met = met or restart
            earlier = [head for head in heads if head.id < restart.before.id]
            if not cut:
                raise
            if restart.after.id != last.id:
                first = restart.after
            elif restart.before.id != first.id:
                last = restart.before
            elif alone and earlier:
                first, last = earlier[-1], restart.before
            else:
                raise met from None
            continue
        if met is None:
            return period
        return replace(
            period,
            not_as_asked=f"The server was restarted between the snapshots {met.before.id} "
            f"({print_moment(met.before.taken_at, period.zone)}) and {met.after.id} "
            f"({print_moment(met.after.taken_at, period.zone)}): this is the last whole period, "
            f"{period.begin.id} to {period.end.id}.",
        )


def _told(
    period: Period, since: datetime | None, until: datetime | None, *, around: bool = False
) -> Period:
    """Return the period with the times that were asked for, and how far it is from them."""
    if since is None and until is None:
        return period
    zone = period.zone
    parts = [
        f"{word} {print_moment(moment, zone)}"
        for word, moment in (("from", since), ("to", until))
        if moment is not None
    ]
    asked = " ".join(parts)
    off = max(
        abs(head.taken_at - moment)
        for head, moment in ((period.begin, since), (period.end, until))
        if moment is not None
    )
    allowed = max(OFF_MAX, ((until or period.end.taken_at) - (since or period.begin.taken_at)) / 10)
    said = period.not_as_asked
    if not said and not around and off > allowed:
        said = (
            f"Asked for was the time {asked}; no snapshots are nearer than those of "
            f"{print_moment(period.begin.taken_at, zone)} and "
            f"{print_moment(period.end.taken_at, zone)}."
        )
    return replace(period, asked=asked, not_as_asked=said)
