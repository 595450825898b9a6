# SPDX-License-Identifier: PostgreSQL
"""The report on a measurement: snapshots at its ends and in between, combined into one.

The server itself takes the snapshots, into the extension's tables; the recorder only asks for them,
one at a time, from any thread.  The first one is taken before the load begins and the last one
after it has ended, so neither is part of the measurement.
"""

import threading
from typing import Self

from pgflash.analyze import make_period, make_report
from pgflash.model.awr import AwrReport
from pgflash.store import PgStore


class Recorder:
    """Takes snapshots of a server that has the extension.

    with Recorder(conninfo) as recorder:
        recorder.take()
        run the load
        recorder.take()
        report = recorder.report()
    """

    def __init__(self, conninfo: str) -> None:
        self._store = PgStore(conninfo)
        self._lock = threading.Lock()
        self._taken: list[int] = []

    def take(self) -> None:
        """Take a snapshot."""
        with self._lock:
            self._taken.append(self._store.take())

    def report(self) -> AwrReport:
        """Return the report on the time from the first snapshot to the last, with every row."""
        with self._lock:
            period = make_period(self._store, self._taken[0], self._taken[-1])
            return make_report(period, rows_max=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._store.close()
