# SPDX-License-Identifier: PostgreSQL
"""Two reports side by side: what is compared, new, or unknown."""

from dataclasses import replace

import pytest

from pgflash.analyze import compare, make_period, make_report
from pgflash.analyze.compare import COMPARED
from pgflash.model.awr import AwrReport, CompareReport, RowMark, plain
from support.busy import busy_period, busy_store
from support.periods import Shelf


@pytest.fixture(scope="module")
def busy() -> AwrReport:
    return make_report(busy_period(), rows_max=None)


@pytest.fixture(scope="module")
def same(busy: AwrReport) -> CompareReport:
    return compare(busy, busy)


@pytest.mark.parametrize("table_id", COMPARED)
def test_a_table_of_the_comparison_is_whole(same: CompareReport, table_id: str) -> None:
    table = same.table(table_id)
    assert bool(table.rows) != bool(table.missing_reason)
    for row in table.rows:
        assert len(row.cells) == len(table.columns)


@pytest.mark.parametrize("table_id", COMPARED)
def test_a_period_does_not_differ_from_itself(same: CompareReport, table_id: str) -> None:
    table = same.table(table_id)
    assert not [r for r in table.rows if r.mark in (RowMark.NEW, RowMark.GONE)]
    if table.measure and table.rows:
        assert {value for value in table.values("change") if value is not None} <= {0}


def test_a_period_that_is_the_same_says_so(same: CompareReport) -> None:
    (finding,) = same.findings
    assert finding.rule == "the-same"


def test_an_hour_and_ten_minutes_of_the_same_load_do_not_differ(busy: AwrReport) -> None:
    store = busy_store(intervals=6)
    long = make_report(make_period(store, 1, 7), rows_max=None)
    compared = compare(busy, long)
    assert [finding.rule for finding in compared.findings] == ["the-same"]
    for table_id in ("top-events", "sql-elapsed", "segments-read-time", "wal"):
        table = compared.table(table_id)
        for value in table.values("change"):
            assert value is None or value == pytest.approx(0.0, abs=1e-6), table_id


def test_what_may_be_among_the_rest_is_not_called_new(busy: AwrReport) -> None:
    few = make_report(busy_period(), rows_max=1)
    table = compare(few, busy).table("sql-elapsed")
    rows = {row.cells[0]: row for row in table.rows}
    row = rows["update warehouse set w_ytd = w_ytd + $1"]
    assert row.mark is RowMark.PLAIN
    assert row.cells[table.index("total_s_first")] is None
    assert row.cells[table.index("change")] is None
    gone = compare(busy, few).table("sql-elapsed")
    assert RowMark.GONE not in {one.mark for one in gone.rows}


def test_what_is_left_over_has_no_number_of_times(busy: AwrReport) -> None:
    # The residual of a period may be below zero, and of the other sign in the next.
    def with_residual(value: float) -> AwrReport:
        events = busy.table("top-events")
        place = events.index("sessions")
        rows = tuple(
            replace(row, cells=(*row.cells[:place], value, *row.cells[place + 1 :]))
            if row.mark is RowMark.RESIDUAL
            else row
            for row in events.rows
        )
        tables = tuple(replace(t, rows=rows) if t is events else t for t in busy.tables)
        return replace(busy, tables=tables)

    table = compare(with_residual(-0.1), with_residual(0.3)).table("top-events")
    (row,) = [row for row in table.rows if row.mark is RowMark.RESIDUAL]
    assert row.cells[table.index("change")] == pytest.approx(0.4)
    assert row.cells[table.index("times")] is None


def test_calls_apart_from_an_event_are_not_taken_for_its_waits(busy: AwrReport) -> None:
    # Reads from the page cache: those of one process were waits, those of another mere copies.
    events = busy.table("top-events")
    waited = next(row for row in events.rows if row.mark is RowMark.PLAIN)
    place = events.index("sessions")
    apart = replace(
        waited,
        cells=(*waited.cells[:place], 0.001, *waited.cells[place + 1 :]),
        mark=RowMark.APART,
    )
    for rows in ((*events.rows, apart), (apart, *events.rows)):
        changed = replace(events, rows=rows)
        tables = tuple(changed if one is events else one for one in busy.tables)
        table = compare(busy, replace(busy, tables=tables)).table("top-events")
        (row,) = [one for one in table.rows if one.cells[0] == waited.cells[0]]
        assert row.mark is RowMark.PLAIN
        assert row.cells[table.index("sessions_second")] == waited.cells[place]


def test_settings_that_differ_are_listed_and_no_others(busy: AwrReport) -> None:
    store = busy_store()
    sections = {name: section.records() for name, section in store.sections(3).items()} | {
        "settings": [{"name": "max_wal_size", "setting": "64", "unit": "MB"}]
    }
    store.put(30, sections)
    other = make_report(make_period(store, 1, 4), rows_max=None)
    table = compare(busy, other).table("settings")
    assert {row.cells[0]: tuple(map(plain, row.cells[1:])) for row in table.rows} == {
        "max_wal_size": ("4096", "64"),
        "shared_buffers": ("16384", None),
    }


def test_a_table_that_one_period_lacks_says_which(busy: AwrReport) -> None:
    store = Shelf()
    for minute in (0, 10):
        store.put(minute, {"database": [{"datid": "5", "xact_commit": 100 * minute}]})
    plain_server = make_report(make_period(store, 1, 2), rows_max=None)
    table = compare(busy, plain_server).table("io-tablespaces")
    assert table.missing_reason.startswith("Not in the second period: ")


def test_a_faster_disk_is_good_news_and_said_so() -> None:
    def report(read_ms: float) -> AwrReport:
        store = Shelf()
        for minute in (0, 10):
            store.put(
                minute,
                {
                    "database": [
                        {
                            "datid": "5",
                            "xact_commit": 100 * minute,
                            "active_time": 60_000.0 * minute,
                        }
                    ],
                    "io": [
                        {
                            "backend_type": "client backend",
                            "file_class": "data",
                            "operation": "read",
                            "source": "disk",
                            "calls": 1_000 * minute,
                            "bytes": 8_192_000 * minute,
                            "time_ms": 1_000 * read_ms * minute,
                        }
                    ],
                },
            )
        return make_report(make_period(store, 1, 2))

    found = compare(report(20.0), report(5.0)).findings
    (faster,) = [finding for finding in found if finding.rule == "event-faster"]
    assert faster.sentence == "Reads from disk took 5.00 ms on average, down from 20.0 ms."
    slower = compare(report(5.0), report(20.0)).findings
    assert "event-slower" in [finding.rule for finding in slower]
