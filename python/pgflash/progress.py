# SPDX-License-Identifier: PostgreSQL
"""The progress of something long, reported to a listener.

It is a series of stages.  A stage's length is known beforehand in seconds, or its work in some unit
of which advance() then tells how much is done, or neither.  Nothing here prints.
"""


class Listener:
    """Hears of progress.  This class ignores it; subclasses override the methods that they need."""

    def plan(self, expected_s: float) -> None:
        """Hear how long all the remaining work may take."""

    def stage(self, title: str, *, expected_s: float = 0.0, work: float | None = None) -> None:
        """Hear that a stage begins, and that the one before has ended."""

    def advance(self, done: float) -> None:
        """Hear how much of the stage's work is done."""

    def note(self, text: str) -> None:
        """Hear something worth a line of its own."""


class Passing(Listener):
    """Passes all it hears on to another listener; subclasses add to it."""

    def __init__(self, listener: Listener) -> None:
        """Pass on to this listener."""
        self._listener = listener

    def plan(self, expected_s: float) -> None:
        """Pass it on."""
        self._listener.plan(expected_s)

    def stage(self, title: str, *, expected_s: float = 0.0, work: float | None = None) -> None:
        """Pass it on."""
        self._listener.stage(title, expected_s=expected_s, work=work)

    def advance(self, done: float) -> None:
        """Pass it on."""
        self._listener.advance(done)

    def note(self, text: str) -> None:
        """Pass it on."""
        self._listener.note(text)


class Titled(Passing):
    """Passes all it hears on, with what it belongs to before each stage's title."""

    def __init__(self, listener: Listener, title: str) -> None:
        """Pass on to this listener, under this title."""
        super().__init__(listener)
        self._title = title

    def stage(self, title: str, *, expected_s: float = 0.0, work: float | None = None) -> None:
        """Pass it on with its whole title."""
        super().stage(f"{self._title}: {title}", expected_s=expected_s, work=work)
