# SPDX-License-Identifier: PostgreSQL
"""Snapshots in a file: SQLite, with the same tables as the extension has in the database.

Contents are compressed JSON.  The file belongs to one cluster: the first snapshot decides which,
and snapshots of another are refused.  A process that adds a snapshot holds the file's write lock
from reading what the last snapshot keeps until the new one is complete.  So two processes take
turns, and one that fails or is killed leaves the file unchanged.

SQLite looks beside the file, by name, for what a killed process left.  So anybody who may create
files there can make SQLite write their content into the file.  Root refuses a file in such a
folder.
"""

import contextlib
import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import msgspec

from pgflash.model.collected import Counted, LastSnapshot, NewSnapshot, Rows
from pgflash.model.snapshot import (
    FORMAT,
    Baseline,
    Section,
    SnapshotError,
    SnapshotHead,
)
from pgflash.store.section import decode_section
from pgflash.trusted import ROOT, ChangeableError, opened_parent

#: "pgfl": tells our files from other SQLite databases.
_APPLICATION_ID = 0x7067666C

#: How long another process may hold the write lock: a snapshot takes about a second.
LOCK_WAIT_S = 30.0

_TABLES = """
create table about (name text primary key, value text not null);
create table snapshots (
    snapshot_id integer primary key autoincrement,
    taken_at real not null,
    started_at real not null,
    previous_id integer,
    took_ms real not null,
    origin text not null,
    server_version_num integer not null,
    extension_version text not null);
create table snapshot_sections (
    snapshot_id integer not null references snapshots on delete cascade,
    section text not null,
    kind text not null,
    content blob not null,
    primary key (snapshot_id, section)) without rowid;
create table snapshot_queries (query_id integer primary key, query text not null, used_at real);
create table snapshot_last (
    section text primary key, snapshot_id integer not null, content blob not null);
"""

#: Made with the first baseline: then the file has FORMAT, and an older pgflash refuses it, since it
#: would drop the snapshots.
_BASELINES = """
create table if not exists baselines (
    name text primary key, begin_id integer not null, end_id integer not null,
    kept_at real not null)
"""
#: Names in a baseline's snapshots stay in use for ever.
_FOR_EVER = float("inf")

#: How content that is damaged fails to be read.
_DAMAGED = (zlib.error, TypeError, ValueError)

_HEAD = (
    "s.snapshot_id, s.taken_at, s.started_at, s.previous_id, s.took_ms, s.origin, "
    "s.server_version_num, s.extension_version"
)


class FileStore:
    """A file of snapshots."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Use open() or create()."""
        self._path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file that exists."""
        if not path.is_file():
            raise SnapshotError(
                f'there is no file "{path}"', hint=f"Create it: pgflash snapshot --store {path}"
            )
        return cls._connected(path)

    @classmethod
    def create(cls, path: Path) -> Self:
        """Open a file; create it if it does not exist, for its owner alone: it has statements."""
        return cls._connected(path, may_create=True)

    @classmethod
    def _connected(cls, path: Path, *, may_create: bool = False) -> Self:
        _refuse_changeable(path)
        if may_create:
            with contextlib.suppress(OSError):  # it exists, or SQLite reports what is wrong
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with _said(f'could not open "{path}"'):
            connection = sqlite3.connect(path, timeout=LOCK_WAIT_S, isolation_level=None)
        store = cls(path, connection)
        try:
            with _said(f'could not read "{path}"'):
                connection.execute("pragma foreign_keys = on")
                store._prepare()
        except BaseException:
            connection.close()
            raise
        return store

    def _prepare(self) -> None:
        """Check what the file is; create its tables if it is new."""
        if self._pragma("application_id") == 0 and self._is_empty():
            with self._transaction():
                if self._is_empty():  # no other process was faster
                    for statement in _TABLES.split(";\n"):
                        self._connection.execute(statement)
                    self._connection.execute(f"pragma application_id = {_APPLICATION_ID}")
                    self._connection.execute("pragma user_version = 1")
        if self._pragma("application_id") != _APPLICATION_ID:
            raise SnapshotError(
                f'"{self._path}" is not a file of snapshots', hint="Name another with --store."
            )
        found = self._pragma("user_version")
        if found > FORMAT:
            raise SnapshotError(
                f'"{self._path}" was made by a newer pgflash: it has format {found}, and this '
                f"one knows {FORMAT}",
                hint="Use the pgflash command of that version.",
            )

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"pragma {name}").fetchone()[0])

    def _is_empty(self) -> bool:
        return self._connection.execute("select 1 from sqlite_master").fetchone() is None

    @property
    def name(self) -> str:
        """The name that people know this store by."""
        return f'"{self._path}"'

    # ---- reading

    def list(self) -> tuple[SnapshotHead, ...]:
        """Return all heads, the oldest first."""
        return tuple(
            _head(row) for row in self._rows(f"select {_HEAD} from snapshots s order by 1")
        )

    def sections(self, snapshot_id: int) -> dict[str, Section]:
        """Return a snapshot's sections by name."""
        rows = self._rows(
            "select section, kind, content from snapshot_sections where snapshot_id = ?",
            snapshot_id,
        )
        if not rows:
            raise SnapshotError(f"there is no snapshot {snapshot_id} in {self.name}")
        return {name: self._section(name, kind, content) for name, kind, content in rows}

    def sections_between(
        self, begin_id: int, end_id: int, name: str
    ) -> tuple[tuple[SnapshotHead, Section], ...]:
        """Return the section of every snapshot after BEGIN_ID up to END_ID that has it."""
        rows = self._rows(
            f"select {_HEAD}, c.kind, c.content from snapshots s "
            "join snapshot_sections c using (snapshot_id) "
            "where s.snapshot_id > ? and s.snapshot_id <= ? and c.section = ? order by 1",
            begin_id,
            end_id,
            name,
        )
        return tuple((_head(row[:8]), self._section(name, row[8], row[9])) for row in rows)

    def queries(self, query_ids: Iterable[int]) -> dict[int, str]:
        """Return the texts of statements by their ids, as far as they are known."""
        wanted = set(query_ids)
        rows = self._rows("select query_id, query from snapshot_queries")
        return {number: text for number, text in rows if number in wanted}

    def baselines(self) -> tuple[Baseline, ...]:
        """Return the periods that are kept under a name."""
        if not self._has_baselines():
            return ()
        rows = self._rows(
            "select name, begin_id, end_id, kept_at from baselines order by begin_id, end_id, name"
        )
        return tuple(
            Baseline(
                name=name, begin_id=begin, end_id=end, kept_at=datetime.fromtimestamp(kept, UTC)
            )
            for name, begin, end, kept in rows
        )

    def _has_baselines(self) -> bool:
        return bool(self._rows("select 1 from sqlite_master where name = 'baselines'"))

    # ---- writing

    def keep(self, name: str, begin_id: int, end_id: int) -> None:
        """Keep the snapshots from one to another under a name that is free."""
        with self._transaction():
            self._execute(_BASELINES)
            self._execute(f"pragma user_version = {FORMAT}")
            self._execute(
                "insert into baselines values (?, ?, ?, ?)", name, begin_id, end_id, time.time()
            )
            self._use(_FOR_EVER, self._named(begin_id, end_id))

    def release(self, name: str) -> None:
        """Drop a baseline; its snapshots are then dropped by their age, like all others."""
        with self._transaction():
            kept: set[int] = set()
            for one in self.baselines():
                if one.name != name:
                    kept |= self._named(one.begin_id, one.end_id)
            rows = self._rows("select query_id from snapshot_queries where used_at = ?", _FOR_EVER)
            self._use(time.time(), {number for (number,) in rows} - kept)
            self._execute("delete from baselines where name = ?", name)

    def _named(self, begin_id: int, end_id: int) -> set[int]:
        """Return the statements that these snapshots name."""
        return {
            int(number)
            for _, section in self.sections_between(begin_id - 1, end_id, "statements")
            for number in section.column("query_id") or ()
            if isinstance(number, int)
        }

    def _use(self, moment: float, query_ids: Iterable[int]) -> None:
        for number in query_ids:
            self._execute(
                "update snapshot_queries set used_at = ? where query_id = ?", moment, number
            )

    @contextlib.contextmanager
    def adding(self, system_identifier: str) -> Iterator[LastSnapshot | None]:
        """Hold the write lock while a snapshot of this cluster is collected; yield the last one."""
        with self._transaction():
            self._check_owner(system_identifier)
            yield self._last()

    def add(self, new: NewSnapshot) -> int:
        """Keep a snapshot, only inside adding(), and return its id."""
        cursor = self._execute(
            "insert into snapshots (taken_at, started_at, previous_id, took_ms, origin, "
            "server_version_num, extension_version) values (?, ?, ?, ?, ?, ?, '')",
            new.taken_at.timestamp(),
            new.started_at.timestamp(),
            new.previous_id,
            new.took_ms,
            new.origin,
            new.server_version_num,
        )
        snapshot_id = cursor.lastrowid
        assert snapshot_id is not None
        for section in new.sections:
            content = _packed({"columns": section.columns, "rows": section.rows})
            self._execute(
                "insert into snapshot_sections values (?, ?, ?, ?)",
                snapshot_id,
                section.name,
                section.kind.value,
                content,
            )
        self._execute("delete from snapshot_last")
        for name, rows in new.remembered.items():
            self._execute(
                "insert into snapshot_last values (?, ?, ?)", name, snapshot_id, _packed_rows(rows)
            )
        self._execute("insert or ignore into about values ('cluster', ?)", new.system_identifier)
        for number, text in new.queries.items():
            self._execute(
                "insert into snapshot_queries values (?, ?, ?) "
                "on conflict do update set used_at = max(used_at, excluded.used_at)",
                number,
                text,
                time.time(),
            )
        return snapshot_id

    def drop(self, before: datetime) -> int:
        """Drop older snapshots; return how many there were."""
        moment = before.timestamp()
        with self._transaction():
            self._execute("delete from snapshot_queries where used_at < ?", moment)
            kept = (
                "and not exists (select 1 from baselines where snapshot_id between begin_id "
                "and end_id)"
                if self._has_baselines()
                else ""
            )
            return self._execute(
                f"delete from snapshots where taken_at < ? {kept}", moment
            ).rowcount

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    # ---- within

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._execute("begin immediate")
        try:
            yield
            self._execute("commit")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            raise

    def _check_owner(self, system_identifier: str) -> None:
        found = self._rows("select value from about where name = 'cluster'")
        if found and found[0][0] != system_identifier:
            raise SnapshotError(
                f"{self.name} contains snapshots of another server",
                hint="Name another file with --store: one for each server.",
            )

    def _last(self) -> LastSnapshot | None:
        heads = self._rows(f"select {_HEAD} from snapshots s order by 1 desc limit 1")
        if not heads:
            return None
        head = _head(heads[0])
        remembered = self._rows(
            "select section, content from snapshot_last where snapshot_id = ?", head.id
        )
        readings = {}
        for name, content in remembered:
            with contextlib.suppress(*_DAMAGED):  # its counting starts again
                readings[name] = _unpacked_rows(content)
        return LastSnapshot(id=head.id, started_at=head.started_at, remembered=readings)

    def _section(self, name: str, kind: str, content: bytes) -> Section:
        return decode_section(name, kind, content, store=self.name)

    def _execute(self, query: str, *values: object) -> sqlite3.Cursor:
        with _said(f"could not use {self.name}"):
            return self._connection.execute(query, values)

    def _rows(self, query: str, *values: object) -> Sequence[tuple[Any, ...]]:
        with _said(f"could not read {self.name}"):
            return self._connection.execute(query, values).fetchall()


def _refuse_changeable(path: Path) -> None:
    """Refuse, as root, a file in a folder where other users can create files."""
    if os.geteuid() != 0:
        return
    try:
        with opened_parent(path, who=ROOT):
            return
    except ChangeableError as error:
        raise SnapshotError(
            f'root does not use "{path}": {error.message}',
            hint="Run pgflash as that user, or name a file in a folder that only root may write "
            "to.",
        ) from error
    except OSError:
        return  # SQLite reports what is wrong


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    """Report what SQLite refused."""
    try:
        yield
    except sqlite3.Error as error:
        locked = "locked" in str(error)
        raise SnapshotError(
            f"{what}: {error}",
            hint="Somebody else is adding a snapshot; try again." if locked else "",
        ) from error


def _head(row: tuple[Any, ...]) -> SnapshotHead:
    names = SnapshotHead.__dataclass_fields__
    values = dict(zip(names, row, strict=True))
    try:
        for name in ("taken_at", "started_at"):
            values[name] = datetime.fromtimestamp(values[name], UTC)
    except (ValueError, OverflowError, OSError, TypeError) as error:
        raise SnapshotError(f"the time of snapshot {row[0]} is impossible: {error}") from error
    return SnapshotHead(**values)


def _packed(value: object) -> bytes:
    return zlib.compress(msgspec.json.encode(value))


def _packed_rows(rows: Rows) -> bytes:
    return _packed([(key, one.values, one.birth, one.labels) for key, one in rows.items()])


def _unpacked_rows(content: bytes) -> Rows:
    return {
        tuple(key): Counted(values=tuple(values), birth=birth, labels=tuple(labels))
        for key, values, birth, labels in msgspec.json.decode(zlib.decompress(content))
    }
