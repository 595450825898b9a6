# SPDX-License-Identifier: PostgreSQL
"""pgflash snapshot, pgflash snapshots: take snapshots, list them."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from pgflash import api, session
from pgflash.analyze.grid import figure, row, text
from pgflash.cli.options import dsn_option, duration_of, examples, form_option, paged_option
from pgflash.cli.output import complain, print_json, print_records, say, say_table
from pgflash.cli.report import one_source
from pgflash.cli.screen import patiently
from pgflash.errors import PgflashError, UsageError
from pgflash.model.awr import ReportTable, Unit
from pgflash.model.snapshot import SnapshotHead
from pgflash.model.words import duration

_COLUMNS = (
    "id",
    "taken_at",
    "started_at",
    "previous_id",
    "took_ms",
    "origin",
    "server_version_num",
    "extension_version",
)


@click.command(
    "snapshot",
    epilog=examples(
        "pgflash snapshot --dsn dbname=app",
        "pgflash snapshot --dsn host=standby --store standby.snapshots --every 10min --keep 8d",
    ),
)
@dsn_option()
@click.option(
    "--store",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Collect what the server shows without the extension, and store it in this file.",
)
@click.option(
    "--every",
    metavar="TIME",
    callback=duration_of,
    help="Repeat, for example every 10min, until Ctrl-C.",
)
@click.option(
    "--keep",
    metavar="TIME",
    callback=duration_of,
    help="Afterwards drop snapshots older than this, such as 8d (default: keep all).",
)
def snapshot_command(
    *, dsn: str | None, store: Path | None, every: timedelta | None, keep: timedelta | None
) -> None:
    """Take a snapshot of a server's counters.

    With the extension, the server stores it in tables, as it does by itself on schedule
    (pgflash.snapshot_interval).  With --store the server needs no extension and may be a standby;
    the report lists what is missing.  Nothing is reset.
    """
    if every is None:
        _take(dsn, store, keep)
        return
    while True:
        begin = time.monotonic()
        try:
            _take(dsn, store, keep)
        except UsageError:
            raise
        except PgflashError as error:  # it may be back next time
            complain(error.message)
        time.sleep(max(every.total_seconds() - (time.monotonic() - begin), 0))


def _take(dsn: str | None, store: Path | None, keep: timedelta | None) -> None:
    """Take one, and say so in one line."""
    if keep is not None:
        # The monitoring role may not drop snapshots.
        session.tell_superuser = session.tell_nobody
    before = None if keep is None else datetime.now(UTC) - keep
    with patiently("taking a snapshot"):
        head, dropped = api.snapshot(dsn=dsn, path=store, drop_before=before)
    gone = f", {dropped} older dropped" if dropped else ""
    say(f"snapshot {head.id}, taken in {duration(head.took_ms / 1000)}{gone}")


@click.command(
    "snapshots",
    epilog=examples(
        "pgflash snapshots --dsn dbname=app",
        "pgflash snapshots --store standby.snapshots --format csv",
    ),
)
@dsn_option()
@click.option(
    "--store",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that 'pgflash snapshot --store' wrote.",
)
@form_option("Output format.")
@paged_option
def snapshots_command(*, dsn: str | None, store: Path | None, form: str) -> None:
    """List the snapshots of a database, or of a file."""
    one_source(dsn, store)
    with patiently("reading the snapshots"):
        heads = api.snapshots(dsn=dsn, path=store)
        kept = api.baseline(dsn=dsn, path=store)
    if form == "json":
        print_json([_record(head) for head in heads])
    elif form == "csv":
        print_records(_COLUMNS, map(_record, heads))
    elif heads:
        say_table(_table(heads, kept))
    else:
        say("There are no snapshots. Take one: pgflash snapshot")


def _record(head: SnapshotHead) -> dict[str, object]:
    values = {name: getattr(head, name) for name in _COLUMNS}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
    }


def _table(heads: tuple[SnapshotHead, ...], kept: tuple[api.Baseline, ...]) -> ReportTable:
    rows = []
    zone = heads[-1].taken_at.tzinfo
    since = None
    for head in heads:
        began = "" if head.started_at == since else _second(head.started_at)
        since = head.started_at
        version = f"{head.major}.{head.server_version_num % 10_000}"
        of = ", ".join(one.name for one in kept if one.begin_id <= head.id <= one.end_id)
        at = _second(head.taken_at)
        rows.append(row(str(head.id), head.took_ms, at, began, head.origin, version, of))
    return ReportTable(
        id="snapshots",
        title="Snapshots",
        columns=(
            text("id", "id"),
            figure("took", "took", Unit.MILLISECONDS),
            text("taken_at", f"taken at, {zone}"),
            text("started_at", "server since"),
            text("origin", "origin"),
            text("version", "version"),
            *([text("baseline", "kept as")] if kept else ()),
        ),
        rows=tuple(rows if kept else (replace(one, cells=one.cells[:-1]) for one in rows)),
    )


def _second(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
