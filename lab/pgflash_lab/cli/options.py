# SPDX-License-Identifier: PostgreSQL
"""The option that the lab's commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from pgflash_lab.api import STORE

_Function = TypeVar("_Function", bound=Callable[..., object])


def runs_option(function: _Function) -> _Function:
    """Give a command --store: where the lab keeps its runs."""
    return click.option(
        "--store",
        "root",
        type=click.Path(file_okay=False, path_type=Path),
        default=STORE,
        show_default=True,
        help="Folder for runs and loaded databases.",
    )(function)
