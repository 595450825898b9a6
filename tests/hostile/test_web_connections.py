# SPDX-License-Identifier: PostgreSQL
"""Strangers who can reach the live page, have no token, and want nobody to see it.

They open as many connections as they like, and use them in the ways that cost a server most: they
send half of a request, or a byte now and then, or do not read the answer.
"""

import contextlib
import math
import resource
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pgflash.web.door import Limits, allowed_connections
from support.patience import until
from support.served import Served, events, served
from support.serving import RIGHT, TOKEN, Crowd, is_over, serving, stranger

HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "
HALF_BODY = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\ntoken="
#: Patience would be tried if each took ten seconds.
SOON = replace(Limits(), request_s=1.0, read_s=1.0)
#: A visitor that is slow here waits for a processor.
TWENTY = replace(Limits(), connections=20, request_s=math.inf)
NEVER = replace(Limits(), request_s=math.inf, read_s=math.inf, unread_bytes=2**40)


@pytest.fixture
def page() -> Iterator[Served]:
    with served(token=TOKEN, limits=SOON) as one:
        yield one


# ---- half of a request


@pytest.mark.parametrize("words", [HALF, HALF_BODY, b""], ids=["head", "body", "nothing"])
def test_a_thousand_half_requests_keep_nobody_out(tmp_path: Path, words: bytes) -> None:
    """Eleven hundred connections with half a request each, made again when they are ended.

    The server may open 1,024 files.  A user with the token opens pages and reads metrics meanwhile,
    a load balancer is told that the server lives, viewers keep watching, and the log stays
    readable.
    """
    with serving(tmp_path, files=(256, 1024)) as page:
        watching = socket.create_connection(("127.0.0.1", page.port))
        watching.sendall(
            b"GET /live/events HTTP/1.1\r\nHost: localhost\r\n"
            b"Authorization: Bearer %s\r\n\r\n" % TOKEN.encode()
        )
        assert watching.recv(12) == b"HTTP/1.1 200"
        with Crowd(page.port, 1100, words) as crowd:
            for came in (1100, 1500):
                until(lambda: page.ask("/health") == (200, "ok\n"))
                until(lambda: page.ask("/metrics", headers=RIGHT)[0] == 200)
                until(lambda: "</html>" in page.ask("/", headers=RIGHT)[1])
                until(lambda came=came: crowd.came >= came)  # type: ignore[misc]
            assert not is_over(watching)
        until(lambda: page.ask("/health") == (200, "ok\n"))
        watching.close()
        assert page.says_little(3), page.lines
        assert not [line for line in page.lines if "Too many open files" in line]
        assert [line for line in page.lines if "connections without a token were closed" in line]


@pytest.mark.parametrize("words", [HALF, HALF_BODY, b""], ids=["head", "body", "nothing"])
def test_bytes_that_trickle_in_set_no_clock_back(words: bytes) -> None:
    """One who sends a byte of a head or body now and then; without limits he would stay."""
    with served(token=TOKEN, limits=SOON) as page, served(token=TOKEN, limits=NEVER) as control:
        put_out, stays = stranger(page.port, words), stranger(control.port, words)
        with put_out, stays:

            def trickle() -> bool:
                for one in (put_out, stays):
                    with contextlib.suppress(OSError):
                        one.sendall(b"x" if words else b"")
                return is_over(put_out)

            until(trickle)
            assert not is_over(stays)
            assert (len(page.door), len(control.door)) == (0, 1)


def test_a_connection_that_was_opened_just_in_case_is_ended_without_a_word(
    page: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """No attack: browsers do that; half of a request is worth a line in the log."""
    with stranger(page.port) as one:
        until(lambda: is_over(one))
    assert caplog.records == []
    with stranger(page.port, HALF) as one:
        until(lambda: is_over(one))
    assert [one.getMessage() for one in caplog.records] == ["a request was not complete after 1 s"]


def test_a_second_request_is_waited_for_no_longer_than_the_first(page: Served) -> None:
    """A whole request, and half of another on the same connection, with the token as well."""
    whole = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n"
    with stranger(page.port, whole % TOKEN.encode()) as one:
        assert one.recv(12) == b"HTTP/1.1 200"
        one.sendall(HALF)
        until(lambda: is_over(one))


def test_a_body_that_nobody_waits_for_has_to_come_all_the_same(page: Served) -> None:
    """A request that is answered before its body is there: refused, or a stream of events."""
    ask = (
        b"%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n"
    )
    for words in (
        ask % (b"GET /live/events", TOKEN.encode(), 4000),
        ask % (b"POST /report", b"wrong", 4000),
        ask % (b"POST /login", b"wrong", 10**6),
    ):
        with stranger(page.port, words) as one:
            assert one.recv(9) == b"HTTP/1.1 "

            def trickle(one: socket.socket = one) -> bool:
                with contextlib.suppress(OSError):
                    one.sendall(b"x")
                return is_over(one)

            until(trickle)
    until(lambda: len(page.door) == 0)


@pytest.mark.parametrize(
    "words",
    [
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 20_000,
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 5000,
        b"\x16\x03\x01\x02\x00\x01\x00",  # TLS
    ],
    ids=["target", "header", "headers", "tls"],
)
def test_a_head_that_is_too_long_or_none_ends_the_connection(page: Served, words: bytes) -> None:
    """Heads without an end, which a server would keep in memory."""
    with stranger(page.port) as one:
        with contextlib.suppress(OSError):
            one.sendall(words)
        until(lambda: is_over(one))


# ---- places


def crowded(page: Served, count: int, words: bytes) -> list[socket.socket]:
    """Let so many connect, one by one."""
    found = []
    for number in range(count):
        found.append(stranger(page.port, words))
        until(lambda number=number: len(page.door) >= min(number + 1, 20))  # type: ignore[misc]
    return found


@pytest.mark.parametrize("token", [TOKEN, ""], ids=["token", "no token"])
def test_who_has_shown_a_token_keeps_his_place(token: str) -> None:
    """Twenty places, of which five watch and the rest are strangers who keep coming.

    The oldest strangers go; where no token is asked for, those who have asked for nothing.
    """
    with served(token=token, limits=TWENTY) as page:
        watching = [
            stranger(
                page.port,
                b"GET /live/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n"
                % TOKEN.encode(),
            )
            for _ in range(5)
        ]
        for one in watching:
            assert one.recv(12) == b"HTTP/1.1 200"
        strangers = crowded(page, 40, HALF)
        until(lambda: all(is_over(one) for one in strangers[:25]))
        assert not any(is_over(one) for one in watching)
        assert len(page.door) == 20
        for one in (*watching, *strangers):
            one.close()
        until(lambda: len(page.door) == 0)


def test_places_that_all_belong_to_viewers_are_taken_from_none_of_them() -> None:
    """Then a newcomer has to go, and is not let in until another one leaves."""
    watch = b"GET /live/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served(limits=TWENTY) as page:
        watching = [stranger(page.port, watch) for _ in range(20)]
        for one in watching:
            assert one.recv(12) == b"HTTP/1.1 200"
        with stranger(page.port) as late:
            until(lambda: is_over(late))
        assert not any(is_over(one) for one in watching)
        watching.pop().close()
        until(lambda: len(page.door) == 19)
        assert page.ask("/health").code == 200
        for one in watching:
            one.close()


@pytest.mark.parametrize("token", [TOKEN, ""], ids=["token", "no token"])
def test_who_has_had_his_answer_holds_no_place(token: str) -> None:
    """Connections that are kept for a next request, by people who need a token or none."""
    ask = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n"
    with served(token=token, limits=TWENTY) as page:
        kept = [stranger(page.port, ask % TOKEN.encode()) for _ in range(20)]
        for one in kept:
            assert one.recv(12) == b"HTTP/1.1 200"
        assert page.ask("/health").code == 200
        for one in kept:
            one.close()


def test_one_address_takes_no_places_from_others() -> None:
    """An attacker at one address of this machine, and somebody slow at another."""
    with served(token=TOKEN, limits=TWENTY) as page:
        with socket.socket() as slow:
            slow.bind(("127.0.0.2", 0))
            slow.connect(("127.0.0.1", page.port))
            until(lambda: len(page.door) == 1)
            strangers = crowded(page, 60, HALF)
            until(lambda: all(is_over(one) for one in strangers[:41]))
            assert not is_over(slow)
            slow.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert slow.recv(12) == b"HTTP/1.1 200"
        for one in strangers:
            one.close()


def test_connections_stay_below_what_descriptors_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of open files that an administrator has set low, and a crowd."""
    with serving(tmp_path, files=(128, 300)) as page:
        limits = Path(f"/proc/{page.process.pid}/limits").read_text()
        (found,) = [line.split() for line in limits.splitlines() if "open files" in line]
        assert found[3:5] == ["300", "300"]
        with Crowd(page.port, 500, HALF, again_s=50):
            until(lambda: page.ask("/metrics", headers=RIGHT)[0] == 200)
            assert len(list(Path(f"/proc/{page.process.pid}/fd").iterdir())) < 300
        assert not [line for line in page.lines if "Too many open files" in line]
    # And a limit that is too low for anything is reported.
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (64, 64))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, _limits: None)
    with pytest.raises(ValueError, match="64 files may be open"):
        allowed_connections(500)
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1024, resource.RLIM_INFINITY))
    assert allowed_connections(500) == 500


# ---- answers that are not read


def unread_events(page: Served) -> socket.socket:
    """Return the connection of a viewer who reads next to nothing of the stream."""
    watch = b"GET /live/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    one = stranger(page.port, watch, window=2048)
    until(lambda: page.collector.viewers > 0)
    return one


def unread_files(page: Served) -> socket.socket:
    """Return a stranger's connection that asks for a file again and again, and reads nothing."""
    ask = b"GET /static/vendor/uPlot.iife.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    return stranger(page.port, ask * 40, window=2048)


@pytest.mark.parametrize("come", [unread_events, unread_files])
def test_who_does_not_read_his_answer_is_put_out(come: Callable[[Served], socket.socket]) -> None:
    """One who asks and does not read, or a few bytes now and then; without limits he would stay."""
    with served(limits=SOON) as page, served(limits=NEVER) as control:
        put_out, stays = come(page), come(control)

        def goes() -> bool:
            for one in (page, control):
                one.collector.ring.append("notice", lambda _number: {"at": "x" * 20_000})
            for reader in (put_out, stays):
                with contextlib.suppress(OSError):
                    reader.recv(1)
            return is_over(put_out) and len(page.door) == 0

        until(goes)
        assert not is_over(stays)
        assert len(control.door) == 1
        put_out.close()
        stays.close()


def test_who_reads_slowly_and_does_read_gets_it_all() -> None:
    """A slow line: two seconds and more for a file, of which a part comes through in time.

    One who did not read for a second because he had no processor is rightly put out, so he asks
    again.
    """
    with served(limits=SOON) as page:
        whole = page.ask("/static/vendor/uPlot.iife.min.js")
        size = 40 * len(whole.text.encode())

        def gets_it_all() -> bool:
            got = 0
            with unread_files(page) as one, contextlib.suppress(ConnectionError):
                while part := one.recv(32_768):
                    got += len(part)
                    if got >= size:
                        return True
            return False

        until(gets_it_all)
        until(lambda: len(page.door) == 0)


def test_unread_answers_are_not_kept_without_a_limit() -> None:
    """Viewers who ask for the last minutes on many connections, and read none of it."""
    limits = replace(Limits(), unread_bytes=8 * 2**20)
    with served(limits=limits) as page:
        for _ in range(100):
            page.collector.ring.append("notice", lambda _number: {"at": "x" * 20_000})
        ask = b"GET /live/samples HTTP/1.1\r\nHost: localhost\r\n\r\n"
        greedy = [stranger(page.port, ask, window=2048) for _ in range(20)]
        until(lambda: sum(is_over(one) for one in greedy) >= 8)
        unread = sum(one.unread for one in list(page.door._open))
        assert unread <= limits.unread_bytes + 2 * 2**21
        assert page.ask("/live/samples").code == 200
        for one in greedy:
            one.close()


def test_no_more_streams_than_there_may_be_also_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Viewers who come at the same moment, each before the other is counted."""
    monkeypatch.setattr("pgflash.web.app.STREAMS_MAX", 10)
    watch = b"GET /live/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served() as page:
        for _ in range(3):
            strangers = [stranger(page.port) for _ in range(30)]
            for one in strangers:
                one.sendall(watch)
            codes = [one.recv(12) for one in strangers]
            assert (codes.count(b"HTTP/1.1 200"), codes.count(b"HTTP/1.1 503")) == (10, 20)
            for one in strangers:
                one.close()
            until(lambda: len(page.door) == 0)
        with page.stream() as stream:
            page.collector.ring.append("notice", lambda _number: {"sentence": "here"})
            assert next(one for one in events(stream) if one["event"] == "notice")
