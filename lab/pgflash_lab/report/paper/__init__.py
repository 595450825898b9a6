# SPDX-License-Identifier: PostgreSQL
"""Pages that compare a run with a paper: each of its tables and figures, and ours.

A paper is data (papers/NNN.toml, docs/reference/papers.md); no code knows any of them.  A page is
built from a run and the reports on its approaches' middle attempts, by the approaches' names.  A
figure that a run lacks is not an error: the exhibit says what is missing.

    build     the page: tables, charts and checks of each exhibit
    evaluate  what the names in a paper's formulas mean, with load (peaks and means), queries (of a
              warehouse) and host (processors and devices second by second)
    checks    comparisons, and the sentences that say what they found
    parts     tables cut out of a report
    drawing   charts as SVG
    html, text, stored     the page, for a browser, a terminal and programs
"""

from collections.abc import Callable, Mapping
from typing import Literal

from pgflash.model.awr import AwrReport
from pgflash_lab.model.exhibit import PaperPage
from pgflash_lab.model.paper import PAPERS, read_paper
from pgflash_lab.model.run import Run
from pgflash_lab.report.paper import checks
from pgflash_lab.report.paper.build import build_page
from pgflash_lab.report.paper.html import render_paper_html
from pgflash_lab.report.paper.stored import paper_to_json
from pgflash_lab.report.paper.text import render_paper_text

PaperForm = Literal["text", "html", "json"]
PAPER_FORMS: tuple[PaperForm, ...] = ("text", "html", "json")

__all__ = [
    "PAPER_FORMS",
    "PaperForm",
    "build_page",
    "build_paper",
    "checks",
    "render_paper",
    "render_paper_html",
    "render_paper_text",
]


def build_paper(paper: str, run: Run, reports: Mapping[str, AwrReport]) -> PaperPage | None:
    """Return the page of a paper beside a run; None if the paper has no page."""
    return build_page(read_paper(paper), run, reports) if paper in PAPERS else None


def render_paper(page: PaperPage, form: PaperForm) -> str:
    """Return the page in a form."""
    return _RENDERERS[form](page)


_RENDERERS: dict[PaperForm, Callable[[PaperPage], str]] = {
    "text": render_paper_text,
    "html": render_paper_html,
    "json": paper_to_json,
}
