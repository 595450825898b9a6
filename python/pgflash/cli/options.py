# SPDX-License-Identifier: PostgreSQL
"""Options that several commands take: one name, one meaning and one sentence of help."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from pgflash.model.sizes import read_size

#: How a command prints what is a table.
TABLE_FORMS = ("table", "json", "csv")

_Function = TypeVar("_Function", bound=Callable[..., Any])


def examples(*lines: str) -> str:
    """Return what stands below a command's help: command lines as they can be copied."""
    return "\b\n" + "\n  ".join(["Examples:" if len(lines) > 1 else "Example:", *lines])


def form_option(
    text: str = "How the result is printed.", *, forms: Sequence[str] = TABLE_FORMS
) -> Callable[[_Function], _Function]:
    """Return --format: one of these forms, the first unless told otherwise."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help=text,
    )


def dsn_option(default: str | None = None) -> Callable[[_Function], _Function]:
    """Return --dsn, of a server."""
    return click.option(
        "--dsn",
        default=default,
        help="Server, as libpq connects to it; without it PGHOST, PGDATABASE and the like say.",
    )


def probes_option(function: _Function) -> _Function:
    """Give a command --probe: what devices were measured to do."""
    return click.option(
        "--probe",
        "probes",
        multiple=True,
        type=click.Path(path_type=Path, dir_okay=False),
        help="File that 'pgflash devices probe -o' wrote; may be given again.",
    )(function)


def bytes_of(_context: click.Context, _parameter: click.Parameter, word: str | None) -> int | None:
    """Return the bytes that a word says."""
    if word is None:
        return None
    try:
        return read_size(word)
    except ValueError as error:
        raise click.BadParameter(f"{error}; write it as 512MB or 4GB") from error
