# SPDX-License-Identifier: PostgreSQL
"""The samples of a server, one after the other, for a program or a terminal.

The first sample must come in time.  After that, the loss of the server does not end the iteration:
None stands for it, `status` gives the state, and samples follow when the server is back.
"""

import contextlib
from collections.abc import Iterator

import msgspec

from pgflash.errors import PgflashError
from pgflash.live.collector import Collector, Status
from pgflash.live.ring import Ring
from pgflash.model.live import LiveServer, Sample

#: How long the first sample may take: two readings, a second apart.
FIRST_S = 20.0
#: After this long without a sample, the state is reported.
NEXT_S = 5.0


class Watch:
    """Follows a collector's readings; iterate over it for the samples."""

    def __init__(self, collector: Collector, readings: int | None = None) -> None:
        """Follow a collector for this many samples, or without end."""
        self._collector = collector
        self._left = readings
        self._number = 0
        self._waits = True

    @property
    def status(self) -> Status:
        """Return the state of the connection to the server."""
        return self._collector.status

    @property
    def server(self) -> LiveServer | None:
        """Return the description of the server, once it is known."""
        return self._collector.server

    def connected(self) -> bool:
        """Wait FIRST_S at most for any news of the server; return whether there was some."""
        return self._collector.ring.wait(0, FIRST_S)

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
            if not ring.wait(self._number, FIRST_S if self._waits else NEXT_S):
                if self._waits:
                    raise PgflashError(f"nothing was read within {FIRST_S:.0f} seconds")
                return None
            messages, _gap = ring.after(self._number)
            self._number = messages[-1].number
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
        with collector.watched():
            yield Watch(collector, readings)
    finally:
        collector.stop(wait_s=2.0)
