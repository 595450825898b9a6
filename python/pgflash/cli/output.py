# SPDX-License-Identifier: PostgreSQL
"""What is not for people's eyes alone: CSV, and what goes to a file."""

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from pgflash.errors import UsageError


def print_csv(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a head and rows, as RFC 4180 has them but for the ends of lines."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    click.echo(text.getvalue(), nl=False)


def print_records(columns: Sequence[str], records: Iterable[dict[str, object]]) -> None:
    """Print records that all have these columns, and only these, as CSV."""
    print_csv(columns, ([record[name] for name in columns] for record in records))


def write_page(text: str, output: Path | None, *, what: str) -> None:
    """Write a page to a file and say so; without one, or to -, to standard output."""
    if output is None or str(output) == "-":
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f'could not write "{output}": {error.strerror}') from error
    click.echo(f"{what}: {output}")
