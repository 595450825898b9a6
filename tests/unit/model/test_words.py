# SPDX-License-Identifier: PostgreSQL
"""How long something may take, in words: never more exact than the range, nor narrower."""

import pytest

from pgflash.model.words import between


@pytest.mark.parametrize(
    ("least_s", "most_s", "words"),
    [
        (0.0, 0.0, "at most 1 s"),
        (0.4, 1.2, "at most 2 s"),
        (2.9, 24.1, "between 2 s and 25 s"),
        (30.0, 119.5, "between 30 s and 120 s"),
        (59.0, 121.0, "between 59 s and 3 min"),
        (190.0, 530.0, "between 3 min and 9 min"),
        (4000.0, 9000.0, "between 66 min and 3 h"),
        (400_000.0, 900_000.0, "between 111 h and 250 h"),
    ],
)
def test_a_range_is_rounded_outwards(least_s: float, most_s: float, words: str) -> None:
    assert between(least_s, most_s) == words
