# SPDX-License-Identifier: PostgreSQL
"""The papers' tables of events and classes, computed by our report.

From a row's waits and total time alone the report's own functions must print the paper's
average wait, share of DB time and average sessions, within the paper's rounding; and errors of a
paper must be found.
"""

import pytest

from pgflash.analyze.consistency import (
    EventSpans,
    Span,
    contradictions,
    db_time_of,
    elapsed_of,
)
from pgflash.analyze.dbtime import TimePart, compose
from pgflash.analyze.events import top_events, wait_classes
from pgflash.model.awr import ReportTable, Source, plain
from pgflash.model.waits import WaitClass
from support import papers
from support.printed import middle, printed_row, span

EVENT_TABLES = {
    "000 figure 4": papers.EVENTS_000_4,
    "000 figure 7": papers.EVENTS_000_7,
    "000 figure 9": papers.EVENTS_000_9,
    "000 figure 11": papers.EVENTS_000_11,
    "001 disk": papers.EVENTS_001_DISK,
    "001 flash": papers.EVENTS_001_FLASH,
    "002 table 2": papers.EVENTS_002_DISK,
    "002 table 4": papers.EVENTS_002_FLASH,
}


def events(rows: tuple[papers.Event, ...]) -> list[EventSpans]:
    return [printed_row(*row) for row in rows]


def classes(rows: tuple[papers.Event, ...]) -> list[EventSpans]:
    """Return rows of classes: the last number is average sessions."""
    return [printed_row(*row[:5], sessions=row[5]) for row in rows]


def cells(table: ReportTable, name: str) -> dict[str, float | None]:
    for row in table.rows:
        if row.cells[0] == name:
            found = {}
            for column, cell in zip(table.columns, row.cells, strict=True):
                value = plain(cell)
                found[column.name] = value if isinstance(value, (int, float)) else None
            return found
    raise AssertionError(name)


def tables_of(
    row: EventSpans, wait_class: WaitClass, db_time: Span, elapsed: Span
) -> list[ReportTable]:
    """Return our table with the row in it: at the lowest and the highest it may have been."""
    made = []
    for total, whole, all_of_it in (
        (row.total_s.low, db_time.high, elapsed.high),
        (row.total_s.high, db_time.low, elapsed.low),
    ):
        part = TimePart(
            event=row.name,
            wait_class=wait_class,
            total_s=total,
            source=Source.EXACT,
            waits=None if row.waits is None else int(middle(row.waits)),
        )
        composition = compose([part], db_time_s=whole, elapsed_s=all_of_it)
        made.append(
            wait_classes(composition) if row.sessions is not None else top_events(composition)
        )
    return made


def assert_printed(low: float | None, high: float | None, printed: Span | None) -> None:
    if printed is None:
        return
    assert low is not None
    assert high is not None
    assert Span(low=low, high=high).meets(printed), f"{low} to {high}, printed {printed}"


@pytest.mark.parametrize("name", EVENT_TABLES)
def test_events_come_out_as_printed(name: str) -> None:
    rows = events(EVENT_TABLES[name])
    db_time = db_time_of(rows)
    assert db_time is not None
    hour = Span(low=3600, high=3600)
    for row in rows:
        wait_class = WaitClass(row.wait_class) if row.wait_class else WaitClass.CPU
        at_low, at_high = (
            cells(table, row.name) for table in tables_of(row, wait_class, db_time, hour)
        )
        assert_printed(at_low["mean_ms"], at_high["mean_ms"], row.mean_ms)
        assert_printed(at_low["share"], at_high["share"], row.share)


@pytest.mark.parametrize(
    "rows", [papers.CLASSES_000_3, papers.CLASSES_002_DISK, papers.CLASSES_002_FLASH]
)
def test_classes_come_out_as_printed(rows: tuple[papers.Event, ...]) -> None:
    printed = classes(rows)
    db_time, elapsed = db_time_of(printed), elapsed_of(printed)
    assert db_time is not None
    assert elapsed is not None
    ours = {one.value: one for one in WaitClass} | {"DB CPU": WaitClass.CPU}
    for row in printed:
        # Scheduler is the one class of the papers that PostgreSQL has no events for.
        wait_class = ours.get(row.name, WaitClass.OTHER)
        at_low, at_high = (
            cells(table, wait_class.value) for table in tables_of(row, wait_class, db_time, elapsed)
        )
        if row.waits is not None:
            assert_printed(at_low["mean_ms"], at_high["mean_ms"], row.mean_ms)
        assert_printed(at_low["share"], at_high["share"], row.share)
        assert_printed(at_low["sessions"], at_high["sessions"], row.sessions)


def test_the_latches_of_paper_001_do_not_take_0_931_ms() -> None:
    (found,) = contradictions([*events(papers.EVENTS_001_FLASH), printed_row(*papers.LATCHES_001)])
    assert found.startswith("latch: cache buffers chains: 32 s in 343,567 waits")
    assert found.endswith("not 0.931 ms")


def test_a_flash_read_of_paper_001_takes_0_352_ms_and_not_the_35_us_of_its_text() -> None:
    name, waits, total, mean, share, wait_class = papers.EVENTS_001_FLASH[0]
    assert mean == "0.352"
    assert contradictions([printed_row(name, waits, total, mean, share, wait_class)]) == ()
    (found,) = contradictions([printed_row(name, waits, total, "0.035", share, wait_class)])
    assert f"{1000 * 7_556 / 21_467_471:.6g} ms each, not 0.035 ms" in found


@pytest.mark.parametrize("rows", [papers.CLASSES_002_DISK, papers.CLASSES_002_FLASH])
def test_the_shifted_headings_of_paper_002_are_refused(rows: tuple[papers.Event, ...]) -> None:
    # Its headings call the last column "Wait Class"; it contains sessions.
    found = contradictions(events(rows))
    assert [sentence.split(": ")[1] for sentence in found[: len(rows)]] == [
        f"{row[5]} is no wait class" for row in rows
    ]
    with pytest.raises(ValueError, match=r"2\.1|1\.2"):
        WaitClass(rows[0][5])


def test_the_text_of_paper_000_does_not_agree_with_its_own_figure_3() -> None:
    # "Log file sync used 34.9 percent of the database time", at 17.51 ms.
    user_io = printed_row(*papers.CLASSES_000_3[0][:5])
    (share,) = contradictions(
        [user_io, printed_row("Commit", "8,272,975", "138,131", "16.70", "34.9")]
    )
    assert share.startswith("Commit implies a DB time of 395,")
    (mean,) = contradictions(
        [user_io, printed_row("Commit", "8,272,975", "138,131", "17.51", "38.8")]
    )
    assert "16.6967 ms each, not 17.51 ms" in mean


def test_a_printed_number_is_a_span() -> None:
    assert span("238.5K") == Span(low=238_450.0, high=238_550.0)
    assert span("55.1", factor=0.01).meets(Span(low=0.5505, high=0.5506))
    assert not span("54.0").meets(Span(low=54.06, high=54.07))
