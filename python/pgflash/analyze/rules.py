# SPDX-License-Identifier: PostgreSQL
"""Common code of the rules behind the findings.

A finding that costs DB time is as serious as its share of it: a warning from a fifth on, unless
there is next to no DB time.  The rule decides how serious a finding is that costs none: a fault or
good news.
"""

from dataclasses import dataclass

from pgflash.analyze.dbtime import Composition
from pgflash.model.awr import Finding, Severity
from pgflash.model.words import duration, percent

#: A finding about a smaller share of DB time is a note.
WARN_MIN = 0.2

#: Fewer active sessions than this are not a load.
SESSIONS_MIN = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A finding with its weight among those of its severity: usually a share."""

    finding: Finding
    weight: float


def finding(
    rule: str,
    severity: Severity,
    sentence: str,
    *evidence: str,
    table: str,
    advice: str = "",
    weight: float = 0.0,
    cost: float | None = None,
) -> Weighed:
    """Return a finding with its weight; COST, a share of DB time, is one (at most all of it)."""
    return Weighed(
        finding=Finding(
            rule=rule,
            severity=severity,
            sentence=sentence,
            evidence=tuple(one for one in evidence if one),
            table=table,
            advice=advice,
            cost=None if cost is None else min(cost, 1.0),
        ),
        weight=weight if cost is None else cost,
    )


def by_cost(cost: float) -> Severity:
    """Return how serious it is to lose a share of DB time."""
    return Severity.WARNING if cost >= WARN_MIN else Severity.NOTE


def of_db_time(composition: Composition, total_s: float) -> str:
    """Return a time as a share of DB time, or as it is if clocks that disagree made it longer."""
    share = composition.share(total_s) or 0.0
    if share > 1:
        return f"{duration(total_s)} (more than DB time itself)"
    return f"{percent(share)} of DB time"
