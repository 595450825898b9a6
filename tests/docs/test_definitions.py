# SPDX-License-Identifier: PostgreSQL
"""What is generated from definitions/ is committed as generated."""

import generate


def test_generated_files_are_what_the_definitions_say() -> None:
    assert {str(path) for path in generate.stale()} == set(), "run make generate"
