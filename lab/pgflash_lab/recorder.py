# SPDX-License-Identifier: PostgreSQL
"""What the server itself counted and sampled during a measurement: its snapshots.

The server takes the snapshots, into the extension's tables; the recorder only asks for them, one at
a time, from any thread.  The first one is taken before the load begins and the last one after it
has ended, so neither is part of the measurement.  The lab's figures of waits, reads and the cache
are made from the same snapshots as the server's report, so that they agree.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import psycopg

from pgflash.analyze import make_period, make_report
from pgflash.analyze.period import Period
from pgflash.analyze.samples import sampled
from pgflash.analyze.sections import number
from pgflash.model.awr import AwrReport
from pgflash.model.snapshot import Section, Value
from pgflash.model.waits import WaitClass, WaitCount
from pgflash.store import PgStore
from pgflash_lab.sampler import WaitSample
from pgflash_lab.workload import DATABASE

#: Each look of the server's sampler, as far back as its memory goes.
_LOOKS = """
select extract(epoch from sampled_at - %(begin)s)::float8, backend_type,
       coalesce(wait_event_type, ''), coalesce(wait_event, ''), count(*)
  from pgflash_active_sessions_rows(%(begin)s, %(end)s)
 group by 1, 2, 3, 4
 order by 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A measurement, as the server itself has counted it."""

    report: AwrReport
    waits: tuple[WaitCount, ...]
    #: How often the sampler looked, and what it saw each time.
    looks: int
    samples: tuple[WaitSample, ...]
    #: The sections of the first snapshot and of the last.
    first: Mapping[str, Section]
    last: Mapping[str, Section]

    def cache(self) -> tuple[Mapping[str, Value], Mapping[str, Value]]:
        """Return the view pgflash_cache at the first snapshot and at the last."""
        return self.first["cache"].records()[0], self.last["cache"].records()[0]

    def grown(self, column: str) -> float:
        """Return the growth of a column of pg_stat_database in the lab's database."""
        before, after = (
            next(row for row in one["database"].records() if row["datname"] == DATABASE)
            for one in (self.first, self.last)
        )
        return number(after[column]) - number(before[column])


class Recorder:
    """Takes snapshots of a server that has the extension.

    with Recorder(conninfo) as recorder:
        recorder.take()
        run the load
        recorder.take()
        recorded = recorder.recorded()
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._store = PgStore(conninfo)
        self._lock = threading.Lock()
        self._taken: list[int] = []

    def take(self) -> None:
        """Take a snapshot."""
        with self._lock:
            self._taken.append(self._store.take())

    def recorded(self) -> Recorded:
        """Return what happened from the first snapshot to the last; the report has every row."""
        with self._lock:
            period = make_period(self._store, self._taken[0], self._taken[-1])
            seen = sampled(period)
            counts: Counter[tuple[WaitClass, str]] = Counter()
            for wait in seen.waits if seen is not None else ():
                counts[wait.wait_class, wait.event] += wait.samples
            return Recorded(
                report=make_report(period, rows_max=None),
                waits=tuple(
                    WaitCount(wait_class=of_class, event=event, samples=samples)
                    for (of_class, event), samples in counts.most_common()
                ),
                looks=seen.looks if seen is not None else 0,
                samples=self._samples(period),
                first=self._store.sections(self._taken[0]),
                last=self._store.sections(self._taken[-1]),
            )

    def _samples(self, period: Period) -> tuple[WaitSample, ...]:
        limits = {"begin": period.begin.taken_at, "end": period.end.taken_at}
        with psycopg.connect(self._conninfo, application_name="pgflash lab") as connection:
            rows = connection.execute(_LOOKS, limits).fetchall()
        return tuple(
            WaitSample(at_s=at_s, backend_type=kind, wait_type=wait_type, event=event, count=count)
            for at_s, kind, wait_type, event, count in rows
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._store.close()
