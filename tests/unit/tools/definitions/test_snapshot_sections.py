# SPDX-License-Identifier: PostgreSQL
"""A section's declaration names columns that the section has."""

import pytest

from definitions.snapshot_sections import check

OURS = {"name": "x", "columns": ["disk", "reads"], "key": ["disk"]}
OF_A_VIEW = {"name": "x", "query": "select * from {schema}pgflash_wal", "reset": "stats_since"}


@pytest.mark.parametrize("declared", [OURS, OF_A_VIEW])
def test_columns_of_the_section_or_its_view_are_accepted(declared: dict[str, object]) -> None:
    check(declared)


@pytest.mark.parametrize(
    "declared",
    [
        OURS | {"key": ["disc"]},
        OURS | {"wraps": ["read_time_ms"]},
        OURS | {"notes": {"writes": "in blocks"}},
        OF_A_VIEW | {"gauges": ["write_mean"]},
        OF_A_VIEW | {"reset": "stats_reset"},
    ],
)
def test_a_column_that_is_not_there_is_refused(declared: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="x has no"):
        check(declared)
