# SPDX-License-Identifier: PostgreSQL
"""Moves to another device: each place_...() makes a plan, plan_apply() makes the moves.

plan = place_table("public.stock", "flash", dsn="dbname=app")
plan_look(plan, dsn="dbname=app")          # what each move would mean, or why it is refused
path = plan_keep(plan)
plan_apply(path, dsn="dbname=app")         # and plan_undo()

After any interruption, plan_apply() of the same file continues.  All functions raise PlaceError if
the server, its machine or a safety rule refuses.
"""

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pgflash.errors import UsageError
from pgflash.model.plan import Move, MoveKind, Plan
from pgflash.place import (
    Cluster,
    Journal,
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
from pgflash.progress import Listener
from pgflash.trusted import ChangeableError, make_folders


def place_wal(
    to: Path | str, *, dsn: str | None = None, stop_command: str = "", start_command: str = ""
) -> Plan:
    """Plan to move pg_wal to a folder; the server is stopped and started again for it.

    This uses pg_ctl, or two commands of the shell.  Only on the server's machine.
    """
    return _plan(dsn, MoveKind.WAL, _folder(to), options=_commands(stop_command, start_command))


def place_temp(to: str, *, dsn: str | None = None) -> Plan:
    """Plan to let sorts and hashes spill to a tablespace, or to a folder that becomes one."""
    return _plan(dsn, MoveKind.TEMP, to)


def place_archive(
    to: Path | str, *, dsn: str | None = None, leave_old: bool = False, command: str = ""
) -> Plan:
    """Plan to archive WAL to another folder; existing files are copied unless LEAVE_OLD.

    COMMAND is the new archive_command, if it cannot be derived from the present one.
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

    METHOD is auto, repack or alter.  If a lock is needed, attempts continue for PATIENCE_S seconds.
    """
    options = {"indexes": "" if indexes else "no", "method": method}
    return _plan(dsn, MoveKind.TABLE, to, name=name, options=options, patience_s=patience_s)


def place_index(name: str, to: str, *, dsn: str | None = None, patience_s: float = 600) -> Plan:
    """Plan to move an index by REINDEX CONCURRENTLY; attempts to lock last PATIENCE_S seconds."""
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

    OFFLINE: all at once, while no session is connected to it.
    """
    if offline:
        return _plan(dsn, MoveKind.DATABASE, to, name=name, options={"offline": "yes"})
    options = {"method": method}
    return _plan(dsn, MoveKind.DATABASE, to, name=name, options=options, patience_s=patience_s)


def plan_show(path: Path) -> Plan:
    """Return the plan in a file, with the progress of each move."""
    return read_plan(path)


def plan_read(path: Path) -> Plan:
    """Return a plan to carry out; PlanError if others may have written the file."""
    return read_own_plan(path)


def plan_look(plan: Plan, *, dsn: str | None = None) -> tuple[Seen, ...]:
    """Return what each move would mean, in bytes and seconds, or why it is refused."""
    return look_at(plan, dsn or "")


def plan_is_down(plan: Plan, *, dsn: str | None = None) -> bool:
    """Tell whether the server has been down since a move of its WAL was interrupted."""
    return is_down(plan, dsn or "")


def plan_commands(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Return a plan's commands, each after its purpose: stop, start, programs, archive.

    The commands to stop and start run as the user of this process; the server runs archive.
    Programs is the pg_ctl of a server that a move has stopped; it runs as the owner of the server.
    """
    found: list[tuple[str, str]] = []
    for move, record in zip(plan.moves, plan.records, strict=True):
        startup = Startup.from_json(noted) if (noted := record.notes.get("startup")) else None
        for what in ("stop", "start"):
            noted = getattr(startup, f"{what}_command") if startup else ""
            if command := move.options.get(f"{what}_command") or noted:
                found.append((what, command))
        if startup:
            loaded = [f"{k}={v}" for k, v in startup.environment.items() if k.startswith("LD_")]
            found.append(("programs", shlex.join([*loaded, f"{startup.bindir}/pg_ctl"])))
        if move.kind is MoveKind.ARCHIVE and (command := move.options.get("command")):
            found.append(("archive", command))
    return tuple(dict.fromkeys(found))


def plan_restart_by(plan: Plan, *, stop_command: str, start_command: str) -> Plan:
    """Return a plan whose moves of the WAL stop and start the server by these commands.

    Without commands the plan is unchanged.  UsageError if only one is given, or no WAL moves.
    """
    options = {key: one for key, one in _commands(stop_command, start_command).items() if one}
    if not options:
        return plan
    if all(move.kind is not MoveKind.WAL for move in plan.moves):
        raise UsageError("--stop-command and --start-command are for moves of the WAL only")
    moves = (
        replace(move, options={**move.options, **options}) if move.kind is MoveKind.WAL else move
        for move in plan.moves
    )
    return replace(plan, moves=tuple(moves))


def plan_folder() -> Path:
    """Return the default folder of plans; UsageError if this user has no home directory."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    try:
        return Path(base).expanduser() / "pgflash" / "plans"
    except RuntimeError as error:
        raise UsageError(
            "this user has no home directory, where plans are kept",
            hint="Name a file that records the moves: --plan FILE; or set XDG_STATE_HOME.",
        ) from error


def plan_keep(plan: Plan, path: Path | None = None) -> Path:
    """Write a plan to a new file, by default in plan_folder(), and return its path."""
    path = path or plan_folder() / f"{plan.id}.json"
    if path.exists():
        raise UsageError(f"{path} exists", hint="Name another file, or apply it: plan apply.")
    try:
        make_folders(path.parent)
    except (OSError, ChangeableError) as error:
        raise UsageError(
            f"could not make {path.parent}: {getattr(error, 'strerror', error.args[0])}",
            hint="Name a file that records the moves: --plan FILE.",
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
    """Make the remaining moves of a plan; return it with the results.

    PLAN is the plan that the user has seen and agreed to; by default the file's.  With
    ROOM_IS_THERE, free space is not checked.  LISTENER is told of each step.
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
    """Undo the moves of a plan that were made or begun, the last one first; return it."""
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
    """Return a plan for one object; options without a value are left out."""
    given = {key: value for key, value in (options or {}).items() if value}
    if patience_s is not None:
        whole = int(patience_s)
        given["patience_s"] = str(whole if whole == patience_s else round(patience_s, 3))
    now = datetime.now(UTC)
    with Cluster(dsn or "") as cluster:
        moves = moves_for(cluster, Move(kind=kind, to=to, name=name, options=given))
        return plan_for(cluster, moves, id=f"{now:%Y%m%d-%H%M%S}-{kind}", now=now)


def _commands(stop_command: str, start_command: str) -> dict[str, str]:
    """Return the commands of a restart as options of a move: both or none."""
    if bool(stop_command) != bool(start_command):
        raise UsageError("--stop-command and --start-command go together")
    return {"stop_command": stop_command, "start_command": start_command}


def _folder(to: Path | str) -> str:
    """Return a folder as an absolute path."""
    if not to or to == Path():
        raise UsageError("--on names no folder", hint="Perhaps a variable of the shell is not set.")
    if isinstance(to, str) and "/" not in to:
        raise UsageError(
            f'--on must name a folder, and "{to}" has no "/"',
            hint="WAL and its archive cannot be in a tablespace. Name the folder by its path, such "
            f"as /flash/wal or ./{to}.",
        )
    return os.path.abspath(to)  # noqa: PTH100 - links are followed later, by the server's rules
