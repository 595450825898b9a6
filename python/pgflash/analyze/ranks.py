# SPDX-License-Identifier: PostgreSQL
"""Percentiles by nearest rank: each is a value that was measured."""

from collections.abc import Sequence
from math import ceil
from typing import TypeVar

_Number = TypeVar("_Number", int, float)


def percentile(ascending: Sequence[_Number], share: float) -> _Number:
    """Return the smallest value such that at least this share of all values do not exceed it."""
    # Round first: in floating point, 0.999 * 1000 is slightly more than 999.
    rank = ceil(round(share * len(ascending), 6))
    return ascending[max(rank, 1) - 1]
