# SPDX-License-Identifier: PostgreSQL
"""pgflash advise: is storage the bottleneck, and what would flash bring where."""

from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path

import click

from pgflash import api
from pgflash.analyze.grid import figure, row, text
from pgflash.cli.options import (
    TABLE_FORMS,
    FiniteRange,
    bytes_of,
    examples,
    form_option,
    paged_option,
    probes_option,
)
from pgflash.cli.output import print_json, print_records, say, say_table, say_text
from pgflash.cli.report import opened, period_options, source_options
from pgflash.cli.screen import patiently
from pgflash.errors import UsageError
from pgflash.model.advice import Advice, ApproachAdvice
from pgflash.model.awr import ReportTable, Source, Unit
from pgflash.model.words import money, things
from pgflash.report.awr.markdown import markdown_table
from pgflash.report.printed import print_table

_OBJECTS_SHOWN = 12
#: Parts of a transaction's DB time, by the advice's names.
_PARTS = {
    "cpu_ms": "CPU",
    "disk_ms": "Disk",
    "flash_ms": "Flash",
    "commit_ms": "Commit",
    "other_ms": "Other",
}
_PATH = click.Path(path_type=Path, dir_okay=False)


@click.command(
    "advise",
    epilog=examples(
        "pgflash advise",
        "pgflash advise --from 10:00 --to 11:00 --flash /mnt/nvme",
        "pgflash advise --flash /mnt/nvme --tablespace fast --plan plan.json",
        "pgflash advise --awr awrrpt_1_10_11.html --flash-bytes 745GB --database-size 2TB",
        "pgflash advise kept.json --format md",
    ),
)
@click.argument("file", required=False, type=_PATH)
@period_options
@source_options
@click.option(
    "--awr",
    type=_PATH,
    help="Read an Oracle AWR or Statspack report (text, HTML, extract) instead.",
)
@click.option(
    "--database-size", callback=bytes_of, help="With a file: the database's size, such as 500GB."
)
@click.option(
    "--flash",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder on the flash device; its free space is the flash available.",
)
@click.option("--flash-bytes", callback=bytes_of, help="Amount of flash available, such as 745GB.")
@click.option("--tablespace", default="", help="A tablespace on the flash device, for the plan.")
@probes_option
@click.option("--prices", type=_PATH, help="File (TOML) with the prices of array and flash.")
@click.option(
    "--users", type=FiniteRange(min=0), help="Number of clients, if they have think time."
)
@click.option(
    "--cores",
    type=FiniteRange(min=0.1),
    help="Number of processor cores, if detected wrongly.",
)
@click.option("--approach", default="", help="Plan this approach instead of the recommended one.")
@click.option("--plan", type=_PATH, help="Write the moves to this file, for pgflash plan apply.")
@form_option("Output format; csv lists the approaches.", forms=(*TABLE_FORMS, "md"))
@paged_option
def advise_command(
    *,
    file: Path | None,
    begin: str,
    end: str,
    dsn: str | None,
    store: Path | None,
    awr: Path | None,
    database_size: int | None,
    flash: Path | None,
    flash_bytes: int | None,
    tablespace: str,
    probes: tuple[Path, ...],
    prices: Path | None,
    users: float | None,
    cores: float | None,
    approach: str,
    plan: Path | None,
    form: str,
) -> None:
    """Tell whether storage is the bottleneck, and what flash brings.

    Reads the period between two snapshots, named as for pgflash report; or FILE, a report stored
    as JSON; or an Oracle AWR or Statspack report. Predicts throughput, DB time and the next
    bottleneck for a flash cache, and for WAL, temporary files, hot objects or everything on flash.
    docs/guide/advise.md describes the queueing model and its accuracy.
    """
    if awr is not None and (file or begin or end or store or dsn is not None):
        raise _awr_alone()
    from_file = awr is not None or file is not None or store is not None
    _refuse_useless(from_file, awr=awr, plan=plan, flash=flash, database_size=database_size)
    identifier = ""
    with patiently("reading the server and its snapshots"):
        if from_file:
            known = api.file_situation(
                flash=flash,
                flash_bytes=flash_bytes,
                database_bytes=database_size,
                users=users,
                cores=cores,
                probes=probes,
                prices=prices,
            )
        else:
            known, identifier = api.server_situation(
                dsn=dsn,
                flash=flash,
                flash_bytes=flash_bytes,
                users=users,
                cores=cores,
                probes=probes,
                prices=prices,
                tablespace=tablespace,
            )
        advice = _advise(known, awr=awr, file=file, dsn=dsn, store=store, begin=begin, end=end)
    if plan is None:
        _print(advice, form)
        return
    # Written first, so that a reader that stops after the sentence still gets the plan.
    made = api.advise_plan(
        advice,
        plan,
        approach=approach,
        tablespace=tablespace,
        flash=flash,
        system_identifier=identifier,
    )
    _print(advice, form)
    say(f"Plan: {plan} ({things(len(made.moves), 'move')})", err=form in ("json", "csv"))


def _awr_alone() -> UsageError:
    return UsageError(
        "--awr needs no snapshots", hint="Leave out FILE, --from, --to, --dsn and --store."
    )


def _refuse_useless(
    from_file: bool,
    *,
    awr: Path | None,
    plan: Path | None,
    flash: Path | None,
    database_size: int | None,
) -> None:
    """Refuse options that would do nothing, or no good."""
    if awr is not None and plan is not None:
        raise UsageError(
            "a plan moves objects of PostgreSQL, and --awr is of Oracle", hint="Leave out --plan."
        )
    if database_size is not None and not from_file:
        raise UsageError("the size of a server is known", hint="Leave out --database-size.")
    if flash is not None and from_file and plan is None:
        raise UsageError(
            "with a file, --flash only says where a plan puts the WAL",
            hint="Say with --flash-bytes how much flash there is.",
        )


def _advise(
    known: api.Situation,
    *,
    awr: Path | None,
    file: Path | None,
    dsn: str | None,
    store: Path | None,
    begin: str,
    end: str,
) -> Advice:
    """Return the advice on an Oracle report, a stored report, or a period between snapshots."""
    if awr is not None:
        return api.advise_oracle(awr, known)
    if file is not None:
        return api.advise(api.read_period(file), known)
    with opened(dsn, store) as snapshots:
        report = api.report(snapshots, begin=begin, end=end, every_row=True)
    return api.advise(report, known)


def _print(advice: Advice, form: str) -> None:
    if form == "json":
        print_json(asdict(advice))
        return
    if form == "csv":
        names = tuple(field.name for field in fields(ApproachAdvice))
        print_records(names, map(asdict, advice.approaches))
        return
    tell = say if form == "md" else say_text
    tell(advice.sentence)
    say()
    for table in (_approaches(advice), *_objects(advice)):
        if form == "md":
            say(f"**{table.title}**", "", *markdown_table(print_table(table, signs=False)))
        else:
            say(table.title)
            say_table(table)
        say()
    notes = []
    for way in advice.approaches:
        cost = way.cost_per_1000_tpm
        price = f"; {money(cost, way.currency)} of storage for 1,000 TPM" if cost else ""
        notes.append(f"{way.title}: {way.reason}{price}.")
    notes += advice.notes
    notes.append(f"Array: {advice.array}. Flash: {advice.flash}. From the {advice.source}.")
    for note in notes:
        tell(f"- {note}")


def _approaches(advice: Advice) -> ReportTable:
    columns = (
        text("title", "Approach"),
        figure("ratio", "Rate", Unit.RATIO, Source.MODELLED),
        figure("db_time_ms", "DB time", Unit.MILLISECONDS, Source.MODELLED),
        *(
            figure(name, title, Unit.MILLISECONDS, Source.MODELLED)
            for name, title in _PARTS.items()
        ),
        text("limit", "Then limited by"),
    )
    rows = [row("As it is", 1.0, advice.db_time_ms, *(None for _part in _PARTS), "")]
    for way in advice.approaches:
        mark = " *" if way.name == advice.recommended else ""
        parts = (getattr(way, name) for name in _PARTS)
        rows.append(row(way.title + mark, way.ratio, way.db_time_ms, *parts, way.limit))
    return ReportTable(
        id="approaches",
        title="Predicted throughput, and DB time of a transaction (* recommended)",
        columns=columns,
        rows=tuple(rows),
    )


def _objects(advice: Advice) -> Iterator[ReportTable]:
    if not advice.objects:
        return
    yield ReportTable(
        id="objects",
        title="Objects by the wait that flash would save",
        columns=(
            text("name", "Object"),
            text("kind", "Kind"),
            figure("bytes", "Size", Unit.BYTES),
            figure("saved_s", "Saves", Unit.SECONDS, Source.MODELLED),
            figure("saved_s_per_gb", "s a GB", Unit.RATIO, Source.MODELLED),
            text("verdict", "Verdict"),
            text("reason", "Because"),
        ),
        rows=tuple(
            row(
                one.name,
                one.kind,
                one.bytes,
                one.saved_s,
                one.saved_s_per_gb,
                one.verdict,
                one.reason,
            )
            for one in advice.objects[:_OBJECTS_SHOWN]
        ),
    )
