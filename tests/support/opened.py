# SPDX-License-Identifier: PostgreSQL
"""A page in a real browser, with its requests and errors while it opened."""

from pathlib import Path
from typing import TYPE_CHECKING

from support.patience import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: The contrast of each text with its background, computed as in WCAG 2.
CONTRASTS = """() => {
    const parse = text => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
        .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = element => {
        for (let at = element; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour.length < 4 || colour[3] > 0) return colour;
        }
        return [255, 255, 255];
    };
    return [...document.querySelectorAll('body *')]
        .filter(one => [...one.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
        .filter(one => !['STYLE', 'title'].includes(one.tagName))
        .map(one => {
            const style = getComputedStyle(one);
            const text = light(parse(one.closest('svg') ? style.fill : style.color));
            const back = light(behind(one));
            const ratio = (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
            return [one.tagName, one.className, ratio];
        });
}"""


class Opened:
    """A page that was opened from a file, and may be opened again from another."""

    def __init__(self, browser: "Browser", path: Path, *, width: int = 1200) -> None:
        self.page = browser.new_page()
        self.page.set_default_timeout(PATIENCE_S * 1000)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.open(path, width=width)

    def open(self, path: Path, *, width: int) -> None:
        """Open a file as if nothing had been opened before."""
        self.page.emulate_media(media="screen")
        self.show(width=width)
        self.complaints.clear()
        self.requests.clear()
        self.page.goto(path.as_uri())

    def show(self, *, width: int) -> None:
        """Set the window's width."""
        self.page.set_viewport_size({"width": width, "height": 900})


class Library:
    """Opens pages that tests only read once; a separate window is for tests that change a page."""

    def __init__(self, browser: "Browser") -> None:
        self._browser = browser
        self._kept: dict[Path, Opened] = {}
        self._lent: Opened | None = None

    def read(self, path: Path, *, width: int = 1200) -> Opened:
        """Return a page that must be left unchanged."""
        if path not in self._kept:
            self._kept[path] = Opened(self._browser, path, width=width)
        self._kept[path].show(width=width)
        return self._kept[path]

    def own(self, path: Path, *, width: int = 1200) -> Opened:
        """Return a page that may be changed."""
        if self._lent is None:
            self._lent = Opened(self._browser, path, width=width)
        else:
            self._lent.open(path, width=width)
        return self._lent

    def close(self) -> None:
        """Close all pages."""
        for one in (*self._kept.values(), *([self._lent] if self._lent else ())):
            one.page.close()


#: The focused element: class, id or tag, and its outline.
FOCUSED = """() => {
    const one = document.activeElement;
    return [String(one.className || one.id || one.tagName), getComputedStyle(one).outlineStyle];
}"""


def chart_boxes(page: "Page") -> list[dict[str, float]]:
    """Return the layout of each chart of a page."""
    boxes = page.eval_on_selector_all(
        "figure.chart > svg",
        """charts => charts.map(chart => {
            const own = chart.getBoundingClientRect();
            const column = chart.closest('section, header > div').getBoundingClientRect();
            const texts = [...chart.querySelectorAll('text')].map(t => t.getBoundingClientRect());
            const marks = [...chart.querySelectorAll('path[fill], rect')]
                .map(mark => mark.getBoundingClientRect());
            return {width: own.width, height: own.height,
                inside: own.left >= column.left && own.right <= column.right,
                whole: texts.every(t => t.left >= own.left - 1 && t.right <= own.right + 1),
                apart: texts.every((t, i) => texts.slice(i + 1).every(u => t.right <= u.left
                    || u.right <= t.left || t.bottom <= u.top + 3 || u.bottom <= t.top + 3)),
                drawn: marks.some(mark => mark.width > 5)};
        })""",
    )
    return list(boxes)
