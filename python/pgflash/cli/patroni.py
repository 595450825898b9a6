# SPDX-License-Identifier: PostgreSQL
"""Options that say where Patroni is and how it is reached."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from pgflash import api

_Function = TypeVar("_Function", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path, dir_okay=False)


def patroni_access_options(function: _Function) -> _Function:
    """Give a command the options that say how Patroni is reached; it gets them as one."""

    @functools.wraps(function)
    def reached(
        *arguments: object,
        auth: Path | None,
        ca: Path | None,
        certificate: Path | None,
        key: Path | None,
        **others: object,
    ) -> object:
        access = api.read_patroni_access(auth, ca=ca, certificate=certificate, key=key)
        return function(*arguments, access=access, **others)

    options = (
        click.option(
            "--patroni-auth",
            "auth",
            metavar="FILE",
            type=_FILE,
            help="File with one line NAME:PASSWORD, for what Patroni protects (default: "
            "PATRONI_RESTAPI_USERNAME and PATRONI_RESTAPI_PASSWORD).",
        ),
        click.option(
            "--patroni-ca",
            "ca",
            metavar="FILE",
            type=_FILE,
            help="Certificates of the authority that signed Patroni's (default: the system's).",
        ),
        click.option(
            "--patroni-cert",
            "certificate",
            metavar="FILE",
            type=_FILE,
            help="Certificate to show to Patroni, if it asks for one.",
        ),
        click.option(
            "--patroni-key",
            "key",
            metavar="FILE",
            type=_FILE,
            help="Key of this certificate.",
        ),
    )
    command = reached
    for option in reversed(options):
        command = option(command)
    return cast(_Function, command)


def patroni_option(*, required: bool) -> Callable[[_Function], _Function]:
    """Return the option that names Patronis; the command gets their urls."""
    return click.option(
        "--patroni",
        "urls",
        metavar="URL",
        multiple=True,
        required=required,
        help="REST API of a member's Patroni, such as http://db1:8008; may be given again: the "
        "first that answers is asked.",
    )
