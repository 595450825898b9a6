# SPDX-License-Identifier: PostgreSQL
"""Moves to another device: each place_...() makes a plan, plan_apply() makes the moves.

plan = place_table("public.stock", "flash", dsn="dbname=app")
plan_look(plan, dsn="dbname=app")          # what each move would mean, or why it is refused
path = plan_keep(plan)
plan_apply(path, dsn="dbname=app")         # and plan_undo()

Whatever is cut off wherever, plan_apply() of the same file goes on.  All raise PlaceError if
the server, its machine or a rule of safety refuses.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from pgflash.errors import UsageError
from pgflash.model.plan import Move, MoveKind, Plan
from pgflash.place import (
    Cluster,
    Journal,
    Listener,
    Seen,
    Startup,
    apply_plan,
    is_down,
    look_at,
    moves_for,
    plan_for,
    undo_plan,
)
from pgflash.place.journal import read_own_plan, read_plan, write_plan
from pgflash.trusted import ChangeableError, make_folders


def place_wal(
    to: Path | str, *, dsn: str | None = None, stop_command: str = "", start_command: str = ""
) -> Plan:
    """Plan to move pg_wal to a folder, for which the server is stopped and started again.

    By pg_ctl, or by two commands of the shell.  On the server's machine only.
    """
    if bool(stop_command) != bool(start_command):
        raise UsageError("--stop-command and --start-command go together")
    options = {"stop_command": stop_command, "start_command": start_command}
    return _plan(dsn, MoveKind.WAL, _folder(to), options=options)


def place_temp(to: str, *, dsn: str | None = None) -> Plan:
    """Plan to let sorts and hashes spill to a tablespace, or to a folder that becomes one."""
    return _plan(dsn, MoveKind.TEMP, to)


def place_archive(
    to: Path | str, *, dsn: str | None = None, leave_old: bool = False, command: str = ""
) -> Plan:
    """Plan to archive WAL to another folder; what is archived is copied unless LEAVE_OLD.

    COMMAND is the new archive_command, where it cannot be told from the present one.
    """
    options = {"copy": "no" if leave_old else "", "command": command}
    return _plan(dsn, MoveKind.ARCHIVE, _folder(to), options=options)


def place_table(
    name: str,
    to: str,
    *,
    dsn: str | None = None,
    indexes: bool = True,
    method: str = "auto",
    patience_s: float = 600,
) -> Plan:
    """Plan to move a table or materialized view to a tablespace, or to a folder.

    METHOD is auto, repack or alter.  A lock, where one is needed, is tried for PATIENCE_S
    seconds.
    """
    options = {"indexes": "" if indexes else "no", "method": method}
    return _plan(dsn, MoveKind.TABLE, to, name=name, options=options, patience_s=patience_s)


def place_index(name: str, to: str, *, dsn: str | None = None, patience_s: float = 600) -> Plan:
    """Plan to move an index by REINDEX CONCURRENTLY, trying for PATIENCE_S seconds for locks."""
    return _plan(dsn, MoveKind.INDEX, to, name=name, patience_s=patience_s)


def place_database(
    name: str,
    to: str,
    *,
    dsn: str | None = None,
    offline: bool = False,
    method: str = "auto",
    patience_s: float = 600,
) -> Plan:
    """Plan to move a database, object by object as place_table() does.

    OFFLINE: all at once, while nobody is connected to it.
    """
    if offline:
        return _plan(dsn, MoveKind.DATABASE, to, name=name, options={"offline": "yes"})
    options = {"method": method}
    return _plan(dsn, MoveKind.DATABASE, to, name=name, options=options, patience_s=patience_s)


def plan_show(path: Path) -> Plan:
    """Return the plan that a file holds, with how far each move has come."""
    return read_plan(path)


def plan_read(path: Path) -> Plan:
    """Return a plan to be carried out; PlanError if anybody else may have written the file."""
    return read_own_plan(path)


def plan_look(plan: Plan, *, dsn: str | None = None) -> tuple[Seen, ...]:
    """Return what each move would mean, in bytes and seconds, or why it is refused."""
    return look_at(plan, dsn or "")


def plan_is_down(plan: Plan, *, dsn: str | None = None) -> bool:
    """Tell whether the server is down since a move of its WAL was cut off."""
    return is_down(plan, dsn or "")


def plan_commands(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Return the commands that a plan would run, each after what it does: stop, start, archive.

    Those to stop and start are run as the user of this process, archive is run by the server.
    """
    found: list[tuple[str, str]] = []
    for move, record in zip(plan.moves, plan.records, strict=True):
        startup = Startup.from_json(noted) if (noted := record.notes.get("startup")) else None
        for what in ("stop", "start"):
            commands = {move.options.get(f"{what}_command", "")}
            commands |= {getattr(startup, f"{what}_command")} if startup else set()
            found += [(what, one) for one in commands if one]
        if move.kind is MoveKind.ARCHIVE and (command := move.options.get("command")):
            found.append(("archive", command))
    return tuple(dict.fromkeys(found))


def plan_folder() -> Path:
    """Return where plans are kept that nobody named a file for."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "pgflash" / "plans"


def plan_keep(plan: Plan, path: Path | None = None) -> Path:
    """Write a plan to a file that is not there yet, and return it; else to one in plan_folder()."""
    path = path or plan_folder() / f"{plan.id}.json"
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
    return path


def plan_apply(
    path: Path,
    plan: Plan | None = None,
    *,
    dsn: str | None = None,
    room_is_there: bool = False,
    listener: Listener | None = None,
) -> Plan:
    """Make the moves of a plan that are not made yet; return it with what has come of them.

    PLAN is what somebody looked at and agreed to; else what the file holds.  With ROOM_IS_THERE
    free space is not asked for.  LISTENER hears of each step.
    """
    journal = Journal(path, plan or read_own_plan(path), listener)
    apply_plan(journal, dsn or "", room_is_there=room_is_there)
    return journal.plan


def plan_undo(
    path: Path,
    plan: Plan | None = None,
    *,
    dsn: str | None = None,
    room_is_there: bool = False,
    listener: Listener | None = None,
) -> Plan:
    """Take back the moves of a plan that were made or begun, the last one first; return it."""
    journal = Journal(path, plan or read_own_plan(path), listener)
    undo_plan(journal, dsn or "", room_is_there=room_is_there)
    return journal.plan


def _plan(
    dsn: str | None,
    kind: MoveKind,
    to: str,
    *,
    name: str = "",
    options: Mapping[str, str] | None = None,
    patience_s: float | None = None,
) -> Plan:
    """Return the plan of one thing that is moved; options without a value are left out."""
    given = {key: value for key, value in (options or {}).items() if value}
    if patience_s is not None:
        given["patience_s"] = f"{patience_s:g}"
    now = datetime.now(UTC)
    with Cluster(dsn or "") as cluster:
        moves = moves_for(cluster, Move(kind=kind, to=to, name=name, options=given))
        return plan_for(cluster, moves, id=f"{now:%Y%m%d-%H%M%S}-{kind}", now=now)


def _folder(to: Path | str) -> str:
    """Return a folder as an absolute path."""
    if not to or to == Path():
        raise UsageError("--on names no folder", hint="Perhaps a variable of the shell is not set.")
    return os.path.abspath(to)  # noqa: PTH100 - links are followed later, by the server's rules
