# SPDX-License-Identifier: PostgreSQL
"""Run a statement that needs an exclusive lock, without blocking other sessions for long.

While a session waits for such a lock, all later requests queue behind it.  So it waits only briefly
(lock_timeout), lets the others pass, and tries again until its patience ends.  Each wait is longer
than deadlock_timeout's second, after which an autovacuum that is in the way is cancelled.

Two pgflash processes on one table take turns (alone()): one would drop the other's half-built
index.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from psycopg import sql

from pgflash.errors import PgflashError
from pgflash.model.moments import print_clock
from pgflash.model.words import duration
from pgflash.place.cluster import Cluster
from pgflash.place.errors import PlaceError
from pgflash.place.journal import Steps
from pgflash.place.relations import Relation

#: How long others may have to queue behind us in each attempt.
LOCK_TIMEOUT_MS = 1500
#: How long attempts continue altogether.
PATIENCE_S = 600.0

#: How long another move or REINDEX of the same table may take, including one of ours that was
#: killed.
_OTHER_WAIT_S = 3600.0

#: The upper half of the key of the advisory lock on a table; the lower half is the table's oid.
_LOCK_CLASS = 0x7067666C

_PAUSE_MIN_S = 0.5
_PAUSE_MAX_S = 15.0

_HOLDERS = """
select a.pid, coalesce(nullif(a.application_name, ''), a.backend_type), a.xact_start
  from pg_locks l join pg_stat_activity a using (pid)
 where l.relation = %s and l.database = (select oid from pg_database
       where datname = current_database()) and l.granted and l.pid <> pg_backend_pid()
 order by a.xact_start limit 3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long one attempt waits for the lock, and how long attempts continue."""

    lock_timeout_ms: int = LOCK_TIMEOUT_MS
    total_s: float = PATIENCE_S

    @classmethod
    def of(cls, options: dict[str, str]) -> "Patience":
        """Return the patience that a move's options ask for."""
        return cls(
            lock_timeout_ms=int(options.get("lock_timeout_ms", LOCK_TIMEOUT_MS)),
            total_s=float(options.get("patience_s", PATIENCE_S)),
        )


def run_locked(
    cluster: Cluster, relation: Relation, statement: sql.Composed, patience: Patience, steps: Steps
) -> None:
    """Run a statement as soon as its lock can be taken without a long wait."""
    doing = f"move {relation.title}"
    deadline = time.monotonic() + patience.total_s
    pause_s = _PAUSE_MIN_S
    with lock_timeout(cluster, relation, patience.lock_timeout_ms):
        while True:
            try:
                cluster.run(statement, database=relation.database, doing=doing)
                return
            except PlaceError as error:
                if not isinstance(
                    error.__cause__,
                    psycopg.errors.LockNotAvailable | psycopg.errors.DeadlockDetected,
                ):
                    raise
            if time.monotonic() + pause_s > deadline:
                raise PlaceError(
                    f"{relation.title} could not be locked within {duration(patience.total_s)}"
                    f"{_holders(cluster, relation)}",
                    hint="Try again when it is less busy, or with a longer --patience. Nothing "
                    "was changed.",
                )
            steps.listener.note(
                f"{relation.title} is in use{_holders(cluster, relation)}; trying again"
            )
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_MAX_S)


@contextlib.contextmanager
def lock_timeout(cluster: Cluster, relation: Relation, milliseconds: int) -> Iterator[None]:
    """Limit waits for locks in the session with the relation's database."""
    database = relation.database
    set_to = sql.SQL("set lock_timeout = {}").format(max(milliseconds, 1))
    cluster.run(set_to, database=database, doing="limit the wait for a lock")
    try:
        yield
    finally:
        # A lost session loses its setting, too.
        with contextlib.suppress(PgflashError):
            cluster.run("set lock_timeout = 0", database=database, doing="reset the limit")


class Waiting:
    """Waits by asking again and again, says so once, and gives up in the end."""

    def __init__(self, steps: Steps, said: str) -> None:
        """Wait for something that may take long."""
        self._deadline = time.monotonic() + _OTHER_WAIT_S
        self._steps = steps
        self._said = said

    def once_more(self, too_long: str) -> None:
        """Wait a moment, or give up with this message."""
        if self._said:
            self._steps.listener.note(self._said)
            self._said = ""
        if time.monotonic() > self._deadline:
            raise PlaceError(too_long)
        time.sleep(0.2)


@contextlib.contextmanager
def alone(cluster: Cluster, relation: Relation, steps: Steps) -> Iterator[None]:
    """Lock a relation's table against other pgflash processes.

    We poll for the lock: a session that waits for it inside the server would itself block a REINDEX
    CONCURRENTLY. The server drops the lock with the session.
    """
    key, database = _LOCK_CLASS << 32 | relation.table_oid, relation.database
    waiting = Waiting(steps, "Another pgflash is moving a part of this table: waiting.")
    while not cluster.value("select pg_try_advisory_lock(%s)", key, database=database):
        waiting.once_more(f"another pgflash has been working on {relation.title} for too long")
    try:
        yield
    finally:
        with contextlib.suppress(PgflashError):
            cluster.value("select pg_advisory_unlock(%s)", key, database=database)


def _holders(cluster: Cluster, relation: Relation) -> str:
    """Return the holders of the lock, in brackets."""
    rows = cluster.rows(_HOLDERS, relation.oid, database=relation.database)
    if not rows:
        return ""
    said = [
        f"process {pid} ({name}{f', in a transaction since {print_clock(since)}' if since else ''})"
        for pid, name, since in rows
    ]
    return f" by {', '.join(said)}"
