# SPDX-License-Identifier: PostgreSQL
"""The addresses of a site: one server's are at its root, several have an overview there."""

import pytest

from support.patience import until
from support.served import served, served_fleet

TOKEN = "0123456789abcdef"
PATHS = ("/", "/blocking", "/cache", "/live/samples", "/live/events", "/live/cache")
LOST = ["host=/nowhere/a", "host=/nowhere/b"]
HTML = {"Accept": "text/html"}


def test_nothing_of_several_servers_is_shown_without_the_token() -> None:
    with served_fleet(LOST, token=TOKEN) as site:
        until(lambda: site.fleet.view.members)
        root = site.root("/nowhere/a")
        paths = ["/", "/metrics", *(f"{at}{path}" for at in (root, "/leader") for path in PATHS)]
        assert {site.ask(path).code for path in paths} == {401}
        assert site.ask(f"{root}/report", method="POST", body=b"").code == 401
        assert {site.ask(path, headers=HTML).headers["location"] for path in paths} == {"/login"}
        mine = {"Authorization": f"Bearer {TOKEN}"}
        assert [site.ask(path, headers=mine).code for path in ("/", f"{root}/")] == [200, 200]


def test_a_server_that_is_not_there_has_no_page_and_says_so() -> None:
    with served_fleet(LOST) as site:
        answer = site.ask("/server/other/cache", headers=HTML)
        assert answer.code == 404
        assert "There is no such server, or not any more." in answer.text
        assert 'href="/">Back to the Overview' in answer.text
        assert site.ask("/leader/").text == "It is not known which of the servers leads.\n"


def test_a_server_s_page_is_refreshed_without_the_overview_which_has_all_servers_read() -> None:
    with served_fleet(LOST) as site:
        until(lambda: site.fleet.view.members)
        root = site.root("/nowhere/a")
        for path in ("/", "/blocking", "/cache"):
            page = site.ask(root + path).text
            assert 'id="lead" data-refresh="' in page
            assert 'data-refresh="/"' not in page
        assert f'id="lead" data-refresh="{root}/blocking"' in site.ask(f"{root}/").text


def test_a_range_of_a_server_that_has_not_answered_is_shown_with_the_page() -> None:
    """A link to a range is opened before the first answer: the page shows the range later."""
    with served() as site:
        answer = site.ask("/?from=2026-01-01&to=2026-01-02", headers=HTML)
    assert (answer.code, "<h1>Performance</h1>" in answer.text) == (503, True)


def test_streams_of_all_servers_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgflash.web.app.STREAMS_MAX", 1)
    with served_fleet(LOST) as site:
        until(lambda: site.fleet.view.members)
        with site.stream(root=site.root("/nowhere/a")):
            refused = site.ask(f"{site.root('/nowhere/b')}/live/events")
    assert (refused.code, "viewers are watching already" in refused.text) == (503, True)


def test_one_server_has_no_overview_and_no_label() -> None:
    with served() as site:
        assert "<h1>Performance</h1>" in site.ask("/").text
        for path in ("/", "/blocking", "/cache"):
            page = site.ask(path).text
            assert "Overview" not in page
            assert "data-root" not in page
        assert {site.ask(path).code for path in ("/leader/", "/server/local/")} == {404}
        assert "member=" not in site.ask("/metrics").text
