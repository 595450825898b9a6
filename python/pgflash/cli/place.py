# SPDX-License-Identifier: PostgreSQL
"""pgflash place: move one thing to another device.

Each command makes a plan of one or more moves, stores it in a file, shows its effects, asks, and
applies it as `pgflash plan apply` does.  So an interrupted move is continued by `pgflash plan apply
FILE`, and undone by `pgflash plan undo FILE`.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from pgflash import api
from pgflash.cli import plan as plans
from pgflash.cli.options import FiniteRange, dsn_option, examples
from pgflash.model.plan import Plan

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _common(on: str) -> Callable[[_Command], _Command]:
    """Return what all commands have in common; ON, a metavar, says what --on names."""
    kinds = " or ".join({"TABLESPACE": "tablespace", "DIR": "folder"}[one] for one in on.split("|"))
    options = [
        click.option(
            "--on", "to", required=True, metavar=on, help=f"{kinds.capitalize()} to move it to."
        ),
        dsn_option(),
        click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option(
            "--room-is-there",
            is_flag=True,
            help="Do not check free space, which is known only on the server's machine.",
        ),
        click.option(
            "--plan",
            "plan_file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="File that records the moves (default: a new one below ~/.local/state/pgflash).",
        ),
    ]

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_PATIENCE = click.option(
    "--patience",
    type=FiniteRange(0),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="How long to try to get a lock.",
)
_METHOD = click.option(
    "--method",
    type=click.Choice(["auto", "repack", "alter"]),
    default="auto",
    show_default=True,
    help="How to move tables: by pg_repack, or by ALTER TABLE with a lock.",
)


@click.group(
    "place",
    epilog=examples("pgflash place table stock --on flash --dry-run"),
)
def place() -> None:
    """Move a part of the cluster to another device.

    A move can be interrupted, resumed and undone.
    """


@place.command(
    "wal",
    epilog=examples(
        "pgflash place wal --on /flash/wal",
        "pgflash place wal --on /flash/wal --stop-command 'systemctl stop postgresql' \\\n"
        "    --start-command 'systemctl start postgresql'",
    ),
)
@_common("DIR")
@plans.restart_options
def wal(*, to: str, stop_command: str, start_command: str, **common: Any) -> None:  # noqa: ANN401
    """Move pg_wal to a folder, with a restart of the server.

    If the server does not start, everything is rolled back. Runs on the server's machine, as the
    server's user or as root.
    """
    asked = partial(api.place_wal, to, stop_command=stop_command, start_command=start_command)
    _place(asked, **common)


@place.command("temp", epilog=examples("pgflash place temp --on flash"))
@_common("TABLESPACE|DIR")
def temp(*, to: str, **common: Any) -> None:  # noqa: ANN401
    """Let sorts and hashes spill to a tablespace (temp_tablespaces)."""
    _place(partial(api.place_temp, to), **common)


@place.command("archive", epilog=examples("pgflash place archive --on /flash/archive"))
@_common("DIR")
@click.option("--leave-old", is_flag=True, help="Do not copy the existing archive.")
@click.option("--command", default="", help="The new archive_command, if it cannot be derived.")
def archive(*, to: str, leave_old: bool, command: str, **common: Any) -> None:  # noqa: ANN401
    """Archive WAL to another folder without a gap.

    Both archive_command and basic_archive are supported.
    """
    _place(partial(api.place_archive, to, leave_old=leave_old, command=command), **common)


@place.command(
    "table",
    epilog=examples(
        "pgflash place table public.stock --on flash",
        "pgflash place table stock --on /flash/data --no-indexes --method alter",
    ),
)
@click.argument("name")
@_common("TABLESPACE|DIR")
@click.option("--indexes/--no-indexes", default=True, help="Also move its indexes (the default).")
@_METHOD
@_PATIENCE
def table(
    *,
    name: str,
    to: str,
    indexes: bool,
    method: str,
    patience: float,
    **common: Any,  # noqa: ANN401
) -> None:
    """Move a table or materialized view.

    Its TOAST table, partitions and indexes move, too.
    """
    asked = partial(api.place_table, name, to, indexes=indexes, method=method, patience_s=patience)
    _place(asked, **common)


@place.command("index", epilog=examples("pgflash place index public.stock_pkey --on flash"))
@click.argument("name")
@_common("TABLESPACE|DIR")
@_PATIENCE
def index(*, name: str, to: str, patience: float, **common: Any) -> None:  # noqa: ANN401
    """Move an index by rebuilding it while it is in use.

    The command is REINDEX CONCURRENTLY.
    """
    _place(partial(api.place_index, name, to, patience_s=patience), **common)


@place.command(
    "database",
    epilog=examples(
        "pgflash place database app --on flash", "pgflash place database app --on flash --offline"
    ),
)
@click.argument("name")
@_common("TABLESPACE|DIR")
@click.option(
    "--offline", is_flag=True, help="Move all at once; no session may be connected to it."
)
@_METHOD
@_PATIENCE
def database(
    *,
    name: str,
    to: str,
    offline: bool,
    method: str,
    patience: float,
    **common: Any,  # noqa: ANN401
) -> None:
    """Move a database, object by object or all at once.

    Object by object, it stays in use.
    """
    asked = partial(
        api.place_database, name, to, offline=offline, method=method, patience_s=patience
    )
    _place(asked, **common)


def _place(
    asked: Callable[..., Plan],
    *,
    dsn: str | None,
    dry_run: bool,
    yes: bool,
    room_is_there: bool,
    plan_file: Path | None,
) -> None:
    """Make a plan of what was asked for, show it, ask, and carry it out."""
    plan = asked(dsn=dsn)
    if dry_run:
        plans.show_looks(plan, dsn)
        return
    if plans.agree(plan, dsn, yes=yes):
        path = api.plan_keep(plan, plan_file)
        plans.carry_out(path, plan, dsn, room_is_there=room_is_there)
