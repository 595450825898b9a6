# SPDX-License-Identifier: PostgreSQL
"""The samples of a server, one by one, for a program or a terminal.

The first sample must arrive within FIRST_S and an interval between two samples.  After that, a
lost server does not end the iteration: it yields None, `status` gives the state, and samples follow
when the server is back.

The activity of sessions in the last minute is read on request, over a session of its own.
"""

import contextlib
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec
from psycopg import sql

from pgflash.collect.live import STATEMENT_TIMEOUT_MS
from pgflash.collect.time_range import read_range
from pgflash.errors import PgflashError
from pgflash.live.collector import Collector, Status
from pgflash.live.ring import Ring
from pgflash.model.live import LiveServer, Sample, TimeRange
from pgflash.model.words import duration
from pgflash.session import Connection, connect, said

#: How long the two readings of the first sample may take, besides the interval between them.
FIRST_S = 20.0
#: After an interval and this long without a sample, the state is reported.
NEXT_S = 5.0
#: The time for which the activity of sessions is shown, and the least time between two queries.
MINUTE = timedelta(minutes=1)
ASKED_EVERY_S = 5.0


class Watch:
    """Follows a collector's readings; iterate over it for the samples."""

    def __init__(self, collector: Collector, readings: int | None = None) -> None:
        """Follow a collector for this many samples, or without end."""
        self._collector = collector
        self._left = readings
        self._number = 0
        self._waits = True
        self._connection: Connection | None = None
        self._asked_s = -ASKED_EVERY_S
        self._minute: TimeRange | None = None

    @property
    def status(self) -> Status:
        """Return the state of the connection to the server."""
        return self._collector.status

    @property
    def server(self) -> LiveServer | None:
        """Return the description of the server, once it is known."""
        return self._collector.server

    def connected(self) -> bool:
        """Wait up to FIRST_S for a first message about the server; return whether there was one."""
        return self._collector.ring.wait(0, FIRST_S)

    def end(self) -> None:
        """End the iteration, from any thread."""
        self._collector.ring.append("end", lambda _number: None)

    def minute(self, sample: Sample) -> TimeRange | None:
        """Return the activity of sessions in the minute before a sample; None if unknown."""
        server = self.server
        if server is None or time.monotonic() - self._asked_s < ASKED_EVERY_S:
            return self._minute
        self._asked_s = time.monotonic()
        end = datetime.fromisoformat(sample.at)
        try:
            self._minute = read_range(self._session(), server, begin=end - MINUTE, end=end)
        except PgflashError:  # the state says what is wrong with the server
            self.close()
            self._minute = None
        return self._minute

    def _session(self) -> Connection:
        if self._connection is None:
            self._connection = connect(self._collector.dsn)
            with said("begin to ask"):
                timeout = sql.Literal(STATEMENT_TIMEOUT_MS)
                self._connection.execute(sql.SQL("set statement_timeout = {}").format(timeout))
        return self._connection

    def close(self) -> None:
        """Close the session that reads the activity of sessions."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __iter__(self) -> "Watch":
        return self

    def __next__(self) -> Sample | None:
        """Return the next sample, or None to report the state of the connection."""
        if self._left == 0:
            raise StopIteration
        found = self._next()
        if self._left is not None and found is not None:
            self._left -= 1
        return found

    def _next(self) -> Sample | None:
        ring = self._collector.ring
        while True:
            wait_s = self._collector.interval_s + (FIRST_S if self._waits else NEXT_S)
            if not ring.wait(self._number, wait_s):
                if self._waits:
                    raise PgflashError(f"no data was read within {duration(wait_s)}")
                return None
            messages, _gap = ring.after(self._number)
            self._number = messages[-1].number
            if any(one.kind == "end" for one in messages):
                raise StopIteration
            newest = [one for one in messages if one.kind == "sample"]
            if newest:
                self._waits = False
                return msgspec.json.decode(newest[-1].data, type=Sample)
            status = self.status
            if status.state == "lost" and self._waits:
                raise PgflashError(status.sentence, hint=status.hint)
            if status.state == "lost":
                return None


@contextlib.contextmanager
def watching(dsn: str, *, interval_s: float = 1.0, readings: int | None = None) -> Iterator[Watch]:
    """Read a server every INTERVAL_S seconds for as long as the block lasts."""
    collector = Collector(dsn, Ring(), interval_s=interval_s)
    collector.start()
    try:
        with collector.watched(), contextlib.closing(Watch(collector, readings)) as watch:
            yield watch
    finally:
        collector.stop(wait_s=2.0)
