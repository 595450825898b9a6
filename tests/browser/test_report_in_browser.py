# SPDX-License-Identifier: PostgreSQL
"""The report in a real browser: it draws, loads nothing from elsewhere, and reports no error."""

from pathlib import Path

import pytest

from pgflash_lab.report import render_page
from support.opened import CONTRASTS, Library, chart_boxes
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
    boxes = chart_boxes(library.read(report).page)
    assert len(boxes) == 7 + len(APPROACHES)
    for box in boxes:
        assert box["width"] > 200
        assert box["height"] > 80
        for what in ("inside", "whole", "apart", "drawn"):
            assert box[what], what


@pytest.mark.parametrize("width", [1200, 420])
def test_the_page_never_scrolls_sideways(library: Library, report: Path, width: int) -> None:
    page = library.read(report, width=width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_folded_tables_open(library: Library, report: Path) -> None:
    page = library.own(report).page
    table = page.locator("#tpm-by-second details table").first
    assert not table.is_visible()
    page.locator("#tpm-by-second details summary").first.click()
    assert table.is_visible()


def test_every_text_stands_out_and_nothing_is_cut_off_on_paper(
    library: Library, report: Path
) -> None:
    # A4 across at 96 pixels an inch, less a centimetre of margin on each side.
    page = library.own(report, width=1046).page
    page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
    assert [one for one in page.evaluate(CONTRASTS) if one[2] < 4.5] == []
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1046
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
