# SPDX-License-Identifier: PostgreSQL
"""Sizes: a GB that is read is the GB that is printed, and a vendor's is converted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgflash.model.sizes import VENDOR_GB, read_size, read_vendor_size, unit_for
from pgflash.model.words import figure, size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8GB", 8 * 2**30),
        ("1.5 TB", 3 * 2**39),
        ("640MB", 640 * 2**20),
        ("4 kb", 4096),
        ("7B", 7),
        (" 0MB ", 0),
    ],
)
def test_a_unit_is_a_power_of_1024(text: str, value: int) -> None:
    assert read_size(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "8", "GB", "8GiB", "-1GB", "1e3GB", "8 apples", "1.GB", "\u0668GB", "9" * 400 + "GB"],
)
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        read_size(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("800GB", 800 * VENDOR_GB), ("1.6 TB", 1_600 * VENDOR_GB), ("4KiB", 4096), ("7b", 7)],
)
def test_a_vendor_counts_in_powers_of_1000(text: str, value: int) -> None:
    assert VENDOR_GB == 10**9
    assert read_vendor_size(text) == value


@given(number=st.integers(1, 999), unit=st.sampled_from(["kB", "MB", "GB", "TB"]))
def test_what_is_read_is_printed_as_it_was_written(number: int, unit: str) -> None:
    assert size(read_size(f"{number}{unit}")) == f"{figure(number)} {unit}"


def test_sizes_are_printed_in_the_largest_unit_that_makes_one() -> None:
    assert [size(one) for one in (0, 1023, 1024, 8 * 2**30, 2**50)] == [
        "0 bytes",
        "1023 bytes",
        "1.00 kB",
        "8.00 GB",
        "1.00 PB",
    ]
    assert unit_for(5 * 2**20, least=10) == ("kB", 1024)
