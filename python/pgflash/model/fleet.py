# SPDX-License-Identifier: PostgreSQL
"""Several servers that replicate one another: what each is, and how warm its cache is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Of a Patroni's members and of servers: those that accept writes.
LEADING = frozenset({"leader", "primary"})
#: Of a Patroni's members: synchronous standbys, by its two modes.
SYNCHRONOUS = frozenset({"sync_standby", "quorum_standby"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PatroniMember:
    """A member as Patroni reports it."""

    name: str
    role: str
    state: str
    #: Of its server; "" and 0 if Patroni does not know it.
    host: str = ""
    port: int = 0
    timeline: int | None = None
    #: WAL of the leader that it has not replayed.
    lag_bytes: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def may_lead(self) -> bool:
        """Whether it follows the leader, and may be asked to take over."""
        return (
            self.role not in LEADING
            and self.state == "streaming"
            and self.tags.get("nofailover", "false") == "false"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PatroniCluster:
    """A cluster as one of its Patronis reports it."""

    #: The URL that answered.
    url: str
    name: str
    members: tuple[PatroniMember, ...]

    @property
    def leader(self) -> str:
        """The name of the leader; "" while there is none."""
        return next((one.name for one in self.members if one.role in LEADING), "")

    @property
    def candidates(self) -> tuple[PatroniMember, ...]:
        """The members that may take over; with synchronous replication, only synchronous ones."""
        able = tuple(one for one in self.members if one.may_lead)
        if not any(one.role in SYNCHRONOUS for one in self.members):
            return able
        return tuple(one for one in able if one.role in SYNCHRONOUS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What a server says of itself; without an answer, only `problem`."""

    #: Why nothing is known, or only a part.
    problem: str = ""
    in_recovery: bool | None = None
    #: The same for all servers of a cluster.
    system: int | None = None
    timeline: int | None = None
    #: The end of its WAL or, on a standby, of what it has replayed; in bytes.
    wal_bytes: int | None = None
    #: Of the library in the server; "" if it is not loaded.
    version: str = ""
    mode: str = ""
    mode_reason: str = ""
    size_bytes: int | None = None
    used_bytes: int | None = None
    hit_ratio: float | None = None
    #: The share of the primary's list that is cached here: 0 to 1; None if it is not known.
    warmth: float | None = None
    #: Why it will never be known: this pgflash does not tell it.
    why_no_warmth: str = ""
    #: How long loading the rest takes.
    to_go_s: float | None = None
    #: The age of the list.
    list_age_s: float | None = None
    #: pgflash's, and those that matter to it, as SHOW prints them.
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMember:
    """A row of the fleet: a server, and what Patroni says of it."""

    name: str
    #: What was connected to.
    address: str
    role: str
    #: Patroni's word; "" without Patroni.
    state: str = ""
    timeline: int | None = None
    lag_bytes: int | None = None
    version: str = ""
    mode: str = ""
    mode_reason: str = ""
    size_bytes: int | None = None
    used_bytes: int | None = None
    hit_ratio: float | None = None
    warmth: float | None = None
    to_go_s: float | None = None
    list_age_s: float | None = None
    #: The names of settings that are not as on most others.
    differs: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """A setting that is not the same on all members that answered."""

    name: str
    #: By member; "" where the server does not have it.
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All members, side by side."""

    #: Of Patroni; "" without it.
    name: str
    #: The Patroni that answered; "" without it.
    url: str
    members: tuple[FleetMember, ...]
    differences: tuple[SettingDifference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switchover:
    """A switchover that Patroni has made."""

    from_member: str
    to_member: str
    #: Of the new leader, just before.
    warmth: float
    #: Patroni's own words.
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmTag:
    """The tag of a member, and why it is so."""

    is_warm: bool
    #: None: it is not known, and so the member is not called warm.
    warmth: float | None
    #: Whether Patroni was told something new.
    changed: bool
    reason: str
