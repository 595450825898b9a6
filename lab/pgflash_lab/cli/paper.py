# SPDX-License-Identifier: PostgreSQL
"""pgflash lab paper: a run beside the tables and figures of the paper that it follows."""

from pathlib import Path

import click

from pgflash.cli.options import examples, form_option, paged_option
from pgflash.cli.output import write_page
from pgflash.cli.screen import patiently
from pgflash_lab import api
from pgflash_lab.cli.options import runs_option


@click.command(
    "paper",
    epilog=examples(
        "pgflash lab paper",
        "pgflash lab paper latest --format json",
        "pgflash lab paper latest -o paper.html --format html",
        "pgflash lab paper latest --paper mine.toml",
    ),
)
@click.argument("run", default="latest")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write (default: standard output).",
)
@click.option(
    "--paper",
    type=click.Path(path_type=Path),
    help="Your own paper, as described in docs/reference/papers.md.",
)
@form_option(
    "text: at most 100 columns; html: one file with charts; json: for programs.",
    forms=api.PAPER_FORMS,
)
@runs_option
@paged_option
def paper_command(
    *, run: str, output: Path | None, paper: Path | None, form: api.PaperForm, root: Path
) -> None:
    """Show a run beside the paper that it follows.

    RUN is an id, "latest", or a path. Shows each table and figure of the paper beside the one
    measured here, and whether they agree.
    """
    with patiently("drawing the page"):
        page = api.render_paper(api.lab_paper(run, paper=paper, store=root), form)
    write_page(page, output, what="Page")
