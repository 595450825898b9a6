# SPDX-License-Identifier: PostgreSQL
"""The state of a move, written down before each step.

The plan's file is replaced as a whole and synced, so a kill at any moment leaves the plan either
before or after a step. read_own_plan() refuses a plan that others may write or replace, and
write_plan() makes none.

A mover calls at() before each step, and note() for facts that it could not find out again.  Both
replace the plan's file, synced, before they return.  A move that is continued never takes the
effect of a step from the file: the mover looks at the server.  Tests end the process in at() and in
beat().  Those are all the places where a move can be interrupted without the server or the kernel
restoring a whole state by itself.
"""

import contextlib
import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from pgflash.model.plan import MoveState, Plan, PlanError, Record, plan_from_json, plan_to_json
from pgflash.place.owner import held
from pgflash.progress import Listener, Passing
from pgflash.trusted import ChangeableError, opened_parent, ours, read_file, replace_file

#: How long a killed pgflash's child may take to end and release its lock.
_LOCK_WAIT_S = 10.0


def read_plan(path: Path) -> Plan:
    """Return the plan that a file holds."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise PlanError(
            f'could not read "{path}": {error.strerror}',
            hint="Name a file that 'pgflash advise --plan' or 'pgflash place' wrote.",
        ) from error
    return plan_from_json(text, name=str(path))


def read_own_plan(path: Path) -> Plan:
    """Return the plan that a file holds, to carry it out; nobody else can have written it."""
    try:
        text = read_file(path)
    except ChangeableError as error:
        raise PlanError(
            f'another user may have written the plan "{path}": {error.message}',
            hint="The commands in a plan run as the user who applies it. Check it with "
            "'pgflash plan show', and copy it to a folder that only you may write to.",
        ) from error
    except OSError as error:
        raise PlanError(
            f'could not read "{path}": {error.strerror}',
            hint="Name a file that 'pgflash advise --plan' or 'pgflash place' wrote.",
        ) from error
    return plan_from_json(text, name=str(path))


def write_plan(path: Path, plan: Plan) -> None:
    """Replace a file by the plan, as a whole and durably: both file and folder are synced."""
    try:
        with opened_parent(path, who=ours()) as (folder, name):
            replace_file(folder, name, plan_to_json(plan), mode=0o600, sync=True)
            number = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
            try:
                os.fsync(number)
            finally:
                os.close(number)
    except ChangeableError as error:
        raise PlanError(
            f'could not write "{path}": others could replace the plan: {error.message}',
            hint="Name a file in a folder that only you may write to.",
        ) from error
    except OSError as error:
        raise PlanError(
            f'could not write "{path}": {error.strerror}',
            hint="Name a file in a folder that you may write to.",
        ) from error


class _Undisturbed(Passing):
    """Passes calls on to a listener; a closed terminal must not keep a server down."""

    def stage(self, title: str, *, expected_s: float = 0.0, work: float | None = None) -> None:
        with contextlib.suppress(Exception):
            super().stage(title, expected_s=expected_s, work=work)

    def advance(self, done: float) -> None:
        with contextlib.suppress(Exception):
            super().advance(done)

    def note(self, text: str) -> None:
        with contextlib.suppress(Exception):
            super().note(text)


class Journal:
    """A plan and its file."""

    def __init__(self, path: Path, plan: Plan, listener: Listener | None = None) -> None:
        """Use a file that exists already."""
        self.path = path
        self.plan = plan
        self.listener: Listener = _Undisturbed(listener or Listener())

    def refuse_changed(self) -> None:
        """Refuse a plan that another process has carried out since it was read.

        Its file says where everything was before; this plan does not.
        """
        kept = read_own_plan(self.path)
        # The options may be the caller's: the commands that stop and start the server.
        ours, theirs = (
            [replace(one, options={}) for one in plan.moves] for plan in (self.plan, kept)
        )
        if (self.plan.records, ours) != (kept.records, theirs):
            raise PlanError(
                f'the plan "{self.path}" was changed after it was read',
                hint="Another pgflash works on it, or has. Run the same command again: it shows "
                "what is left to do.",
            )

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
        """The written state of the plan."""
        return self._journal.plan.records[self._index]

    @property
    def listener(self) -> Listener:
        """The listener."""
        return self._journal.listener

    def put(self, *, state: MoveState | None = None, **fields: str | float) -> None:
        """Change fields of the record."""
        record = self.record if state is None else replace(self.record, state=state)
        self._journal.put(self._index, replace(record, **fields))  # type: ignore[arg-type]

    def at(self, step: str, *, work: float | None = None) -> None:
        """Write down that a step begins now."""
        self._done = 0.0
        self._journal.put(self._index, replace(self.record, step=step))
        self.listener.stage(step, work=work)

    def try_at(self, step: str) -> None:
        """Write down a step that is made even if the plan cannot be written."""
        try:
            self.at(step)
        except PlanError as error:
            self.listener.note(f"{error.message}; going on")

    def beat(self, done: float) -> None:
        """Report that this much more of the step is done."""
        self._done += done
        self.listener.advance(self._done)

    def note(self, name: str, value: str) -> None:
        """Write down a fact that could not be found out again."""
        notes = {**self.record.notes, name: value}
        self._journal.put(self._index, replace(self.record, notes=notes))

    def drop_note(self, name: str) -> None:
        """Forget a note that is no longer needed."""
        notes = {key: value for key, value in self.record.notes.items() if key != name}
        self._journal.put(self._index, replace(self.record, notes=notes))


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Lock a plan against other processes; the kernel releases the lock when we have ended.

    The lock ends with the processes and their children.  It is on a file beside the plan that
    nobody else may open, since that user could hold the lock.
    """
    lock = f".{path.name}.lock"
    with contextlib.ExitStack() as stack:
        try:
            folder, _name = stack.enter_context(opened_parent(path.parent / lock, who=ours()))
            number = _lock(folder, lock)
        except ChangeableError as error:
            raise PlanError(
                f'others could change the plan "{path}": {error.message}', hint=error.hint
            ) from error
        except OSError as error:
            raise PlanError(f'could not lock "{path}": {error.strerror}') from error
        if number is None:
            raise PlanError(
                f'another pgflash is working on "{path}"', hint="Wait until it has ended."
            )
        stack.callback(os.close, number)
        stack.callback(os.unlink, lock, dir_fd=folder)
        with held(number):
            yield


def _lock(folder: int, name: str) -> int | None:
    """Return a locked file of an open folder, or None if another process holds it for long."""
    deadline = time.monotonic() + _LOCK_WAIT_S
    while (number := _locked(folder, name)) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return number


def _locked(folder: int, name: str) -> int | None:
    """Return a locked file of an open folder, or None if another process holds it."""
    number = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    with contextlib.suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The last holder of the lock has removed the file.
        if os.path.samestat(os.fstat(number), os.stat(name, dir_fd=folder)):
            return number
    os.close(number)
    return None


class Shield:
    """Holds Ctrl-C back while a server is down, so that it is up again before we end."""

    def __init__(self, listener: Listener) -> None:
        """Take the listener that is told when an interrupt was received."""
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
        """Raise a pending interrupt, at a place where that is safe."""
        if self._asked:
            self._asked = False
            raise KeyboardInterrupt

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True
        self._listener.note("Interrupt received; the server must start first.")
