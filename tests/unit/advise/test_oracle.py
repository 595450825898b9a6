# SPDX-License-Identifier: PostgreSQL
"""Oracle's AWR reports, as text and as HTML, are read for what the papers printed in them."""

from collections.abc import Callable

import pytest

from pgflash.advise.approaches import Situation, advise
from pgflash.advise.oracle import AwrFileError, work_of_awr
from pgflash_lab.analyze.papers import predict_papers
from pgflash_lab.model.paper import read_paper
from support.awr_form import html_report, text_report

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
    assert not any("worked out" in note for note in work.notes)


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
    # A sync of the log takes 15 ms; the events of background processes are no waits of clients.
    assert work.syncs == 40_000
    assert work.sync_s == 600


def test_what_is_no_awr_report_is_refused_in_a_sentence() -> None:
    with pytest.raises(AwrFileError, match=r"letter\.txt. is no AWR report"):
        work_of_awr("Dear Sir,\n\nhow are you?\n", name="letter.txt")
    with pytest.raises(AwrFileError, match="is no AWR report"):
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
    # What the extracts cannot tell is the worst, and is said to be.
    assert checks.worst is by_case["001-flash-cache"]
    assert "upper bound" in by_case["001-flash-cache"].note
