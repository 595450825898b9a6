# SPDX-License-Identifier: PostgreSQL
"""A run's progress, kept beside it for other processes.

    out/runs/<id>/progress.json   what the run is doing, rewritten with every stage, and each second
                                  while an attempt is measured
    out/runs/<id>/.running        locked for as long as the run is being made

The lock is the kernel's and disappears with the process, however it ends: so a killed run is known
not to be running, although its last stage is still recorded.  The lock also keeps two processes
from making the same run.  Both files are removed when the run ends in any other way.
"""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from pgflash.progress import Listener, Passing
from pgflash_lab.model.lab_view import RunSecond
from pgflash_lab.store import StoreError, open_plain, read_plain, write_file

PROGRESS_FILE = "progress.json"
LOCK_FILE = ".running"

NOTES_MAX = 20
SECONDS_MAX = 300
_PROGRESS_MAX_BYTES = 2**20
#: A process that checks whether a run is running holds its lock for an instant.
_LOCK_TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a run is doing."""

    #: Times in ISO 8601.
    began_at: str
    stage: str = ""
    stage_began_at: str = ""
    stage_expected_s: float = 0.0
    #: When this was written, and how much time was left then.
    at: str = ""
    left_s: float | None = None
    notes: tuple[str, ...] = ()
    #: The attempt that is measured, or was last; what is counted; its last seconds.
    attempt: str = ""
    counted: str = ""
    seconds: tuple[RunSecond, ...] = ()

    def __post_init__(self) -> None:
        """Refuse times that are none, by a ValueError: the file may be anybody's."""
        for text in (self.began_at, self.at or self.began_at):
            if datetime.fromisoformat(text).tzinfo is None:
                raise ValueError(f"{text} is of no time zone")


@contextlib.contextmanager
def kept(folder: Path, listener: Listener) -> Iterator["Journal"]:
    """Keep a listener's messages in the folder of a run while it is made."""
    path = folder / LOCK_FILE
    try:
        number = open_plain(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise StoreError(f'could not write "{path}": {error.strerror}') from error
    with os.fdopen(number, "wb") as lock:
        for tries_left in reversed(range(_LOCK_TRIES)):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not tries_left:
                    raise StoreError(
                        f'"{folder.name}" is being made by another process',
                        hint="Wait for it, or begin a run of its own.",
                    ) from None
                time.sleep(0.05)
        try:
            yield Journal(folder / PROGRESS_FILE, listener)
        finally:
            (folder / PROGRESS_FILE).unlink(missing_ok=True)
            path.unlink(missing_ok=True)


def progress_of(folder: Path) -> Progress | None:
    """Return what the run in a folder is doing; None if it is not being made."""
    try:
        with os.fdopen(open_plain(folder / LOCK_FILE), "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = read_plain(folder / PROGRESS_FILE, _PROGRESS_MAX_BYTES)
                return msgspec.json.decode(text, type=Progress)
    except (OSError, msgspec.DecodeError):
        pass
    return None


class Journal(Passing):
    """Writes down messages, and passes them on.

    Locking: seconds are told by a thread of their own, beside stages and notes.
    """

    def __init__(self, path: Path, listener: Listener) -> None:
        """Write to this file."""
        super().__init__(listener)
        self._turn = threading.Lock()
        self._path = path
        self._progress = Progress(began_at=_now())
        #: When the rest should be done, by our clock.
        self._ends_s: float | None = None
        self._write()

    def second(self, attempt: str, counted: str, second: RunSecond) -> None:
        """Write down a second of an attempt's load."""
        known = self._progress
        before = known.seconds if known.attempt == attempt else ()
        if before and before[-1].at_s >= second.at_s:
            before = ()  # the same attempt is made again
        seconds = (*before, second)[-SECONDS_MAX:]
        self._write(attempt=attempt, counted=counted, seconds=seconds)

    def plan(self, expected_s: float) -> None:
        """Take how long the rest may take."""
        self._ends_s = time.monotonic() + expected_s
        self._write()
        super().plan(expected_s)

    def stage(self, title: str, *, expected_s: float = 0.0, work: float | None = None) -> None:
        """Write down the stage."""
        self._write(stage=title, stage_began_at=_now(), stage_expected_s=expected_s)
        super().stage(title, expected_s=expected_s, work=work)

    def note(self, text: str) -> None:
        """Write down a line."""
        self._write(notes=(*self._progress.notes, text)[-NOTES_MAX:])
        super().note(text)

    def _write(self, **changes: Any) -> None:  # noqa: ANN401 -- Progress knows their types
        with self._turn:
            left_s = None if self._ends_s is None else max(self._ends_s - time.monotonic(), 0.0)
            self._progress = replace(self._progress, at=_now(), left_s=left_s, **changes)
            with contextlib.suppress(StoreError):  # then nobody sees it, but the run continues
                write_file(self._path, msgspec.json.encode(self._progress))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
