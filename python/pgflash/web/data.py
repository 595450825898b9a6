# SPDX-License-Identifier: PostgreSQL
"""Routes that return data for the pages of the cache and the lab, and a run's pages.

Blocking work is done in a thread; the application turns a refusal into a sentence.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pgflash.live.collector import Collector
from pgflash.model.live import LiveServer
from pgflash.web.details import Details, read_times
from pgflash_lab.web.shelf import NoSuchRunError, Shelf

_JSON = "application/json"


class Data:
    """Answers from the server and from the lab's store."""

    def __init__(self, collector: Collector, details: Details, store: Path) -> None:
        """Use a server and a store."""
        self._collector = collector
        self._details = details
        self.shelf = Shelf(store)

    def _server(self) -> LiveServer:
        server = self._collector.server
        if server is None:
            raise HTTPException(503, self._collector.status.sentence)
        return server

    def routes(self) -> list[tuple[str, Callable[..., object]]]:
        """Return paths and their handlers."""
        return [
            ("/live/cache", self.cache),
            ("/live/history", self.history),
            ("/live/lab", self.lab),
            ("/lab/runs/{run}/{name}", self.run),
        ]

    async def cache(self, _request: Request) -> Response:
        """Answer with the contents of the flash cache."""
        self._collector.asked()
        body = await asyncio.to_thread(self._details.cache, self._server())
        return Response(body, media_type=_JSON)

    async def history(self, request: Request) -> Response:
        """Answer with what the snapshots show of a stretch."""
        query = request.query_params
        begin, end = read_times(query.get("from", ""), query.get("to", ""))
        body = await asyncio.to_thread(self._details.history, self._server(), begin, end)
        return Response(body, media_type=_JSON)

    async def lab(self, _request: Request) -> Response:
        """Answer with the lab's runs."""
        runs = await asyncio.to_thread(self.shelf.runs)
        return Response(msgspec.json.encode(runs), media_type=_JSON)

    async def run(self, request: Request) -> Response:
        """Answer with a page or a file of a run."""
        run, name = request.path_params["run"], request.path_params["name"]
        try:
            if name.endswith(".html"):
                content, policy = await asyncio.to_thread(self.shelf.page, run, name)
                headers = {"content-security-policy": policy}
                return Response(content, media_type="text/html; charset=utf-8", headers=headers)
            content = await asyncio.to_thread(self.shelf.file, run, name)
        except NoSuchRunError:
            raise HTTPException(404) from None
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type=_JSON, headers=headers)
