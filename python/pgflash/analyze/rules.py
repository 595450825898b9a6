# SPDX-License-Identifier: PostgreSQL
"""What the rules of the findings share."""

from dataclasses import dataclass

from pgflash.model.awr import Finding, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A finding, and how much it matters among those of its severity: a share, as a rule."""

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
) -> Weighed:
    """Return a finding with its weight."""
    return Weighed(
        finding=Finding(
            rule=rule,
            severity=severity,
            sentence=sentence,
            evidence=tuple(one for one in evidence if one),
            table=table,
            advice=advice,
        ),
        weight=weight,
    )
