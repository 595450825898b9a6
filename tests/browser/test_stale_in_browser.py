# SPDX-License-Identifier: PostgreSQL
"""A page that is not current says so, and stays current while somebody reads in it.

No server is needed: a page is fed with samples of known values, or gets no answer at all.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from pgflash.progress import Listener
from pgflash_lab import journal
from pgflash_lab.model.lab_view import RunSecond
from pgflash_lab.store import Store, write_run
from support.patience import until
from support.runs import whole_run
from support.served import Site, served, served_fleet
from support.tab import Tab, cells

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

TOKEN = "0123456789abcdef"
LOST = ["host=/nowhere/a", "host=/nowhere/b"]
#: The browser's own message about an answer that a test provoked.
EXPECTED = re.compile(r"ERR_|status of ")
#: Begin a round of the refresh, and do not wait for its end.
REFRESH = "import('/static/refresh.js').then(made => { made.refresh(); })"
STALE = "document.querySelector('#stale').textContent"

TEN = datetime(2026, 11, 22, 10, tzinfo=timezone(timedelta(hours=1)))
SECONDS = 120


@pytest.fixture
def opened(browser: "Browser") -> Iterator[Callable[..., Tab]]:
    """What opens a page of a site in a tab of its own."""
    tabs: list[Tab] = []

    def one(
        site: Site,
        path: str,
        *,
        prepare: "Callable[[Page], None] | None" = None,
        width: int = 1200,
        **context: Any,  # noqa: ANN401
    ) -> Tab:
        tab = Tab(browser, f"http://127.0.0.1:{site.port}", **context)
        tabs.append(tab)
        if prepare is not None:
            prepare(tab.page)
        tab.open(path, width=width)
        return tab

    yield one
    complaints = [line for tab in tabs for line in tab.complaints]
    for tab in tabs:
        tab.context.close()
    assert [line for line in complaints if not EXPECTED.search(line)] == []


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with a run that is being made."""
    one = Store(root=tmp_path)
    making = one.folder("20261122-090000-making")
    write_run(making, replace(whole_run(), ended_at="", stopped=""))
    with journal.kept(making, Listener()) as told:
        told.plan(36_000)
        told.stage("measuring", expected_s=60)
        for at_s in range(1, 31):
            now = RunSecond(at_s=at_s, per_s=100.0, latency_ms=8.0, bytes_per_s={"array": 1e6})
            told.second("Baseline, repeat 1", "transactions", now)
        yield one


def silent(_route: object) -> None:
    """Leave a request without an answer."""


# ---- pages that say that they are not current


def check_says_when_it_is_stale(tab: Tab, address: str) -> None:
    """Check what a page says whose refresh fails, and then finds the viewer signed out."""
    page = tab.page
    tab.until(f"{STALE} === ''")
    page.route(address, lambda route: route.abort())
    page.evaluate(REFRESH)
    tab.until(rf"/^Not updated since \d\d:\d\d:\d\d /.test({STALE})")
    page.unroute(address)
    page.evaluate(REFRESH)
    tab.until(f"{STALE} === ''")
    page.context.set_extra_http_headers({})
    page.evaluate(REFRESH)
    tab.until(f"{STALE}.startsWith('Not updated since') && {STALE}.includes('signed out')")


def test_the_overview_says_when_it_is_stale(opened: Callable[..., Tab]) -> None:
    mine = {"Authorization": f"Bearer {TOKEN}"}
    with served_fleet(LOST, token=TOKEN) as site:
        tab = opened(site, "/", extra_http_headers=mine)
        check_says_when_it_is_stale(tab, f"http://127.0.0.1:{site.port}/")


def test_the_lab_page_says_when_it_is_stale(opened: Callable[..., Tab], store: Store) -> None:
    mine = {"Authorization": f"Bearer {TOKEN}"}
    with served(token=TOKEN, store=store.root) as site:
        tab = opened(site, "/lab", extra_http_headers=mine)
        check_says_when_it_is_stale(tab, "**/lab")


def test_a_refresh_that_hangs_is_given_up_and_is_the_only_one(opened: Callable[..., Tab]) -> None:
    with served_fleet(LOST) as site:
        tab = opened(site, "/")
        page = tab.page
        page.route(f"http://127.0.0.1:{site.port}/", silent)
        asked = page.evaluate(
            """import('/static/refresh.js').then(({refresh}) => {
                const limit = AbortSignal.timeout.bind(AbortSignal), real = window.fetch;
                AbortSignal.timeout = ms => limit(ms / 100);
                let asked = 0;
                window.fetch = (...words) => { asked++; return real(...words); };
                refresh();
                refresh();
                return asked;
            })"""
        )
        assert asked <= 1  # the page's own round may have been running
        page.evaluate(REFRESH)
        tab.until(f"{STALE}.startsWith('Not updated since')")


def test_a_stream_that_hangs_is_reported_and_opened_again(opened: Callable[..., Tab]) -> None:
    with served() as site:
        tab = opened(site, "/no-such-page")
        page = tab.page
        tried: list[object] = []
        page.route("**/live/events*", lambda route: tried.append(route))
        page.evaluate(
            """import('/static/feed.js').then(({Feed}) => {
                window.heard = [];
                const hear = (kind, data) => { if (kind === "status") heard.push(data); };
                window.feed = new Feed(hear);
                feed.open();
                feed.live = true;
            })"""
        )
        silence = "() => { feed.heardAt -= 16000; feed.watch(); }"
        page.evaluate(silence)
        nobody = "heard.at(-1)?.page.startsWith('pgflash serve has not answered')"
        tab.until(nobody)
        page.evaluate(silence)
        tab.until_true(lambda: len(tried) == 3)  # not only once
        page.unroute("**/live/events*")
        page.evaluate(silence)
        tab.until(f"!({nobody})")


# ---- pages that are read in


def test_a_table_that_was_clicked_into_stays_current(
    opened: Callable[..., Tab], store: Store
) -> None:
    with served(store=store.root) as site:
        tab = opened(site, "/lab", width=400)
        page = tab.page
        region = page.locator("#overview .scroll")
        region.locator("td").first.click()
        assert page.evaluate("document.activeElement.matches('#overview .scroll')")
        page.evaluate("document.activeElement.scrollLeft = 20")
        rows = page.locator("#overview tbody tr").count()
        write_run(store.folder("20261122-100000-other"), whole_run())

        def has_another_row() -> bool:
            page.evaluate(REFRESH)
            return page.locator("#overview tbody tr").count() > rows

        tab.until_true(has_another_row)
        assert page.evaluate("document.activeElement.matches('#overview .scroll')")
        assert page.evaluate("document.activeElement.scrollLeft") == 20


def test_what_a_reader_opened_stays_open_and_what_he_selected_stays(
    opened: Callable[..., Tab], store: Store
) -> None:
    with served(store=store.root) as site:
        tab = opened(site, "/lab")
        page = tab.page
        page.locator("#runs summary").first.click()

        def refreshed() -> None:
            """Wait for a whole round: the mark is in no page that is fetched."""
            page.evaluate("document.querySelector('#sentence').textContent = 'before'")
            page.evaluate(REFRESH)
            tab.until("document.querySelector('#sentence').textContent !== 'before'")

        page.evaluate("document.querySelector('#runs h2').textContent = 'old'")
        refreshed()
        assert page.locator("#runs h2").first.inner_text() != "old"
        assert page.locator("#runs details").first.get_attribute("open") is not None
        assert page.evaluate("document.activeElement.localName") == "summary"
        page.evaluate(
            """(() => {
                const title = document.querySelector('#runs h2');
                title.textContent = 'old';
                getSelection().selectAllChildren(title);
            })()"""
        )
        refreshed()
        assert page.locator("#runs h2").first.inner_text() == "old"
        page.evaluate(
            """(() => {
                getSelection().removeAllRanges();
                const input = document.createElement('input');
                document.querySelector('#overview').append(input);
                input.focus();
            })()"""
        )
        refreshed()
        assert page.locator("#runs h2").first.inner_text() != "old"
        assert page.locator("#overview input").count() == 1


def test_a_flash_page_without_data_is_loaded_again_once_there_is_some(
    opened: Callable[..., Tab],
) -> None:
    filled = "<!DOCTYPE html><main><p id='error'></p><p id='outcome'></p></main>"
    with served() as site:
        tab = opened(site, "/cache")
        page = tab.page
        assert page.locator("#outcome").count() == 0
        page.route("**/cache", lambda route: route.fulfill(content_type="text/html", body=filled))
        page.evaluate(REFRESH)
        page.locator("#outcome").wait_for(state="attached")


def test_a_tab_that_was_never_looked_at_lets_go_of_its_stream(opened: Callable[..., Tab]) -> None:
    def hide(page: "Page") -> None:
        page.clock.install()
        page.add_init_script("Object.defineProperty(document, 'hidden', {value: true})")

    with served() as site:
        page = opened(site, "/", prepare=hide).page
        until(lambda: site.collector.viewers == 1)
        page.clock.fast_forward(61_000)
        until(lambda: site.collector.viewers == 0)


# ---- a selected range, on a page that is fed with samples


def feed(page: "Page", count: int = SECONDS) -> None:
    """Answer the page's requests: in the second N from TEN on, there were N commits."""
    messages = [
        {
            "kind": "sample",
            "data": {
                "number": second,
                "at": (TEN + timedelta(seconds=second)).isoformat(),
                "elapsed_s": 1.0,
                "aas": {"CPU": 1.0},
                "commits_s": second,
                "headline": "",
            },
        }
        for second in range(1, count + 1)
    ]
    told = {
        "epoch": "e",
        "next": count,
        "gap": False,
        "status": {"state": "live", "page": ""},
        "server": None,
        "messages": messages,
    }
    page.route("**/live/samples*", lambda route: route.fulfill(json=told))
    page.route("**/live/events*", silent)
    page.route("**/live/details*", lambda route: route.fulfill(json={"spans": [], "names": {}}))


def mark(page: "Page", begin: datetime, end: datetime) -> None:
    for name, moment in (("from", begin), ("to", end)):
        page.locator(f"#show [name={name}]").fill(moment.isoformat())
    page.locator("#show button[type=submit]").click()


def said(page: "Page") -> str:
    """Return what is said of the range."""
    return page.locator("#time-range [role=status]").inner_text()


def test_a_range_that_has_left_the_charts_keeps_its_mean(opened: Callable[..., Tab]) -> None:
    with served() as site:
        tab = opened(site, "/", prepare=feed)
        page = tab.alive(SECONDS - 1)
        mark(page, TEN + timedelta(seconds=50), TEN + timedelta(seconds=70))
        for shown in ("300", "60"):
            page.locator("#range").select_option(shown)
            tab.until(f"Number(document.body.dataset.count) === {min(int(shown), SECONDS)}")
            # The mean of 51 to 70, although the last minute begins with the 61st second.
            assert cells(page)["transactions"]["Commits"][1] == "60.5", shown


def test_the_times_of_a_link_stay_in_their_zone(opened: Callable[..., Tab]) -> None:
    def nothing_yet(page: "Page") -> None:
        page.route("**/live/**", silent)

    times = {"from": TEN.isoformat(), "to": (TEN + timedelta(minutes=5)).isoformat()}
    with served() as site:
        page = opened(site, f"/?{urlencode(times)}", prepare=nothing_yet).page
        until(lambda: said(page).startswith("Selected: 10:00:00 to 10:05:00 UTC+01:00"))
        for name, at in times.items():
            shown = page.locator(f"#show [name={name}]").input_value()
            assert (shown[:19], shown[-6:]) == (at[:19], at[-6:])


def test_times_are_read_as_people_write_them(opened: Callable[..., Tab]) -> None:
    written = {
        "2026-11-22T10:00:00+01:00": 3600,
        "2026-11-22 10:00:00+01": 3600,
        " 2026-11-22 10:00:00.000+0100 ": 3600,
        "2026-11-22 14:45:00 +05:45": 20_700,
        "2026-11-22 05:30-0330": -12_600,
        "2026-11-22T09:00:00Z": 0,
        "2026-11-22 09:00": 0,
    }
    nine = datetime(2026, 11, 22, 9, tzinfo=UTC).timestamp()
    read = (
        "import('/static/format.js').then(({parseTime}) => WRITTEN.map(one => {"
        " const {seconds, offset} = parseTime(one); return [seconds, offset]; }))"
    )
    with served() as site:
        page = opened(site, "/no-such-page").page
        found = page.evaluate(read.replace("WRITTEN", json.dumps([*written, "2026-11-22"])))
    assert found[:-1] == [[nine, offset] for offset in written.values()]
    assert found[-1] == [nine - 9 * 3600, 0]  # a day ends with no zone


def test_only_the_main_button_of_a_mouse_clears_a_range(opened: Callable[..., Tab]) -> None:
    with served() as site:
        tab = opened(site, "/", prepare=feed)
        page = tab.alive(SECONDS - 1)
        mark(page, TEN + timedelta(seconds=50), TEN + timedelta(seconds=70))
        plot = page.locator("#transactions .u-over")
        timers = "new Promise(done => setTimeout(() => setTimeout(done)))"  # a click starts one
        plot.click(button="right", position={"x": 5, "y": 50})
        page.evaluate(timers)
        assert said(page).startswith("Selected")
        plot.click(position={"x": 5, "y": 50})
        tab.until("document.querySelector('#time-range [role=status]').textContent === ''")


def test_nothing_is_announced_while_the_tables_follow_the_charts(
    opened: Callable[..., Tab],
) -> None:
    with served() as site:
        tab = opened(site, "/", prepare=feed)
        page = tab.alive(SECONDS - 1)
        tab.until("document.querySelector('#followed').textContent.startsWith('As in the charts')")
        assert said(page) == ""
        assert not page.evaluate(
            "document.querySelector('#followed').matches('[role], [aria-live]')"
        )
        mark(page, TEN + timedelta(seconds=50), TEN + timedelta(seconds=70))
        assert said(page).startswith("Selected: 10:00:50 to 10:01:10 UTC+01:00")
        assert page.locator("#followed").inner_text() == ""
