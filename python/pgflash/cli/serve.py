# SPDX-License-Identifier: PostgreSQL
"""pgflash serve: the live page."""

import os
import re
from pathlib import Path

import click

from pgflash.cli.options import dsn_option, examples
from pgflash.cli.output import say
from pgflash.errors import PgflashError, UsageError

DEFAULT = "127.0.0.1:8432"
TOKEN_VARIABLE = "PGFLASH_TOKEN"


def _address(_context: click.Context, _parameter: click.Parameter, word: str) -> tuple[str, int]:
    """Return address and port of ADDRESS:PORT, PORT or ADDRESS."""
    found = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|[^:\[\]]*):)?(\d{1,5})|([^:]+)", word.strip())
    if found is None:
        raise click.BadParameter(f'"{word}" is no address; write it as {DEFAULT} or [::1]:8432')
    address, port = found[1] or found[3] or "127.0.0.1", int(found[2] or 8432)
    if port > 65535:
        raise click.BadParameter(f"there is no port {port}")
    return address.strip("[]"), port


@click.command(
    "serve",
    epilog=examples(
        "pgflash serve --dsn dbname=app",
        "PGFLASH_TOKEN=... pgflash serve --listen 0.0.0.0:8432 --host db1.example.org",
    ),
)
@dsn_option()
@click.option(
    "--listen",
    "place",
    metavar="ADDRESS:PORT",
    default=DEFAULT,
    show_default=True,
    callback=_address,
    help="Where to listen; any other address than loopback needs a token.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"File with the token that is asked for; else it is in {TOKEN_VARIABLE}, if anywhere.",
)
@click.option(
    "--host", "names", multiple=True, metavar="NAME", help="Another name that we are called by."
)
@click.option(
    "--https", is_flag=True, help="Browsers come by https, through a proxy in front of this."
)
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out"),
    show_default=True,
    help="Folder that keeps the lab's runs, which the page shows.",
)
def serve_command(
    *,
    dsn: str | None,
    place: tuple[str, int],
    token_file: Path | None,
    names: tuple[str, ...],
    https: bool,
    store: Path,
) -> None:
    """Serve the live performance page, and metrics at /metrics.

    A role with pg_monitor is enough.  On a server without the extension it shows what is there,
    and says what is missing.  It changes nothing, but has a snapshot taken where the report of a
    stretch needs one; it ends with Ctrl-C.
    """
    try:
        from pgflash.web.security import make_policy
        from pgflash.web.serve import serve
    except ModuleNotFoundError as error:
        raise PgflashError(
            f'"{error.name}" is not installed',
            hint="Install pgflash with it: pip install '.[web]', in pgflash's folder.",
        ) from error
    address, port = place
    policy = make_policy(address, token=_token(token_file), names=names, https=https)
    serve(
        dsn or "",
        address=address,
        port=port,
        policy=policy,
        store=store,
        ready=lambda where: say(f"pgflash: {where} (Ctrl-C ends it)", err=True),
    )


def _token(path: Path | None) -> str:
    if path is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip()
    try:
        if path.stat().st_mode & 0o077:
            raise UsageError(
                f'others may read "{path}"', hint=f"Make it yours alone: chmod 600 {path}"
            )
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(f'could not read "{path}": {why}') from error
    if not token:
        raise UsageError(f'"{path}" is empty')
    return token
