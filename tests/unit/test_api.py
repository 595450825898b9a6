# SPDX-License-Identifier: PostgreSQL
"""The library can do all that the command can, by the same names."""

import inspect
import re
from collections.abc import Iterator

import click
import pytest

from pgflash import api
from pgflash.cli import command
from support.cluster import REPOSITORY

#: A program that ends with Ctrl-C, above the library.
NO_FUNCTION = {"serve"}


def commands(group: click.Group, *words: str) -> Iterator[str]:
    """Yield the names of all that can be called, a group's own included."""
    for name, one in group.commands.items():
        path = (*words, name)
        if isinstance(one, click.Group):
            yield from commands(one, *path)
            if not one.invoke_without_command:
                continue
        yield "_".join(path).replace("-", "_")


NAMES = sorted(set(commands(command)) - NO_FUNCTION)


@pytest.mark.parametrize("name", NAMES)
def test_each_command_has_a_function_of_its_name(name: str) -> None:
    assert name in api.__all__
    function = getattr(api, name)
    assert inspect.isfunction(function)
    assert inspect.getdoc(function)
    hints = inspect.signature(function)
    assert hints.return_annotation is not inspect.Signature.empty


def test_groups_are_not_taken_for_commands() -> None:
    assert {"lab_run", "place_wal", "plan_undo", "devices", "devices_probe"} <= set(NAMES)
    assert not {"lab", "place", "plan"} & set(NAMES)


def test_all_that_is_offered_is_there_once() -> None:
    assert len(api.__all__) == len(set(api.__all__))
    for name in api.__all__:
        assert hasattr(api, name), name


def test_nothing_of_the_library_prints_or_asks() -> None:
    for name in api.__all__:
        module = inspect.getmodule(getattr(api, name))
        assert module is None or not module.__name__.startswith("pgflash.cli")


def test_what_the_guides_call_is_there() -> None:
    guides = REPOSITORY / "docs" / "guide"
    called = {
        name for one in guides.glob("*.md") for name in re.findall(r"\bapi\.(\w+)", one.read_text())
    }
    assert {"report", "place_table", "lab_run"} <= called <= set(api.__all__)
