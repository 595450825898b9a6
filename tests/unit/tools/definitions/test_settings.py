# SPDX-License-Identifier: PostgreSQL
"""Values of settings as people write them become numbers in the unit that C has."""

import pytest

from definitions.settings import number_in_unit


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("8kB", "1GB", 1024 * 1024 // 8),
        ("8kB", "7", 7),
        ("kB", "16MB", 16 * 1024),
        ("ms", "1min", 60 * 1000),
        ("s", "1d", 24 * 60 * 60),
        ("min", "8d", 8 * 24 * 60),
    ],
)
def test_a_value_becomes_a_number_in_its_unit(unit: str, value: str, expected: int) -> None:
    assert number_in_unit({"name": "x", "unit": unit}, value) == expected


def test_a_number_needs_no_unit() -> None:
    assert number_in_unit({"name": "x"}, 50) == 50


@pytest.mark.parametrize("value", ["4kB", "1ms", "1.5GB", "much"])
def test_what_is_no_number_of_the_unit_is_refused(value: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        number_in_unit({"name": "x", "unit": "8kB"}, value)
