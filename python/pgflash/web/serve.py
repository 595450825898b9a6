# SPDX-License-Identifier: PostgreSQL
"""Serve the live page until somebody ends it."""

import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from pgflash.api import PatroniAccess
from pgflash.errors import PgflashError, UsageError
from pgflash.live.collector import Collector
from pgflash.live.fleet import ListedByPatroni, LiveFleet, NamedByUser
from pgflash.live.ring import Ring
from pgflash.session import parse_dsn
from pgflash.web.app import STORE, make_app
from pgflash.web.door import ACCEPTED_AT_ONCE, Connection, Door, Limits, allowed_connections
from pgflash.web.log import Sayings
from pgflash.web.security import Policy

#: Streams do not end by themselves, so viewers are not waited for.
_GRACE_S = 1
#: The most connections that wait to be accepted; further clients try again after a second.
_QUEUE = 1024
_HEAD_MAX_BYTES = 16 * 1024
_IDLE_S = 5
#: The most of an answer that the kernel buffers; by default it may be 4 MB a connection.
_SEND_BUFFER_BYTES = 256 * 1024


class ServeError(PgflashError):
    """The page cannot be served."""


def to_watch(
    dsns: Sequence[str], *, patroni: Sequence[str] = (), access: PatroniAccess | None = None
) -> Collector | LiveFleet:
    """Return a collector for one server, or a fleet: the servers of DSNS, or Patroni's members.

    PATRONI are URLs of its REST API; a DSN then has the database and role.  A server may be down,
    since it may come up later; an invalid connection string is refused.
    """
    for dsn in dsns:
        parse_dsn(dsn)
    if patroni:
        if len(dsns) > 1:
            raise UsageError(
                "with --patroni, --dsn is given once: database and role of its members"
            )
        return LiveFleet(ListedByPatroni(patroni, access, dsns[0] if dsns else None))
    if len(dsns) > 1:
        return LiveFleet(NamedByUser(dsns))
    return Collector(dsns[0] if dsns else "", Ring())


def serve(
    watched: Collector | LiveFleet,
    *,
    address: str,
    port: int,
    policy: Policy,
    ready: Callable[[str], None],
    say: Callable[[str], None],
    store: Path | None = STORE,
) -> None:
    """Serve until Ctrl-C; READY is called with the URL once we listen, SAY with each problem.

    Without STORE there are no pages of other distributions.
    """
    try:
        limits = Limits(connections=allowed_connections(Limits().connections))
    except ValueError as error:
        raise ServeError(str(error), hint="Raise it: ulimit -n 1024, or LimitNOFILE.") from error
    with contextlib.closing(listen(address, port)) as listener, said_rarely(say):
        app = make_app(watched, policy, store=store)
        host = f"[{address}]" if ":" in address else address
        ready(f"http://{host}:{listener.getsockname()[1]}/")
        make_server(app, Door(limits)).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Accepts a few connections at a time; many may wait."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or []:
            one.listen(_QUEUE)


def make_server(app: ASGIApp, door: Door) -> uvicorn.Server:
    """Return a server for an application behind a door."""
    config = uvicorn.Config(
        app,
        http=partial(Connection, door=door),  # type: ignore[arg-type]  # it is only called
        loop="asyncio",
        log_config=None,
        access_log=False,  # it would contain the tokens that careless clients put into URLs
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=_GRACE_S,
        timeout_keep_alive=_IDLE_S,
        h11_max_incomplete_event_size=_HEAD_MAX_BYTES,
        backlog=ACCEPTED_AT_ONCE,
    )
    return _Server(config)


@contextlib.contextmanager
def said_rarely(say: Callable[[str], None]) -> Iterator[None]:
    """Pass the warnings of libraries and our own to a function, a line a minute about each."""
    handler = Sayings(say)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def listen(address: str, port: int) -> socket.socket:
    """Return a listening socket; raise ServeError with the reason if there is none."""
    try:
        family, kind, protocol, _name, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a host name"
        raise ServeError(
            f'"{address}" is not an address of this machine: {why}', exit_code=2
        ) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        listener.bind(place)
        listener.listen(_QUEUE)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ServeError(
                f"port {port} is taken on {address}",
                hint="Another pgflash serve may be running; use another port with --listen.",
            ) from error
        raise ServeError(f"could not listen on {address}, port {port}: {error.strerror}") from error
    return listener
