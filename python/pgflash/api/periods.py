# SPDX-License-Identifier: PostgreSQL
"""Snapshots, and reports on the periods between them."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pgflash.analyze import choose_around, choose_period, make_report, server_zone
from pgflash.collect import collect, system_identifier
from pgflash.errors import UsageError
from pgflash.model.awr import AwrReport
from pgflash.model.snapshot import Baseline, SnapshotHead, SnapshotStore, find_baseline
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
    """Return the snapshots of a database or of a file, the oldest first.

    Their times are in the server's time zone.
    """
    with open_store(dsn=dsn, path=path) as store:
        heads = store.list()
        zone = server_zone(store, heads)
    return tuple(
        replace(
            head,
            taken_at=head.taken_at.astimezone(zone),
            started_at=head.started_at.astimezone(zone),
        )
        for head in heads
    )


def baseline(*, dsn: str | None = None, path: Path | None = None) -> tuple[Baseline, ...]:
    """Return the baselines of a database or of a file: periods that are kept under a name."""
    with open_store(dsn=dsn, path=path) as store:
        return store.baselines()


def baseline_keep(
    name: str,
    *,
    begin: str = "",
    end: str = "",
    dsn: str | None = None,
    path: Path | None = None,
) -> Baseline:
    """Keep a period under a name, so that its snapshots are not dropped; return it.

    The period is named as for report().  Raises UsageError if the name cannot be one, or is taken.
    """
    if not name.isprintable() or not name.strip() or ".." in name or name.endswith(".json"):
        raise UsageError(
            f'"{name}" cannot be the name of a baseline',
            hint='Use letters and digits, without ".." and without ".json" at the end.',
        )
    with open_store(dsn=dsn, path=path) as store:
        if any(one.name == name for one in store.baselines()):
            raise UsageError(
                f'there is a baseline "{name}" already',
                hint="Choose another name, or drop it by `pgflash baseline drop` from the same "
                "database or file.",
            )
        period = choose_period(store, begin=begin, end=end, now=datetime.now(UTC))
        store.keep(name, period.begin.id, period.end.id)
        return find_baseline(store.baselines(), name)


def baseline_drop(name: str, *, dsn: str | None = None, path: Path | None = None) -> None:
    """Drop a baseline; its snapshots stay as long as others of their age."""
    with open_store(dsn=dsn, path=path) as store:
        find_baseline(store.baselines(), name, store=store.name)
        store.release(name)


def _kept(store: SnapshotStore, snapshot_id: int, dropped: int) -> tuple[SnapshotHead, int]:
    return next(head for head in store.list() if head.id == snapshot_id), dropped


def report(
    store: SnapshotStore,
    *,
    begin: str = "",
    end: str = "",
    baseline: str = "",
    every_row: bool = False,
) -> AwrReport:
    """Return the report on the period between two snapshots, or on a baseline.

    They are named by id, as first, last or last-N, or by a time, which means the nearest one.  The
    default end is the last snapshot, the default begin the one before the end; over a restart of
    the server it is the last whole period, and a finding says so.  Rankings have their first rows
    only, or every row: then a comparison knows what is new and gone.  Units and sources are given
    with the columns.  Raises UsageError if there is no such snapshot, and PeriodError if the
    snapshots do not form one period.
    """
    if baseline:
        found = find_baseline(store.baselines(), baseline, store=store.name)
        begin, end = str(found.begin_id), str(found.end_id)
    period = choose_period(store, begin=begin, end=end, now=datetime.now(UTC))
    return make_report(period, rows_max=None) if every_row else make_report(period)


def report_around(
    store: SnapshotStore, *, begin: datetime, end: datetime, every_row: bool = False
) -> AwrReport:
    """Return the report on the snapshots around a time range, chosen by heads_around()."""
    period = choose_around(store, begin, end)
    return make_report(period, rows_max=None) if every_row else make_report(period)
