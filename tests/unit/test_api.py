# SPDX-License-Identifier: PostgreSQL
"""The library can do everything that the command can, by the same names."""

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import click
import pytest

import pgflash_lab.api
from pgflash import api
from pgflash.cli import command
from support.cluster import REPOSITORY
from support.commands import commands_of

#: A program that ends with Ctrl-C, and a script for shells: both are above the library.
NO_FUNCTION = {"completion", "serve"}


def commands(group: click.Group, *words: str) -> Iterator[str]:
    """Yield the names of all that can be called, a group's own included."""
    for name, one in commands_of(group).items():
        path = (*words, name)
        if isinstance(one, click.Group):
            yield from commands(one, *path)
            if not one.invoke_without_command:
                continue
        yield "_".join(path).replace("-", "_")


NAMES = sorted(set(commands(command)) - NO_FUNCTION)


@pytest.mark.parametrize("name", NAMES)
def test_each_command_has_a_function_of_its_name(name: str) -> None:
    library = pgflash_lab.api if name.startswith("lab_") or name == "cost" else api
    assert name in library.__all__
    function = getattr(library, name)
    assert inspect.isfunction(function)
    assert inspect.getdoc(function)
    hints = inspect.signature(function)
    assert hints.return_annotation is not inspect.Signature.empty


def test_groups_are_not_taken_for_commands() -> None:
    assert {"lab_run", "place_wal", "plan_undo", "devices", "devices_probe"} <= set(NAMES)
    assert not {"lab", "place", "plan"} & set(NAMES)


@pytest.mark.parametrize("library", [api, pgflash_lab.api])
def test_all_that_is_offered_is_there_once(library: ModuleType) -> None:
    assert len(library.__all__) == len(set(library.__all__))
    for name in library.__all__:
        assert hasattr(library, name), name


def test_a_command_imports_no_more_than_it_needs() -> None:
    script = "import sys; from pgflash.cli import memory; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "pgflash.api" in loaded
    assert not loaded & {"pgflash.advise", "pgflash.live", "pgflash.place", "pgflash.store"}


@pytest.mark.parametrize("library", [api, pgflash_lab.api])
def test_nothing_of_the_library_prints_or_asks(library: ModuleType) -> None:
    for name in library.__all__:
        module = inspect.getmodule(getattr(library, name))
        assert module is None or ".cli" not in module.__name__


def test_what_the_guides_call_is_there() -> None:
    guides = REPOSITORY / "docs" / "guide"
    called = {
        name for one in guides.glob("*.md") for name in re.findall(r"\bapi\.(\w+)", one.read_text())
    }
    assert {"report", "place_table", "lab_run"} <= called
    assert called <= {*api.__all__, *pgflash_lab.api.__all__}
