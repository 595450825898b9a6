# SPDX-License-Identifier: PostgreSQL
"""Pages that compare a run with a paper: each of its tables and figures, and ours.

One module for each paper builds its page, with

    build(run, reports) -> PaperPage

from a run and the reports on its approaches' middle attempts, by the approaches' names.  A figure
that a run lacks is not an error: the exhibit says what is missing.

    parts     tables of ours in the form that papers print, and charts of runs
    checks    comparisons, and the sentences that say what they found
    html, text, stored     the page, for a browser, a terminal and programs
"""

from collections.abc import Callable, Mapping
from typing import Literal

from pgflash.model.awr import AwrReport
from pgflash_lab.model.exhibit import PaperPage
from pgflash_lab.model.paper import PAPERS, read_paper
from pgflash_lab.model.run import Run
from pgflash_lab.report.paper import checks, p002, p003, p004
from pgflash_lab.report.paper.build import build_page
from pgflash_lab.report.paper.html import render_paper_html
from pgflash_lab.report.paper.stored import paper_to_json
from pgflash_lab.report.paper.text import render_paper_text

PaperForm = Literal["text", "html", "json"]
PAPER_FORMS: tuple[PaperForm, ...] = ("text", "html", "json")

__all__ = [
    "BUILDERS",
    "PAPER_FORMS",
    "PaperForm",
    "build_paper",
    "checks",
    "render_paper",
    "render_paper_html",
    "render_paper_text",
]

Builder = Callable[[Run, Mapping[str, AwrReport]], PaperPage]

#: By the paper's number.
BUILDERS: dict[str, Builder] = {
    "002": p002.build,
    "003": p003.build,
    "004": p004.build,
}


def build_paper(paper: str, run: Run, reports: Mapping[str, AwrReport]) -> PaperPage | None:
    """Return the page of a paper beside a run; None if the paper has no page."""
    if paper not in PAPERS:
        return None
    build = BUILDERS.get(paper)
    return build_page(read_paper(paper), run, reports) if build is None else build(run, reports)


def render_paper(page: PaperPage, form: PaperForm) -> str:
    """Return the page in a form."""
    return _RENDERERS[form](page)


_RENDERERS: dict[PaperForm, Callable[[PaperPage], str]] = {
    "text": render_paper_text,
    "html": render_paper_html,
    "json": paper_to_json,
}
