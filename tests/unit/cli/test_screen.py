# SPDX-License-Identifier: PostgreSQL
"""Progress on a terminal and in a log."""

import io

import pytest
from rich.console import Console

from pgflash.cli.screen import Screen
from pgflash.progress import Stage


def shown(*, terminal: bool) -> str:
    """Return what a short run writes."""
    written = io.StringIO()
    console = Console(file=written, force_terminal=terminal, width=120)
    with Screen(console) as screen:
        screen.plan(125)
        screen.begin(Stage(title="loading [8 warehouses]", expected_s=60))
        screen.refresh()
        screen.note("baseline: 100 TPM [polluted: others took 40%]")
        screen.begin(Stage(title="measuring", expected_s=65))
        screen.refresh()
    return written.getvalue()


def test_a_terminal_sees_stage_time_left_and_notes() -> None:
    text = shown(terminal=True)
    assert "loading [8 warehouses]" in text
    assert "2:05 left" in text
    assert "measuring" in text
    assert "1:05 left" in text
    assert "[polluted: others took 40%]" in text


def test_a_log_gets_whole_lines_without_colour() -> None:
    assert shown(terminal=False) == "baseline: 100 TPM [polluted: others took 40%]\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_screen_ends_with_an_interrupt(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal)
    with pytest.raises(KeyboardInterrupt), Screen(console):
        raise KeyboardInterrupt
