# SPDX-License-Identifier: PostgreSQL
"""Oracle's reports of several releases, and extracts in papers, are read as work."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from pgflash.advise.approaches import Situation, advise
from pgflash.advise.media import FLASH
from pgflash.advise.oracle import AwrFileError, work_of_awr
from pgflash.advise.work import Work
from pgflash_lab.analyze.papers import predict_papers
from pgflash_lab.model.paper import printed_number, read_paper
from support.awr_form import html_report, pasted_report, text_report
from support.awr_reports import (
    CLASSES_11,
    EVENTS_11,
    HEAD_11,
    HTML_19,
    PROFILE,
    REPORT_10,
    REPORT_11,
    STATSPACK,
    TOP_11,
)

Form = Callable[..., str]

CLASSES = read_paper("000").exhibit("fig-3")
CACHE = read_paper("000").exhibit("fig-4")
HEAD = """
Host Name        Platform                         CPUs Cores Sockets Memory(GB)
---------------- -------------------------------- ---- ----- ------- ----------
db1              Linux x86 64-bit                   40    20       2      62.71

   Elapsed:               60.50 (mins)
   DB Time:            5,889.00 (mins)

Load Profile                    Per Second   Per Transaction
~~~~~~~~~~~~~~~            ---------------   ---------------
             DB Time(s):              97.3               0.0
       Redo size (bytes):       9,000,000.0           2,900.0
     Write IO requests:           1,533.0               0.5
           Transactions:           3,094.0
"""


@pytest.mark.parametrize("form", [text_report, html_report])
def test_wait_classes_alone_say_what_the_baseline_was(form: Form) -> None:
    work = work_of_awr(form(CLASSES), name="x")
    # 196,059 s are 55.1 % of DB time, and 54.0 sessions for as long as it took.
    assert work.db_time_s == pytest.approx(196_059 / 0.551)
    assert work.elapsed_s == pytest.approx(196_059 / 54.0)
    assert work.transactions == 8_272_975
    assert work.reads.count == 14_404_027
    assert work.reads.mean_ms == pytest.approx(13.61, abs=0.005)
    assert work.commit_s == 138_131
    assert work.cpu_s == 17_457
    assert work.lock_s == 966
    assert work.write_wait_s == 2_202


@pytest.mark.parametrize("form", [text_report, html_report])
def test_events_with_a_head_and_a_load_profile_need_no_working_out(form: Form) -> None:
    work = work_of_awr(form(CACHE, head=HEAD), name="x")
    assert work.elapsed_s == 3_630
    assert work.db_time_s == 353_340
    assert work.transactions == 3_094 * 3_630
    assert work.reads.count == 6_026_655 + 11_058
    assert work.reads.seconds == pytest.approx(78_700 + 183.7)
    assert work.flash.count == 19_933_363
    assert work.flash.mean_ms == pytest.approx(0.28, abs=0.005)
    assert work.commit_s == 238_500
    assert work.writes == 1_533 * 3_630
    assert work.wal_bytes == 9_000_000 * 3_630
    assert not any("derived" in note for note in work.notes)


def test_a_second_thread_of_a_core_is_worth_a_quarter_of_it() -> None:
    assert work_of_awr(text_report(CACHE, head=HEAD), name="x").cores == 25.0


def test_averages_with_a_unit_are_read() -> None:
    table = read_paper("000").exhibit("fig-4")
    rows = tuple((name, n, s, f"{ms}ms" if ms else "", p, c) for name, n, s, ms, p, c in table.rows)
    with_units = type(table)(id="x", label="", title="Top", columns=table.columns, rows=rows)
    work = work_of_awr(html_report(with_units, head=HEAD), name="x")
    assert work.flash.seconds == 5_558.7


OLD_HTML = """
<html><body><h1>WORKLOAD REPOSITORY report for</h1>
<table><tr><td>Host Name</td><td>CPUs</td><td>Cores</td></tr>
<tr><td>db1</td><td>16</td><td>16</td></tr></table>
<table><tr><td>Elapsed:</td><td>&nbsp;</td><td>60.00 (mins)</td></tr>
<tr><td>DB Time:</td><td>&nbsp;</td><td>150.00 (mins)</td></tr></table>
<h3>Load Profile</h3><table>
<tr><td></td><td>Per Second</td></tr><tr><td>Transactions:</td><td>200</td></tr></table>
<h3>Top 5 Timed Foreground Events</h3><table>
<tr><td>Event</td><td>Waits</td><td>Time(s)</td><td>Avg wait(ms)</td><td>% DB time</td></tr>
<tr><td>DB CPU</td><td></td><td>4,320</td><td></td><td>48.0%</td></tr>
<tr><td>db file sequential read</td><td>100,000</td><td>2,700</td><td>27</td><td>30.0%</td></tr>
<tr><td>log file sync</td><td>50,000</td><td>900</td><td>18</td><td>10.0%</td></tr></table>
<h3>Background Wait Events</h3><table>
<tr><td>Event</td><td>Waits</td><td>Total Wait Time (s)</td><td>% bg time</td></tr>
<tr><td>log file parallel write</td><td>40,000</td><td>600</td><td>70.0</td></tr></table>
</body></html>
"""


def test_an_older_report_whose_heads_are_plain_cells_is_read() -> None:
    work = work_of_awr(OLD_HTML, name="x")
    assert work.elapsed_s == 3_600
    assert work.db_time_s == 9_000
    assert work.transactions == 720_000
    assert work.cpu_s == 4_320
    assert work.cores == 16
    assert work.reads.mean_ms == pytest.approx(27)
    assert work.commit_s == 900
    # A sync of the log takes 15 ms; events of background processes are not waits of clients.
    assert work.syncs == 40_000
    assert work.sync_s == 600


def test_what_is_no_awr_report_is_refused_in_a_sentence() -> None:
    with pytest.raises(AwrFileError, match=r"letter\.txt. is not an AWR report"):
        work_of_awr("Dear Sir,\n\nhow are you?\n", name="letter.txt")
    with pytest.raises(AwrFileError, match="is not an AWR report"):
        work_of_awr("<html><table><tr><td>1</td></tr></table></html>", name="x")


def test_an_extract_without_a_time_is_refused_with_what_to_add() -> None:
    with pytest.raises(AwrFileError, match="how long the period was") as error:
        work_of_awr(text_report(CACHE), name="x")
    assert "Elapsed" in error.value.hint


def test_the_advice_on_the_papers_baseline_begins_with_its_storage() -> None:
    work = work_of_awr(html_report(CLASSES), name="x")
    advice = advise(work, Situation(cores=25.0, database_bytes=500e9, shared_buffers_bytes=40e9))
    # 55.1 + 38.8 + 0.6 % of DB time.
    assert advice.sentence.startswith("Storage is the bottleneck: 95 % of DB time waits for it")
    assert advice.recommended
    ratios = {way.name: way.ratio for way in advice.approaches}
    assert 1 < ratios["wal-on-flash"] < ratios["all-on-flash"]


RELEASES = pytest.mark.parametrize(
    "report", [REPORT_10, REPORT_11, HTML_19, STATSPACK], ids=["10", "11", "19", "statspack"]
)


@RELEASES
def test_an_hour_is_the_same_in_every_release(report: str) -> None:
    work = work_of_awr(report, name="x")
    assert (work.elapsed_s, work.db_time_s, work.cpu_s) == (3_600, 9_000, 1_800)
    assert work.transactions == pytest.approx(360_000)
    assert (work.reads.count, work.reads.seconds) == (734_400, 6_120)
    assert work.commit_s == 900
    # No session sorted on disk, and no read was served by a flash cache.
    assert (work.temp.count, work.flash.count) == (0, 0)
    assert work.wal_bytes == 400_000 * 3_600


@RELEASES
def test_large_reads_are_as_large_as_the_load_profile_says(report: str) -> None:
    work = work_of_awr(report, name="x")
    # 600 blocks a second; a read of one block has one, and 14,400 reads have all others.
    assert work.reads.bytes == pytest.approx(600 * 3_600 * 8_192)
    assert (600 * 3_600 - 720_000) / 14_400 == 100


@RELEASES
def test_no_number_of_an_advice_is_impossible(report: str) -> None:
    for flash in (None, 2**30, 100 * 2**30):
        for database in (None, 2**30, 500 * 2**30):
            work = work_of_awr(report, name="x", database_bytes=database, flash_bytes=flash)
            _is_possible(work, Situation(flash_bytes=flash, database_bytes=database))


def _is_possible(work: Work, known: Situation) -> None:
    advice = advise(work, known)
    shares = [share for _name, share in advice.bottleneck.shares]
    assert math.fsum(shares) <= 1 + 1e-9
    assert sum(one.share for one in advice.objects) <= 1 + 1e-9
    # The saving cannot exceed the sessions' waits.
    assert sum(one.saved_s for one in advice.objects) <= work.sessions * work.elapsed_s
    for way in advice.approaches:
        parts = (way.cpu_ms, way.disk_ms, way.flash_ms, way.commit_ms, way.other_ms)
        assert way.db_time_ms == pytest.approx(sum(parts))
        assert way.hit_ratio is None or 0 <= way.hit_ratio <= 1
        assert (
            way.flash_bytes is None
            or known.flash_bytes is None
            or not way.fits
            or (way.flash_bytes <= known.flash_bytes)
        )


@RELEASES
def test_a_report_that_ends_anywhere_is_read_or_refused_in_a_sentence(report: str) -> None:
    lines = report.splitlines()
    read = 0
    for end in range(len(lines)):
        try:
            work = work_of_awr("\n".join(lines[:end]), name="x")
        except AwrFileError:
            # A cache that was large enough stays large enough.
            assert read == 0, lines[end - 1]
            continue
        read += 1
        _is_possible(work, Situation())
    assert read


def test_a_histogram_of_waits_is_not_read_as_seconds() -> None:
    work = work_of_awr(REPORT_11, name="x")
    # It lists 9,120 and 4,012 waits for temporary files, as no other table does.
    assert work.temp.seconds == 0
    assert advise(work).sentence.startswith(
        "Storage is the bottleneck: 78 % of DB time waits for it (68 % reads, 10 % commits)"
    )


def test_waits_of_clients_alone_are_read_where_all_sessions_are_printed() -> None:
    # Of the 10 s that background processes read, none is in an 11.2 report's client events.
    clients = work_of_awr(REPORT_11, name="x")
    everyone = work_of_awr(REPORT_10, name="x")
    assert everyone.reads == clients.reads
    assert everyone.syncs == clients.syncs == 300_000


def test_five_segments_have_their_share_of_all_reads() -> None:
    work = work_of_awr(REPORT_11, name="x")
    advice = advise(work)
    shares = {one.name: one.share for one in advice.objects}
    # As printed; Oracle's own objects cannot be moved.
    assert shares == {
        "SHOP.ORDERS": pytest.approx(0.20),
        "SHOP.ORDERS:2021": pytest.approx(0.15),
        "SHOP.ORDERS_PK": pytest.approx(0.10),
        "SHOP.STOCK_LOB": pytest.approx(0.05),
    }
    hot = next(way for way in advice.approaches if way.name == "hot-objects")
    assert hot.reason.startswith("4 objects have 50 % of the reads")
    assert any("The listed segments have 55 % of the reads" in n for n in advice.notes)


@pytest.mark.parametrize("used", [5.0, 8.0, 12.0, 15.9, 16.0])
def test_processors_are_never_more_than_busy(used: float) -> None:
    head = HEAD_11.replace("DB Time:              150.00", "DB Time:            1,500.00")
    cpu = TOP_11.replace(
        "                1,800          20.0", f"{used * 3_600:21.0f}          60.0"
    )
    work = work_of_awr(head + PROFILE + cpu, name="x")
    assert work.cpu_s == pytest.approx(used * 3_600)
    assert work.cores is not None
    # 8 cores with two threads each do the work of 10; the threads in use do 8 and a quarter of
    # what exceeds 8.
    done = min(used, 8) + max(used - 8, 0) / 4
    assert work.cpu_s / work.elapsed_s / work.cores == pytest.approx(done / 10)
    assert done <= 10
    assert any("of 16 threads were in use" in note for note in work.notes) == (used > 8)


def test_large_reads_without_a_load_profile_are_said_to_be_unknown() -> None:
    table = read_paper("002").exhibit("table-2")
    profile = PROFILE.replace("  Physical reads:              600.0                6.0\n", "")
    work = work_of_awr(text_report(table, head=HEAD_11 + profile), name="x")
    assert work.reads.mean_bytes == 8_192
    assert any("The size of multi-block reads is not known" in n for n in work.notes)


def test_names_that_a_text_report_cuts_are_whole_and_counted_once() -> None:
    cut = "cell single block physical rea"
    top = TOP_11.replace("db file sequential read       ", cut)
    events = EVENTS_11.replace(
        "db file sequential read         720,000", f"{cut[:26]}      720,000"
    )
    work = work_of_awr(HEAD_11 + PROFILE + top + events, name="x")
    assert work.reads.count == 734_400
    assert any(f'"{cut}" was cut' in note and "HTML report" in note for note in work.notes)
    flash = "db flash cache single block ph"
    work = work_of_awr(HEAD_11 + PROFILE + top.replace(cut, flash) + CLASSES_11, name="x")
    assert (work.flash.count, work.flash.seconds) == (720_000, 5_400)
    assert (work.reads.count, work.reads.seconds) == (14_400, 720)


def test_a_flash_cache_is_judged_by_the_buffer_pool_advisory() -> None:
    for report in (REPORT_11, HTML_19):
        work = work_of_awr(report, name="x")
        # Buffers of 4 GB; with 2 GB more, 1,200 of 2,000 would have been read. 2 % of the reads are
        # direct: no flash cache of Oracle's serves them.
        direct = 14_400 / 734_400
        assert [point.size_bytes / 2**30 for point in work.curve] == [2, 4]
        served = [0.4 * (1 - direct), 0.6 * (1 - direct)]
        assert [point.hit_ratio for point in work.curve] == pytest.approx(served)
        advice = advise(work)
        cache = next(way for way in advice.approaches if way.name == "flash-cache")
        assert cache.flash_bytes == 4 * 2**30
        assert cache.reason.startswith(
            "4.00 GB would serve 59 % of the reads (Buffer Pool Advisory)"
        )
        assert cache.ratio > 1
        assert any("ends with a flash cache of 4.00 GB" in note for note in advice.notes)


def test_with_the_databases_size_larger_flash_caches_are_judged() -> None:
    work = work_of_awr(REPORT_11, name="x", database_bytes=104 * 2**30, flash_bytes=52 * 2**30)
    # From 60 % at 4 GB to 98 % at the 100 GB that the buffers do not hold: halfway at 52 GB.
    ratio = {point.size_bytes / 2**30: point.hit_ratio for point in work.curve}
    assert ratio[52] == pytest.approx((0.60 + 0.38 / 2) * (1 - work.direct_part))
    assert max(ratio) == 52
    # Without the flash's size: four times the buffers.
    work = work_of_awr(REPORT_11, name="x", database_bytes=104 * 2**30)
    assert max(point.size_bytes for point in work.curve) == 16 * 2**30


def test_flash_below_the_first_step_of_the_advisory_has_its_share_of_that_step() -> None:
    database, flash = 104.0 * 2**30, 2.0**30
    work = work_of_awr(REPORT_11, name="x", database_bytes=database, flash_bytes=flash)
    advice = advise(work, Situation(database_bytes=database, flash_bytes=flash))
    cache = next(way for way in advice.approaches if way.name == "flash-cache")
    # With 2 GB more, 40 % of the reads would be served: half of it with 1 GB.
    assert cache.flash_bytes == 2**30
    assert cache.hit_ratio == pytest.approx(0.2 * (1 - work.direct_part))
    assert "(Buffer Pool Advisory)" in cache.reason


@pytest.mark.parametrize(
    ("cache_sizes", "database_bytes", "said"),
    [
        (True, None, "without the size of the database (--database-size)."),
        (False, 104.0 * 2**30, "without the size of the buffer cache (Cache Sizes in the report)."),
        (False, None, "of the database (--database-size) and the size of the buffer cache (Cache"),
    ],
)
def test_an_advisory_that_ends_says_which_size_is_missing(
    cache_sizes: bool, database_bytes: float | None, said: str
) -> None:
    report = REPORT_11 if cache_sizes else REPORT_11.replace("Buffer Cache:", "Buffers:")
    work = work_of_awr(report, name="x", database_bytes=database_bytes)
    assert [point.size_bytes / 2**30 for point in work.curve] == [2, 4]
    (note,) = [one for one in work.notes if "ends with a flash cache of 4.00 GB" in one]
    assert said in note


def test_without_an_advisory_the_sizes_decide_and_without_these_it_is_said() -> None:
    advice = advise(work_of_awr(REPORT_10, name="x"))
    assert not any(way.name == "flash-cache" for way in advice.approaches)
    assert any("A flash cache is not predicted" in note for note in advice.notes)
    database = 32 * 2**30
    work = work_of_awr(REPORT_10, name="x", database_bytes=database)
    advice = advise(work, Situation(database_bytes=database))
    cache = next(way for way in advice.approaches if way.name == "flash-cache")
    # Four times the buffers of 4 GB hold half of it.
    assert cache.flash_bytes == 16 * 2**30
    assert cache.hit_ratio == pytest.approx(0.98 / 2 * (1 - work.direct_part))
    assert "there is no Buffer Pool Advisory" in cache.reason


def test_objects_that_are_read_by_megabytes_save_what_megabytes_take() -> None:
    work = work_of_awr(REPORT_11, name="x")
    large = replace(work, reads=replace(work.reads, bytes=work.reads.count * 2**20))
    for one in (work, large):
        first = advise(one).objects[0]
        each_ms = FLASH.service_ms(one.reads.mean_bytes)
        assert first.saved_s == pytest.approx(0.2 * (6_120 - each_ms * 734_400 / 1000))


@pytest.mark.parametrize("between", ["\t", " | ", " ", "   "])
@pytest.mark.parametrize("number", ["fig-4", "fig-7", "fig-9", "fig-11"])
def test_events_as_a_paper_prints_them_are_read_when_pasted(between: str, number: str) -> None:
    table = read_paper("000").exhibit(number)
    head = "Elapsed: 60.00 (mins)"
    work = work_of_awr(pasted_report(table, between=between, head=head), name="x")
    assert work == work_of_awr(html_report(table, head=head), name="x")
    assert work.reads.count >= (printed_number(table.row("db file sequential read")[1]) or 0.0)


@pytest.mark.parametrize("between", ["\t", " | ", " "])
def test_classes_as_a_paper_prints_them_are_read_when_pasted(between: str) -> None:
    work = work_of_awr(pasted_report(CLASSES, between=between), name="x")
    assert work == work_of_awr(html_report(CLASSES), name="x")
    # Paper 002 prints active sessions under the head of another column.
    paper = read_paper("002")
    tables = [paper.exhibit(name) for name in ("table-2", "table-3")]
    work = work_of_awr(pasted_report(*tables, between=between), name="x")
    assert work.elapsed_s == pytest.approx(6_702 / 2.1)
    assert work.cpu_s == 3_447.5


def test_without_transactions_ratios_are_predicted_all_the_same() -> None:
    profile = PROFILE.replace("Transactions", "x").replace("4,000.0", "")
    top = "".join(line for line in TOP_11.splitlines(True) if "log file sync" not in line)
    uncounted = work_of_awr(HEAD_11 + profile + top, name="x")
    assert uncounted.transactions == uncounted.elapsed_s
    assert any("Transactions are not counted" in note for note in uncounted.notes)
    flash = [
        next(way.ratio for way in advise(work).approaches if way.name == "all-on-flash")
        for work in (uncounted, replace(uncounted, transactions=360_000.0))
    ]
    assert flash[0] == pytest.approx(flash[1])


def test_time_that_is_no_wait_and_unknown_processors_are_said() -> None:
    head = HEAD_11.replace("DB Time:              150.00", "DB Time:              300.00")
    notes = work_of_awr(head + PROFILE + CLASSES_11, name="x").notes
    assert any(note.startswith("50 % of DB time is neither CPU time nor") for note in notes)
    work = work_of_awr(PROFILE + TOP_11 + CLASSES_11 + "Elapsed: 60.00 (mins)", name="x")
    said = "The number of processors is not known"
    assert any(said in note for note in advise(work).notes)
    assert not any(said in note for note in advise(work, Situation(cores=8)).notes)


def test_extracts_of_two_periods_are_refused() -> None:
    paper = read_paper("002")
    tables = [paper.exhibit(name) for name in ("table-2", "table-3", "table-4")]
    with pytest.raises(AwrFileError, match="has the events of two periods"):
        work_of_awr(pasted_report(*tables, between="\t"), name="x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("WORKLOAD REPOSITORY REPORT (RAC)\n", "covers a whole cluster"),
        ("<html><head><title>AWR RAC Report for DB: SHOP</title>", "covers a whole cluster"),
        ("WORKLOAD REPOSITORY COMPARE PERIOD REPORT\n", "compares two periods"),
        ("WORKLOAD REPOSITORY SQL Report\n", "is about one statement"),
        ("ASH Report For SHOP/shop\n", "has samples of sessions"),
        ("ADDM Report for Task 'TASK_1'\n", "has findings"),
        ("%PDF-1.7\n", "is a PDF file"),
    ],
)
def test_a_report_of_another_kind_is_named_and_refused(text: str, said: str) -> None:
    with pytest.raises(AwrFileError, match=said) as error:
        work_of_awr(text, name="x")
    assert "one instance" in error.value.hint


def test_one_instance_of_a_cluster_is_read_and_what_is_missing_is_said() -> None:
    row = f"{'Cluster':20} {'36,000':>16} {'0':>5} {'360':>16} {'10':>8} {'4.0':>9}\n"
    report = HEAD_11 + PROFILE + TOP_11 + CLASSES_11.replace("Concurrency  ", row + "Concurrency  ")
    work = work_of_awr(report, name="x")
    assert any("one instance of a cluster" in n and "(4.0 % of DB time)" in n for n in work.notes)


def test_writes_are_those_that_are_printed() -> None:
    # 120 blocks a second; 19c counts requests, too.
    assert work_of_awr(REPORT_11, name="x").writes == 120 * 3_600
    assert work_of_awr(HTML_19, name="x").writes == 100 * 3_600
    # Without a load profile: the waits for them.
    assert work_of_awr(HEAD_11 + TOP_11 + EVENTS_11, name="x").writes == 100_000


def test_predictions_from_the_papers_baselines_hold() -> None:
    checks = predict_papers()
    assert len(checks.errors) == 6
    assert checks.median_error is not None
    assert checks.median_error <= 0.25
    by_case = {row.case: row for row in checks.rows}
    ways = ("flash-cache", "wal-on-flash", "hot-objects", "all-on-flash")
    measured = [by_case[f"000-{way}"].measured for way in ways]
    assert measured == pytest.approx([1.36, 1.63, 3.01, 5.17], abs=0.005)
    predicted = [by_case[f"000-{way}"].predicted or 0.0 for way in ways]
    assert predicted[1] < predicted[2] < predicted[3]
    # What the extracts do not show is assumed to be the worst, and the report says so.
    assert checks.worst is by_case["001-flash-cache"]
    assert "upper bound" in by_case["001-flash-cache"].note
