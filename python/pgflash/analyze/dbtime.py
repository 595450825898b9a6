# SPDX-License-Identifier: PostgreSQL
"""DB time, and what it is made of.

DB time is the time that sessions spent serving clients: working or waiting, but not idle.  A
composition lists its parts; the residual is the rest, so that parts and residual always add up to
DB time.  The residual can be negative: sampled parts are estimates, and two clocks never agree.  A
large residual is a finding.

This module is only arithmetic, the same for a server's counters and for the rows of another
program's report; parts.py says where each part comes from on PostgreSQL.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgflash.analyze.grid import ratio
from pgflash.model.awr import Source
from pgflash.model.waits import WaitClass

#: A part below this share of a sum does not affect how certain the sum is.
MATTERS_MIN = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePart:
    """Time that sessions spent in one event."""

    event: str
    wait_class: WaitClass
    total_s: float
    source: Source
    #: How often; None: not counted (samples give the duration, not the number).
    waits: int | None = None
    #: Shown, but not part of DB time.
    apart: bool = False

    @property
    def counts(self) -> bool:
        """Tell whether it is DB time."""
        return not self.apart and self.wait_class.counts

    @property
    def mean_ms(self) -> float | None:
        """Return the mean time of one wait."""
        return mean_ms(self.total_s, self.waits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """DB time and its parts."""

    elapsed_s: float
    db_time_s: float
    db_time_source: Source
    #: The longest first.
    parts: tuple[TimePart, ...]

    @property
    def counted(self) -> tuple[TimePart, ...]:
        """Return the parts that are DB time."""
        return tuple(part for part in self.parts if part.counts)

    @property
    def residual_s(self) -> float:
        """Return the DB time that no part explains."""
        return self.db_time_s - sum(part.total_s for part in self.counted)

    def share(self, total_s: float) -> float | None:
        """Return a time as a share of DB time."""
        return ratio(total_s, self.db_time_s)

    def sessions(self, total_s: float) -> float | None:
        """Return a time as average active sessions."""
        return average_sessions(total_s, self.elapsed_s)

    def of_class(self, wait_class: WaitClass) -> tuple[TimePart, ...]:
        """Return the parts of one class that count in it."""
        return tuple(
            part
            for part in self.parts
            if part.wait_class is wait_class and (part.counts or not wait_class.counts)
        )


def compose(
    parts: Iterable[TimePart],
    *,
    db_time_s: float,
    elapsed_s: float,
    db_time_source: Source = Source.EXACT,
) -> Composition:
    """Return the composition of a period's DB time."""
    return Composition(
        elapsed_s=elapsed_s,
        db_time_s=db_time_s,
        db_time_source=db_time_source,
        parts=tuple(sorted(parts, key=lambda part: (-part.total_s, part.event))),
    )


def mean_ms(total_s: float, count: float | None) -> float | None:
    """Return milliseconds per COUNT; None if it is zero or was not counted."""
    return ratio(1000 * total_s, count)


def average_sessions(total_s: float, elapsed_s: float) -> float | None:
    """Return the average number of sessions."""
    return ratio(total_s, elapsed_s)


def total_of(parts: Sequence[TimePart]) -> float:
    """Return the sum of several parts' times."""
    return sum(part.total_s for part in parts)


def counted_of(parts: Sequence[TimePart]) -> tuple[int | None, float | None]:
    """Return the waits of those parts that were counted, and their mean time."""
    known = [part for part in parts if part.waits is not None]
    waits = sum(part.waits or 0 for part in known) if known else None
    return waits, mean_ms(total_of(known), waits)


def source_of(parts: Sequence[TimePart]) -> Source:
    """Return the source of a sum: that of its least certain part that matters."""
    matters = MATTERS_MIN * total_of(parts)
    sources = {part.source for part in parts if part.total_s >= matters}
    for weaker in (Source.MODELLED, Source.SAMPLED):
        if weaker in sources:
            return weaker
    return Source.EXACT
