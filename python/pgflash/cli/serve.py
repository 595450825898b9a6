# SPDX-License-Identifier: PostgreSQL
"""pgflash serve: the live page."""

import os
import re
import sys
from pathlib import Path

import click
from click.core import ParameterSource

from pgflash import api
from pgflash.cli.options import dsn_option, examples
from pgflash.cli.output import say
from pgflash.cli.patroni import patroni_access_options, patroni_option
from pgflash.errors import PgflashError, UsageError
from pgflash.trusted import who_else
from pgflash.web.tokens import default_file, token_of

DEFAULT = "127.0.0.1:8432"
TOKEN_VARIABLE = "PGFLASH_TOKEN"


def _address(_context: click.Context, _parameter: click.Parameter, word: str) -> tuple[str, int]:
    """Return address and port of ADDRESS:PORT, PORT or ADDRESS."""
    found = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|[^:\[\]]*):)?(\d{1,5})|([^:]+)", word.strip())
    if found is None:
        raise click.BadParameter(f'"{word}" is not an address; write it as {DEFAULT} or [::1]:8432')
    address, port = found[1] or found[3] or "127.0.0.1", int(found[2] or 8432)
    if port > 65535:
        raise click.BadParameter(f"{port} is not a port")
    return address.strip("[]"), port


@click.command(
    "serve",
    epilog=examples(
        "pgflash serve --dsn dbname=app",
        "pgflash serve --listen 0.0.0.0:8432 --allowed-host db1.example.org",
        "pgflash serve --dsn 'host=db1 dbname=app' --dsn 'host=db2 dbname=app'",
        "pgflash serve --patroni http://db1:8008 --patroni http://db2:8008 -d app -U watcher",
    ),
)
@dsn_option(multiple=True)
@patroni_option(required=False)
@patroni_access_options
@click.option(
    "--listen",
    "place",
    metavar="ADDRESS:PORT",
    default=DEFAULT,
    show_default=True,
    callback=_address,
    help="Where to listen.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the token, created if it does not exist (default: the token in "
    f"{TOKEN_VARIABLE}, or ~/.config/pgflash/token).",
)
@click.option(
    "--no-token",
    is_flag=True,
    help="Require no token: everybody who can log in to this machine sees everything.  Only on "
    "loopback.",
)
@click.option(
    "--allowed-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="Another name of this host to answer to.",
)
@click.option(
    "--https", is_flag=True, help="Browsers use https, through a proxy in front of this server."
)
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out"),
    show_default=True,
    help="Folder for the pages of other distributions, such as that of the lab's runs.",
)
@click.pass_context
def serve_command(
    context: click.Context,
    *,
    dsns: tuple[str, ...],
    urls: tuple[str, ...],
    access: api.PatroniAccess,
    place: tuple[str, int],
    token_file: Path | None,
    no_token: bool,
    names: tuple[str, ...],
    https: bool,
    store: Path,
) -> None:
    """Serve the live performance page, and metrics at /metrics.

    A role with pg_monitor is enough.  Without the extension it shows PostgreSQL's own statistics
    and lists what is missing.  It changes nothing, except that the report of a selected range may
    take a snapshot.  Ctrl-C ends it.

    With several --dsn, or --patroni, it watches several servers: an overview shows them side by
    side and who leads since when, and each has its own page.  With --patroni, they are those that
    Patroni lists, connected to as by 'pgflash fleet status'; -d names their database.

    Viewers need a token.  It is printed on a terminal, and stored in a file that only you can
    read.
    """
    try:
        from pgflash.web.security import make_policy
        from pgflash.web.serve import serve, to_watch
    except ModuleNotFoundError as error:
        raise PgflashError(
            f'"{error.name}" is not installed',
            hint="Install pgflash with it: pip install '.[web]', in pgflash's folder.",
        ) from error
    if no_token and token_file is not None:
        raise UsageError("--no-token and --token-file are one too many")
    address, port = place
    token, where = ("", "") if no_token else _token(token_file)
    watched = to_watch(dsns, patroni=urls, access=access)
    policy = make_policy(address, token=token, names=names, https=https)

    def ready(url: str) -> None:
        _say(f"{url} (Ctrl-C ends it)")
        if no_token:
            _say("no token is required: everybody who can log in to this machine sees everything")
        elif sys.stderr.isatty():
            _say(f"it requires this token, which is stored in {where}: {token}")
        else:  # a log, which others may read
            _say(f"it requires the token that is stored in {where}")

    serve(
        watched,
        address=address,
        port=port,
        policy=policy,
        store=_store(context, store),
        ready=ready,
        say=_say,
    )


def _store(context: click.Context, store: Path) -> Path | None:
    """Return the folder of the runs; None if it was not named, and others decide what is in it."""
    if context.get_parameter_source("store") is not ParameterSource.DEFAULT:
        return store
    others = who_else(store)
    if not others:
        return store
    _say(f'"{store.absolute()}" is left out, because {others}; --store names a folder to be shown')
    return None


def _say(line: str) -> None:
    say(f"pgflash: {line}", err=True)


def _token(path: Path | None) -> tuple[str, str]:
    """Return the token, and where it is kept."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if path is None and token:
        return token, TOKEN_VARIABLE
    file = path or default_file()
    return token_of(file), str(file)
