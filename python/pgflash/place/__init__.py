# SPDX-License-Identifier: PostgreSQL
"""Put parts of a cluster on another device: WAL, temporary files, archive, tables, indexes.

with Cluster(dsn) as cluster:
    moves = moves_for(cluster, Move(kind=MoveKind.TABLE, name="public.stock", to="flash"))
    plan = plan_for(cluster, moves, id="20261122-101500", now=datetime.now(UTC))
for seen in look_at(plan, dsn): ...          # what each would mean, or why not
write_plan(path, plan)
apply_plan(Journal(path, plan), dsn)          # and undo_plan()

Read apply.py first, then wal.py, the one module that stops a server; objects.py moves tables and
indexes; archive.py and temp.py change settings. control.py treats a server as a process, cluster.py
as an SQL session, files.py as folders. journal.py is the record that survives a kill. owner.py
decides which user works on the server's files, also when root runs pgflash.

What is always true: wherever a move is interrupted, the cluster can be started without pgflash and
has lost nothing; the same command continues the move; an undo reverses it.
"""

from pgflash.place.apply import Seen, apply_plan, is_down, look_at, undo_plan
from pgflash.place.cluster import Cluster
from pgflash.place.control import Startup
from pgflash.place.errors import PlaceError
from pgflash.place.journal import Journal, Steps
from pgflash.place.mover import Look
from pgflash.place.planner import moves_for, plan_for

__all__ = [
    "Cluster",
    "Journal",
    "Look",
    "PlaceError",
    "Seen",
    "Startup",
    "Steps",
    "apply_plan",
    "is_down",
    "look_at",
    "moves_for",
    "plan_for",
    "undo_plan",
]
