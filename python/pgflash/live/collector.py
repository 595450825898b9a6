# SPDX-License-Identifier: PostgreSQL
"""A thread that reads a server once a second for all viewers.

It connects, finds out which statistics the server has, and reads them.  When it loses the server,
it tells the viewers and tries again after 1, 2, 4, 8, then every 10 seconds, without end.  It
notices a restart, a promotion or a changed extension when it connects again, or within half a
minute.  Without a viewer it reads only every ten seconds; the first viewer makes it read at once.

A server that does not answer blocks this thread, but not the viewers: `status` uses the caller's
clock to report that the last reading is late.

Each server of a fleet (fleet.py) is also asked every five seconds for its role, lag and settings.
All collectors of a process ask at the same moments, so that the answers can be compared.

Locking: only this thread writes the fields that others read, and replaces each as a whole.
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from pgflash.analyze.live import sample
from pgflash.collect.live import LiveReader
from pgflash.collect.segments import FileReader
from pgflash.errors import PgflashError
from pgflash.live.notices import changes
from pgflash.live.ring import Ring
from pgflash.live.segments import EVERY, Segments
from pgflash.live.tables import headline
from pgflash.model.fleet import ServerFacts
from pgflash.model.live import FileChange, LiveServer, Reading
from pgflash.model.moments import print_clock
from pgflash.model.words import duration, sentence
from pgflash.session import Connection, UnreachableError, connect

INTERVAL_S = 1.0
#: The interval without viewers.
IDLE_INTERVAL_S = 10.0
IDLE_AFTER_S = 60.0
#: A reading older than this is late.
LATE_S = 5.0
#: How often the server's version, role and extension are read again.
LOOK_AGAIN_S = 30.0
BACKOFF_MAX_S = 10.0
#: Servers of a fleet are asked for facts at multiples of this, and without viewers less often.
FACTS_EVERY_S = 5.0
#: How long the counts of files are not read after that took too long.
FILES_AGAIN_S = 60.0
#: Reading the counts of files may take one part in this many of the time.
FILES_PART = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of the connection to the server."""

    #: connecting, live, late or lost.
    state: str
    #: An error and its hint, as the command line prints them.
    sentence: str = ""
    hint: str = ""
    #: For viewers who did not start this program: what is wrong, and since when.
    page: str = ""


def _waiting(state: str, words: str) -> Status:
    return Status(state=state, sentence=words, page=words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A server's facts, and when it was asked for them, by the monotonic clock."""

    at_s: float
    facts: ServerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A change of the server that is reported to viewers once."""

    #: ISO 8601, by the server's clock.
    at: str
    sentence: str


class Reader(Protocol):
    """Reads a server over one session."""

    server: LiveServer

    def look_again(self) -> bool:
        """Describe the server again; return whether the description changed."""

    def read(self) -> Reading:
        """Return what the server has counted now."""


class FilesReader(Protocol):
    """Reads the counts of requests to files over one session."""

    def read(self, server: LiveServer) -> Iterable[FileChange]:
        """Return the counts that have changed since the last read; all of them at first."""


class Collector:
    """Reads one server for all viewers."""

    def __init__(
        self,
        dsn: str,
        ring: Ring,
        *,
        interval_s: float = INTERVAL_S,
        connect: Callable[[str], Connection] = connect,
        reader: Callable[[Connection], Reader] = LiveReader,
        files: Callable[[Connection], FilesReader] = FileReader,
        facts: Callable[[Connection], ServerFacts] | None = None,
    ) -> None:
        """Read the server of a DSN into a ring; FACTS reads the facts of a fleet's server."""
        self.ring = ring
        self.server: LiveServer | None = None
        self.newest: Reading | None = None
        #: DB time by wait class, since this collector was created.
        self.waited_s: dict[str, float] = {}
        self.segments = Segments()
        #: The newest facts of this session.
        self.told: Told | None = None
        self.dsn = dsn
        self.interval_s = interval_s
        self._connect = connect
        self._reader = reader
        self._files = files
        self._facts = facts
        self._facts_s = 0.0
        #: Notices that wait for the next reading, which has the server's time.
        self._untold: list[str] = []
        self._retired: Status | None = None
        self._status = _waiting("connecting", "Connecting to the server.")
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._viewers = 0
        self._asked_s = time.monotonic()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="pgflash collector", daemon=True)

    # ---- for others

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def stop(self, wait_s: float = 5.0) -> None:
        """Stop reading; wait at most this long for a server that does not answer."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(wait_s)

    def retire(self, sentence: str) -> None:
        """Stop reading for good, without waiting for the server, and show viewers why."""
        self._retired = _waiting("lost", sentence)
        self.ring.append("status", lambda _number: self._retired)
        self.stop(wait_s=0.0)

    @property
    def status(self) -> Status:
        """Return the current state of the connection."""
        if self._retired is not None:
            return self._retired
        status, newest = self._status, self.newest
        if status.state == "live" and newest is not None:
            age_s = time.monotonic() - newest.monotonic_s
            if age_s > self._pace_s() + LATE_S:
                return Status(
                    state="late",
                    sentence=f"The server has not answered for {duration(age_s)}.",
                    hint="It may be overloaded, stopped, or behind a broken network.",
                    page=f"{self._no_answer()}: the server may be overloaded, stopped, "
                    "or behind a broken network.",
                )
        return status

    @property
    def viewers(self) -> int:
        """Return the number of viewers."""
        return self._viewers

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Read once a second for as long as a viewer is inside this block."""
        self._notice(1)
        try:
            yield
        finally:
            self._notice(-1)

    def asked(self) -> None:
        """Count a single request as a viewer for a while: more requests are likely."""
        self._notice(0)

    def _notice(self, viewers: int) -> None:
        with self._lock:
            idle = self._pace_s() > self.interval_s
            self._viewers += viewers
            self._asked_s = time.monotonic()
        if idle:
            self._wake.set()

    # ---- the thread

    def _run(self) -> None:
        wait_s = 1.0
        while not self._stop.is_set():
            try:
                self._serve()
                wait_s = 1.0
            except PgflashError as error:
                if self._status.state == "live":
                    wait_s = 1.0
                self._say(self._lost(error))
            except Exception as error:
                self._say(_waiting("lost", f"unexpected {type(error).__name__}: {error}"))
            self.told = None
            self._stop.wait(wait_s)
            wait_s = min(2 * wait_s, BACKOFF_MAX_S)

    def _lost(self, error: PgflashError) -> Status:
        if isinstance(error, UnreachableError):
            page = f"{self._no_answer()}: {error.message.rpartition(': ')[2]}."
        else:
            page = f"{sentence(error.message)}. {error.hint}".strip()
        return Status(state="lost", sentence=error.message, hint=error.hint, page=page)

    def _no_answer(self) -> str:
        newest = self.newest
        since = "yet" if newest is None else f"since {print_clock(newest.at)}"
        return f"No answer {since}, trying again"

    def _serve(self) -> None:
        """Read until the connection is lost or the collector is stopped."""
        with contextlib.closing(self._connect(self.dsn)) as connection:
            reader = self._reader(connection)
            self._introduce(reader.server)
            before: Reading | None = None
            next_s = time.monotonic()
            again_s = next_s + LOOK_AGAIN_S
            files = self._files(connection)
            files_s = next_s
            # The first read returns all files, and takes longer than any other.
            part = 0
            self.segments.forget()
            self._facts_s = 0.0
            while not self._stop.is_set():
                reading = reader.read()
                self._publish(before, reading)
                before = reading
                now_s = time.monotonic()
                if reader.server.schema and now_s >= files_s and self._watches():
                    wait_s = self._look_at_files(connection, files, reader.server, reading)
                    took_s = time.monotonic() - now_s
                    files_s = now_s + (wait_s or max(EVERY * self.interval_s, part * took_s))
                    part = part if wait_s else FILES_PART
                if now_s >= again_s:
                    again_s = now_s + LOOK_AGAIN_S
                    if reader.look_again():
                        self._introduce(reader.server)
                        before = None  # other views count from another beginning
                next_s = max(next_s + self._pace_s(), now_s)
                if self._wakes_before(next_s, connection):
                    next_s = time.monotonic()
                if self._has_changed_its_role(reader.server):
                    again_s = time.monotonic()

    def _wakes_before(self, next_s: float, connection: Connection) -> bool:
        """Wait for the next reading, asking for facts meanwhile; return whether a viewer came."""
        while True:
            asks = self._facts is not None and self._facts_s < next_s
            due_s = self._facts_s if asks else next_s
            if self._wake.wait(max(due_s - time.monotonic(), 0)):
                self._wake.clear()
                return True
            if not asks:
                return False
            self._ask_for_facts(connection)

    def _ask_for_facts(self, connection: Connection) -> None:
        assert self._facts is not None
        at_s = time.monotonic()
        every_s = max(FACTS_EVERY_S, self._pace_s())
        self._facts_s = (math.floor(at_s / every_s) + 1) * every_s
        try:
            facts = self._facts(connection)
        except PgflashError as error:
            if connection.broken:
                raise
            facts = ServerFacts(problem=error.message)
        self.told = Told(at_s=at_s, facts=facts)

    def _has_changed_its_role(self, server: LiveServer) -> bool:
        told = self.told
        return (
            told is not None
            and told.facts.in_recovery is not None
            and told.facts.in_recovery != server.in_recovery
        )

    def _look_at_files(
        self, connection: Connection, files: FilesReader, server: LiveServer, reading: Reading
    ) -> float:
        """Read the requests to files; if that fails, return how long not to try again."""
        try:
            self.segments.look(reading.at, files.read(server))
        except PgflashError as error:
            if connection.broken:
                raise
            # It took too long; or this server does not count them, and the next session may.
            return FILES_AGAIN_S if isinstance(error, UnreachableError) else math.inf
        return 0.0

    def _watches(self) -> bool:
        return self._viewers > 0 or time.monotonic() - self._asked_s < IDLE_AFTER_S

    def _pace_s(self) -> float:
        return self.interval_s if self._watches() else max(IDLE_INTERVAL_S, self.interval_s)

    def _introduce(self, server: LiveServer) -> None:
        before, self.server = self.server, server
        if before is not None:
            self._untold.extend(changes(before, server))
            if server.system_identifier != before.system_identifier:
                self.segments.clear()
        self._show("server", server)

    def _publish(self, before: Reading | None, reading: Reading) -> None:
        self.newest = reading
        waited_s = dict(self.waited_s)
        for wait in reading.waits:
            waited_s[wait.wait_class] = waited_s.get(wait.wait_class, 0.0) + wait.seconds
        self.waited_s = waited_s
        if self._status.state != "live":
            self._say(Status(state="live"))
        at = reading.at.isoformat(timespec="milliseconds")
        for change in self._untold:
            self._show("notice", Notice(at=at, sentence=change))
        self._untold.clear()
        if before is None:
            return
        made = sample(before, reading, number=self.ring.newest + 1)
        if made is not None:
            made = replace(made, headline=headline(made, self.server))
            self._show("sample", made)

    def _say(self, status: Status) -> None:
        """Send viewers the state if it has changed."""
        if status != self._status:
            self._status = status
            self._show("status", status)

    def _show(self, kind: str, message: object) -> None:
        """Send viewers a message, unless the ring is another collector's by now."""
        if self._retired is None:
            self.ring.append(kind, lambda _number: message)
