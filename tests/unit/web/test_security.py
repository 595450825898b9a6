# SPDX-License-Identifier: PostgreSQL
"""Rights on the live page, over a real socket; no PostgreSQL server is needed."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Router

from pgflash.cli import main
from pgflash.errors import UsageError
from pgflash.web.security import (
    CSP,
    FREE_TRIES,
    HEADERS,
    SESSION_S,
    SESSIONS_MAX,
    Doorman,
    Guard,
    make_policy,
)
from support.patience import until
from support.served import Answer, Served, served

TOKEN = "0123456789abcdef-right"
PAGES = ("/", "/blocking", "/live/samples", "/metrics")


@pytest.fixture(autouse=True)
def nobodys_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep new tokens in a folder of the test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def open_page() -> Iterator[Served]:
    """A page on loopback, without a token."""
    with served() as page:
        yield page


@pytest.fixture
def locked() -> Iterator[Served]:
    """A page that asks for a token."""
    with served(token=TOKEN) as page:
        yield page


def log_in(page: Served, token: str = TOKEN, **headers: str) -> Answer:
    return page.ask(
        "/login",
        method="POST",
        headers={"Content-Type": "application/x-www-form-urlencoded", **headers},
        body=f"token={token}".encode(),
    )


def cookie(answer: Answer) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


# ---- every answer


@pytest.mark.parametrize(
    "path", [*PAGES, "/health", "/static/page.css", "/nowhere", "/live/events/x"]
)
def test_every_answer_has_the_headers_errors_too(open_page: Served, path: str) -> None:
    answer = open_page.ask(path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert "server" not in answer.headers
    assert ("no-store" in answer.headers.get("cache-control", "")) == (
        not path.startswith("/static")
    )


def test_the_policy_for_content_has_no_exceptions() -> None:
    assert "unsafe" not in CSP
    assert "*" not in CSP
    assert "default-src 'none'" in CSP
    assert "frame-ancestors 'none'" in CSP


def test_pages_have_no_script_and_no_style_in_them(open_page: Served, locked: Served) -> None:
    for text in (open_page.ask("/").text, locked.ask("/login").text):
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=|javascript:", text)


def test_refusals_carry_the_headers(open_page: Served) -> None:
    refused = open_page.ask("/", headers={"Host": "evil.example"})
    assert refused.code == 421
    assert refused.headers["content-security-policy"] == CSP


# ---- names


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("LOCALHOST:9999", 200),  # the other end of a tunnel
        ("[::1]:{port}", 200),
        ("evil.example:{port}", 421),
        ("evil.example", 421),
        ("localhost.evil.example:{port}", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
        ("a b", 421),
        (None, 400),  # HTTP itself wants one
    ],
)
def test_only_our_own_names_are_answered(open_page: Served, host: str | None, code: int) -> None:
    sent = None if host is None else host.format(port=open_page.port)
    assert open_page.ask("/health", headers={"Host": sent}).code == code


def test_an_address_that_a_socket_for_ipv6_was_reached_by_is_ours() -> None:
    guard = Guard(Router(), Doorman(make_policy("::1")))

    def code(host: bytes, at: str) -> int | None:
        scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/health"}
        scope |= {"server": (at, 8432), "headers": [(b"host", host)]}
        scope["state"] = {"know": lambda _known: None}
        refusal = guard._refusal(scope)
        return None if refusal is None else refusal.status_code

    assert code(b"192.0.2.1:8432", "::ffff:192.0.2.1") is None
    assert code(b"[2001:db8::1]:8432", "2001:db8::1") is None
    assert code(b"192.0.2.2:8432", "::ffff:192.0.2.1") == 421


def test_two_names_at_once_are_refused(open_page: Served) -> None:
    with socket.create_connection(("127.0.0.1", open_page.port), 10) as connection:
        connection.sendall(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        )
        first = connection.makefile("rb").readline()
    assert b" 200 " not in first


def test_a_name_that_was_given_is_ours() -> None:
    policy = make_policy("0.0.0.0", token=TOKEN, names=["DB1.example.org"])
    assert "db1.example.org" in policy.names
    assert "0.0.0.0" not in policy.names


# ---- other sites


@pytest.mark.parametrize("path", ["/login", "/logout"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},  # another page of this machine
        {"Origin": "https://127.0.0.1:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_what_other_pages_post_is_refused(
    open_page: Served, path: str, headers: dict[str, str]
) -> None:
    sent = {name: value.format(port=open_page.port) for name, value in headers.items()}
    assert open_page.ask(path, method="POST", headers=sent, body=b"").code == 403


def test_what_our_own_page_posts_is_taken(open_page: Served) -> None:
    own = {"Origin": f"http://127.0.0.1:{open_page.port}", "Sec-Fetch-Site": "same-origin"}
    assert open_page.ask("/logout", method="POST", headers=own, body=b"").code == 303


def test_other_pages_may_lead_here_and_may_not_read(open_page: Served) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    read = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert open_page.ask("/", headers=link).code == 200
    for path in PAGES:
        assert open_page.ask(path, headers=read).code == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_refused(open_page: Served, method: str) -> None:
    answer = open_page.ask("/", method=method)
    assert answer.code == 405
    assert answer.headers["allow"] == "GET, HEAD, POST"


def test_get_does_not_end_a_session(locked: Served) -> None:
    word = cookie(log_in(locked))
    assert locked.ask("/logout", headers={"Cookie": word}).code == 405
    assert locked.ask("/live/samples", headers={"Cookie": word}).code == 200


# ---- tokens


@pytest.mark.parametrize("path", [*PAGES, "/live/events", "/nowhere"])
def test_without_a_token_nothing_is_told(locked: Served, path: str) -> None:
    answer = locked.ask(path)
    assert answer.code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    browser = locked.ask(path, headers={"Accept": "text/html,*/*"})
    assert (browser.code, browser.headers["location"]) == (303, "/login")


def test_the_token_opens_by_a_header_and_by_the_form(locked: Served) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert locked.ask("/metrics", headers=bearer).code == 200
    answer = log_in(locked)
    assert (answer.code, answer.headers["location"]) == (303, "/")
    flags = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/", f"max-age={SESSION_S}"} <= flags
    assert TOKEN not in answer.headers["set-cookie"]
    word = cookie(answer)
    assert locked.ask("/", headers={"Cookie": word}).code == 200
    assert locked.ask("/logout", method="POST", headers={"Cookie": word}, body=b"").code == 303
    assert locked.ask("/", headers={"Cookie": word}).code == 401


def test_a_stream_ends_with_its_session(locked: Served) -> None:
    word = cookie(log_in(locked))
    with locked.stream(cookie=word) as stream:
        assert stream.status == 200
        assert locked.ask("/logout", method="POST", headers={"Cookie": word}, body=b"").code == 303
        assert b"event: moved" in stream.read()


@pytest.mark.parametrize("wrong", ["", "~", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\u00e9" * 8])
def test_a_wrong_token_opens_nothing(locked: Served, wrong: str) -> None:
    answer = log_in(locked, wrong)
    assert answer.code == 403
    assert "set-cookie" not in answer.headers
    assert not wrong or wrong not in answer.text
    header = {"Authorization": f"Bearer {wrong}".encode().decode("latin-1")}
    assert locked.ask("/metrics", headers=header).code == 401
    name = cookie(log_in(locked)).partition("=")[0]
    assert locked.ask("/metrics", headers={"Cookie": f"{name}={TOKEN}"}).code == 401
    assert locked.ask("/metrics", headers={"Cookie": f"a; {name}; ={name}; \u00ff=;;"}).code == 401


@pytest.mark.parametrize("query", [f"token={TOKEN}", f"a=1&Token={TOKEN}", "token=", "to%6ben=x"])
def test_a_token_in_a_url_is_refused_also_the_right_one(locked: Served, query: str) -> None:
    for page in ("/", "/login", "/metrics"):
        answer = locked.ask(f"{page}?{query}", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.code == 400
        assert TOKEN not in answer.text


def test_wrong_tokens_are_told_to_wait_and_the_right_one_opens_all_the_same() -> None:
    now_s = 0.0
    doorman = Doorman(make_policy("127.0.0.1", token=TOKEN), clock=lambda: now_s)
    assert [doorman.may_try_again() for _ in range(FREE_TRIES + 2)] == [True] * FREE_TRIES + [
        False,
        False,
    ]
    assert doorman.knows(TOKEN)
    now_s = 1.0
    assert [doorman.may_try_again() for _ in range(2)] == [True, False]
    now_s = 1000.0  # and not a thousand more
    assert [doorman.may_try_again() for _ in range(FREE_TRIES + 1)][-2:] == [True, False]


def test_sessions_end_in_time_and_are_so_many_at_most() -> None:
    now_s = 0.0
    doorman = Doorman(make_policy("127.0.0.1", token=TOKEN), clock=lambda: now_s)
    first = doorman.open_session()
    assert doorman.has_session(first)
    now_s = SESSION_S - 1.0
    assert doorman.has_session(first)
    now_s = SESSION_S + 1.0
    assert not doorman.has_session(first)
    words = [doorman.open_session() for _ in range(SESSIONS_MAX + 1)]
    assert not doorman.has_session(words[0])
    assert all(doorman.has_session(word) for word in words[1:])


def test_an_address_that_others_reach_needs_a_token() -> None:
    for address in ("0.0.0.0", "192.0.2.1", "::", "db1"):
        with pytest.raises(UsageError, match="needs a token"):
            make_policy(address)
        assert make_policy(address, token=TOKEN).token is not None
    for address in ("127.0.0.1", "::1", "localhost"):
        assert make_policy(address).token is None  # as --no-token has it
    with pytest.raises(UsageError, match="fewer than 16"):
        make_policy("127.0.0.1", token="short")
    with pytest.raises(UsageError, match="7 different characters"):
        make_policy("127.0.0.1", token="passwordpassword")


def test_behind_a_proxy_cookies_are_for_https_and_so_are_origins() -> None:
    policy = make_policy("127.0.0.1", token=TOKEN, names=["db.example.org"], https=True)
    with served(policy=policy) as page:
        own = {"Host": "db.example.org", "Origin": "https://db.example.org"}
        answer = log_in(page, **own)
        assert "secure" in answer.headers["set-cookie"].lower()
        assert log_in(page, **{**own, "Origin": "http://db.example.org"}).code == 403
        signed_in = {"Host": "db.example.org", "Cookie": cookie(answer)}
        moved = page.ask("/blocking/", headers=signed_in)
        assert moved.headers["location"] == "https://db.example.org/blocking"


# ---- bad requests


def test_a_long_body_is_not_read(open_page: Served) -> None:
    assert open_page.ask("/login", method="POST", body=b"x" * 5000).code == 413
    assert open_page.ask("/login", method="POST", headers={"Content-Length": "9" * 30}).code >= 400


def test_a_body_without_a_length_ends_where_the_limit_is(locked: Served) -> None:
    with socket.create_connection(("127.0.0.1", locked.port), 10) as connection:
        connection.sendall(
            b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            b"Connection: close\r\n\r\n"
            + b"1000\r\n"
            + b"x" * 4096
            + b"\r\n"
            + b"1\r\nx\r\n0\r\n\r\n"
        )
        first = connection.makefile("rb").readline()
    assert b" 303 " not in first
    assert b" 200 " not in first


@pytest.mark.parametrize(
    "path", ["/nowhere", "/<script>alert(1)</script>", "/static/../app.py", "/static/%2e%2e/app.py",
             "/static/", "/static/%00", "/templates/frame.html"],
)  # fmt: skip
def test_an_unknown_route_is_one_sentence_that_repeats_nothing(
    open_page: Served, path: str
) -> None:
    answer = open_page.ask(path)
    assert answer.code == 404
    assert answer.text == "There is no such page.\n"
    page = open_page.ask(path, headers={"Accept": "text/html"})
    assert (page.code, page.text.count('role="alert"')) == (404, 1)
    assert "There is no such page." in page.text
    assert page.headers["content-security-policy"] == CSP
    for word in ("alert(1)", "nowhere", "app.py"):
        assert word not in page.text


@pytest.mark.parametrize("after", ["x", "a-b", "-1", "1", "a-1e9", "a-" + "9" * 40, "<script>"])
def test_a_place_that_is_none_is_refused_in_a_sentence(open_page: Served, after: str) -> None:
    answer = open_page.ask(f"/live/samples?after={after}")
    if after == "-1":  # an epoch without a name: another process's
        assert answer.code == 200
    else:
        assert (answer.code, answer.text) == (400, "after is EPOCH-NUMBER, as an event's id is.\n")


def test_a_server_that_is_not_there_is_said_on_the_page(open_page: Served) -> None:
    until(lambda: open_page.collector.status.state == "lost")
    text = open_page.ask("/").text
    assert "No answer yet, trying again: No such file or directory." in text
    assert "--dsn" not in text  # which is for the one who started it
    assert "pgflash_up 0" in open_page.ask("/metrics").text


def test_our_health_is_told_to_anybody(locked: Served) -> None:
    assert (locked.ask("/health").code, locked.ask("/health").text) == (200, "ok\n")


# ---- the command


def complaint(
    capsys: pytest.CaptureFixture[str], *words: str, dsn: str = "host=/nowhere"
) -> tuple[int, str]:
    code = main(["serve", "--dsn", dsn, *words])
    text = capsys.readouterr().err
    assert "Traceback" not in text
    return code, text


@pytest.mark.parametrize("dsn", ["host=a dbname", "postgresql://[::1", "nosuch=word"])
def test_a_connection_string_that_is_none_is_refused_at_once(
    capsys: pytest.CaptureFixture[str], dsn: str
) -> None:
    code, text = complaint(capsys, "--listen", "127.0.0.1:0", dsn=dsn)
    first, hint = text.splitlines()[:2]
    assert (code, "the connection string is wrong: " in first) == (2, True)
    assert hint.startswith("HINT: Write it as")


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("nowhere.invalid:8432", "is not an address of this machine"),
        ("a..b:0", "is not an address of this machine: it is not a host name"),
        ("192.0.2.55:0", "could not listen on 192.0.2.55"),
    ],
)
def test_an_address_that_is_not_ours_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: str, sentence: str
) -> None:
    monkeypatch.setenv("PGFLASH_TOKEN", TOKEN)
    code, text = complaint(capsys, "--listen", place)
    assert code in (1, 2)
    assert sentence in text
    assert TOKEN not in text


def test_the_command_refuses_in_one_sentence_each(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGFLASH_TOKEN", raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, text = complaint(capsys, "--listen", f"127.0.0.1:{port}")
        assert (code, f"port {port} is taken" in text) == (1, True)
    code, text = complaint(capsys, "--no-token", "--listen", "0.0.0.0:0")
    assert (code, "needs a token" in text) == (2, True)
    code, text = complaint(capsys, "--no-token", "--token-file", str(tmp_path / "token"))
    assert (code, "one too many" in text) == (2, True)
    code, text = complaint(capsys, "--listen", "127.0.0.1:99999")
    assert (code, "99999 is not a port" in text) == (2, True)
    code, text = complaint(capsys, "--listen", "one:two:three")
    assert (code, "is not an address" in text) == (2, True)
    secret = tmp_path / "token"
    secret.write_text(TOKEN)
    secret.chmod(0o644)
    code, text = complaint(capsys, "--token-file", str(secret))
    assert (code, "others may read" in text) == (2, True)
    assert TOKEN not in text
    monkeypatch.setenv("PGFLASH_TOKEN", "short")
    code, text = complaint(capsys)
    assert (code, "fewer than 16" in text) == (2, True)
