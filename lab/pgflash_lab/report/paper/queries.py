# SPDX-License-Identifier: PostgreSQL
"""A warehouse's queries: which approaches ran the same ones on the array and on flash.

A run has pairs of approaches, one with everything on the array and one with everything on flash.  A
pair has one set of queries, one degree of parallelism and one scale factor, each of which its
approaches may change.  The pair that changes none is the main one: baseline and all-on-flash.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from pgflash_lab.model.formula import Value
from pgflash_lab.model.run import Approach, Attempt, Run
from pgflash_lab.model.summary import BASELINE, summarize
from pgflash_lab.warehouse.model import is_query

_ALL = "all-on-flash"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same queries on the array and on flash."""

    #: In the form of the parameter.
    queries: str
    degree: int
    scale_factor: float
    array: Attempt
    flash: Attempt


@dataclass(frozen=True)
class Pairs:
    """The pairs of a run."""

    run: Run

    def parameter(self, approach: Approach, name: str) -> str:
        """Return a parameter of the workload with the approach's change."""
        return approach.changes.get(name) or self.run.parameters.get(name) or "0"

    def queries(self) -> Iterator[Mapping[str, Value]]:
        """Yield the main pair's queries, and those of pairs that differ from it only in these.

        Each with the approaches that ran it.  A refresh function is no query.
        """
        main = self._main
        if main is None:
            return
        alike = [main] + [
            one
            for one in self._pairs
            if (one.degree, one.scale_factor) == (main.degree, main.scale_factor)
        ]
        array, flash = ({}, {})  # type: ignore[var-annotated]
        for one in alike:
            for attempt, found in ((one.array, array), (one.flash, flash)):
                for step in attempt.steps:
                    if is_query(step.name):
                        found.setdefault(step.name, attempt.approach)
        for name in sorted(array.keys() & flash.keys(), key=_by_number):
            yield {"query": name, "array": array[name], "flash": flash[name]}

    def common(self, approaches: Collection[str]) -> list[str]:
        """Return the queries that each of these approaches ran, if it was measured."""
        measured = [self._middles[one] for one in approaches if one in self._middles]
        return _common(measured)

    def series(self, varied: str) -> list[Mapping[str, Value]]:
        """Return the pairs that differ from the main one only in this, the smallest first."""
        return [
            {
                varied: getattr(one, varied),
                "array": one.array.approach,
                "flash": one.flash.approach,
            }
            for one in self._series(varied)
        ]

    def series_queries(self, varied: str) -> list[Mapping[str, Value]]:
        """Return the queries that all of these pairs ran."""
        sides = [side for one in self._series(varied) for side in (one.array, one.flash)]
        return [{"query": name} for name in _common(sides)]

    def answered(self) -> list[Mapping[str, Value]]:
        """Return the queries to which several attempts at one scale factor gave an answer."""
        names = {name for _, name in self._answers}
        return [{"query": name} for name in sorted(names, key=_by_number)]

    def answers(self, query: str) -> int | None:
        """Return the most answers that a query got at one scale; None if it was run once each."""
        found = [given for (_, name), given in self._answers.items() if name == query]
        several = [given for given in found if len(given) > 1]
        return max(len(set(given)) for given in several) if several else None

    @cached_property
    def _answers(self) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for approach in self.run.approaches:
            size = self.parameter(approach, "scale_factor")
            for attempt in self.run.attempts:
                for step in attempt.steps if attempt.approach == approach.name else ():
                    if step.detail:
                        found.setdefault((size, step.name), []).append(step.detail)
        return found

    @cached_property
    def _middles(self) -> dict[str, Attempt]:
        return {one.approach.name: one.middle for one in summarize(self.run)}

    @property
    def _main(self) -> Pair | None:
        names = (BASELINE, _ALL)
        return next(
            (one for one in self._pairs if (one.array.approach, one.flash.approach) == names), None
        )

    def _series(self, varied: str) -> list[Pair]:
        main = self._main
        if main is None:
            return []
        fixed = "scale_factor" if varied == "degree" else "degree"
        found = [
            one
            for one in self._pairs
            if getattr(one, fixed) == getattr(main, fixed) and one.queries == main.queries
        ]
        return sorted(found, key=lambda one: float(getattr(one, varied)))

    @cached_property
    def _pairs(self) -> list[Pair]:
        sides: dict[tuple[str, ...], dict[str, Attempt]] = {}
        for approach in self.run.approaches:
            plain = not (approach.cache or approach.objects or approach.keep)
            one_place = {approach.wal, approach.temp or approach.data} == {approach.data}
            middle = self._middles.get(approach.name)
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


def _common(attempts: Collection[Attempt]) -> list[str]:
    """Return the queries that all of these attempts ran, in the order of their numbers."""
    sets = [{step.name for step in one.steps if is_query(step.name)} for one in attempts]
    return sorted(set.intersection(*sets), key=_by_number) if sets else []


def _by_number(name: str) -> tuple[int, str]:
    """Return a sort key: Q1 to Q22, each by stream."""
    first, _, _stream = name.partition(" ")
    digits = "".join(letter for letter in first if letter.isdigit())
    return int(digits or 0), name
