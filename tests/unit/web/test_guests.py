# SPDX-License-Identifier: PostgreSQL
"""Pages of other distributions: in the menu and behind the token, if there are any."""

from dataclasses import replace

import pytest
from starlette.requests import Request
from starlette.responses import Response

from pgflash.web.guests import GuestPage
from pgflash.web.security import CSP
from support.served import served

GUEST = GuestPage(
    title="Guest & Co",
    path="/guest",
    package="pgflash.web",
    template="frame.html",
    contents=dict,
)


def test_without_a_guest_there_is_neither_page_nor_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgflash.web.app.guest_pages", lambda _store: ())
    with served() as one:
        assert 'href="/lab"' not in one.ask("/").text
        assert one.ask("/lab").code == 404
        assert one.ask("/live/lab").code == 404


def test_a_guest_stands_in_the_menu_of_each_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgflash.web.app.guest_pages", lambda _store: (GUEST,))
    with served() as one:
        assert '<a href="/guest">Guest &amp; Co</a>' in one.ask("/").text
        assert '<a href="/guest" aria-current="page">' in one.ask("/guest").text


def test_a_guest_is_behind_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgflash.web.app.guest_pages", lambda _store: (GUEST,))
    with served(token="0123456789abcdef-right") as one:
        assert one.ask("/guest").code != 200


def test_only_files_of_a_guest_have_a_policy_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_request: Request) -> Response:
        return Response("page", headers={"content-security-policy": "default-src 'none'"})

    routes = (("/guest/files/{name}", answer), ("/guest/other", answer))
    guest = replace(GUEST, routes=routes, files="/guest/files/")
    monkeypatch.setattr("pgflash.web.app.guest_pages", lambda _store: (guest,))
    with served() as one:
        assert one.ask("/guest/files/a").headers["content-security-policy"] == "default-src 'none'"
        assert one.ask("/guest/other").headers["content-security-policy"] == CSP
