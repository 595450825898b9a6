# SPDX-License-Identifier: PostgreSQL
"""Everything that the command line writes goes through here.

What is printed was often written by others: a table may be named like an escape sequence that
retitles a terminal, moves its cursor or types into it, like a line of our own, or like a
formula that a spreadsheet runs.  So a character that is not printed has its code shown
instead, a line stays one line, and a cell of CSV that would be a formula begins with an
apostrophe.  Only what we add ourselves, colours and the lines of tables, reaches a terminal
as it is.
"""

import csv
import io
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import click
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from pgflash.errors import PgflashError, UsageError
from pgflash.model.awr import Column, ReportTable, Row, Unit
from pgflash.model.words import NO_BREAK, unbroken
from pgflash.report.lines import WIDTH, blocks, hanging, table_lines
from pgflash.report.printed import print_table, shown, visible
from pgflash.trusted import write_file

#: First characters of formulas in various spreadsheets; the last are their full-width forms.
_FORMULA = re.compile("[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20]")
#: What divides cells where the comma is a decimal sign, before such a character.
_SEMICOLON = re.compile(f"(;\\s*)(?={_FORMULA.pattern})")
#: Of a page: control characters, and those that turn the direction of what follows.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
#: Of a text's lines, on a wide terminal.
_WIDTH_MAX = 132
#: Of what is read by a program, or later.
_PIPED_WIDTH = 160
_NUMBER = re.compile(r"[+-]?\d[\d.,]*(e[+-]?\d+)?( ?%)?", re.IGNORECASE)


def say(*lines: str, err: bool = False, head: str = "") -> None:
    """Print lines; HEAD is our own, with its colours, and precedes the first."""
    for number, line in enumerate(lines or ("",)):
        click.echo(("" if number else head) + shown(line), err=err)


def complain(message: str, hint: str = "") -> None:
    """Print an error; its further lines are indented, so that they cannot pass for ours."""
    for text in filter(None, (f"pgflash: {message}", hint and f"HINT: {hint}")):
        first, *others = text.splitlines()
        say(first, *(f"  {line}" for line in others), err=True)


def confirm(question: str, *, hint: str = "Confirm with --yes.") -> bool:
    """Ask on the terminal; an error if standard input is none."""
    if not sys.stdin.isatty():
        raise PgflashError("standard input is not a terminal: confirm with --yes", hint=hint)
    return click.confirm(question)


def coloured(text: str, colour: str) -> str:
    """Return a bold text in a colour, for the head of a line."""
    return click.style(shown(text), fg=colour, bold=True)


def words(text: str, style: str = "") -> Text:
    """Return a line for rich, in which nothing counts as markup."""
    return Text(shown(text), style=style)


def cell(text: str) -> str:
    """Return what rich prints as this text, on one line."""
    return escape(visible(text))


def table_text(table: ReportTable, width: int, *, folded: bool = True) -> Text:
    """Return a table for a terminal of this width, each unit beside its column's title.

    Unless FOLDED, a row is one line, and texts are cut.
    """
    printed = print_table(table, signs=False)
    columns = tuple(
        replace(one, title=f"{one.title} {one.unit}".strip(), unit="") for one in printed.columns
    )
    lines: list[Text] = []
    for block in blocks(replace(printed, columns=columns), width, folded=folded):
        lines += [Text()] if lines else []
        lines += [Text(line.rstrip(), style="bold") for line in block.head]
        lines += [Text(line.rstrip()) for line in block.rows]
    return Text("\n").join(lines)


def text_width() -> int:
    """Return how wide a long text is: as the terminal, but no line is hard to follow."""
    console = Console()
    return min(max(console.width, WIDTH), _WIDTH_MAX) if console.is_terminal else WIDTH


def beside(*parts: RenderableType, gap: int) -> RenderableType:
    """Return parts of a window side by side."""
    grid = Table.grid(padding=(0, gap))
    grid.add_row(*parts)
    return grid


def say_table(table: ReportTable) -> None:
    """Print a table, as wide as the terminal; no number in it is cut."""
    Console().print(table_text(table, _width()), soft_wrap=True)


def say_explained(table: ReportTable) -> None:
    """Print a table with its title, its notes, and where each number comes from."""
    say(*(line.rstrip() for line in table_lines(print_table(table), text_width())))


def say_text(text: str, *, indent: str = "", then: str | None = None) -> None:
    """Print sentences, in lines no wider than the terminal; THEN is the next lines' indent."""
    lines = textwrap.wrap(
        unbroken(visible(text)), min(_width(), text_width()), initial_indent=indent,
        subsequent_indent=indent if then is None else then, break_on_hyphens=False,
    )  # fmt: skip
    say(*(line.replace(NO_BREAK, " ") for line in lines))


def say_item(name: str, text: str, *, colour: str = "") -> None:
    """Print the facts about a name: in lines on a terminal, in one line for a program."""
    text = visible(text)
    lines = hanging(name, text, text_width()) if Console().is_terminal else [name + text]
    first, *others = lines
    say(first.removeprefix(name), *others, head=coloured(name, colour) if colour else name)


def say_beside(copied: str, text: str) -> None:
    """Print what is to be copied, and a text: on the next line if a terminal has no room for it."""
    line = f"{copied}  {text}"
    say(*([line] if cell_len(line) <= _width() else [copied, f"  {text}"]))


def _width() -> int:
    console = Console()
    return console.width if console.is_terminal else _PIPED_WIDTH


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print a value as JSON, in whose texts unprinted characters have codes, too."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    click.echo(_printed_json(text))


def _printed_json(text: str) -> str:
    return "".join(
        one if one == "\n" or shown(one) == one else json.dumps(one)[1:-1] for one in text
    )


def print_csv(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a head and rows, as RFC 4180 has them but for the ends of lines."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_csv_cell, row) for row in rows)
    click.echo(text.getvalue(), nl=False)


def _csv_cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula, nor a terminal for a command."""
    if not isinstance(value, str):
        return value
    formula = _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    text = _SEMICOLON.sub(r"\1'", shown(value))
    return f"'{text}" if formula else text


def print_records(columns: Sequence[str], records: Iterable[dict[str, object]]) -> None:
    """Print records that all have these columns, and only these, as CSV."""
    print_csv(columns, ([record[name] for name in columns] for record in records))


def print_rows(form: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print plain rows as json, as csv, or else in columns."""
    if form == "json":
        print_json([dict(zip(head, row, strict=True)) for row in rows])
    elif form == "csv":
        print_csv(head, rows)
    else:
        columns = tuple(Column(name=name, title=name, unit=Unit.TEXT) for name in head)
        cells = tuple(Row(cells=tuple(one)) for one in rows)
        say_table(ReportTable(id="", title="", columns=columns, rows=cells))


def write_page(text: str, output: Path | None, *, what: str) -> None:
    """Write a page to a file and say so; without one, or to -, to standard output.

    The codes of control characters are those of JSON, too.
    """
    if output is None or str(output) == "-":
        sys.stdout.write(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))
        return
    try:
        write_file(output, text.encode())
    except OSError as error:
        raise UsageError(f'could not write "{output}": {error.strerror}') from error
    say(f"{what}: {output}")
