# SPDX-License-Identifier: PostgreSQL
"""The last minutes of messages to viewers, each made once for all of them.

A message is a sample, a description of the server, a notice of a change, or the state of the
connection.  Messages are numbered consecutively, so that a viewer who was disconnected can ask for
those after the last one received.  If some of these are no longer kept, the viewer is told of the
gap and gets the rest.  The epoch is a random number that the process draws when it starts: it tells
a viewer that a message's number is of another process.

Locking: one condition guards a deque.  Appending wakes all waiting threads and calls the listeners,
which must not block.  The number of messages is limited; each takes about 2 kB.
"""

import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import msgspec

#: Fifteen minutes at one message a second.
MESSAGES_MAX = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message to viewers."""

    number: int
    #: sample, server, notice or status.
    kind: str
    #: JSON.
    data: bytes


class Ring:
    """The last messages."""

    def __init__(self, size: int = MESSAGES_MAX) -> None:
        """Keep this many messages."""
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
        """Add a message; MAKE returns its content for its number."""
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
        """Return the messages after a number, and whether some of them are no longer kept."""
        with self._changed:
            if number > self._number:  # a number that has not been used yet
                number = 0
            oldest = self._messages[0].number if self._messages else self._number + 1
            # Search from the end: a follower needs only the last of nine hundred.
            found = list(takewhile(lambda one: one.number > number, reversed(self._messages)))
            return found[::-1], number + 1 < oldest

    def wait(self, number: int, timeout_s: float) -> bool:
        """Wait for a message after a number; return whether there is one."""
        with self._changed:
            return self._changed.wait_for(lambda: self._number > number, timeout_s)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a listener after every message, from the thread that appends."""
        with self._changed:
            self._listeners.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Stop calling a listener."""
        with self._changed:
            self._listeners.remove(listener)
