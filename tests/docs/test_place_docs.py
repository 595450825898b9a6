# SPDX-License-Identifier: PostgreSQL
"""What a plan may say is documented: kinds, states, options."""

import re
from pathlib import Path

from pgflash.model.plan import MoveKind, MoveState

REPOSITORY = Path(__file__).resolve().parents[2]
GUIDE = (REPOSITORY / "docs" / "guide" / "placement.md").read_text()
NAMED = set(re.findall(r"`([^`\n]+)`", GUIDE))


def test_every_kind_and_state_is_documented() -> None:
    assert {one.value for one in (*MoveKind, *MoveState)} - NAMED == set()


def test_every_option_of_a_move_is_documented() -> None:
    sources = (REPOSITORY / "python" / "pgflash" / "place").glob("*.py")
    found = {
        name
        for path in sources
        for name in re.findall(r'options\.get\(\s*"(\w+)"', path.read_text())
    }
    assert found
    assert found - NAMED == set()


def test_every_command_is_in_the_guide() -> None:
    for kind in MoveKind:
        if kind is not MoveKind.KEEP:
            assert f"pgflash place {kind.value}" in GUIDE
