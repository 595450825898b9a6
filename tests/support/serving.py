# SPDX-License-Identifier: PostgreSQL
"""`pgflash serve` in a process of its own, as users run it, and strangers who crowd its door."""

import contextlib
import http.client
import os
import re
import resource
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from support.patience import PATIENCE_S, until

TOKEN = "0123456789abcdef-right"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
#: Pause between two rounds of a crowd.
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A page served by a process."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path
    begun_s: float

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[int, str]:
        """Return the code and the text of an answer; 0 if the connection was ended."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, headers=dict(headers or {}), body=body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (ConnectionError, http.client.HTTPException, TimeoutError):
            return 0, ""
        finally:
            connection.close()

    @property
    def lines(self) -> list[str]:
        """Its output so far."""
        return self.log.read_text().splitlines()

    def says_little(self, things: int) -> bool:
        """Tell whether this many things have a line a minute at most, besides its first lines."""
        minutes = 1 + (time.monotonic() - self.begun_s) // 60
        return len(self.lines) <= 2 + things * minutes


@contextlib.contextmanager
def serving(
    base: Path,
    *words: str,
    token: str = TOKEN,
    files: tuple[int, int] | None = None,
    listen: str = "127.0.0.1:0",
) -> Iterator[Serving]:
    """Serve the page of an absent server; FILES are limits of descriptors."""
    log = base / "serve.log"
    begun_s = time.monotonic()
    environment = {
        **{name: word for name, word in os.environ.items() if name != "PGFLASH_TOKEN"},
        "XDG_CONFIG_HOME": str(base / "config"),
        **({"PGFLASH_TOKEN": token} if token else {}),
    }
    limited = f"ulimit -Sn {files[0]} && ulimit -Hn {files[1]} && " if files else ""
    command = [
        *("sh", "-c", f'{limited}exec "$@"', "sh"),
        *(sys.executable, "-m", "pgflash", "serve", "--dsn", "host=/nowhere dbname=x"),
        *("--listen", listen, *words),
    ]
    with log.open("wb") as said:
        process = subprocess.Popen(command, stderr=said, env=environment)
        try:
            until(lambda: "Ctrl-C" in log.read_text() or process.poll() is not None)
            (port,) = re.findall(r"http://[^ ]*:(\d+)/", log.read_text())
            one = Serving(port=int(port), process=process, log=log, begun_s=begun_s)
            until(lambda: one.ask("/health")[0] == 200)
            yield one
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


class Crowd:
    """Strangers who hold connections with the same incomplete request; expelled ones return."""

    def __init__(self, port: int, count: int, words: bytes, *, again_s: int = 300) -> None:
        """Connect this many to a local port; at most AGAIN_S a second return."""
        _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self._port = port
        self._count = count
        self._words = words
        self._again_s = again_s
        self._over = threading.Event()
        #: How many connected, with those who returned counted again.
        self.came = 0
        self._thread = threading.Thread(target=self._press)

    def __enter__(self) -> "Crowd":
        self._thread.start()
        until(lambda: self.came >= self._count)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _press(self) -> None:
        inside: dict[int, socket.socket] = {}
        events = select.epoll()
        while not self._over.is_set():
            more = 50 if self.came < self._count else max(round(self._again_s * _PAUSE_S), 1)
            for _ in range(min(self._count - len(inside), more)):
                one = socket.socket()
                one.settimeout(1.0)
                with contextlib.suppress(OSError):
                    one.connect(("127.0.0.1", self._port))
                    one.sendall(self._words)
                    inside[one.fileno()] = one
                    events.register(one.fileno(), select.EPOLLIN)
                    self.came += 1
            self._over.wait(_PAUSE_S)
            for number, _event in events.poll(0):
                with contextlib.suppress(OSError):
                    if inside[number].recv(65536):
                        continue
                events.unregister(number)
                inside.pop(number).close()
        events.close()
        for one in inside.values():
            one.close()


def stranger(port: int, words: bytes = b"", *, window: int = 0) -> socket.socket:
    """Return a connection that has sent something; WINDOW: how much of an answer it accepts."""
    one = socket.socket()
    if window:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    one.settimeout(PATIENCE_S)
    one.connect(("127.0.0.1", port))
    one.sendall(words)
    return one


def is_over(one: socket.socket) -> bool:
    """Tell whether the other side has ended a connection; its remaining data is not read."""
    events = select.poll()
    events.register(one, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
    return bool(events.poll(0))
