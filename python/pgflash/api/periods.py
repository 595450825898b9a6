# SPDX-License-Identifier: PostgreSQL
"""Snapshots, and reports on the periods between them."""

from datetime import datetime
from pathlib import Path

from pgflash.analyze import make_period, make_report
from pgflash.collect import collect, system_identifier
from pgflash.errors import UsageError
from pgflash.model.awr import AwrReport
from pgflash.model.snapshot import SnapshotHead, SnapshotStore, find_head, heads_around
from pgflash.session import connect
from pgflash.store import FileStore, PgStore, open_store


def snapshot(
    *, dsn: str | None = None, path: Path | None = None, drop_before: datetime | None = None
) -> tuple[SnapshotHead, int]:
    """Take a snapshot of a server's counters; return it, and how many were dropped.

    A server with the extension keeps it in its tables.  With PATH, any server is queried from here,
    and a file keeps it.  Afterwards, snapshots from before DROP_BEFORE are dropped.  Raises
    SnapshotError if it could not be taken or kept.
    """
    if path is None:
        with PgStore(dsn or "") as store:
            taken = store.take()
            return _kept(store, taken, 0 if drop_before is None else store.drop(drop_before))
    with connect(dsn or "") as connection, FileStore.create(path) as file:
        cluster = system_identifier(connection)
        with file.adding(cluster) as last:
            taken = file.add(collect(connection, last, cluster=cluster))
        return _kept(file, taken, 0 if drop_before is None else file.drop(drop_before))


def snapshots(*, dsn: str | None = None, path: Path | None = None) -> tuple[SnapshotHead, ...]:
    """Return the snapshots of a database or of a file, the oldest first."""
    with open_store(dsn=dsn, path=path) as store:
        return store.list()


def _kept(store: SnapshotStore, snapshot_id: int, dropped: int) -> tuple[SnapshotHead, int]:
    return next(head for head in store.list() if head.id == snapshot_id), dropped


def report(
    store: SnapshotStore, *, begin: str = "", end: str = "", every_row: bool = False
) -> AwrReport:
    """Return the report on the period between two snapshots, named as find_head() reads them.

    The default end is the last snapshot, the default begin the one before the end.  Rankings have
    their first rows only, or every row: then a comparison knows what is new and gone.  Units and
    sources are given with the columns.  Raises UsageError if there is no such snapshot, and
    PeriodError if the snapshots do not form one period, for example because of a restart between
    them.
    """
    heads = store.list()
    last = find_head(heads, end or "last", store=store.name)
    first = find_head(heads, begin, store=store.name) if begin else _before(heads, last, store.name)
    period = make_period(store, first.id, last.id)
    return make_report(period, rows_max=None) if every_row else make_report(period)


def report_around(
    store: SnapshotStore, *, begin: datetime, end: datetime, every_row: bool = False
) -> AwrReport:
    """Return the report on the snapshots around a stretch of time, chosen by heads_around()."""
    first, last = heads_around(store.list(), begin, end, store=store.name)
    return report(store, begin=str(first.id), end=str(last.id), every_row=every_row)


def _before(heads: tuple[SnapshotHead, ...], last: SnapshotHead, store: str) -> SnapshotHead:
    earlier = [head for head in heads if head.id < last.id]
    if not earlier:
        raise UsageError(
            f"there is no snapshot before {last.id} in {store}",
            hint="A period needs two: take another with pgflash snapshot.",
        )
    return earlier[-1]
