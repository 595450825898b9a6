# SPDX-License-Identifier: PostgreSQL
"""What a period says in sentences, most important first.

Each rule is a function that looks at the figures and answers with a finding or None.
It says what is, with the numbers, before it says what to do; good news is news.  What
could be a fault of the data comes first, then where the time went, then what weighs most.
"""

from collections.abc import Callable

from pgflash.analyze.parts import DbTime
from pgflash.analyze.period import Period
from pgflash.analyze.rules import Weighed
from pgflash.analyze.rules_flash import FLASH_RULES
from pgflash.analyze.rules_server import SERVER_RULES
from pgflash.analyze.rules_time import TIME_RULES
from pgflash.model.awr import Finding, Severity

Rule = Callable[[Period, DbTime], Weighed | None]

RULES: tuple[Rule, ...] = (*TIME_RULES, *FLASH_RULES, *SERVER_RULES)

_ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.NOTE, Severity.GOOD)

#: The rule whose finding sums the period up: it stands before all but critical ones.
HEADLINE = "where-the-time-went"


def find(period: Period, found: DbTime) -> tuple[Finding, ...]:
    """Return all findings, the most important first."""
    results = [rule(period, found) for rule in RULES]
    weighed = [result for result in results if result is not None]
    weighed.sort(key=_place)
    return tuple(result.finding for result in weighed)


def _place(result: Weighed) -> tuple[int, float]:
    finding = result.finding
    if finding.rule == HEADLINE:
        return (1, 0.0)
    place = _ORDER.index(finding.severity)
    return (place if place == 0 else place + 1, -result.weight)
