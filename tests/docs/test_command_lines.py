# SPDX-License-Identifier: PostgreSQL
"""Command lines in the documents: each names an existing command and its options."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pgflash.cli import command
from support.commands import commands_of

REPOSITORY = Path(__file__).resolve().parents[2]
#: Names of the server's processes, not commands.
PROCESSES = {"pgflash policies", "pgflash sampler", "pgflash writer"}
PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))


def command_lines(text: str) -> Iterator[str]:
    """Yield the calls of pgflash in a page's blocks of code, and within its sentences."""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S):
        for line in re.sub(r"\\\n", " ", block).splitlines():
            yield from re.findall(r"(?:^|[;&] )\s*(pgflash [^#;&|]*)", line)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    # A message of the server's log is no call either.
    prose = re.sub(r"^\| (?:LOG|WARNING): `[^`]*`", "", prose, flags=re.M)
    for line in re.findall(r"`(pgflash [a-z][^`]*)`", prose):
        if line not in PROCESSES:
            yield line


def examples(one: click.Command) -> Iterator[str]:
    """Yield the examples in the help of a command and of all below it."""
    help_text = one.get_help(click.Context(one, terminal_width=100))
    yield from re.findall(r"^ {4}.*?(pgflash .*)$", help_text.partition("Example")[2], re.M)
    if isinstance(one, click.Group):
        for below in commands_of(one).values():
            yield from examples(below)


def assert_known(line: str) -> None:
    """Fail if a word that should be a command or an option is not one."""
    at: click.Command = command
    words = iter(shlex.split(line.rstrip("\\"))[1:])
    for word in words:
        if word.startswith("-") and len(word) > 1:
            options = {name: one for one in at.params for name in (*one.opts, *one.secondary_opts)}
            name, _, value = word.partition("=")
            assert name in {*options, "-?", "--help"}, line
            one = options.get(name)
            if not value and isinstance(one, click.Option) and not one.is_flag:
                next(words, None)
        elif isinstance(at, click.Group):
            below = commands_of(at)
            assert word in below, line
            at = below[word]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_what_a_page_says_to_type_is_known(page: Path) -> None:
    for line in command_lines(page.read_text()):
        assert_known(line)


def test_examples_of_the_help_are_known() -> None:
    found = list(examples(command))
    assert len(found) > 40
    for line in found:
        assert_known(line)


@pytest.mark.parametrize("line", ["pgflash raport", "pgflash top --form json", "pgflash lab rum x"])
def test_what_is_not_known_is_found(line: str) -> None:
    with pytest.raises(AssertionError):
        assert_known(line)


def test_pages_have_command_lines() -> None:
    readme = list(command_lines((REPOSITORY / "README.md").read_text()))
    assert len(readme) > 10
