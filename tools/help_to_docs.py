#!/usr/bin/env python3
# SPDX-License-Identifier: PostgreSQL
"""Write what follows from the command's parser: its reference, its manual, its completion.

tools/help_to_docs.py           write docs/reference/cli.md, and share/ as make install copies it
tools/help_to_docs.py --check   exit 1 if these are not what the commands say
"""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

import manual
from pgflash.cli import command
from pgflash.cli.completion import script

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference/cli.md"
SHARE = ROOT / "share"
#: Where each shell looks for completions that it does not know yet.
COMPLETIONS = {
    "bash": "bash-completion/completions/pgflash",
    "zsh": "zsh/site-functions/_pgflash",
    "fish": "fish/vendor_completions.d/pgflash.fish",
}

EXIT_STATUS = {
    "0": "Success.",
    "1": "Failure.",
    "2": "Wrong usage.",
    "130": "Interrupted, after everything that was started has been stopped.",
}
ENVIRONMENT = {
    "PGHOST, PGPORT, PGDATABASE, PGUSER, ...": "The server, unless options name it, as for psql.",
    "PGFLASH_CONFIG": "The file with defaults; empty means none.",
    "PSQL_PAGER, PAGER": "The pager for output that is longer than the window; empty means none. "
    "If neither is set, it is less -S -F. Piped output is not paged.",
    "PGFLASH_TOKEN": "The token of pgflash serve.",
    "NO_COLOR": "If set, output has no colours.",
}
FILES = {
    "~/.config/pgflash.toml": "Defaults of the connection and the output.",
    "~/.config/pgflash/token": "The token of pgflash serve.",
    "~/.local/state/pgflash": "Plans of pgflash place.",
}
CONFIG = """\
[connection]                # libpq's keywords, except passwords: keep those in ~/.pgpass
host = "db1.example.org"
dbname = "app"

[output]
format = "json"             # table, json or csv, for commands that support it
pager = false
"""

HEAD = f"""\
# The command line

The output of `--help` for each command, written by tools/help_to_docs.py. `make install` also
installs it as manual pages: `man pgflash`, `man pgflash-report`.

{{exit_status}}
An error is one line, with a hint if there is one; `pgflash --debug ...` adds the traceback.

Text written by others (names of tables, files received) is printed as text: non-printable
characters appear as their codes (`\\u001b`), and a CSV cell that a spreadsheet would take for a
formula begins with an apostrophe, as does a part after a semicolon. A command that only reads
prints a notice on standard error if its role is a superuser: see
[the monitoring role](../guide/roles.md).

## Defaults

`~/.config/pgflash.toml`, or the file that `PGFLASH_CONFIG` names, contains defaults:

```toml
{CONFIG}```

An option overrides the environment (such as `PGHOST`), and the environment overrides the file.
An unknown name is an error that suggests the right one. A file that others may write, or whose
folder they may write, is refused. `PGFLASH_CONFIG=` means no file.

## On a terminal

Output that is longer than the window is shown in a pager, as by psql: that of `PSQL_PAGER` or
`PAGER`, otherwise `less -S -F`. `--no-pager`, or `pager = false` in the file, turns it off. Piped
output is never paged.

After `make install`, TAB completes commands, options and values in new shells: in bash with
bash-completion, in zsh and in fish. Without `make install`:

| shell | |
|---|---|
| bash | `eval "$(pgflash completion bash)"` in `~/.bashrc` |
| zsh | `pgflash completion zsh >~/.zfunc/_pgflash`, a folder of `fpath`, before `compinit` |
| fish | `pgflash completion fish >~/.config/fish/completions/pgflash.fish` |
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
    codes = "; ".join(
        f"{code} {text[:1].lower()}{text[1:-1]}" for code, text in EXIT_STATUS.items()
    )
    parts = [HEAD.format(exit_status=textwrap.fill(f"Exit codes: {codes}.", 100))]
    for name, one in commands(("pgflash",), command):
        context = click.Context(
            one, info_name=name, terminal_width=90, help_option_names=["-?", "--help"]
        )
        parts.append(f"## {name}\n\n```\n{one.get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


def manual_pages() -> dict[str, str]:
    """Return the manual's pages by their names."""
    context = click.Context(command)
    found = {name: command.get_command(context, name) for name in command.list_commands(context)}
    names = ["pgflash", *(f"pgflash-{name}" for name in found)]
    every = {"Exit status": EXIT_STATUS, "Environment": ENVIRONMENT, "Files": FILES}
    pages = {"pgflash": manual.page("pgflash", command, every, names)}
    for name, one in found.items():
        assert one is not None
        status = {"Exit status": EXIT_STATUS}
        pages[f"pgflash-{name}"] = manual.page(f"pgflash {name}", one, status, ["pgflash"])
    return pages


def generated() -> dict[Path, str]:
    """Return all files and their texts."""
    found = {PAGE: page()}
    found |= {SHARE / f"man/man1/{name}.1": text for name, text in manual_pages().items()}
    return found | {SHARE / place: script(shell, command) for shell, place in COMPLETIONS.items()}


def main() -> int:
    """Write or check the files."""
    wanted = generated()
    # The files for monitoring are of definitions/.
    shared = {path for path in SHARE.rglob("*") if path.is_file()}
    there = {path for path in shared if not path.is_relative_to(SHARE / "pgflash")} | {PAGE}
    stale = [path for path, text in wanted.items() if path not in there or path.read_text() != text]
    gone = there - wanted.keys()
    if "--check" in sys.argv[1:]:
        for path in (*stale, *gone):
            print(f"{path.relative_to(ROOT)} is not what the commands say: tools/help_to_docs.py")
        return 1 if stale or gone else 0
    for path in gone:
        path.unlink()
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
