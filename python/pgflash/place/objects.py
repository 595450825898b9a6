# SPDX-License-Identifier: PostgreSQL
"""Move tables and indexes to another tablespace.

REINDEX CONCURRENTLY rebuilds an index there, and no session waits.  An interrupted attempt may
leave an invalid index behind (NAME_ccnew or NAME_ccold), which is dropped both before and after a
rebuild.  An index that cannot be rebuilt this way (of an exclusion constraint) is copied under a
lock.

pg_repack moves a table where it is installed; otherwise ALTER TABLE copies it under a lock that
shuts out readers, too.  TOAST moves along.  A partitioned relation has no file of its own: for it,
the change says where new partitions are created.

Each of these is a transaction of the server: after a kill the relation is either moved or not, and
the server removes the files of the other state.  Only a crash of the server itself leaves such
files: nothing but a new cluster ever removes files that belong to no relation.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator

import psycopg
from psycopg import sql

from pgflash.errors import PgflashError
from pgflash.machine.host import core_count
from pgflash.model.plan import Move, MoveKind
from pgflash.model.sizes import MB
from pgflash.place import repack
from pgflash.place.building import built_bytes, sort_bytes
from pgflash.place.cluster import Cluster
from pgflash.place.errors import GoneError, PlaceError
from pgflash.place.journal import Steps
from pgflash.place.locked import Patience, Waiting, alone, lock_timeout, run_locked
from pgflash.place.mover import Look, Room
from pgflash.place.relations import (
    INDEX_KINDS,
    TABLE_KINDS,
    Relation,
    file_of,
    find_again,
    find_relation,
    indexes_of,
    refuse_relation,
)
from pgflash.place.speed import Estimate, Rate, estimate
from pgflash.place.tablespaces import (
    find_tablespace,
    is_folder,
    make_tablespace,
    refuse_target,
)
from pgflash.place.watch import watched

_ALTER = {"r": "table", "p": "table", "m": "materialized view", "i": "index", "I": "index"}

_LEFTOVERS = """
select n.nspname, c.relname from pg_index i join pg_class c on c.oid = i.indexrelid
  join pg_namespace n on n.oid = c.relnamespace
 where i.indrelid = (select indrelid from pg_index where indexrelid = %s)
   and not i.indisvalid and c.oid <> %s and c.relname ~ '_cc(new|old)[0-9]*$'
   and starts_with(%s, regexp_replace(c.relname, '_cc(new|old)[0-9]*$', ''))
   and (regexp_replace(c.relname, '_cc(new|old)[0-9]*$', '') = %s or octet_length(c.relname) >= 60)
"""

_BUILDING = """
select p.pid from pg_stat_progress_create_index p
 where p.datname = current_database() and p.pid <> pg_backend_pid()
   and p.relid = (select indrelid from pg_index where indexrelid = %s)
"""

#: The locks of a prepared transaction have no process; its lock on itself identifies it.
_PREPARED = """
select p.gid from pg_locks l
  join pg_locks own on own.locktype = 'transactionid' and own.pid is null
   and own.virtualtransaction = l.virtualtransaction
  join pg_prepared_xacts p on p.transaction = own.transactionid
 where l.pid is null and p.database = current_database()
   and (l.relation = %s or l.relation = (select indrelid from pg_index where indexrelid = %s))
"""

#: How fast sorting and comparing make an index or a table, by what is in it.
BUILD = Rate(quick=100.0 * MB, slow=12.0 * MB, is_measured=False)

#: Processes that wait for disks count as load, too, and do not compete for processors.
_BUSY_MAX = 4.0

#: How often a table may be dropped and created again while it is being moved.
_MADE_AGAIN_MAX = 5


class RelationMover:
    """Moves one table or index."""

    def __init__(
        self, cluster: Cluster, move: Move, *, with_indexes: Callable[[], bool] = lambda: False
    ) -> None:
        """Prepare to move this relation; WITH_INDEXES: its indexes move the same way next."""
        self._cluster = cluster
        self._move = move
        self._with_indexes = with_indexes
        kinds = INDEX_KINDS if move.kind is MoveKind.INDEX else TABLE_KINDS
        self._relation = find_relation(cluster, move.name, kinds=kinds, database=move.database)

    def here(self) -> str:
        """Return the tablespace it is in."""
        return self._now().tablespace

    def target(self) -> str:
        """Return the tablespace to which it moves."""
        return make_tablespace(self._cluster, self._move.to)

    def _now(self) -> Relation:
        # Find it by its name: REINDEX CONCURRENTLY creates a new relation.
        found = find_again(self._cluster, self._relation)
        if found is None:
            raise GoneError(f"{self._relation.title} was dropped or renamed meanwhile")
        return found

    # ---- look

    def refuse(self) -> None:
        """Refuse a move that must not be made."""
        cluster, relation = self._cluster, self._now()
        refuse_relation(cluster, relation)
        refuse_target(cluster, self._move.to, home_of=relation.database)
        self._method(relation, self._move.to)
        prepared = cluster.value(_PREPARED, relation.oid, relation.oid, database=relation.database)
        if prepared is not None:
            raise PlaceError(
                f'the prepared transaction "{prepared}" holds a lock on {relation.title}',
                hint="Finish it first: COMMIT PREPARED or ROLLBACK PREPARED.",
            )

    def look(self) -> Look:
        """Return the effects of the move, or refuse it."""
        self.refuse()
        relation = self._now()
        found = find_tablespace(self._cluster, self._move.to)
        method, warnings = self._method(relation, self._move.to)
        if method == "reindex" and not self._flag("indisvalid"):
            warnings.append(
                f"{relation.title} is not valid. The rebuild makes it valid, if its data allow."
            )
        is_there = found == relation.tablespace
        return Look(
            here=relation.tablespace,
            there=found or self._move.to,
            bytes=relation.bytes,
            lock=_LOCKS[method],
            estimate=Estimate() if is_there else self._estimate(relation, found, method),
            warnings=(*warnings, *self._wal_warning(relation)),
            is_there=is_there,
        )

    def room(self, place: str) -> Room:
        """Say how much goes to its destination, and how much is needed meanwhile and where."""
        relation = self._now()
        there = find_tablespace(self._cluster, place) or place
        if relation.tablespace == there:
            return Room()
        method, _warnings = self._method(relation, there)
        built = [relation] if method == "reindex" else []
        passes = Counter[str]()
        if method == "repack":
            built = indexes_of(self._cluster, relation)
            if not self._with_indexes():
                # Indexes are rebuilt beside the old ones, wherever those are.
                for index in built:
                    passes[index.tablespace] += built_bytes(self._cluster, index)
        memory_bytes, temps = self._cluster.sort_room(relation.database)
        spilled = [sort_bytes(self._cluster, index, memory_bytes) for index in built]
        # Which of several devices it takes is chance. Indexes are built one by one.
        for temp in {self._device_of(name): name for name in temps}.values():
            passes[temp] += max(spilled, default=0)
        stays = relation.bytes if method == "alter" else built_bytes(self._cluster, relation)
        return Room(stays={there: stays}, passes=passes)

    def _device_of(self, tablespace: str) -> int:
        return self._cluster.device_of(self._cluster.tablespace_folder(tablespace))

    def _estimate(self, relation: Relation, found: str | None, method: str) -> Estimate:
        """Return how long it may take: a copy, and for what is rebuilt its sort, too."""
        cluster = self._cluster
        copy = estimate(
            relation.bytes,
            writes=cluster.write_rate(cluster.folder_at(found, self._move.to)),
            reads=cluster.read_rate(file_of(cluster, relation)),
            log=cluster.log_rate() if relation.persistence == "p" else None,
        )
        if method not in {"reindex", "repack"}:
            return copy
        busy = os.getloadavg()[0] / core_count() if cluster.is_local else 1.0
        busy = min(max(busy, 1.0), _BUSY_MAX)
        return copy.later(relation.bytes / BUILD.quick, busy * relation.bytes / BUILD.slow)

    def _wal_warning(self, relation: Relation) -> Iterator[str]:
        """Warn of the WAL that a large copy writes if standbys or the archive have to take it."""
        max_bytes, takers = self._cluster.rows(
            "select pg_size_bytes(current_setting('max_wal_size')), (select count(*) from "
            "pg_replication_slots) + (select count(*) from pg_stat_replication) + "
            "(current_setting('archive_mode') <> 'off')::int"
        )[0]
        if relation.persistence == "p" and takers and relation.bytes > max_bytes:
            yield (
                "A move writes as much WAL as it moves; archive, slots and standbys must keep "
                "up, or pg_wal grows."
            )

    def _method(self, relation: Relation, place: str) -> tuple[str, list[str]]:
        """Return how it is moved to a place, and what has to be said about that."""
        asked = self._move.options.get("method", "auto")
        if relation.is_partitioned:
            return "catalog", []
        if relation.is_index:
            if self._flag("indisexclusion"):
                return "alter", ["It belongs to an exclusion constraint, so it is copied."]
            return "reindex", []
        if asked == "alter":
            return "alter", []
        known = relation.tablespace if is_folder(place) else place
        reason = repack.why_not(self._cluster, relation, known)
        if reason is None:
            return "repack", []
        if asked == "repack":
            raise PlaceError(f"pg_repack cannot move {relation.title}: {reason}")
        return "alter", [f"Without pg_repack, readers must wait, too: {reason}."]

    def _flag(self, name: str) -> bool:
        """Return a flag of the index."""
        query = sql.SQL("select {} from pg_index where indexrelid = %s")
        return bool(
            self._cluster.value(
                query.format(sql.Identifier(name)),
                self._now().oid,
                database=self._relation.database,
            )
        )

    # ---- go

    def go(self, place: str, steps: Steps) -> None:
        """Move it to a tablespace; raise GoneError if it is dropped and created again too often."""
        failed: PlaceError
        for _attempt in range(_MADE_AGAIN_MAX):
            relation = self._now()
            try:
                self._go(place, steps)
                return
            except PlaceError as error:
                if not self._is_another(relation):
                    raise
                failed = error
        raise GoneError(f"{self._relation.title} is dropped and recreated all the time") from failed

    def _is_another(self, relation: Relation) -> bool:
        """Say whether another of its name has replaced it; raise if it was only dropped."""
        try:
            return self._now().table_oid != relation.table_oid
        except GoneError:
            raise
        except PgflashError:
            return False  # the server does not answer, so this is unknown

    def _go(self, place: str, steps: Steps) -> None:
        with alone(self._cluster, self._now(), steps):
            self._go_alone(place, steps)

    def _go_alone(self, place: str, steps: Steps) -> None:
        relation = self._now()
        method, _warnings = self._method(relation, place)
        patience = Patience.of(self._move.options)
        if method == "reindex":
            self._wait_for_others(steps)
            with self._limited(patience):
                self._drop_leftovers(steps)
        elif method == "repack":
            repack.clean_up(self._cluster, relation)
        if self._now().tablespace == place:
            return
        if method == "reindex":
            with self._limited(patience):
                self._reindex(place, steps)
        elif method == "repack":
            together = self._with_indexes()
            repack.repack(self._cluster, relation, place, steps, with_indexes=together)
        else:
            steps.at("copy under a lock", work=relation.bytes)
            with watched(self._cluster, relation, steps):
                run_locked(self._cluster, relation, _alter(relation, place), patience, steps)
        now = self._now()
        if now.tablespace != place:
            raise PlaceError(f"{relation.title} is still in {now.tablespace}")

    def _reindex(self, place: str, steps: Steps) -> None:
        relation = self._now()
        steps.at("build it again")
        statement = sql.SQL("reindex (concurrently, tablespace {}) index {}").format(
            sql.Identifier(place), relation.sql
        )
        try:
            with watched(self._cluster, relation, steps):
                self._cluster.run(
                    statement, database=relation.database, doing=f"rebuild {relation.title}"
                )
        except PlaceError as error:
            # The same lock may block this, too: then the next attempt does it.
            with contextlib.suppress(PgflashError):
                self._drop_leftovers(steps)
            if isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                name = relation.sql.as_string(self._cluster.session(relation.database))
                raise PlaceError(
                    f"{error.message}; it was not valid before, either",
                    hint=f"DROP INDEX {name}; then resume: it is skipped.",
                ) from error
            raise

    @contextlib.contextmanager
    def _limited(self, patience: Patience) -> Iterator[None]:
        """Limit waits for older transactions; no session queues behind us here."""
        with lock_timeout(self._cluster, self._relation, round(patience.total_s * 1000)):
            yield

    def _drop_leftovers(self, steps: Steps) -> None:
        """Drop invalid copies of the index that an interrupted REINDEX left behind."""
        relation = self._now()
        rows = self._cluster.rows(
            _LEFTOVERS,
            *(relation.oid, relation.oid, relation.name, relation.name),
            database=relation.database,
        )
        for schema, name in rows:
            steps.at(f"drop the invalid index {name}")
            self._cluster.run(
                sql.SQL("drop index concurrently if exists {}.{}").format(
                    sql.Identifier(schema), sql.Identifier(name)
                ),
                database=relation.database,
                doing=f"drop the invalid index {schema}.{name}",
            )

    def _wait_for_others(self, steps: Steps) -> None:
        """Wait for another REINDEX of this table; it may be one of ours that lost its client."""
        waited = Waiting(steps, "Another process is building an index of this table: waiting.")
        while rows := self._cluster.rows(
            _BUILDING, self._now().oid, database=self._relation.database
        ):
            waited.once_more(f"process {rows[0][0]} has been building an index for too long")


_LOCKS = {
    "catalog": "A short lock on the parent; partitions move one by one.",
    "reindex": "Nobody waits: the index is rebuilt beside the old one; only other DDL and "
    "VACUUM of the table wait. The rebuild starts when all older transactions have "
    "ended.",
    "repack": "pg_repack: the table can be read and written meanwhile; a short lock at the "
    "start and at the end.",
    "alter": "Readers and writers of the table wait while it is copied. Each attempt to get "
    "the lock is short, so that nobody queues behind it for long.",
}


def _alter(relation: Relation, place: str) -> sql.Composed:
    return sql.SQL("alter {} {} set tablespace {}").format(
        sql.SQL(_ALTER[relation.kind]),
        relation.sql,
        sql.Identifier(place),
    )
