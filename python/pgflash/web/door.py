# SPDX-License-Identifier: PostgreSQL
"""Connections: how many there may be, and how long each may take.

uvicorn limits the size of a request's head and how long a connection may idle between two requests.
But it waits forever for the rest of a request, and for a client that does not read its answer.  Its
limit_concurrency refuses the latest client, which is the wrong one once strangers hold all places.
So the protocol here tells a Door about each connection, and the Door enforces three rules.

The number of connections is limited.  One more displaces another: the oldest connection of
strangers from the address that has most of them (behind a proxy, and on loopback, all have the same
address).  A connection is a stranger's unless it is just answering a request that came with a
token; if no token is required, unless it is answering any request.  So every newcomer is let in,
and has time to show a token before others displace it; a client that has shown one gets its answer,
even if that is a stream.

A request must arrive in time, head and body.  The clock starts when the connection is made or the
last answer was given, and single bytes that trickle in do not reset it.

Answers must be read: a certain amount within a certain time, or the connection ends.  If all
connections together hold more than a limit of unread bytes, the largest one ends.

Everything happens in the event loop, so there are no locks.  While there is a connection, a sweep
checks the clocks each second.
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

#: How many connections the event loop accepts before it looks at any of them.
ACCEPTED_AT_ONCE = 32
#: Descriptors for everything else: files, sessions with the server, and connections that were
#: accepted but are not counted yet, or are no longer counted but not closed yet.
_RESERVED = 64 + 4 * ACCEPTED_AT_ONCE
#: A connection may be sending a file, which is open meanwhile.
_PER_CONNECTION = 2
_CONNECTIONS_MIN = 16
_SWEEP_S = 1.0
_NO_LINGERING = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of connections."""

    #: Twice as many as a hundred viewers need, each with a stream and some requests.
    connections: int = 500
    #: For a request, head and body.
    request_s: float = 10.0
    #: At least this much of an answer must be read in this time; a modem can do that.
    read_bytes: int = 16 * 1024
    read_s: float = 20.0
    #: Limit for all answers that were given and not read.
    unread_bytes: int = 128 * 2**20


def allowed_connections(wanted: int) -> int:
    """Return the number of connections within our descriptor limit, which is raised if possible."""
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
    """Knows all connections of the page."""

    def __init__(self, limits: Limits) -> None:
        """Apply limits to connections."""
        self.limits = limits
        self._open: set[Connection] = set()
        #: By origin, the oldest first.
        self._strangers: dict[str, dict[Connection, None]] = {}
        self._sweeps: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._open)

    def enter(self, one: "Connection") -> None:
        """Let a connection in, if need be by ending another."""
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
        """Note whether a connection is a stranger's now."""
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
        """If all connections together have too much unread, end the one with the most."""
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
        """End a connection; unread data is dropped, also by the kernel."""
        self.leave(one)
        if one.unread:
            one.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING
            )
        one.transport.abort()


class Connection(H11Protocol):
    """One connection, which reports its state to the Door."""

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
        # With each request, the application says whether it knows the client.
        super().__init__(config, server_state, {**app_state, "know": self.know}, _loop)
        self._door = door
        self.origin = ""
        self.asked_s = time.monotonic()
        #: Whether a part of the next request is here.
        self.has_begun = False
        #: When how much was unread: the reference for measuring slowness.
        self._seen: tuple[float, int] | None = None

    @property
    def is_asking(self) -> bool:
        """Whether a request is due, or has not arrived completely."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    @property
    def unread(self) -> int:
        """How many bytes wait here for the client to read them."""
        return self.transport.get_write_buffer_size()

    def reads_too_slowly(self, now_s: float, limits: Limits) -> bool:
        """Tell whether too little was read of the unread bytes for too long."""
        unread = self.unread
        if not unread:
            self._seen = None
        elif self._seen is None or unread <= self._seen[1] - limits.read_bytes:
            self._seen = (now_s, unread)
        return self._seen is not None and now_s - self._seen[0] > limits.read_s

    def know(self, known: bool) -> None:
        """Take the application's verdict on the client."""
        self._door.know(self, known)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask to be let in."""
        super().connection_made(transport)
        self.origin = _origin(self.client[0] if self.client else "")
        self._door.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the connection."""
        self._door.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        self.has_begun = True
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request from now on."""
        self.asked_s = time.monotonic()
        self.has_begun = False
        if not self.unread:
            self.know(False)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Pause producing the answer; what there is may be too much already."""
        super().pause_writing()
        self._door.relieve()


def _origin(host: str) -> str:
    """Return what counts as one address: in IPv6 the network, since one machine has all of it."""
    if ":" not in host or host.startswith("::ffff:"):
        return host
    return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:8].hex()
