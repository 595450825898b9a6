# SPDX-License-Identifier: PostgreSQL
"""What the rules behind the findings share.

What costs DB time is as serious as its share of it: a warning from a fifth on, unless there is next
to no DB time.  What costs none, a fault or good news, is as serious as its rule says.
"""

from dataclasses import dataclass

from pgflash.model.awr import Finding, Severity

#: What is about a smaller share of DB time is a note.
WARN_MIN = 0.2

#: Fewer active sessions than this are no load.
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
    """Return a finding with its weight; COST, a share of DB time, is one."""
    return Weighed(
        finding=Finding(
            rule=rule,
            severity=severity,
            sentence=sentence,
            evidence=tuple(one for one in evidence if one),
            table=table,
            advice=advice,
            cost=cost,
        ),
        weight=weight if cost is None else cost,
    )


def by_cost(cost: float) -> Severity:
    """Return how serious it is to lose a share of DB time."""
    return Severity.WARNING if cost >= WARN_MIN else Severity.NOTE
