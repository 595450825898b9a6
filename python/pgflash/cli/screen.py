# SPDX-License-Identifier: PostgreSQL
"""A run's progress on the terminal: the stage, a bar, the time left, lines that stay.

Where standard error is no terminal, only the lines that stay are written, one for each
attempt, so that a log stays readable.
"""

import time
from collections.abc import Iterable
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.text import Text

from pgflash.api import Stage
from pgflash.cli.output import cell, words


class _Left(ProgressColumn):
    """The time left, from what was planned: a run's stages are mostly of a fixed length."""

    def render(self, task: Task) -> Text:
        """Return the minutes and seconds left."""
        left_s = max((task.total or 0) - task.completed, 0)
        minutes, seconds = divmod(round(left_s), 60)
        return words(f"{minutes}:{seconds:02} left", style="cyan")


class Screen:
    """Listens to a run and shows it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = _StageProgress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            _Left(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._progress.stop()

    def plan(self, expected_s: float) -> None:
        """Take up how long all that is left may take."""
        self._progress.plan(self._task, expected_s)

    def begin(self, stage: Stage) -> None:
        """Show the stage."""
        self._progress.stage(self._task, cell(stage.title), stage.expected_s)

    def refresh(self) -> None:
        """Draw now; it is drawn ten times a second anyway."""
        self._progress.refresh()

    def note(self, text: str) -> None:
        """Write a line that stays."""
        for line in text.split("\n"):
            self._console.print(words(line), highlight=False, soft_wrap=True)


class _StageProgress(Progress):
    """A bar that moves with the clock through a stage, and no further than its end."""

    _done_s = 0.0
    _stage_s = 0.0
    _began_s = 0.0
    _total_s = 0.0

    def plan(self, task: TaskID, left_s: float) -> None:
        self._done_s = self._now_s()
        self._stage_s, self._total_s = 0.0, self._done_s + left_s
        self.update(task, total=self._total_s, completed=self._done_s)

    def stage(self, task: TaskID, title: str, expected_s: float) -> None:
        if expected_s > 0:
            self._done_s += self._stage_s
            self._stage_s, self._began_s = expected_s, time.monotonic()
        self.update(task, description=title)

    def _now_s(self) -> float:
        return self._done_s + min(self._stage_s, time.monotonic() - self._began_s)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Move the bar to now each time it is drawn."""
        for task in self.tasks:
            if task.total:
                task.completed = min(self._now_s(), task.total)
        yield from super().get_renderables()
