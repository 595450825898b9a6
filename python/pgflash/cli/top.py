# SPDX-License-Identifier: PostgreSQL
"""pgflash top: the live page's essentials in a terminal, of use over ssh."""

import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live

from pgflash.cli.options import dsn_option, examples, form_option
from pgflash.cli.output import Table, print_json, words
from pgflash.errors import PgflashError
from pgflash.model.live import Sample
from pgflash.web.collector import Collector
from pgflash.web.ring import Ring
from pgflash.web.tables import LiveTable, headline, tables

#: How long the first sample may take to come: two readings, a second apart.
FIRST_S = 20.0


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
    collector = Collector(dsn or "", Ring(), interval_s=interval_s)
    collector.start()
    try:
        with collector.watched():
            if form == "json":
                for sample in filter(None, _Samples(collector, seconds)):
                    print_json(msgspec.to_builtins(sample), indent=None)
            else:
                _show(collector, seconds)
    finally:
        collector.stop(wait_s=2.0)


def _show(collector: Collector, seconds: int | None) -> None:
    console = Console()
    if not console.is_terminal:
        for sample in _Samples(collector, seconds):
            console.print(_page(collector, sample, width=0))
        return
    # What is said of the session is said before the screen is taken.
    collector.ring.wait(0, FIRST_S)
    with Live(console=console, screen=seconds is None, auto_refresh=False) as live:
        live.update(words("Connecting to the server."), refresh=True)
        for sample in _Samples(collector, seconds):
            live.update(_page(collector, sample, width=console.width), refresh=True)


class _Samples:
    """The samples as they come; the first one must come in time, later ones may be missed."""

    def __init__(self, collector: Collector, count: int | None) -> None:
        self._collector = collector
        self._left = count
        self._number = 0
        self._waits = True

    def __iter__(self) -> "_Samples":
        return self

    def __next__(self) -> Sample | None:
        """Return the next sample, or None to say how it stands with the server."""
        if self._left == 0:
            raise StopIteration
        found = self._next()
        if self._left is not None and found is not None:
            self._left -= 1
        return found

    def _next(self) -> Sample | None:
        ring = self._collector.ring
        while True:
            if not ring.wait(self._number, FIRST_S if self._waits else 5.0):
                if self._waits:
                    raise PgflashError(f"nothing was read within {FIRST_S:.0f} seconds")
                return None
            messages, _gap = ring.after(self._number)
            self._number = messages[-1].number
            newest = [one for one in messages if one.kind == "sample"]
            if newest:
                self._waits = False
                return msgspec.json.decode(newest[-1].data, type=Sample)
            status = self._collector.status
            if status.state == "lost" and self._waits:
                raise PgflashError(status.sentence, hint=status.hint)
            if status.state == "lost":
                return None


#: From so many columns on, tables stand beside each other, so that all fits into 24 lines.
WIDE = 80
_LEFT, _RIGHT = ("Average active sessions by wait class", "Latency in ms"), ("Requests",)


def _page(collector: Collector, sample: Sample | None, *, width: int) -> RenderableType:
    """Return what is shown: a sentence, then tables; or how it stands with the server."""
    status = collector.status
    if sample is None:
        return words(f"{status.sentence} {status.hint}".strip() or "Waiting for the server.")
    said = headline(sample, collector.server)
    head = words(f"{sample.at[11:19]}  {said}", style="bold")
    found = {one.title: one for one in tables(sample)}
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


def _spaced(one: LiveTable) -> RenderableType:
    return Group(words(""), _table(one))


def _table(one: LiveTable) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(one.columns):
        table.add_column(name, justify="right" if place else "left")
    for row in one.rows:
        table.add_row(*row)
    return Group(words(one.title), table if one.rows else words("none"))
