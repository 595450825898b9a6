# SPDX-License-Identifier: PostgreSQL
"""Apply a plan, or undo it.

Moves are made in order and undone in the opposite order.  The first failure ends the run; completed
moves stay, and the same command continues from there.  A move whose state is still "doing" was
interrupted: it continues from whatever the server shows, since every mover begins by looking.  If a
thing is already where it should be, making or undoing its move does nothing.

All moves are checked before the first is made, so that no server is stopped for the first move of a
plan whose third is refused.  Room is checked once for all moves to the same tablespace.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from pathlib import Path

from psycopg import pq

from pgflash.errors import PgflashError
from pgflash.model.plan import Move, MoveKind, MoveState, Plan, PlanError, Record
from pgflash.place.archive import ArchiveMover
from pgflash.place.cluster import Cluster, try_cluster
from pgflash.place.control import STOP_WAIT_S, ServerProcess
from pgflash.place.database import DatabaseMover
from pgflash.place.errors import GoneError, PlaceError
from pgflash.place.journal import Journal, only_one
from pgflash.place.keep import KeepMover
from pgflash.place.mover import Look, Mover
from pgflash.place.names import quote_name
from pgflash.place.objects import RelationMover
from pgflash.place.options import check_options
from pgflash.place.planner import expanded
from pgflash.place.relations import TABLE_KINDS, find_relation, indexes_of
from pgflash.place.tablespaces import find_tablespace
from pgflash.place.temp import TempMover
from pgflash.place.wal import WalMover
from pgflash.session import connect, parse_dsn

#: The states of moves that an apply has to make, and that an undo has to reverse.
_TO_APPLY = {
    MoveState.PLANNED,
    MoveState.DOING,
    MoveState.FAILED,
    MoveState.UNDONE,
    MoveState.UNDOING,
}
_TO_UNDO = {MoveState.DONE, MoveState.DOING, MoveState.FAILED, MoveState.UNDOING}

#: Kinds of things whose place is a tablespace.
_IN_TABLESPACES = {MoveKind.TABLE, MoveKind.INDEX, MoveKind.DATABASE}

_POLL_S = 0.1
#: How long a running server may not answer at all, not even that it is not ready.
_SILENT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A move, its record, and its effects now, or why it is refused."""

    move: Move
    record: Record
    look: Look | None = None
    refused: PgflashError | None = None
    #: It existed once and was dropped: the move will be skipped.
    is_gone: bool = False

    @property
    def is_there(self) -> bool:
        """Whether the object is where the move puts it."""
        return self.look is not None and self.look.is_there


def look_at(plan: Plan, dsn: str) -> tuple[Seen, ...]:
    """Return the effects of every move that is not done."""
    with Cluster(dsn) as cluster:
        _refuse_other_cluster(plan, cluster)
        plan = expanded(plan, cluster)
        return tuple(_look(plan, index, dsn, cluster) for index in range(len(plan.moves)))


def is_down(plan: Plan, dsn: str) -> bool:
    """Say whether the server has been down since a WAL move of this plan was interrupted."""
    if not _stopped(plan):
        return False
    cluster = try_cluster(dsn)
    if cluster is not None:
        cluster.close()
    return cluster is None


def apply_plan(journal: Journal, dsn: str, *, room_is_there: bool = False) -> None:
    """Make the moves of a plan that are not made yet."""
    with only_one(journal.path):
        journal.refuse_changed()
        _go_on_from_down(journal, dsn)
        with Cluster(dsn) as cluster:
            _adopt(journal, cluster)
            journal.keep(expanded(journal.plan, cluster))
            _find_again(journal, dsn, cluster)
            each = _Each(journal, dsn, cluster)
            each.ask(_TO_APPLY, lambda _index, mover: mover.here())
            # Before the first move is made, refuse all moves that must not be made.
            each.ask({MoveState.PLANNED, MoveState.UNDONE}, lambda _index, mover: mover.refuse())
            if not room_is_there:
                _need_room(each, cluster, _TO_APPLY, lambda index: journal.plan.moves[index].to)
            each.ask(_TO_APPLY, each.note_place)
            for index in each.of(_TO_APPLY):
                _make(journal, index, dsn, cluster, undo=False)


def undo_plan(journal: Journal, dsn: str, *, room_is_there: bool = False) -> None:
    """Undo the moves of a plan that were made or begun, the last one first."""
    with only_one(journal.path):
        journal.refuse_changed()
        _go_on_from_down(journal, dsn)
        with Cluster(dsn) as cluster:
            _adopt(journal, cluster)
            each = _Each(journal, dsn, cluster, undo=True)
            each.note_moved_along()
            each.ask(_TO_UNDO, lambda _index, mover: mover.here())
            _refuse_lost_places(each, cluster)
            if not room_is_there:
                _need_room(each, cluster, _TO_UNDO, lambda index: journal.plan.records[index].was)
            for index in reversed(each.of(_TO_UNDO)):
                if journal.plan.records[index].was:
                    _make(journal, index, dsn, cluster, undo=True)


def mover_of(plan: Plan, index: int, dsn: str, cluster: Cluster, *, undo: bool = False) -> Mover:
    """Return the mover that makes a move, or undoes it."""
    move = plan.moves[index]
    check_options(move)
    match move.kind:
        case MoveKind.WAL:
            return WalMover(dsn, cluster, move, cluster.process().data)
        case MoveKind.TEMP:
            return TempMover(cluster, move)
        case MoveKind.ARCHIVE:
            return ArchiveMover(cluster, move)
        case MoveKind.DATABASE:
            return DatabaseMover(cluster, move)
        case MoveKind.KEEP:
            return KeepMover(cluster, move)
        case MoveKind.TABLE:
            if undo:
                # Its indexes were undone before it, each to its own place.
                return RelationMover(cluster, move)
            return RelationMover(
                cluster, move, with_indexes=lambda: _indexes_follow(plan, index, cluster)
            )
        case MoveKind.INDEX:
            return RelationMover(cluster, move)


def _indexes_follow(plan: Plan, index: int, cluster: Cluster) -> bool:
    """Say whether all of a table's indexes move along with it: then pg_repack takes them, too."""
    move = plan.moves[index]
    following = {
        other.name
        for other in plan.moves[index + 1 :]
        if other.kind is MoveKind.INDEX and (other.to, other.database) == (move.to, move.database)
    }
    table = find_relation(cluster, move.name, kinds=TABLE_KINDS, database=move.database)
    names = {index.title for index in indexes_of(cluster, table)}
    return bool(names) and names <= following


# ---- one move


def _make(journal: Journal, index: int, dsn: str, cluster: Cluster, *, undo: bool) -> None:
    """Make or undo one move; skip it if its object was dropped since it was last seen."""
    try:
        _run(journal, index, mover_of(journal.plan, index, dsn, cluster, undo=undo), undo=undo)
    except GoneError:
        if not journal.plan.records[index].was:
            raise
        _set_gone(journal, index)


def _run(journal: Journal, index: int, mover: Mover, *, undo: bool) -> None:
    """Make or undo one move, and write down how it went."""
    steps = journal.steps(index)
    record = steps.record
    title = journal.plan.moves[index].title
    with _said_by_kernel(title):
        place = record.was if undo else mover.target()
    steps.put(state=MoveState.UNDOING if undo else MoveState.DOING, message="")
    start = time.monotonic()
    try:
        with _said_by_kernel(title):
            is_to_go = record.is_begun or mover.here() != place
            if is_to_go:
                mover.go(place, steps)
        how = ("undone" if undo else "done") if is_to_go else "nothing to do"
        journal.listener.note(f"{how}: {title}")
    except PgflashError as error:
        steps.put(state=MoveState.FAILED, message=error.message, seconds=time.monotonic() - start)
        raise
    except KeyboardInterrupt:
        steps.put(message="stopped; the same command resumes it")
        raise
    steps.put(
        state=MoveState.UNDONE if undo else MoveState.DONE,
        step="",
        message="",
        seconds=time.monotonic() - start,
    )


@contextlib.contextmanager
def _said_by_kernel(title: str) -> Iterator[None]:
    """Report what the kernel refused: folders may change at any time."""
    try:
        yield
    except OSError as error:
        what = f" ({error.filename})" if error.filename else ""
        raise PlaceError(
            f"could not move {title}: {error.strerror}{what}",
            hint="Find out what changes these folders, and resume with the same command.",
        ) from error


# ---- before the first move


class _Each:
    """The moves of a plan, one by one; a move whose table was dropped is skipped."""

    def __init__(self, journal: Journal, dsn: str, cluster: Cluster, *, undo: bool = False) -> None:
        self.journal = journal
        self._dsn = dsn
        self._cluster = cluster
        self._undo = undo

    def of(self, states: Set[MoveState]) -> list[int]:
        """Return the moves in some states."""
        records = self.journal.plan.records
        return [index for index, record in enumerate(records) if record.state in states]

    def ask(self, states: Set[MoveState], question: Callable[[int, Mover], object]) -> None:
        """Ask the mover of each move in some states; an object seen earlier may be gone."""
        for index in self.of(states):
            try:
                with _said_by_kernel(self.journal.plan.moves[index].title):
                    question(index, self._mover(index))
            except GoneError:
                if not self.journal.plan.records[index].was:
                    raise
                _set_gone(self.journal, index)

    def _mover(self, index: int) -> Mover:
        return mover_of(self.journal.plan, index, self._dsn, self._cluster, undo=self._undo)

    def note_moved_along(self) -> None:
        """Count indexes as begun that pg_repack took along before their own moves were made."""
        for index in self.of({MoveState.PLANNED}):
            move, record = self.journal.plan.moves[index], self.journal.plan.records[index]
            if move.kind is MoveKind.INDEX and record.was:
                with contextlib.suppress(GoneError):
                    here = self._mover(index).here()
                    if here == find_tablespace(self._cluster, move.to) != record.was:
                        self.journal.put(index, replace(record, state=MoveState.DOING))

    def note_place(self, index: int, mover: Mover) -> None:
        """Write down where an object is before anything moves: pg_repack takes indexes along.

        An earlier apply may have noted it and not come to this move, or the move was undone; since
        then the object may have been moved without us.
        """
        record = self.journal.plan.records[index]
        begins = record.state in {MoveState.PLANNED, MoveState.UNDONE}
        if not record.was or (begins and mover.here() != mover.target()):
            self.journal.put(index, replace(record, was=mover.here(), notes={}))


def _find_again(journal: Journal, dsn: str, cluster: Cluster) -> None:
    """Plan again the moves of objects that were dropped and created again."""
    for index, record in enumerate(journal.plan.records):
        if record.state is MoveState.GONE:
            with contextlib.suppress(GoneError):
                here = mover_of(journal.plan, index, dsn, cluster).here()
                journal.put(index, Record(was=here))


def _set_gone(journal: Journal, index: int) -> None:
    said = "it was dropped or renamed meanwhile"
    journal.put(index, Record(state=MoveState.GONE, message=said))
    journal.listener.note(f"skipped, because {said}: {journal.plan.moves[index].title}")


def _look(plan: Plan, index: int, dsn: str, cluster: Cluster) -> Seen:
    move, record = plan.moves[index], plan.records[index]
    try:
        with _said_by_kernel(move.title):
            look = mover_of(plan, index, dsn, cluster).look()
    except PgflashError as error:
        seen_before = bool(record.was) or record.state is MoveState.GONE
        if isinstance(error, GoneError) and seen_before:
            return Seen(move=move, record=record, is_gone=True)
        return Seen(move=move, record=record, refused=error)
    return Seen(move=move, record=record, look=look)


def _refuse_lost_places(each: _Each, cluster: Cluster) -> None:
    """Refuse an undo while a tablespace that something came from is missing."""
    known, plan = cluster.tablespaces(), each.journal.plan
    for index in each.of(_TO_UNDO):
        move, was = plan.moves[index], plan.records[index].was
        if was and move.kind in _IN_TABLESPACES and was not in known:
            raise PlaceError(
                f'{move.name} was in tablespace "{was}", which no longer exists',
                hint=f"CREATE TABLESPACE {quote_name(was)} LOCATION '...'; then undo again.",
            )


def _need_room(
    each: _Each, cluster: Cluster, states: Set[MoveState], goal: Callable[[int], str]
) -> None:
    """Refuse a plan for which there is too little room, in its destinations or for building.

    Room is counted by device: two moves that would each fit alone may fill it together.
    """
    known = cluster.tablespaces()
    stays, passes = Counter[int](), Counter[int]()
    folders: dict[int, Path] = {}

    def device_of(place: str) -> int:
        folder = cluster.tablespace_folder(place) if place in known else Path(place)
        device = cluster.device_of(folder)
        folders.setdefault(device, folder)
        return device

    def add(index: int, mover: Mover) -> None:
        if not (place := goal(index)):
            return
        room = mover.room(place)
        for name, size_bytes in room.stays.items():
            stays[device_of(name)] += size_bytes
        meanwhile = Counter[int]()
        for name, size_bytes in room.passes.items():
            meanwhile[device_of(name)] += size_bytes
        # Moves follow one another, so of their temporary needs only the largest counts.
        for device, size_bytes in meanwhile.items():
            passes[device] = max(passes[device], size_bytes)

    each.ask(states, add)
    for device, folder in folders.items():
        what = "the moved data" if stays[device] else "sorting and building there"
        if wanted := stays[device] + passes[device]:
            cluster.need_room(folder, wanted, what)


def _adopt(journal: Journal, cluster: Cluster) -> None:
    """Check that the plan is for this cluster; a plan that was for none yet becomes one for it."""
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
    data = Path(journal.plan.data_directory)
    if _answers(journal, dsn, data):
        return
    for index in stopped:
        WalMover(dsn, None, journal.plan.moves[index], data).bring_up(journal.steps(index))
    connect(dsn).close()


def _answers(journal: Journal, dsn: str, data: Path) -> bool:
    """Wait while the server is stopping or starting, then say whether it takes connections."""
    parse_dsn(dsn)
    process, begun = ServerProcess(data), time.monotonic()
    while (answer := pq.PGconn.ping(dsn.encode())) != pq.Ping.OK:
        waits_s = STOP_WAIT_S if answer == pq.Ping.REJECT else _SILENT_S
        if process.pid() is None or time.monotonic() - begun > waits_s:
            return False
        journal.listener.stage("the server is stopping or starting")
        time.sleep(_POLL_S)
    return True


def _stopped(plan: Plan) -> list[int]:
    """Return the WAL moves that may have stopped the server."""
    return [
        index
        for index, record in enumerate(plan.records)
        if plan.moves[index].kind is MoveKind.WAL and "startup" in record.notes
    ]
