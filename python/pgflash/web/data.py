# SPDX-License-Identifier: PostgreSQL
"""Routes that return data of the cache and of the snapshots as JSON.

Blocking work is done in a thread; the application turns errors into answers.
"""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from pgflash.live.collector import Collector
from pgflash.model.live import LiveServer
from pgflash.web.details import BusyError, Details, read_times

_JSON = "application/json"


class Data:
    """Handlers that answer with data of a server."""

    def __init__(self, collector: Collector, details: Details) -> None:
        """Answer for the server that a collector watches."""
        self._collector = collector
        self._details = details

    def server(self) -> LiveServer:
        """Return the server that is watched; raise BusyError if none has answered yet."""
        server = self._collector.server
        if server is None:
            raise BusyError(self._collector.status.page)
        return server

    async def cache(self, _request: Request) -> Response:
        """Answer with the contents of the flash cache."""
        self._collector.asked()
        body = await asyncio.to_thread(self._details.cache, self.server())
        return Response(body, media_type=_JSON)

    async def history(self, request: Request) -> Response:
        """Answer with the snapshots' rows of a time range."""
        query = request.query_params
        begin, end = read_times(query.get("from", ""), query.get("to", ""))
        body = await asyncio.to_thread(self._details.history, self.server(), begin, end)
        return Response(body, media_type=_JSON)
