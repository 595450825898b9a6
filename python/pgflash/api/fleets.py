# SPDX-License-Identifier: PostgreSQL
"""Several servers: their state and warmth, a switchover to a warm one, and its tag in Patroni.

Patroni decides which server leads.  We request a switchover once a candidate is warm, and nothing
before: while we wait, nothing is changed anywhere, so giving up leaves nothing behind, and an
unplanned failover in the meantime happens as it would without us.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from pgflash.analyze.fleet import side_by_side
from pgflash.collect.member import read_member
from pgflash.collect.patroni import Patroni, PatroniAccess, PatroniError
from pgflash.collect.servers import NamedServer, named_servers, patroni_server, read_servers
from pgflash.collect.warm_tag import TAG, read_tag, write_tag
from pgflash.errors import PgflashError, UsageError
from pgflash.model.fleet import (
    Fleet,
    PatroniCluster,
    ServerFacts,
    Switchover,
    WarmTag,
)
from pgflash.model.words import duration, percent
from pgflash.progress import Listener
from pgflash.waiting import wait_until

#: Seconds between two looks at a candidate.
LOOK_S = 2.0
#: A member that is tagged as warm keeps the tag until it is this much colder.
_TAG_MARGIN = 0.05
#: Patroni reads its files shortly after a reload was requested.
RELOAD_WAIT_S = 30.0
RELOAD_LOOK_S = 0.2

EXIT_INTERRUPTED = 130


class FleetError(PgflashError):
    """The cluster is not as it must be for what was asked."""


def fleet_status(
    *,
    patroni: Sequence[str] = (),
    dsns: Sequence[str] = (),
    dsn: str | None = None,
    access: PatroniAccess | None = None,
) -> Fleet:
    """Return all members of a cluster: those of a Patroni, or the servers that DSNS name.

    PATRONI are URLs of its REST API, the first that answers is asked.  DSN is how its members are
    connected to, host and port excepted: database and role.  No password is sent to them but that
    of ~/.pgpass.  A member that does not answer says why in its `problem`.
    """
    if patroni and dsns:
        raise UsageError("name the URL of a Patroni or servers, not both")
    if patroni:
        cluster = Patroni(patroni, access).cluster()
        return _fleet([patroni_server(one, dsn) for one in cluster.members], cluster)
    if not dsns:
        raise UsageError(
            "no server was named",
            hint="Name a Patroni with --patroni URL, or each server with --dsn.",
        )
    return _fleet(named_servers(dsns), None)


def _fleet(servers: Sequence[NamedServer], cluster: PatroniCluster | None) -> Fleet:
    return side_by_side(
        [one.name for one in servers],
        [one.address for one in servers],
        read_servers(servers),
        cluster,
    )


def fleet_switchover(
    *,
    patroni: Sequence[str],
    when_warm: float = 0.9,
    candidate: str = "",
    timeout_s: float = 3600.0,
    dsn: str | None = None,
    access: PatroniAccess | None = None,
    listener: Listener | None = None,
) -> Switchover:
    """Wait until a standby is warm, then have Patroni make it the leader.

    WHEN_WARM is a share.  Without CANDIDATE, it is the first standby that is as warm.  FleetError
    if the cluster gets another leader while it waits, or TIMEOUT_S seconds were not enough; then
    Patroni was not asked for anything.
    """
    listener = listener or Listener()
    asked = Patroni(patroni, access)
    leader = asked.cluster().leader
    deadline = time.monotonic() + timeout_s
    listener.stage("looking at the standbys", work=when_warm)
    while True:
        chosen, warmth = _look(asked.cluster(), leader, candidate, dsn, when_warm, listener)
        if chosen:
            break
        if time.monotonic() >= deadline:
            raise FleetError(
                f"no standby was {percent(when_warm)} warm within {duration(timeout_s)}; Patroni "
                "was not asked for a switchover",
                hint="'pgflash fleet status' shows how warm each is.",
            )
        time.sleep(LOOK_S)
    listener.note(f"{chosen} is {percent(warmth)} warm: asking Patroni to switch over to it")
    listener.stage(f"Patroni switches over from {leader} to {chosen}")
    try:
        answer = asked.switch_over(leader, chosen)
    except KeyboardInterrupt:
        raise FleetError(
            "interrupted, but Patroni had been asked to switch over already and goes on",
            hint="'pgflash fleet status' shows who leads.",
            exit_code=EXIT_INTERRUPTED,
        ) from None
    now = asked.cluster().leader
    return Switchover(from_member=leader, to_member=now, warmth=warmth, answer=answer)


def _look(
    cluster: PatroniCluster,
    leader: str,
    candidate: str,
    dsn: str | None,
    when_warm: float,
    listener: Listener,
) -> tuple[str, float]:
    """Return the warmest candidate and its warmth if that is enough; else "", and tell why."""
    if not leader or cluster.leader != leader:
        _refuse_other_leader(leader, cluster.leader)
    if candidate:
        _check_candidate(cluster, candidate)
    able = [one for one in cluster.candidates if candidate in {"", one.name}]
    facts = read_servers([patroni_server(one, dsn) for one in able])
    asked = list(zip(able, facts, strict=True))
    known = [(one.warmth, by.name) for by, one in asked if one.warmth is not None]
    if not known:
        why = "; ".join(f"{by.name}: {_why_unknown(one)}" for by, one in asked)
        if any(one.in_recovery for one in facts) and all(one.why_no_warmth for one in facts):
            raise FleetError(
                f"how warm a standby is, is not known: {why}",
                hint="The database that is connected to must have the extension: -d NAME.",
            )
        listener.stage(f"waiting: {why or 'no standby can take over now'}", work=when_warm)
        return "", 0.0
    warmth, name = max(known)
    if warmth >= when_warm:
        return name, warmth
    (to_go_s,) = (one.to_go_s for by, one in asked if by.name == name)
    left = "" if to_go_s is None else f", {duration(to_go_s)} to go"
    listener.stage(f"waiting: {name} is {percent(warmth)} warm{left}", work=when_warm)
    listener.advance(warmth)
    return "", warmth


def _refuse_other_leader(before: str, now: str) -> None:
    if not before:
        raise FleetError("the cluster has no leader; Patroni was not asked for a switchover")
    raise FleetError(
        f'"{before}" does not lead any more: '
        + (f'"{now}" does' if now else "the cluster has no leader")
        + "; Patroni was not asked for a switchover",
        hint="'pgflash fleet status' shows what has become of it.",
    )


def _check_candidate(cluster: PatroniCluster, candidate: str) -> None:
    """Refuse a candidate that cannot take over, however long one waits."""
    if candidate == cluster.leader:
        raise FleetError(f'"{candidate}" leads already')
    named = [one for one in cluster.members if one.name == candidate]
    if not named:
        raise FleetError(f'Patroni knows no member "{candidate}"')
    if named[0].tags.get("nofailover", "false") != "false":
        raise FleetError(f'"{candidate}" has the tag nofailover')


def _why_unknown(facts: ServerFacts) -> str:
    return facts.problem or facts.why_no_warmth or "there is no list from the primary yet"


def fleet_tag(
    path: Path,
    *,
    patroni: str,
    when_warm: float = 0.9,
    dsn: str | None = None,
    access: PatroniAccess | None = None,
) -> WarmTag:
    """Make the tag pgflash_warm of a member what its cache is, if it is not so already.

    PATH is a file of ours in the folder of configuration files of the member's Patroni; PATRONI is
    the URL of that member, DSN its server.  A primary is warm.  A member that is not as warm as
    WHEN_WARM any more keeps the tag for 5 % more.  FleetError, and no tag, for a standby that can
    never say how warm it is; one that was called warm is not any more.
    """
    asked = Patroni([patroni], access)
    facts = read_member(dsn or "")
    before = read_tag(path)
    if facts.in_recovery and facts.why_no_warmth and not before:
        raise FleetError(
            f"how warm this standby is, is not known: {facts.why_no_warmth}",
            hint="Patroni was told nothing.",
        )
    is_warm, reason = _is_warm(facts, when_warm, was_warm=bool(before))
    changed = before is not is_warm or asked.tags().get(TAG) != _word(is_warm)
    if changed:
        if before is not is_warm:
            write_tag(path, is_warm=is_warm)
        asked.reload()
        if not wait_until(
            lambda: asked.tags().get(TAG) == _word(is_warm), RELOAD_WAIT_S, every_s=RELOAD_LOOK_S
        ):
            raise PatroniError(
                f'Patroni at {patroni} does not read "{path}"',
                hint="Start Patroni with the folder of its configuration files, not with one file, "
                "and name the URL of this member.",
            )
    return WarmTag(is_warm=is_warm, warmth=facts.warmth, changed=changed, reason=reason)


def _word(is_warm: bool) -> str:
    return "true" if is_warm else "false"


def _is_warm(facts: ServerFacts, when_warm: float, *, was_warm: bool) -> tuple[bool, str]:
    """Return whether a server is called warm, and why."""
    if facts.in_recovery is False:
        return True, "it is the primary"
    if facts.warmth is None:
        return False, _why_unknown(facts)
    limit = when_warm - _TAG_MARGIN if was_warm else when_warm
    return facts.warmth >= limit, f"{percent(facts.warmth)} warm"
