# SPDX-License-Identifier: PostgreSQL
"""A cluster as placement sees it over SQL: sessions, rights, tablespaces, room.

Every session asks the server to check each second whether its client is still there
(client_connection_check_interval): otherwise a killed pgflash could leave a statement behind that
holds a lock everybody waits for.  Time-outs that an administrator set for applications do not apply
to these sessions, nor does default_transaction_read_only.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, LiteralString, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgflash.local import listener, postmaster_pid, why_not_local
from pgflash.machine.ephemeral import ephemeral_at
from pgflash.place import files, speed
from pgflash.place.control import ServerProcess
from pgflash.place.errors import PlaceError
from pgflash.place.names import split_names
from pgflash.place.owner import Owner
from pgflash.place.speed import Rate
from pgflash.session import Connection, SessionError, connect, said, unrestricted

_SESSION = (
    "set client_connection_check_interval = '1s'",
    "set statement_timeout = 0",
    "set lock_timeout = 0",
    "set idle_in_transaction_session_timeout = 0",
    "set idle_session_timeout = 0",
    "set default_transaction_read_only = off",
)


class Cluster:
    """Sessions with one cluster, one per database, and the most frequent queries."""

    def __init__(self, dsn: str) -> None:
        """Connect to the database of the connection string."""
        self._dsn = dsn
        self._sessions: dict[str, Connection] = {}
        self._write_rates: dict[Path, Rate | None] = {}
        self._read_rates: dict[int, Rate] = {}
        first = self._open("")
        self.database: str = first.info.dbname
        self._sessions[self.database] = first
        self.version = first.info.server_version
        self.system_identifier = str(
            self.value("select system_identifier from pg_control_system()")
        )

    @property
    def major(self) -> int:
        """The server's major version."""
        return self.version // 10_000

    def session(self, database: str = "") -> Connection:
        """Return the session with a database, opened again if it was lost."""
        name = database or self.database
        session = self._sessions.get(name)
        if session is None or session.closed or session.broken:
            session = self._sessions[name] = self._open(name)
        return session

    def fresh(self, database: str = "") -> Connection:
        """Return a session of the caller's own, to be closed."""
        return self._open(database or self.database)

    def conninfo(self, database: str = "") -> str:
        """Return a connection string for a database."""
        return make_conninfo(self._dsn, dbname=database or self.database)

    def forget(self, database: str | None = None) -> None:
        """Close the session with a database, or all; they are opened again when needed."""
        for name in [database] if database is not None else [*self._sessions]:
            session = self._sessions.pop(name, None)
            if session is not None:
                session.close()

    def rows(
        self,
        query: LiteralString | sql.Composed,
        *values: object,
        database: str = "",
        doing: str = "",
    ) -> list[tuple[Any, ...]]:
        """Return what a query finds; DOING completes "could not ..."."""
        with said_no(doing or f"ask database {database or self.database}"):
            return self.session(database).execute(query, values or None).fetchall()

    def value(
        self, query: LiteralString | sql.Composed, *values: object, database: str = ""
    ) -> Any:  # noqa: ANN401 - whatever the query's column is
        """Return the only value that a query finds, or None."""
        rows = self.rows(query, *values, database=database)
        return rows[0][0] if rows else None

    def run(
        self, statement: LiteralString | sql.Composed, *, database: str = "", doing: str
    ) -> None:
        """Run a command, which may call functions of users; DOING completes "could not ..."."""
        session = self.session(database)
        with said_no(doing), unrestricted(session):
            session.execute(statement)

    # ---- what it is

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine, so that its files can be looked at."""
        # A tunnel or a pooler has this machine's address, too, but no process here.
        return not why_not_local(self.session())

    def process(self) -> ServerProcess:
        """Return the server as a process of this machine that we may stop and start."""
        if not self.is_local:
            raise PlaceError(
                "the server runs on another machine, or its processes are not visible here",
                hint="Run pgflash on the server's machine, in its container if it is in one, as "
                "the server's user or as root.",
            )
        process = ServerProcess(self.data_directory())
        # The server itself says where it lives; it must not point root at another server.
        uid = listener(self.session()) if os.geteuid() == 0 else process.owner.uid
        if uid is None:
            raise PlaceError(
                "root must connect by a Unix socket: over TCP, it is unknown whose process answers",
                hint="Name the socket's folder as the host, as in --dsn host=/var/run/postgresql, "
                f"or run pgflash as {process.owner.name}.",
            )
        if uid != process.owner.uid:
            raise PlaceError(
                f"the process that answers does not run as the owner of {process.data}, "
                f"{process.owner.name}",
                hint="Connect to the server itself, not to a pooler of another user.",
            )
        # A container's paths mean something else here: another server may live there.
        if process.pid() != postmaster_pid(self.session()):
            raise PlaceError(
                f"the server that answers is not the one in {process.data}",
                hint="If it runs in a container, run pgflash in it, too.",
            )
        return process

    @property
    def is_standby(self) -> bool:
        """Whether it is in recovery."""
        return bool(self.value("select pg_is_in_recovery()"))

    @property
    def is_superuser(self) -> bool:
        """Whether our role is a superuser."""
        return bool(self.value("select rolsuper from pg_roles where rolname = current_user"))

    @property
    def role(self) -> str:
        """Our role."""
        return str(self.value("select current_user"))

    def setting(self, name: str) -> str:
        """Return a setting that our role may see."""
        value = self.value("select current_setting(%s, true)", name)
        return "" if value is None else str(value)

    def setting_or_none(self, name: str) -> str | None:
        """Return a setting, or None if our role may not see it."""
        try:
            return self.setting(name)
        except PlaceError:
            return None

    def data_directory(self) -> Path:
        """Return where the cluster lives; its files are there only if it is local."""
        try:
            return Path(self.setting("data_directory"))
        except PlaceError as error:
            raise PlaceError(
                f'role "{self.role}" may not see where the data directory is',
                hint=f"GRANT pg_read_all_settings TO {self.role}; or use a superuser.",
            ) from error

    def has_database(self, name: str) -> bool:
        """Say whether there is a database of this name."""
        if name in self._sessions and not self._sessions[name].closed:
            return True
        return bool(self.value("select exists (select from pg_database where datname = %s)", name))

    # ---- tablespaces

    def tablespaces(self) -> dict[str, str]:
        """Return tablespaces and their folders; the two in the data directory have none."""
        return {
            name: str(folder)
            for name, folder in self.rows(
                "select spcname, pg_tablespace_location(oid) from pg_tablespace"
            )
        }

    def tablespace_folder(self, name: str) -> Path:
        """Return the folder that a tablespace's files are in."""
        folder = self.tablespaces()[name]
        # An in-place tablespace has a path relative to the data directory.
        return Path(folder) if folder.startswith("/") else self.data_directory() / folder

    def folder_at(self, tablespace: str | None, folder: str) -> Path:
        """Return the folder of a tablespace, or that of one that is yet to be made."""
        return Path(folder) if tablespace is None else self.tablespace_folder(tablespace)

    def why_lost(self, folder: str) -> str:
        """Return why a stop of the machine would lose a folder, but not the data directory.

        "" if it would not, or if that is not known.
        """
        data = self.setting_or_none("data_directory")
        if not self.is_local or data is None:
            return ""

        def lost(path: str) -> str:
            # Users other than root may not reach the data directory, and need not.
            if os.geteuid() != 0:
                return ephemeral_at(path)
            return Owner.of(Path(data)).do(ephemeral_at, path)

        return "" if lost(data) else lost(folder)

    def refuse_loss(self, folder: str) -> None:
        """Refuse a folder that a stop of the machine would empty; "" is the data directory."""
        why = self.why_lost(folder) if folder.startswith("/") else ""
        if why:
            raise PlaceError(
                f"{folder} is empty after a stop of the machine ({why})",
                hint="Name one on a device that lasts. Only temporary files may be lost.",
            )

    def sort_room(self, database: str) -> tuple[int, list[str]]:
        """Return the size from which the sort of a new index spills, and the tablespaces used."""
        rows = self.rows(
            "select pg_size_bytes(current_setting('maintenance_work_mem')), "
            "current_setting('temp_tablespaces'), spcname from pg_database d join pg_tablespace t "
            "on t.oid = dattablespace where datname = current_database()",
            database=database,
        )
        memory_bytes, temp, home = rows[0]
        names = [name for name in split_names(temp) if name in self.tablespaces()]
        return int(memory_bytes), names or [str(home)]

    def device_of(self, folder: Path) -> int:
        """Return the device that a folder is on, or would be; 0 if that cannot be seen."""
        if not self.is_local:
            return 0
        try:
            return files.nearest(folder).stat().st_dev
        except OSError:
            return 0

    def need_room(self, folder: Path, wanted_bytes: int, what: str) -> None:
        """Refuse unless a folder's device has room for it."""
        if not self.is_local:
            raise PlaceError(
                "the server runs on another machine, whose free space is not known here",
                hint="Run pgflash there, or say that there is room: --room-is-there.",
            )
        try:
            files.need_room(folder, wanted_bytes, what)
        except OSError as error:
            raise PlaceError(
                f"could not determine the free space in {folder}: {error.strerror}",
                hint="Run pgflash as the server's user, or say that there is room: "
                "--room-is-there.",
            ) from error

    def write_rate(self, folder: Path) -> Rate | None:
        """Return how fast the device of a folder writes, measured once, if that can be told."""
        if not self.is_local:
            return None
        if folder not in self._write_rates:
            # The user who runs us may not even be allowed to look there.
            measured = None
            with contextlib.suppress(OSError, PlaceError):
                measured = speed.write_speeds(folder, self.process().owner)
            self._write_rates[folder] = speed.rate_of(measured)
        return self._write_rates[folder]

    def read_rate(self, file: Path | None) -> Rate | None:
        """Return how fast the device of a file reads, measured once, if that can be told."""
        if not self.is_local or file is None:
            return None
        try:
            owner = self.process().owner
            device = owner.do(lambda: file.stat().st_dev)
        except (OSError, PlaceError):
            return None
        if device not in self._read_rates:
            measured = speed.rate_of(owner.do(speed.read_speeds, file))
            if measured is None:
                return None  # the next file may be long enough
            self._read_rates[device] = measured
        return self._read_rates[device]

    def log_rate(self) -> Rate | None:
        """Return how fast the device of the WAL writes; None if copies are not logged."""
        if self.setting("wal_level") == "minimal":
            return None
        data = self.setting_or_none("data_directory")
        return (data and self.write_rate(Path(data, "pg_wal"))) or speed.ASSUMED

    # ---- sessions

    def _open(self, database: str) -> Connection:
        session = connect(make_conninfo(self._dsn, dbname=database) if database else self._dsn)
        try:
            with said("begin a session"):
                for statement in _SESSION:
                    session.execute(statement)
                if session.info.server_version >= 170_000:
                    session.execute("set transaction_timeout = 0")
        except SessionError:
            session.close()
            raise
        return session

    def close(self) -> None:
        """Close all sessions."""
        self.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


@contextlib.contextmanager
def said_no(doing: str) -> Iterator[None]:
    """Report in one line what the server refused."""
    try:
        yield
    except psycopg.Error as error:
        words = " ".join((error.diag.message_primary or str(error)).split())
        detail = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
        raise PlaceError(
            f"could not {doing}: {words}{detail}", hint=error.diag.message_hint or ""
        ) from error


def try_cluster(dsn: str) -> Cluster | None:
    """Return the cluster, or None if no server answers: we may have stopped it."""
    try:
        return Cluster(dsn)
    except SessionError as error:
        if isinstance(error.__cause__, psycopg.OperationalError):
            return None
        raise
