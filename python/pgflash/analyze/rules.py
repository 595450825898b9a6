# SPDX-License-Identifier: PostgreSQL
"""What the rules behind the findings share."""

from dataclasses import dataclass

from pgflash.model.awr import Finding, Severity


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
