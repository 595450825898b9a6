# SPDX-License-Identifier: PostgreSQL
"""Connections: how many there may be, and how long each may take.

uvicorn limits the size of a request's head and how long a connection may idle between two
requests.  It waits for ever for the rest of a request, and for whoever does not read an answer;
its limit_concurrency sends away who comes last, which is the right user once strangers hold
all places.  So the protocol here tells a Door of each connection, and the Door sees to three
things.

There are so many connections at most.  One more costs another its place: the oldest of a
stranger, of the address that strangers have most from (behind a proxy, and on loopback, all have
the same).  A stranger is whose connection is not just being used to answer a request that came
with a token; where none is asked for, to answer any.  So whoever comes is let in, and has time to
show a token before others push him out; who has shown one gets his answer, a stream, too.

A request must be here in time, head and body; the clock begins when the connection is made or
the last answer was given, and no byte that trickles in sets it back.

Answers must be read: a part of them in a time, or the connection ends.  All together do not
hold more than so many unread bytes, or the largest goes.

Everything happens in the event loop, so there are no locks.  A sweep each second looks at the
clocks, while there is a connection.
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

#: Accepted in one go by the event loop before it looks at any of them.
ACCEPTED_AT_ONCE = 32
#: Descriptors for all else: files, sessions with the server, and connections that were accepted
#: and are not counted yet, or are no longer and not closed yet.
_RESERVED = 64 + 4 * ACCEPTED_AT_ONCE
#: A connection may be sent a file, which is open meanwhile.
_PER_CONNECTION = 2
_CONNECTIONS_MIN = 16
_SWEEP_S = 1.0
_NO_LINGERING = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What connections may take."""

    #: Twice as many as a hundred viewers need, who have a stream and some requests each.
    connections: int = 500
    #: A request, head and body.
    request_s: float = 10.0
    #: So much of an answer in so much time; a modem does that.
    read_bytes: int = 16 * 1024
    read_s: float = 20.0
    #: Of all answers that were given and not read.
    unread_bytes: int = 128 * 2**20


def allowed_connections(wanted: int) -> int:
    """Return how many connections our limit of descriptors allows, raised as far as it goes."""
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
    """Knows all connections of a server."""

    def __init__(self, limits: Limits) -> None:
        """Hold connections to limits."""
        self.limits = limits
        self._open: set[Connection] = set()
        #: By where they come from, the oldest first.
        self._strangers: dict[str, dict[Connection, None]] = {}
        self._sweeps: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many connections there are."""
        return len(self._open)

    def enter(self, one: "Connection") -> None:
        """Let a connection in, if need be in the place of another."""
        self._open.add(one)
        self._strangers.setdefault(one.origin, {})[one] = None
        if len(self._open) > self.limits.connections:
            _log.warning("more than %d connections: strangers had to go", self.limits.connections)
            most = max(self._strangers.values(), key=lambda group: len(group))
            self._end(next(iter(most)))
        if self._sweeps is None:
            self._sweeps = one.loop.call_later(_SWEEP_S, self._sweep, one.loop)

    def know(self, one: "Connection", known: bool) -> None:
        """Note whether a connection is that of a stranger now."""
        if known:
            self._forget_stranger(one)
        elif one in self._open:
            self._strangers.setdefault(one.origin, {}).setdefault(one)

    def leave(self, one: "Connection") -> None:
        """Forget a connection that is over."""
        self._open.discard(one)
        self._forget_stranger(one)

    def _forget_stranger(self, one: "Connection") -> None:
        among = self._strangers.get(one.origin, {})
        among.pop(one, None)
        if not among:
            self._strangers.pop(one.origin, None)

    def relieve(self) -> None:
        """End the connection with most to read, if all together have too much."""
        unread = {one: one.unread for one in self._open}
        if sum(unread.values()) > self.limits.unread_bytes:
            _log.warning("more than %d bytes of answers were not read", self.limits.unread_bytes)
            self._end(max(unread, key=lambda one: unread[one]))

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = time.monotonic()
        for one in list(self._open):
            if one.is_asking and now_s - one.asked_s > self.limits.request_s:
                if one.has_begun:  # browsers open connections just in case
                    _log.warning("a request was not complete after %g s", self.limits.request_s)
                self._end(one)
            elif one.reads_too_slowly(now_s, self.limits):
                _log.warning("an answer was not read for %g s", self.limits.read_s)
                self._end(one)
        self._sweeps = loop.call_later(_SWEEP_S, self._sweep, loop) if self._open else None

    def _end(self, one: "Connection") -> None:
        """End a connection; what is not read yet is dropped, by the kernel, too."""
        self.leave(one)
        if one.unread:
            one.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING
            )
        one.transport.abort()


class Connection(H11Protocol):
    """One connection, which tells the Door what becomes of it."""

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
        # The application says with each request whether it knows who asks.
        super().__init__(config, server_state, {**app_state, "know": self.know}, _loop)
        self._door = door
        self.origin = ""
        self.asked_s = time.monotonic()
        #: Whether a part of the request that is to come is here.
        self.has_begun = False
        #: When so much was unread: what slowness is measured from.
        self._seen: tuple[float, int] | None = None

    @property
    def is_asking(self) -> bool:
        """Whether a request is to come, or not here as a whole."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    @property
    def unread(self) -> int:
        """How many bytes wait here for whoever is to read them."""
        return self.transport.get_write_buffer_size()

    def reads_too_slowly(self, now_s: float, limits: Limits) -> bool:
        """Tell whether too little of what is to be read was read for too long."""
        unread = self.unread
        if not unread:
            self._seen = None
        elif self._seen is None or unread <= self._seen[1] - limits.read_bytes:
            self._seen = (now_s, unread)
        return self._seen is not None and now_s - self._seen[0] > limits.read_s

    def know(self, known: bool) -> None:
        """Take the application's word for who asks."""
        self._door.know(self, known)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask to be let in."""
        super().connection_made(transport)
        self.origin = _origin(self.client[0] if self.client else "")
        self._door.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that it is over."""
        self._door.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take up a part of a request."""
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
        """Stop making more of an answer; what there is may be too much already."""
        super().pause_writing()
        self._door.relieve()


def _origin(host: str) -> str:
    """Return what is counted as one address: of IPv6 the network, which one machine has."""
    if ":" not in host or host.startswith("::ffff:"):
        return host
    return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:8].hex()
