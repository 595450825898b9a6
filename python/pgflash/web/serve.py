# SPDX-License-Identifier: PostgreSQL
"""Serving the live page until somebody ends it."""

import contextlib
import errno
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from pgflash.errors import PgflashError
from pgflash.session import parse_dsn
from pgflash.web.app import STORE, make_app
from pgflash.web.collector import Collector
from pgflash.web.ring import Ring
from pgflash.web.security import Policy

#: Streams have no end, so who watches is not waited for.
_GRACE_S = 1


class ServeError(PgflashError):
    """The page cannot be served."""


def serve(
    dsn: str,
    *,
    address: str,
    port: int,
    policy: Policy,
    ready: Callable[[str], None],
    store: Path = STORE,
) -> None:
    """Serve until Ctrl-C; READY is told the address once it is listened on.

    A server that is not there may come; a connection string that is none never leads to one.
    """
    parse_dsn(dsn)
    with contextlib.closing(listen(address, port)) as listener:
        app = make_app(Collector(dsn, Ring()), policy, store=store)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,  # it would keep what careless clients put into URLs
            server_header=False,
            proxy_headers=False,
            lifespan="on",
            ws="none",
            timeout_graceful_shutdown=_GRACE_S,
            h11_max_incomplete_event_size=16 * 1024,
        )
        host = f"[{address}]" if ":" in address else address
        ready(f"http://{host}:{listener.getsockname()[1]}/")
        uvicorn.Server(config).run(sockets=[listener])


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens, or say in one sentence why it cannot be had."""
    try:
        family, kind, protocol, _name, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ServeError(
            f'"{address}" is no address of this machine: {error.strerror}', exit_code=2
        ) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ServeError(
                f"port {port} is taken on {address}",
                hint="Another pgflash serve may run; --listen names another port.",
            ) from error
        raise ServeError(f"could not listen on {address}, port {port}: {error.strerror}") from error
    return listener
