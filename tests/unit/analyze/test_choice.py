# SPDX-License-Identifier: PostgreSQL
"""A period named by times becomes the nearest snapshots, and a finding says which."""

from datetime import timedelta

import pytest

from pgflash.analyze import (
    Period,
    PeriodError,
    choose_around,
    choose_period,
    make_report,
    server_zone,
)
from pgflash.analyze.findings import OTHER_PERIOD
from pgflash.errors import UsageError
from support.periods import EPOCH, Shelf

#: The scheduled snapshots of an hour and a half: each a moment after its time.
LATE_MIN = 0.2 / 60
NOW = EPOCH + timedelta(hours=3)


def shelf(*, zone: str = "Etc/UTC", restarts: tuple[int, ...] = ()) -> Shelf:
    """Return snapshots of every ten minutes; after RESTARTS (ids) the server was another."""
    store, started = Shelf(), -60
    for number in range(10):
        if number + 1 in restarts:
            started = 10 * number - 5
        settings = [{"name": "TimeZone", "setting": zone, "source": "configuration file"}]
        store.put(
            10 * number + LATE_MIN,
            {"settings": settings},
            started_minute=started,
            linked=number + 1 not in restarts,
        )
    return store


def chosen(store: Shelf, begin: str = "", end: str = "") -> Period:
    return choose_period(store, begin=begin, end=end, now=NOW)


def ids(period: Period) -> tuple[int, int]:
    return period.begin.id, period.end.id


def said(period: Period) -> list[str]:
    """Return the finding about the period."""
    return [one.sentence for one in make_report(period).findings if one.rule == OTHER_PERIOD]


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [
        ("", "", (9, 10)),
        ("last-3", "", (7, 10)),
        ("2", "4", (2, 4)),
        ("", "4", (3, 4)),
        ("12:10", "13:00", (2, 7)),
        ("2026-03-01T12:10", "2026-03-01T13:00", (2, 7)),
        ("12:10", "", (2, 10)),
        ("12:10", "last-1", (2, 9)),
        ("-2h", "14:00", (7, 10)),
        ("12:14", "12:26", (2, 4)),
    ],
)
def test_a_time_means_the_nearest_snapshot(begin: str, end: str, found: tuple[int, int]) -> None:
    assert ids(chosen(shelf(), begin, end)) == found


def test_the_head_says_what_was_asked_and_a_finding_if_it_is_not_what_it_is() -> None:
    near = chosen(shelf(), "12:10", "13:00")
    assert near.asked == "from 2026-03-01 12:10:00 UTC to 2026-03-01 13:00:00 UTC"
    assert make_report(near).head.asked == near.asked
    assert said(near) == []
    far = chosen(shelf(), "11:00", "13:00")
    assert ids(far) == (1, 7)
    assert said(far) == [
        "Asked for was the time from 2026-03-01 11:00:00 UTC to 2026-03-01 13:00:00 UTC; no "
        "snapshots are nearer than those of 2026-03-01 12:00:00 UTC and 2026-03-01 13:00:00 UTC."
    ]
    assert chosen(shelf(), "2", "4").asked == ""


def test_times_are_read_and_told_in_the_server_s_zone() -> None:
    store = shelf(zone="America/New_York")
    period = chosen(store, "07:10", "08:00")
    assert ids(period) == (2, 7)
    assert "from 2026-03-01 07:10:00 America/New_York" in period.asked
    head = make_report(period).head
    assert (head.begin_at, head.time_zone) == ("2026-03-01T07:10:00-05:00", "America/New_York")
    assert str(server_zone(store, store.list())) == "America/New_York"


def test_a_zone_of_the_client_that_took_the_snapshot_is_not_the_server_s() -> None:
    store = Shelf()
    own = {"name": "TimeZone", "setting": "Asia/Tokyo", "source": "client"}
    store.put(0, {"settings": [own]})
    assert str(server_zone(store, store.list())) == "UTC"


@pytest.mark.parametrize(("begin", "end"), [("12:11", "12:14"), ("15:00", "")])
def test_two_ends_with_one_snapshot_are_no_period(begin: str, end: str) -> None:
    with pytest.raises(PeriodError, match="the nearest snapshot to both ends is"):
        chosen(shelf(), begin, end)


def test_a_word_that_means_nothing_is_a_wrong_question() -> None:
    with pytest.raises(UsageError, match='"someday" is not a snapshot') as caught:
        chosen(shelf(), "someday")
    assert "10:00" in caught.value.hint


@pytest.mark.parametrize("word", ["0001-01-01T00:00+05:00", "9999-12-31T23:59-05:00"])
def test_a_time_that_the_server_s_calendar_lacks_is_a_wrong_question(word: str) -> None:
    with pytest.raises(UsageError, match="is not a snapshot"):
        chosen(shelf(), word)


def test_a_time_of_another_zone_is_told_in_the_server_s() -> None:
    period = chosen(shelf(), "2026-03-01T14:10+02:00", "2026-03-01T15:00+02:00")
    assert ids(period) == (2, 7)
    assert period.asked == "from 2026-03-01 12:10:00 UTC to 2026-03-01 13:00:00 UTC"


@pytest.mark.parametrize(
    ("restarts", "begin", "end", "found"),
    [
        ((10,), "", "", (8, 9)),  # only one snapshot since the restart
        ((10, 9), "", "", (7, 8)),
        ((5,), "", "", (9, 10)),
        ((5,), "12:00", "", (5, 10)),
        ((5, 8), "12:00", "13:30", (8, 10)),
        ((10,), "12:30", "", (4, 9)),
    ],
)
def test_a_restart_leaves_the_last_whole_period(
    restarts: tuple[int, ...], begin: str, end: str, found: tuple[int, int]
) -> None:
    period = chosen(shelf(restarts=restarts), begin, end)
    assert ids(period) == found
    told = said(period)
    if restarts == (5,) and not begin:
        assert told == []
    else:
        assert told[0].startswith("The server was restarted between the snapshots ")
        assert told[0].endswith(f"this is the last whole period, {found[0]} to {found[1]}.")


@pytest.mark.parametrize(("begin", "end"), [("1", ""), ("last-6", ""), ("", "5"), ("4", "5")])
def test_snapshots_that_were_named_are_not_taken_for_others(begin: str, end: str) -> None:
    with pytest.raises(PeriodError, match="restarted between the snapshots 4 "):
        chosen(shelf(restarts=(5,)), begin, end)


def test_where_no_two_snapshots_have_one_server_there_is_no_period() -> None:
    with pytest.raises(PeriodError, match=r"restarted between the snapshots 9 .* and 10 "):
        chosen(shelf(restarts=tuple(range(2, 11))))


def test_a_range_over_a_restart_is_cut_too() -> None:
    begin, end = EPOCH + timedelta(minutes=5), EPOCH + timedelta(minutes=85)
    period = choose_around(shelf(restarts=(5,)), begin, end)
    assert ids(period) == (5, 10)
    assert period.asked.startswith("from 2026-03-01 12:05:00 UTC")
    assert said(choose_around(shelf(), begin, end)) == []
