# SPDX-License-Identifier: PostgreSQL
"""The pages beside a run's report: what each server did, and what each approach changed.

One report for each approach, one comparison of each with its baseline, all linked with
each other; the addresses are relative, so the folder can be moved as a whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgflash import api
from pgflash.model.awr import AwrReport, CompareReport
from pgflash.model.run import Approach
from pgflash.model.summary import base_of


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
                api.compare(reports[base], reports[name]),
            )
    links = [("The run", "report.html"), *((title, file) for file, (title, _) in files.items())]
    return [
        PeriodPage(
            file=file,
            title=title,
            text=api.render_period_page(
                report, subject=title, links=[one for one in links if one[1] != file]
            ),
        )
        for file, (title, report) in files.items()
    ]
