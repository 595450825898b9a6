# SPDX-License-Identifier: PostgreSQL
"""A paper's page in a real browser: with the keyboard, on paper, on a small screen."""

from pathlib import Path

import pytest

from pgflash_lab.report.paper import build_paper, render_paper_html
from support.opened import CONTRASTS, FOCUSED, Library, chart_boxes
from support.paper_runs import run_000, run_001

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", params=["000", "001"])
def paper(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run, reports = {"000": run_000, "001": run_001}[request.param]()
    page = build_paper(run.paper, run, reports)
    assert page is not None
    path = tmp_path_factory.mktemp("paper") / "paper.html"
    path.write_text(render_paper_html(page, links=[("The run", "report.html")]))
    return path


def test_the_page_opens_without_a_complaint_or_a_request(library: Library, paper: Path) -> None:
    opened = library.read(paper)
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [paper.as_uri()]


@pytest.mark.parametrize("width", [1200, 420])
def test_it_never_scrolls_sideways(library: Library, paper: Path, width: int) -> None:
    page = library.read(paper, width=width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_chart_is_drawn_inside_its_column(library: Library, paper: Path) -> None:
    boxes = chart_boxes(library.read(paper).page)
    assert len(boxes) >= 5
    for box in boxes:
        assert box["width"] > 200
        for what in ("inside", "whole", "apart", "drawn"):
            assert box[what], what


def test_every_text_stands_out_and_every_table_is_reached(library: Library, paper: Path) -> None:
    page = library.own(paper).page
    page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
    assert [one for one in page.evaluate(CONTRASTS) if one[2] < 4.5] == []
    wanted = page.eval_on_selector_all(
        "a, summary, .scroll", "all => all.filter(one => one.checkVisibility()).length"
    )
    for _ in range(wanted):
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUSED)[0] != "BODY"
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED)[0] == "BODY"


def test_the_overview_leads_to_each_exhibit(library: Library, paper: Path) -> None:
    page = library.own(paper).page
    links = page.locator(".overview a")
    assert links.count() == page.locator("article").count() >= 12
    links.last.click()
    target = page.evaluate("location.hash.slice(1)")
    assert page.locator(f"article[id='{target}']").count() == 1


def test_on_paper_nothing_is_cut_off(library: Library, paper: Path) -> None:
    # A4 across at 96 pixels an inch, less a centimetre of margin on each side.
    page = library.own(paper, width=1046).page
    page.emulate_media(media="print")
    overflowing = page.eval_on_selector_all(
        ".scroll",
        "all => all.filter(one => one.scrollWidth > one.clientWidth + 1)"
        ".map(one => one.getAttribute('aria-labelledby'))",
    )
    assert overflowing == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1046
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
