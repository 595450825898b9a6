# SPDX-License-Identifier: PostgreSQL
"""Comparisons of a paper's figures with ours, each with a sentence on the result.

A verdict follows from these alone.  Each gives both figures and the measure by which they agree; if
either is missing, there is no check (None).
"""

from collections.abc import Mapping

from pgflash.model.words import figure
from pgflash_lab.model.exhibit import Check
from pgflash_lab.model.paper import FACTOR

#: A change by less than this share does not count as a change.
STEADY = 0.05


def same_order(
    what: str, *, paper: Mapping[str, float], ours: Mapping[str, float], sign: str = "<"
) -> Check | None:
    """Check that both sides' measurements have the same order.

    SIGN is written between the names: "<" puts the smallest first, ">" the largest.
    """
    common = [name for name in paper if name in ours]
    if len(common) < 2:
        return None

    def order(numbers: Mapping[str, float]) -> list[str]:
        return sorted(common, key=lambda name: numbers[name], reverse=sign == ">")

    theirs, own = order(paper), order(ours)
    between = f" {sign} "
    if theirs == own:
        return Check(holds=True, says=f"{what}: the same order, {between.join(own)}.")
    return Check(
        holds=False,
        says=f"{what}: the paper's order is {between.join(theirs)}, here it is "
        f"{between.join(own)}.",
    )


def within(
    what: str,
    *,
    paper: float | None,
    ours: float | None,
    unit: str = "",
    factor: float = FACTOR,
) -> Check | None:
    """Check that neither number is more than FACTOR times the other."""
    if paper is None or ours is None or paper <= 0:
        return None
    holds = ours > 0 and max(ours / paper, paper / ours) <= factor
    found = "within" if holds else "not within"
    return Check(
        holds=holds,
        says=f"{what}: {_with(paper, unit)} in the paper, {_with(ours, unit)} here; "
        f"{found} a factor of {factor:g}.",
    )


def same_direction(
    what: str,
    *,
    paper: tuple[float | None, float | None],
    ours: tuple[float | None, float | None],
    unit: str = "",
) -> Check | None:
    """Check that from before to after both sides rise, both fall, or neither changes."""
    (paper_before, paper_after), (before, after) = paper, ours
    if paper_before is None or paper_after is None or before is None or after is None:
        return None
    theirs, own = _way(paper_before, paper_after), _way(before, after)
    figures = (
        f"{_with(paper_before, unit)} to {_with(paper_after, unit)} in the paper, "
        f"{_with(before, unit)} to {_with(after, unit)} here"
    )
    if theirs == own:
        return Check(holds=True, says=f"{what} {own} in both: {figures}.")
    return Check(holds=False, says=f"{what} {theirs} in the paper and {own} here: {figures}.")


def same_first(what: str, *, paper: str | None, ours: str | None) -> Check | None:
    """Check that the same thing comes first on both sides."""
    if not paper or not ours:
        return None
    if paper == ours:
        return Check(holds=True, says=f"{what} is the same in both: {ours}.")
    return Check(holds=False, says=f"{what} is {paper} in the paper and {ours} here.")


def _way(before: float, after: float) -> str:
    if abs(after - before) <= STEADY * max(abs(before), abs(after)):
        return "hardly changes"
    return "rises" if after > before else "falls"


def _with(value: float, unit: str) -> str:
    return f"{figure(value)} {unit}".strip() if unit != "%" else f"{figure(value)} %"
