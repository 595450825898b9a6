# SPDX-License-Identifier: PostgreSQL
"""The manual's pages, as man formats them: no warning, and the complete help of the commands."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from pgflash.cli import command
from support.commands import commands_of

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted((REPOSITORY / "share/man/man1").glob("*.1"))


def words(text: str) -> str:
    """Return a text as one line: where lines end does not matter."""
    return " ".join(text.split())


@pytest.mark.skipif(shutil.which("man") is None, reason="there is no man: apt-get install man-db")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_formatted_without_a_warning_and_says_what_the_help_says(page: Path) -> None:
    done = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "--local-file", page],
        check=True, capture_output=True, text=True, env={**os.environ, "MANWIDTH": "80"},
    )  # fmt: skip
    assert done.stderr == ""
    shown = words(re.sub(r".\x08", "", done.stdout))
    assert "EXIT STATUS" in shown
    for one in every(of_page(page)):
        assert words(one.help or "").partition("\f")[0] in shown
        for option in one.params:
            record = option.get_help_record(click.Context(one))
            if isinstance(option, click.Option) and record is not None:
                assert words(record[0]) in shown
                assert words(record[1]) in shown


def of_page(page: Path) -> click.Command:
    _pgflash, _dash, name = page.stem.partition("-")
    return commands_of(command)[name] if name else command


def every(one: click.Command) -> list[click.Command]:
    """Return a command and all below it; pgflash's own have pages of their own."""
    below = commands_of(one).values() if isinstance(one, click.Group) and one is not command else ()
    return [one, *(lower for each in below for lower in every(each))]


def test_each_command_has_a_page_that_its_elders_name() -> None:
    assert {page.stem for page in PAGES} == {"pgflash"} | {
        f"pgflash-{name}" for name in commands_of(command)
    }


@pytest.mark.skipif(
    shutil.which("mandoc") is None, reason="there is no mandoc: apt-get install mandoc"
)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_mandoc_finds_nothing_but_a_missing_date(page: Path) -> None:
    check = ["mandoc", "-T", "lint", "-W", "warning", str(page)]
    done = subprocess.run(check, capture_output=True, text=True)
    assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []
