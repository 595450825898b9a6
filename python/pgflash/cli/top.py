# SPDX-License-Identifier: PostgreSQL
"""pgflash top: the live page's essentials in a terminal, of use over ssh."""

import contextlib
import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from datetime import datetime

import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from pgflash import api
from pgflash.analyze.grid import figure, row, text
from pgflash.cli.options import FiniteRange, dsn_option, examples, form_option
from pgflash.cli.output import beside, print_json, table_text, words
from pgflash.model.awr import ReportTable, Unit
from pgflash.model.live import Sample, TimeRange, TimeRangeRow
from pgflash.model.moments import print_clock


@click.command(
    "top",
    epilog=examples("pgflash top --dsn dbname=app", "pgflash top --seconds 5 --format json"),
)
@dsn_option()
@click.option(
    "--every",
    "interval_s",
    type=FiniteRange(min=0.2, max=60),
    default=1.0,
    show_default=True,
    help="Seconds between readings.",
)
@click.option(
    "--seconds",
    type=click.IntRange(min=1),
    help="End after this many updates (default: at q or Ctrl-C).",
)
@form_option("json: one line for each update.", forms=("table", "json"))
def top_command(*, dsn: str | None, interval_s: float, seconds: int | None, form: str) -> None:
    """Show what a server does now, once a second.

    The first lines show sessions by wait class, requests, latencies and the flash cache. In a
    large window, statements, waits and sessions of the last minute follow. q quits. If the output
    is not a terminal, the readings are printed one by one.
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
    # Messages about the session are printed before the screen is taken.
    watch.connected()
    with Live(console=console, screen=screen, auto_refresh=False) as live, _quits(watch):
        live.update(words("Connecting to the server."), refresh=True)
        for sample in watch:
            width, height = console.size
            page = _page(watch, sample, width=width)
            if screen:
                minute = watch.minute(sample) if sample is not None else None
                page = _filled(console, page, minute, height)
            live.update(page, refresh=True)


@contextlib.contextmanager
def _quits(watch: api.Watch) -> Iterator[None]:
    """End the watching when somebody types q; where nobody can, do nothing."""
    if not sys.stdin.isatty() or _is_in_background(sys.stdin.fileno()):
        yield
        return
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    woken, wakes = os.pipe()

    def listen() -> None:
        while keys in select.select([keys, woken], [], [])[0]:
            if os.read(keys, 1) in (b"q", b"Q", b""):
                watch.end()
                return

    listener = threading.Thread(target=listen, name="pgflash keys", daemon=True)
    try:
        tty.setcbreak(keys, termios.TCSANOW)
        listener.start()
        yield
    finally:
        os.write(wakes, b".")
        if listener.ident is not None:
            listener.join()
        termios.tcsetattr(keys, termios.TCSANOW, before)
        os.close(woken)
        os.close(wakes)


def _is_in_background(terminal: int) -> bool:
    """Tell whether a terminal belongs to another job: changing its mode would stop us."""
    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    except OSError:  # it is not the terminal that controls us
        return False


QUIT = "q: quit"
#: Lines of a table beside its rows: a blank one, its title, its head.
_AROUND = 3
_ROWS_MIN = 3


def _filled(
    console: Console, page: RenderableType, minute: TimeRange | None, height: int
) -> RenderableType:
    """Return a page with what sessions did in the last minute, as far as the window has room."""
    parts = [page]
    left = height - len(console.render_lines(page, pad=False)) - 1
    for title, rows, named in _of_minute(minute):
        shown = rows[: max(left - _AROUND, 0)]
        if shown and len(shown) >= min(len(rows), _ROWS_MIN):
            table = _spent(shown, named, console.width)
            lines = _AROUND - 1 + len(table.plain.splitlines())
            if lines <= left:  # in a narrow window it continues below
                parts.append(Group(words(""), words(f"{title}, last minute"), table))
                left -= lines
    blank = [words("")] * left
    return Group(*parts, *blank, words(QUIT, style="dim"))


def _of_minute(
    minute: TimeRange | None,
) -> Iterator[tuple[str, tuple[TimeRangeRow, ...], str]]:
    if minute is not None:
        yield "Top SQL", minute.statements, "Statement"
        yield "Top waits", minute.waits, "Event"
        yield "Top sessions", minute.sessions, "Process"


def _spent(rows: tuple[TimeRangeRow, ...], named: str, width: int) -> Text:
    """Return the rows as a table that is no wider than the window."""
    found = []
    for one in rows:
        what = one.detail if one.detail and named == "Statement" else f"{one.name} {one.detail}"
        found.append(row(one.seconds / 60, one.share, one.wait_class, what))
    columns = (
        figure("active", "Active", Unit.SESSIONS),
        figure("share", "Share", Unit.SHARE),
        text("mostly", "Mostly"),
        text("what", named),
    )
    table = ReportTable(id="minute", title="", columns=columns, rows=tuple(found))
    return table_text(table, width, folded=False)


#: From this many columns on, tables are side by side, so that all fits into 24 lines.
WIDE = 80
_GAP = 4
_LEFT, _RIGHT = ("Average active sessions by wait class", "Latency in ms"), ("Requests",)


def _page(watch: api.Watch, sample: Sample | None, *, width: int) -> RenderableType:
    """Return what is shown: a sentence, then tables; or how it stands with the server."""
    status = watch.status
    if sample is None:
        return words(f"{status.sentence} {status.hint}".strip() or "Waiting for the server.")
    at = print_clock(datetime.fromisoformat(sample.at))
    head = words(f"{at}  {sample.headline}", style="bold")
    found = {one.title: one for one in api.sample_tables(sample)}
    if width < WIDE:
        return Group(head, *(_spaced(one, width or WIDE) for one in found.values()))
    half = (width - _GAP) // 2
    sides = [
        Group(*(_spaced(found.pop(title), half) for title in side if title in found))
        for side in (_LEFT, _RIGHT)
    ]
    first, *others = found.values()
    above = (_table(first, width), *(_spaced(one, width) for one in others))
    return Group(head, *above, beside(*sides, gap=_GAP))


def _spaced(one: ReportTable, width: int) -> RenderableType:
    return Group(words(""), _table(one, width))


def _table(one: ReportTable, width: int) -> RenderableType:
    return Group(words(one.title), table_text(one, width) if one.rows else words("none"))
