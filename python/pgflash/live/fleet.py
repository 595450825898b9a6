# SPDX-License-Identifier: PostgreSQL
"""Several servers watched at once: a collector for each, and which of them is the leader.

The servers are those that the user named, or the members that Patroni lists, asked every five
seconds.  A new member is watched from then on.  A member that is no longer listed is disconnected
at once, since its address may soon belong to another; its row stays for a quarter of an hour.
While Patroni does not answer, the last list is used, and roles come from the servers.

A server that moves to another address, or comes back, keeps its ring, so viewers still see its
earlier samples.

Locking: one thread writes what others read, and replaces each part as a whole.
"""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, count

from pgflash.analyze.fleet import side_by_side
from pgflash.collect.member import ask_member
from pgflash.collect.patroni import Patroni, PatroniAccess, Promotion
from pgflash.collect.servers import NamedServer, distinct, named_servers, patroni_server
from pgflash.errors import PgflashError, UsageError
from pgflash.live.collector import INTERVAL_S, Collector, Notice
from pgflash.live.lead import Lead, follow, moment, who_leads, words
from pgflash.live.ring import Ring
from pgflash.model.fleet import LEADING, Fleet, PatroniCluster, ServerFacts

#: Each takes two sessions, and about 1 % of a core while it is viewed.
SERVERS_MAX = 32
#: How often Patroni is asked, and how long it may take to answer.
LOOK_S = 5.0
PATRONI_TIMEOUT_S = 5.0
#: How often the leader is determined.
TICK_S = 0.5
#: Positions in the WAL are compared only if they were read within this time of one another.
TOGETHER_S = 2.0
GONE_KEPT = timedelta(minutes=15)
_KEY_MAX = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A server of a fleet."""

    #: Its name in URLs.
    key: str
    server: NamedServer
    ring: Ring
    #: None: there is no connection to it.
    collector: Collector | None = None
    #: When it was first missing from Patroni's list.
    gone_at: datetime | None = None

    @property
    def is_connecting(self) -> bool:
        """Whether it is being connected to, or has not given its facts yet."""
        one = self.collector
        if one is None or self.gone_at is not None:
            return False
        state = one.status.state
        return state == "connecting" or (state == "live" and one.told is None)

    def facts(self, now: datetime) -> ServerFacts:
        """Return its server's last facts, with the problem if there is one."""
        if self.gone_at is not None:
            since = moment(self.gone_at, now)
            return ServerFacts(problem=f"Patroni does not list it since {since}")
        if self.collector is None:
            return ServerFacts(problem=self.server.problem)
        status, told = self.collector.status, self.collector.told
        if told is None or status.state not in ("live", "late"):
            return ServerFacts(problem=status.page)
        return told.facts if status.state == "live" else replace(told.facts, problem=status.page)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The servers that there are at a moment."""

    servers: Sequence[NamedServer]
    #: Its members are the first of `servers`, in the same order.
    cluster: PatroniCluster | None = None
    promotion: Promotion | None = None
    #: How many members Patroni lists beyond SERVERS_MAX.
    unwatched: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A fleet at a moment; `fleet` has its members in the order of `members`."""

    at: datetime
    fleet: Fleet
    members: tuple[Member, ...] = ()
    lead: Lead = field(default_factory=Lead)
    #: False: some of the servers are known to belong to different clusters.
    is_cluster: bool = True
    #: What viewers should know about the list of servers.
    note: str = ""

    @property
    def sentence(self) -> str:
        """Return a sentence that names the leader, and since when it leads."""
        return words(self.lead, self.at) if self.is_cluster else ""

    @property
    def leader(self) -> Member | None:
        """Return the leader, or the last one."""
        named = (one for one in self.members if one.server.name == self.lead.leader)
        return next(named, None) if self.is_cluster else None


class NamedByUser:
    """Servers that the user named."""

    def __init__(self, dsns: Sequence[str]) -> None:
        """Watch the servers of connection strings."""
        if len(dsns) > SERVERS_MAX:
            raise UsageError(f"{len(dsns)} servers are more than {SERVERS_MAX}")
        self._seen = Sighting(servers=named_servers(dsns))

    def __call__(self) -> Sighting:
        """Return the servers."""
        return self._seen


class ListedByPatroni:
    """Servers that Patroni lists."""

    def __init__(self, urls: Sequence[str], access: PatroniAccess | None, dsn: str | None) -> None:
        """Ask Patroni at these URLs; DSN has the database and role to connect with."""
        self._patroni = Patroni(urls, access, timeout_s=PATRONI_TIMEOUT_S)
        self._dsn = dsn
        self._promotion: Promotion | None = None
        self._asked = False

    def __call__(self) -> Sighting:
        """Return the members, leaders first; raise PgflashError if no Patroni answers."""
        cluster = self._patroni.cluster()
        by_role = sorted(cluster.members, key=lambda one: one.role not in LEADING)
        members = by_role[:SERVERS_MAX]
        if not self._asked:  # later promotions are seen
            self._asked = True
            with contextlib.suppress(PgflashError):
                self._promotion = self._patroni.last_promotion()
        servers = [patroni_server(one, self._dsn) for one in members]
        names = distinct([one.name for one in servers])
        return Sighting(
            servers=[replace(one, name=name) for one, name in zip(servers, names, strict=True)],
            cluster=replace(cluster, members=tuple(members)),
            promotion=self._promotion,
            unwatched=len(by_role) - len(members),
        )


class LiveFleet:
    """Watches several servers for all viewers."""

    def __init__(
        self,
        source: Callable[[], Sighting],
        *,
        interval_s: float = INTERVAL_S,
        look_s: float = LOOK_S,
    ) -> None:
        """Watch the servers of a source."""
        self._source = source
        self._interval_s = interval_s
        self._look_s = look_s
        self._seen = Sighting(servers=())
        #: Why Patroni's last list may be out of date, and since when.
        self._problem = ""
        self._problem_at = datetime.now(UTC)
        self._next_look_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgflash fleet", daemon=True)
        #: Those of the view, or newer ones.
        self._members: tuple[Member, ...] = ()
        self.view = View(at=_now(), fleet=side_by_side([], [], [], None))

    # ---- for others

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def stop(self, wait_s: float = 5.0) -> None:
        """Stop watching; wait at most this long for servers that do not answer."""
        self._stop.set()
        until_s = time.monotonic() + wait_s
        if self._thread.ident is not None:
            self._thread.join(wait_s)
        collectors = [one.collector for one in self._members if one.collector is not None]
        for collector in collectors:
            collector.stop(wait_s=0.0)
        for collector in collectors:
            collector.stop(wait_s=max(until_s - time.monotonic(), 0.0))

    def member(self, key: str) -> Member | None:
        """Return the member with this name in URLs."""
        return next((one for one in self.view.members if one.key == key), None)

    def asked(self) -> None:
        """Count a single request as a viewer of each server for a while."""
        for one in self.view.members:
            if one.collector is not None and one.gone_at is None:
                one.collector.asked()

    # ---- the thread

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if time.monotonic() >= self._next_look_s:
                    self._look()
                    self._next_look_s = time.monotonic() + self._look_s
                self._sum_up()
            except Exception as error:
                self._complain(f"unexpected {type(error).__name__}: {error}")
            self._stop.wait(TICK_S)

    def _complain(self, problem: str) -> None:
        if not self._problem:
            self._problem_at = _now()
        self._problem = problem

    def _look(self) -> None:
        """Update the list of servers."""
        try:
            seen = self._source()
        except PgflashError as error:
            self._complain(error.message)
            return
        self._members = reconcile(self._members, seen.servers, self._watched, _now())
        self._seen, self._problem = seen, ""

    def _watched(self, member: Member) -> Member:
        """Return a member with a new collector that is reading it."""
        if member.server.dsn is None:
            return replace(member, collector=None)
        collector = Collector(
            member.server.dsn, member.ring, interval_s=self._interval_s, facts=ask_member
        )
        if member.collector is not None:  # viewers are then told what has changed
            collector.server = member.collector.server
        collector.start()
        return replace(member, collector=collector)

    def _sum_up(self) -> None:
        """Compare the servers, and determine the leader."""
        now, before = _now(), self.view
        members = self._members
        names = [one.server.name for one in members]
        facts = together(members, now)
        cluster = self._seen.cluster if not self._problem else None
        leaders = who_leads(names, facts)
        if cluster is not None:
            leaders = (cluster.leader,) if cluster.leader else ()
        lead = before.lead
        is_told = cluster is not None or not any(one.is_connecting for one in members)
        if leaders is not None and members and is_told:
            lead = follow(lead, leaders, now, since=self._since(leaders, now))
        addresses = [one.server.address for one in members]
        self.view = replace(
            before,
            at=now,
            members=members,
            fleet=side_by_side(names, addresses, facts, cluster),
            lead=lead,
            is_cluster=leaders is not None,
            note=self._note(now),
        )
        if before.lead.leader not in ("", lead.leader):
            notice = Notice(at=now.isoformat(timespec="milliseconds"), sentence=self.view.sentence)
            for one in members:
                one.ring.append("notice", lambda _number: notice)

    def _since(self, leaders: Sequence[str], now: datetime) -> datetime | None:
        """Return since when the first leader seen has led, if Patroni's history has it."""
        told = self._seen.promotion
        if told is None or (told.leader,) != leaders:
            return None
        return min(told.at, now) if self.view.lead.leader in ("", told.leader) else None

    def _note(self, now: datetime) -> str:
        if self._problem:
            since = moment(self._problem_at, now)
            return f"The list of servers is as it was at {since}: {self._problem}."
        if self._seen.unwatched:
            more = self._seen.unwatched
            return (
                f"Patroni lists {more} more members; {SERVERS_MAX} are the most that are watched."
            )
        return ""


def reconcile(
    before: Sequence[Member],
    servers: Sequence[NamedServer],
    watched: Callable[[Member], Member],
    now: datetime,
) -> tuple[Member, ...]:
    """Return the members of a new list, then those that are gone from it.

    WATCHED returns a member with a new collector.  A server keeps its key and ring as long as it
    keeps its name.
    """
    known = {one.server.name: one for one in before}
    keys = {one.key for one in before}
    found = []
    for server in servers:
        member = known.pop(server.name, None)
        if member is None:
            member = Member(key=key_of(server.name, keys), server=server, ring=Ring())
            keys.add(member.key)
            member = watched(member)
        elif member.server != server or member.gone_at is not None:
            _leave(member, "The server is at another address now.")
            member = watched(replace(member, server=server, gone_at=None))
        found.append(member)
    for member in known.values():
        if member.gone_at is None:
            _leave(member, f"Patroni does not list this server since {moment(now, now)}.")
            member = replace(member, gone_at=now)
        if now - (member.gone_at or now) < GONE_KEPT:
            found.append(member)
    return tuple(found[: max(SERVERS_MAX, len(servers))])


def _leave(member: Member, sentence: str) -> None:
    if member.collector is not None and member.gone_at is None:
        member.collector.retire(sentence)


def key_of(name: str, taken: Collection[str]) -> str:
    """Return a server's name in URLs: letters, digits and hyphens, and not taken yet."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:_KEY_MAX] or "server"
    keys = chain([plain], (f"{plain}-{number}" for number in count(2)))
    return next(key for key in keys if key not in taken)


def together(members: Sequence[Member], now: datetime) -> list[ServerFacts]:
    """Return each server's facts; positions in the WAL only of those read at the same time."""
    told = [one.collector.told for one in members if one.collector is not None]
    newest_s = max((one.at_s for one in told if one is not None), default=0.0)
    found = []
    for one in members:
        facts = one.facts(now)
        mine = one.collector.told if one.collector is not None else None
        is_old = mine is None or newest_s - mine.at_s > TOGETHER_S
        found.append(replace(facts, wal_bytes=None) if is_old else facts)
    return found


def _now() -> datetime:
    return datetime.now(UTC).astimezone()
