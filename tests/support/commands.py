# SPDX-License-Identifier: PostgreSQL
"""The command line, run within the test."""

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
