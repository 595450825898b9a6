#!/usr/bin/env python3
# SPDX-License-Identifier: PostgreSQL
"""Write docs/reference/cli.md from the commands' own help.

tools/help_to_docs.py           write it
tools/help_to_docs.py --check   exit 1 if it is not what the commands say
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from pgflash.cli import command

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"

HEAD = """\
# The command line

The output of `--help` for each command, written by tools/help_to_docs.py.

Exit codes: 0 success; 1 failure; 2 wrong usage; 130 interrupted, after everything that was
started has been stopped. An error is one line, with a hint if there is one; `pgflash --debug ...`
adds the traceback.

Text written by others (names of tables, files received) is printed as text: non-printable
characters appear as their codes (`\\u001b`), and a CSV cell that a spreadsheet would take for a
formula begins with an apostrophe. A command that only reads prints a notice on standard error if
its role is a superuser: see [the monitoring role](../guide/roles.md).
"""


def commands(words: tuple[str, ...], one: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and all below it, by their full names."""
    yield " ".join(words), one
    if isinstance(one, click.Group):
        context = click.Context(one)
        for name in sorted(one.list_commands(context)):
            below = one.get_command(context, name)
            if below is not None:
                yield from commands((*words, name), below)


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for name, one in commands(("pgflash",), command):
        context = click.Context(
            one, info_name=name, terminal_width=90, help_option_names=["-?", "--help"]
        )
        parts.append(f"## {name}\n\n```\n{one.get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


def main() -> int:
    """Write or check the page."""
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text() == page():
            return 0
        print(f"{PAGE.name} is not what the commands say: run tools/help_to_docs.py")
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
