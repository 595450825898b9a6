# SPDX-License-Identifier: PostgreSQL
"""A server on loopback that answers each request of HTTP as a test says, well-formed or not."""

import contextlib
import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from support.patience import PATIENCE_S


@dataclass
class Told:
    """A server that answers each request with the same bytes, and keeps the requests."""

    port: int
    requests: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def _read_request(own: socket.socket) -> bytes:
    """Read a request with its body: closing a socket with unread bytes would lose the answer."""
    text = b""
    while not _is_whole(text) and (more := own.recv(65536)):
        text += more
    return text


def _is_whole(text: bytes) -> bool:
    head, end, body = text.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)^content-length: *(\d+)", head, re.MULTILINE)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


@contextlib.contextmanager
def answering(
    say: Callable[[socket.socket], None], context: ssl.SSLContext | None = None
) -> Iterator[Told]:
    """Run such a server; SAY writes the answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        told = Told(port=listening.getsockname()[1])

        def serve() -> None:
            while True:
                try:
                    own, _peer = listening.accept()
                except OSError:
                    return
                with contextlib.suppress(OSError), own:
                    if context is not None:
                        own = context.wrap_socket(own, server_side=True)
                    told.requests.append(_read_request(own))
                    say(own)
                    own.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield told
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_S)


def fixed(body: bytes, status: str = "200 OK", head: str = "") -> Callable[[socket.socket], None]:
    text = f"HTTP/1.0 {status}\r\n{head}\r\n".encode() + body
    return lambda own: own.sendall(text)


def document(value: object) -> Callable[[socket.socket], None]:
    return fixed(json.dumps(value).encode())
