# SPDX-License-Identifier: PostgreSQL
"""One browser for all tests of pages: the system's chromium."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.chromium import CHROMIUM
from support.opened import Library
from support.patience import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser


#: Without a process for each tab and one that draws, it needs a fifth less CPU time.
_ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-software-rasterizer"),
    *("--renderer-process-limit=1", "--disable-site-isolation-trials"),
]


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("there is no chromium: apt-get install chromium")
    with playwright.sync_playwright() as player:
        running = player.chromium.launch(
            executable_path=CHROMIUM, args=_ARGUMENTS, timeout=PATIENCE_S * 1000
        )
        yield running
        running.close()


@pytest.fixture(scope="module")
def library(browser: "Browser") -> Iterator[Library]:
    """Pages of files, opened once for all tests of a module that only read them."""
    one = Library(browser)
    yield one
    one.close()
