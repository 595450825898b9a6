# SPDX-License-Identifier: PostgreSQL
"""A paper's page: its data, the verdicts that follow from checks, and how it is printed."""

import re

import pytest

from pgflash.model.chart import Chart, ChartForm, ChartSeries
from pgflash.report.drawing import figures_of
from pgflash_lab.model.exhibit import Check, Exhibit, PaperPage, Verdict
from pgflash_lab.model.paper import printed_number, read_paper
from pgflash_lab.report.paper import checks, render_paper_html, render_paper_text
from support.reports import column, table

HOLDS = Check(holds=True, says="The order is the same.")
DENIED = Check(holds=False, says="The ratio is not.")


def exhibit(*found: Check, missing: str = "", reason: str = "") -> Exhibit:
    return Exhibit(
        id="fig-4",
        label="Figure 4",
        title="Top events",
        paper=read_paper("000").exhibit("fig-4").report_table(),
        ours=table("top-events", [column("event"), column("waits")], ("<b>read</b>", "12")),
        charts=(
            Chart(
                form=ChartForm.BARS,
                title="Throughput",
                unit="times the baseline",
                labels=("Baseline", "Everything & more"),
                series=(
                    ChartSeries(name="paper", values=(1.0, 5.17), of_others=True),
                    ChartSeries(name="here", values=(1.0, None)),
                ),
            ),
        ),
        checks=found,
        missing=missing,
        reason=reason,
    )


def page(*exhibits: Exhibit) -> PaperPage:
    return PaperPage(
        paper="000",
        title="A paper",
        by="Somebody, 2015",
        run_id="20261121-200000-oltp-approaches",
        run_title="OLTP approaches",
        pgflash_version="0.1.0",
        sentences=("It came out.",),
        exhibits=exhibits,
    )


def test_a_verdict_follows_from_the_checks() -> None:
    assert exhibit(HOLDS, HOLDS).verdict is Verdict.AGREES
    assert exhibit(HOLDS, DENIED).verdict is Verdict.PARTLY
    assert exhibit(DENIED).verdict is Verdict.DIFFERS
    assert exhibit().verdict is Verdict.NOT_SHOWN
    assert exhibit(HOLDS, missing="Not measured.").verdict is Verdict.NOT_SHOWN


def test_a_reason_is_given_only_where_something_differs() -> None:
    assert exhibit(HOLDS, reason="Because.").sentence == "The order is the same."
    assert exhibit(HOLDS, DENIED, reason="Because.").sentence == (
        "The order is the same. The ratio is not. Because."
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234", 1234.0),
        ("238.5K", 238_500.0),
        (".6", 0.6),
        ("63%", 63.0),
        ("55 MB/s", 55.0),
        ("$14551", 14_551.0),
        ("32000 IOPS", 32_000.0),
        ("53.1G", 53.1e9),
        ("", None),
        ("00:53", None),
        ("RAID 10", None),
        ("1X transaction count", None),
    ],
)
def test_a_printed_number_is_read_or_is_none(text: str, value: float | None) -> None:
    assert printed_number(text) == value


def test_a_number_is_found_by_row_and_column() -> None:
    figure = read_paper("000").exhibit("fig-4")
    assert figure.number("log file sync", "Waits") == 11_236_170
    assert figure.numbers("Wait Avg (ms)")["db file sequential read"] == 13.06
    assert "DB CPU" not in figure.numbers("Wait Avg (ms)")
    with pytest.raises(KeyError):
        figure.row("nothing")


def test_an_order_is_compared_by_what_both_sides_have() -> None:
    paper = {"a": 1.0, "b": 2.0, "c": 3.0}
    same = checks.same_order("Throughput", paper=paper, ours={"a": 5.0, "c": 6.0})
    assert same == Check(holds=True, says="Throughput: the same order, a < c.")
    other = checks.same_order("Throughput", paper=paper, ours={"a": 5.0, "b": 9.0, "c": 6.0})
    assert other is not None
    assert not other.holds
    assert "a < b < c" in other.says
    assert "a < c < b" in other.says
    down = checks.same_order("Duration", paper=paper, ours=paper, sign=">")
    assert down is not None
    assert "c > b > a" in down.says
    assert checks.same_order("Throughput", paper=paper, ours={"a": 1.0}) is None


@pytest.mark.parametrize(
    ("ours", "holds"), [(1.0, True), (2.0, True), (0.5, True), (2.1, False), (0.0, False)]
)
def test_a_ratio_is_within_a_factor_or_not(ours: float, holds: bool) -> None:
    found = checks.within("Ratio", paper=1.0, ours=ours)
    assert found is not None
    assert found.holds is holds
    assert ("not within" in found.says) is not holds
    assert checks.within("Ratio", paper=None, ours=1.0) is None


def test_a_direction_is_the_same_or_not() -> None:
    def direction(before: float, after: float) -> Check:
        found = checks.same_direction("CPU", paper=(15, 75), ours=(before, after), unit="%")
        assert found is not None
        return found

    assert direction(10, 60).holds
    assert not direction(60, 10).holds
    assert not direction(60, 61).holds
    assert "hardly changes here" in direction(60, 61).says
    assert checks.same_direction("CPU", paper=(1, 2), ours=(None, 2)) is None


def test_the_page_shows_both_sides_and_escapes_what_it_did_not_write() -> None:
    html = render_paper_html(page(exhibit(HOLDS, DENIED)), links=[("The run", "report.html")])
    assert "&lt;b&gt;read" in html
    assert "<b>read" not in html
    assert "Everything &amp; more" in html
    assert 'id="fig-4-paper-title"' in html
    assert 'id="fig-4-ours-title"' in html
    assert "238.5K" in html
    assert 'href="report.html"' in html
    assert html.count("agrees in part</strong>") == 2  # in the overview and at the exhibit
    assert "<script" not in html
    assert len(html) < 1_000_000


def test_what_is_missing_says_why_and_is_no_error() -> None:
    missing = Exhibit(id="fig-14", label="Figure 14", title="Sessions", missing="Not measured.")
    html = render_paper_html(page(missing))
    assert "Not measured." in html
    assert "not shown</strong>" in html


def test_the_text_fits_a_terminal() -> None:
    text = render_paper_text(page(exhibit(HOLDS, DENIED, reason="Because.")))
    assert max(map(len, text.splitlines())) <= 100
    assert "AGREES IN PART: The order is the same. The ratio is not. Because." in text
    assert "db file sequential read" in text


def test_lines_are_joined_over_rounded_moments_and_broken_over_missing_ones() -> None:
    chart = Chart(
        form=ChartForm.LINES,
        title="Reads",
        unit="/s",
        at_s=(0.0, 1.0, 2.0, 9.0),
        lasting_s=(0.9, 1.1, 0.95, 1.0),
        series=(ChartSeries(name="here", values=(1.0, 2.0, 3.0, 4.0)),),
    )
    (figure,) = figures_of((chart,), about="Reads")
    (path,) = [one for one in re.findall(r'd="([^"]+)"', figure.drawing) if "V" in one]
    assert path.count("M") == 2  # one stroke through the first three, one for the last
