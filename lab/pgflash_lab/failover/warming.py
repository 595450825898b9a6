# SPDX-License-Identifier: PostgreSQL
"""How standbys get warm: by the list that the leader stores, as in production.

warm() turns storing on, waits until the standbys have loaded the first list, and says what it cost
the leader.  Until then the leader has stored none: so this is a whole list, the most that one can
cost.  Later ones write only what has changed.

The server starts a process for each look at the stored list.  Such a process is read again and
again until it has ended: what it used after the last reading, a few milliseconds at most, is
missing.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from pgflash.machine.processes import Process
from pgflash.machine.tree import HERE
from pgflash.model.words import percent
from pgflash.waiting import wait_until
from pgflash_lab.failover.filling import set_on
from pgflash_lab.failover.model import FailoverParameters
from pgflash_lab.patroni import PatroniMember, wait_for
from pgflash_lab.workload import DATABASE, MeasureError

#: While nothing is measured.
_QUICK_S = 1

#: The WAL of the first list: nothing of the budget had been used before.
_STORED = """
select pg_size_bytes(current_setting('pgflash.cache_list_wal_budget')) - wal_left_bytes
  from pgflash_stored_list_head
"""
_LOADED = """
select from pgflash_cache_warmth w
  join pgflash_stored_list_head h on w.list_taken_at = h.taken_at
 where w.origin = 'repository' and w.state = 'done'
"""
_WARMTH = "select coalesce(warmth, 0) from pgflash_cache_warmth"
#: In the title of a process that looks at the stored list.
_VISITOR = b"pgflash stored list"

_WAIT_S = 300.0
#: A visitor ends after some ten milliseconds.
_LOOK_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCost:
    """What a list has cost the leader."""

    #: None: the process ended before it was seen, as it may on a busy machine.
    cpu_s: float | None
    #: By the server's own count.
    wal_bytes: int


def warm(
    leader: PatroniMember, standbys: Sequence[PatroniMember], parameters: FailoverParameters
) -> ListCost:
    """Have the leader store lists from now on; return once the standbys have loaded the first."""
    members = [leader, *standbys]
    _store_every(_QUICK_S, members)
    cost = _store(leader)
    wait_for(
        "the standbys have loaded the list",
        lambda: all(_ask(one, _LOADED) for one in standbys),
        wait_s=_WAIT_S,
    )
    shares = {one.name: warmth(one) for one in standbys}
    if min(shares.values()) < parameters.warm_min:
        said = ", ".join(f"{name} {percent(share)}" for name, share in shares.items())
        raise MeasureError(
            f"the standbys do not get warm ({said})",
            hint="Choose a cache that holds the database: --set cache_size=N.",
        )
    _store_every(parameters.list_s, members)
    return cost


def warmth(standby: PatroniMember) -> float:
    """Return the share of the leader's list that a standby has cached."""
    return float(sum(share for (share,) in _ask(standby, _WARMTH)))


def _store_every(seconds: int, members: Sequence[PatroniMember]) -> None:
    for member in members:
        set_on(member, "pgflash.cache_list_interval", f"{seconds}s")


def _store(leader: PatroniMember) -> ListCost:
    """Wait until the leader has stored a list; return what it took.

    Of the processes that look for a list, only the one with the most time had something to do.
    """
    postmaster = Process(leader.postmaster_pid or 0)
    spent: dict[int, float] = {}
    others: set[int] = set()
    found: list[tuple[int]] = []

    def look() -> bool:
        for pid in set(postmaster.children()) - others:
            with contextlib.suppress(OSError):
                title = Process(pid).command_line()
                if _VISITOR in title:
                    spent[pid] = _cpu_s(pid)
                elif title.startswith(b"postgres: "):
                    others.add(pid)
        found.extend(connection.execute(_STORED).fetchall())
        return bool(found)

    with leader.connect(DATABASE) as connection:
        if not wait_until(look, _WAIT_S, every_s=_LOOK_S):
            raise MeasureError(f"{leader.name} has stored no list for {_WAIT_S:g} s")
    return ListCost(cpu_s=max(spent.values(), default=0.0) or None, wal_bytes=found[0][0])


def _ask(member: PatroniMember, query: str) -> list[tuple[float]]:
    with member.connect(DATABASE) as connection:
        return connection.execute(query.encode()).fetchall()


def _cpu_s(pid: int) -> float:
    """Return a process's time on processors: a list takes less than the kernel's usual clock."""
    text = HERE.text(f"/proc/{pid}/schedstat")
    if text:
        return int(text.split()[0]) / 1e9
    stat = Process(pid).stat()
    return stat.user_s + stat.system_s
