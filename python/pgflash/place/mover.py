# SPDX-License-Identifier: PostgreSQL
"""What all movers have in common, whatever they move.

A place is a word that one kind of move understands: a tablespace, a folder, a setting, a
policy.  here() says where the thing is now, target() makes the place of what a move asked
for, refuse() refuses what must not be, look() says what going there would mean, and go() goes.

go() is called again after a kill, on whatever the kill left, so it begins by looking; and
an undo is go() with the place where the thing was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pgflash.place.journal import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a move takes of tablespaces and folders, in bytes."""

    #: For good.
    stays: Mapping[str, int] = field(default_factory=dict)
    #: Until it is over: what sorts spill, and indexes that are built anew.
    passes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a move would mean, before it is made."""

    #: Where it is, in words.
    here: str
    #: Where it goes, in words.
    there: str
    bytes: int
    #: Who has to wait for what, in one sentence.
    lock: str
    #: About how long it takes; None where nothing is known.
    about_s: float | None
    #: What the figure was made of.
    speed: str = ""
    warnings: tuple[str, ...] = ()
    #: Nothing has to be done.
    is_there: bool = False


class Mover(Protocol):
    """Moves one thing."""

    def here(self) -> str:
        """Return the place where it is."""
        ...

    def target(self) -> str:
        """Return the place that was asked for, which is made if need be."""
        ...

    def refuse(self) -> None:
        """Raise PlaceError if the move must not be."""
        ...

    def room(self, place: str) -> Room:
        """Say what going to a place, or to what a move asks for, takes."""
        ...

    def look(self) -> Look:
        """Say what the move would mean, which may take a second to measure; or refuse it."""
        ...

    def go(self, place: str, steps: Steps) -> None:
        """Move it to a place, from wherever an earlier attempt left it."""
        ...
