# SPDX-License-Identifier: PostgreSQL
"""Connections: how many there may be, and how long each may take.

uvicorn limits the size of a request's head, and how long a connection may idle between two
requests.  But it waits forever for the rest of a request, and for a client that does not read its
answer.  Its limit_concurrency refuses the newest client, which is the wrong one when strangers
occupy all places.  So the protocol here reports each connection to a Door, which enforces three
rules.

The number of connections is limited.  One more than that displaces another: the oldest of the
strangers' connections from the address that has most of them (behind a proxy, and on loopback, all
have the same address).  A connection is a stranger's unless it is answering a request with a token
or, if no token is required, any request.  So every new client is admitted and has time to show its
token before it is displaced, and a client that has shown one gets its answer, even a stream.

A request must arrive in time, head and body.  The time starts with the connection or the end of the
last answer, and single bytes do not restart it.

Answers must be read: a certain amount within a certain time, or the connection is closed.  If all
connections together have more unread bytes than a limit, the one with most of them is closed.

Everything happens in the event loop, so there are no locks.  While there are connections, a sweep
checks their times every second.
"""

import asyncio
import logging
import resource
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

_log = logging.getLogger(__name__)

#: How many connections the event loop accepts before it serves any of them.
ACCEPTED_AT_ONCE = 32
#: Descriptors for everything else: files, database sessions, and connections that are accepted but
#: not counted yet, or no longer counted but not closed yet.
_RESERVED = 64 + 4 * ACCEPTED_AT_ONCE
#: The connection itself, and the file that it may be sending.
_PER_CONNECTION = 2
_CONNECTIONS_MIN = 16
_SWEEP_S = 1.0
_NO_LINGERING = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of connections."""

    #: Twice the need of a hundred viewers, each with a stream and some requests.
    connections: int = 500
    #: For a request, head and body.
    request_s: float = 10.0
    #: At least this much of an answer must be read in this time: the speed of a modem.
    read_bytes: int = 16 * 1024
    read_s: float = 20.0
    #: The most unread bytes of all answers together.
    unread_bytes: int = 128 * 2**20


def allowed_connections(wanted: int) -> int:
    """Return how many connections our descriptors allow; raise their limit if possible."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return wanted
    allowed = (hard - _RESERVED) // _PER_CONNECTION
    if allowed < _CONNECTIONS_MIN:
        raise ValueError(
            f"{hard} files may be open (ulimit -Hn), fewer than "
            f"{_RESERVED + _PER_CONNECTION * _CONNECTIONS_MIN}"
        )
    return min(wanted, allowed)


class Door:
    """Enforces the limits of all connections."""

    def __init__(self, limits: Limits) -> None:
        """Enforce these limits."""
        self.limits = limits
        self._open: set[Connection] = set()
        #: By origin, the oldest first.
        self._strangers: dict[str, dict[Connection, None]] = {}
        self._sweeps: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._open)

    def enter(self, one: "Connection") -> None:
        """Admit a connection, and close another one if there are too many."""
        self._open.add(one)
        self._strangers.setdefault(one.origin, {})[one] = None
        if len(self._open) > self.limits.connections:
            _log.warning(
                "more than %d connections: connections without a token were closed",
                self.limits.connections,
            )
            most = max(self._strangers.values(), key=lambda group: len(group))
            self._end(next(iter(most)))
        if self._sweeps is None:
            self._sweeps = one.loop.call_later(_SWEEP_S, self._sweep, one.loop)

    def know(self, one: "Connection", known: bool) -> None:
        """Set whether a connection's client is known or a stranger."""
        if known:
            self._forget_stranger(one)
        elif one in self._open:
            self._strangers.setdefault(one.origin, {}).setdefault(one)

    def leave(self, one: "Connection") -> None:
        """Forget a closed connection."""
        self._open.discard(one)
        self._forget_stranger(one)

    def _forget_stranger(self, one: "Connection") -> None:
        among = self._strangers.get(one.origin, {})
        among.pop(one, None)
        if not among:
            self._strangers.pop(one.origin, None)

    def relieve(self) -> None:
        """Close the connection with most unread bytes if all together have too many."""
        unread = {one: one.unread for one in self._open}
        if sum(unread.values()) > self.limits.unread_bytes:
            _log.warning("more than %d bytes of answers were not read", self.limits.unread_bytes)
            self._end(max(unread, key=lambda one: unread[one]))

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = time.monotonic()
        for one in list(self._open):
            if one.is_asking and now_s - one.asked_s > self.limits.request_s:
                if one.has_begun:  # browsers open connections in advance
                    _log.warning("a request was not complete after %g s", self.limits.request_s)
                self._end(one)
            elif one.reads_too_slowly(now_s, self.limits):
                _log.warning("an answer was not read for %g s", self.limits.read_s)
                self._end(one)
        self._sweeps = loop.call_later(_SWEEP_S, self._sweep, loop) if self._open else None

    def _end(self, one: "Connection") -> None:
        """Close a connection; its unread bytes are dropped, also by the kernel."""
        self.leave(one)
        if one.unread:
            one.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING
            )
        one.transport.abort()


class Connection(H11Protocol):
    """A connection that reports its state to the Door."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        door: Door,
    ) -> None:
        """Serve one connection behind a Door."""
        # The application calls this for each request.
        super().__init__(config, server_state, {**app_state, "know": self.know}, _loop)
        self._door = door
        self.origin = ""
        self.asked_s = time.monotonic()
        #: Whether a part of the next request has arrived.
        self.has_begun = False
        #: A time, and the unread bytes then: the reference for the speed of reading.
        self._seen: tuple[float, int] | None = None

    @property
    def is_asking(self) -> bool:
        """Whether a request is expected, or has not arrived completely."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    @property
    def unread(self) -> int:
        """The bytes that wait for the client to read them."""
        return self.transport.get_write_buffer_size()

    def reads_too_slowly(self, now_s: float, limits: Limits) -> bool:
        """Return whether too little of the answer has been read for too long."""
        unread = self.unread
        if not unread:
            self._seen = None
        elif self._seen is None or unread <= self._seen[1] - limits.read_bytes:
            self._seen = (now_s, unread)
        return self._seen is not None and now_s - self._seen[0] > limits.read_s

    def know(self, known: bool) -> None:
        """Be told by the application whether it knows the client."""
        self._door.know(self, known)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Enter the Door."""
        super().connection_made(transport)
        self.origin = _origin(self.client[0] if self.client else "")
        self._door.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the Door."""
        self._door.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        self.has_begun = True
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Start the time of the next request."""
        self.asked_s = time.monotonic()
        self.has_begun = False
        if not self.unread:
            self.know(False)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Pause the answer, and check the sum of unread bytes."""
        super().pause_writing()
        self._door.relieve()


def _origin(host: str) -> str:
    """Return what counts as one address: for IPv6 its /64 network, which one machine may use."""
    if ":" not in host or host.startswith("::ffff:"):
        return host
    return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:8].hex()
