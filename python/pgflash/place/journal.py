# SPDX-License-Identifier: PostgreSQL
"""Where a move stands, written down before each step; and who listens to it.

A mover calls at() before each step and note() for what it could not find out again.  Both
replace the plan's file, synced, before they return.  What a step did is never taken from
the file when a move goes on: the mover looks at the server.  Tests end the process in at()
and in beat(): that is every place at which a move can be cut off that the server or the
kernel does not make whole by itself.
"""

import contextlib
import hashlib
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Protocol, Self

from pgflash.model.plan import MoveState, Plan, PlanError, Record, write_plan


class Listener(Protocol):
    """Hears how a move comes along."""

    def say(self, text: str) -> None:
        """Take a line that stays."""
        ...

    def stage(self, text: str, total: float | None) -> None:
        """Take up a stage, and how much there is to do, in whatever unit, if that is known."""
        ...

    def advance(self, done: float) -> None:
        """Take up how much of the stage is done."""
        ...


class Silent:
    """Listens to nothing."""

    def say(self, text: str) -> None:
        """Ignore a line."""

    def stage(self, text: str, total: float | None) -> None:
        """Ignore a stage."""

    def advance(self, done: float) -> None:
        """Ignore how far it is."""


class _Undisturbed:
    """Passes on to a listener; a terminal that is gone must not keep a server down."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def say(self, text: str) -> None:
        with contextlib.suppress(Exception):
            self._listener.say(text)

    def stage(self, text: str, total: float | None) -> None:
        with contextlib.suppress(Exception):
            self._listener.stage(text, total)

    def advance(self, done: float) -> None:
        with contextlib.suppress(Exception):
            self._listener.advance(done)


class Journal:
    """A plan and its file."""

    def __init__(self, path: Path, plan: Plan, listener: Listener | None = None) -> None:
        """Keep the plan in a file that is there already."""
        self.path = path
        self.plan = plan
        self.listener: Listener = _Undisturbed(listener or Silent())

    def put(self, index: int, record: Record) -> None:
        """Write down what is known of a move."""
        self.keep(self.plan.with_record(index, record))

    def keep(self, plan: Plan) -> None:
        """Write the plan down."""
        write_plan(self.path, plan)
        self.plan = plan

    def steps(self, index: int) -> "Steps":
        """Return the journal of one move."""
        return Steps(self, index)


class Steps:
    """The journal of one move."""

    def __init__(self, journal: Journal, index: int) -> None:
        """Write into the record of the move with this index."""
        self._journal = journal
        self._index = index
        self._done = 0.0

    @property
    def record(self) -> Record:
        """What is written down."""
        return self._journal.plan.records[self._index]

    @property
    def listener(self) -> Listener:
        """Who listens."""
        return self._journal.listener

    def put(self, *, state: MoveState | None = None, **fields: str | float) -> None:
        """Change fields of the record."""
        record = self.record if state is None else replace(self.record, state=state)
        self._journal.put(self._index, replace(record, **fields))  # type: ignore[arg-type]

    def at(self, step: str, *, total: float | None = None) -> None:
        """Write down that a step begins now."""
        self._done = 0.0
        self._journal.put(self._index, replace(self.record, step=step))
        self.listener.stage(step, total)

    def try_at(self, step: str) -> None:
        """Write down a step that must be made even if nothing can be written down."""
        try:
            self.at(step)
        except PlanError as error:
            self.listener.say(f"{error.message}; going on")

    def beat(self, done: float) -> None:
        """Tell that so much more of the step is done."""
        self._done += done
        self.listener.advance(self._done)

    def note(self, name: str, value: str) -> None:
        """Write down what nobody could find out again."""
        notes = {**self.record.notes, name: value}
        self._journal.put(self._index, replace(self.record, notes=notes))

    def drop_note(self, name: str) -> None:
        """Forget a note that is of no use any more."""
        notes = {key: value for key, value in self.record.notes.items() if key != name}
        self._journal.put(self._index, replace(self.record, notes=notes))


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Let no two processes work on one plan; the kernel forgets it with the process."""
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            lock.bind(f"\0pgflash-plan-{digest}")
        except OSError as error:
            raise PlanError(
                f'another pgflash works on "{path}"', hint="Wait until it has ended."
            ) from error
        yield


class Shield:
    """Holds Ctrl-C back while a server is down, so that it is up again before we end."""

    def __init__(self, listener: Listener) -> None:
        """Say to the listener that we have heard it."""
        self._listener = listener
        self._asked = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        # Only the main thread is ever interrupted.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        if kind is None:
            self.raise_if_asked()

    def raise_if_asked(self) -> None:
        """Give way to an interrupt, at a place where that is safe."""
        if self._asked:
            self._asked = False
            raise KeyboardInterrupt

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True
        self._listener.say("Heard; the server has to come up first.")
