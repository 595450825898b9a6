# SPDX-License-Identifier: PostgreSQL
"""People name snapshots by id or by place."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pgflash.errors import PgflashError
from pgflash.model.snapshot import (
    Section,
    SectionKind,
    SnapshotError,
    SnapshotHead,
    find_head,
    heads_around,
    parse_time,
)

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def head(number: int) -> SnapshotHead:
    return SnapshotHead(
        id=number,
        taken_at=NOON + timedelta(minutes=10 * number),
        started_at=NOON,
        previous_id=number - 1 or None,
        took_ms=12.0,
        origin="schedule",
        server_version_num=180_006,
        extension_version="0.1",
    )


#: Number 2 is gone: ids have gaps.
HEADS = (head(1), head(3), head(4))


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("first", 1),
        ("last", 4),
        ("last-0", 4),
        ("last-1", 3),
        ("3", 3),
    ],
)
def test_a_word_finds_its_snapshot(word: str, found: int) -> None:
    head = find_head(HEADS, word)
    assert head is not None
    assert head.id == found


@pytest.mark.parametrize("word", ["2", "0", "99", "last-3"])
def test_what_is_not_there_is_said_with_what_there_is(word: str) -> None:
    with pytest.raises(SnapshotError, match="there is no snapshot") as caught:
        find_head(HEADS, word)
    assert caught.value.exit_code == 1
    assert caught.value.hint


@pytest.mark.parametrize("word", ["yesterday", "", "last-", "last-x", "-1", "1.5", "10:00"])
def test_any_other_word_names_none(word: str) -> None:
    assert find_head(HEADS, word) is None


def test_an_empty_store_says_how_to_begin() -> None:
    with pytest.raises(PgflashError, match="there are no snapshots in /tmp/x") as caught:
        find_head((), "last", store="/tmp/x")
    assert "pgflash snapshot" in caught.value.hint


def test_a_time_without_a_zone_is_local() -> None:
    assert parse_time("2026-11-22T12:00").tzinfo is not None
    assert parse_time("2026-11-22T12:00+00:00") == NOON


def test_a_section_gives_records_and_columns() -> None:
    section = Section(
        name="io",
        kind=SectionKind.COUNTER,
        columns=("source", "calls"),
        rows=(("disk", 3), ("flash", 4)),
    )
    assert section.records() == [{"source": "disk", "calls": 3}, {"source": "flash", "calls": 4}]
    assert section.column("calls") == (3, 4)
    assert section.column("bytes") is None


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [
        (10, 30, (1, 3)),
        (11, 29, (1, 3)),
        (11, 31, (1, 4)),
        (31, 39, (3, 4)),
        (31, 99, (3, 4)),  # nothing is known after the last one
    ],
)
def test_the_snapshots_around_a_range(begin: float, end: float, found: tuple[int, int]) -> None:
    first, last = heads_around(HEADS, at(begin), at(end))
    assert (first.id, last.id) == found


def test_the_second_snapshot_is_later_though_the_clock_was_set_back() -> None:
    # Taken at 12:10, 12:40, and after the clock was set back at 12:15 and 12:30.
    times = {1: 10, 2: 40, 3: 15, 4: 30}
    heads = [replace(HEADS[0], id=one, taken_at=at(minute)) for one, minute in times.items()]
    for begin, end, found in ((16, 35, (3, 4)), (12, 35, (1, 2)), (16, 20, (3, 4))):
        first, last = heads_around(heads, at(begin), at(end))
        assert (first.id, last.id) == found


@pytest.mark.parametrize(
    ("begin", "end", "sentence"),
    [
        (9, 20, "there is no snapshot at or before 2026-11-22 12:09:00 UTC"),
        (40, 50, "no snapshot has been taken since 2026-11-22 12:40:00 UTC"),
        (45, 46, "no snapshot has been taken since 2026-11-22 12:40:00 UTC"),
    ],
)
def test_a_range_that_no_two_snapshots_are_around_is_refused(
    begin: float, end: float, sentence: str
) -> None:
    with pytest.raises(SnapshotError, match=sentence):
        heads_around(HEADS, at(begin), at(end))
    with pytest.raises(SnapshotError, match="there are no snapshots"):
        heads_around((), at(begin), at(end))
