# SPDX-License-Identifier: PostgreSQL
"""Progress on a terminal and in a log."""

import io
import re
import threading

import pytest
from rich.console import Console

from pgflash.cli.screen import Screen, patiently


def shown(*, terminal: bool) -> str:
    """Return what a short run writes."""
    written = io.StringIO()
    console = Console(file=written, force_terminal=terminal, width=120)
    with Screen(console) as screen:
        screen.plan(125)
        screen.stage("loading [8 warehouses]", expected_s=60)
        screen.refresh()
        screen.note("baseline: 100 TPM [polluted: others took 40%]")
        screen.stage("measuring", expected_s=65)
        screen.refresh()
    return written.getvalue()


def test_a_terminal_sees_stage_time_left_and_notes() -> None:
    text = shown(terminal=True)
    assert "loading [8 warehouses]" in text
    assert re.search("2:0[1-5] left", text)  # it may have taken a moment
    assert "measuring" in text
    assert re.search("1:0[1-5] left", text)
    assert "[polluted: others took 40%]" in text


def test_a_log_gets_whole_lines_without_colour() -> None:
    assert shown(terminal=False) == "baseline: 100 TPM [polluted: others took 40%]\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_screen_ends_with_an_interrupt(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal)
    with pytest.raises(KeyboardInterrupt), Screen(console):
        raise KeyboardInterrupt


def test_work_that_is_not_planned_is_shown_by_its_amount() -> None:
    written = io.StringIO()
    # Without colour, the bar is as long as the share of work that is done.
    console = Console(file=written, force_terminal=True, width=120, no_color=True)
    bars = []
    with Screen(console) as screen:
        screen.stage("copying", work=100)
        for done in (50, 100):
            screen.advance(done)
            screen.refresh()
            bars.append(written.getvalue().rsplit("copying", 1)[1].count("━"))
        assert " left" not in written.getvalue()
    assert 2 * bars[0] == bars[1] > 0


def test_what_takes_long_is_shown_on_a_terminal_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = threading.Event()
    monkeypatch.setattr("pgflash.cli.screen._PATIENCE_S", 0.0)
    monkeypatch.setattr(Screen, "__enter__", lambda _screen: shown.set())
    with patiently("reading"):
        assert shown.wait(timeout=60)


def test_what_is_over_soon_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = threading.Event()
    monkeypatch.setattr("pgflash.cli.screen._PATIENCE_S", 3600.0)
    monkeypatch.setattr(Screen, "__enter__", lambda _screen: shown.set())
    with patiently("reading"):
        pass
    assert not shown.is_set()


def test_work_shows_the_time_that_is_left_at_its_present_speed() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120, no_color=True)
    with Screen(console) as screen:
        screen.stage("copying", work=100)
        for done in (10, 20, 30):
            screen.advance(done)
        screen.refresh()
    assert re.search(r"\d:\d\d, about \d:\d\d left", written.getvalue())
