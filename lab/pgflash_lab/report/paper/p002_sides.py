# SPDX-License-Identifier: PostgreSQL
"""Paper 002 and a run: which approach corresponds to what.

A run has pairs of approaches, one with everything on the array and one with everything on flash.  A
pair has one set of queries, one degree of parallelism and one scale factor, each of which its
approaches may change.  The pair that changes none is the main one: BASELINE and ALL.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pgflash.model.awr import AwrReport
from pgflash_lab.model.paper import read_paper
from pgflash_lab.model.run import Approach, Attempt, Run
from pgflash_lab.model.summary import BASELINE
from pgflash_lab.report.paper import parts

PAPER = read_paper("002")

ALL, TEMP = "all-on-flash", "temp-on-flash"

#: The column of its tables of events and classes.
SHARE = "% DB Time"

RATIO_IS_SET = (
    "How many times faster flash is follows from what the processors can take in against what "
    "the array can give, and that is set: the array here is cut to this machine's processors "
    "as the paper's was to its sixteen."
)

PAPER_EVENTS = {BASELINE: PAPER.exhibit("table-2"), ALL: PAPER.exhibit("table-4")}
PAPER_CLASSES = {BASELINE: PAPER.exhibit("table-3"), ALL: PAPER.exhibit("table-5")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same queries on the array and on flash."""

    #: In the form of the parameter.
    queries: str
    degree: int
    scale_factor: float
    array: Attempt
    flash: Attempt

    def array_s(self, names: Collection[str]) -> float:
        """Return how long these queries took on the array."""
        return seconds_of(self.array, names)

    def flash_s(self, names: Collection[str]) -> float:
        """Return how long these queries took on flash."""
        return seconds_of(self.flash, names)

    def times(self, names: Collection[str]) -> float:
        """Return how many times faster flash is at these queries."""
        return self.array_s(names) / max(self.flash_s(names), 1e-9)


def seconds_of(attempt: Attempt, names: Collection[str]) -> float:
    """Return how long an attempt took for these queries."""
    return sum(step.elapsed_s for step in attempt.steps if step.name in names)


def common_queries(attempts: Iterable[Attempt]) -> list[str]:
    """Return the queries that all of these attempts ran, in the order of their numbers."""
    sets = [{step.name for step in one.steps} for one in attempts]
    return sorted(set.intersection(*sets), key=number_of) if sets else []


def number_of(name: str) -> tuple[bool, int, str]:
    """Return a sort key: Q1 to Q22, then the refresh functions, each by stream."""
    first, _, _stream = name.partition(" ")
    digits = "".join(letter for letter in first if letter.isdigit())
    return name.startswith("RF"), int(digits or 0), name


class Sides:
    """The figures of each approach in a run."""

    def __init__(self, run: Run, reports: Mapping[str, AwrReport]) -> None:
        self.run = run
        self.reports = reports
        self.middles = parts.middle_attempts(run)
        self.pairs = self._find_pairs()

    def missing(self, *approaches: str, reported: bool = True) -> str:
        """Say why an exhibit about these approaches cannot be shown; "" if it can."""
        return parts.why_missing(self.run, self.reports if reported else approaches, *approaches)

    def parameter(self, approach: Approach, name: str) -> str:
        """Return a parameter of the workload with the approach's change."""
        return approach.changes.get(name) or self.run.parameters.get(name) or "0"

    def pair(self) -> Pair | None:
        """Return the main pair, which changes nothing."""
        names = {BASELINE, ALL}
        return next(
            (one for one in self.pairs if {one.array.approach, one.flash.approach} == names), None
        )

    def series(self, varied: str) -> list[Pair]:
        """Return the pairs that differ from the main one only in this, including the main one."""
        main = self.pair()
        if main is None:
            return []
        fixed = "scale_factor" if varied == "degree" else "degree"
        found = [
            one
            for one in self.pairs
            if getattr(one, fixed) == getattr(main, fixed) and one.queries == main.queries
        ]
        return sorted(found, key=lambda one: float(getattr(one, varied)))

    def whole(self) -> Pair | None:
        """Return the main pair, with the queries of pairs that differ from it only in these."""
        whole = self.pair()
        for one in self.pairs:
            if whole is not None and (one.degree, one.scale_factor) == (
                whole.degree,
                whole.scale_factor,
            ):
                whole = dataclasses.replace(
                    whole,
                    array=_with_steps_of(whole.array, one.array),
                    flash=_with_steps_of(whole.flash, one.flash),
                )
        return whole

    def _find_pairs(self) -> list[Pair]:
        sides: dict[tuple[str, ...], dict[str, Attempt]] = {}
        for approach in self.run.approaches:
            plain = not (approach.cache or approach.objects or approach.keep)
            one_place = {approach.wal, approach.temp or approach.data} == {approach.data}
            middle = self.middles.get(approach.name)
            if middle is None or not plain or not one_place or middle.duration_s <= 0:
                continue
            names = ("queries", "degree", "scale_factor")
            key = tuple(self.parameter(approach, name) for name in names)
            sides.setdefault(key, {}).setdefault(approach.data, middle)
        return [
            Pair(
                queries=queries,
                degree=int(degree),
                scale_factor=float(size),
                array=one["array"],
                flash=one["flash"],
            )
            for (queries, degree, size), one in sides.items()
            if {"array", "flash"} <= set(one)
        ]


def _with_steps_of(attempt: Attempt, other: Attempt) -> Attempt:
    """Return an attempt with additional steps of another, and their facts."""
    mine = {step.name for step in attempt.steps}
    steps = [step for step in other.steps if step.name not in mine]
    theirs = tuple(f"{step.name}." for step in steps)
    facts = {name: value for name, value in other.facts.items() if name.startswith(theirs)}
    return dataclasses.replace(
        attempt,
        steps=(*attempt.steps, *steps),
        facts=attempt.facts | facts if theirs else attempt.facts,
    )
