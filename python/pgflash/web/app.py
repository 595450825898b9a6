# SPDX-License-Identifier: PostgreSQL
"""The routes: pages made here, data for scripts, metrics, and logging in.

GET changes nothing.  The Guard has already decided who may ask; each page's template escapes what
it shows.  All viewers wait for the collector's messages on one bell, which the collector's thread
rings in the event loop.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import jinja2
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from pgflash.errors import PgflashError, UsageError
from pgflash.live.collector import Collector, Status
from pgflash.live.ring import Message
from pgflash.model.live import Focus
from pgflash.model.words import duration, sentence
from pgflash.web import metrics, pages
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
from pgflash.web.guests import GuestPage, guest_pages
from pgflash.web.security import SESSION_S, Doorman, Guard, Policy

_HERE = Path(__file__).parent

STREAMS_MAX = 100
#: For answers that do not need the server: files, shutting down.
THREADS = 4
#: A stream sends something at least this often, so that a proxy does not cut it.
BEAT_S = 5.0

_NO_SUCH_PAGE = "There is no such page."


class Bell:
    """Wakes, from any thread, all who wait in the event loop."""

    def __init__(self) -> None:
        """Make a bell that does not ring in a loop yet."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()

    def hang(self) -> None:
        """Ring in the current loop from now on."""
        self._loop = asyncio.get_running_loop()

    def ring(self) -> None:
        """Wake all who wait; before the loop runs, nobody waits."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self, timeout_s: float) -> None:
        """Wait for the next ring, or until the timeout."""
        event = self._event
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except TimeoutError:
            return


class _Routes:
    """What the routes share."""

    def __init__(self, collector: Collector, doorman: Doorman, guests: Sequence[GuestPage]) -> None:
        self.collector = collector
        self.doorman = doorman
        self.details = Details(collector.dsn, segments=collector.segments)
        self.data = Data(collector, self.details)
        self.bell = Bell()
        self.streams = 0
        #: Until when the page of the flash cache may be reused, and the page: it is the same for
        #: all.
        self._flash: tuple[float, bytes | memoryview] = (0.0, b"")
        self._templates = jinja2.Environment(
            loader=jinja2.ChoiceLoader(
                [
                    jinja2.PackageLoader(package)
                    for package in (
                        "pgflash.web",
                        "pgflash.report",
                        *(one.package for one in guests),
                    )
                ]
            ),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
        )
        self._templates.globals["menu"] = (
            ("Performance", "/"),
            ("Blocking", "/blocking"),
            ("Flash cache", "/cache"),
            *((guest.title, guest.path) for guest in guests),
        )

    def page(self, name: str, code: int = 200, **values: object) -> Response:
        values["signed_in"] = self.doorman.policy.token is not None
        return HTMLResponse(self._templates.get_template(name).render(**values), status_code=code)

    # ---- pages

    async def performance(self, request: Request) -> Response:
        self.collector.asked()
        query = request.query_params
        begin, end = (query.get(name, "")[:40] for name in ("from", "to"))
        focus, code, error = ALL, 200, ""
        try:
            focus = read_focus(query)
        except PgflashError as why:
            error, code = f"{sentence(why.message)}.", _code(why)
        values = pages.performance(self.collector, begin=begin, end=end, focus=focus)
        try:
            if (begin or end) and not error:
                values |= pages.marked(await self._time_range(begin, end, focus))
            if not focus.is_all and self.collector.server is not None:
                found = await asyncio.to_thread(self.details.about, self.collector.server, focus)
                values["about"] = msgspec.json.decode(found)
        except PgflashError as why:
            error, code = f"{sentence(why.message)}.", _code(why)
        return self.page("performance.html", code, **{**values, "error": error})

    async def blocking(self, _request: Request) -> Response:
        self.collector.asked()
        server, rows, error = self.collector.server, [], ""
        if server is not None:
            try:
                rows = msgspec.json.decode(await asyncio.to_thread(self.details.blocking, server))
            except PgflashError as found:
                error = f"{sentence(found.message)}."
        values = pages.standing(self.collector)
        return self.page(
            "blocking.html",
            200,
            **values,
            place="Blocking",
            blocked=rows,
            error=error,
            duration=duration,
        )

    async def flash(self, _request: Request) -> Response:
        self.collector.asked()
        until_s, body = self._flash
        if time.monotonic() >= until_s:
            body = (await self._made_flash()).body
            self._flash = (time.monotonic() + CACHE_KEPT_S, body)
        return HTMLResponse(body)

    async def _made_flash(self) -> Response:
        server, view, error = self.collector.server, None, ""
        if server is not None:
            try:
                view = msgspec.json.decode(await asyncio.to_thread(self.details.cache, server))
            except PgflashError as found:
                error = f"{sentence(found.message)}."
        return self.page("cache.html", 200, **pages.flash(self.collector, view, error=error))

    def guest(self, guest: GuestPage) -> Callable[[Request], Awaitable[Response]]:
        async def answer(_request: Request) -> Response:
            contents = await asyncio.to_thread(guest.contents)
            return self.page(guest.template, 200, place=guest.title, **contents)

        return answer

    # ---- data

    async def samples(self, request: Request) -> Response:
        """Answer with the messages after a number: for the start of a page, and for polling."""
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
        body = b'%s,"messages":[%s]}' % (head[:-1], b",".join(map(_framed, messages)))
        return Response(body, media_type="application/json")

    async def events(self, request: Request) -> Response:
        """Answer with a stream of messages, starting after the last one that the viewer had."""
        word = request.headers.get("last-event-id") or request.query_params.get("after", "")
        number = self._after(word)
        if self.streams >= STREAMS_MAX:
            raise HTTPException(503, f"{STREAMS_MAX} viewers are watching already.")
        self.streams += 1  # count at once: other requests may follow
        return _Stream(self._stream(number), self._stream_ended)

    def _stream_ended(self) -> None:
        self.streams -= 1

    async def _stream(self, number: int) -> AsyncIterator[bytes]:
        ring = self.collector.ring
        said: Status | None = None
        with self.collector.watched():
            yield b"retry: 2000\n\n"
            while True:
                messages, gap = ring.after(number)
                if gap and number:
                    yield b"event: gap\ndata: {}\n\n"
                for message in messages:
                    number = message.number
                    yield _event(ring.epoch, message)
                status = self.collector.status
                if status != said:
                    said = status
                    yield b"event: status\ndata: %s\n\n" % msgspec.json.encode(status)
                elif not messages:
                    yield b": still here\n\n"
                if ring.newest <= number:
                    await self.bell.wait(BEAT_S)

    def _after(self, word: str) -> int:
        """Return the number in EPOCH-NUMBER; 0 if it is from another process, or nothing."""
        epoch, _dash, number = word.partition("-")
        if not word:
            return 0
        if len(number) > 18 or not number.isdecimal() or not number.isascii():
            raise HTTPException(400, "after is EPOCH-NUMBER, as an event's id is.")
        return int(number) if epoch == self.collector.ring.epoch else 0

    async def time_range(self, request: Request) -> Response:
        """Answer with what sessions did in a time range."""
        query = request.query_params
        focus = read_focus(query)
        body = await self._time_range(query.get("from", ""), query.get("to", ""), focus)
        return Response(body, media_type="application/json")

    async def _time_range(self, begin: str, end: str, focus: Focus) -> bytes:
        times = read_times(begin, end)
        server = self.collector.server
        if server is None:
            raise BusyError(self.collector.status.page)
        return await asyncio.to_thread(self.details.time_range, server, *times, focus)

    async def report(self, request: Request) -> Response:
        """Answer with the report of a range, as a file: it contains styles, which no page may."""
        form = _form(await request.body())
        # A viewer whose request is refused returns to the marked range.
        request.state.back = {name: form.get(name, "")[:40] for name in ("from", "to")}
        begin, end = read_times(form.get("from", ""), form.get("to", ""))
        earlier = _seconds(form.get("earlier_s", "")) if "earlier_s" in form else None
        text = await asyncio.to_thread(self.details.report, begin, end, earlier=earlier)
        name = "pgflash-report.html" if earlier is None else "pgflash-compare.html"
        return HTMLResponse(text, headers={"content-disposition": f'attachment; filename="{name}"'})

    async def metrics(self, request: Request) -> Response:
        self.collector.asked()
        form = metrics.accepted(request.headers.get("accept", ""))
        text = metrics.render(
            metrics.Facts(
                live=self.collector.status.state == "live",
                server=self.collector.server,
                reading=self.collector.newest,
                waited_s=self.collector.waited_s,
                viewers=self.collector.viewers,
                cpu_s=time.process_time(),
            ),
            form,
        )
        return Response(
            text, headers={"content-type": metrics.CONTENT_TYPES[form], "vary": "Accept"}
        )

    async def health(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    # ---- refusals

    async def refused(self, request: Request, error: Exception) -> Response:
        """Answer with one sentence, without repeating the request."""
        if isinstance(error, PgflashError):
            return self._refusal(request, _code(error), error.message, error.hint)
        if isinstance(error, ClientDisconnect):  # the rest did not arrive, or is too long
            return self._refusal(request, 413, "This request is too long or incomplete.")
        if not isinstance(error, HTTPException):
            return self._refusal(request, 500, "An internal error occurred.")
        said = _NO_SUCH_PAGE if error.status_code == 404 else str(error.detail)
        answer = self._refusal(request, error.status_code, said)
        answer.headers.update(error.headers or {})
        return answer

    def _refusal(self, request: Request, code: int, said: str, hint: str = "") -> Response:
        """Return a page for a browser, else plain text."""
        if "text/html" not in request.headers.get("accept", ""):
            lines = [f"{line}\n" for line in (said, hint) if line]
            return PlainTextResponse("".join(lines), status_code=code)
        back = {name: word for name, word in getattr(request.state, "back", {}).items() if word}
        return self.page(
            "refused.html",
            code,
            place="",
            sentence=f"{sentence(said.removesuffix('.'))}.",
            hint=hint,
            back=f"/?{urlencode(back)}" if back else "/",
        )

    # ---- logging in

    async def login_page(self, _request: Request) -> Response:
        if self.doorman.policy.token is None:
            return RedirectResponse("/", status_code=303)
        return self.page("login.html", sentence="")

    async def login(self, request: Request) -> Response:
        if self.doorman.policy.token is None:
            return RedirectResponse("/", status_code=303)
        form = _form(await request.body())
        if not self.doorman.knows(form.get("token", "").strip()):
            if not self.doorman.may_try_again():
                said = "Too many wrong tokens: wait a second."
                return self.page("login.html", 429, sentence=said)
            return self.page("login.html", 403, sentence="Wrong token.")
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(
            self.doorman.cookie,
            self.doorman.open_session(),
            max_age=SESSION_S,
            path="/",
            httponly=True,
            samesite="strict",
            secure=self.doorman.policy.https,
        )
        return answer

    async def logout(self, request: Request) -> Response:
        self.doorman.close_session(self.doorman.session_word(request.headers))
        answer = RedirectResponse("/login", status_code=303)
        answer.delete_cookie(self.doorman.cookie, path="/", httponly=True, samesite="strict")
        return answer


class _Files(StaticFiles):
    """Our files; starlette 0.46 fails on a name that no file can have."""

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        return ("", None) if "\0" in path else super().lookup_path(path)


class _Stream(StreamingResponse):
    """A stream of events that reports its end, whether it had begun or not."""

    def __init__(self, content: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        super().__init__(content, media_type="text/event-stream")
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # From ASGI 2.4 on, starlette waits for a write to fail when a client has gone, and with
        # uvicorn 0.32 none ever does.  To an older server it listens.
        listened = {**scope, "asgi": {**scope.get("asgi", {}), "spec_version": "2.3"}}
        try:
            await super().__call__(listened, receive, send)
        finally:
            self._ended()


def _seconds(word: str) -> timedelta:
    """Return how much earlier the range for a comparison is."""
    if not word.isascii() or not word.isdecimal() or not 1 <= len(word) <= 8 or int(word) == 0:
        raise UsageError("earlier_s is a number of seconds")
    return timedelta(seconds=int(word))


def _form(body: bytes) -> dict[str, str]:
    """Return the fields of a form as sent by browsers."""
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _event(epoch: str, message: Message) -> bytes:
    return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (
        epoch.encode(),
        message.number,
        message.kind.encode(),
        message.data,
    )


def _framed(message: Message) -> bytes:
    return b'{"number":%d,"kind":"%s","data":%s}' % (
        message.number,
        message.kind.encode(),
        message.data,
    )


def _code(error: PgflashError) -> int:
    codes = {UsageError: 400, TooOftenError: 429, BusyError: 503}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), 409)


#: The folder for the pages of other distributions, unless told otherwise.
STORE = Path("out")


def make_app(collector: Collector, policy: Policy, *, store: Path = STORE) -> ASGIApp:
    """Return the application: guarded, and starting and stopping the collector with itself."""
    guests = guest_pages(store)
    routes = _Routes(collector, Doorman(policy), guests)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        # Each request that waits for the server holds a thread; other requests need some, too.
        threads = ThreadPoolExecutor(WAITING_MAX + THREADS, thread_name_prefix="pgflash ask")
        asyncio.get_running_loop().set_default_executor(threads)
        routes.bell.hang()
        collector.ring.listen(routes.bell.ring)
        collector.start()
        try:
            yield
        finally:
            collector.ring.forget(routes.bell.ring)
            await asyncio.to_thread(collector.stop)
            await asyncio.to_thread(routes.details.stop)

    get: list[tuple[str, Callable[..., object]]] = [
        ("/", routes.performance),
        ("/blocking", routes.blocking),
        ("/cache", routes.flash),
        ("/live/samples", routes.samples),
        ("/live/events", routes.events),
        ("/live/details", routes.time_range),
        *routes.data.routes(),
        *((guest.path, routes.guest(guest)) for guest in guests),
        *(route for guest in guests for route in guest.routes),
        ("/metrics", routes.metrics),
        ("/health", routes.health),
        ("/login", routes.login_page),
    ]
    post: list[tuple[str, Callable[..., object]]] = [
        ("/login", routes.login),
        ("/logout", routes.logout),
        ("/report", routes.report),
    ]
    app = Starlette(
        routes=[
            *(Route(path, route, methods=["GET"]) for path, route in get),
            *(Route(path, route, methods=["POST"]) for path, route in post),
            Mount("/static", _Files(directory=_HERE / "static")),
        ],
        exception_handlers={
            HTTPException: routes.refused,
            PgflashError: routes.refused,
            ClientDisconnect: routes.refused,
            Exception: routes.refused,
        },
        lifespan=lifespan,
    )
    return Guard(app, routes.doorman, files=[guest.files for guest in guests if guest.files])
