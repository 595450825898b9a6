# SPDX-License-Identifier: PostgreSQL
"""A paper's page as plain values: its tables and figures, each beside what we measured.

An exhibit is one table or figure of a paper: what the paper prints, what a run of ours
came to, charts of it, and checks.  A check is a question with an answer that follows from
both sides' figures ("is the order the same", "is the ratio within a factor of 2"), so the
verdict is computed and nobody writes it.  What we have not measured is an exhibit too: it
says why it is missing.

Who prints a page (report/paper) needs to know no paper; who builds one
(report/paper/pNNN.py) needs to know no HTML.
"""

import enum
from dataclasses import dataclass

from pgflash.model.awr import ReportTable


class Verdict(enum.StrEnum):
    """Whether what we measured agrees with what the paper printed."""

    AGREES = "agrees"
    PARTLY = "agrees in part"
    DIFFERS = "differs"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was compared."""

    holds: bool
    #: What was found, with both sides' figures: a whole sentence, of what holds or does not.
    says: str


class ChartForm(enum.StrEnum):
    """How a chart is drawn."""

    #: A bar for each label and series, lying, with its number: for a handful of labels.
    BARS = "bars"
    #: Standing bars without numbers: for many labels.
    COLUMNS = "columns"
    #: Over seconds.
    LINES = "lines"
    #: Areas upon each other, over seconds.
    STACKED = "stacked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSeries:
    """One line, area, or row of bars: a value for each label or moment, None where none is."""

    name: str
    values: tuple[float | None, ...]
    #: The paper's figures are drawn pale, ours strong.
    of_paper: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing of numbers that stand in a table of the same exhibit."""

    form: ChartForm
    #: What is drawn.
    title: str
    #: Of the values: "ms", "reads/s", "times the baseline"; "share" is drawn in percent.
    unit: str
    series: tuple[ChartSeries, ...]
    #: Of bars and columns.
    labels: tuple[str, ...] = ()
    #: Of lines and areas: begin of each value, in seconds since the begin of measuring.
    at_s: tuple[float, ...] = ()
    #: How long each value of a line or an area stands: all the same, or each its own.
    every_s: float = 1.0
    lasting_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One table or figure of a paper."""

    #: Of its place on the page: "fig-4".
    id: str
    #: As the paper calls it: "Figure 4".
    label: str
    title: str
    #: What the paper prints, and what we measured; None if it has no numbers.
    paper: ReportTable | None = None
    ours: ReportTable | None = None
    charts: tuple[Chart, ...] = ()
    checks: tuple[Check, ...] = ()
    #: Why the two differ where they do, a sentence or two; shown where not all checks hold.
    reason: str = ""
    #: Why there is nothing of ours to compare.
    missing: str = ""
    #: What is wrong, or easily misread, in what the paper prints.
    errata: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return what the checks come to."""
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
    """Everything of one paper beside a run."""

    #: "000".
    paper: str
    title: str
    #: Who wrote it, when.
    by: str
    #: The run that is set beside it.
    run_id: str
    run_title: str
    pgflash_version: str
    #: What came out, most important first.
    sentences: tuple[str, ...]
    #: What weakens the figures.
    cautions: tuple[str, ...] = ()
    exhibits: tuple[Exhibit, ...]
    #: What was predicted for each approach from the baseline, and what was measured.
    predictions: ReportTable | None = None
    #: What is wrong in the paper as a whole.
    errata: tuple[str, ...] = ()

    def exhibit(self, exhibit_id: str) -> Exhibit:
        """Return the exhibit with this id."""
        for one in self.exhibits:
            if one.id == exhibit_id:
                return one
        raise KeyError(f"the page has no exhibit {exhibit_id}")
