# SPDX-License-Identifier: PostgreSQL
"""Options that several commands take: one name, one meaning and one sentence of help."""

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource
from psycopg.conninfo import make_conninfo

from pgflash.cli.config import read_config
from pgflash.cli.pager import paged
from pgflash.model.moments import read_duration
from pgflash.model.sizes import read_size
from pgflash.session import parse_dsn

#: How a command prints what is a table.
TABLE_FORMS = ("table", "json", "csv")

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Where a command keeps its connection string for its subcommands, in the context.
_DSN = "pgflash.dsn"


def examples(*lines: str) -> str:
    """Return the examples below a command's help: command lines to copy."""
    return "\b\n" + "\n  ".join(["Examples:" if len(lines) > 1 else "Example:", *lines])


def form_option(
    text: str = "Output format.", *, forms: Sequence[str] = TABLE_FORMS
) -> Callable[[_Function], _Function]:
    """Return --format: one of these forms, the first unless told otherwise."""

    def configured(context: click.Context, parameter: click.Parameter, form: str) -> str:
        """Return the form of the user's file, if none was named and the command has it."""
        if context.get_parameter_source(parameter.name or "") is not ParameterSource.DEFAULT:
            return form
        own = read_config().format
        return own if own is not None and own in forms else form

    return click.option(
        "--format",
        "form",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        callback=configured,
        help=text,
    )


def dsn_option(
    what: str = "Database", *, multiple: bool = False
) -> Callable[[_Function], _Function]:
    """Return the options that name a server, as psql has them; the command gets one dsn.

    WHAT says what is there.  If -d may be given again (MULTIPLE), the command gets dsns, and the
    other options are for each of them.
    """
    again = "; may be given again" if multiple else ""
    options = (
        click.option(
            "-d",
            "--dbname",
            "--dsn",
            "dsn",
            metavar="NAME|DSN",
            multiple=multiple,
            help=f"{what}: a name, libpq connection string or URI (default: PGDATABASE, ...)"
            f"{again}.",
        ),
        click.option(
            "-h", "--host", metavar="HOST", help="Host name or socket directory of the server."
        ),
        click.option("-p", "--port", metavar="PORT", help="Server's port."),
        click.option("-U", "--username", metavar="NAME", help="Role to connect as."),
    )

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def connected(
            *arguments: object,
            dsn: str | tuple[str, ...] | None,
            host: str | None,
            port: str | None,
            username: str | None,
            **others: object,
        ) -> object:
            named = {"host": host, "port": port, "user": username}
            context = click.get_current_context()
            _configure_libpq(context)
            if not isinstance(dsn, tuple):
                return function(*arguments, dsn=_inherited(context, _dsn(dsn, named)), **others)
            return function(*arguments, dsns=_dsns(dsn, named), **others)

        command = connected
        for option in reversed(options):
            command = option(command)
        return cast(_Function, command)

    return decorate


def members_option(text: str, *, multiple: bool = False) -> Callable[[_Function], _Function]:
    """Return the options that name several servers; the command gets their dsns.

    TEXT is the help of -d, which may be given again if MULTIPLE.
    """
    options = (
        click.option(
            "-d", "--dbname", "--dsn", "dsn", metavar="NAME|DSN", multiple=multiple, help=text
        ),
        click.option("-U", "--username", metavar="NAME", help="Role to connect as."),
    )

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def connected(
            *arguments: object,
            dsn: str | tuple[str, ...] | None,
            username: str | None,
            **others: object,
        ) -> object:
            _configure_libpq(click.get_current_context())
            named = dsn if isinstance(dsn, tuple) else (dsn,)
            return function(*arguments, dsns=_dsns(named, {"user": username}), **others)

        command = connected
        for option in reversed(options):
            command = option(command)
        return cast(_Function, command)

    return decorate


def _configure_libpq(context: click.Context) -> None:
    """Let libpq take what is not in the environment from the user's file, for this command."""
    for variable, value in read_config().connection.items():
        if variable not in os.environ:
            os.environ[variable] = value
            context.call_on_close(partial(os.environ.pop, variable, None))


def _inherited(context: click.Context, dsn: str | None) -> str | None:
    """Add what the options before a subcommand name: pgflash cache -h HOST clear -d app."""
    outer = context.meta.get(_DSN)
    if dsn is None or outer is None:
        dsn = outer if dsn is None else dsn
    else:
        dsn = make_conninfo("", **{**parse_dsn(outer), **parse_dsn(dsn)})
    context.meta[_DSN] = dsn
    return dsn


def _dsns(dsns: Sequence[str | None], named: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return a connection string for each; none if nothing is named."""
    found = (_dsn(one, named) for one in dsns or (None,))
    return tuple(one for one in found if one is not None)


def _dsn(dsn: str | None, named: Mapping[str, str | None]) -> str | None:
    """Return one connection string; None if nothing is named."""
    parts = {name: value for name, value in named.items() if value is not None}
    if dsn is None and not parts:
        return None
    if dsn and "=" not in dsn and "://" not in dsn:
        return make_conninfo("", dbname=dsn, **parts)
    return make_conninfo("", **{**parse_dsn(dsn or ""), **parts})


def paged_option(function: _Function) -> _Function:
    """Give a command --no-pager: on a terminal, what is long is shown in a pager."""

    @functools.wraps(function)
    def shown(*arguments: object, no_pager: bool, **others: object) -> object:
        with paged(wanted=not no_pager and read_config().pager):
            return function(*arguments, **others)

    option = click.option("--no-pager", is_flag=True, help="Do not use a pager for long output.")
    return cast(_Function, option(shown))


def probes_option(function: _Function) -> _Function:
    """Give a command --probe: what devices were measured to do."""
    return click.option(
        "--probe",
        "probes",
        multiple=True,
        type=click.Path(path_type=Path, dir_okay=False),
        help="File that 'pgflash devices probe -o' wrote; may be given again.",
    )(function)


class FiniteRange(click.FloatRange):
    """A range of numbers that has neither nan, which is in every range, nor infinity."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as in click
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the number that a word says."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def duration_of(
    _context: click.Context, _parameter: click.Parameter, word: str | None
) -> timedelta | None:
    """Return the time that a word says."""
    if word is None:
        return None
    try:
        found = read_duration(word)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if not found:
        raise click.BadParameter(f'"{word}" is not an interval')
    return found


def share_of(_context: click.Context, _parameter: click.Parameter, word: str) -> float:
    """Return the share that a word says: 90 % as 0.9."""
    number, sign, rest = word.partition("%")
    try:
        share = float(number) / (100 if sign else 1)
    except ValueError as error:
        raise click.BadParameter(f'"{word}" is not a share; write it as 90%') from error
    if rest.strip() or not 0 < share <= 1:
        raise click.BadParameter(f'"{word}" is not a share; write it as 90%')
    return share


def bytes_of(_context: click.Context, _parameter: click.Parameter, word: str | None) -> int | None:
    """Return the bytes that a word says."""
    if word is None:
        return None
    try:
        return read_size(word)
    except ValueError as error:
        raise click.BadParameter(f"{error}; write it as 512MB or 4GB") from error
