# SPDX-License-Identifier: PostgreSQL
"""pgflash top: the live page's essentials in a terminal, of use over ssh."""

import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live

from pgflash import api
from pgflash.cli.options import dsn_option, examples, form_option
from pgflash.cli.output import Table, print_json, terminal_table, words
from pgflash.model.awr import ReportTable
from pgflash.model.live import Sample


@click.command(
    "top",
    epilog=examples("pgflash top --dsn dbname=app", "pgflash top --seconds 5 --format json"),
)
@dsn_option()
@click.option(
    "--every",
    "interval_s",
    type=click.FloatRange(min=0.2, max=60),
    default=1.0,
    show_default=True,
    help="Seconds from one reading to the next.",
)
@click.option(
    "--seconds",
    type=click.IntRange(min=1),
    help="End after so many readings; else with Ctrl-C.",
)
@form_option("json: a line for each reading.", forms=("table", "json"))
def top_command(*, dsn: str | None, interval_s: float, seconds: int | None, form: str) -> None:
    """Show what a server does now: sessions by wait class, requests, latencies, the flash cache.

    Where the output is no terminal, the readings follow one another.
    """
    with api.top(dsn=dsn, interval_s=interval_s, readings=seconds) as watch:
        if form == "json":
            for sample in filter(None, watch):
                print_json(msgspec.to_builtins(sample), indent=None)
        else:
            _show(watch, screen=seconds is None)


def _show(watch: api.Watch, *, screen: bool) -> None:
    console = Console()
    if not console.is_terminal:
        for sample in watch:
            console.print(_page(watch, sample, width=0))
        return
    # What is said of the session is said before the screen is taken.
    watch.connected()
    with Live(console=console, screen=screen, auto_refresh=False) as live:
        live.update(words("Connecting to the server."), refresh=True)
        for sample in watch:
            live.update(_page(watch, sample, width=console.width), refresh=True)


#: From so many columns on, tables stand beside each other, so that all fits into 24 lines.
WIDE = 80
_LEFT, _RIGHT = ("Average active sessions by wait class", "Latency in ms"), ("Requests",)


def _page(watch: api.Watch, sample: Sample | None, *, width: int) -> RenderableType:
    """Return what is shown: a sentence, then tables; or how it stands with the server."""
    status = watch.status
    if sample is None:
        return words(f"{status.sentence} {status.hint}".strip() or "Waiting for the server.")
    head = words(f"{sample.at[11:19]}  {sample.headline}", style="bold")
    found = {one.title: one for one in api.sample_tables(sample)}
    if width < WIDE:
        return Group(head, *(_spaced(one) for one in found.values()))
    beside = Table.grid(padding=(0, 4))
    beside.add_row(
        *(
            Group(*(_spaced(found.pop(title)) for title in side if title in found))
            for side in (_LEFT, _RIGHT)
        )
    )
    first, *others = found.values()
    return Group(head, _table(first), *(_spaced(one) for one in others), beside)


def _spaced(one: ReportTable) -> RenderableType:
    return Group(words(""), _table(one))


def _table(one: ReportTable) -> RenderableType:
    return Group(words(one.title), terminal_table(one) if one.rows else words("none"))
