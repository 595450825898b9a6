# SPDX-License-Identifier: PostgreSQL
"""Moments and durations as people write them, and as we print them.

Every command reads times here:

    2026-11-22T10:00, 2026-11-22 10:00    with a zone or without, or the day alone
    10:00                                 the last time that clocks showed it; of an end, the first
                                          time after the begin
    yesterday, yesterday 10:00, today, now
    -1h, 1h ago                           in s, min, h or d

A time without a zone is in the server's (the setting TimeZone), as in psql; reports, lists and
messages print times in the same zone, and name it.
"""

import re
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"(\d{1,9})\s*(s|min|h|d)")
_LONGEST = timedelta(days=36_525)
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?")
_DAYS = {"today": 0, "yesterday": 1}


def read_duration(word: str) -> timedelta:
    """Return the time that a word says, such as 10min; raise ValueError if it says none."""
    found = _DURATION.fullmatch(word.strip())
    if found is None:
        raise ValueError(f'"{word}" is not a time; write it as 30s, 10min, 1h or 8d')
    length = timedelta(**{_UNITS[found[2]]: int(found[1])})
    if length > _LONGEST:
        raise ValueError(f'"{word}" is more than a hundred years')
    return length


def read_moment(word: str, *, now: datetime, after: datetime | None = None) -> datetime:
    """Return the moment that a word means, in the zone of NOW; raise ValueError if it means none.

    A time of day alone is the first one after AFTER, or the last one before NOW.
    """
    word = word.strip()
    if word == "now":
        return now
    ago = word.removeprefix("-") if word.startswith("-") else word.removesuffix(" ago")
    if ago != word:
        return _earlier(now, read_duration(ago))
    day, _, clock = word.partition(" ")
    if day in _DAYS:
        return _at(now - timedelta(days=_DAYS[day]), clock.strip() or "00:00")
    if _CLOCK.fullmatch(word):
        if after is not None:
            found = _at(after.astimezone(now.tzinfo), word)
            return found if found > after else _at(found + timedelta(days=1), word)
        found = _at(now, word)
        return found if found <= now else _at(found - timedelta(days=1), word)
    moment = datetime.fromisoformat(word)
    return moment.replace(tzinfo=now.tzinfo) if moment.tzinfo is None else moment


def zone_named(name: str | None) -> tzinfo:
    """Return a time zone by its name on the server; UTC for one that only PostgreSQL knows."""
    try:
        return ZoneInfo(name) if name and zone_name(name) != "UTC" else UTC
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        return UTC


def zone_name(name: str) -> str:
    """Return the name that is printed: UTC for each of the zones that are UTC."""
    plain = name.removeprefix("Etc/")
    return "UTC" if plain in ("UTC", "GMT", "UCT", "Universal", "Zulu", "Greenwich") else name


def print_moment(moment: datetime, zone: tzinfo = UTC) -> str:
    """Return a moment to the second, with its zone."""
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S} {zone}"


def print_clock(moment: datetime) -> str:
    """Return the time of day of a moment, with its zone: 10:00:00 UTC+05:45."""
    offset = moment.utcoffset() or timedelta()
    return f"{moment:%H:%M:%S} {timezone(offset).tzname(None)}"


def _at(day: datetime, clock: str) -> datetime:
    """Return a time of this day."""
    if not _CLOCK.fullmatch(clock):
        raise ValueError(f'"{clock}" is not a time of day')
    return datetime.combine(day.date(), time.fromisoformat(clock.zfill(5)), tzinfo=day.tzinfo)


def _earlier(now: datetime, by: timedelta) -> datetime:
    """Subtract seconds that passed, whatever the clock did meanwhile."""
    return (now.astimezone(UTC) - by).astimezone(now.tzinfo)
