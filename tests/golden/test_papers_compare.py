# SPDX-License-Identifier: PostgreSQL
"""The papers' approaches side by side, as the compare report has them.

The improvements in their headlines are ratios, as a rule; the report prints both the change and the
ratio, so that neither is taken for the other.
"""

import pytest

from pgflash.analyze.compare import compare
from pgflash.analyze.consistency import db_time_of
from pgflash.analyze.dbtime import TimePart, compose
from pgflash.analyze.events import top_events, wait_classes
from pgflash.analyze.load import profile_row
from pgflash.model.awr import (
    AwrReport,
    Column,
    CompareReport,
    PeriodHead,
    ReportTable,
    RowMark,
    Source,
    Unit,
    plain,
)
from pgflash.model.waits import WaitClass
from support import papers
from support.printed import middle, printed_row

HOUR_S = 3600.0


def report(
    rows: tuple[papers.Event, ...] = (), *, transactions: float, elapsed_s: float = HOUR_S
) -> AwrReport:
    """Return a report of ours with a paper's events and transactions in it."""
    spans = [printed_row(*row) for row in rows]
    db_time = db_time_of(spans)
    db_time_s = middle(db_time) if db_time is not None else 0.0
    composition = compose(
        [
            TimePart(
                event=row.name,
                wait_class=WaitClass(row.wait_class) if row.wait_class else WaitClass.CPU,
                total_s=middle(row.total_s),
                source=Source.EXACT,
                waits=None if row.waits is None else int(middle(row.waits)),
            )
            for row in spans
        ],
        db_time_s=db_time_s,
        elapsed_s=elapsed_s,
    )
    profile = ReportTable(
        id="load-profile",
        title="Load profile",
        columns=tuple(
            Column(name=name, title=name, unit=Unit.TEXT if name == "name" else Unit.COUNT)
            for name in ("name", "total", "per_s", "per_transaction")
        ),
        rows=tuple(
            profile_row(name, value, unit, elapsed_s=elapsed_s, transactions=transactions)
            for name, value, unit in (
                ("transactions", transactions, Unit.COUNT),
                ("DB time", db_time_s, Unit.SECONDS),
            )
        ),
        key=("name",),
        measure="per_s",
    )
    return AwrReport(
        pgflash_version="0",
        head=PeriodHead(
            begin_id=1,
            end_id=2,
            begin_at="",
            end_at="",
            elapsed_s=elapsed_s,
            snapshots=2,
            server_version="12.1",
            server_version_num=0,
        ),
        findings=(),
        tables=(profile, top_events(composition), wait_classes(composition)),
    )


def row_of(compared: CompareReport, table_id: str, name: str) -> dict[str, object]:
    table = compared.table(table_id)
    for row in table.rows:
        if row.cells[0] == name:
            columns = [column.name for column in table.columns]
            return dict(zip(columns, map(plain, row.cells), strict=True))
    raise AssertionError(name)


@pytest.fixture(scope="module")
def flash_cache_and_all_flash() -> CompareReport:
    """Approaches 1 and 4 of paper 000: commits are its log file syncs."""
    return compare(
        report(papers.EVENTS_000_4, transactions=11_236_170),
        report(papers.EVENTS_000_11, transactions=42_783_790),
    )


def test_single_block_reads_went_from_disk_to_flash(
    flash_cache_and_all_flash: CompareReport,
) -> None:
    row = row_of(flash_cache_and_all_flash, "top-events", "db file sequential read")
    assert round(float(str(row["mean_ms_first"])), 2) == 13.06
    assert round(float(str(row["mean_ms_second"])), 2) == 1.15
    assert row["change"] == pytest.approx((93_100 - 78_700) / HOUR_S)
    said = [finding.sentence for finding in flash_cache_and_all_flash.findings]
    assert "Db file sequential read took 1.15 ms on average, down from 13.1 ms." in said


def test_what_only_one_approach_waited_for_is_new_or_gone(
    flash_cache_and_all_flash: CompareReport,
) -> None:
    marks = {row.cells[0]: row.mark for row in flash_cache_and_all_flash.table("top-events").rows}
    assert marks["db flash cache single block physical read"] is RowMark.GONE
    assert marks["latch: enqueue hash chains"] is RowMark.NEW
    assert marks["log file sync"] is RowMark.PLAIN


def test_the_rows_are_ranked_by_change(flash_cache_and_all_flash: CompareReport) -> None:
    table = flash_cache_and_all_flash.table("top-events")
    place = table.index("change")
    changes = [
        abs(float(str(row.cells[place])))
        for row in table.rows
        if row.mark in (RowMark.PLAIN, RowMark.NEW, RowMark.GONE)
    ]
    assert changes == sorted(changes, reverse=True)


def test_all_flash_did_5_times_the_transactions_and_not_the_array() -> None:
    # Figure 15 has its columns swapped: "1X" for the SSDs and "5X" for the disks.
    disk, flash = (report(transactions=n) for n in (8_272_975, 42_783_790))
    assert row_of(compare(disk, flash), "load-profile", "transactions")["times"] == pytest.approx(
        5.17, abs=0.005
    )
    swapped = row_of(compare(flash, disk), "load-profile", "transactions")["times"]
    assert float(str(swapped)) < 1
    # Nor is it the "538 percent (5.3X) increase" of the text.
    assert round(100 * 42_783_790 / 8_272_975) == 517


def test_periods_of_different_length_compare_as_rates() -> None:
    long = report(papers.EVENTS_000_4, transactions=1000, elapsed_s=HOUR_S)
    short = report(papers.EVENTS_000_4, transactions=500, elapsed_s=HOUR_S / 2)
    compared = compare(long, short)
    assert row_of(compared, "load-profile", "transactions")["times"] == pytest.approx(1.0)
    # The same seconds in half the time are twice the sessions.
    assert row_of(compared, "top-events", "log file sync")["times"] == pytest.approx(2.0)
