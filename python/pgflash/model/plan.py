# SPDX-License-Identifier: PostgreSQL
"""A plan: what to move where, and the progress of each move.

plan = make_plan(
    [Move(kind=MoveKind.TABLE, name="public.stock", database="app", to="flash", bytes=6 << 30)],
    system_identifier=identifier, made_at=now, id="20261122-101500")

A Move says what to do; it never changes.  Its Record says what has happened: where the object was
before, which is the target of an undo; the step that the move is at or was stopped at; and the last
message about it.  It is kept in a JSON file, which place/journal.py reads and writes.  The file
alone is never trusted: a process that continues a plan first looks at what the server really has.

A plan contains no password.  It may contain the environment that the server was started with (notes
of a WAL move that stopped it), so only its owner may read the file.  And it contains commands that
will be run by the user who applies it, so only that user and root may be able to write it.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from pgflash.errors import PgflashError
from pgflash.model.typed_json import indented, parsed

FORMAT = 1


class PlanError(PgflashError):
    """A plan cannot be read or written, or is not for this server."""


class MoveKind(enum.StrEnum):
    """The kind of object that is moved."""

    #: pg_wal; to a folder; the server is stopped and started.
    WAL = "wal"
    #: Temporary files; to a tablespace, by temp_tablespaces.
    TEMP = "temp"
    #: The archive folder; to a folder, by archive_command.
    ARCHIVE = "archive"
    #: A table or materialized view and its TOAST table, without its indexes.
    TABLE = "table"
    INDEX = "index"
    #: A whole database at once, while no session is connected to it.
    DATABASE = "database"
    #: Not a move but the flash cache's policy for a relation; `to` is the policy.
    KEEP = "keep"


class MoveState(enum.StrEnum):
    """The state of a move."""

    PLANNED = "planned"
    #: Begun, and not known to be over: a killed move stays in this state.
    DOING = "doing"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"
    #: Given up, with the reason as its message; nothing half done is in use.
    FAILED = "failed"
    #: Its object was dropped meanwhile; if there is one again, it is moved.
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One thing to be moved."""

    kind: MoveKind
    #: A tablespace, or a folder if it begins with "/"; for KEEP the policy.
    to: str
    #: For a relation "schema.name", for a database its name; otherwise empty.
    name: str = ""
    #: The database that holds the relation; empty: the one we are connected to.
    database: str = ""
    #: The size to be moved when the plan was made.
    bytes: int = 0
    #: The reason, in one sentence.
    why: str = ""
    #: How to make the move, if there is a choice; docs/guide/placement.md names the options.
    options: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name that people use: "table public.stock to flash"."""
        return " ".join(word for word in (self.kind.value, self.name, "to", self.to) if word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What has happened to a move."""

    state: MoveState = MoveState.PLANNED
    #: Where it was before: a tablespace, a folder, a setting; empty while not yet known.
    was: str = ""
    #: The step it is at, or was stopped at.
    step: str = ""
    #: The last message about it.
    message: str = ""
    #: How long it took.
    seconds: float = 0.0
    #: What a move needs to continue after a kill.
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def is_begun(self) -> bool:
        """Whether it was begun and is not over, wherever its object is by now."""
        return self.state in {MoveState.DOING, MoveState.UNDOING, MoveState.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Moves in the order they are made, with a record of each."""

    id: str
    #: The identifier of the plan's cluster; empty if its author did not know it: then the first
    #: server it is applied to.
    system_identifier: str
    made_at: datetime
    moves: tuple[Move, ...]
    records: tuple[Record, ...]
    #: Where the cluster lives, once known: needed to continue while no server answers.
    data_directory: str = ""
    format: int = FORMAT

    def with_record(self, index: int, record: Record) -> "Plan":
        """Return the plan with another record of one move."""
        records = (*self.records[:index], record, *self.records[index + 1 :])
        return replace(self, records=records)


def make_plan(
    moves: Iterable[Move],
    *,
    id: str,
    system_identifier: str,
    made_at: datetime,
    data_directory: str = "",
) -> Plan:
    """Return a new plan, of which nothing has been done."""
    all_moves = tuple(moves)
    return Plan(
        id=id,
        system_identifier=system_identifier,
        made_at=made_at,
        moves=all_moves,
        records=(Record(),) * len(all_moves),
        data_directory=data_directory,
    )


def plan_to_json(plan: Plan) -> bytes:
    """Return the plan as indented JSON."""
    return indented(plan)


def plan_from_json(text: bytes, *, name: str) -> Plan:
    """Parse a plan; NAME is the file's name in errors."""
    plan = parsed(
        text,
        Plan,
        name=name,
        noun="plan",
        error=PlanError,
        hint="Name a file that 'pgflash advise --plan' or 'pgflash place' wrote.",
    )
    if plan.format != FORMAT:
        raise PlanError(
            f'"{name}" has format {plan.format}; this version reads format {FORMAT}.',
            hint="Use the version of pgflash that made it.",
        )
    if len(plan.moves) != len(plan.records):
        raise PlanError(f'"{name}" has {len(plan.moves)} moves and {len(plan.records)} records')
    return plan
