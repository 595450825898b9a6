# SPDX-License-Identifier: PostgreSQL
"""The lab's page within the live page: its runs, their pages and files.

Blocking work is done in a thread; the application turns a refusal into a sentence.
"""

import asyncio
from pathlib import Path

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pgflash.web.guests import GuestPage
from pgflash_lab.web import lab_words
from pgflash_lab.web.shelf import NoSuchRunError, Shelf

_JSON = "application/json"


def lab_page(store: Path) -> GuestPage:
    """Return the page of a store's runs: an entry point of pgflash."""
    answers = _Answers(Shelf(store))
    return GuestPage(
        title="Lab",
        path="/lab",
        package="pgflash_lab.web",
        template="lab.html",
        contents=answers.contents,
        routes=(("/live/lab", answers.runs), ("/lab/runs/{run}/{name}", answers.run)),
        files="/lab/runs/",
    )


class _Answers:
    """Answers from a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def contents(self) -> dict[str, object]:
        view = msgspec.to_builtins(self._shelf.runs())
        return {"store": view["store"], **lab_words.lab(view)}

    async def runs(self, _request: Request) -> Response:
        """Answer with the lab's runs."""
        runs = await asyncio.to_thread(self._shelf.runs)
        return Response(msgspec.json.encode(runs), media_type=_JSON)

    async def run(self, request: Request) -> Response:
        """Answer with a page or a file of a run."""
        run, name = request.path_params["run"], request.path_params["name"]
        try:
            if name.endswith(".html"):
                content, policy = await asyncio.to_thread(self._shelf.page, run, name)
                headers = {"content-security-policy": policy}
                return Response(content, media_type="text/html; charset=utf-8", headers=headers)
            content = await asyncio.to_thread(self._shelf.file, run, name)
        except NoSuchRunError:
            raise HTTPException(404) from None
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type=_JSON, headers=headers)
