# SPDX-License-Identifier: PostgreSQL
"""The report on a period in a real browser: with the keyboard, on paper, on a small screen."""

from pathlib import Path

import pytest

from pgflash.report.awr import render
from support.opened import CONTRASTS, FOCUSED, Library, chart_boxes
from support.patience import until
from support.reports import whole_report

pytestmark = pytest.mark.browser

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(whole_report(), "html"))
    return path


def test_the_report_opens_without_a_complaint_or_a_request(library: Library, report: Path) -> None:
    opened = library.read(report)
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [report.as_uri()]


@pytest.mark.parametrize("name", ["report.html", "compare.html"])
def test_the_examples_open_like_it(library: Library, name: str) -> None:
    opened = library.read(EXAMPLES / name)
    assert opened.complaints == []
    assert len([url for url in opened.requests if not url.startswith("data:")]) == 1
    assert opened.page.locator("#findings li .severity").count() >= 2
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 1200
    assert [one for one in opened.page.evaluate(CONTRASTS) if one[2] < 4.5] == []


@pytest.mark.parametrize("name", ["whole", "example"])
def test_every_chart_is_drawn_inside_its_column(library: Library, report: Path, name: str) -> None:
    path = report if name == "whole" else EXAMPLES / "report.html"
    boxes = chart_boxes(library.read(path).page)
    assert len(boxes) >= 7
    for box in boxes:
        assert box["width"] > 200
        assert box["height"] > 80
        for what in ("inside", "whole", "apart", "drawn"):
            assert box[what], what


@pytest.mark.parametrize("width", [1200, 420])
def test_the_page_never_scrolls_sideways(library: Library, report: Path, width: int) -> None:
    page = library.read(report, width=width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_first_tab_shows_a_link_past_the_head(library: Library, report: Path) -> None:
    page = library.own(report).page
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED)[0] == "skip"
    box = page.locator(".skip").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate(FOCUSED)[0] == "content"


def test_the_keyboard_reaches_every_link_and_table_and_shows_where_it_is(
    library: Library, report: Path
) -> None:
    page = library.own(report).page
    wanted = page.eval_on_selector_all(
        "a, summary, .scroll", "all => all.filter(one => one.checkVisibility()).length"
    )
    reached = 0
    for _ in range(wanted):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(FOCUSED)
        assert name != "BODY"
        assert outline != "none"
        reached += 1
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED)[0] == "BODY"
    assert reached == wanted


def test_a_wide_table_scrolls_with_the_arrow_keys(library: Library, report: Path) -> None:
    page = library.read(report, width=420).page
    region = page.locator("#segments-reads .scroll")
    region.focus()
    assert region.evaluate("one => one.scrollWidth > one.clientWidth")
    page.keyboard.press("ArrowRight")
    until(lambda: region.evaluate("one => one.scrollLeft > 0"))


def test_a_finding_leads_to_its_table(library: Library, report: Path) -> None:
    page = library.own(report).page
    page.locator("#finding-1 a").click()
    assert page.evaluate("location.hash") == "#top-events"
    box = page.locator("#top-events").bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 900


def test_the_chart_s_rows_unfold_with_the_keyboard(library: Library, report: Path) -> None:
    page = library.own(report).page
    assert not page.locator("#aas-over-time table").is_visible()
    page.locator("#aas-over-time summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("#aas-over-time table").is_visible()


def test_every_text_stands_out_from_what_is_behind_it(library: Library, report: Path) -> None:
    page = library.own(report).page
    page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 500
    assert [one for one in contrasts if one[2] < 4.5] == []
    page.eval_on_selector("h1", "one => one.style.color = '#888'")  # the check can fail
    assert [one[0] for one in page.evaluate(CONTRASTS) if one[2] < 4.5] == ["H1"]


def test_on_paper_nothing_is_cut_off(library: Library, report: Path) -> None:
    # A4 across at 96 pixels an inch, less a centimetre of margin on each side.
    page = library.own(report, width=1046).page
    page.emulate_media(media="print")
    assert not page.locator("nav").first.is_visible()
    overflowing = page.eval_on_selector_all(
        ".scroll", "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
    )
    assert overflowing == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1046
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
