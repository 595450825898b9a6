# SPDX-License-Identifier: PostgreSQL
"""Viewers of the live page, as far as their browsers send requests.

A viewer loads a page, asks for the last minutes, and listens to the stream; the script of the
Performance page asks for the sessions' activity every ten seconds, or as rarely as the last answer
says (range.js), that of the Flash cache page fetches the page again every five seconds
(refresh.js).
"""

import http.client
import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from urllib.parse import urlencode

#: The same as in range.js and refresh.js.
STEP_S = 10
SHOWN_S = 300
REFRESH_S = 5.0


class Viewer:
    """A viewer who watches a page until told to stop."""

    def __init__(self, port: int, path: str, stop: threading.Event) -> None:
        """Watch a page that is served on a port of this machine."""
        self._port = port
        self._path = path
        self._stop = stop
        self._followed: tuple[str, str] = ("", "")
        self._step_s: float = STEP_S
        self._failed: Exception | None = None
        self.samples = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        """Wait until it has stopped, at the next line; raise its error, if any."""
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as error:
            self._failed = error

    def _ask(self, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        connection.request("GET", path, headers={"Accept": "text/html"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        assert answer.status == 200, (path, answer.status, body[:200])
        return body

    def _watch(self) -> None:
        self._ask(self._path)
        told = json.loads(self._ask("/live/samples?after="))
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        connection.request("GET", f"/live/events?after={told['epoch']}-{told['next']}")
        stream = connection.getresponse()
        refresh_s = time.monotonic() + REFRESH_S
        kind = ""
        while not self._stop.is_set():
            line = stream.readline().decode()
            if line.startswith("event: "):
                kind = line[7:].strip()
            if line.startswith("data: ") and kind == "sample":
                self.samples += 1
                if self._path == "/":
                    self._follow(datetime.fromisoformat(json.loads(line[6:])["at"]))
            if self._path == "/cache" and time.monotonic() >= refresh_s:
                refresh_s += REFRESH_S
                self._ask(self._path)
        connection.close()

    def _follow(self, newest: datetime) -> None:
        """Ask for the sessions' activity in the last minutes."""
        end_s = math.floor(newest.timestamp() / self._step_s) * self._step_s
        end = datetime.fromtimestamp(end_s, newest.tzinfo)
        followed = ((end - timedelta(seconds=SHOWN_S)).isoformat(), end.isoformat())
        if followed != self._followed:
            self._followed = followed
            times = urlencode({"from": followed[0], "to": followed[1]})
            self._step_s = json.loads(self._ask(f"/live/details?{times}"))["again_s"]


@contextmanager
def watching(count: int, port: int, path: str = "/") -> Iterator[list[Viewer]]:
    """Let so many viewers watch a page; they come within a second or two, not all at once."""
    stop = threading.Event()
    viewers: list[Viewer] = []
    try:
        for _ in range(count):
            viewers.append(Viewer(port, path, stop))
            time.sleep(0.1)
        yield viewers
    finally:
        stop.set()
        for one in viewers:
            one.end()
