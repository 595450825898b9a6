# SPDX-License-Identifier: PostgreSQL
"""The pages of papers 000 and 001: for the paper's own numbers, others, and none at all."""

import itertools
from dataclasses import replace

import pytest

from pgflash.model.awr import AwrReport, plain
from pgflash_lab.model.exhibit import Exhibit, PaperPage, Verdict
from pgflash_lab.model.paper import read_paper
from pgflash_lab.model.run import DiskSecond, Run
from pgflash_lab.report.paper import build_paper, render_paper_html, render_paper_text
from pgflash_lab.report.paper.host import lines_chart
from pgflash_lab.report.paper.parts import memory_bytes
from support.paper_runs import run_000, run_001
from support.runs import run_of

Made = tuple[Run, dict[str, AwrReport]]


def page_of(made: Made) -> PaperPage:
    run, reports = made
    page = build_paper(run.paper, run, reports)
    assert page is not None
    return page


def denied(exhibit: Exhibit) -> list[str]:
    return [check.says for check in exhibit.checks if not check.holds]


@pytest.mark.parametrize("made", [run_000(), run_001()], ids=["000", "001"])
def test_a_run_that_came_out_as_the_paper_agrees_with_it(made: Made) -> None:
    page = page_of(made)
    for exhibit in page.exhibits:
        assert exhibit.missing == "", exhibit.id
        assert exhibit.ours is not None, exhibit.id
        assert denied(exhibit) == [], exhibit.id
        assert exhibit.verdict is Verdict.AGREES, exhibit.id
    assert f"{len(page.exhibits)} agree" in " ".join(page.sentences)


@pytest.mark.parametrize("made", [run_000(), run_001()], ids=["000", "001"])
def test_the_page_is_one_file_below_a_megabyte_and_fits_a_terminal(made: Made) -> None:
    page = page_of(made)
    html = render_paper_html(page)
    assert len(html.encode()) < 1_000_000
    assert "<script" not in html
    assert max(map(len, render_paper_text(page).splitlines())) <= 100


@pytest.mark.parametrize("paper", ["000", "001"])
def test_any_part_of_a_run_makes_a_page(paper: str) -> None:
    run, reports = {"000": run_000, "001": run_001}[paper]()
    whole = page_of((run, reports))
    for size in range(3):
        for kept in itertools.combinations(run.attempts, size):
            names = {one.approach for one in kept}
            for some in ({}, {name: one for name, one in reports.items() if name in names}):
                page = page_of((replace(run, attempts=kept), some))
                assert [one.id for one in page.exhibits] == [one.id for one in whole.exhibits]
                assert render_paper_html(page)


def test_what_was_not_measured_says_so_and_does_not_agree() -> None:
    run, reports = run_000()
    page = page_of((replace(run, attempts=run.attempts[:2]), reports))
    assert page.exhibit("fig-4").verdict is Verdict.AGREES
    for name in ("fig-7", "fig-9", "fig-11", "fig-13", "fig-15"):
        assert page.exhibit(name).verdict is Verdict.NOT_SHOWN
        assert page.exhibit(name).sentence.startswith("Not measured: the run ended before")
    assert page.exhibit("fig-12").verdict is Verdict.PARTLY
    assert denied(page.exhibit("fig-12")) == [
        "Not measured in this run: Redo log on flash, Hot objects on flash, Everything on flash."
    ]
    without = page_of((run_of(paper="000"), {}))
    assert {one.verdict for one in without.exhibits} == {Verdict.NOT_SHOWN}


def test_a_run_without_reports_shows_what_the_lab_measured_itself() -> None:
    run, _ = run_000()
    page = page_of((run, {}))
    assert page.exhibit("fig-12").verdict is Verdict.AGREES
    assert page.exhibit("fig-4").missing.startswith("Not measured: no report of the server")


def test_another_order_is_found() -> None:
    run, reports = run_000()
    swap = {"wal-on-flash": "all-on-flash", "all-on-flash": "wal-on-flash"}
    tpm = {one.approach: one.tpm for one in run.attempts}
    attempts = tuple(
        replace(one, tpm=tpm[swap.get(one.approach, one.approach)]) for one in run.attempts
    )
    exhibit = page_of((replace(run, attempts=attempts), reports)).exhibit("fig-12")
    assert exhibit.verdict is not Verdict.AGREES
    assert "here it is Everything on the array < Everything on flash < Hot objects" in (
        " ".join(denied(exhibit))
    )


def test_where_nothing_changes_nothing_agrees() -> None:
    run, reports = run_000()
    base = run.attempts[0]
    same = tuple(replace(base, approach=one.approach) for one in run.attempts)
    page = page_of((replace(run, attempts=same), {name: reports["baseline"] for name in reports}))
    assert page.exhibit("fig-3").verdict is Verdict.AGREES  # the baseline is what it was
    for name in ("fig-11", "fig-13"):
        assert page.exhibit(name).verdict in (Verdict.DIFFERS, Verdict.NOT_SHOWN), name
    for name in ("fig-4", "fig-5", "fig-7", "fig-8", "fig-9", "fig-12"):
        assert denied(page.exhibit(name)), name


def test_the_host_of_paper_001_is_shown_in_all_columns_of_vmstat() -> None:
    page = page_of(run_001())
    printed = read_paper("001").exhibit("vmstat-disk")
    host = page.exhibit("vmstat-disk").ours
    assert host is not None
    assert [one.name for one in host.columns][1:] == list(printed.columns)
    # The run is the paper's own figures: memory in kilobytes, processors in per cent.
    first = [int(cell) for cell in printed.rows[0]]
    assert host.rows[0].cells[3:7] == tuple(1024 * number for number in first[2:6])
    assert host.rows[0].cells[13:] == tuple(number / 100 for number in first[12:])


def test_a_cache_that_changes_nothing_does_not_agree_with_paper_001() -> None:
    run, reports = run_001()
    base = run.attempts[0]
    same = tuple(replace(base, approach=one.approach, cache=one.cache) for one in run.attempts)
    page = page_of((replace(run, attempts=same), dict.fromkeys(reports, reports["baseline"])))
    for name in ("tps", "vmstat-flash", "events-flash", "fig-5", "fig-6", "fig-7", "fig-8",
                 "size"):  # fmt: skip
        assert denied(page.exhibit(name)), name


def test_a_request_to_a_device_is_a_read_or_a_write() -> None:
    run, reports = run_001()

    def writing(seconds: tuple[DiskSecond, ...]) -> tuple[DiskSecond, ...]:
        return tuple(
            replace(one, reads=10, read_ms=1.0, writes=30, write_ms=9.0) for one in seconds
        )

    attempts = tuple(replace(one, disk_seconds=writing(one.disk_seconds)) for one in run.attempts)
    page = page_of((replace(run, attempts=attempts), reports))
    # The paper's await is that of all requests: (10 * 1 ms + 30 * 9 ms) / 40.
    (says,) = (one.says for one in page.exhibit("iostat-flash").checks if "request" in one.says)
    assert says.endswith("7.00 and 7.00 ms here.")
    wait = page.exhibit("fig-7")
    assert [set(one.values) for one in wait.charts[0].series] == [{7.0}, {7.0}]
    assert "request" in wait.charts[0].title
    assert all("request" in one.says for one in wait.checks)


def test_the_largest_cache_in_one_file_is_the_one_beside_the_paper() -> None:
    page = page_of(run_001())
    results = page.exhibit("tps").ours
    assert results is not None
    assert results.values("approach") == ("No flash cache", "10 times")
    sizes = page.exhibit("size").ours
    assert sizes is not None
    assert sizes.values("times") == (1.0, 4.0, 10.0, 10.0)
    assert sizes.values("files") == (1, 1, 1, 2)


def test_every_chart_s_numbers_stand_in_a_table_of_its_exhibit() -> None:
    for page in (page_of(run_000()), page_of(run_001())):
        for exhibit in page.exhibits:
            shown = [
                plain(cell)
                for table in (exhibit.paper, exhibit.ours)
                if table is not None
                for row in table.rows
                for cell in row.cells
            ]
            if page.paper == "000" and exhibit.id in ("fig-5", "fig-8", "fig-10", "fig-12"):
                for chart in exhibit.charts:
                    for one in chart.series:
                        assert set(one.values) <= set(shown), exhibit.id
            if exhibit.charts and exhibit.id in ("fig-6", "fig-7") and page.paper == "001":
                for one in exhibit.charts[0].series:
                    assert set(one.values) <= set(shown)


def test_a_chart_of_lines_averages_over_equal_spans() -> None:
    chart = lines_chart(
        "Reads", "/s", {"a": [(0.0, 10.0), (1.0, 20.0), (4.1, 5.0)], "b": [(2.5, 7.0)]}
    )
    assert chart.at_s == (0.0, 2.0, 4.0)
    assert [one.values for one in chart.series] == [(15.0, None, 5.0), (None, 7.0, None)]


@pytest.mark.parametrize(
    ("text", "value"),
    [("640MB", 640 * 2**20), ("16384", 2**27), ("1GB", 2**30), ("", None), ("much", None)],
)
def test_a_size_is_read_as_postgres_writes_it(text: str, value: int | None) -> None:
    assert memory_bytes(text) == value


def test_titles_that_anybody_may_have_written_do_no_harm() -> None:
    run, reports = run_000()
    bad = "<script>alert(1)</script>\x1b[2J"
    approaches = tuple(replace(one, title=f"{bad}{one.name}") for one in run.approaches)
    page = page_of((replace(run, title=bad, approaches=approaches), reports))
    html = render_paper_html(page)
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "\x1b" not in render_paper_text(page)
