# SPDX-License-Identifier: PostgreSQL
"""The interface of all movers.

A place is a word that one kind of move understands: a tablespace, a folder, a setting, a policy.
here() returns where the object is now. target() makes the place that a move asks for. refuse()
refuses moves that must not be made. look() returns the effects of the move. go() makes it.

After a kill, go() is called again on whatever the kill left, so it begins by looking. An undo is
go() with the place where the object was before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pgflash.place.journal import Steps
from pgflash.place.speed import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How much room a move takes in tablespaces and folders, in bytes."""

    #: Taken permanently.
    stays: Mapping[str, int] = field(default_factory=dict)
    #: Taken until the move is over: spilled sorts, and indexes that are rebuilt.
    passes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The effects of a move, before it is made."""

    #: Where it is, in words.
    here: str
    #: Where it goes, in words.
    there: str
    bytes: int
    #: The sessions that wait, and for what, in one sentence.
    lock: str
    #: How long it may take, without waiting for locks.
    estimate: Estimate
    warnings: tuple[str, ...] = ()
    #: Nothing has to be done.
    is_there: bool = False


class Mover(Protocol):
    """Moves one thing."""

    def here(self) -> str:
        """Return the place where it is."""
        ...

    def target(self) -> str:
        """Return the place that was asked for, and make it if need be."""
        ...

    def refuse(self) -> None:
        """Raise PlaceError if the move must not be made."""
        ...

    def room(self, place: str) -> Room:
        """Say how much room it takes to go to a place, or to the place that a move asks for."""
        ...

    def look(self) -> Look:
        """Return the effects of the move, or refuse it; measuring may take a second."""
        ...

    def go(self, place: str, steps: Steps) -> None:
        """Move it to a place, from wherever an earlier attempt left it."""
        ...
