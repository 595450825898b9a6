# SPDX-License-Identifier: PostgreSQL
"""The live page in a real browser, on a real server under a small oltp load."""

import json
import math
import re
import time
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pytest
from psycopg.conninfo import make_conninfo

from pgflash.collect.servers import NamedServer
from pgflash.live.fleet import LiveFleet, Sighting
from pgflash.model.fleet import PatroniCluster, PatroniMember
from pgflash.model.live import Sample
from pgflash.model.words import figure as in_words
from pgflash.model.words import sentence
from pgflash.progress import Listener
from pgflash.web.figures import performance, value_of
from pgflash_lab import journal
from pgflash_lab.model.lab_view import RunSecond
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from pgflash_lab.store import Store, write_run
from support.cluster import ClusterFactory
from support.patience import PATIENCE_S, until
from support.runs import whole_run
from support.served import served, served_fleet
from support.tab import (
    Finger,
    Tab,
    Watched,
    cell,
    cells,
    drag,
    mark,
    number,
    samples,
    serious,
    time_of,
)
from support.watched import EVIL, create_watched, under_load

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

INTERVAL_S = 0.5
DAY_S = 86_400
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
#: The browser's own message about an answer that a test provoked.
EXPECTED = re.compile(r"ERR_|status of 4(0[039]|29)")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with a run that was finished, and one that is being made."""
    one = Store(root=tmp_path_factory.mktemp("store"))
    write_run(one.folder("20261122-080000-whole"), whole_run())
    making = one.folder("20261122-090000-making")
    write_run(making, replace(whole_run(), ended_at="", stopped=""))
    with journal.kept(making, Listener()) as told:
        told.plan(36_000)
        told.stage("measuring <b>flash</b>", expected_s=60)
        for at_s in range(1, 31):
            moved = {"array": 2.0**20 * at_s, "flash": 2.0**19}
            now = RunSecond(at_s=at_s, per_s=100.0 + at_s, latency_ms=8.0, bytes_per_s=moved)
            told.second("Flash <i>cache</i>, repeat 1", "transactions", now)
        yield one.root


@pytest.fixture(scope="module")
def watched(pgflash_install: PgInstall, store: Path) -> Iterator[Watched]:
    factory = ClusterFactory(pgflash_install)
    try:
        cached = create_watched(factory, pgflash_install)
        # Two in the repository, of the time before anybody watched.
        snapshot(cached.server)
        await_looks(cached.server)
        snapshot(cached.server)
        with (
            # Tables follow every ten seconds, however long an answer takes on a busy machine.
            pytest.MonkeyPatch.context() as patch,
            under_load(cached.server),
            served(cached.server.conninfo(), interval_s=INTERVAL_S, store=store) as one,
        ):
            patch.setattr("pgflash.web.details.AGAIN_PART", 0)
            yield Watched(cached=cached, served=one)
    finally:
        factory.close()


def snapshot(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("select pgflash_snapshot()")


def await_looks(server: Server) -> None:
    """Wait until the sampler has looked: without that, the page says that it did not."""
    looks = "select looks from pgflash_sampler"
    with server.connect() as connection:
        (before,) = connection.execute(looks).fetchone() or ()
        until(lambda: (connection.execute(looks).fetchone() or (0,))[0] > before + 1)


@pytest.fixture(scope="module")
def shared(browser: "Browser", watched: Watched) -> Iterator[Tab]:
    """A tab for all tests without special needs: another one costs a second."""
    tab = Tab(browser, watched.address)
    yield tab
    tab.context.close()


@pytest.fixture
def opened(browser: "Browser", watched: Watched, shared: Tab) -> Iterator[Callable[..., Tab]]:
    """What opens a page: in the tab that is shared, or in one of its own where CONTEXT is."""
    own: list[Tab] = []
    shared.complaints.clear()

    def one(
        path: str = "/",
        *,
        prepare: "Callable[[Page], None] | None" = None,
        width: int = 1200,
        wait_until: Literal["commit", "load"] = "load",
        **context: Any,  # noqa: ANN401
    ) -> Tab:
        tab = shared
        if context or prepare is not None:
            tab = Tab(browser, watched.address, **context)
            own.append(tab)
        if prepare is not None:
            prepare(tab.page)
        tab.open(path, width=width, wait_until=wait_until)
        return tab

    yield one
    complaints = [line for tab in (shared, *own) for line in tab.complaints]
    for tab in own:
        tab.context.close()
    shared.page.goto("about:blank")
    assert [line for line in complaints if not EXPECTED.search(line)] == []


def test_the_first_content_waits_for_no_script_and_no_data(opened: Callable[..., Tab]) -> None:
    """bench/pg/live.py measures its time; here it is tested that nothing is waited for."""

    def never(page: "Page") -> None:
        for one in ("**/*.js", "**/live/**"):
            page.route(one, lambda _route: None)

    opened().alive()  # there is something to show
    tab = opened(prepare=never, wait_until="commit")
    tab.until("performance.getEntriesByName('first-contentful-paint').length > 0")
    assert tab.page.evaluate("document.readyState") != "complete"
    assert tab.page.locator("#transactions tbody td").first.is_visible()
    assert cell(tab.page, "transactions", "Commits", 0) >= 0


def test_without_script_every_figure_has_its_numbers(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    opened().alive()
    page = opened(java_script_enabled=False).page
    assert page.locator("#transactions tbody td").first.is_visible()

    def knows_the_sessions() -> bool:
        """The page is as old as its request: the sampler may have stood still just then."""
        page.reload()
        return number(page.locator("#sessions tbody td").first.inner_text()) >= 0

    until(knows_the_sessions)
    assert not page.locator(".plot").first.is_visible()
    assert not page.locator("#pause").is_visible()

    def shows_two_at_work() -> bool:
        """Mark the last seconds, in which the sessions or the sampler may have stood still."""
        now, _counts = watched.counted()
        for name, at in (("from", now - 4), ("to", now - 1)):
            page.locator(f"#show [name={name}]").fill(time.strftime("%FT%TZ", time.gmtime(at)))
        page.locator("#show button[type=submit]").click()
        return page.locator("[data-rows=sessions] tbody tr").count() >= 2

    until(shows_two_at_work)
    assert page.locator("[data-rows=waits] tbody tr").count() >= 1
    page.goto(f"{watched.address}/?from=2026-01-02&to=2026-01-01")
    assert (
        "The range ends before it begins." in page.locator("#time-range [role=status]").inner_text()
    )


def test_the_numbers_are_those_of_the_views(opened: Callable[..., Tab], watched: Watched) -> None:
    tab = opened()
    page = tab.alive()
    begin, before = watched.counted()
    first = page.evaluate("Number(document.body.dataset.number)")
    tab.until(f"Number(document.body.dataset.number) > {first + 8}")
    end, after = watched.counted()
    elapsed = end - begin
    # What the sampler saw at an end may be in the page's sample beside it.
    edge_s = 2 * INTERVAL_S
    tab.until_true(lambda: samples(watched)[-1]["x"] > end + edge_s)
    mark(page, begin, end)
    inside = [
        one
        for one in samples(watched)
        if one["x"] > begin - edge_s and one["x"] - one["elapsed_s"] < end + edge_s
    ]
    counted = {name: (count - before.get(name, 0.0)) / elapsed for name, count in after.items()}
    waited = {name: seconds / elapsed for name, seconds in watched.waited(begin, end).items()}
    tab.drawn()
    shown = cells(page)
    compared = 0
    for figure in performance(*newest(watched)):
        for line in figure.lines:
            rate = {
                "transactions": counted.get(line.name),
                "requests": counted.get(f"{line.name} calls", 0.0),
                "throughput": counted.get(f"{line.name} bytes", 0.0) / 1e6,
                "sessions": waited.get(line.name, 0.0),
            }.get(figure.id)
            if rate is None:
                continue
            # Both ends are a sample's width apart from the page's samples at most.
            highest = max((value_of(line, one) or 0.0) * one["elapsed_s"] for one in inside)
            mean = number(shown[figure.id][line.name][1])
            near = pytest.approx(rate, abs=2 * highest / elapsed + 0.01)
            assert mean == near, (figure.id, line.name)
            compared += rate > 0
    assert compared >= 8


def newest(watched: Watched) -> tuple[Sample, Any]:
    """Return the newest sample, and the server's properties."""
    return msgspec.convert(samples(watched)[-1], Sample), watched.served.collector.server


def test_what_is_shown_now_is_the_newest_sample(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    tab = opened()
    page = tab.alive()
    page.locator("#pause").click()
    tab.drawn()
    shown = cells(page)
    shows = page.evaluate("Number(document.body.dataset.number)")
    (sample,) = [one for one in samples(watched) if one["number"] == shows]
    figures = performance(*newest(watched))
    assert {one.id for one in figures} == set(shown)
    for figure in figures:
        for line in figure.lines:
            assert shown[figure.id][line.name][0] == in_words(value_of(line, sample))


def test_dragging_marks_a_range_that_narrows_all_below_it(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    tab = opened()
    page = tab.alive(8)
    # Files are read every ten samples, and less often where that takes long.
    tab.until_true(lambda: watched.served.collector.segments.within(LONG_AGO, datetime.now(UTC)))
    page.locator("#pause").click()
    read_before = copy(watched.served.collector.segments)
    drag(page, "throughput", 0.1, 0.8)
    tab.until(
        "document.querySelector('#time-range [role=status]').textContent.startsWith('Selected')"
    )
    begin, end = (page.locator(f"#show [name={name}]").input_value() for name in ("from", "to"))
    inside = [one for one in samples(watched) if time_of(begin) < one["x"] <= time_of(end)]
    assert 2 <= len(inside) < len(samples(watched))
    tab.drawn()
    shown = cells(page)
    for figure in performance(*newest(watched)):
        for line in figure.lines:
            found = [(value_of(line, one), one["elapsed_s"]) for one in inside]
            values = [(value, width) for value, width in found if value is not None]
            text = shown[figure.id][line.name][1]
            if not values:
                assert text == "–"
                continue
            mean = sum(value * width for value, width in values) / sum(w for _v, w in values)
            wanted = max(values)[0] if figure.over == "highest" else mean
            assert number(text) == pytest.approx(wanted, rel=0.005, abs=0.006), line.name
    answer = watched.served.ask(
        f"/live/details?from={begin.replace('+', '%2B')}&to={end.replace('+', '%2B')}"
    ).json
    names = [one["name"] for one in answer["waits"]]
    tab.until("new URLSearchParams(location.search).has('from')")  # it has been asked for
    tab.until(
        "JSON.stringify([...document.querySelectorAll('[data-rows=waits] tbody td:first-child')]"
        f".map(one => one.textContent)) === JSON.stringify({json.dumps(names)})"
    )
    # With the digits of all other numbers: three significant ones, not two decimals.
    length = time_of(end) - time_of(begin)
    printed = page.locator("[data-rows=waits] tbody td:nth-child(3)").all_inner_texts()
    for text, one in zip(printed, answer["waits"], strict=True):
        wanted = one["seconds"] / length
        if wanted < 0.001:
            assert text in (in_words(wanted), "0.001"), one["name"]
        else:
            assert number(text) == pytest.approx(wanted, rel=0.006, abs=0.0006), one["name"]
    # So short a range of a busy machine may have no sample of a statement, and no look at files.
    for part in ("statements", "sessions"):
        rows = f"[data-rows={part}] tbody tr"
        tab.until(f"document.querySelectorAll('{rows}').length === {len(answer[part])}")
    if read_before.within(datetime.fromisoformat(begin), datetime.fromisoformat(end)):
        tab.until("document.querySelectorAll('[data-rows=segments] tbody tr').length >= 1")
    assert page.locator("form[action='/report'] [name=from]").first.input_value() == begin
    # All charts show the mark, not only the one that was dragged over.
    widths = page.eval_on_selector_all(".u-select", "all => all.map(one => one.clientWidth)")
    assert min(widths) > 20
    page.locator("#clear").click()
    assert page.evaluate("location.search") == ""
    assert page.get_by_role("button", name="Report for this range").is_disabled()


def test_a_finger_marks_along_the_time_and_scrolls_across(opened: Callable[..., Tab]) -> None:
    tab = opened(width=400, has_touch=True)
    page = tab.alive(8)
    page.locator("#pause").click()  # time would move what is marked
    page.locator("#throughput").scroll_into_view_if_needed()
    box = page.locator("#throughput .u-over").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    left, right = (box["x"] + box["width"] * share for share in (0.3, 0.8))
    finger = Finger(page)
    top = page.evaluate("scrollY")
    finger.move((left, middle), (left, middle - 80))
    tab.until(f"scrollY > {top}")
    assert "Selected" not in page.locator("#time-range [role=status]").inner_text()
    tab.until(
        "new Promise(done => { const y = scrollY; setTimeout(() => done(y === scrollY), 100) })"
    )
    page.evaluate(f"scrollTo(0, {top})")
    finger.move((right, middle), (left, middle))
    tab.until(
        "document.querySelector('#time-range [role=status]').textContent.startsWith('Selected')"
    )
    width = page.eval_on_selector("#throughput .u-select", "one => one.clientWidth")
    assert width == pytest.approx(right - left, abs=0.1 * (right - left))
    assert page.get_by_role("button", name="Report for this range").is_enabled()

    def is_unmarked_by_a_tap() -> bool:
        """Tap; a browser takes a tap right after a swipe for the end of the swipe."""
        page.touchscreen.tap(left, middle)
        page.wait_for_timeout(100)
        return "Selected" not in page.locator("#time-range [role=status]").inner_text()

    tab.until_true(is_unmarked_by_a_tap)


def test_a_marked_range_makes_its_report_as_a_file(
    opened: Callable[..., Tab], watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash.web.details.TAKEN_EVERY_S", 0.0)
    server = watched.cached.server
    snapshot(server)
    begin, _counts = watched.counted()
    with server.connect() as connection:
        connection.execute("select pg_sleep(0.5)")  # to be reported on
    page = opened().alive()
    mark(page, begin, watched.counted()[0])
    with page.expect_download() as download:
        page.get_by_role("button", name="Report for this range").click()
    assert download.value.suggested_filename == "pgflash-report.html"
    assert 'id="top-events"' in download.value.path().read_text()


def test_a_report_that_is_asked_for_too_soon_says_when_to_ask_again(
    opened: Callable[..., Tab], watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash.web.details.TAKEN_EVERY_S", 3600.0)  # we may be slow
    server = watched.cached.server
    snapshot(server)
    begin, _counts = watched.counted()
    with server.connect() as connection:
        connection.execute("select pg_sleep(0.5)")
    page = opened().alive()
    mark(page, begin, watched.counted()[0])
    marked = page.locator("#show [name=from]").input_value()
    page.get_by_role("button", name="Report for this range").click()
    page.wait_for_url("**/report")
    assert page.get_by_role("alert").inner_text().startswith("The last snapshot is ")
    assert "Ask again in " in page.locator("main").inner_text()
    assert serious(page) == []
    page.get_by_role("link", name="Back to the Performance page").click()
    assert page.locator("#show [name=from]").input_value() == marked


def test_a_report_that_cannot_be_made_is_refused_on_a_page_that_leads_back(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    page = opened().alive()
    now, _counts = watched.counted()
    mark(page, now - 9000, now - 7200)
    marked = page.locator("#show [name=from]").input_value()
    page.get_by_role("button", name="Compare it").click()
    page.wait_for_url("**/report")
    assert page.get_by_role("alert").inner_text().startswith("There is no snapshot at or before")
    assert serious(page) == []
    page.get_by_role("link", name="Back to the Performance page").click()
    assert page.locator("#show [name=from]").input_value() == marked


def test_behind_the_live_samples_is_the_repository(opened: Callable[..., Tab]) -> None:
    tab = opened()
    page = tab.alive()
    page.locator("#pause").click()
    page.locator("#range").select_option("900")
    live = tab.until("Number(document.body.dataset.count)")
    assert page.locator("#source").inner_text() == ""
    page.locator("#range").select_option("3600")
    tab.until("document.querySelector('#source').textContent.includes('comes from the snapshots')")
    tab.until(f"Number(document.body.dataset.count) > {live}")
    assert page.locator("#note").inner_text() == ""


def click_first(tab: Tab, rows: str) -> str:
    """Click the first link of a list, and return its text: in one step, since the list changes."""
    tab.until(f"document.querySelectorAll('[data-rows={rows}] tbody a').length > 0")
    text: str = tab.page.evaluate(
        """rows => {
            const link = document.querySelector(`[data-rows=${rows}] tbody a`);
            const text = link.innerText;
            link.click();
            return text;
        }""",
        rows,
    )
    return text


def test_a_click_makes_the_page_about_what_was_clicked(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    tab = opened()
    page = tab.alive()
    text = click_first(tab, "statements")
    page.wait_for_url("**/?query=*")
    number_of_it = page.evaluate("new URLSearchParams(location.search).get('query')")
    assert page.locator(".chip b").all_inner_texts() == [number_of_it]
    if text != number_of_it:  # there is pg_stat_statements
        full = page.locator("#about pre").inner_text()
        assert " ".join(full.split()).startswith(" ".join(text.split())[:60])
    tab.alive(1)
    # Its waits over time, its sessions, and nothing else.
    assert list(cells(page)) == ["focus"]
    tab.until("[...document.querySelectorAll('#focus tbody td')].some(one => +one.textContent > 0)")
    assert page.locator("#focus canvas").is_visible()
    # The chart is drawn from the same spans: a value read from it is one of them.
    page.locator("#focus .plot").focus()
    page.keyboard.press("ArrowLeft")
    readout = page.locator("#focus .readout").inner_text()
    assert re.match(r"\d\d:\d\d:\d\d: ", readout), readout
    assert page.locator("[data-rows=statements] tbody tr").count() == 1
    assert page.locator("[data-rows=segments] tbody tr").count() == 0
    assert serious(page) == []
    # A mark narrows it, and both are in the address, which shows the same elsewhere.
    mark(page, watched.counted()[0] - 60, watched.counted()[0])
    tab.until("location.search.includes('from=') && location.search.includes('query=')")
    address = page.evaluate("location.pathname + location.search")
    assert number_of_it in opened(address, java_script_enabled=False).page.inner_text(".chips")
    # On to one of its sessions, and back to all.
    page.locator("#clear").click()
    click_first(tab, "sessions")
    page.wait_for_url("**&session=*")
    assert page.locator(".chip").count() == 2
    for _ in range(2):
        page.locator(".chip a").first.click()
    tab.alive(1)
    assert page.locator(".chip").count() == 0
    assert len(cells(page)) > 3


def test_a_relation_s_page_shows_the_time_on_its_files(opened: Callable[..., Tab]) -> None:
    tab = opened()
    tab.alive()
    name = click_first(tab, "segments")
    tab.page.wait_for_url("**/?relation=*")
    assert tab.page.locator(".chip b").inner_text() == name
    tab.alive(1)
    tab.until("document.querySelectorAll('[data-rows=segments] tbody tr').length === 1")
    assert "In the flash cache" in tab.page.locator("#about").inner_text()
    tab.until("[...document.querySelectorAll('#focus tbody td')].some(one => +one.textContent > 0)")


def test_the_range_and_a_filter_are_in_the_address(opened: Callable[..., Tab]) -> None:
    tab = opened("/?last=900")
    page = tab.alive()
    assert page.locator("#range").input_value() == "900"
    page.locator("#range").select_option("60")
    assert page.evaluate("location.search") == "?last=60"
    tab.until("document.querySelectorAll('#show [name=user] option').length > 1")
    page.locator("#show [name=user]").select_option("postgres")
    page.wait_for_url("**/?last=60&user=postgres")
    tab.alive(1)
    assert page.locator("#range").input_value() == "60"
    assert page.locator("#show [name=user]").input_value() == "postgres"
    tab.until("document.querySelectorAll('[data-rows=sessions] tbody tr').length > 0")
    page.locator("#show [name=user]").select_option("")
    page.wait_for_url("**/?last=60")


def test_the_keyboard_alone_marks_a_range(opened: Callable[..., Tab]) -> None:
    tab = opened()
    page = tab.alive(8)
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('plot')"):
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("ArrowLeft")
    readout = page.locator("#sessions .readout").inner_text()
    assert re.match(r"\d\d:\d\d:\d\d: ", readout)
    assert page.locator(".readout[aria-live=polite]").count() == 1  # the others follow in silence

    def marks_some_work() -> bool:
        """Mark one sample more: in the first few the sessions may have been idle."""
        page.keyboard.press("Shift+ArrowLeft")
        page.wait_for_timeout(200)
        found: bool = page.evaluate(
            "document.querySelectorAll('[data-rows=waits] tbody tr').length > 0"
        )
        return found

    tab.until_true(marks_some_work)
    said = page.locator("#time-range [role=status]").inner_text()
    moment = r"\d\d:\d\d:\d\d"
    assert re.fullmatch(rf"Selected: {moment} to {moment} UTC\S*, \d+ seconds\.", said), said
    page.keyboard.press("Escape")
    assert "Selected" not in page.locator("#time-range [role=status]").inner_text()


def test_the_flash_page_shows_what_the_views_show(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    tab = opened("/cache")
    page = tab.alive(1)
    before = watched.cached.view()
    tab.page.reload()
    tab.alive(1)
    shown = page.locator("#evictions tbody tr td").all_inner_texts()
    after = watched.cached.view()
    counts = {kind.partition(":")[0]: float(n.replace(",", "")) for kind, n in batches(shown)}
    for kind, name in (
        ("invalidated", "eviction_invalidated"),
        ("aged out", "eviction_aged_out"),
    ):
        # The page's answer is at most two seconds old, as for all viewers.
        assert 0.5 * before[name] <= counts[kind] <= after[name]
    mode = f"Mode: serve. {sentence(after['mode_reason'] or '')}".strip()
    assert mode in page.locator("#headline").inner_text()
    assert page.locator("#devices tbody tr").count() == 1
    assert str(watched.cached.cache_file) in page.locator("#devices").inner_text()
    assert "present size" in page.locator("#curve-rows").inner_text()
    assert page.locator("#curve canvas").is_visible()
    saved = page.locator("#curve-rows tbody td:last-child").all_inner_texts()
    assert len(saved) == 8
    assert all(one.endswith(" %") and float(one[:-2].strip("<>")) <= 100 for one in saved)
    outcome = page.locator("#outcome").inner_text()
    for words in ("Hit ratio", "A read from flash", "A read from disk", "Read time saved"):
        assert words in outcome
    above = "(a, b) => a.getBoundingClientRect().top < document.querySelector(b)"
    assert page.locator("#outcome").evaluate(f"{above}.getBoundingClientRect().top", "#hit-ratio")
    facts = page.locator("#facts").inner_text()
    for words in ("Blocks put in", "left of"):
        assert words in facts
    assert page.locator("meter").is_visible()
    assert page.locator("#relations tbody tr").count() >= 5
    tab.until_true(lambda: 0 < cell(page, "hit-ratio", "Hits", 1) <= 100)
    assert cell(page, "fills", "Put in", 1) >= 0


def batches(cells: list[str]) -> list[tuple[str, str]]:
    """Return the rows of a table of two columns."""
    return list(zip(cells[::2], cells[1::2], strict=True))


def test_a_table_named_script_shows_as_text(opened: Callable[..., Tab]) -> None:
    page = opened("/cache").page
    assert EVIL in page.locator("#policies").inner_text()
    assert page.title() == "Flash cache – pgflash"
    assert page.locator("main script").count() == 0


def test_the_lab_page_shows_a_run_that_is_being_made(opened: Callable[..., Tab]) -> None:
    page = opened("/lab").page
    assert page.locator("#overview tbody tr").count() == 2
    making = page.locator("#run-20261122-090000-making")
    # It was begun when the first test was, some minutes ago on a busy machine.
    left = re.search(r"Measuring <b>flash</b>; about ([\d.]+) h are left\.", making.inner_text())
    assert left is not None
    assert 9.0 <= float(left[1]) <= 10.0
    assert 0 <= float(making.locator("progress").get_attribute("value") or "nan") < 0.1
    whole = page.locator("#run-20261122-080000-whole")
    assert whole.locator("tbody tr").count() >= 2
    assert whole.locator("a[href$='run.json']").count() == 1
    # The page is rebuilt while a viewer looks at it.
    page.evaluate("document.querySelector('#sentence').textContent = ''")
    page.evaluate("import('/static/refresh.js').then(made => made.refresh())")
    assert "is being made" in page.locator("#sentence").inner_text()


def test_nothing_is_said_by_colour_alone() -> None:
    for figure in performance(None, None):
        looks = [
            (one["hatching"] if figure.stacked else (one["label"], one["dashes"]))
            for one in json.loads(figure.data())["lines"]
        ]
        assert len(set(looks)) == len(looks), figure.id


def test_without_colours_the_page_still_shows_all(opened: Callable[..., Tab]) -> None:
    tab = opened(forced_colors="active")
    assert serious(tab.alive()) == []
    # Areas are hatched: in the middle of one there are dark and light pixels.
    tab.until(
        "(() => { const c = document.querySelector('#sessions canvas');"
        " const d = c.getContext('2d').getImageData(c.width / 2, 0, 12, c.height).data;"
        " const s = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255)"
        " s.add(Math.round((d[i] + d[i + 1] + d[i + 2]) / 96)); return s.size >= 3; })()"
    )


def test_a_narrow_window_never_scrolls_sideways(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    tab = opened(width=360)
    for path in ("/", "/cache", "/lab"):
        tab.page.goto(watched.address + path)
        if path != "/lab":
            tab.alive(1)
            assert tab.page.locator("canvas").first.is_visible()
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 360, path


@pytest.mark.parametrize("width", [1280, 400])
def test_the_tables_of_what_sessions_did_are_read_at_any_width(
    opened: Callable[..., Tab], width: int
) -> None:
    tab = opened(width=width)
    tab.alive()
    for part in ("statements", "waits", "sessions"):
        tab.until(f"document.querySelectorAll('[data-rows={part}] tbody tr').length > 0")
    rows = tab.page.evaluate(
        "[...document.querySelectorAll('[data-rows] tbody tr')].map(row => [...row.cells].map("
        "one => [one.textContent, one.clientWidth, one.clientHeight]))"
    )
    assert len(rows) >= 3
    for (name, wide, high), *others in rows:
        # Three lines of what it is, and its detail, which at 400 pixels may be as long.
        assert wide >= 90, name
        assert high <= 200, name
        # Words and numbers beside it stay on one line.
        assert all(other[2] == high and other[1] >= 20 for other in others), name
    assert tab.page.evaluate(
        "[...document.querySelectorAll('[data-rows] .scroll')].every("
        "one => one.scrollWidth <= one.clientWidth)"
    )


def test_the_first_chart_is_whole_in_a_window_of_usual_size(opened: Callable[..., Tab]) -> None:
    page = opened(width=1280).alive()
    top, bottom, high = page.locator("#sessions canvas").evaluate(
        "one => { const {top, bottom, height} = one.getBoundingClientRect();"
        " return [top, bottom, height] }"
    )
    assert high == pytest.approx(320, abs=1)
    assert 0 < top < bottom <= 900


def test_the_tables_show_the_minutes_of_the_charts(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    tab = opened()
    page = tab.alive(8)

    def behind() -> tuple[float, float]:
        """Return how far the tables' beginning and end are before those of the charts."""
        words, first, last = page.evaluate(
            "[document.querySelector('#followed').textContent,"
            " ...['first', 'number'].map(name => Number(document.body.dataset[name]))]"
        )
        if not words.startswith("As in the charts"):
            return math.inf, math.inf
        shown = [one for one in samples(watched) if first <= one["number"] <= last]
        begin, end = re.findall(r"\d\d:\d\d:\d\d", words)
        day, zone = shown[-1]["at"][:11], shown[-1]["at"][23:]

        def after(x: float, word: str) -> float:
            """Return how long a time is after the last clock that showed this."""
            return (x - time_of(f"{day}{word}{zone}") + DAY_S / 2) % DAY_S - DAY_S / 2

        return after(shown[0]["x"], begin), after(shown[-1]["x"], end)

    def together() -> bool:
        """Ten seconds is what the tables may be behind; the first sample has a length, too."""
        of_begin, of_end = behind()
        return -1 <= of_begin <= 14 and 0 <= of_end <= 11

    # A busy machine may take longer than that to answer once, and not always.
    until(together)


def test_a_dark_page_is_dark_and_as_readable(opened: Callable[..., Tab], watched: Watched) -> None:
    tab = opened(color_scheme="dark")
    for path in ("/", "/cache", "/lab"):
        tab.page.goto(watched.address + path)
        if path != "/lab":
            tab.alive(1)
        ground = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(map(int, re.findall(r"\d+", ground))) < 64, path
        assert serious(tab.page) == [], path
    # Lines are as light in the charts as in their tables.
    tab.page.goto(watched.address)
    tab.alive(1)
    light, dark = tab.page.evaluate(
        "(() => { const figure = document.querySelector('#commit');"
        " return [JSON.parse(figure.dataset.figure).lines[1].stroke_on_dark,"
        " figure.querySelectorAll('tbody th path')[1].getAttribute('stroke')] })()"
    )
    assert light == dark


def test_axe_finds_nothing_serious(opened: Callable[..., Tab], watched: Watched) -> None:
    tab = opened()
    for path in ("/", "/cache", "/lab", "/blocking"):
        tab.page.goto(watched.address + path)
        if path in ("/", "/cache"):
            tab.alive(1)
        assert serious(tab.page) == [], path
    tab.page.eval_on_selector("h1", "one => one.style.color = '#ccc'")  # the check can fail
    assert len(serious(tab.page)) == 1


def test_who_sleeps_continues_where_he_stopped(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    tab = opened()
    page = tab.alive()
    devtools = tab.context.new_cdp_session(page)
    before = page.evaluate("Number(document.body.dataset.number)")
    devtools.send("Page.setWebLifecycleState", {"state": "frozen"})
    slept = watched.served.collector.ring.newest
    until(lambda: watched.served.collector.ring.newest >= slept + 5)
    devtools.send("Page.setWebLifecycleState", {"state": "active"})
    tab.until(f"Number(document.body.dataset.number) > {before + 3}")
    first, last, count = page.evaluate(
        "['first', 'number', 'count'].map(name => Number(document.body.dataset[name]))"
    )
    assert count == last - first + 1
    assert page.locator("#note").inner_text() == ""


def test_a_tab_that_nobody_looks_at_lets_go_of_its_stream_and_comes_back(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    def until_watched_by(viewers: int) -> None:
        until(lambda: watched.served.collector.viewers == viewers)

    until_watched_by(0)
    page = opened(prepare=lambda page: page.clock.install()).page
    hide = (
        "value => { Object.defineProperty(document, 'hidden', {value, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    until_watched_by(1)
    page.evaluate(hide, True)
    page.clock.fast_forward(61_000)
    until_watched_by(0)
    page.evaluate(hide, False)
    page.clock.fast_forward(100)
    until_watched_by(1)


def test_a_browser_s_own_clock_and_zone_do_not_matter(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    tab = opened(
        prepare=lambda page: page.clock.set_fixed_time("2001-02-03T04:05:06Z"),
        timezone_id="Asia/Kathmandu",
        locale="de-DE",
    )
    page = tab.alive(8)
    assert page.evaluate("new Date().getFullYear()") == 2001
    tab.until_true(lambda: sum(any((one["aas"] or {}).values()) for one in samples(watched)) > 4)
    page.locator("#pause").click()
    shown = page.locator("#at").inner_text()
    ats = [datetime.fromisoformat(one["at"]) for one in samples(watched)]
    assert shown in {f"{at:%H:%M:%S} {at.tzname()}" for at in ats}
    drag(page, "throughput", 0.02, 0.98)
    tab.until("document.querySelectorAll('[data-rows=waits] tbody tr').length > 0")
    begin = time_of(page.locator("#show [name=from]").input_value())
    assert samples(watched)[0]["x"] - 300 < begin < samples(watched)[-1]["x"]


def test_a_server_s_clock_that_is_set_back_starts_the_charts_over(
    opened: Callable[..., Tab],
) -> None:
    tab = opened()
    script = (
        "import('/static/feed.js').then(({Feed}) => { const heard = [];"
        " const feed = new Feed(kind => heard.push(kind));"
        " const second = (at, n) => feed.keep({at: `2026-11-22T${at}+01:00`, elapsed_s: 1});"
        " MOMENTS.forEach(second);"
        " return [feed.samples.map(one => one.x - Date.UTC(2026, 10, 22, 9) / 1000), heard]; })"
    )

    def kept(*moments: str) -> Any:  # noqa: ANN401
        return tab.page.evaluate(script.replace("MOMENTS", json.dumps(moments)))

    # By two seconds: those are moved together, until the clock has caught up.
    xs, heard = kept("10:00:05", "10:00:03", "10:00:04", "10:00:06")
    assert (xs, heard) == ([5, pytest.approx(5.001), pytest.approx(5.002), 6], [])
    # By an hour: what was before is of another time.
    assert kept("11:00:05", "10:00:06", "10:00:07") == [[6, 7], ["clock"]]


def test_a_restart_is_shown_and_recovered_from(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    tab = opened()
    page = tab.alive()
    watched.cached.server.stop("fast")
    tab.until("document.body.dataset.state === 'lost'")
    said = page.locator("#status").inner_text()
    assert re.fullmatch(r"No answer since \d\d:\d\d:\d\d UTC\S*, trying again: .+\.", said), said
    # Past values are not shown as if they were present.
    assert page.locator("#headline").inner_text() == ""
    tab.until("document.querySelector('#sessions tbody td').textContent === '–'")
    assert serious(page) == []
    watched.cached.start()
    tab.until("document.body.dataset.state === 'live'")
    assert page.locator("#status").inner_text() == ""
    # It is distinct from the state, and drawn with the charts.
    tab.until("document.querySelector('#notice').textContent.includes('The server restarted')")
    page.locator("#range").select_option("900")  # which takes other notes away
    assert (
        "The server restarted"
        in opened(java_script_enabled=False).page.locator("#notice").inner_text()
    )
    assert "The server restarted" in page.locator("#notice").inner_text()
    before = page.evaluate("Number(document.body.dataset.number)")
    tab.until(f"Number(document.body.dataset.number) > {before + 2}")


def test_a_token_is_given_to_a_form_and_opens_the_page(browser: "Browser") -> None:
    token = "0123456789abcdef"
    with served(token=token) as one:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        page.goto(f"http://127.0.0.1:{one.port}/")
        assert serious(page) == []
        page.locator("#token").fill("0123456789abcdeg")
        page.get_by_role("button", name="Enter").click()
        assert page.get_by_role("alert").inner_text() == "Wrong token."
        page.locator("#token").fill(token)
        page.get_by_role("button", name="Enter").click()
        assert page.locator("h1").inner_text() == "Performance"
        page.get_by_role("button", name="Sign out").click()
        assert page.locator("#token").is_visible()
        page.close()


def test_two_pages_on_one_machine_do_not_sign_each_other_out(browser: "Browser") -> None:
    """A browser sends a cookie from one port to all ports of the same host."""
    tokens = ("0123456789abcdef", "fedcba9876543210")
    with served(token=tokens[0]) as one, served(token=tokens[1]) as other:
        context = browser.new_context()
        for page_of, token in ((one, tokens[0]), (other, tokens[1])):
            page = context.new_page()
            page.set_default_timeout(PATIENCE_S * 1000)
            page.goto(f"http://127.0.0.1:{page_of.port}/")
            page.locator("#token").fill(token)
            page.get_by_role("button", name="Enter").click()
        for page in context.pages:
            page.reload()
            assert page.locator("h1").inner_text() == "Performance"
        context.close()


class Turning:
    """Two names of one server, and one that does not answer; who leads is the test's word."""

    def __init__(self, dsn: str, lost: str) -> None:
        self.leader = "alpha"
        self._servers = [
            NamedServer(name=name, address=f"{name}:5432", dsn=one)
            for name, one in (("alpha", dsn), ("beta", dsn), (EVIL, lost))
        ]

    def __call__(self) -> Sighting:
        members = tuple(
            PatroniMember(
                name=one.name,
                role="leader" if one.name == self.leader else "replica",
                state="running",
            )
            for one in self._servers
        )
        cluster = PatroniCluster(url="http://db1:8008", name="main", members=members)
        return Sighting(servers=self._servers, cluster=cluster)


def test_the_overview_leads_to_each_server_and_the_leaders_page_follows_a_failover(
    browser: "Browser", watched: Watched, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lost = make_conninfo(host=str(tmp_path_factory.mktemp("none")), dbname="app")
    turning = Turning(watched.cached.server.conninfo(), lost)
    fleet = LiveFleet(turning, interval_s=INTERVAL_S, look_s=0.1)
    with served_fleet(fleet) as site:
        tab = Tab(browser, f"http://127.0.0.1:{site.port}", color_scheme="dark")
        page = tab.page
        try:
            until(lambda: all(one in site.ask("/").text for one in ("<svg", "No answer yet")))
            tab.open("/", width=400)
            # The table is made again while a viewer looks at it.
            page.evaluate("document.querySelector('#members').replaceChildren()")
            page.evaluate("import('/static/refresh.js').then(made => made.refresh())")
            assert page.locator("#members tr").count() == 3
            assert EVIL in page.locator("#members").inner_text()
            assert page.title() == "Overview – pgflash"
            assert page.evaluate("document.documentElement.scrollWidth") <= 400
            assert page.locator("#lead").inner_text().startswith("alpha leads since before ")
            assert serious(page) == []
            page.get_by_role("link", name="beta", exact=True).click()
            page.wait_for_url("**/server/beta/")
            tab.alive()
            assert page.locator("h1").inner_text() == "Performance of beta"
            assert page.locator("#sessions canvas").is_visible()
            assert serious(page) == []
            now, _counts = watched.counted()
            with page.expect_response("**/server/beta/live/details?*") as asked:
                mark(page, now - 9, now)
            assert asked.value.ok
            page.get_by_role("link", name="Overview", exact=True).click()
            page.get_by_role("link", name="The leader's page").click()
            tab.alive()
            assert page.locator("h1").inner_text() == "Performance of alpha"
            turning.leader = "beta"
            page.locator("h1", has_text="Performance of beta").wait_for()
            tab.alive()
            assert page.locator("#lead").inner_text().endswith("; before, alpha did.")
            assert "beta leads since" in page.locator("#notice").inner_text()
            assert [one for one in tab.complaints if not EXPECTED.search(one)] == []
        finally:
            tab.context.close()
