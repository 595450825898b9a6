# SPDX-License-Identifier: PostgreSQL
"""Pages of other distributions: in the menu and behind the door where there are any."""

import pytest

from pgflash.web.guests import GuestPage
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
