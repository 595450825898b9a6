# SPDX-License-Identifier: PostgreSQL
"""A paper's page as plain text, never wider than a report's: for terminals and mail.

Anybody may have written a run's titles, so control characters are made visible.
"""

from collections.abc import Iterator

from pgflash.report.lines import WIDTH, hanging, heading, table_lines, wrap
from pgflash.report.printed import print_table, visible
from pgflash_lab.model.exhibit import Exhibit, PaperPage


def render_paper_text(page: PaperPage) -> str:
    """Return the page as text, without its charts."""
    return "\n".join(line.rstrip() for line in _lines(page)) + "\n"


def _lines(page: PaperPage) -> Iterator[str]:
    yield from wrap(visible(f"Paper {page.paper}: {page.title}"), WIDTH)
    beside = f"{page.by}. Beside it: {page.run_title}, run {page.run_id}."
    yield from wrap(visible(beside), WIDTH)
    yield ""
    for sentence in page.sentences:
        yield from wrap(visible(sentence), WIDTH)
    for sentence in page.cautions:
        yield from hanging("! ", visible(sentence))
    for exhibit in page.exhibits:
        yield from _exhibit(exhibit)
    if page.predictions is not None:
        yield ""
        yield from heading("Predicted, and measured")
        yield from table_lines(print_table(page.predictions))
    if page.errata:
        yield ""
        yield from heading("About the paper")
        for erratum in page.errata:
            yield from hanging("- ", erratum)


def _exhibit(exhibit: Exhibit) -> Iterator[str]:
    yield ""
    yield from heading(f"{exhibit.label}: {exhibit.title}")
    yield from hanging(f"{str(exhibit.verdict).upper()}: ", visible(exhibit.sentence))
    for erratum in exhibit.errata:
        yield from hanging("About the paper: ", erratum)
    for whose, table in (("The paper", exhibit.paper), ("Here", exhibit.ours)):
        if table is not None:
            yield ""
            yield f"{whose}:"
            yield from table_lines(print_table(table))
