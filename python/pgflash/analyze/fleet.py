# SPDX-License-Identifier: PostgreSQL
"""Servers of one cluster side by side: who lags by how much, and whose settings differ."""

from collections import Counter
from collections.abc import Mapping, Sequence

from pgflash.model.fleet import (
    LEADING,
    Fleet,
    FleetMember,
    PatroniCluster,
    PatroniMember,
    ServerFacts,
    SettingDifference,
)


def side_by_side(
    names: Sequence[str],
    addresses: Sequence[str],
    facts: Sequence[ServerFacts],
    cluster: PatroniCluster | None,
) -> Fleet:
    """Return all members; those of a cluster are Patroni's, by their places."""
    found = differences(
        {name: one.settings for name, one in zip(names, facts, strict=True) if one.settings}
    )
    patronis = () if cluster is None else cluster.members
    members = (
        fleet_member(
            one,
            name=name,
            address=address,
            patroni=patronis[place] if place < len(patronis) else None,
            lag_bytes=lag,
            differs=differing(name, found),
        )
        for place, (name, address, one, lag) in enumerate(
            zip(names, addresses, facts, lags(facts), strict=True)
        )
    )
    return Fleet(
        name="" if cluster is None else cluster.name,
        url="" if cluster is None else cluster.url,
        members=tuple(members),
        differences=found,
    )


def fleet_member(
    facts: ServerFacts,
    *,
    name: str,
    address: str,
    patroni: PatroniMember | None,
    lag_bytes: int | None,
    differs: Sequence[str],
) -> FleetMember:
    """Return a row: what the server says of itself, and else what Patroni says of it."""
    role = patroni.role if patroni is not None else _role(facts)
    known = None if patroni is None else patroni.timeline
    if lag_bytes is None and patroni is not None:
        lag_bytes = patroni.lag_bytes
    return FleetMember(
        name=name,
        address=address,
        role=role,
        state="" if patroni is None else patroni.state,
        timeline=facts.timeline if facts.timeline is not None else known,
        lag_bytes=None if role in LEADING else lag_bytes,
        version=facts.version,
        mode=facts.mode,
        mode_reason=facts.mode_reason,
        size_bytes=facts.size_bytes,
        used_bytes=facts.used_bytes,
        hit_ratio=facts.hit_ratio,
        warmth=facts.warmth,
        to_go_s=facts.to_go_s,
        list_age_s=facts.list_age_s,
        differs=tuple(differs),
        problem=facts.problem or _contradiction(role, facts),
    )


def _role(facts: ServerFacts) -> str:
    if facts.in_recovery is None:
        return ""
    return "standby" if facts.in_recovery else "primary"


def _contradiction(role: str, facts: ServerFacts) -> str:
    """Return how Patroni and the server disagree; for moments they do at a failover."""
    if role == "leader" and facts.in_recovery:
        return "Patroni calls it the leader, but it is in recovery"
    if role not in {*LEADING, "standby_leader"} and facts.in_recovery is False:
        return f"Patroni calls it {role or 'no leader'}, but it accepts writes"
    return ""


def lags(facts: Sequence[ServerFacts]) -> list[int | None]:
    """Return how many bytes of WAL each standby has not replayed yet.

    None for a server that is no standby, or whose primary is not among these or not the only one.
    They were not asked at the same moment, so a standby may seem to be ahead.
    """
    ends: dict[int | None, list[int]] = {}
    for one in facts:
        if one.in_recovery is False and one.wal_bytes is not None:
            ends.setdefault(one.system, []).append(one.wal_bytes)
    found: list[int | None] = []
    for one in facts:
        primaries = ends.get(one.system, [])
        if one.in_recovery and one.wal_bytes is not None and len(primaries) == 1:
            found.append(max(primaries[0] - one.wal_bytes, 0))
        else:
            found.append(None)
    return found


def differences(settings: Mapping[str, Mapping[str, str]]) -> tuple[SettingDifference, ...]:
    """Return the settings that are not the same everywhere, from each member's settings."""
    names = sorted({name for one in settings.values() for name in one})
    found = (
        SettingDifference(
            name=name, values={member: own.get(name, "") for member, own in settings.items()}
        )
        for name in names
    )
    return tuple(one for one in found if len(set(one.values.values())) > 1)


def differing(member: str, found: Sequence[SettingDifference]) -> list[str]:
    """Return the names of the settings in which a member is not as most others.

    Where no value is that of most members, all of them differ.
    """
    return [one.name for one in found if member in one.values and not _is_usual(member, one)]


def _is_usual(member: str, one: SettingDifference) -> bool:
    own = one.values[member]
    return 2 * Counter(one.values.values())[own] > len(one.values)
