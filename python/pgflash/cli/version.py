# SPDX-License-Identifier: PostgreSQL
"""pgflash version: which versions work together here."""

from dataclasses import asdict

import click

from pgflash import api
from pgflash.cli.options import dsn_option, examples, form_option
from pgflash.cli.output import print_json, say, say_item


@click.command(
    "version", epilog=examples("pgflash version -d app", "pgflash version --format json")
)
@dsn_option()
@form_option(forms=("text", "json"))
def version_command(*, dsn: str | None, form: str) -> None:
    """Show the versions, and whether they work together.

    The versions are those of this command, the library that the server has loaded, the extension in
    the database, the installed files, PostgreSQL and the kernel. After an upgrade it says what is
    left to do. A server that cannot be reached is no error.
    """
    found = api.version(dsn=dsn)
    if form == "json":
        print_json({**asdict(found), "remedy": found.remedy})
        return
    for name, value in _lines(found):
        say_item(f"{name + ':':<12}", value)
    if found.remedy:
        say(found.remedy)


def _lines(found: api.Versions) -> list[tuple[str, str]]:
    lines = [("command", found.command), ("kernel", found.kernel)]
    if found.why_no_server:
        return [*lines, ("server", found.why_no_server)]
    extension = found.extension or "none"
    return [
        *lines,
        ("PostgreSQL", found.postgresql),
        ("library", found.library or "not loaded"),
        ("extension", f"{extension} in database {found.database}"),
        ("installed", found.installed or "none"),
    ]
