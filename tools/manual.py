# SPDX-License-Identifier: PostgreSQL
"""Manual pages in roff: one for pgflash, and one for each of its commands with all below it."""

import inspect
import re
from collections.abc import Iterator, Mapping

import click

import pgflash

#: In every page: facts about all commands.
Shared = Mapping[str, Mapping[str, str]]


def page(name: str, command: click.Command, shared: Shared, also: list[str]) -> str:
    """Return the page of a command; SHARED has further sections, ALSO names other pages."""
    title = name.replace(" ", "-")
    lines = [
        r".\" SPDX-License-Identifier: PostgreSQL",
        r".\" Written by tools/help_to_docs.py.",
        f'.TH {title.upper()} 1 "" "pgflash {pgflash.__version__}" "pgflash"',
        ".nh",  # an option or a setting keeps its name on one line
        ".ad l",
        ".SH NAME",
        f"{_text(title)} \\- {_text(_summary(command))}",
        *_synopsis(name, command),
        ".SH DESCRIPTION",
        *_description(command),
        *_options(command, ".SH OPTIONS"),
    ]
    below = list(_below(name, command)) if " " in name else []
    if not below and isinstance(command, click.Group):
        lines += [".SH COMMANDS", *_commands(name, command)]
    for path, one in below:
        lines += [f'.SH "{_text(path.upper())}"', f".B {_text(_usage(path, one))}", ".PP"]
        lines += [*_description(one), *_options(one), *_examples(one, ".PP")]
    lines += _examples(command, ".SH EXAMPLES")
    for section, entries in shared.items():
        lines.append(f".SH {section.upper()}")
        for key, text in entries.items():
            lines += [".TP", f".B {_text(key)}", _text(text)]
    pages = ", ".join(f"\\fB{_text(one)}\\fR(1)" for one in also if one != title)
    return "\n".join([*lines, ".SH SEE ALSO", pages, ""])


def _below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            one = command.get_command(context, word)
            if one is not None:
                yield f"{name} {word}", one
                yield from _below(f"{name} {word}", one)


def _commands(name: str, command: click.Group) -> Iterator[str]:
    context = click.Context(command)
    for word in command.list_commands(context):
        one = command.get_command(context, word)
        if one is not None:
            yield from (".TP", f"\\fB{_text(f'{name}-{word}')}\\fR(1)", _text(_summary(one)))


def _summary(command: click.Command) -> str:
    return command.get_short_help_str(200).rstrip(".")


def _usage(name: str, command: click.Command) -> str:
    return " ".join((name, *command.collect_usage_pieces(click.Context(command))))


def _synopsis(name: str, command: click.Command) -> Iterator[str]:
    yield from (".SH SYNOPSIS", f".B {_text(_usage(name, command))}")


def _description(command: click.Command) -> Iterator[str]:
    text = inspect.cleandoc(command.help or "").partition("\f")[0]
    for number, paragraph in enumerate(text.split("\n\n")):
        yield from ([".PP"] if number else [])
        yield _text(" ".join(paragraph.split()))


def _options(command: click.Command, *head: str) -> Iterator[str]:
    context = click.Context(command, help_option_names=["-?", "--help"])
    yield from head
    for one in command.get_params(context):
        record = one.get_help_record(context) if isinstance(one, click.Option) else None
        if record is not None:
            name, text = record
            yield from (".TP", f".B {_text(name)}", _text(" ".join(text.split())))


def _examples(command: click.Command, head: str) -> Iterator[str]:
    lines = (command.epilog or "").splitlines()[2:]
    if lines:
        yield from (head, ".nf", *(_text(line.strip()) for line in lines), ".fi")


def _text(text: str) -> str:
    """Return a text escaped for roff."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    return re.sub(r"^(?=\.)", r"\\&", escaped)
