# SPDX-License-Identifier: PostgreSQL
"""Tests that share something stay in one process, and the long ones start first."""

import re

from support.cluster import REPOSITORY
from support.turns import makes_its_own, turn

#: A fixture that several tests share, however it is written.
SHARED = re.compile(r"scope\s*=\s*.?(module|class|package)")


def test_tests_that_share_a_server_stay_together() -> None:
    files = sorted((REPOSITORY / "tests").rglob("test_*.py"))
    parted = [file for file in files if makes_its_own(str(file.relative_to(REPOSITORY)))]
    assert len(parted) > 10
    assert [file.name for file in parted if SHARED.search(file.read_text())] == []


def test_what_takes_long_comes_before_what_evens_out_the_end() -> None:
    tests = (
        "tests/cluster/web/test_web.py::test_a",
        "tests/crash/test_kill.py::test_b",
        "tests/unit/support/test_turns.py::test_c",
    )
    assert [turn(one) for one in tests] == [0, 1, 2]
