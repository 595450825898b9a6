# SPDX-License-Identifier: PostgreSQL
"""The report in a real browser: it draws, it asks nobody for anything, it complains of nothing."""

from pathlib import Path

import pytest

from pgflash.report import render_page
from support.opened import Library
from support.runs import APPROACHES, whole_run

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_page(whole_run()))
    return path


def test_the_report_opens_without_a_complaint_or_a_request(library: Library, report: Path) -> None:
    opened = library.read(report)
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [report.as_uri()]


def test_a_page_that_asks_and_complains_is_caught(library: Library, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text('<img src="other.png"><script>throw new Error("x")</script>')
    opened = library.own(bad)
    assert opened.complaints
    assert len(opened.requests) == 2


def test_every_chart_is_drawn_inside_its_column(library: Library, report: Path) -> None:
    page = library.read(report).page
    boxes = page.eval_on_selector_all(
        "figure.chart > svg",
        """charts => charts.map(chart => {
            const own = chart.getBoundingClientRect();
            const column = chart.closest('section').getBoundingClientRect();
            const marks = [...chart.querySelectorAll('.mark-rect path, .mark-line path, '
                + '.mark-area path, .mark-rule line')].map(mark => mark.getBoundingClientRect());
            return {width: own.width, height: own.height,
                inside: own.left >= column.left && own.right <= column.right,
                drawn: marks.some(mark => mark.width > 5)};
        })""",
    )
    assert len(boxes) == 7 + len(APPROACHES)
    for box in boxes:
        assert box["width"] > 200
        assert box["height"] > 80
        assert box["inside"]
        assert box["drawn"]


@pytest.mark.parametrize("width", [1200, 420])
def test_the_page_never_scrolls_sideways(library: Library, report: Path, width: int) -> None:
    page = library.read(report, width=width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_folded_tables_open(library: Library, report: Path) -> None:
    page = library.own(report).page
    table = page.locator("#time details table").first
    assert not table.is_visible()
    page.locator("#time details summary").first.click()
    assert table.is_visible()


def test_texts_of_the_bars_do_not_lie_on_each_other(library: Library, report: Path) -> None:
    page = library.read(report).page
    boxes = page.eval_on_selector_all(
        "#throughput svg .role-mark.mark-text text",
        "texts => texts.map(text => { const b = text.getBoundingClientRect();"
        " return [b.left, b.top, b.right, b.bottom]; })",
    )
    assert len(boxes) == 9  # five of ours, four of the paper's
    for index, (left, top, right, bottom) in enumerate(boxes):
        for left2, top2, right2, bottom2 in boxes[index + 1 :]:
            overlap_x = min(right, right2) - max(left, left2)
            overlap_y = min(bottom, bottom2) - max(top, top2)
            assert overlap_x <= 0 or overlap_y <= 3
