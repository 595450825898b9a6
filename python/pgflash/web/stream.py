# SPDX-License-Identifier: PostgreSQL
"""Streams of server-sent events: how they are woken, how they end, and their format."""

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from pgflash.live.ring import Message


class Bell:
    """Wakes all tasks of the event loop that wait for it; any thread may ring it."""

    def __init__(self) -> None:
        """Make a bell that belongs to no loop yet."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()

    def hang(self) -> None:
        """Belong to the current loop from now on."""
        self._loop = asyncio.get_running_loop()

    def ring(self) -> None:
        """Wake all waiting tasks; there are none before the loop runs."""
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


class Stream(StreamingResponse):
    """A stream of events that reports its end, even if nothing was sent."""

    def __init__(self, content: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        """Send this content, and call ENDED once."""
        super().__init__(content, media_type="text/event-stream")
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the content until the client disconnects."""
        # With ASGI 2.4, starlette learns that a client is gone from a failed write, and with
        # uvicorn 0.32 none fails.  With 2.3 it listens for the disconnection.
        listened = {**scope, "asgi": {**scope.get("asgi", {}), "spec_version": "2.3"}}
        try:
            await super().__call__(listened, receive, send)
        finally:
            self._ended()


def event(epoch: str, message: Message) -> bytes:
    """Return a message as an event of a stream."""
    return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (
        epoch.encode(),
        message.number,
        message.kind.encode(),
        message.data,
    )


def framed(message: Message) -> bytes:
    """Return a message as JSON."""
    return b'{"number":%d,"kind":"%s","data":%s}' % (
        message.number,
        message.kind.encode(),
        message.data,
    )
