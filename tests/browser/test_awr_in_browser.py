# SPDX-License-Identifier: PostgreSQL
"""The report on a period in a real browser: with the keyboard, on paper, on a small screen."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pgflash.model.awr import HEADLINE, Finding, Severity, Unit
from pgflash.report.awr import render
from support.opened import CONTRASTS, FOCUSED, Library, chart_boxes
from support.patience import until
from support.reports import column, table, whole_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


LEAD = "72 % of DB time was single-block reads from disk, mostly of stock, at 13.6 ms."


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with a table of every kind, and one with a row of zeros and Oracle's names."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    whole = whole_report()
    lead = Finding(rule=HEADLINE, severity=Severity.WARNING, sentence=LEAD, evidence=("a", "b"))
    cache = table(
        "flash-cache",
        [column("name"), column("n", Unit.COUNT), replace(column("oracle_name"), optional=True)],
        ("hits", 10_000, "flash cache hits"),
        ("misses", 9, "flash cache misses"),
        ("none", 0, ""),
        ("inserts", 1_200, ""),
    )
    made = replace(whole, findings=(lead, *whole.findings), tables=(*whole.tables, cache))
    path.write_text(render(made, "html"))
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


@pytest.mark.parametrize("width", [1280, 400])
def test_the_first_chart_can_be_read_on_any_screen(
    library: Library, report: Path, width: int
) -> None:
    page = library.read(report, width=width).page
    heights = page.eval_on_selector_all(
        ".opening figure > svg text",
        "all => all.map(one => one.getBoundingClientRect().height)",
    )
    assert len(heights) > 4
    assert min(heights) > 9  # pixels
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
        "a, summary, .scroll, button, input",
        "all => all.filter(one => one.checkVisibility()).length",
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


def test_the_sentence_the_figures_and_the_first_chart_stand_above_the_fold(
    library: Library, report: Path
) -> None:
    page = library.own(report, width=1280).page
    page.set_viewport_size({"width": 1280, "height": 800})
    for what in (".lead", ".tiles div >> nth=-1", "#aas-over-time svg"):
        box = page.locator(what).first.bounding_box()
        assert box is not None
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 800, what


def test_the_contents_stay_in_sight_beside_the_tables(library: Library, report: Path) -> None:
    page = library.own(report, width=1280).page
    page.locator(".contents a", has_text="Sql elapsed").click()
    assert page.evaluate("location.hash") == "#sql-elapsed"
    until(lambda: page.evaluate("scrollY > 500"))
    box = page.locator(".contents").bounding_box()
    assert box is not None
    assert -1 <= box["y"] <= 1


def names(page: "Page", table_id: str) -> list[str]:
    """Return the first cells of a table's visible rows."""
    return page.locator(f"#{table_id} tbody tr:visible td:first-child").all_inner_texts()


def test_a_table_is_sorted_by_the_column_whose_head_is_pressed(
    library: Library, report: Path
) -> None:
    page = library.own(report).page
    as_it_was = names(page, "top-events")
    ends = as_it_was[-3:]  # the rest, the total, and separate rows
    head = page.locator("#top-events th", has_text="waits")
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    counted = ["read of a data file, disk", "WAL sync", "read of a data file, flash"]
    unknown = ["LWLock:BufferContent", "DB CPU"]
    assert names(page, "top-events") == [*counted, *unknown, *ends]
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "ascending"
    assert names(page, "top-events") == [*counted[::-1], *unknown, *ends]
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") is None
    assert names(page, "top-events") == as_it_was
    # Another column takes its place.
    page.locator("#top-events th button", has_text="share").click()
    page.locator("#top-events th button", has_text="event").click()
    assert page.locator("#top-events th[aria-sort]").count() == 1
    assert names(page, "top-events")[:-3] == sorted(as_it_was[:-3], key=str.casefold)


def test_a_head_stays_in_sight_while_its_table_scrolls(library: Library, report: Path) -> None:
    page = library.own(report).page
    page.locator("#aas-over-time summary").click()
    region = page.locator("#aas-over-time .scroll")
    region.evaluate("one => one.scrollTo(0, one.scrollHeight)")
    until(lambda: region.evaluate("one => one.scrollTop > 0"))
    top = region.bounding_box()
    head = page.locator("#aas-over-time th").first.bounding_box()
    assert top is not None
    assert head is not None
    assert abs(head["y"] - top["y"]) < 2


def test_rows_of_zeros_and_oracles_names_show_when_they_are_asked_for(
    library: Library, report: Path
) -> None:
    page = library.own(report).page
    assert names(page, "flash-cache") == ["hits", "misses", "inserts"]
    assert not page.get_by_text("flash cache hits").is_visible()
    assert page.get_by_text("1 row of zeros not shown").is_visible()
    page.get_by_label("1 row of zeros").check()
    page.get_by_label("Oracle's names").check()
    assert names(page, "flash-cache") == ["hits", "misses", "none", "inserts"]
    assert page.get_by_text("flash cache hits").is_visible()
    assert not page.get_by_text("1 row of zeros not shown").is_visible()


def test_the_page_is_whole_where_no_script_runs(browser: "Browser", report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(report.as_uri())
        assert page.get_by_role("heading", name="Findings").is_visible()
        assert page.locator("th button").count() == 0
        assert page.locator("#top-events tbody tr").count() == 8
        page.get_by_label("1 row of zeros").check()
        assert page.get_by_role("cell", name="none").is_visible()
    finally:
        context.close()
