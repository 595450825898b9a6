# SPDX-License-Identifier: PostgreSQL
"""Move a whole database at once: ALTER DATABASE, while no session is connected to it.

The server copies all files and then changes one row, so a kill leaves the database where it was. No
session is ended: the move is refused, and the refusal names the connected sessions. (The other way,
object by object while the database is used, consists of many moves; see planner.py.) A server that
crashes in the middle leaves files in the new tablespace that prevent the next attempt; its message
says so.
"""

import time

from psycopg import sql

from pgflash.model.plan import Move
from pgflash.place.cluster import Cluster
from pgflash.place.errors import GoneError, PlaceError
from pgflash.place.journal import Steps
from pgflash.place.mover import Look, Room
from pgflash.place.speed import estimate
from pgflash.place.tablespaces import (
    find_tablespace,
    make_tablespace,
    refuse_target,
)

_DATABASE = """
select t.spcname, pg_database_size(d.oid), pg_has_role(d.datdba, 'USAGE')
       and (select rolcreatedb or rolsuper from pg_roles where rolname = current_user)
  from pg_database d join pg_tablespace t on t.oid = d.dattablespace where d.datname = %s
"""

_USERS = """
select pid, coalesce(nullif(application_name, ''), backend_type) from pg_stat_activity
 where datname = %s and pid <> pg_backend_pid() and backend_type = 'client backend'
 order by pid limit 4
"""


#: How long one of our own sessions may take to end.
_OURS_WAIT_S = 3.0


class DatabaseMover:
    """Moves one database."""

    def __init__(self, cluster: Cluster, move: Move) -> None:
        """Prepare to move this database; our own session must use another one."""
        self._cluster = cluster
        self._move = move
        others = [name for name in (cluster.database, "postgres", "template1") if name != move.name]
        self._from = others[0]

    def here(self) -> str:
        """Return its tablespace."""
        return str(self._row()[0])

    def target(self) -> str:
        """Return the tablespace to which it moves."""
        return make_tablespace(self._cluster, self._move.to)

    def _row(self) -> tuple[str, int | None, bool]:
        rows = self._cluster.rows(_DATABASE, self._move.name, database=self._from)
        if not rows:
            raise GoneError(f'there is no database "{self._move.name}"')
        return rows[0]

    def refuse(self) -> None:
        """Refuse a move that must not be made."""
        cluster = self._cluster
        _here, _size_bytes, may = self._row()
        if not may:
            raise PlaceError(
                f'role "{cluster.role}" may not move database "{self._move.name}"',
                hint="Use its owner with CREATEDB, or a superuser.",
            )
        refuse_target(cluster, self._move.to)

    def room(self, place: str) -> Room:
        """Return how much room the move needs in a tablespace."""
        here, size_bytes, _may = self._row()
        if size_bytes is None:  # as pg_database_size() answers if it finds no file
            raise PlaceError(
                f'the size of database "{self._move.name}" is not known',
                hint="Its folder may be missing: look into the tablespace and the server's log.",
            )
        there = find_tablespace(self._cluster, place) or place
        return Room() if here == there else Room(stays={there: size_bytes})

    def look(self) -> Look:
        """Return the effects of the move, or refuse it."""
        self.refuse()
        here, size_bytes, _may = self._row()
        found = find_tablespace(self._cluster, self._move.to)
        users = self._users()
        folder = self._cluster.folder_at(found, self._move.to)
        return Look(
            here=here,
            there=found or self._move.to,
            bytes=size_bytes or 0,
            lock="No session can connect to the database while it is copied, and none may be "
            "connected.",
            # Two checkpoints are part of it.
            estimate=estimate(size_bytes or 0, writes=self._cluster.write_rate(folder)).later(
                0.0, 30.0
            ),
            warnings=(f"Connected now: {users}.",) if users else (),
            is_there=found == here,
        )

    def _users(self) -> str:
        rows = self._cluster.rows(_USERS, self._move.name, database=self._from)
        return ", ".join(f"{name} ({pid})" for pid, name in rows)

    def go(self, place: str, steps: Steps) -> None:
        """Move it to a tablespace."""
        # Our own sessions must not be in the way.
        self._cluster.forget(self._move.name)
        if self.here() == place:
            return
        deadline = time.monotonic() + _OURS_WAIT_S
        while users := self._users():
            # This may be the session that we have just closed.
            if time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            raise PlaceError(
                f'database "{self._move.name}" is in use: {users}',
                hint="End these sessions, or move it object by object while it is used, without "
                "--offline.",
            )
        steps.at("copy the database")
        self._cluster.run(
            sql.SQL("alter database {} set tablespace {}").format(
                sql.Identifier(self._move.name), sql.Identifier(place)
            ),
            database=self._from,
            doing=f"move database {self._move.name}",
        )
