# SPDX-License-Identifier: PostgreSQL
"""pgflash lab paper: a run beside the tables and figures of the paper that it follows."""

import sys
from pathlib import Path

import click

from pgflash import api
from pgflash.errors import UsageError
from pgflash.lab import store as stores


@click.command(
    "paper",
    epilog="Examples: pgflash lab paper; pgflash lab paper latest --format json; pgflash lab paper "
    "latest -o paper.html --format html",
)
@click.argument("run", default="latest")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write; else standard output.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(api.PAPER_FORMS),
    default="text",
    show_default=True,
    help="text: at most 100 columns; html: one file with charts; json: for programs.",
)
@click.option(
    "--store",
    "root",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out"),
    show_default=True,
    help="Folder that keeps runs and loaded databases.",
)
def paper_command(*, run: str, output: Path | None, form: api.PaperForm, root: Path) -> None:
    """Set RUN (an id, "latest", or a path) beside the paper that it follows.

    Each table and figure of the paper, with ours beside it, and whether they agree.
    """
    store = stores.Store(root=root)
    stored = store.read(run)
    path = Path(run)
    folder = path.parent if path.is_file() else store.find(run)
    page = api.paper_page(stored, stores.periods_of(folder, stored))
    if page is None:
        raise UsageError(
            f"run {stored.id} follows no paper",
            hint="'pgflash lab list' shows which scenarios do.",
        )
    text = api.render_paper(page, form)
    if output is None or str(output) == "-":
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f'could not write "{output}": {error.strerror}') from error
    click.echo(f"Page: {output}")
