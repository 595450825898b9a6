# SPDX-License-Identifier: PostgreSQL
"""What the papers measured, next to which our own figures are shown.

Paper 000 (a 24-disk array, HammerDB with 100 users, one hour) headlines percentages
that do not agree with its own tables.  The ratios used here are derived from its AWR
extracts: commits of the hour (log file sync waits) over the baseline's.
"""

from dataclasses import dataclass

#: Commits (log file sync waits) in the baseline hour of paper 000.
BASELINE_COMMITS = 8_272_975


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFigure:
    """One approach as a paper reports it."""

    approach: str
    title: str
    commits: int
    #: What the paper prints, as printed.
    printed: str
    note: str

    @property
    def ratio(self) -> float:
        """Return commits over the baseline's commits."""
        return self.commits / BASELINE_COMMITS


PAPER_000 = (
    PaperFigure(
        approach="baseline",
        title="Everything on the array",
        commits=BASELINE_COMMITS,
        printed="",
        note="Log file sync in the wait classes (Commit) of its figure 3.",
    ),
    PaperFigure(
        approach="flash-cache",
        title="Flash cache",
        commits=11_236_170,
        printed="136 %",
        note="Printed as an improvement of 136 %; it is 136 % of the baseline. 77 % of its "
        "single-block reads were served by the flash cache.",
    ),
    PaperFigure(
        approach="wal-on-flash",
        title="Redo log on flash",
        commits=13_476_872,
        printed="63 %",
        note="The only printed percentage that is an increase. 21 % of this run's "
        "single-block reads were served by a flash cache that was still on.",
    ),
    PaperFigure(
        approach="hot-objects",
        title="Hot objects on flash",
        commits=24_907_581,
        printed="302 %",
        note="Printed as an improvement of 302 %; it is 301 % of the baseline.",
    ),
    PaperFigure(
        approach="all-on-flash",
        title="Everything on flash",
        commits=42_783_790,
        printed="538 % (5.3X)",
        note="Printed as an increase of 538 %; its own counts give 517 % of the baseline.",
    ),
)


def paper_figure(approach: str) -> PaperFigure | None:
    """Return what paper 000 measured for an approach, or None if it has none."""
    return next((figure for figure in PAPER_000 if figure.approach == approach), None)
