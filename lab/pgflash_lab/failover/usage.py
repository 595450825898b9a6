# SPDX-License-Identifier: PostgreSQL
"""CPU time by its user, and the reads of the new leader: cumulative counters, differences.

A member that is killed takes its counters along, so they are read just before.  Patroni's own time
counts as the driver's, since it belongs to the experiment and not to a server.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from pgflash.analyze.sections import number
from pgflash.machine.host import CpuTimes, core_count, read_cpu
from pgflash.model.counters import COUNTERS
from pgflash_lab import host
from pgflash_lab.extension import cache_row
from pgflash_lab.model.run import CacheUse, CpuUse, Reads
from pgflash_lab.patroni import PatroniCluster, PatroniMember, wait_for
from pgflash_lab.workload import DATABASE

_NOTHING = host.CpuTime(user_s=0.0, system_s=0.0)

_READ = """
select blks_read, blk_read_time,
       pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                            else pg_current_wal_lsn() end, '0/0')
  from pg_stat_database
 where datname = current_database()
"""

#: From the server's samples of all sessions.
_COMMIT_WAIT = """
select coalesce(sum(seconds), 0)::float8
  from pgflash_active_sessions_rows(clock_timestamp() - %s * interval '1 second', 'infinity')
 where wait_class = 'Commit'
"""

_CLIENTS = "select count(*) from pg_stat_get_activity(null) where application_name = 'pgbench'"
#: Clients report what they read only at their very end.
_CLIENTS_GONE_WAIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberCpu:
    """The CPU time of a member so far."""

    server: host.CpuTime
    patroni: host.CpuTime

    @property
    def server_s(self) -> float:
        """Return the server's time."""
        return self.server.user_s + self.server.system_s

    @property
    def patroni_s(self) -> float:
        """Return Patroni's time."""
        return self.patroni.user_s + self.patroni.system_s


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCpu:
    """The CPU time of everybody at one moment."""

    at_s: float
    machine: CpuTimes
    own_s: float
    members: Mapping[str, MemberCpu]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a member has counted so far."""

    cache: Mapping[str, Any]
    blocks: int
    read_ms: float
    wal_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedLeader:
    """The leader that ended, and what it had used shortly before."""

    name: str
    last: MemberCpu
    #: Patroni went with it; otherwise its server was started again, and counts from zero.
    killed: bool

    def total(self, now: MemberCpu) -> MemberCpu:
        """Return all that it has used, from a reading after its end."""
        return MemberCpu(
            server=host.CpuTime(
                user_s=self.last.server.user_s + now.server.user_s,
                system_s=self.last.server.system_s + now.server.system_s,
            ),
            patroni=self.last.patroni if self.killed else now.patroni,
        )


def member_cpu(member: PatroniMember) -> MemberCpu:
    """Return a member's CPU time; nothing of what does not run."""

    def of(pid: int | None) -> host.CpuTime:
        return _NOTHING if pid is None else host.server_cpu(pid)

    return MemberCpu(server=of(member.postmaster_pid), patroni=of(member.patroni_pid))


def fleet_cpu(cluster: PatroniCluster) -> FleetCpu:
    """Return everybody's CPU time now."""
    return FleetCpu(
        at_s=time.monotonic(),
        machine=read_cpu(),
        own_s=host.own_cpu(),
        members={member.name: member_cpu(member) for member in cluster.members},
    )


def cpu_use(before: FleetCpu, after: FleetCpu, ended: "EndedLeader", *, driver_s: float) -> CpuUse:
    """Divide the processors' time by user."""
    ends = {**after.members, ended.name: ended.total(after.members[ended.name])}
    server_user_s = server_system_s = patroni_s = 0.0
    for name, began in before.members.items():
        server_user_s += ends[name].server.user_s - began.server.user_s
        server_system_s += ends[name].server.system_s - began.server.system_s
        patroni_s += ends[name].patroni_s - began.patroni_s
    # All of a killed Patroni's time is among that of our reaped children.
    reaped_s = ended.last.patroni_s if ended.killed else 0.0
    own_s = max(after.own_s - before.own_s - reaped_s, driver_s) + patroni_s
    busy_s = after.machine.busy_s - before.machine.busy_s
    return CpuUse(
        cores=core_count(),
        elapsed_s=after.at_s - before.at_s,
        server_user_s=server_user_s,
        server_system_s=server_system_s,
        driver_s=own_s,
        foreign_s=max(busy_s - server_user_s - server_system_s - own_s, 0.0),
    )


def count(member: PatroniMember, *, clients_gone: bool = False) -> Counted:
    """Read what a member has counted; CLIENTS_GONE waits for what clients report at their end."""
    with psycopg.connect(
        member.conninfo(DATABASE), autocommit=True, application_name="pgflash lab"
    ) as connection:
        if clients_gone:
            wait_for(
                "the load's clients have ended",
                lambda: connection.execute(_CLIENTS).fetchall() == [(0,)],
                wait_s=_CLIENTS_GONE_WAIT_S,
            )
        row = connection.execute(_READ).fetchone()
    assert row is not None
    return Counted(
        cache=cache_row(member), blocks=int(row[0]), read_ms=float(row[1]), wal_bytes=int(row[2])
    )


def commit_wait_s(connection: psycopg.Connection[Any], last_s: float) -> float:
    """Return how long sessions waited for commits in the last seconds, all together (sampled)."""
    row = connection.execute(_COMMIT_WAIT, (last_s,)).fetchone()
    assert row is not None
    return float(row[0])


def reads(before: Counted, after: Counted) -> Reads:
    """Divide the blocks that a member read by the place that they came from."""
    page_cache, flash, disk = (
        _grown(before, after, name) for name in ("page_cache_reads", "hits", "misses")
    )
    return Reads(
        blocks=after.blocks - before.blocks,
        wait_ms=after.read_ms - before.read_ms,
        page_cache=page_cache,
        flash=flash,
        disk=disk,
        page_cache_known=True,
    )


def cache_use(before: Counted, after: Counted) -> CacheUse:
    """Return the account of a member's cache between two readings."""
    row = after.cache
    return CacheUse(
        mode=str(row["mode"]),
        mode_reason=str(row["mode_reason"] or ""),
        size_bytes=int(number(row["size_bytes"])),
        slots=int(number(row["slots"])),
        used_slots=int(number(row["used_slots"])),
        counters={name: _grown(before, after, name) for name in COUNTERS if name in row},
    )


def _grown(before: Counted, after: Counted, name: str) -> int:
    return int(number(after.cache[name])) - int(number(before.cache[name]))
