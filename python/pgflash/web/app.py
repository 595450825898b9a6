# SPDX-License-Identifier: PostgreSQL
"""The site: the pages of one server or of several, metrics, and signing in.

GET changes nothing.  The Guard has authorized a request before it arrives here, and the templates
escape what they show.  All viewers of a server wait for its collector's messages on one Bell, which
the collector's thread rings in the event loop.

A single server has its pages at the root.  With several servers the overview is there, and each
server's pages are below a path of their own (server_pages.py).  The list of servers may change at
any time, so each request looks up its server.  The pages of a server that is gone are closed at the
next request.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import jinja2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from pgflash.errors import PgflashError
from pgflash.live.collector import Collector
from pgflash.live.fleet import SERVERS_MAX, LiveFleet, Member
from pgflash.model.words import sentence
from pgflash.web import metrics
from pgflash.web.details import WAITING_EACH_MAX, WAITING_MAX
from pgflash.web.guests import GuestPage, guest_pages
from pgflash.web.overview import KEPT_S, overview
from pgflash.web.security import SESSION_S, Doorman, Guard, Policy
from pgflash.web.server_pages import GET, POST, Handler, ServerPages, code_of, form_of, root_of

_HERE = Path(__file__).parent

STREAMS_MAX = 100
#: For work that does not need the server: sending files, shutting down.
THREADS = 4
_NO_SUCH_PAGE = "There is no such page."


class _Site:
    """What the pages of one server and of several have in common."""

    def __init__(self, doorman: Doorman, guests: Sequence[GuestPage]) -> None:
        self.doorman = doorman
        self.guests = guests
        self.streams = 0
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

    # ---- the servers

    async def begin(self) -> None:
        """Start watching."""
        raise NotImplementedError

    async def end(self) -> None:
        """Stop watching."""
        raise NotImplementedError

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the servers' pages."""
        raise NotImplementedError

    def leads_to(self, request: Request, pages: ServerPages) -> bool:
        """Return whether the path of a request still leads to this server."""
        raise NotImplementedError

    def about(self) -> dict[str, object]:
        """Return the values that every page shows of all servers."""
        raise NotImplementedError

    def facts(self) -> metrics.Facts | dict[str, metrics.Facts]:
        """Return the data for metrics: of the one server, or of each by its name."""
        raise NotImplementedError

    # ---- pages

    def page(self, request: Request, name: str, code: int = 200, **values: object) -> Response:
        """Return a page from a template; the value `member` names one of several servers."""
        root = root_of(request)
        about = {"member": "", **self.about(), **values}
        about |= {
            "root": root,
            "menu": self.menu(root),
            "signed_in": self.doorman.policy.token is not None,
        }
        return HTMLResponse(self._templates.get_template(name).render(**about), status_code=code)

    def menu(self, root: str) -> tuple[tuple[str, str], ...]:
        """Return titles and paths of the pages; ROOT is where a server's pages are."""
        return (
            ("Performance", f"{root}/"),
            ("Blocking", f"{root}/blocking"),
            ("Flash cache", f"{root}/cache"),
            *((guest.title, guest.path) for guest in self.guests),
        )

    def guest(self, guest: GuestPage) -> Handler:
        """Return the handler of a guest's page."""

        async def answer(request: Request) -> Response:
            contents = await asyncio.to_thread(guest.contents)
            return self.page(request, guest.template, 200, place=guest.title, **contents)

        return answer

    def stream_begins(self) -> None:
        """Count a stream; refuse it if there are too many."""
        if self.streams >= STREAMS_MAX:
            raise HTTPException(503, f"{STREAMS_MAX} viewers are watching already.")
        self.streams += 1

    def stream_ends(self) -> None:
        """Count one stream less."""
        self.streams -= 1

    async def metrics(self, request: Request) -> Response:
        form = metrics.accepted(request.headers.get("accept", ""))
        return Response(
            metrics.render(self.facts(), form),
            headers={"content-type": metrics.CONTENT_TYPES[form], "vary": "Accept"},
        )

    async def health(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    # ---- refusals

    async def refused(self, request: Request, error: Exception) -> Response:
        """Answer a failed request with one sentence that quotes nothing from it."""
        if isinstance(error, PgflashError):
            return self._refusal(request, code_of(error), error.message, error.hint)
        if isinstance(error, ClientDisconnect):  # the rest did not arrive, or is too long
            return self._refusal(request, 413, "This request is too long or incomplete.")
        if not isinstance(error, HTTPException):
            return self._refusal(request, 500, "An internal error occurred.")
        said = str(error.detail)
        if error.status_code == 404:
            said = getattr(request.state, "unknown", _NO_SUCH_PAGE)
        answer = self._refusal(request, error.status_code, said)
        answer.headers.update(error.headers or {})
        return answer

    def _refusal(self, request: Request, code: int, said: str, hint: str = "") -> Response:
        """Return a page for a browser, and plain text for anything else."""
        if "text/html" not in request.headers.get("accept", ""):
            lines = [f"{line}\n" for line in (said, hint) if line]
            return PlainTextResponse("".join(lines), status_code=code)
        back = {name: word for name, word in getattr(request.state, "back", {}).items() if word}
        root = root_of(request)
        unknown = hasattr(request.state, "unknown")
        return self.page(
            request,
            "refused.html",
            code,
            place="",
            title="Server not available" if unknown else "Report not available",
            sentence=f"{sentence(said.removesuffix('.'))}.",
            hint=hint,
            again=unknown,  # it may be back, or another server may lead
            back="/" if unknown else f"{root}/?{urlencode(back)}" if back else f"{root}/",
            back_title="Overview" if unknown else "Performance page",
        )

    # ---- logging in

    async def login_page(self, request: Request) -> Response:
        if self.doorman.policy.token is None:
            return RedirectResponse("/", status_code=303)
        return self.page(request, "login.html", sentence="")

    async def login(self, request: Request) -> Response:
        if self.doorman.policy.token is None:
            return RedirectResponse("/", status_code=303)
        form = form_of(await request.body())
        if not self.doorman.knows(form.get("token", "").strip()):
            if not self.doorman.may_try_again():
                said = "Too many wrong tokens: wait a second."
                return self.page(request, "login.html", 429, sentence=said)
            return self.page(request, "login.html", 403, sentence="Wrong token.")
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
    """The static files; starlette 0.46 raises ValueError for a name with a zero byte."""

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        return ("", None) if "\0" in path else super().lookup_path(path)


class _OneServer(_Site):
    """A site of one server's pages."""

    def __init__(self, collector: Collector, doorman: Doorman, guests: Sequence[GuestPage]) -> None:
        super().__init__(doorman, guests)
        self._collector = collector
        self._pages = ServerPages(collector, self)

    async def begin(self) -> None:
        self._pages.open()
        self._collector.start()

    async def end(self) -> None:
        await asyncio.to_thread(self._collector.stop)
        await asyncio.to_thread(self._pages.close)

    def routes(self) -> list[BaseRoute]:
        return _server_routes(lambda _request: self._pages)

    def leads_to(self, _request: Request, _pages: ServerPages) -> bool:
        return True

    def about(self) -> dict[str, object]:
        return {"sentence_of_all": ""}

    def facts(self) -> metrics.Facts:
        self._collector.asked()
        return _facts(self._collector)


class _ManyServers(_Site):
    """A site of an overview and the pages of each server."""

    def __init__(self, fleet: LiveFleet, doorman: Doorman, guests: Sequence[GuestPage]) -> None:
        super().__init__(doorman, guests)
        self._fleet = fleet
        self._pages: dict[str, ServerPages] = {}
        self._overview: tuple[float, bytes | memoryview] = (0.0, b"")
        self._tasks: set[asyncio.Future[None]] = set()

    async def begin(self) -> None:
        self._fleet.start()

    async def end(self) -> None:
        await asyncio.to_thread(self._fleet.stop)
        for one in self._pages.values():
            await asyncio.to_thread(one.close)

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", self.overview, methods=["GET"]),
            Mount("/server/{server}", routes=_server_routes(self._named)),
            Mount("/leader", routes=_server_routes(self._leading)),
        ]

    def menu(self, root: str) -> tuple[tuple[str, str], ...]:
        pages = super().menu(root)
        return (("Overview", "/"), *(pages if root else pages[_PAGES:]))

    def about(self) -> dict[str, object]:
        return {"sentence_of_all": self._fleet.view.sentence}

    def leads_to(self, request: Request, pages: ServerPages) -> bool:
        key = request.path_params.get("server")
        member = self._fleet.view.leader if key is None else self._fleet.member(key)
        return member is not None and member.gone_at is None and member.collector is pages.collector

    async def overview(self, request: Request) -> Response:
        """Answer with the overview."""
        self._fleet.asked()
        until_s, body = self._overview
        if time.monotonic() >= until_s:
            values = await asyncio.to_thread(overview, self._fleet.view)
            body = self.page(request, "overview.html", 200, **values).body
            self._overview = (time.monotonic() + KEPT_S, body)
        return HTMLResponse(body)

    def _named(self, request: Request) -> ServerPages:
        member = self._fleet.member(request.path_params["server"])
        if member is None:
            request.state.unknown = "There is no such server, or not any more."
            raise HTTPException(404)
        return self._pages_of(request, member)

    def _leading(self, request: Request) -> ServerPages:
        member = self._fleet.view.leader
        if member is None:
            request.state.unknown = "It is not known which of the servers leads."
            raise HTTPException(404)
        return self._pages_of(request, member)

    def _pages_of(self, request: Request, member: Member) -> ServerPages:
        """Return the pages of a server; close those of servers that are no longer watched."""
        view = self._fleet.view
        watched = {one.key: one.collector for one in view.members if one.gone_at is None}
        for key, one in list(self._pages.items()):
            if watched.get(key) is not one.collector:
                del self._pages[key]
                task = asyncio.ensure_future(asyncio.to_thread(one.close))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        if member.collector is None or member.gone_at is not None:
            request.state.unknown = f"{sentence(member.facts(view.at).problem)}."
            raise HTTPException(404)
        if member.key not in self._pages:
            made = ServerPages(
                member.collector, self, name=member.server.name, waiting_max=WAITING_EACH_MAX
            )
            made.open()
            self._pages[member.key] = made
        return self._pages[member.key]

    def facts(self) -> dict[str, metrics.Facts]:
        self._fleet.asked()
        view = self._fleet.view
        rows = {one.name: one for one in view.fleet.members}
        return {
            name: replace(_facts_of(one), member=rows.get(name))
            for one in view.members
            for name in [one.server.name]
        }


#: The number of a server's pages in the menu.
_PAGES = 3


def _facts_of(member: Member) -> metrics.Facts:
    """Return the data of a member; if it is not being read, only that it is down."""
    if member.collector is not None and member.gone_at is None:
        return _facts(member.collector)
    return replace(metrics.NOTHING, cpu_s=time.process_time())


def _facts(collector: Collector) -> metrics.Facts:
    return metrics.Facts(
        live=collector.status.state == "live",
        server=collector.server,
        reading=collector.newest,
        waited_s=collector.waited_s,
        viewers=collector.viewers,
        cpu_s=time.process_time(),
    )


def _server_routes(find: Callable[[Request], ServerPages]) -> list[BaseRoute]:
    """Return the routes of a server's pages; FIND returns the pages for a request."""

    def route(path: str, handler: Callable[[ServerPages], Handler], method: str) -> Route:
        async def answer(request: Request) -> Response:
            return await handler(find(request))(request)

        return Route(path, answer, methods=[method])

    return [
        *(route(path, handler, "GET") for path, handler in GET),
        *(route(path, handler, "POST") for path, handler in POST),
    ]


#: The default folder of the data that guest pages show.
STORE = Path("out")


def make_app(
    watched: Collector | LiveFleet, policy: Policy, *, store: Path | None = STORE
) -> ASGIApp:
    """Return the guarded application, which starts and stops WATCHED with itself."""
    guests = guest_pages(store)
    doorman = Doorman(policy)
    is_one = isinstance(watched, Collector)
    # Each request that waits for a server occupies a thread, and other requests need some, too.
    waiting = WAITING_MAX if is_one else SERVERS_MAX * WAITING_EACH_MAX
    site: _Site = (
        _OneServer(watched, doorman, guests)
        if isinstance(watched, Collector)
        else _ManyServers(watched, doorman, guests)
    )

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        threads = ThreadPoolExecutor(waiting + THREADS, thread_name_prefix="pgflash ask")
        asyncio.get_running_loop().set_default_executor(threads)
        await site.begin()
        try:
            yield
        finally:
            await site.end()

    get: list[tuple[str, Callable[..., object]]] = [
        *((guest.path, site.guest(guest)) for guest in guests),
        *(route for guest in guests for route in guest.routes),
        ("/metrics", site.metrics),
        ("/health", site.health),
        ("/login", site.login_page),
    ]
    post: list[tuple[str, Callable[..., object]]] = [
        ("/login", site.login),
        ("/logout", site.logout),
    ]
    app = Starlette(
        routes=[
            *site.routes(),
            *(Route(path, route, methods=["GET"]) for path, route in get),
            *(Route(path, route, methods=["POST"]) for path, route in post),
            Mount("/static", _Files(directory=_HERE / "static")),
        ],
        exception_handlers={
            HTTPException: site.refused,
            PgflashError: site.refused,
            ClientDisconnect: site.refused,
            Exception: site.refused,
        },
        lifespan=lifespan,
    )
    return Guard(app, doorman, files=[guest.files for guest in guests if guest.files])
