# SPDX-License-Identifier: PostgreSQL
"""Queries of a snapshot's sections for tests."""

from typing import Any

from pgflash.model.snapshot import Section

#: No schedule: each test takes its own snapshots.
BY_HAND = {"pgflash.snapshot_interval": "0", "track_io_timing": "on"}


def number(section: Section, column: str) -> float:
    """Return the sum of a column."""
    values = section.column(column)
    assert values is not None
    return sum(value for value in values if isinstance(value, int | float))


def relation_rows(sections: dict[str, Section], name: str) -> list[dict[str, Any]]:
    """Return the records of relations of this name."""
    return [row for row in sections["relations"].records() if row["relation"] == name]
