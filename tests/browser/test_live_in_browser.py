# SPDX-License-Identifier: PostgreSQL
"""The live page in a real browser, on a real server under a small oltp load."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pgflash.lab import journal
from pgflash.lab.postgres import PgInstall
from pgflash.lab.progress import Silence, Stage
from pgflash.lab.store import Store, write_run
from pgflash.web.figures import in_words, performance
from support.cached import CachedServer
from support.cluster import ClusterFactory
from support.runs import whole_run
from support.served import Served, served
from support.watched import EVIL, create_watched, under_load

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

AXE = Path(__file__).with_name("vendor") / "axe.min.js"
INTERVAL_S = 0.25
#: What the browser itself says of an answer that a test asked for.
EXPECTED = re.compile(r"ERR_|status of 40[03]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A page that is served, and the server that it watches."""

    cached: CachedServer
    served: Served

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.served.port}"

    def counted(self) -> dict[str, float]:
        """Return what the views count, and the server's clock."""
        with self.cached.server.connect() as connection:
            row = connection.execute(
                "select extract(epoch from clock_timestamp())::float8,"
                " (select sum(xact_commit) from pg_stat_database)::float8,"
                " (select sum(calls) from pgflash_io where file_class = 'data'"
                "   and operation = 'read' and source = 'flash')::float8,"
                " (select sum(bytes) from pgflash_io where file_class = 'wal'"
                "   and operation <> 'sync')::float8"
            ).fetchone()
        assert row is not None
        return dict(zip(("at", "commits", "flash", "wal"), row, strict=True))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with a run that was finished, and one that is being made."""
    one = Store(root=tmp_path_factory.mktemp("store"))
    write_run(one.folder("20261122-080000-whole"), whole_run())
    making = one.folder("20261122-090000-making")
    write_run(making, replace(whole_run(), ended_at="", stopped=""))
    with journal.kept(making, Silence()) as told:
        told.plan(36_000)
        told.begin(Stage(title="measuring <b>flash</b>", expected_s=60))
        yield one.root


@pytest.fixture(scope="module")
def watched(pgflash_install: PgInstall, store: Path) -> Iterator[Watched]:
    factory = ClusterFactory(pgflash_install)
    try:
        cached = create_watched(factory, pgflash_install)
        with (
            under_load(cached.server),
            remembered(cached),
            served(cached.server.conninfo(), interval_s=INTERVAL_S, store=store) as one,
        ):
            yield Watched(cached=cached, served=one)
    finally:
        factory.close()


@contextmanager
def remembered(cached: CachedServer) -> Iterator[None]:
    """Have two snapshots in the repository of the time before anybody watched."""
    with cached.server.connect() as connection:
        connection.execute("select pgflash_snapshot()")
        time.sleep(1)
        connection.execute("select pgflash_snapshot()")
    yield


class Tab:
    """A page in the browser, and what it complained of."""

    def __init__(
        self, browser: Browser, watched: Watched, path: str = "/", *, width: int = 1200,
        script: bool = True,
    ) -> None:  # fmt: skip
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, java_script_enabled=script
        )
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(watched.address + path)

    def until(self, script: str, *, seconds: float = 10) -> Any:  # noqa: ANN401
        """Wait until a script's value is true; return it.

        Playwright's own way of waiting evaluates a text in the page, which our pages forbid.
        """
        deadline = time.monotonic() + seconds
        while not (value := self.page.evaluate(script)):
            assert time.monotonic() < deadline, script
            self.page.wait_for_timeout(50)
        return value

    def alive(self, samples: int = 3) -> Page:
        """Wait until the page follows the server and has so many samples."""
        self.until(f"Number(document.body.dataset.number) > {samples}")
        return self.page


@pytest.fixture
def opened(browser: Browser, watched: Watched) -> Iterator[Callable[..., Tab]]:
    tabs: list[Tab] = []

    def one(path: str = "/", **how: Any) -> Tab:  # noqa: ANN401
        tabs.append(Tab(browser, watched, path, **how))
        return tabs[-1]

    yield one
    for tab in tabs:
        tab.context.close()
    assert [line for tab in tabs for line in tab.complaints if not EXPECTED.search(line)] == []


def cell(page: Page, figure: str, name: str, place: int) -> float:
    """Return a number of a figure's table: 0 what is now, 1 what the stretch comes to."""
    row = page.locator(f"#{figure} tbody tr", has=page.locator(f"th:has-text('{name}')"))
    text = row.locator("td").nth(place).inner_text()
    return float(text.replace(",", "").replace("–", "nan"))


def serious(page: Page) -> list[str]:
    """Return what axe-core finds that keeps people from using the page."""
    found = page.evaluate(
        f"{AXE.read_text()}; axe.run({{resultTypes: ['violations']}})"
        ".then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact))"
        ".map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ')).join(', ')))"
    )
    return list(found)


def mark(page: Page, begin: float, end: float) -> None:
    """Mark a stretch by typing its two times."""
    for name, moment in (("from", begin), ("to", end)):
        text = datetime.fromtimestamp(moment, UTC).isoformat()
        page.locator(f"#show [name={name}]").fill(text)
    page.get_by_role("button", name="Show").click()


def drag(page: Page, figure: str, begin: float, end: float) -> None:
    """Mark a part of a chart with the mouse."""
    box = page.locator(f"#{figure} .u-over").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * begin, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, y, steps=3)
    page.mouse.up()


def test_the_first_content_is_there_within_a_second(opened: Callable[..., Tab]) -> None:
    painted = []
    for _ in range(3):  # the machine has other things to do
        tab = opened()
        painted.append(
            tab.until("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
        )
        tab.page.close()
        if painted[-1] < 1000:
            return
    pytest.fail(f"first content after {painted} ms")


def test_without_script_every_figure_has_its_numbers(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    opened().alive()
    page = opened(script=False).page
    assert page.locator("#transactions tbody td").first.is_visible()
    assert cell(page, "sessions", "User I/O", 0) >= 0
    assert not page.locator(".plot").first.is_visible()
    assert not page.locator("#pause").is_visible()
    now = watched.counted()["at"]
    for name, at in (("from", now - 4), ("to", now - 1)):
        page.locator(f"#show [name={name}]").fill(time.strftime("%FT%TZ", time.gmtime(at)))
    page.locator("#show button[type=submit]").click()
    assert page.locator("[data-rows=waits] tbody tr").count() >= 1
    assert page.locator("[data-rows=sessions] tbody tr").count() >= 2
    page.goto(f"{watched.address}/?from=2026-01-02&to=2026-01-01")
    assert (
        "The stretch ends before it begins." in page.locator("#stretch [role=status]").inner_text()
    )


def test_the_numbers_are_those_of_the_views(opened: Callable[..., Tab], watched: Watched) -> None:
    tab = opened()
    page = tab.alive()
    before = watched.counted()
    number = page.evaluate("Number(document.body.dataset.number)")
    tab.until(f"Number(document.body.dataset.number) > {number + 8}")
    after = watched.counted()
    # Both ends are a sample's width apart from the page's samples at most.
    elapsed = after["at"] - before["at"]
    mark(page, before["at"], after["at"])
    kept = samples(watched)
    for figure, name, key, path, divisor in (
        ("transactions", "Commits", "commits", ("commits_s",), 1.0),
        ("requests", "Flash", "flash", ("requests_s", "flash"), 1.0),
        ("throughput", "WAL", "wal", ("bytes_s", "wal"), 1e6),
    ):
        mean = cell(page, figure, name, 1)
        rate = (after[key] - before[key]) / elapsed / divisor
        inside = [one for one in kept if before["at"] - 1 < one["x"] < after["at"] + 1]
        highest = max(at(one, path) * one["elapsed_s"] for one in inside) / divisor
        assert rate > 0
        assert mean == pytest.approx(rate, abs=2 * highest / elapsed + 0.01), figure


def samples(watched: Watched) -> list[dict[str, Any]]:
    """Return the samples that are kept, with their times as numbers."""
    told = watched.served.ask("/live/samples").json["messages"]
    found = [one["data"] for one in told if one["kind"] == "sample"]
    for one in found:
        one["x"] = time_of(one["at"])
    return found


def time_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def at(sample: dict[str, Any], path: tuple[str, ...]) -> float:
    found: Any = sample
    for name in path:
        found = found.get(name, 0.0)
    return float(found)


def test_what_is_shown_now_is_the_newest_sample(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    page = opened().alive()
    page.locator("#pause").click()
    number, commits, sessions = page.evaluate(
        "[Number(document.body.dataset.number), ...['transactions', 'sessions'].map(id =>"
        " document.querySelector(`#${id} tbody td`).textContent)]"
    )
    (sample,) = [one for one in samples(watched) if one["number"] == number]
    assert commits == in_words(sample["commits_s"])
    assert sessions == in_words(sample["aas"].get("CPU", 0.0))


def test_dragging_marks_a_stretch_that_narrows_all_below_it(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    tab = opened()
    page = tab.alive(8)
    page.locator("#pause").click()
    drag(page, "throughput", 0.1, 0.8)
    tab.until("document.querySelector('#stretch [role=status]').textContent.startsWith('Marked')")
    begin, end = (page.locator(f"#show [name={name}]").input_value() for name in ("from", "to"))
    inside = [one for one in samples(watched) if time_of(begin) < one["x"] <= time_of(end)]
    assert 2 <= len(inside) < len(samples(watched))
    elapsed = sum(one["elapsed_s"] for one in inside)
    mean = sum(one["commits_s"] * one["elapsed_s"] for one in inside) / elapsed
    assert cell(page, "transactions", "Commits", 1) == pytest.approx(mean, rel=0.06, abs=0.06)
    answer = watched.served.ask(
        f"/live/details?from={begin.replace('+', '%2B')}&to={end.replace('+', '%2B')}"
    ).json
    names = [one["name"] for one in answer["waits"]]
    tab.until(
        "JSON.stringify([...document.querySelectorAll('[data-rows=waits] tbody td:first-child')]"
        f".map(one => one.textContent)) === JSON.stringify({json.dumps(names)})"
    )
    for part in ("sessions", "segments"):
        assert page.locator(f"[data-rows={part}] tbody tr").count() >= 1, part
    assert page.locator("form[action='/report'] [name=from]").first.input_value() == begin
    # All charts show the mark, not only the one that was dragged over.
    widths = page.eval_on_selector_all(".u-select", "all => all.map(one => one.clientWidth)")
    assert min(widths) > 20
    page.locator("#clear").click()
    assert page.evaluate("location.search") == ""
    assert page.get_by_role("button", name="Make its AWR report").is_disabled()


def test_a_marked_stretch_makes_its_report_as_a_file(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    moments = []
    for pause_s in (1.0, 0.0):
        with watched.cached.server.connect() as connection:
            connection.execute("select pgflash_snapshot()")
        moments.append(watched.counted()["at"])
        time.sleep(pause_s)  # a second to be reported on
    page = opened().alive()
    mark(page, *moments)
    with page.expect_download(timeout=10_000) as download:
        page.get_by_role("button", name="Make its AWR report").click()
    assert download.value.suggested_filename == "pgflash-report.html"
    assert 'id="top-events"' in download.value.path().read_text()


def test_behind_the_live_samples_is_the_repository(opened: Callable[..., Tab]) -> None:
    tab = opened()
    page = tab.alive()
    page.locator("#pause").click()
    page.locator("#range").select_option("900")
    live = tab.until("Number(document.body.dataset.count)")
    page.locator("#range").select_option("3600")
    tab.until(f"Number(document.body.dataset.count) > {live}")
    assert page.locator("#note").inner_text() == ""


def test_the_keyboard_alone_marks_a_stretch(opened: Callable[..., Tab]) -> None:
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
    for _ in range(4):
        page.keyboard.press("Shift+ArrowLeft")
    tab.until("document.querySelectorAll('[data-rows=waits] tbody tr').length > 0")
    assert "Marked: " in page.locator("#stretch [role=status]").inner_text()
    page.keyboard.press("Escape")
    assert "Nothing is marked" in page.locator("#stretch [role=status]").inner_text()


def test_the_flash_page_shows_what_the_views_show(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    tab = opened("/cache")
    page = tab.alive(1)
    before = watched.cached.view()
    tab.page.reload()
    tab.alive(1)
    after = watched.cached.view()
    shown = page.locator("#evictions tbody tr td").all_inner_texts()
    counts = {kind.partition(":")[0]: float(n.replace(",", "")) for kind, n in batches(shown)}
    for kind, name in (
        ("invalidated", "eviction_invalidated"),
        ("aged out", "eviction_aged_out"),
    ):
        # The page's answer is two seconds old at most, as are those to all who look.
        assert 0.5 * before[name] <= counts[kind] <= after[name]
    assert "Mode: serve." in page.locator("main").inner_text()
    assert page.locator("#devices tbody tr").count() == 1
    assert str(watched.cached.cache_file) in page.locator("#devices").inner_text()
    assert "present size" in page.locator("#curve-rows").inner_text()
    assert page.locator("#curve canvas").is_visible()
    ratio = cell(page, "hit-ratio", "Hits", 1)
    assert 0 < ratio <= 100


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
    assert "Measuring <b>flash</b>; about 10.0 hours are left." in making.inner_text()
    assert 0 <= float(making.locator("progress").get_attribute("value") or "nan") < 0.1
    whole = page.locator("#run-20261122-080000-whole")
    assert whole.locator("tbody tr").count() >= 2
    assert whole.locator("a[href$='run.json']").count() == 1
    # The page is made anew while it is looked at.
    page.evaluate("document.querySelector('#sentence').textContent = ''")
    page.evaluate("import('/static/refresh.js').then(made => made.refresh())")
    assert "is being made" in page.locator("#sentence").inner_text()


def test_nothing_is_said_by_colour_alone() -> None:
    for figure in performance(None, None):
        looks = [
            (one["hatching"] if figure.stacked else one["dashes"])
            for one in json.loads(figure.data())["lines"]
        ]
        assert len(set(looks)) == len(looks), figure.id


def test_without_colours_the_page_still_shows_all(opened: Callable[..., Tab]) -> None:
    tab = opened()
    tab.page.emulate_media(forced_colors="active")
    page = tab.alive()
    assert serious(page) == []
    # Areas are hatched: in the middle of one there are dark and light pixels.
    shades = page.evaluate(
        "(() => { const c = document.querySelector('#sessions canvas');"
        " const d = c.getContext('2d').getImageData(c.width / 2, 0, 12, c.height).data;"
        " const s = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255)"
        " s.add(Math.round((d[i] + d[i + 1] + d[i + 2]) / 96)); return s.size; })()"
    )
    assert shades >= 3


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


def test_axe_finds_nothing_serious(opened: Callable[..., Tab], watched: Watched) -> None:
    tab = opened()
    for path in ("/", "/cache", "/lab"):
        tab.page.goto(watched.address + path)
        if path != "/lab":
            tab.alive(1)
        assert serious(tab.page) == [], path
    tab.page.eval_on_selector("h1", "one => one.style.color = '#ccc'")  # the check can fail
    assert len(serious(tab.page)) == 1


def test_who_sleeps_continues_where_he_stopped(opened: Callable[..., Tab]) -> None:
    tab = opened()
    page = tab.alive()
    devtools = tab.context.new_cdp_session(page)
    before = page.evaluate("Number(document.body.dataset.number)")
    devtools.send("Page.setWebLifecycleState", {"state": "frozen"})
    time.sleep(2)  # the sleep itself
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
    tab = opened("/lab")
    tab.page.clock.install()
    tab.page.goto(watched.address)
    page = tab.page
    hide = (
        "value => { Object.defineProperty(document, 'hidden', {value, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    deadline = time.monotonic() + 10
    while not (viewers := watched.served.collector.viewers):
        assert time.monotonic() < deadline
    page.evaluate(hide, True)
    page.clock.fast_forward(61_000)
    while watched.served.collector.viewers >= viewers:
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)
    page.evaluate(hide, False)
    page.clock.fast_forward(100)
    while watched.served.collector.viewers < viewers:
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)


def test_a_restart_is_shown_and_recovered_from(
    opened: Callable[..., Tab], watched: Watched
) -> None:
    tab = opened()
    page = tab.alive()
    watched.cached.server.stop("fast")
    tab.until("document.body.dataset.state === 'lost'")
    assert len(page.locator("#status").inner_text()) > 20
    assert serious(page) == []
    watched.cached.start()
    tab.until("document.body.dataset.state === 'live'", seconds=20)
    assert page.locator("#status").inner_text() == ""
    assert "The server has restarted" in page.locator("#note").inner_text()
    before = page.evaluate("Number(document.body.dataset.number)")
    tab.until(f"Number(document.body.dataset.number) > {before + 2}")


def test_a_token_is_given_to_a_form_and_opens_the_page(browser: Browser) -> None:
    token = "0123456789abcdef"
    with served(token=token) as one:
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{one.port}/")
        assert serious(page) == []
        page.locator("#token").fill("0123456789abcdeg")
        page.get_by_role("button", name="Enter").click()
        assert page.get_by_role("alert").inner_text() == "This is not the token."
        page.locator("#token").fill(token)
        page.get_by_role("button", name="Enter").click()
        assert page.locator("h1").inner_text() == "Performance"
        page.get_by_role("button", name="Sign out").click()
        assert page.locator("#token").is_visible()
        page.close()
