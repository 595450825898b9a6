# SPDX-License-Identifier: PostgreSQL
"""What a server did in the past, from its snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgflash.model.live import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsSpan:
    """What sessions did in a minute, or in several."""

    #: When it begins.
    at: str
    #: How much of it the samples represent.
    elapsed_s: float
    #: Average active sessions by wait class.
    aas: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A time range, by the intervals between snapshots."""

    #: The time that the rows cover: from the first snapshot used to the last; "" without any.
    begin: str
    end: str
    #: One row between two consecutive snapshots, like the live samples; `at` is its end.
    rows: tuple[Sample, ...] = ()
    #: By the minute, or by a longer span if there would be too many.
    sessions: tuple[SessionsSpan, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
