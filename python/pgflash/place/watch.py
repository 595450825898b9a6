# SPDX-License-Identifier: PostgreSQL
"""Watch a long statement from a second session, to show its progress.

REINDEX reports its progress (pg_stat_progress_create_index); a copy under a lock does not, so for
it only the elapsed time advances.  Watching never fails a move: it just stops.
"""

import contextlib
import threading
import time
from collections.abc import Iterator

import psycopg

from pgflash.errors import PgflashError
from pgflash.place.cluster import Cluster
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
    over = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(cluster, relation, steps, pid, over), daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(
    cluster: Cluster, relation: Relation, steps: Steps, pid: int, over: threading.Event
) -> None:
    begun = time.monotonic()
    with (
        contextlib.suppress(psycopg.Error, PgflashError),
        cluster.fresh(relation.database) as session,
    ):
        while not over.wait(_EVERY_S):
            row = session.execute(_PROGRESS, (pid,)).fetchone() if relation.is_index else None
            if row is None:
                steps.listener.advance(time.monotonic() - begun)
            else:
                steps.listener.stage(f"{relation.title}: {row[0]}", work=row[1] or None)
                steps.listener.advance(row[2] or 0)
