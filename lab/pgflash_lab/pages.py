# SPDX-License-Identifier: PostgreSQL
"""What is derived from a run: its report, and the pages beside it.

They show what each server did, what each approach changed, and the paper that the run follows.
There is one report for each approach and one comparison of each with its baseline, all linked with
each other.  The addresses are relative, so the folder can be moved as a whole.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgflash.analyze import compare
from pgflash.model.awr import AwrReport, CompareReport
from pgflash.report.awr import render_html
from pgflash_lab.analyze.check import predict_run
from pgflash_lab.model.exhibit import PaperPage
from pgflash_lab.model.paper import Paper
from pgflash_lab.model.run import Approach, Run
from pgflash_lab.model.summary import base_of
from pgflash_lab.report import render_page, result
from pgflash_lab.report.paper import build_page, build_paper, render_paper, render_paper_html
from pgflash_lab.store import (
    PAPER_FILE,
    PAPER_RESULT_FILE,
    REPORT_FILE,
    RESULT_FILE,
    periods_of,
    write_file,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodPage:
    """A page of its own: file, title, HTML."""

    file: str
    title: str
    text: str


def period_pages(
    reports: Mapping[str, AwrReport], approaches: Sequence[Approach]
) -> list[PeriodPage]:
    """Return the pages for the approaches' reports."""
    titles = {approach.name: approach.title for approach in approaches}
    files: dict[str, tuple[str, AwrReport | CompareReport]] = {
        f"awr-{name}.html": (titles.get(name, name), report) for name, report in reports.items()
    }
    for approach in approaches:
        name, base = approach.name, base_of(approach)
        if name in reports and base in reports and name != base:
            files[f"compare-{name}.html"] = (
                f"{titles.get(base, base)}, then {titles[name]}",
                compare(reports[base], reports[name]),
            )
    links = [("The run", "report.html"), *((title, file) for file, (title, _) in files.items())]
    return [
        PeriodPage(
            file=file,
            title=title,
            text=render_html(report, subject=title, links=[one for one in links if one[1] != file]),
        )
        for file, (title, report) in files.items()
    ]


def write_products(folder: Path, run: Run) -> Path:
    """Write everything derived from a run; return the report's path."""
    text = json.dumps(result(run), indent=2, ensure_ascii=False)
    write_file(folder / RESULT_FILE, text.encode() + b"\n")
    periods = periods_of(folder, run)
    pages = period_pages(periods, run.approaches)
    for page in pages:
        write_file(folder / page.file, page.text.encode())
    report = folder / REPORT_FILE
    links = [(page.title, page.file) for page in pages]
    beside = paper_page(run, periods)
    if beside is not None:
        html = render_paper_html(beside, links=[("The run", REPORT_FILE), *links])
        write_file(folder / PAPER_FILE, html.encode())
        write_file(folder / PAPER_RESULT_FILE, render_paper(beside, "json").encode())
        links.insert(0, (f"Paper {run.paper}: its tables and figures beside ours", PAPER_FILE))
    write_file(report, render_page(run, links=links).encode())
    return report


def paper_page(
    run: Run, reports: Mapping[str, AwrReport], paper: Paper | None = None
) -> PaperPage | None:
    """Return the page of a paper beside a run, with the run's predictions.

    Without PAPER it is the one that the run follows; None if it follows none.  Reports are by
    approach.
    """
    page = build_page(paper, run, reports) if paper else build_paper(run.paper, run, reports)
    if page is None:
        return None
    checks = predict_run(run, reports)
    if not checks.errors:
        return page
    *first, last = page.sentences  # the paper's own measurements come last
    said = f"Predicted from the baseline: {checks.sentence[:1].lower()}{checks.sentence[1:]}"
    return replace(page, sentences=(*first, said, last), predictions=checks.table())
