# SPDX-License-Identifier: PostgreSQL
"""How a run tells what it is doing, without knowing who listens.

A run is a row of stages whose lengths are known roughly beforehand; the listener may
show a bar and the time left.  Nothing here prints.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step of a run."""

    title: str
    #: How long it may take, for the time left.
    expected_s: float


class Listener(Protocol):
    """Whoever shows a run's progress."""

    def plan(self, expected_s: float) -> None:
        """Hear how long all that is left to do may take."""

    def begin(self, stage: Stage) -> None:
        """Hear that a stage begins, and that the one before has ended."""

    def note(self, text: str) -> None:
        """Hear something worth a line of its own."""


class Silence:
    """Nobody listens."""

    def plan(self, expected_s: float) -> None:
        """Do nothing."""

    def begin(self, stage: Stage) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""
