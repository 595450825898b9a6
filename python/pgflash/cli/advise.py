# SPDX-License-Identifier: PostgreSQL
"""pgflash advise: is storage the bottleneck, and what would flash bring where."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click
from rich import box
from rich.console import Console

from pgflash import api
from pgflash.cli.options import bytes_of, examples, form_option, probes_option
from pgflash.cli.output import Table, print_json, say
from pgflash.cli.report import opened, source_options
from pgflash.cli.screen import patiently
from pgflash.errors import UsageError
from pgflash.model.advice import Advice
from pgflash.model.words import megabytes

_OBJECTS_SHOWN = 12
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
@click.option("--from", "begin", default="", metavar="A", help="The period's first snapshot.")
@click.option("--to", "end", default="", metavar="B", help="Its last one; else the newest.")
@source_options
@click.option(
    "--awr", type=_PATH, help="An Oracle AWR or Statspack report (text, HTML, extract) instead."
)
@click.option(
    "--database-size", callback=bytes_of, help="With a file: the database's size, such as 500GB."
)
@click.option(
    "--flash",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder on the flash device: its free space is what there is.",
)
@click.option("--flash-bytes", callback=bytes_of, help="How much flash there is, such as 745GB.")
@click.option("--tablespace", default="", help="A tablespace on it, for the plan.")
@probes_option
@click.option("--prices", type=_PATH, help="File (TOML) that says what array and flash cost.")
@click.option("--users", type=click.FloatRange(min=0), help="Clients, if they think in between.")
@click.option("--cores", type=click.FloatRange(min=0.1), help="Processor cores, if not as told.")
@click.option("--approach", default="", help="The approach to plan, not the recommended one.")
@click.option("--plan", type=_PATH, help="Write its moves to this file, for pgflash plan apply.")
@form_option("How the advice is printed.", forms=("table", "json", "md"))
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
    """Say whether storage is the bottleneck, and what flash would bring.

    Reads the period between two snapshots, named as for pgflash report; or FILE, a report
    that was kept as JSON; or an Oracle AWR or Statspack report.  Judges the flash cache,
    WAL, temporary files, hot objects and everything on flash: throughput, DB time, what
    limits it then.  Predictions are from a queueing model: docs/guide/advise.md says how far
    to trust them.
    """
    if awr is not None and (file or begin or end or store or dsn is not None):
        raise UsageError(
            "--awr needs no snapshots", hint="Leave out FILE, --from, --to, --dsn and --store."
        )
    from_file = awr is not None or file is not None or store is not None
    if database_size is not None and not from_file:
        raise UsageError("a server says its size itself", hint="Leave out --database-size.")
    identifier = ""
    with patiently("looking at the server and its snapshots"):
        if from_file:
            known = api.file_situation(
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
        if awr is not None:
            advice = api.advise_oracle(awr, known)
        elif file is not None:
            advice = api.advise(api.read_period(file), known)
        else:
            with opened(dsn, store) as snapshots:
                report = api.report(snapshots, begin=begin, end=end, every_row=True)
            advice = api.advise(report, known)
    # Written first: who reads no further than the sentence still gets the plan.
    moves = 0
    if plan is not None:
        made = api.advise_plan(
            advice,
            plan,
            approach=approach,
            tablespace=tablespace,
            flash=flash,
            system_identifier=identifier,
        )
        moves = len(made.moves)
    _print(advice, form)
    if plan is not None:
        say(f"Plan: {plan} ({moves} moves)", err=form == "json")


def _print(advice: Advice, form: str) -> None:
    if form == "json":
        print_json(asdict(advice))
        return
    say(advice.sentence)
    say()
    tables = [_approaches(advice), *_objects(advice)]
    for title, heads, rows in tables:
        if form == "md":
            say(*_markdown(title, heads, rows), "")
        else:
            _print_table(title, heads, rows)
    for way in advice.approaches:
        cost = way.cost_per_1000_tpm
        price = f"; {way.currency} {cost:,.0f} of storage for 1,000 TPM" if cost else ""
        say(f"- {way.title}: {way.reason}{price}.")
    for note in advice.notes:
        say(f"- {note}")
    say(f"- Array: {advice.array}. Flash: {advice.flash}. From the {advice.source}.")


_Printed = tuple[str, tuple[str, ...], list[tuple[str, ...]]]


def _approaches(advice: Advice) -> _Printed:
    present = ("As it is", "x 1", f"{advice.db_time_ms:.2f}", *_parts(None), "")
    rows: list[tuple[str, ...]] = [present]
    for way in advice.approaches:
        mark = " *" if way.name == advice.recommended else ""
        parts = (way.cpu_ms, way.disk_ms, way.flash_ms, way.commit_ms, way.other_ms)
        ratio, total = f"x {way.ratio:.2f}", f"{way.db_time_ms:.2f}"
        rows.append((way.title + mark, ratio, total, *_parts(parts), way.limit))
    title = "Predicted throughput, and ms of DB time a transaction (* recommended)"
    heads = ("Approach", "Rate", "DB time", "CPU", "Disk", "Flash", "Commit", "Other")
    return title, (*heads, "Then limited by"), rows


def _parts(values: tuple[float, ...] | None) -> tuple[str, ...]:
    return ("",) * 5 if values is None else tuple(f"{value:.2f}" for value in values)


def _objects(advice: Advice) -> Iterator[_Printed]:
    if not advice.objects:
        return
    rows: list[tuple[str, ...]] = [
        (
            one.name,
            one.kind,
            "" if one.bytes is None else megabytes(one.bytes),
            f"{one.saved_s:,.1f}",
            "" if one.saved_s_per_gb is None else f"{one.saved_s_per_gb:,.0f}",
            one.verdict,
            one.reason,
        )
        for one in advice.objects[:_OBJECTS_SHOWN]
    ]
    heads = ("Object", "Kind", "MB", "Saves s", "s a GB", "Verdict", "Because")
    yield "Objects by the wait that flash would save", heads, rows


_TEXTS = frozenset({"Approach", "Then limited by", "Because", "Object", "Kind", "Verdict"})


def _print_table(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for head in heads:
        names = head in ("Approach", "Object")
        table.add_column(head, justify="left" if head in _TEXTS else "right", no_wrap=names)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _markdown(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield f"**{title}**"
    yield ""
    yield f"| {' | '.join(heads)} |"
    yield "|" + "|".join("---" if head in _TEXTS else "---:" for head in heads) + "|"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"
