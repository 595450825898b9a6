# SPDX-License-Identifier: PostgreSQL
"""Watch a long statement from a second session, to show its progress.

REINDEX reports its progress (pg_stat_progress_create_index).  A copy under a lock does not, but the
kernel counts what its process reads and writes: all of the relation once, and with WAL written
twice; blocks that the flash cache serves are not read by calls.  A role that may not see these
counts sees the elapsed time only.  Watching never fails a move: it just stops.
"""

import contextlib
import threading
from collections.abc import Iterator

import psycopg

from pgflash.errors import PgflashError
from pgflash.machine.processes import Process
from pgflash.place.cluster import Cluster, said_no
from pgflash.place.journal import Steps
from pgflash.place.relations import Relation

_EVERY_S = 0.5

_PROGRESS = """
select phase, coalesce(nullif(blocks_total, 0), tuples_total), case when blocks_total > 0
       then blocks_done else tuples_done end
  from pg_stat_progress_create_index where pid = %s
"""


@contextlib.contextmanager
def watched(cluster: Cluster, relation: Relation, steps: Steps) -> Iterator[None]:
    """Report the progress of the statement that our session runs to the listener."""
    pid = cluster.session(relation.database).info.backend_pid
    process = Process(pid)
    # Asked here: our session is not the thread's.
    with said_no("look where the server is"):
        before = _copied(process) if cluster.is_local else None
    over = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(cluster, relation, steps, process, before, over), daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(
    cluster: Cluster,
    relation: Relation,
    steps: Steps,
    process: Process,
    before: float | None,
    over: threading.Event,
) -> None:
    with (
        contextlib.suppress(psycopg.Error, PgflashError),
        cluster.fresh(relation.database) as session,
    ):
        while not over.wait(_EVERY_S):
            row = None
            if relation.is_index:
                row = session.execute(_PROGRESS, (process.pid,)).fetchone()
            if row is None:
                now = _copied(process) if before is not None else None
                if before is not None and now is not None:
                    steps.listener.advance(min(now - before, relation.bytes))
            else:
                steps.listener.stage(f"{relation.title}: {row[0]}", work=row[1] or None)
                steps.listener.advance(row[2] or 0)


def _copied(process: Process) -> float | None:
    """Return how many bytes a process may have copied in its life, or None if that is hidden."""
    try:
        counts = process.io()
        return max(counts["rchar"], counts["wchar"] / 2)
    except (OSError, KeyError):
        return None
