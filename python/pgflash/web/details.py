# SPDX-License-Identifier: PostgreSQL
"""What viewers ask of a server: a time range and its report, the cache's contents, blocking.

Queries run over one session, one at a time, and answers are kept for all who ask for the same, so
that viewers cannot load the server.  If the watched server is another one than before, the session
is opened again.  A DSN may lead to several servers; only the watched one is queried.  A range is
named by two times; anything else is refused with a sentence.
"""

import contextlib
import math
import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec
import psycopg
from psycopg import sql

from pgflash import api
from pgflash.api import (
    STATEMENT_TIMEOUT_MS,
    OldRange,
    PgStore,
    name_files,
    read_about,
    read_blocking,
    read_cache,
    read_history,
    read_old_range,
    read_range,
)
from pgflash.errors import PgflashError, UsageError
from pgflash.live.segments import Segments, rows, top_files
from pgflash.model.live import Focus, LiveServer, TimeRange
from pgflash.model.words import duration
from pgflash.session import Connection, connect, said

RANGE_MAX = timedelta(days=31)
KEPT_MAX = 64
#: A range that ended this long ago is complete: the collector reads files every ten seconds.
SETTLED = timedelta(seconds=15)
#: How long the cache's contents are reused: viewers who look at the same time cause one query.
CACHE_KEPT_S = 2.0
#: The same for the snapshots; scripts ask for whole minutes, so viewers ask for the same.
HISTORY_KEPT_S = 45.0
RECENT_MAX = 64
#: The same for a range that is not complete.
UNSETTLED_KEPT_S = 5.0
#: When scripts ask again for the activity of sessions, in seconds: after the first of these that is
#: AGAIN_PART times as long as an answer takes.
AGAIN_S = (10.0, 30.0, 60.0, 120.0, 300.0)
AGAIN_PART = 200
#: The fastest of this many answers counts: the others may have waited for a busy machine.
AGAIN_OF = 3
#: The most time that a query of a report may take, or the snapshot before it.
REPORT_TIMEOUT_MS = 60_000
#: A report takes a snapshot first if the last one is at least this old.
TAKEN_EVERY_S = 60.0
#: The most snapshots a day on request, by page or command: as many as the server itself takes.
TAKEN_A_DAY = 144
#: The most requests that wait for their turn; further ones are refused.
WAITING_MAX = 20
#: The same for each of several servers: one that does not answer must not delay the others.
WAITING_EACH_MAX = 8

_YEARS = range(2000, 2200)

ALL = Focus()
#: Longest word of a focus; a name has up to 63 bytes, twice that with schema and quotation marks.
WORD_MAX = 400

_Answer = TypeVar("_Answer")


class BusyError(PgflashError):
    """Too many requests at once, or no answer from the server that is watched."""


class TooOftenError(PgflashError):
    """Another snapshot would exceed the limit."""


def read_times(begin: str, end: str) -> tuple[datetime, datetime]:
    """Return the two times that name a range."""
    times = []
    for name, word in (("from", begin), ("to", end)):
        try:
            moment = datetime.fromisoformat(word.strip())
        except (ValueError, OverflowError):
            raise UsageError(
                f"{name} is not a time: write it as 2026-11-22T10:00:00+00:00"
            ) from None
        if moment.year not in _YEARS:
            raise UsageError(f"{name} is in the year {moment.year}")
        times.append(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)
    first, last = times
    if last <= first:
        raise UsageError("the range ends before it begins")
    if last - first > RANGE_MAX:
        raise UsageError(f"the range is longer than {RANGE_MAX.days} days")
    return first, last


def read_focus(words: Mapping[str, str]) -> Focus:
    """Return the focus that the parameters of a URL name; UsageError if they are invalid."""
    named = {one.name: words.get(one.name, "") for one in fields(Focus)}
    for name, word in named.items():
        if len(word) > WORD_MAX or "\0" in word:
            raise UsageError(f"{name} is too long, or not text")
    for name, limit in (("query", 2**63), ("session", 2**31)):
        if named[name] and not (
            re.fullmatch(r"-?[0-9]{1,19}", named[name]) and -limit <= int(named[name]) < limit
        ):
            raise UsageError(f"{name} is not a valid number")
    return Focus(**named)


class Details:
    """Answers viewers' questions about a server."""

    def __init__(
        self,
        dsn: str,
        *,
        segments: Segments | None = None,
        waiting_max: int = WAITING_MAX,
        connect: Callable[[str], Connection] = connect,
    ) -> None:
        """Query the server of a DSN; the first request connects."""
        self._dsn = dsn
        self._segments = segments or Segments()
        self._connect = connect
        self._connection: Connection | None = None
        #: The session of the newest report.
        self._reporting: Connection | None = None
        self._turn = threading.Lock()
        self._seats = threading.Semaphore(waiting_max)
        self._stopped = False
        self._may_take_s = 0.0
        self._pace = Pace()
        self._kept: OrderedDict[tuple[str, str, str], bytes] = OrderedDict()
        #: Until when each answer may be reused, and the answer.
        self._recent: OrderedDict[tuple[str, str], tuple[float, bytes]] = OrderedDict()
        #: The server that the session is connected to.
        self._of = ""
        self.asked = 0

    def time_range(
        self, server: LiveServer, begin: datetime, end: datetime, focus: Focus = ALL
    ) -> bytes:
        """Return a range as JSON.  This blocks, as all of these: not for the event loop."""
        with self._in_turn():
            key = (_name(server), begin.isoformat(), f"{end.isoformat()} {focus}")
            recent = (key[0], f"range {' '.join(key[1:])}")
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            if (found := self._kept_recently(recent)) is not None:
                return found
            self.asked += 1
            began_s = time.monotonic()
            now, time_range = self._ask(
                server,
                lambda one: (
                    _clock_and_role(one)[0],
                    self._time_range(one, server, begin, end, focus),
                ),
            )
            found = msgspec.json.encode(
                replace(time_range, again_s=self._pace.again_s(time.monotonic() - began_s))
            )
            if end >= now - SETTLED:  # by the server's clock; it may still get samples
                self._keep_recent(recent, found, UNSETTLED_KEPT_S)
            elif _remembered_s(time_range, begin, end) < (end - begin).total_seconds():
                # The next snapshot may have the rest.
                self._keep_recent(recent, found, HISTORY_KEPT_S)
            else:
                self._kept[key] = found
                while len(self._kept) > KEPT_MAX:
                    self._kept.popitem(last=False)
            return found

    def _time_range(
        self,
        connection: Connection,
        server: LiveServer,
        begin: datetime,
        end: datetime,
        focus: Focus,
    ) -> TimeRange:
        found = read_range(connection, server, begin=begin, end=end, focus=focus)
        remembered_s = _remembered_s(found, begin, end)
        if remembered_s < (end - begin).total_seconds():
            old = read_old_range(connection, server, begin=begin, end=end, focus=focus)
            if old is not None and old.known_s > remembered_s:
                return _only(_with_files(old, focus), focus)
        counts = self._segments.within(begin, end)
        if focus.relation:
            names = name_files(connection, counts) if counts else {}
            keys = [key for key in counts if names[key] == focus.relation]
            spans = tuple(self._segments.over_time(begin, end, keys)) if keys else ()
            found = replace(found, spans=spans)
        else:
            keys = top_files(counts)
            names = name_files(connection, keys) if keys else {}
        if not keys:
            why = "files are read every ten seconds, while somebody watches"
            found = replace(found, missing={**found.missing, "segments": why})
        return _only(replace(found, segments=rows(counts, names, keys)), focus)

    def cache(self, server: LiveServer) -> bytes:
        """Return the contents of the flash cache as JSON."""
        return self._for_a_while(server, "", CACHE_KEPT_S, lambda one: read_cache(one, server))

    def about(self, server: LiveServer, focus: Focus) -> bytes:
        """Return what the server knows of a focus as JSON."""
        return self._for_a_while(
            server, f"about {focus}", CACHE_KEPT_S, lambda one: read_about(one, server, focus)
        )

    def blocking(self, server: LiveServer) -> bytes:
        """Return which sessions block which as JSON."""
        return self._for_a_while(server, "blocking", CACHE_KEPT_S, read_blocking)

    def history(self, server: LiveServer, begin: datetime, end: datetime) -> bytes:
        """Return the snapshots' rows of a range as JSON."""
        return self._for_a_while(
            server,
            f"{begin.isoformat()} {end.isoformat()}",
            HISTORY_KEPT_S,
            lambda one: read_history(one, server, begin=begin, end=end),
        )

    def _for_a_while(
        self, server: LiveServer, key: str, kept_s: float, question: Callable[[Connection], object]
    ) -> bytes:
        """Return the recent answer to the same request, or query the server."""
        with self._in_turn():
            name = (_name(server), key)
            found = self._kept_recently(name)
            if found is None:
                self.asked += 1
                found = msgspec.json.encode(self._ask(server, question))
                self._keep_recent(name, found, kept_s)
            return found

    def _kept_recently(self, name: tuple[str, str]) -> bytes | None:
        until_s, found = self._recent.get(name, (0.0, b""))
        return found if time.monotonic() < until_s else None

    def _keep_recent(self, name: tuple[str, str], found: bytes, kept_s: float) -> None:
        self._recent[name] = (time.monotonic() + kept_s, found)
        self._recent.move_to_end(name)
        while len(self._recent) > RECENT_MAX:
            self._recent.popitem(last=False)

    def report(
        self,
        server: LiveServer,
        begin: datetime,
        end: datetime,
        *,
        earlier: timedelta | None = None,
    ) -> str:
        """Return the report of a range's snapshots, or its comparison with an earlier range."""
        with self._in_turn(), PgStore(self._dsn) as store:
            self._reporting = store.connection
            _begin(store.connection, server, REPORT_TIMEOUT_MS)
            self._catch_up(store, begin, end)
            now = api.report_around(store, begin=begin, end=end, every_row=earlier is not None)
            if earlier is None:
                return api.render_period(now, "html")
            before = api.report_around(
                store, begin=begin - earlier, end=end - earlier, every_row=True
            )
            return api.render_period(api.compare(before, now), "html")

    def _catch_up(self, store: PgStore, begin: datetime, end: datetime) -> None:
        """Take a snapshot if the last one was taken before the end of a range."""
        now, standby = _clock_and_role(store.connection)
        if end > now:
            raise UsageError("the range ends in the future, by the server's clock")
        heads = store.list()
        if not heads or heads[0].taken_at > begin or heads[-1].taken_at >= end:
            return
        # If none can be taken, on a standby or with a full disk, the earlier ones are used; after a
        # failure the next attempt waits as long as after a snapshot.
        if standby or time.monotonic() < self._may_take_s:
            return
        age_s = (now - heads[-1].taken_at).total_seconds()
        if age_s < TAKEN_EVERY_S:
            raise TooOftenError(
                f"the last snapshot is {duration(age_s)} old, older than the end of the range, "
                f"and the next one is taken when the last one is {duration(TAKEN_EVERY_S)}",
                hint=f"Ask again in {math.ceil(TAKEN_EVERY_S - age_s)} seconds.",
            )
        day = [h for h in heads if h.origin == "command" and now - h.taken_at < timedelta(days=1)]
        if len(day) >= TAKEN_A_DAY:
            raise TooOftenError(
                f"{len(day)} snapshots were taken on request within a day, and that is the limit",
                hint="Try again when the server has taken its next one.",
            )
        try:
            store.take()
        except PgflashError:
            self._may_take_s = time.monotonic() + TAKEN_EVERY_S

    def stop(self, wait_s: float = 5.0) -> None:
        """Stop answering: refuse waiting requests, and cancel the running query."""
        self._stopped = True
        for connection in (self._connection, self._reporting):
            if connection is not None and not connection.closed:
                with contextlib.suppress(psycopg.Error):  # it may have ended
                    connection.cancel_safe(timeout=wait_s)
        if self._turn.acquire(timeout=wait_s):
            self._turn.release()
        self.close()

    def close(self) -> None:
        """Close the session, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextlib.contextmanager
    def _in_turn(self) -> Iterator[None]:
        """Wait for a turn; raise BusyError if too many requests are waiting."""
        if not self._seats.acquire(blocking=False):
            raise BusyError("too many requests at once: try again in a moment")
        try:
            with self._turn:
                if self._stopped:
                    raise BusyError("pgflash serve ends")
                yield
        finally:
            self._seats.release()

    def _ask(self, server: LiveServer, question: Callable[[Connection], _Answer]) -> _Answer:
        if self._of != _name(server):
            self.close()
            self._of = _name(server)
        for fresh in (False, True):
            connection = self._session(server)
            try:
                return question(connection)
            except PgflashError:
                # A session that was lost while it was idle is opened again, once.
                if fresh or self._stopped or not connection.broken:
                    raise
                self.close()
        raise AssertionError

    def _session(self, server: LiveServer) -> Connection:
        if self._connection is None or self._connection.closed:
            connection = self._connect(self._dsn)
            try:
                _begin(connection, server, STATEMENT_TIMEOUT_MS)
            except PgflashError:
                connection.close()
                raise
            self._connection = connection
        return self._connection


def _begin(connection: Connection, server: LiveServer, timeout_ms: int) -> None:
    """Limit the time of a session's queries; raise BusyError if it is with another server."""
    with said("begin to ask"):
        connection.execute(sql.SQL("set statement_timeout = {}").format(sql.Literal(timeout_ms)))
        row = connection.execute("select pg_catalog.pg_postmaster_start_time()").fetchone()
    if row is None or row[0] != server.started_at:
        raise BusyError(
            "another server answers than the one that is watched",
            hint="It may just have restarted; a connection string with several hosts "
            "should lead to one.",
        )


def _clock_and_role(connection: Connection) -> tuple[datetime, bool]:
    """Return a server's time, and whether it is a standby."""
    with said("ask what time it is"):
        row = connection.execute(
            "select pg_catalog.clock_timestamp(), pg_catalog.pg_is_in_recovery()"
        ).fetchone()
    assert row is not None
    return row[0], row[1]


class Pace:
    """How often scripts ask again, so that asking takes only a small part of the time."""

    def __init__(self) -> None:
        """Start without answers."""
        self._took_s = deque([0.0] * (AGAIN_OF - 1), maxlen=AGAIN_OF)

    def again_s(self, took_s: float) -> float:
        """Add the time that an answer took; return in how many seconds to ask again."""
        self._took_s.append(took_s)
        enough_s = AGAIN_PART * min(self._took_s)
        return next((one for one in AGAIN_S if one >= enough_s), AGAIN_S[-1])


def _remembered_s(found: TimeRange, begin: datetime, end: datetime) -> float:
    """Return how many seconds of a range the sampler remembers."""
    if not found.remembered_from or found.source != "memory":
        return 0.0
    since = max(begin, datetime.fromisoformat(found.remembered_from))
    return max((end - since).total_seconds(), 0.0)


def _with_files(old: OldRange, focus: Focus) -> TimeRange:
    """Return a range from the snapshots, with the relations that took most time."""
    names = {(0, 0, number): name for number, name in enumerate(old.files)}
    counts = {key: old.files[name] for key, name in names.items()}
    keys = [key for key in counts if names[key] == focus.relation]
    return replace(
        old.time_range,
        spans=() if focus.relation else old.time_range.spans,
        segments=rows(counts, names, keys if focus.relation else top_files(counts)),
    )


def _only(found: TimeRange, focus: Focus) -> TimeRange:
    """Drop what cannot be filtered by the focus: samples have no relation, files no session."""
    if focus.relation:
        why = "it is not known for which relation a session waits"
        missing = {**found.missing, "waits, statements, sessions": why}
        return replace(found, waits=(), statements=(), sessions=(), missing=missing)
    if not focus.is_all:
        missing = {name: why for name, why in found.missing.items() if name != "segments"}
        return replace(found, segments=(), missing=missing)
    return found


def _name(server: LiveServer) -> str:
    """Return a name that differs for another server, and for this one after a restart."""
    return f"{server.system_identifier} {server.started_at} {server.extension_version}"
