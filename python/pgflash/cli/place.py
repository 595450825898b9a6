# SPDX-License-Identifier: PostgreSQL
"""pgflash place: move one thing to another device.

Each command makes a plan of one or more moves, keeps it in a file, shows what it means,
asks, and carries it out as `pgflash plan apply` would.  So whatever is stopped is gone on
with by `pgflash plan apply FILE`, and taken back by `pgflash plan undo FILE`.
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from pgflash.cli import plan as plans
from pgflash.cli.options import dsn_option, examples
from pgflash.errors import UsageError
from pgflash.model.plan import Move, MoveKind
from pgflash.place import Cluster, moves_for, plan_for
from pgflash.place.journal import write_plan
from pgflash.trusted import ChangeableError, make_folders

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _common(on: str) -> Callable[[_Command], _Command]:
    """Return what all commands have in common; ON says what --on names."""
    options = [
        click.option("--on", "to", required=True, metavar=on, help="Where it is to be."),
        dsn_option(""),
        click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option(
            "--room-is-there",
            is_flag=True,
            help="Do not look for free space, which only the server's machine can see.",
        ),
        click.option(
            "--plan",
            "plan_file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="File that keeps what is done; else one is made below ~/.local/state/pgflash.",
        ),
    ]

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_PATIENCE = click.option(
    "--patience",
    type=click.FloatRange(0),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="How long a lock is tried for, where one is needed.",
)
_METHOD = click.option(
    "--method",
    type=click.Choice(["auto", "repack", "alter"]),
    default="auto",
    show_default=True,
    help="How tables are moved: by pg_repack, or by ALTER TABLE under a lock.",
)


@click.group(
    "place",
    epilog=examples("pgflash place table stock --on flash --dry-run"),
)
def place() -> None:
    """Put a part of the cluster on another device; it can be stopped, resumed and undone."""


@place.command(
    "wal",
    epilog=examples(
        "pgflash place wal --on /flash/wal",
        "pgflash place wal --on /flash/wal --stop-command 'systemctl stop postgresql' \\\n"
        "    --start-command 'systemctl start postgresql'",
    ),
)
@_common("DIR")
@click.option("--stop-command", default="", help="Stops the server; else pg_ctl does.")
@click.option("--start-command", default="", help="Starts it again; both or none.")
def wal(*, to: str, stop_command: str, start_command: str, **common: Any) -> None:  # noqa: ANN401
    """Move pg_wal to a folder, by a restart that is rolled back if the server does not come up.

    Runs on the server's machine, as the server's user or as root.
    """
    if bool(stop_command) != bool(start_command):
        raise UsageError("--stop-command and --start-command go together")
    options = {"stop_command": stop_command, "start_command": start_command}
    _place(Move(kind=MoveKind.WAL, to=_folder(to), options=_given(options)), **common)


@place.command("temp", epilog=examples("pgflash place temp --on flash"))
@_common("TABLESPACE|DIR")
def temp(*, to: str, **common: Any) -> None:  # noqa: ANN401
    """Let sorts and hashes spill to a tablespace (temp_tablespaces)."""
    _place(Move(kind=MoveKind.TEMP, to=to), **common)


@place.command("archive", epilog=examples("pgflash place archive --on /flash/archive"))
@_common("DIR")
@click.option("--leave-old", is_flag=True, help="Do not copy what is archived already.")
@click.option("--command", default="", help="The new archive_command, if it cannot be told.")
def archive(*, to: str, leave_old: bool, command: str, **common: Any) -> None:  # noqa: ANN401
    """Archive WAL to another folder, without a gap (archive_command, basic_archive)."""
    options = {"copy": "no" if leave_old else "", "command": command}
    _place(Move(kind=MoveKind.ARCHIVE, to=_folder(to), options=_given(options)), **common)


@place.command(
    "table",
    epilog=examples(
        "pgflash place table public.stock --on flash",
        "pgflash place table stock --on /flash/data --no-indexes --method alter",
    ),
)
@click.argument("name")
@_common("TABLESPACE|DIR")
@click.option("--indexes/--no-indexes", default=True, help="Its indexes, too (the default).")
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
    """Move a table or materialized view, with TOAST, partitions and indexes."""
    options = {
        "indexes": "" if indexes else "no",
        "method": method,
        "patience_s": f"{patience:g}",
    }
    _place(Move(kind=MoveKind.TABLE, to=to, name=name, options=_given(options)), **common)


@place.command("index", epilog=examples("pgflash place index public.stock_pkey --on flash"))
@click.argument("name")
@_common("TABLESPACE|DIR")
@_PATIENCE
def index(*, name: str, to: str, patience: float, **common: Any) -> None:  # noqa: ANN401
    """Move an index, by building it anew while it is used (REINDEX CONCURRENTLY)."""
    options = {"patience_s": f"{patience:g}"}
    _place(Move(kind=MoveKind.INDEX, to=to, name=name, options=options), **common)


@place.command(
    "database",
    epilog=examples(
        "pgflash place database app --on flash", "pgflash place database app --on flash --offline"
    ),
)
@click.argument("name")
@_common("TABLESPACE|DIR")
@click.option("--offline", is_flag=True, help="All at once; nobody may be connected to it.")
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
    """Move a database, object by object while it is used, or all at once."""
    options = {
        "offline": "yes" if offline else "",
        "method": "" if offline else method,
        "patience_s": "" if offline else f"{patience:g}",
    }
    _place(Move(kind=MoveKind.DATABASE, to=to, name=name, options=_given(options)), **common)


def _place(
    asked: Move,
    *,
    dsn: str,
    dry_run: bool,
    yes: bool,
    room_is_there: bool,
    plan_file: Path | None,
) -> None:
    """Make a plan of what was asked for, show it, ask, and carry it out."""
    now = datetime.now(UTC)
    with Cluster(dsn) as cluster:
        moves = moves_for(cluster, asked)
        plan = plan_for(cluster, moves, id=f"{now:%Y%m%d-%H%M%S}-{asked.kind}", now=now)
    if dry_run:
        plans.show_looks(plan, dsn)
        return
    if not plans.agree(plan, dsn, yes=yes):
        return
    path = plan_file or plans.state_folder() / f"{plan.id}.json"
    if path.exists():
        raise UsageError(f"{path} exists", hint="Name another file, or carry it out: plan apply.")
    try:
        make_folders(path.parent)
    except (OSError, ChangeableError) as error:
        raise UsageError(
            f"could not make {path.parent}: {getattr(error, 'strerror', error.args[0])}",
            hint="Name a file that keeps what is done: --plan FILE.",
        ) from error
    write_plan(path, plan)
    plans.carry_out(path, plan, dsn, room_is_there=room_is_there)


def _given(options: dict[str, str]) -> dict[str, str]:
    """Return the options that say something."""
    return {name: value for name, value in options.items() if value}


def _folder(to: str) -> str:
    """Return a folder as an absolute path."""
    if not to:
        raise UsageError("--on names no folder", hint="Perhaps a variable of the shell is not set.")
    return os.path.abspath(to)  # noqa: PTH100 - links are followed later, by the server's rules
