# SPDX-License-Identifier: PostgreSQL
"""What is generated from definitions/ is committed as generated."""

import pytest

import generate
from definitions.views import Column


def test_generated_files_are_what_the_definitions_say() -> None:
    assert {str(path) for path in generate.stale()} == set(), "run make generate"


@pytest.mark.parametrize(
    ("name", "unit"), [("took", "seconds"), ("took_ms", ""), ("sent", "bytes")]
)
def test_a_column_whose_name_does_not_say_its_unit_is_refused(name: str, unit: str) -> None:
    with pytest.raises(ValueError, match=f"the name {name} "):
        Column(name=name, unit=unit, meaning="Something.")


def test_a_comment_says_the_unit_once() -> None:
    assert [
        Column(name="wait_ms", unit="milliseconds", meaning=text).comment
        for text in ("Time.", "Time; null if none.", "Milliseconds.")
    ] == ["Time, in milliseconds.", "Time; null if none. In milliseconds.", "Milliseconds."]
