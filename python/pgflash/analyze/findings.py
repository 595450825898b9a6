# SPDX-License-Identifier: PostgreSQL
"""What a period shows, in sentences, the most important first.

Each rule is a function that looks at the figures and returns a finding or None.  A finding states
the facts, with the numbers, before it says what to do; good news is a finding, too.  Possible
faults of the data come first, then a sentence that sums up the period, then what costs most.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pgflash.analyze.consistency import contradictions_of
from pgflash.analyze.parts import DbTime
from pgflash.analyze.period import Period
from pgflash.analyze.possible import possible
from pgflash.analyze.rules import SESSIONS_MIN, Weighed, finding
from pgflash.analyze.rules_flash import FLASH_RULES
from pgflash.analyze.rules_server import SERVER_RULES
from pgflash.analyze.rules_time import TIME_RULES
from pgflash.model.awr import HEADLINE, Finding, ReportTable, Severity
from pgflash.model.words import count, things

Rule = Callable[[Period, DbTime], Weighed | None]

RULES: tuple[Rule, ...] = (*TIME_RULES, *FLASH_RULES, *SERVER_RULES)

_ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.NOTE, Severity.GOOD)

#: The rule about a table whose numbers contradict each other.
SUMS = "sums-disagree"

#: The rule about values that no server can have.
IMPOSSIBLE = "impossible-values"

#: The rule about a period that is not the one that was asked for.
OTHER_PERIOD = "other-period"

#: The rule about values of the report's own that cannot be.
LEFT_OUT = "values-left-out"

#: Tables that divide DB time, and so must add up.
_CHECKED = ("top-events", "wait-classes")


def find(period: Period, found: DbTime, tables: Sequence[ReportTable] = ()) -> tuple[Finding, ...]:
    """Return all findings on a period and on its tables, the most important first."""
    results = [rule(period, found) for rule in RULES]
    results += [_impossible(period), _not_as_asked(period)]
    results += [_sums(table) for table in tables if table.id in _CHECKED]
    results.append(_left_out([one for table in tables for one in possible(table)[1]]))
    weighed = [_in_an_idle_server(one, found) for one in results if one is not None]
    weighed.sort(key=_place)
    found_all = [result.finding for result in weighed]
    worst = min(
        (one.severity for one in found_all if one.cost is not None),
        key=_ORDER.index,
        default=Severity.NOTE,
    )
    return tuple(replace(one, severity=worst) if one.rule == HEADLINE else one for one in found_all)


def _in_an_idle_server(result: Weighed, found: DbTime) -> Weighed:
    """Return a finding, which is a note if it costs a share of next to nothing."""
    composition = found.composition
    sessions = composition.sessions(composition.db_time_s)
    if result.finding.cost is None or sessions is None or sessions >= SESSIONS_MIN:
        return result
    return replace(result, finding=replace(result.finding, severity=Severity.NOTE))


def _not_as_asked(period: Period) -> Weighed | None:
    """Say that the period is not the one that was asked for."""
    if not period.not_as_asked:
        return None
    return finding(
        OTHER_PERIOD, Severity.WARNING, period.not_as_asked, table="", weight=float("inf")
    )


def _impossible(period: Period) -> Weighed | None:
    """Say which values of the snapshots no server can have."""
    said = period.impossible
    if not said:
        return None
    return finding(
        IMPOSSIBLE,
        Severity.CRITICAL,
        f"The snapshots contain {things(len(said), 'value')} that no server can have: {said[0]}.",
        *said[1:_SHOWN],
        _others(said),
        table="",
        advice="These values are left out. The snapshots were damaged or tampered with: do not "
        "rely on figures from these sections.",
        weight=2.0,
    )


def _left_out(said: Sequence[str]) -> Weighed | None:
    """Say which values were left out, because they cannot be."""
    if not said:
        return None
    return finding(
        LEFT_OUT,
        Severity.NOTE,
        f"{things(len(said), 'impossible value')}, such as a share above 100 % or a negative "
        f"amount, {'was' if len(said) == 1 else 'were'} left out of this report.",
        *said[:_SHOWN],
        _others(said),
        table="",
        advice="In a short period, samples and clocks can disagree this much: choose a longer one.",
    )


def _others(said: Sequence[str]) -> str:
    return f"{count(len(said) - _SHOWN)} more" if len(said) > _SHOWN else ""


def _sums(table: ReportTable) -> Weighed | None:
    """Say which numbers of a table contradict each other."""
    said = contradictions_of(table)
    if not said:
        return None
    return finding(
        SUMS,
        Severity.CRITICAL,
        f'The numbers in "{table.title}" contradict each other: {said[0]}.',
        *said[1:_SHOWN],
        _others(said),
        table=table.id,
        advice="Do not rely on this table. If reports on other periods have the same "
        "contradiction, please report a bug and attach this report as JSON.",
        weight=1.0,
    )


#: At most this many contradictions are listed one by one.
_SHOWN = 5


def _place(result: Weighed) -> tuple[int, float]:
    if result.finding.rule == HEADLINE:  # only critical findings precede it
        return (1, 0.0)
    place = _ORDER.index(result.finding.severity)
    return (place if place == 0 else place + 1, -result.weight)
