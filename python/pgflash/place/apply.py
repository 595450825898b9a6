# SPDX-License-Identifier: PostgreSQL
"""Carry out a plan, or take it back.

Moves are made in their order and taken back in the opposite one.  The first that fails
ends it; what was done stays done, and the same command goes on from there.  A move that is
found begun ("doing") was cut off: it is gone on with whatever the server shows, since every
mover begins by looking.  What is there already is done by doing nothing, and its undo, too.

All moves are looked at before the first is made: a plan whose third move is refused has
not stopped a server for its first.  Room is looked at once for all that goes to one
tablespace.
"""

import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from pgflash.errors import PgflashError
from pgflash.model.plan import Move, MoveKind, MoveState, Plan, PlanError, Record
from pgflash.place import files
from pgflash.place.archive import ArchiveMover
from pgflash.place.cluster import Cluster, try_cluster
from pgflash.place.database import DatabaseMover
from pgflash.place.errors import PlaceError
from pgflash.place.journal import Journal, only_one
from pgflash.place.keep import KeepMover
from pgflash.place.mover import Look, Mover
from pgflash.place.objects import RelationMover
from pgflash.place.planner import expanded
from pgflash.place.tablespaces import find_tablespace
from pgflash.place.temp import TempMover
from pgflash.place.wal import WalMover
from pgflash.session import connect

#: A move in one of these states is not over.
_BEGUN = {MoveState.DOING, MoveState.UNDOING}
#: What an apply has to do, and what an undo has.
_TO_APPLY = {
    MoveState.PLANNED,
    MoveState.DOING,
    MoveState.FAILED,
    MoveState.UNDONE,
    MoveState.UNDOING,
}
_TO_UNDO = {MoveState.DONE, MoveState.DOING, MoveState.FAILED, MoveState.UNDOING}

_RELATIONS = {MoveKind.TABLE, MoveKind.INDEX, MoveKind.DATABASE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A move, what is known of it, and what it would mean now; or why it must not be."""

    move: Move
    record: Record
    look: Look | None
    refused: PgflashError | None = None


def look_at(plan: Plan, dsn: str) -> tuple[Seen, ...]:
    """Say what every move that is not done would mean."""
    with Cluster(dsn) as cluster:
        _refuse_other_cluster(plan, cluster)
        plan = expanded(plan, cluster)
        return tuple(_look(plan, index, dsn, cluster) for index in range(len(plan.moves)))


def apply_plan(journal: Journal, dsn: str, *, room_is_there: bool = False) -> None:
    """Make the moves of a plan that are not made yet."""
    with only_one(journal.path):
        _go_on_from_down(journal, dsn)
        with Cluster(dsn) as cluster:
            _adopt(journal, cluster)
            journal.keep(expanded(journal.plan, cluster))
            _refuse_what_is_refused(journal.plan, dsn, cluster)
            goals = {
                index: journal.plan.moves[index].to
                for index, record in enumerate(journal.plan.records)
                if record.state in _TO_APPLY
            }
            if not room_is_there:
                _need_room(journal.plan, cluster, goals)
            _note_places(journal, dsn, cluster)
            for index, record in enumerate(journal.plan.records):
                if record.state in _TO_APPLY:
                    mover = mover_of(journal.plan, index, dsn, cluster)
                    _run(journal, index, mover, undo=False)


def undo_plan(journal: Journal, dsn: str, *, room_is_there: bool = False) -> None:
    """Take back the moves of a plan that were made or begun, the last one first."""
    with only_one(journal.path):
        _go_on_from_down(journal, dsn)
        with Cluster(dsn) as cluster:
            _adopt(journal, cluster)
            goals = {
                index: record.was
                for index, record in enumerate(journal.plan.records)
                if record.state in _TO_UNDO and record.was
            }
            if not room_is_there:
                _need_room(journal.plan, cluster, goals)
            for index in reversed(sorted(goals)):
                _run(journal, index, mover_of(journal.plan, index, dsn, cluster), undo=True)


def mover_of(plan: Plan, index: int, dsn: str, cluster: Cluster) -> Mover:
    """Return who makes a move."""
    move = plan.moves[index]
    match move.kind:
        case MoveKind.WAL:
            if not cluster.is_local:
                raise PlaceError(
                    "the server runs on another machine",
                    hint="Run pgflash on the server's machine, as the server's user or as root.",
                )
            return WalMover(dsn, cluster, move, cluster.data_directory())
        case MoveKind.TEMP:
            return TempMover(cluster, move)
        case MoveKind.ARCHIVE:
            return ArchiveMover(cluster, move)
        case MoveKind.DATABASE:
            return DatabaseMover(cluster, move)
        case MoveKind.KEEP:
            return KeepMover(cluster, move)
        case MoveKind.TABLE:
            return RelationMover(cluster, move, with_indexes=_indexes_follow(plan, index, cluster))
        case MoveKind.INDEX:
            return RelationMover(cluster, move)


def _indexes_follow(plan: Plan, index: int, cluster: Cluster) -> bool:
    """Say whether all of a table's indexes go where it goes: then pg_repack takes them along."""
    move = plan.moves[index]
    following = {
        other.name
        for other in plan.moves[index + 1 :]
        if other.kind is MoveKind.INDEX and (other.to, other.database) == (move.to, move.database)
    }
    rows = cluster.rows(
        "select n.nspname || '.' || c.relname from pg_index i join pg_class c on c.oid = "
        "i.indexrelid join pg_namespace n on n.oid = c.relnamespace where i.indrelid = (select "
        "t.oid from pg_class t join pg_namespace s on s.oid = t.relnamespace where s.nspname || "
        "'.' || t.relname = %s)",
        move.name,
        database=move.database,
    )
    return bool(rows) and {name for (name,) in rows} <= following


# ---- one move


def _run(journal: Journal, index: int, mover: Mover, *, undo: bool) -> None:
    """Make or take back one move, and write down how it went."""
    steps = journal.steps(index)
    record = steps.record
    title = journal.plan.moves[index].title
    place = record.was if undo else mover.target()
    begun = record.state in _BEGUN or record.state is MoveState.FAILED
    steps.put(state=MoveState.UNDOING if undo else MoveState.DOING, message="")
    start = time.monotonic()
    try:
        if begun or mover.here() != place:
            mover.go(place, steps)
            journal.listener.say(f"{'undone' if undo else 'done'}: {title}")
        else:
            journal.listener.say(f"nothing to do: {title}")
    except PgflashError as error:
        steps.put(state=MoveState.FAILED, message=error.message, seconds=time.monotonic() - start)
        raise
    except KeyboardInterrupt:
        steps.put(message="stopped; the same command goes on with it")
        raise
    steps.put(
        state=MoveState.UNDONE if undo else MoveState.DONE,
        step="",
        message="",
        seconds=time.monotonic() - start,
    )


# ---- before the first move


def _note_places(journal: Journal, dsn: str, cluster: Cluster) -> None:
    """Write down where everything is, before anything moves: pg_repack takes indexes along."""
    plan = journal.plan
    for index, record in enumerate(plan.records):
        if record.state in _TO_APPLY and not record.was:
            was = mover_of(plan, index, dsn, cluster).here()
            plan = plan.with_record(index, replace(record, was=was))
    if plan != journal.plan:
        journal.keep(plan)


def _look(plan: Plan, index: int, dsn: str, cluster: Cluster) -> Seen:
    move, record = plan.moves[index], plan.records[index]
    try:
        look = mover_of(plan, index, dsn, cluster).look()
    except PgflashError as error:
        return Seen(move=move, record=record, look=None, refused=error)
    return Seen(move=move, record=record, look=look)


def _refuse_what_is_refused(plan: Plan, dsn: str, cluster: Cluster) -> None:
    """Raise the first reason why a move that is not begun must not be made."""
    for index, record in enumerate(plan.records):
        if record.state in {MoveState.PLANNED, MoveState.UNDONE}:
            mover_of(plan, index, dsn, cluster).refuse()


def _need_room(plan: Plan, cluster: Cluster, goals: dict[int, str]) -> None:
    """Refuse a plan whose relations do not fit into where they go."""
    wanted: Counter[str] = Counter()
    for index, goal in goals.items():
        if plan.moves[index].kind in _RELATIONS:
            look = mover_of(plan, index, "", cluster).look()
            if look.here != goal and not (look.is_there and goal == plan.moves[index].to):
                wanted[goal] += look.bytes
    for goal, total_bytes in wanted.items():
        known = find_tablespace(cluster, goal)
        if known is None:
            files.need_room(Path(goal), total_bytes, f"what goes to {goal}")
        else:
            cluster.need_room(known, total_bytes, f"what goes to {goal}")


def _adopt(journal: Journal, cluster: Cluster) -> None:
    """See that the plan is for this cluster, or make it so if it was for none yet."""
    plan = journal.plan
    _refuse_other_cluster(plan, cluster)
    local = cluster.is_local and cluster.setting_or_none("data_directory")
    complete = replace(
        plan,
        system_identifier=cluster.system_identifier,
        data_directory=plan.data_directory or local or "",
    )
    if complete != plan:
        journal.keep(complete)


def _refuse_other_cluster(plan: Plan, cluster: Cluster) -> None:
    if plan.system_identifier not in {"", cluster.system_identifier}:
        raise PlanError(
            f"the plan is for another cluster ({plan.system_identifier}, this one is "
            f"{cluster.system_identifier})",
            hint="Name the right server with --dsn.",
        )


def _go_on_from_down(journal: Journal, dsn: str) -> None:
    """Start a server that a WAL move of this plan had stopped when it was killed."""
    stopped = _stopped(journal.plan)
    if not journal.plan.data_directory or not stopped:
        return
    cluster = try_cluster(dsn)
    if cluster is not None:
        cluster.close()
        return
    for index in stopped:
        mover = WalMover(dsn, None, journal.plan.moves[index], Path(journal.plan.data_directory))
        mover.bring_up(journal.steps(index))
    connect(dsn).close()


def _stopped(plan: Plan) -> list[int]:
    """Return the WAL moves that may have stopped the server."""
    return [
        index
        for index, record in enumerate(plan.records)
        if plan.moves[index].kind is MoveKind.WAL and "startup" in record.notes
    ]
