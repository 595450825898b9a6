# SPDX-License-Identifier: PostgreSQL
"""What streams do themselves, whatever version of starlette and uvicorn it meets."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.types import Message

from pgflash.web.stream import Stream
from support.patience import PATIENCE_S


@pytest.mark.parametrize("version", ["2.0", "2.3", "2.4"])
def test_a_stream_ends_when_its_client_goes_whatever_the_server_says_it_is(version: str) -> None:
    """Version 0.32 of uvicorn says 2.4, and lets writes to a closed connection pass."""
    ended = []

    async def content() -> AsyncIterator[bytes]:
        while True:
            yield b": still here\n\n"
            await asyncio.sleep(0)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        assert message["type"].startswith("http.response.")

    async def answer() -> None:
        scope = {"type": "http", "asgi": {"spec_version": version}}
        stream = Stream(content(), lambda: ended.append(True))
        await asyncio.wait_for(stream(scope, receive, send), PATIENCE_S)

    # Not in the main thread, where a browser test before this one may have left a loop.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, answer()).result()
    assert ended == [True]
