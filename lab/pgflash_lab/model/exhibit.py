# SPDX-License-Identifier: PostgreSQL
"""A paper's page as plain values: its tables and figures, each beside our measurements.

An exhibit is one table or figure of a paper: what the paper prints, the results of a run of ours,
charts of them, and checks.  A check is a question whose answer follows from the figures of both
("is the order the same", "is the ratio within a factor of 2"), so the verdict is computed and
nobody writes it.  A measurement that we lack is an exhibit, too: it says why it is missing.

Code that prints a page need not know any paper; code that builds one (report/paper/build.py) need
not know HTML.
"""

import enum
from dataclasses import dataclass

from pgflash.model.awr import ReportTable
from pgflash.model.chart import Chart


class Verdict(enum.StrEnum):
    """Whether our measurements agree with what the paper printed."""

    AGREES = "agrees"
    PARTLY = "agrees in part"
    DIFFERS = "differs"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison."""

    holds: bool
    #: The result, with the figures of both: a whole sentence that says what holds or does not.
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One table or figure of a paper."""

    #: Id of its place on the page: "fig-4".
    id: str
    #: The paper's name for it: "Figure 4".
    label: str
    title: str
    #: What the paper prints, and what we measured; None if it has no numbers.
    paper: ReportTable | None = None
    ours: ReportTable | None = None
    charts: tuple[Chart, ...] = ()
    checks: tuple[Check, ...] = ()
    #: Why the two differ, in a sentence or two; shown if not all checks hold.
    reason: str = ""
    #: Why there is nothing of ours to compare.
    missing: str = ""
    #: Errors and misleading figures of the paper.
    errata: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return the verdict that follows from the checks."""
        if self.missing or not self.checks:
            return Verdict.NOT_SHOWN
        held = sum(check.holds for check in self.checks)
        if held == len(self.checks):
            return Verdict.AGREES
        return Verdict.PARTLY if held else Verdict.DIFFERS

    @property
    def sentence(self) -> str:
        """Return where the two agree, where they do not, and why."""
        if self.missing:
            return self.missing
        if not self.checks:
            return "There is nothing on both sides that could be compared."
        said = [check.says for check in self.checks if check.holds]
        denied = [check.says for check in self.checks if not check.holds]
        why = [self.reason] if denied and self.reason else []
        return " ".join([*said, *denied, *why])


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperPage:
    """A whole paper beside a run."""

    #: "000".
    paper: str
    title: str
    #: Its author and date.
    by: str
    #: The run to which it is compared.
    run_id: str
    run_title: str
    pgflash_version: str
    #: The results, the most important first.
    sentences: tuple[str, ...]
    #: What weakens the figures.
    cautions: tuple[str, ...] = ()
    exhibits: tuple[Exhibit, ...]
    #: The prediction for each approach from the baseline, and its measurement.
    predictions: ReportTable | None = None
    #: What is wrong in the paper as a whole.
    errata: tuple[str, ...] = ()

    def exhibit(self, exhibit_id: str) -> Exhibit:
        """Return the exhibit with this id."""
        for one in self.exhibits:
            if one.id == exhibit_id:
                return one
        raise KeyError(f"the page has no exhibit {exhibit_id}")
