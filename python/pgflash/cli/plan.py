# SPDX-License-Identifier: PostgreSQL
"""pgflash plan: show, carry out and undo a plan of moves."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pgflash import api
from pgflash.analyze.grid import figure, row, text
from pgflash.cli.options import dsn_option, examples, form_option, paged_option
from pgflash.cli.output import (
    confirm,
    print_json,
    print_records,
    print_rows,
    say,
    say_beside,
    say_table,
)
from pgflash.cli.screen import Screen, patiently
from pgflash.errors import PgflashError
from pgflash.model.awr import ReportTable, Unit
from pgflash.model.moments import print_moment
from pgflash.model.plan import Move, MoveKind, MoveState, Plan
from pgflash.model.words import between, things
from pgflash.trusted import user_name

_LOOK_FIRST = "Confirm with --yes, or use --dry-run first."

_FILE = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))

_COLUMNS = ("kind", "name", "database", "to", "was", "bytes", "state", "step", "seconds", "message")


_Command = TypeVar("_Command", bound=Callable[..., Any])


def restart_options(command: _Command) -> _Command:
    """Add the options that say how a server is stopped and started."""
    stop = click.option(
        "--stop-command", default="", help="Shell command that stops the server (default: pg_ctl)."
    )
    start = click.option(
        "--start-command", default="", help="Shell command that starts it; give both or none."
    )
    return stop(start(command))


@click.group("plan", epilog=examples("pgflash plan show plan.json"))
def plan() -> None:
    """Show, apply or undo a plan of pgflash advise or pgflash place."""


@plan.command("show", epilog=examples("pgflash plan show plan.json", "pgflash plan show"))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@form_option("Output format.")
@paged_option
def show(*, file: Path | None, form: str) -> None:
    """Show a plan and its progress, or list all plans.

    Without FILE, the plans are listed.
    """
    if file is None:
        _list(form)
        return
    found = api.plan_show(file)
    records = [_record(found, index) for index in range(len(found.moves))]
    if form == "json":
        print_json({"plan": found.id, "moves": records})
    elif form == "csv":
        print_records(_COLUMNS, records)
    else:
        _print_plan(found)
        _print_commands(found)


@plan.command(
    "apply",
    epilog=examples(
        "pgflash plan apply plan.json",
        "pgflash plan apply plan.json --stop-command 'systemctl stop postgresql' \\\n"
        "    --start-command 'systemctl start postgresql'",
    ),
)
@_FILE
@dsn_option()
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--room-is-there", is_flag=True, help="Do not check free space.")
@restart_options
def apply(
    *, file: Path, dsn: str | None, dry_run: bool, yes: bool, room_is_there: bool, **restart: str
) -> None:
    """Make the moves of a plan, or resume them.

    Moves that are made are left alone. Shows the commands that it would run, and asks for
    confirmation. A plan that other users may write is refused.
    """
    found = api.plan_restart_by(api.plan_read(file), **restart)
    if dry_run:
        show_looks(found, dsn)
        return
    if agree(found, dsn, yes=yes):
        carry_out(file, found, dsn, room_is_there=room_is_there)


@plan.command("undo", epilog=examples("pgflash plan undo plan.json"))
@_FILE
@dsn_option()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--room-is-there", is_flag=True, help="Do not check free space.")
@restart_options
def undo(*, file: Path, dsn: str | None, yes: bool, room_is_there: bool, **restart: str) -> None:
    """Undo the moves that were made or begun, the last one first.

    Shows the commands that it would run, and asks for confirmation.  A plan that other users may
    write is refused.
    """
    found = api.plan_restart_by(api.plan_read(file), **restart)
    _print_plan(found)
    if any(move.kind is MoveKind.WAL for move in found.moves):
        say("Note: to move the WAL back, the server is restarted.")
    _print_commands(found)
    if not yes and not confirm("Undo the moves?"):
        return
    with Screen() as screen:
        api.plan_undo(file, found, dsn=dsn, room_is_there=room_is_there, listener=screen)


# ---- used by pgflash place, too


def show_looks(found: Plan, dsn: str | None) -> tuple[api.Seen, ...]:
    """Print what each move would mean; raise the reason of the first that is refused."""
    with patiently("checking the moves"):
        seen = api.plan_look(found, dsn=dsn)
    columns = (
        text("what", "what"),
        text("here", "from"),
        text("there", "to"),
        figure("bytes", "size", Unit.BYTES),
        text("takes", "takes"),
    )
    rows = (
        row(
            _what(one.move),
            one.look.here,
            one.look.there,
            one.look.bytes,
            _takes(one),
        )
        for one in seen
        if one.look is not None
    )
    say_table(ReportTable(id="looks", title="Moves", columns=columns, rows=tuple(rows)))
    for line in _remarks(seen):
        say(line)
    _print_commands(found)
    for one in seen:
        if one.refused is not None:
            raise one.refused
    return seen


def _remarks(seen: tuple[api.Seen, ...]) -> list[str]:
    """Return what is to be said of locks, speeds and risks, each once."""
    looks = [one.look for one in seen if one.look is not None and _is_to_move(one)]
    locks = dict.fromkeys(f"Lock: {look.lock}" for look in looks)
    speeds = dict.fromkeys(
        f"Speed: {look.estimate.basis}; waiting for locks comes on top."
        for look in looks
        if look.estimate.basis
    )
    warnings = dict.fromkeys(f"Note: {text}" for look in looks for text in look.warnings)
    skipped = [
        f"Note: {one.move.title} is skipped: it was {'dropped' if one.is_gone else 'moved before'}."
        for one in seen
        if one.is_gone or (one.record.state is MoveState.DONE and not one.is_there)
    ]
    return [*locks, *speeds, *warnings, *skipped]


def _is_to_move(one: api.Seen) -> bool:
    """Say whether an object is not where it was to go, and this plan has not moved it before."""
    return not (one.is_gone or one.is_there or one.record.state is MoveState.DONE)


def _takes(one: api.Seen) -> str:
    """Say how long a move takes; one that was interrupted may have to clean up."""
    if one.is_there:
        return "to be finished" if one.record.is_begun else "already there"
    if not _is_to_move(one):
        return "moved before"
    assert one.look is not None
    return between(one.look.estimate.least_s, one.look.estimate.most_s)


def _print_commands(found: Plan) -> None:
    """Say which commands of the plan would be run, and as whom, before anybody agrees to it."""
    for what, one in api.plan_commands(found):
        if what == "archive":
            say(f"Sets archive_command, which the server runs: {one}")
        elif what == "programs":
            say(f"Runs as the server's user: {one}")
        else:
            say(f"Runs as {user_name(os.geteuid())} to {what} the server: {one}")


def agree(found: Plan, dsn: str | None, *, yes: bool) -> bool:
    """Show what would be done, and ask."""
    if api.plan_is_down(found, dsn=dsn):
        # It cannot be asked what a move would mean.
        _print_plan(found)
        say("Note: the server is down because a move of the WAL was interrupted; it is started.")
        _print_commands(found)
        return yes or confirm("Go on?", hint=_LOOK_FIRST)
    seen = show_looks(found, dsn)
    if not any(_is_to_move(one) or one.record.is_begun for one in seen):
        say("There is nothing to do.")
        return False
    return yes or confirm("Do it?", hint=_LOOK_FIRST)


def carry_out(path: Path, found: Plan, dsn: str | None, *, room_is_there: bool) -> None:
    """Carry out a plan, and say how to resume it or undo it."""
    with Screen() as screen:
        try:
            api.plan_apply(path, found, dsn=dsn, room_is_there=room_is_there, listener=screen)
        except (PgflashError, KeyboardInterrupt):
            screen.note(f"To resume it: pgflash plan apply {path}")
            screen.note(f"To undo it:   pgflash plan undo {path}")
            raise
    say(f"Done. To undo it: pgflash plan undo {path}")


def _what(move: Move) -> str:
    return " ".join(filter(None, (move.kind.value, move.name)))


def _record(found: Plan, index: int) -> dict[str, object]:
    move, record = found.moves[index], found.records[index]
    return {
        "kind": move.kind.value,
        "name": move.name,
        "database": move.database,
        "to": move.to,
        "was": record.was,
        "bytes": move.bytes,
        "state": record.state.value,
        "step": record.step,
        "seconds": round(record.seconds, 1),
        "message": record.message,
    }


def _print_plan(found: Plan) -> None:
    columns = (
        text("state", "state"),
        text("what", "what"),
        text("was", "from"),
        text("to", "to"),
        figure("bytes", "size", Unit.BYTES),
        figure("seconds", "took", Unit.SECONDS),
        text("message", ""),
    )
    rows = (
        row(
            record.state.value,
            _what(move),
            record.was,
            move.to,
            move.bytes,
            record.seconds or None,
            record.message or record.step or move.why,
        )
        for move, record in zip(found.moves, found.records, strict=True)
    )
    say_table(
        ReportTable(id="plan", title="Moves", columns=columns, rows=tuple(rows), key=("what",))
    )


def _list(form: str) -> None:
    """List the plans that nobody named a file for."""
    paths = sorted(api.plan_folder().glob("*.json"))
    if not paths and form == "table":
        say(f"There are no plans in {api.plan_folder()}.")
        return
    rows = [_listed(path) for path in paths]
    if form != "table":
        print_rows(form, ("file", "made_at", "moves", "states"), rows)
        return
    for file, when, moves, states in rows:  # not in columns: the path is to be copied
        said = f"{things(int(moves), 'move')}, {states}" if moves else states
        say_beside(file, "  ".join(filter(None, (when, said))))


def _listed(path: Path) -> tuple[str, ...]:
    try:
        found = api.plan_show(path)
    except PgflashError as error:
        return (str(path), "", "", error.message)
    states = dict.fromkeys(record.state.value for record in found.records)
    return (str(path), print_moment(found.made_at), str(len(found.moves)), ", ".join(states))
