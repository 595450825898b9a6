# SPDX-License-Identifier: PostgreSQL
"""The pages and data of one server.

They are at the root of a site that watches one server, else below /server/NAME, and those of the
leader also below /leader.  When a path leads to another server than before, as after a failover,
its streams end with the event `moved`, and the scripts load the page again.  So they do when the
viewer's session ends; the page is then the one to sign in.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Protocol, TypeAlias
from urllib.parse import parse_qsl

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pgflash.errors import PgflashError, UsageError
from pgflash.live.collector import Collector, Status
from pgflash.model.live import Focus
from pgflash.model.words import duration, sentence
from pgflash.web import pages
from pgflash.web.data import Data
from pgflash.web.details import (
    ALL,
    CACHE_KEPT_S,
    WAITING_MAX,
    BusyError,
    Details,
    TooOftenError,
    read_focus,
    read_times,
)
from pgflash.web.stream import Bell, Stream, event, framed

#: A stream sends something at least this often, so that no proxy closes it.
BEAT_S = 5.0

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class Site(Protocol):
    """The part of the site that a server's pages use."""

    def page(self, request: Request, name: str, code: int = 200, **values: object) -> Response:
        """Return a page."""

    def stream_begins(self) -> None:
        """Count a stream; refuse it if there are too many."""

    def stream_ends(self) -> None:
        """Count one stream less."""

    def leads_to(self, request: Request, pages: "ServerPages") -> bool:
        """Return whether the path of a request still leads to this server."""


class ServerPages:
    """Handlers of one server's pages and data."""

    def __init__(
        self,
        collector: Collector,
        site: Site,
        *,
        name: str = "",
        waiting_max: int = WAITING_MAX,
    ) -> None:
        """Show the server that a collector reads; NAME is its name if there are several."""
        self.collector = collector
        self.name = name
        self.details = Details(collector.dsn, segments=collector.segments, waiting_max=waiting_max)
        self.data = Data(collector, self.details)
        self.bell = Bell()
        self._site = site
        #: By the root of its links: until when the flash cache's page, which is the same for all
        #: viewers, may be reused, and the page.
        self._flash: dict[str, tuple[float, bytes | memoryview]] = {}

    def open(self) -> None:
        """Wake streams in the current loop from now on."""
        self.bell.hang()
        self.collector.ring.listen(self.bell.ring)

    def close(self) -> None:
        """End queries and their session; this blocks: not for the event loop."""
        self.collector.ring.forget(self.bell.ring)
        self.details.stop()

    def _page(self, request: Request, name: str, code: int, **values: object) -> Response:
        return self._site.page(request, name, code, member=self.name, **values)

    # ---- pages

    async def performance(self, request: Request) -> Response:
        """Answer with the Performance page."""
        self.collector.asked()
        query = request.query_params
        begin, end = (query.get(name, "")[:40] for name in ("from", "to"))
        focus, code, error = ALL, 200, ""
        try:
            focus = read_focus(query)
        except PgflashError as why:
            error, code = f"{sentence(why.message)}.", code_of(why)
        values = pages.performance(
            self.collector, begin=begin, end=end, focus=focus, root=root_of(request)
        )
        try:
            if (begin or end) and not error:
                values |= pages.marked(await self._time_range(begin, end, focus))
            if not focus.is_all and self.collector.server is not None:
                found = await asyncio.to_thread(self.details.about, self.collector.server, focus)
                values["about"] = msgspec.json.decode(found)
        except PgflashError as why:
            error, code = f"{sentence(why.message)}.", code_of(why)
        return self._page(request, "performance.html", code, **{**values, "error": error})

    async def blocking(self, request: Request) -> Response:
        """Answer with the page that shows which sessions block which."""
        self.collector.asked()
        server, rows, error = self.collector.server, [], ""
        if server is not None:
            try:
                rows = msgspec.json.decode(await asyncio.to_thread(self.details.blocking, server))
            except PgflashError as found:
                error = f"{sentence(found.message)}."
        values = pages.standing(self.collector)
        return self._page(
            request,
            "blocking.html",
            200,
            **values,
            place="Blocking",
            blocked=rows,
            error=error,
            duration=duration,
        )

    async def flash(self, request: Request) -> Response:
        """Answer with the page of the flash cache."""
        self.collector.asked()
        root = root_of(request)
        until_s, body = self._flash.get(root, (0.0, b""))
        if time.monotonic() >= until_s:
            body = (await self._made_flash(request)).body
            self._flash[root] = (time.monotonic() + CACHE_KEPT_S, body)
        return HTMLResponse(body)

    async def _made_flash(self, request: Request) -> Response:
        server, view, error = self.collector.server, None, ""
        if server is not None:
            try:
                view = msgspec.json.decode(await asyncio.to_thread(self.details.cache, server))
            except PgflashError as found:
                error = f"{sentence(found.message)}."
        values = pages.flash(self.collector, view, error=error)
        return self._page(request, "cache.html", 200, **values)

    # ---- data

    async def samples(self, request: Request) -> Response:
        """Answer with the messages after a number, for a new page and for polling."""
        self.collector.asked()
        ring = self.collector.ring
        messages, gap = ring.after(self._after(request.query_params.get("after", "")))
        head = msgspec.json.encode(
            {
                "epoch": ring.epoch,
                "next": ring.newest,
                "gap": gap,
                "status": self.collector.status,
                "server": self.collector.server,
            }
        )
        body = b'%s,"messages":[%s]}' % (head[:-1], b",".join(map(framed, messages)))
        return Response(body, media_type="application/json")

    async def events(self, request: Request) -> Response:
        """Answer with a stream of the messages after the last one that the viewer has."""
        word = request.headers.get("last-event-id") or request.query_params.get("after", "")
        number = self._after(word)
        self._site.stream_begins()  # now, since other requests may arrive before it is sent
        return Stream(self._stream(request, number), self._site.stream_ends)

    async def _stream(self, request: Request, number: int) -> AsyncIterator[bytes]:
        ring = self.collector.ring
        said: Status | None = None
        with self.collector.watched():
            yield b"retry: 2000\n\n"
            while True:
                if not (request.state.is_known() and self._site.leads_to(request, self)):
                    yield b"event: moved\ndata: {}\n\n"
                    return
                messages, gap = ring.after(number)
                if gap and number:
                    yield b"event: gap\ndata: {}\n\n"
                for message in messages:
                    number = message.number
                    yield event(ring.epoch, message)
                status = self.collector.status
                if status != said:
                    said = status
                    yield b"event: status\ndata: %s\n\n" % msgspec.json.encode(status)
                elif not messages:
                    yield b": still here\n\n"
                if ring.newest <= number:
                    await self.bell.wait(BEAT_S)

    def _after(self, word: str) -> int:
        """Return the number in EPOCH-NUMBER; 0 if that is empty, or of another process."""
        epoch, _dash, number = word.partition("-")
        if not word:
            return 0
        if len(number) > 18 or not number.isdecimal() or not number.isascii():
            raise HTTPException(400, "after is EPOCH-NUMBER, as an event's id is.")
        return int(number) if epoch == self.collector.ring.epoch else 0

    async def time_range(self, request: Request) -> Response:
        """Answer with the activity of sessions in a time range."""
        query = request.query_params
        focus = read_focus(query)
        body = await self._time_range(query.get("from", ""), query.get("to", ""), focus)
        return Response(body, media_type="application/json")

    async def _time_range(self, begin: str, end: str, focus: Focus) -> bytes:
        times = read_times(begin, end)
        return await asyncio.to_thread(self.details.time_range, self.data.server(), *times, focus)

    async def report(self, request: Request) -> Response:
        """Answer with the report of a range, as a download: it has inline styles."""
        form = form_of(await request.body())
        # A refusal links back to the selected range.
        request.state.back = {name: form.get(name, "")[:40] for name in ("from", "to")}
        begin, end = read_times(form.get("from", ""), form.get("to", ""))
        earlier = _seconds(form.get("earlier_s", "")) if "earlier_s" in form else None
        text = await asyncio.to_thread(
            self.details.report, self.data.server(), begin, end, earlier=earlier
        )
        name = "pgflash-report.html" if earlier is None else "pgflash-compare.html"
        return HTMLResponse(text, headers={"content-disposition": f'attachment; filename="{name}"'})


#: Paths below the root of a server, for GET and for POST, and their handlers.
GET: tuple[tuple[str, Callable[[ServerPages], Handler]], ...] = (
    ("/", lambda one: one.performance),
    ("/blocking", lambda one: one.blocking),
    ("/cache", lambda one: one.flash),
    ("/live/samples", lambda one: one.samples),
    ("/live/events", lambda one: one.events),
    ("/live/details", lambda one: one.time_range),
    ("/live/cache", lambda one: one.data.cache),
    ("/live/history", lambda one: one.data.history),
)
POST: tuple[tuple[str, Callable[[ServerPages], Handler]], ...] = (
    ("/report", lambda one: one.report),
)


def root_of(request: Request) -> str:
    """Return the beginning of the paths of a request's server."""
    return str(request.scope.get("root_path", ""))


def _seconds(word: str) -> timedelta:
    """Return how much earlier the other range of a comparison is."""
    if not word.isascii() or not word.isdecimal() or not 1 <= len(word) <= 8 or int(word) == 0:
        raise UsageError("earlier_s is a number of seconds")
    return timedelta(seconds=int(word))


def form_of(body: bytes) -> dict[str, str]:
    """Return the fields of a form that a browser has sent."""
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def code_of(error: PgflashError) -> int:
    """Return the HTTP status for an error."""
    codes = {UsageError: 400, TooOftenError: 429, BusyError: 503}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), 409)
