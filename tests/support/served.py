# SPDX-License-Identifier: PostgreSQL
"""The live page served by a thread, and requested over a real socket."""

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgflash.live.collector import Collector
from pgflash.live.fleet import LiveFleet, NamedByUser
from pgflash.live.ring import Ring
from pgflash.model.fleet import FleetMember
from pgflash.web.app import make_app
from pgflash.web.door import Door, Limits
from pgflash.web.security import Policy, make_policy
from pgflash.web.serve import listen, make_server
from support.patience import PATIENCE_S, until


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response."""

    code: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:  # noqa: ANN401
        """Return the body as JSON."""
        return json.loads(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A site that is served."""

    port: int
    door: Door

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str | None] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Request a path; a header that is None is left out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        sent: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}", **(headers or {})}
        if body is not None:
            sent.setdefault("Content-Length", str(len(body)))
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        found = Answer(
            code=answer.status,
            headers={name.lower(): value for name, value in answer.getheaders()},
            text=answer.read().decode(),
        )
        connection.close()
        return found

    @contextlib.contextmanager
    def stream(
        self, *, last: str = "", root: str = "", cookie: str = ""
    ) -> Iterator[http.client.HTTPResponse]:
        """Open the stream of events of the server below ROOT."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        headers = {"Last-Event-ID": last, "Cookie": cookie}
        connection.request(
            "GET",
            f"{root}/live/events",
            headers={name: value for name, value in headers.items() if value},
        )
        answer = connection.getresponse()
        try:
            yield answer
        finally:
            answer.close()
            connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Served(Site):
    """The pages of a server."""

    collector: Collector


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFleet(Site):
    """The pages of several servers."""

    fleet: LiveFleet

    def member(self, name: str) -> FleetMember:
        """Return what is shown of a server."""
        (found,) = (one for one in self.fleet.view.fleet.members if one.name == name)
        return found

    def root(self, name: str) -> str:
        """Return what the addresses of a server begin with."""
        (found,) = (one for one in self.fleet.view.members if one.server.name == name)
        return f"/server/{found.key}"


def events(stream: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    """Yield the events of a stream: id, event and data."""
    event: dict[str, str] = {}
    for raw in stream:
        line = raw.decode().rstrip("\n")
        if not line:
            if "event" in event:
                yield event
            event = {}
            continue
        name, _colon, value = line.partition(": ")
        event[name] = value


@contextlib.contextmanager
def served(
    dsn: str = "host=/nowhere dbname=x",
    *,
    token: str = "",
    policy: Policy | None = None,
    interval_s: float = 0.1,
    store: Path = Path("/nowhere"),
    limits: Limits | None = None,
) -> Iterator[Served]:
    """Serve the page of a DSN's server; by default there is no server."""
    collector = Collector(dsn, Ring(), interval_s=interval_s)
    policy = policy or make_policy("127.0.0.1", token=token)
    with _served(collector, policy, store, limits) as (port, door):
        yield Served(port=port, collector=collector, door=door)


@contextlib.contextmanager
def served_fleet(
    watched: LiveFleet | Sequence[str], *, token: str = "", interval_s: float = 0.1
) -> Iterator[ServedFleet]:
    """Serve the pages of a fleet, or of the servers of connection strings."""
    if not isinstance(watched, LiveFleet):
        watched = LiveFleet(NamedByUser(watched), interval_s=interval_s)
    policy = make_policy("127.0.0.1", token=token)
    with _served(watched, policy, Path("/nowhere"), None) as (port, door):
        yield ServedFleet(port=port, fleet=watched, door=door)


@contextlib.contextmanager
def _served(
    watched: Collector | LiveFleet, policy: Policy, store: Path, limits: Limits | None
) -> Iterator[tuple[int, Door]]:
    listener = listen("127.0.0.1", 0)
    app = make_app(watched, policy, store=store)
    door = Door(limits or Limits())
    server = make_server(app, door)
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
    thread.start()
    until(lambda: server.started)
    try:
        yield int(listener.getsockname()[1]), door
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()
        assert not thread.is_alive()
