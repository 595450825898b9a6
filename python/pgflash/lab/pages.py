# SPDX-License-Identifier: PostgreSQL
"""The pages beside a run's report: what each server did, and what each approach changed.

One report for each approach, one comparison of each with the baseline, all linked with
each other; the addresses are relative, so the folder can be moved as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pgflash import api
from pgflash.model.awr import AwrReport, CompareReport
from pgflash.model.summary import BASELINE


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodPage:
    """A page of its own: file, title, HTML."""

    file: str
    title: str
    text: str


def period_pages(
    reports: Mapping[str, AwrReport], *, titles: Mapping[str, str]
) -> list[PeriodPage]:
    """Return the pages for the approaches' reports."""
    files: dict[str, tuple[str, AwrReport | CompareReport]] = {
        f"awr-{name}.html": (titles.get(name, name), report) for name, report in reports.items()
    }
    if BASELINE in reports:
        base, base_title = reports[BASELINE], titles.get(BASELINE, BASELINE)
        files |= {
            f"compare-{name}.html": (
                f"{base_title}, then {titles.get(name, name)}",
                api.compare(base, report),
            )
            for name, report in reports.items()
            if name != BASELINE
        }
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
