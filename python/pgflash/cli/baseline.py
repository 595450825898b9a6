# SPDX-License-Identifier: PostgreSQL
"""pgflash baseline: periods that are kept under a name, to be compared with later ones."""

from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from pgflash import api, session
from pgflash.analyze.grid import row, text
from pgflash.cli.options import examples, form_option
from pgflash.cli.output import print_json, print_records, say, say_table
from pgflash.cli.report import one_source, period_options, source_options
from pgflash.cli.screen import patiently
from pgflash.model.awr import ReportTable

_COLUMNS = ("name", "begin_id", "end_id", "kept_at")


@click.group(
    "baseline",
    invoke_without_command=True,
    epilog=examples(
        "pgflash baseline -d app",
        "pgflash baseline keep monday -d app --from 10:00 --to 11:00",
        "pgflash compare -d app monday last-6..last",
    ),
)
@source_options
@form_option("How they are printed.")
@click.pass_context
def baseline_command(
    context: click.Context, *, dsn: str | None, store: Path | None, form: str
) -> None:
    """List the baselines: periods that are kept under a name.

    Their snapshots stay, however old they are: neither pgflash.snapshot_retention nor pgflash
    snapshot --keep drops them.
    """
    one_source(dsn, store)
    context.obj = store
    if context.invoked_subcommand is not None:
        # The monitoring role may not keep a baseline, or drop one.
        session.tell_superuser = session.tell_nobody
    else:
        _print(api.baseline(dsn=dsn, path=store), form)


@baseline_command.command(
    "keep",
    epilog=examples(
        "pgflash baseline keep monday -d app --from 10:00 --to 11:00",
        "pgflash baseline keep before --store app.snapshots --from 10 --to 16",
    ),
)
@click.argument("name")
@period_options
@source_options
@click.pass_obj
def keep_command(
    outer: Path | None, *, name: str, begin: str, end: str, dsn: str | None, store: Path | None
) -> None:
    """Keep a period as a baseline; it is named as for pgflash report."""
    store = outer if store is None else store
    one_source(dsn, store)
    with patiently("reading the snapshots"):
        kept = api.baseline_keep(name, begin=begin, end=end, dsn=dsn, path=store)
    say(f"baseline {kept.name}: snapshots {kept.begin_id} to {kept.end_id}")


@baseline_command.command("drop", epilog=examples("pgflash baseline drop monday -d app"))
@click.argument("name")
@source_options
@click.pass_obj
def drop_command(outer: Path | None, *, name: str, dsn: str | None, store: Path | None) -> None:
    """Drop a baseline.

    Its snapshots are then dropped when they are old enough.
    """
    store = outer if store is None else store
    one_source(dsn, store)
    api.baseline_drop(name, dsn=dsn, path=store)
    say(f"baseline {name} dropped")


def _print(found: tuple[api.Baseline, ...], form: str) -> None:
    if form == "json":
        print_json([_record(one) for one in found])
    elif form == "csv":
        print_records(_COLUMNS, map(_record, found))
    elif found:
        say_table(_table(found))
    else:
        say("There are no baselines. Keep one: pgflash baseline keep NAME")


def _record(one: api.Baseline) -> dict[str, object]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(one).items()
    }


def _table(found: tuple[api.Baseline, ...]) -> ReportTable:
    return ReportTable(
        id="baselines",
        title="Baselines",
        columns=(text("name", "name"), text("snapshots", "snapshots"), text("kept_at", "kept at")),
        rows=tuple(
            row(one.name, f"{one.begin_id} to {one.end_id}", f"{one.kept_at:%Y-%m-%d %H:%M:%S %Z}")
            for one in found
        ),
        key=("name",),
    )
