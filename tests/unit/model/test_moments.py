# SPDX-License-Identifier: PostgreSQL
"""A time is read as psql's users write it, and printed with its zone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from pgflash.model.moments import (
    print_clock,
    print_moment,
    read_duration,
    read_moment,
    zone_named,
)

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 23, 9, 30, tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("2026-11-22T10:00", "2026-11-22T10:00+01:00"),
        ("2026-11-22 10:00:05", "2026-11-22T10:00:05+01:00"),
        ("2026-11-22T10:00Z", "2026-11-22T10:00+00:00"),
        ("2026-11-22 10:00-05:00", "2026-11-22T10:00-05:00"),
        ("2026-11-22", "2026-11-22T00:00+01:00"),
        ("9:00", "2026-11-23T09:00+01:00"),
        ("10:00", "2026-11-22T10:00+01:00"),  # not yet today
        ("09:30:00", "2026-11-23T09:30+01:00"),
        ("now", "2026-11-23T09:30+01:00"),
        ("today", "2026-11-23T00:00+01:00"),
        ("today 08:15", "2026-11-23T08:15+01:00"),
        ("yesterday", "2026-11-22T00:00+01:00"),
        (" yesterday 23:00 ", "2026-11-22T23:00+01:00"),
        ("-1h", "2026-11-23T08:30+01:00"),
        ("1h ago", "2026-11-23T08:30+01:00"),
        ("-90 min", "2026-11-23T08:00+01:00"),
        ("-2d", "2026-11-21T09:30+01:00"),
    ],
)
def test_a_word_means_a_time_of_the_server_s_zone(word: str, meant: str) -> None:
    assert read_moment(word, now=NOW) == datetime.fromisoformat(meant)


@pytest.mark.parametrize(
    ("begin", "end", "lasts"),
    [
        ("yesterday 23:00", "01:00", timedelta(hours=2)),
        ("2026-11-20T10:00", "11:00", timedelta(hours=1)),
        ("9:00", "10:00", timedelta(hours=1)),  # the end has not come yet
        ("10:00", "10:00", timedelta(days=1)),
    ],
)
def test_a_time_of_day_that_is_an_end_follows_the_begin(
    begin: str, end: str, lasts: timedelta
) -> None:
    first = read_moment(begin, now=NOW)
    assert read_moment(end, now=NOW, after=first) - first == lasts


def test_an_hour_ago_is_an_hour_though_clocks_were_set_back_meanwhile() -> None:
    now = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN)
    assert now.astimezone(UTC) - read_moment("-1h", now=now).astimezone(UTC) == timedelta(hours=1)


@pytest.mark.parametrize(
    "word", ["", "someday", "tomorrow", "-1", "1.5", "25:00", "10:61", "yesterday x", "-1w", "1 h"]
)
def test_a_word_that_means_no_time_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_moment(word, now=NOW)


def test_a_duration_has_a_unit() -> None:
    assert read_duration("10min") == timedelta(minutes=10)
    assert read_duration("36525d") == timedelta(days=36525)
    with pytest.raises(ValueError, match="a hundred years"):
        read_duration("36526d")
    with pytest.raises(ValueError, match="write it as 30s, 10min, 1h or 8d"):
        read_duration("10")


def test_a_moment_is_printed_with_its_zone() -> None:
    noon = datetime(2026, 11, 22, 12, tzinfo=UTC)
    assert print_moment(noon) == "2026-11-22 12:00:00 UTC"
    assert print_moment(noon, BERLIN) == "2026-11-22 13:00:00 Europe/Berlin"


def test_a_time_of_day_is_printed_with_its_zone() -> None:
    noon = datetime(2026, 11, 22, 12, tzinfo=UTC)
    assert print_clock(noon) == "12:00:00 UTC"
    assert print_clock(noon.astimezone(BERLIN)) == "13:00:00 UTC+01:00"


@pytest.mark.parametrize(
    "name", ["UTC", "Etc/UTC", "GMT", "<+03>-03", "../../etc/passwd", "", None]
)
def test_a_zone_that_nobody_else_knows_is_utc(name: str | None) -> None:
    assert zone_named(name) is UTC
