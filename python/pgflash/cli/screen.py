# SPDX-License-Identifier: PostgreSQL
"""Progress on the terminal: the stage, a bar, the time left, lines that stay.

A bar moves with the clock if the total time is known, and otherwise with the work of
each stage.  Nothing moves where standard error is no terminal: then only the lines that stay are
written, without colour, so that a log stays readable.
"""

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from pgflash.api import Listener
from pgflash.cli.output import cell, words

#: A shorter operation is over before anybody wonders.
_PATIENCE_S = 2.0


@contextlib.contextmanager
def patiently(title: str) -> Iterator[None]:
    """Show on a terminal what is being done, as soon as it has taken two seconds."""
    screen = Screen(title=title)
    shown = threading.Timer(_PATIENCE_S, screen.__enter__)
    shown.daemon = True
    shown.start()
    try:
        yield
    finally:
        shown.cancel()
        shown.join()
        screen.__exit__()


class Screen(Listener):
    """Listens to something long and shows it."""

    def __init__(self, console: Console | None = None, *, title: str = "starting") -> None:
        """Write to a console, by default standard error; TITLE is shown until a stage begins."""
        self._console = console or Console(stderr=True)
        self._bar = _Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            _Clock(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(cell(title), total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._bar.stop()

    def plan(self, expected_s: float) -> None:
        """Take up how long all that is left may take."""
        self._bar.plan(expected_s)
        self._bar.update(self._task, total=self._bar.total_s, planned=True)

    def stage(self, title: str, *, expected_s: float = 0.0, work: float | None = None) -> None:
        """Show the stage."""
        self._bar.update(self._task, description=cell(title))
        if self._bar.total_s:
            self._bar.stage(expected_s)
        else:
            self._bar.reset(self._task, total=work)

    def advance(self, done: float) -> None:
        """Show how much of the stage's work is done."""
        if not self._bar.total_s:
            self._bar.update(self._task, completed=done)

    def refresh(self) -> None:
        """Draw now; it is drawn ten times a second anyway."""
        self._bar.refresh()

    def note(self, text: str) -> None:
        """Write a line that stays."""
        for line in text.split("\n"):
            self._console.print(words(line), highlight=False, soft_wrap=True)


class _Clock(ProgressColumn):
    """The time left if it was planned; else the stage's time, and what is left at this speed."""

    def render(self, task: Task) -> Text:
        """Return minutes and seconds."""
        if task.fields.get("planned"):
            return self._text(f"{_minutes(max((task.total or 0) - task.completed, 0))} left")
        elapsed, left = _minutes(task.elapsed or 0), task.time_remaining
        return self._text(elapsed if not left else f"{elapsed}, about {_minutes(left)} left")

    @staticmethod
    def _text(said: str) -> Text:
        return words(said, style="cyan")


def _minutes(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02}"


class _Bar(Progress):
    """A bar that moves with the clock through a planned stage, and no further than its end."""

    total_s = 0.0
    _done_s = 0.0
    _stage_s = 0.0
    _began_s = 0.0

    def plan(self, left_s: float) -> None:
        self._done_s = self._now_s()
        self._stage_s, self.total_s = 0.0, self._done_s + left_s

    def stage(self, expected_s: float) -> None:
        if expected_s > 0:
            self._done_s += self._stage_s
            self._stage_s, self._began_s = expected_s, time.monotonic()

    def _now_s(self) -> float:
        return self._done_s + min(self._stage_s, time.monotonic() - self._began_s)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Move the bar to now each time it is drawn."""
        for task in self.tasks:
            if self.total_s:
                task.completed = min(self._now_s(), self.total_s)
        yield from super().get_renderables()
