# SPDX-License-Identifier: PostgreSQL
"""Report what a run is doing, without knowing who listens.

A run is a series of stages whose lengths are roughly known beforehand; the listener may show a bar
and the time left.  Nothing here prints.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step of a run."""

    title: str
    #: How long it may take, to estimate the time left.
    expected_s: float


class Listener(Protocol):
    """Shows a run's progress."""

    def plan(self, expected_s: float) -> None:
        """Hear how long all remaining work may take."""

    def begin(self, stage: Stage) -> None:
        """Hear that a stage begins, and that the previous one has ended."""

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
