# SPDX-License-Identifier: PostgreSQL
"""Blocked sessions: those that wait for a lock, below those that they wait for.

pg_blocking_pids() stops all users of the lock manager for a moment.  So it is called for sessions
that wait for a lock only, and for a limited number of them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pgflash.collect.names import short_name
from pgflash.collect.time_range import TEXT_MAX
from pgflash.model.live import LockRow
from pgflash.session import Connection, said

WAITERS_MAX = 50
DEPTH_MAX = 10

_WAITERS = """
select pid, pg_catalog.pg_blocking_pids(pid) from pg_catalog.pg_stat_activity
 where wait_event_type = 'Lock' order by query_start limit %s
"""
#: No function shortens the statement: its bytes are of that session's encoding, and it may refuse
#: them.
_SESSIONS = """
select pid, usename::text, datname::text, application_name, coalesce(state, backend_type),
       extract(epoch from pg_catalog.clock_timestamp() - state_change)::float8,
       query
  from pg_catalog.pg_stat_activity where pid = any(%s)
"""
_WANTED = """
select l.pid, l.locktype, l.mode,
       case when l.database = d.oid then l.relation::regclass::text end
  from pg_catalog.pg_locks l
  join pg_catalog.pg_database d on d.datname = pg_catalog.current_database()
 where not l.granted and l.pid = any(%s)
"""

#: The sessions that a session waits for, by its process ID.
Blockers = Mapping[int, tuple[int, ...]]


def read_blocking(connection: Connection) -> tuple[LockRow, ...]:
    """Return who blocks whom now."""
    with said("ask who blocks whom"):
        waiters = connection.execute(_WAITERS, (WAITERS_MAX,)).fetchall()
        if not waiters:
            return ()
        blockers = {pid: tuple(dict.fromkeys(of)) for pid, of in waiters}
        pids = sorted({*blockers, *(one for of in blockers.values() for one in of)})
        sessions = {row[0]: row for row in connection.execute(_SESSIONS, (pids,)).fetchall()}
        wanted = {row[0]: row[1:] for row in connection.execute(_WANTED, (pids,)).fetchall()}
    return tuple(_row(pid, depth, sessions.get(pid), wanted) for pid, depth in tree(blockers))


def tree(blockers: Blockers) -> Iterator[tuple[int, int]]:
    """Yield each session and its depth, after one that blocks it; each only once."""
    waiting_for: dict[int, list[int]] = {}
    for pid, others in blockers.items():
        for other in others:
            waiting_for.setdefault(other, []).append(pid)
    seen: set[int] = set()

    def below(pid: int, depth: int) -> Iterator[tuple[int, int]]:
        if pid not in seen and depth <= DEPTH_MAX:
            seen.add(pid)
            yield pid, depth
            for one in waiting_for.get(pid, ()):
                yield from below(one, depth + 1)

    for root in (*(one for one in waiting_for if one not in blockers), *blockers):
        yield from below(root, 0)


def _row(
    pid: int, depth: int, session: tuple[Any, ...] | None, wanted: Mapping[int, tuple[Any, ...]]
) -> LockRow:
    lock = wanted.get(pid)
    wants = ""
    if lock is not None:
        kind, mode, relation = lock
        wants = f"{mode} on {short_name(relation) if relation else kind}"
    if session is None:  # 0 stands for prepared transactions
        owner = "a prepared transaction" if pid == 0 else ""
        return LockRow(
            session="" if pid == 0 else str(pid),
            depth=depth, owner=owner, state="", seconds=None, wants=wants, text="",
        )  # fmt: skip
    _pid, user, database, application, state, seconds, text = session
    owner = ", ".join(filter(None, (f"{user or '?'} in {database or '?'}", application)))
    return LockRow(
        session=str(pid),
        depth=depth,
        owner=owner,
        state=str(state or ""),
        seconds=seconds,
        wants=wants,
        text=str(text or "")[:TEXT_MAX],
    )
