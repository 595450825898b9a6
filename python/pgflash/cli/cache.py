# SPDX-License-Identifier: PostgreSQL
"""pgflash cache: what the flash cache does, and what a superuser may change about it."""

from datetime import datetime

import click

from pgflash import api, session
from pgflash.cli.options import bytes_of, dsn_option, examples, form_option
from pgflash.cli.output import confirm, print_json, say, say_item
from pgflash.cli.screen import Screen
from pgflash.model.words import percent, size

_PERIODS = {"hour": "last hour", "day": "last day", "start": "since the start"}


@click.group(
    "cache",
    invoke_without_command=True,
    epilog=examples(
        "pgflash cache -d app", "pgflash cache mode passthrough", "pgflash cache resize 200GB"
    ),
)
@dsn_option()
@form_option(forms=("text", "json"))
@click.pass_context
def cache_command(context: click.Context, *, dsn: str | None, form: str) -> None:
    """Show the state of the flash cache, and whether it helps."""
    if context.invoked_subcommand is not None:
        # Only a superuser can change the cache.
        session.tell_superuser = session.tell_nobody
        return
    found = api.cache(dsn=dsn)
    if form == "json":
        rows = ({name: _plain(value) for name, value in row.items()} for row in found.benefit)
        cache = {name: _plain(value) for name, value in found.cache.items()}
        print_json({"cache": cache, "benefit": list(rows)})
        return
    for name, value in _lines(found):
        say_item(f"{name + ':':<17}", value)


@cache_command.command("mode", epilog=examples("pgflash cache mode serve"))
@click.argument("mode", type=click.Choice(("serve", "passthrough", "offline")))
@click.option("--yes", is_flag=True, help="Do not ask.")
@dsn_option()
def mode_command(*, dsn: str | None, mode: str, yes: bool) -> None:
    """Set the mode: serve, passthrough or offline.

    In mode passthrough the cache answers no reads, but stays warm and correct. Offline lasts until
    the server restarts.
    """
    if (
        mode == "offline"
        and not yes
        and not confirm("Offline lasts until the next restart. Go on?")
    ):
        return
    api.cache_mode(mode, dsn=dsn)
    say(f"The cache is in mode {mode}.")


@cache_command.command("clear", epilog=examples("pgflash cache clear --yes"))
@click.option("--yes", is_flag=True, help="Do not ask.")
@dsn_option()
def clear_command(*, dsn: str | None, yes: bool) -> None:
    """Drop every block from the cache."""
    if yes or confirm("The cache is cold afterwards. Go on?"):
        api.cache_clear(dsn=dsn)
        say("The cache is empty.")


@cache_command.command("resize", epilog=examples("pgflash cache resize 200GB"))
@click.argument("new_size", metavar="SIZE", callback=bytes_of)
@dsn_option()
def resize_command(*, dsn: str | None, new_size: int) -> None:
    """Set the size of each cache file, and wait until it is reached.

    The server keeps running. The maximum is pgflash.cache_size_max. Ctrl-C ends the wait, not the
    resize.
    """
    with Screen() as screen:
        api.cache_resize(new_size, dsn=dsn, listener=screen)
    say(f"The size is {size(new_size)}.")


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


def _lines(found: api.CacheStatus) -> list[tuple[str, str]]:
    """Return what is shown, name by name."""
    cache = {name: "" if value is None else str(value) for name, value in found.cache.items()}

    def number(name: str) -> float:
        return float(cache.get(name) or 0)

    lines = [
        ("mode", ": ".join(filter(None, (cache["mode"], cache.get("mode_reason", ""))))),
        ("start", cache.get("start_reason", "")),
        ("size", f"{size(number('size_bytes'))}, {size(number('used_bytes'))} used"),
    ]
    if cache.get("resize_progress"):
        lines.append(("resize", f"{percent(number('resize_progress'))} done"))
    if cache.get("resize_reason"):
        lines.append(("resize", cache["resize_reason"]))
    if cache.get("hit_ratio"):
        lines.append(("hit ratio", percent(number("hit_ratio"))))
    written = f"{size(number('flash_write_bytes_day'))} in 24 hours"
    if cache.get("write_budget_left_bytes"):
        written += f", {size(number('write_budget_left_bytes'))} of the budget left"
    lines.append(("written", written))
    lines += [(_PERIODS[str(row["period"])], str(row["finding"])) for row in found.benefit]
    return lines
