# SPDX-License-Identifier: PostgreSQL
"""The leader of several servers, and since when it has led.

A leader that does not answer for a moment and comes back has led all the time.  A new one leads
from the moment it was first seen to accept writes.  Only Patroni's history tells of earlier times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pgflash.model.fleet import ServerFacts
from pgflash.model.moments import print_clock
from pgflash.model.words import listed

#: Older moments are printed with their day.
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The leader of several servers."""

    #: The leader, or the last one; "" if none has been seen.
    leader: str = ""
    since: datetime | None = None
    #: False: it has led for longer, since it led when watching began.
    is_exact: bool = False
    #: The leader before it; "" if none has been seen.
    before: str = ""
    #: Since when there has been no leader; None while there is one.
    vacant_since: datetime | None = None
    #: The servers that accept writes, if there is more than one.
    rivals: tuple[str, ...] = ()


def follow(
    before: Lead, leaders: Sequence[str], now: datetime, *, since: datetime | None = None
) -> Lead:
    """Return the lead after an observation of the leaders; SINCE comes from Patroni's history."""
    if len(leaders) > 1:
        return replace(before, vacant_since=None, rivals=tuple(leaders))
    if not leaders:
        return replace(before, vacant_since=before.vacant_since or now, rivals=())
    (leader,) = leaders
    if leader != before.leader:
        return Lead(
            leader=leader,
            since=since or now,
            is_exact=since is not None or bool(before.leader),
            before=before.leader,
        )
    if since is not None and not before.is_exact:
        before = replace(before, since=since, is_exact=True)
    return replace(before, vacant_since=None, rivals=())


def who_leads(names: Sequence[str], facts: Sequence[ServerFacts]) -> tuple[str, ...] | None:
    """Return the servers that accept writes; None if these are not one cluster.

    What a server said that does not answer any more counts only if no other one accepts writes: it
    may be gone, and another one promoted.
    """
    if len({one.system for one in facts if one.system is not None}) > 1:
        return None
    told = [(n, one) for n, one in zip(names, facts, strict=True) if one.in_recovery is False]
    return tuple(n for n, one in told if not one.problem) or tuple(n for n, _one in told)


def words(lead: Lead, now: datetime) -> str:
    """Return a sentence that names the leader, and since when it has led."""
    if lead.rivals:
        return f"{listed(lead.rivals)} accept writes at the same time."
    if lead.vacant_since is not None:
        led = f"; {lead.leader} did before" if lead.leader else ""
        return f"Nobody is seen to lead since {moment(lead.vacant_since, now)}{led}."
    if lead.since is None:
        return ""
    since = f"since {'' if lead.is_exact else 'before '}{moment(lead.since, now)}"
    return f"{lead.leader} leads {since}{f'; before, {lead.before} did' if lead.before else ''}."


def moment(at: datetime, now: datetime) -> str:
    """Return a time of day, with its day if that is not today's."""
    at = at.astimezone(now.tzinfo)
    return print_clock(at) if now - at < _DAY else f"{at:%Y-%m-%d} {print_clock(at)}"
