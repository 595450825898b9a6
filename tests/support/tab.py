# SPDX-License-Identifier: PostgreSQL
"""The live page in a browser's tab: wait for it, mark a range, read its numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from support.cached import CachedServer
from support.patience import PATIENCE_S, eventually
from support.served import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: A clock and the counts beside it are read within this time.
TOGETHER_S = 0.2

AXE = Path(__file__).parents[1] / "browser" / "vendor" / "axe.min.js"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A served page, and the server that it watches."""

    cached: CachedServer
    served: Served

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.served.port}"

    def counted(self) -> tuple[float, dict[str, float]]:
        """Return the server's clock, and the views' counts at that time."""
        with self.cached.server.connect() as connection:
            while True:
                (at,) = connection.execute(_NOW).fetchone() or (0.0,)
                rows = connection.execute(_COUNTED).fetchall()
                (end,) = connection.execute(_NOW).fetchone() or (0.0,)
                if end - at < TOGETHER_S:
                    return at, dict(rows)

    def waited(self, begin: float, end: float) -> dict[str, float]:
        """Return the seconds that sessions spent in each wait class."""
        with self.cached.server.connect() as connection:
            return dict(connection.execute(_WAITED, (begin, end)).fetchall())


_NOW = "select extract(epoch from clock_timestamp())::float8"
_COUNTED = """
select 'Commits', sum(xact_commit)::float8 from pg_stat_database
union all select 'Rollbacks', sum(xact_rollback)::float8 from pg_stat_database
union all
select kind || what.unit, sum(case what.unit when ' calls' then calls else bytes end)::float8
  from (values (' calls'), (' bytes')) as what (unit),
       (select *, case when file_class = 'wal' then 'WAL'
                       when file_class like 'temp%' then 'Temporary files'
                       when operation <> 'read' then 'Disk, writes'
                       when source = 'flash' then 'Flash, reads'
                       when source = 'disk' then 'Disk, reads'
                       else 'Page cache, reads' end as kind
          from pgflash_io
         where file_class = 'data' or file_class like 'temp%'
            or file_class = 'wal' and operation = 'write') as each
 group by 1
"""
_WAITED = """
select wait_class, sum(seconds)::float8 from pgflash_active_sessions
 where sampled_at >= to_timestamp(%s) and sampled_at < to_timestamp(%s) group by 1
"""


class Tab:
    """A page in the browser, and its errors."""

    def __init__(self, browser: "Browser", address: str, **context: Any) -> None:  # noqa: ANN401
        """Open an empty page for an address; CONTEXT is that of playwright."""
        self._address = address
        self.context = browser.new_context(**context)
        self.context.set_default_timeout(PATIENCE_S * 1000)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(
        self, path: str, *, width: int = 1200, wait_until: Literal["commit", "load"] = "load"
    ) -> None:
        """Go to a page."""
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.mouse.move(0, 0)
        self.page.goto(self._address + path, wait_until=wait_until)

    def until(self, script: str) -> Any:  # noqa: ANN401
        """Wait until a script's value is true; return it.

        Playwright's own wait evaluates a text in the page, which our pages forbid.  A page that
        has only begun to load has no body, and nothing is true of it.
        """
        values: list[Any] = []

        def is_true() -> bool:
            values[:] = [self.page.evaluate(f"document.body && ({script})")]
            return bool(values[0])

        assert eventually(is_true, pause=self._pause), script
        return values[0]

    def until_true(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds, while the page keeps running."""
        assert eventually(condition, pause=self._pause)

    def _pause(self) -> None:
        self.page.wait_for_timeout(50)

    def drawn(self) -> None:
        """Wait until what a click has changed is on the screen: the page draws once a frame."""
        self.page.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def alive(self, samples: int = 3) -> "Page":
        """Wait until the page follows the server and has this many samples."""
        self.until(f"Number(document.body.dataset.number) > {samples}")
        return self.page


def cells(page: "Page") -> dict[str, dict[str, list[str]]]:
    """Return the two values of each line in each figure's table: present and range."""
    found: dict[str, dict[str, list[str]]] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('[data-figure]')].map(one => [one.id,"
        " Object.fromEntries([...one.querySelectorAll('tbody tr')].map(row =>"
        " [row.querySelector('th').textContent.trim(),"
        " [...row.querySelectorAll('td')].map(cell => cell.textContent)]))]))"
    )
    return found


def cell(page: "Page", figure: str, name: str, place: int) -> float:
    """Return a number of a figure's table: 0 is the present, 1 the range."""
    return number(cells(page)[figure][name][place])


def number(text: str) -> float:
    """Return the number in a text."""
    return float(text.replace(",", "").replace("–", "nan"))


def serious(page: "Page") -> list[str]:
    """Return axe-core's findings that keep people from using the page."""
    found = page.evaluate(
        f"{AXE.read_text()}; axe.run({{resultTypes: ['violations']}})"
        ".then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact))"
        ".map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ')).join(', ')))"
    )
    return list(found)


def mark(page: "Page", begin: float, end: float) -> None:
    """Mark a range by typing its two times."""
    for name, moment in (("from", begin), ("to", end)):
        text = datetime.fromtimestamp(moment, UTC).isoformat()
        page.locator(f"#show [name={name}]").fill(text)
    page.get_by_role("button", name="Show").click()


class Finger:
    """A finger on the screen of a page that was opened with has_touch."""

    def __init__(self, page: "Page") -> None:
        self._devtools = page.context.new_cdp_session(page)

    def move(self, begin: tuple[float, float], end: tuple[float, float], steps: int = 5) -> None:
        """Touch the screen, move, and release."""
        self._send("touchStart", *begin)
        for step in range(1, steps + 1):
            x, y = (a + (b - a) * step / steps for a, b in zip(begin, end, strict=True))
            self._send("touchMove", x, y)
        self._send("touchEnd")

    def _send(self, kind: str, *place: float) -> None:
        points = [{"x": place[0], "y": place[1]}] if place else []
        self._devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def drag(page: "Page", figure: str, begin: float, end: float) -> None:
    """Mark a part of a chart with the mouse."""
    box = page.locator(f"#{figure} .u-over").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * begin, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, y, steps=3)
    page.mouse.up()


def samples(watched: Watched) -> list[dict[str, Any]]:
    """Return the stored samples, with their times as numbers."""
    told = watched.served.ask("/live/samples").json["messages"]
    found = [one["data"] for one in told if one["kind"] == "sample"]
    for one in found:
        one["x"] = time_of(one["at"])
    return found


def time_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
