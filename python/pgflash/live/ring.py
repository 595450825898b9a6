# SPDX-License-Identifier: PostgreSQL
"""The last minutes of what viewers are told, each message made once for all of them.

A message is a sample, what the server is, what has changed of it, or what became of the
connection.  Messages are numbered through, so a viewer who slept asks for what came after the
last one he has; if that is no longer kept, he is told that there is a gap and gets what there is.
The epoch is drawn when the process starts: a number of another process means nothing here.

Locking: one condition around a deque; appending wakes who waits, and calls listeners, which
must not block.  Memory is bounded by the number of messages, each of some two kilobytes.
"""

import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import msgspec

#: Fifteen minutes at one a second.
MESSAGES_MAX = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What viewers are told."""

    number: int
    #: sample, server, notice or status.
    kind: str
    #: JSON.
    data: bytes


class Ring:
    """The messages that are kept."""

    def __init__(self, size: int = MESSAGES_MAX) -> None:
        """Keep so many."""
        self.epoch = secrets.token_hex(4)
        self._messages: deque[Message] = deque(maxlen=size)
        self._changed = threading.Condition()
        self._number = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def newest(self) -> int:
        """Return the number of the newest message; 0: there is none yet."""
        return self._number

    def append(self, kind: str, make: Callable[[int], Any]) -> Message:
        """Add a message, whose content MAKE makes of its number."""
        with self._changed:
            number = self._number + 1
            message = Message(number=number, kind=kind, data=msgspec.json.encode(make(number)))
            self._messages.append(message)
            self._number = number
            self._changed.notify_all()
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()
        return message

    def after(self, number: int) -> tuple[list[Message], bool]:
        """Return the messages after one, and whether some of them are kept no longer."""
        with self._changed:
            if number > self._number:  # of a future that never was
                number = 0
            oldest = self._messages[0].number if self._messages else self._number + 1
            # From the end: who follows wants the last one of nine hundred.
            found = list(takewhile(lambda one: one.number > number, reversed(self._messages)))
            return found[::-1], number + 1 < oldest

    def wait(self, number: int, timeout_s: float) -> bool:
        """Wait for a message after one; tell whether there is one."""
        with self._changed:
            return self._changed.wait_for(lambda: self._number > number, timeout_s)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a listener after every message, from the thread that appends."""
        with self._changed:
            self._listeners.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Call it no longer."""
        with self._changed:
            self._listeners.remove(listener)
