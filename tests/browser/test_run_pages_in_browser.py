# SPDX-License-Identifier: PostgreSQL
"""A run's pages in the live page: styled, linked, behind the token, and inert."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pgflash.analyze import make_report
from pgflash_lab.pages import write_products
from pgflash_lab.store import REPORT_FILE, Store, attempt_name, write_period, write_run
from support.busy import busy_period
from support.patience import PATIENCE_S
from support.runs import whole_run
from support.served import served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

TOKEN = "0123456789abcdef-right"
RUN = "20261121-200000-oltp-approaches"


def test_a_runs_pages_are_styled_linked_and_run_nothing(browser: "Browser", tmp_path: Path) -> None:
    store = Store(root=tmp_path)
    run = replace(whole_run(), id=RUN)
    write_run(store.folder(RUN), run)
    period = make_report(busy_period())
    for place, attempt in enumerate(run.attempts):
        if attempt.approach in ("baseline", "flash-cache"):
            write_period(store.folder(RUN), attempt_name(place, attempt.approach), period)
    report = write_products(store.folder(RUN), run)
    # What somebody might smuggle into a stored page.
    hostile = "<script>document.title = 'run'</script><img src=x onerror=\"document.title='run'\">"
    report.write_text(report.read_text().replace("</body>", f"{hostile}</body>"))
    with served(store=tmp_path, token=TOKEN) as one:
        home = f"http://127.0.0.1:{one.port}"
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        try:
            page.goto(f"{home}/login")
            page.get_by_label("Token").fill(TOKEN)
            page.get_by_role("button").click()
            answer = page.goto(f"{home}/lab/runs/{RUN}/{REPORT_FILE}")
            assert answer is not None
            assert answer.status == 200
            assert page.title() != "run"
            width = page.eval_on_selector("main", "one => getComputedStyle(one).maxWidth")
            assert width.endswith("px"), "its styles were not let in"
            chart = page.locator("figure svg").first.bounding_box()
            assert chart is not None
            assert chart["width"] > 100
            # From page to page: the session goes along, although the page is in a sandbox.
            page.get_by_role("link", name="Paper 000").first.click()
            page.wait_for_url("**/paper.html")
            assert "/login" not in page.url
            page.get_by_role("link", name="The run").first.click()
            page.wait_for_url(f"**/{REPORT_FILE}")
            assert page.title() != "run"
            # The Lab page leads to what the servers did, side by side.
            page.goto(f"{home}/lab")
            page.get_by_role("link", name="Compared: flash-cache").click()
            page.wait_for_url("**/compare-flash-cache.html")
            assert "comparison" in page.locator("h1").inner_text()
            assert page.locator("#findings li").count() >= 1
            assert page.locator("table").count() >= 5
        finally:
            page.close()
