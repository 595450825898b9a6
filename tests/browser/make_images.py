# SPDX-License-Identifier: PostgreSQL
"""Make docs/images again: the live page under a small oltp load, the example report, the demo's.

    make images

Not a test.  It takes two minutes: the charts want something to show.  The demo's is the report of
the last `make demo`, if there is one: make it on a machine that does nothing else.
"""

import argparse
import sys
import time
from pathlib import Path

from playwright.sync_api import BrowserContext, sync_playwright

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "tools")]

from pgflash_lab import api  # noqa: E402
from support.chromium import CHROMIUM  # noqa: E402
from support.cluster import ClusterFactory, build_install, find_install  # noqa: E402
from support.served import served  # noqa: E402
from support.serving import TOKEN  # noqa: E402
from support.watched import create_watched, under_load  # noqa: E402

IMAGES = REPOSITORY / "docs" / "images"
SIZE = {"width": 1200, "height": 900}


def photograph(context: BrowserContext, address: str, name: str, *, marked: bool = False) -> None:
    """Photograph the top of a page."""
    page = context.new_page()
    page.set_viewport_size(SIZE)  # type: ignore[arg-type]  # a TypedDict of these two
    page.goto(address)
    page.wait_for_timeout(3000)
    if marked:
        box = page.locator("#sessions .u-over").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.55, box["y"] + 50)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 50, steps=3)
        page.mouse.up()
        page.wait_for_timeout(1500)
    page.screenshot(path=IMAGES / name)
    page.close()


def photograph_demo(context: BrowserContext, store: Path) -> None:
    """Photograph the report of the newest finished demo."""
    demos = [
        one.id
        for one in api.lab_runs(store=store)
        if one.run is not None and one.run.preset == "demo" and one.state == "finished"
    ]
    if not demos:
        sys.stderr.write("report.png stays as it is: there is no finished run of make demo\n")
        return
    photograph(context, api.lab_report(demos[-1], store=store).as_uri(), "report.png")


def main() -> None:
    """Make all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=90, help="how long the load runs first")
    seconds = parser.parse_args().seconds
    install = build_install(find_install(18))
    factory = ClusterFactory(install)
    try:
        cached = create_watched(factory, install)
        with (
            under_load(cached.server, rate_tps=40),
            served(cached.server.conninfo(), interval_s=1.0, token=TOKEN) as one,
            sync_playwright() as player,
        ):
            address = f"http://127.0.0.1:{one.port}"
            browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            context = browser.new_context()
            page = context.new_page()
            page.goto(address)
            page.get_by_label("Token").fill(TOKEN)
            page.get_by_role("button", name="Enter").click()  # a viewer gets one reading a second
            time.sleep(seconds)
            photograph(context, f"{address}/", "live.png", marked=True)
            photograph(context, f"{address}/cache", "live-cache.png")
            report = REPOSITORY / "docs" / "examples" / "report.html"
            photograph(context, report.as_uri(), "awr.png")
            photograph_demo(context, REPOSITORY / "out")
            browser.close()
    finally:
        factory.close()


if __name__ == "__main__":
    main()
