# SPDX-License-Identifier: PostgreSQL
"""pgflash report, pgflash compare: what happened between two snapshots, or in two periods."""

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pgflash import api
from pgflash.cli.options import dsn_option, examples, paged_option
from pgflash.cli.output import text_width, write_page
from pgflash.cli.screen import patiently
from pgflash.errors import UsageError
from pgflash.model.awr import AwrReport, CompareReport
from pgflash.model.words import listed
from pgflash.report.lines import WIDTH

#: Which form a file's name asks for.
_SUFFIXES: dict[str, api.Form] = {
    ".html": "html",
    ".htm": "html",
    ".txt": "text",
    ".json": "json",
    ".md": "md",
}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def source_options(function: _Function) -> _Function:
    """Give a command the options that say where snapshots are."""
    store = click.option(
        "--store",
        type=click.Path(path_type=Path, dir_okay=False),
        help="File that 'pgflash snapshot --store' wrote.",
    )
    return dsn_option("Database with the extension's snapshots")(store(function))


def period_options(function: _Function) -> _Function:
    """Give a command the options that select a period."""
    begin = click.option(
        "--from", "begin", default="", metavar="A", help="The period's first snapshot."
    )
    end = click.option(
        "--to",
        "end",
        default="",
        metavar="B",
        help="The period's last snapshot (default: the newest).",
    )
    return begin(end(function))


def _output_options(function: _Function) -> _Function:
    form = click.option(
        "--format",
        "form",
        type=click.Choice(api.FORMS),
        help="html: one file with charts; text: as wide as the terminal, or 80 columns; json: "
        "all of it, for programs; md: for a ticket.  Default: by the file's name, or text.",
    )
    output = click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="File to write (default: standard output).",
    )
    zeros = click.option(
        "--zeros", is_flag=True, help="Show rows of zeros (html: from the beginning)."
    )
    oracle = click.option(
        "--oracle", is_flag=True, help="Show Oracle's names of counters (html: from the beginning)."
    )
    return form(output(zeros(oracle(function))))


@click.command(
    "report",
    epilog=examples(
        "pgflash report -o report.html",
        "pgflash report --from 10:00 --to 11:00 --format md",
        "pgflash report --from first --store app.snapshots",
        "pgflash report kept.json -o kept.html",
    ),
)
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@period_options
@click.option(
    "--baseline",
    default="",
    metavar="NAME",
    help="The baseline to report on (see pgflash baseline).",
)
@source_options
@_output_options
@paged_option
def report_command(
    *,
    file: Path | None,
    begin: str,
    end: str,
    baseline: str,
    dsn: str | None,
    store: Path | None,
    form: api.Form | None,
    output: Path | None,
    zeros: bool,
    oracle: bool,
) -> None:
    """Report where the time went between two snapshots.

    A and B are the number of a snapshot, first, last, last-1, or a time, which means the nearest
    snapshot: 10:00, 2026-11-22T10:00, yesterday 10:00, -1h.  Times are in the server's time zone.
     The default of A is the snapshot before B; after a restart, the last whole period is
    reported.

    FILE is a report stored as JSON, to be printed in another format.
    """
    form = _form(form, output)
    if file is not None:
        if begin or end or baseline or dsn is not None or store is not None:
            raise UsageError(
                "a stored report already has its period",
                hint="Leave out --from, --to, --baseline, --dsn and --store, or the file.",
            )
        _print(api.read_period(file), form, output, zeros=zeros, oracle=oracle)
        return
    if baseline and (begin or end):
        raise UsageError(
            "a baseline already has its period", hint="Leave out --from and --to, or --baseline."
        )
    with patiently("reading the snapshots"), opened(dsn, store) as snapshots:
        report = api.report(
            snapshots, begin=begin, end=end, baseline=baseline, every_row=form == "json"
        )
    _print(report, form, output, zeros=zeros, oracle=oracle)


@click.command(
    "compare",
    epilog=examples(
        "pgflash compare 10..16 17..23",
        "pgflash compare 2026-11-21T10:00..2026-11-21T11:00 last-6..last -o compare.html",
        "pgflash compare monday last-6..last",
        "pgflash compare before.json after.json --format md",
    ),
)
@click.argument("first")
@click.argument("second")
@source_options
@_output_options
@paged_option
def compare_command(
    *,
    first: str,
    second: str,
    dsn: str | None,
    store: Path | None,
    form: api.Form | None,
    output: Path | None,
    zeros: bool,
    oracle: bool,
) -> None:
    """Compare two periods; the largest changes come first.

    FIRST and SECOND are each a period A..B, with snapshots named as for pgflash report, the name
    of a baseline, or a JSON file written by pgflash report.  With files, two servers can be
    compared.
    """
    with patiently("reading the snapshots"), contextlib.ExitStack() as stack:
        once = functools.cache(lambda: stack.enter_context(opened(dsn, store)))
        reports = [_read(word, once) for word in (first, second)]
    _print(api.compare(*reports), _form(form, output), output, zeros=zeros, oracle=oracle)


def _read(word: str, once: Callable[[], api.OpenStore]) -> AwrReport:
    """Return the report on a period, or the one in a file."""
    if word.endswith(".json"):
        return api.read_period(Path(word))
    begin, dots, end = word.partition("..")
    if not dots and any(one.name == word for one in once().baselines()):
        return api.report(once(), baseline=word, every_row=True)
    if not (begin and dots and end):
        raise UsageError(
            f'"{word}" is not a period',
            hint="Write two snapshots with two dots between them, such as 10..16, or name a "
            "baseline, or a report in a .json file.",
        )
    return api.report(once(), begin=begin, end=end, every_row=True)


def opened(dsn: str | None, store: Path | None) -> api.OpenStore:
    """Open the store of snapshots that the options name."""
    one_source(dsn, store)
    return api.open_store(dsn=dsn, path=store)


def one_source(dsn: str | None, store: Path | None) -> None:
    """Refuse two sources of snapshots."""
    if dsn is not None and store is not None:
        raise UsageError(
            "--dsn and --store exclude each other",
            hint="Snapshots are in a database or in a file: name one of the two.",
        )


def _form(form: api.Form | None, output: Path | None) -> api.Form:
    """Return the form that was asked for, or that the file's name asks for."""
    if form is not None:
        return form
    if output is None or str(output) == "-" or not output.suffix:
        return "text"
    found = _SUFFIXES.get(output.suffix.lower())
    if found is None:
        raise UsageError(
            f'no form of a report has names such as "{output.name}"',
            hint=f"Use {listed(list(_SUFFIXES))}, or say the form with --format.",
        )
    return found


def _print(
    report: AwrReport | CompareReport,
    form: api.Form,
    output: Path | None,
    *,
    zeros: bool,
    oracle: bool,
) -> None:
    """Print a report, or write it to a file."""
    width = text_width() if output is None else WIDTH
    page = api.render_period(report, form, zeros=zeros, oracle=oracle, width=width)
    write_page(page, output, what="Report")
