# SPDX-License-Identifier: PostgreSQL
"""The command line, run within the test."""

import click
import pytest

from pgflash.cli import main


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command line that must succeed, and return its output."""
    assert main(list(words)) == 0
    return capsys.readouterr().out


def failure(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> str:
    """Run a command line that must fail with a given code, and return its error message."""
    assert main(list(words)) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err


def commands_of(group: click.Group) -> dict[str, click.Command]:
    """Return the commands of a group by their names, those of other distributions too."""
    context = click.Context(group)
    named = ((name, group.get_command(context, name)) for name in group.list_commands(context))
    return {name: one for name, one in named if one is not None}
