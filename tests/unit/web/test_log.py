# SPDX-License-Identifier: PostgreSQL
"""The log of a served page: a line a minute about each subject, and nothing else."""

import asyncio
import logging
from dataclasses import dataclass, field

import pytest

from pgflash.web.door import _origin
from pgflash.web.log import Sayings


@dataclass
class Told:
    """A logger whose handler's clock is ours."""

    now_s: float = 0.0
    lines: list[str] = field(default_factory=list)
    logger: logging.Logger = field(default_factory=lambda: logging.Logger("strangers"))

    def __post_init__(self) -> None:
        self.logger.addHandler(Sayings(self.lines.append, clock=lambda: self.now_s))

    def complain(self, *words: object) -> None:
        self.logger.warning("%s is wrong", *words)

    def fail(self, why: str) -> None:
        try:
            raise ValueError(why)
        except ValueError:
            self.logger.exception("could not")


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_thing_is_said_at_once_and_then_once_a_minute_with_how_often_it_happened(
    told: Told,
) -> None:
    for number in range(1000):
        told.complain(number)
    assert told.lines == ["0 is wrong"]
    told.now_s = 59.9
    told.complain("it")
    assert len(told.lines) == 1
    told.now_s = 60.0
    told.complain("it")
    assert told.lines[1:] == ["it is wrong (1000 times more since this was last said)"]
    told.now_s = 200.0
    told.complain("it")
    assert told.lines[2:] == ["it is wrong"]


def test_things_are_told_apart_by_where_they_are_said_not_by_words(told: Told) -> None:
    for number in range(100):
        told.complain(f"another {number}")
        told.fail(f"another {number}")
    assert len(told.lines) == 2


def test_what_is_no_warning_is_not_said(told: Told) -> None:
    told.logger.info("Started server process")
    assert told.lines == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07 is wrong"),
        ("a\r\npgflash: b", "a\\r\\npgflash: b is wrong"),
        ("\u202egnp.exe", "\\u202egnp.exe is wrong"),
        ("\x9b31m", "\\x9b31m is wrong"),
        ("\udc80", "\\udc80 is wrong"),
        ("Grüße", "Grüße is wrong"),
    ],
)
def test_a_line_is_one_line_without_what_a_terminal_obeys(
    told: Told, words: str, line: str
) -> None:
    told.complain(words)
    assert told.lines == [line]
    told.fail(words)
    assert told.lines[1].isprintable()


def test_streams_that_end_with_us_are_no_thing_to_say(told: Told) -> None:
    try:
        raise asyncio.CancelledError
    except asyncio.CancelledError:
        told.logger.exception("Exception in ASGI application")
    assert told.lines == []


def test_a_line_has_an_end_and_of_an_exception_where_it_was(told: Told) -> None:
    told.complain("x" * 10_000)
    assert len(told.lines[0]) == 500
    told.fail("this")
    assert told.lines[1].startswith("could not: ValueError: this at ")
    assert "test_log.py:" in told.lines[1]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:2", True),  # one machine has all of them
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_addresses_of_one_machine_are_one(one: str, other: str, same: bool) -> None:
    assert (_origin(one) == _origin(other)) == same
