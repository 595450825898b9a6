# SPDX-License-Identifier: PostgreSQL
"""A session with a server: connected, or one clear sentence why not.

Every session begins with a search_path of the catalog alone.  Otherwise anybody who may create
objects in public, or who owns the database, could have us run an operator or a function of theirs
with our role's rights, which may be a superuser's.  The search_path is set by the first statement,
separately: a pooler drops what is in the connection's options.  Everything that we query in another
schema (the extension's, pg_stat_statements') is qualified.  A pooler may give the next statement to
another session of the server, so every function is qualified, too, and no operator needs a cast to
be found.  The same holds for functions of the extension: anybody who may create objects in its
schema can add one of the same name that matches the arguments better.  And anybody can take a name
that the installed version of the extension does not have: require_own() comes before each query
that a version may not answer.

The owner of a schema can rename it, and give its name to another one, while we use it.  So the
second statement has the server refuse all objects but PostgreSQL's and those of the extensions
(pgflash.restrict_objects, extension/src/server/restrict.c).  A server without pgflash cannot do
that: there, find_extension() refuses a schema whose owner has less rights than we.

An exception of psycopg becomes a PgflashError that says what to do next: a server that does not
answer, a server that is too old, a role without the rights.
"""

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple, Self, TypeAlias, cast

import psycopg
from psycopg import sql
from psycopg.abc import Buffer, Params
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.datetime import TimestamptzLoader

from pgflash.errors import PgflashError

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

#: The oldest major version that pgflash supports.
MAJOR_MIN = 15

CONNECT_TIMEOUT_S = 10

#: A server whose machine does not answer for a minute is gone: it may have vanished, or come back
#: without knowing this session.  The kernel's own limits are a quarter of an hour, and two hours.
KEPT_ALIVE: Final[dict[str, Any]] = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}

#: How often a statement is run again that a standby cancelled.
CANCELLED_MAX = 5

#: Appended to each of our statements; the extension's snapshot_read() appends the same.
SIGNATURE: Final = "/* pgflash */"

#: pg_temp is last: otherwise it would be searched first for tables and types.
SEARCH_PATH = "set search_path = pg_catalog, pg_temp"

#: The only style that psycopg reads; a database or a role may have another one.
_DATE_STYLE = "set datestyle = 'ISO'"

#: A server that has not loaded pgflash lacks the setting; to set it there would create it.
_RESTRICT = """
select pg_catalog.set_config(name, %s::pg_catalog.text, false) from pg_catalog.pg_settings
 where name = 'pgflash.restrict_objects'::pg_catalog.text
"""


def tell_nobody(_role: str) -> None:
    """Ignore that a session is a superuser's."""


#: Called with the role of each session that is a superuser; the command line listens.
tell_superuser: Callable[[str], None] = tell_nobody


class SessionError(PgflashError):
    """The server cannot be reached, or does not allow what was asked."""


class UntrustedError(SessionError):
    """The owner of an extension's schema could have us run what is not the extension's."""


class UnreachableError(SessionError):
    """The server does not answer; the same request may be answered later."""


def parse_dsn(dsn: str) -> dict[str, Any]:
    """Parse a connection string, or say why it is invalid."""
    try:
        return conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        raise _wrong(error) from error


def connect_timeout_s(named: Mapping[str, Any], default_s: int) -> int | str:
    """Return how long to wait for a connection: as the DSN or the environment says, or else."""
    return named.get("connect_timeout") or os.environ.get("PGCONNECT_TIMEOUT") or default_s


def _wrong(error: psycopg.ProgrammingError) -> SessionError:
    return SessionError(
        f"the connection string is wrong: {_words(error)}",
        hint='Write it as "host=... port=... dbname=... user=...", or as a postgresql:// URI.',
        exit_code=2,
    )


class _Cursor(psycopg.Cursor[tuple[Any, ...]]):
    """A cursor that signs its statements, so that reports recognize them in pg_stat_statements.

    A standby cancels a statement that conflicts with what it replays.  Outside a transaction, such
    a statement is run again.
    """

    def execute(
        self,
        query: object,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
        binary: bool | None = None,
    ) -> Self:
        """Execute a statement, with the signature behind it."""
        if isinstance(query, sql.Composable):
            query += sql.SQL(f" {SIGNATURE}")
        elif isinstance(query, str):
            query = f"{query} {SIGNATURE}"
        signed = cast("LiteralString", query)
        for _ in range(CANCELLED_MAX):
            try:
                return super().execute(signed, params, prepare=prepare, binary=binary)
            except psycopg.errors.SerializationFailure:
                if self.connection.info.transaction_status != TransactionStatus.IDLE:
                    raise
        return super().execute(signed, params, prepare=prepare, binary=binary)


class _AnyText(Loader):
    """Reads text whose bytes can be of any encoding.

    So are those of a database of encoding SQL_ASCII, and in every database what the catalogs and
    pg_stat_activity have of other databases.
    """

    def load(self, data: Buffer) -> str:
        return bytes(data).decode("utf-8", errors="replace")


class _AnyJson(Loader):
    """Reads JSON of such bytes."""

    def load(self, data: Buffer) -> object:
        return json.loads(bytes(data).decode("utf-8", errors="replace"))


class _FixedOffset(TimestamptzLoader):
    """Reads a time with its offset from UTC, not with the session's time zone.

    Python compares and subtracts two times of one zone by its clock: wrong by an hour if daylight
    saving time begins or ends between them.
    """

    def load(self, data: Buffer) -> datetime:
        try:
            return datetime.fromisoformat(bytes(data).decode())
        except ValueError:
            return super().load(data)  # it says what Python cannot hold


def _read_any_text(connection: Connection) -> None:
    """Read bytes that are not UTF-8, too; have the server send all that its database may have."""
    if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
        connection.execute("set client_encoding = 'SQL_ASCII'")
    for kind in (0, "text", "varchar", "bpchar", "name"):  # 0: a type that psycopg does not know
        connection.adapters.register_loader(kind, _AnyText)
    for kind in ("json", "jsonb"):
        connection.adapters.register_loader(kind, _AnyJson)


def connect(dsn: str) -> Connection:
    """Return a session in autocommit mode; an empty DSN means libpq's environment.

    Only the catalog can be used in it without a schema.  Text is read as UTF-8, with U+FFFD for
    bytes that are not.
    """
    named = parse_dsn(dsn)
    try:
        connection = psycopg.connect(
            dsn,
            **{name: value for name, value in KEPT_ALIVE.items() if name not in named},
            autocommit=True,
            application_name="pgflash",
            connect_timeout=connect_timeout_s(named, CONNECT_TIMEOUT_S),
            client_encoding="UTF8",
            cursor_factory=_Cursor,
        )
    except psycopg.ProgrammingError as error:
        raise _wrong(error) from error
    except psycopg.OperationalError as error:
        raise UnreachableError(
            f"could not connect: {_words(error)}",
            hint="Name the server and its database with --dsn, or in the environment: PGHOST, "
            "PGPORT, PGDATABASE, PGUSER.",
        ) from error
    major = connection.info.server_version // 10_000
    if major < MAJOR_MIN:
        connection.close()
        raise SessionError(
            f"the server is PostgreSQL {major}, which is too old: pgflash needs {MAJOR_MIN} or "
            f"later",
        )
    try:
        with said("begin a session"):
            connection.execute(SEARCH_PATH)
            connection.execute(_RESTRICT, ("on",))
            connection.execute(_DATE_STYLE)
            connection.adapters.register_loader("timestamptz", _FixedOffset)
            _read_any_text(connection)
    except SessionError:
        connection.close()
        raise
    if connection.info.parameter_status("is_superuser") == "on":
        tell_superuser(connection.info.user)
    return connection


@contextlib.contextmanager
def unrestricted(connection: Connection) -> Iterator[None]:
    """Run commands that may use anything: event triggers, and functions in indexes."""
    connection.execute(_RESTRICT, ("off",))
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute(_RESTRICT, ("on",))


#: Role 6171 is pg_database_owner, which stands for the owner of the database.  A database can
#: have the parameter from when the library was loaded; pg_settings has it only if it is now.
_EXTENSION = """
select n.nspname, e.extversion, r.rolname, r.rolsuper or r.rolname = session_user
       or exists (select from pg_catalog.pg_settings s
                   where s.name = 'pgflash.restrict_objects'::pg_catalog.text
                     and s.setting = 'on'::pg_catalog.text)
  from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace
  join pg_catalog.pg_database d on d.datname = pg_catalog.current_database()
  join pg_catalog.pg_roles r
    on r.oid = case n.nspowner when 6171::pg_catalog.oid then d.datdba else n.nspowner end
 where e.extname = %s::pg_catalog.name
"""


class Extension(NamedTuple):
    """An extension that this database has."""

    schema: str
    version: str


def find_extension(connection: Connection, name: str = "pgflash") -> Extension | None:
    """Return an extension of this database, or None if it is not there.

    Raises UntrustedError if its schema's owner is neither a superuser nor we, and the server cannot
    check what we use.
    """
    found = connection.execute(_EXTENSION, (name,)).fetchone()
    if found is None:
        return None
    schema, version, owner, trusted = found
    if not trusted:
        raise UntrustedError(
            f'the schema "{schema}" of the extension {name} belongs to "{owner}", who is no '
            f"superuser and could have pgflash run other functions",
            hint="Load the library pgflash in this server, or name a database whose owner is a "
            "superuser.",
        )
    return Extension(str(schema), str(version))


def find_statements(connection: Connection) -> tuple[str, str]:
    """Return the schema of pg_stat_statements, or "" and why its views cannot be used."""
    try:
        found = find_extension(connection, "pg_stat_statements")
    except UntrustedError as error:
        return "", str(error)
    if found is None:
        database = connection.info.dbname
        return "", f'the extension pg_stat_statements is not in database "{database}"'
    return found.schema, ""


_OWN_NAMES = """
select coalesce(c.relname, p.proname)
  from pg_catalog.pg_depend d
  join pg_catalog.pg_extension e on e.oid = d.refobjid
  left join pg_catalog.pg_class c
    on c.oid = d.objid and d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid
  left join pg_catalog.pg_proc p
    on p.oid = d.objid and d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
 where d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
   and d.deptype = 'e'::pg_catalog."char" and e.extname = 'pgflash'::pg_catalog.name
"""


def own_names(connection: Connection) -> frozenset[str]:
    """Return the names of the extension's tables, views and functions in this database."""
    return frozenset(str(name) for (name,) in connection.execute(_OWN_NAMES) if name)


def require_own(connection: Connection, text: str) -> None:
    """Refuse a query of something that this version of the extension does not have.

    TEXT is the query with the schema left open, as {schema} or {}.  Another user may have created
    an object of that name, to be run with our rights.  Raises UndefinedObject, as the server would.
    """
    lacking = {*re.findall(r"\}\.(pgflash_\w+)", text)} - own_names(connection)
    if lacking:
        raise psycopg.errors.UndefinedObject(
            f"this version of the extension does not have {', '.join(sorted(lacking))}"
        )


_ENOUGH = "The role needs pg_monitor: GRANT pg_monitor TO role_name;"


@contextlib.contextmanager
def said(doing: str, *, hint: str = _ENOUGH) -> Iterator[None]:
    """Report what the server refused; HINT names the rights that are needed."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise SessionError(f"could not {doing}: {_words(error)}", hint=hint) from error
    except psycopg.Error as error:
        kind = UnreachableError if isinstance(error, psycopg.OperationalError) else SessionError
        raise kind(
            f"could not {doing}: {_words(error)}",
            hint=_of_other_version(error)
            or error.diag.message_hint
            or error.diag.message_detail
            or "",
        ) from error


def _of_other_version(error: psycopg.Error) -> str:
    """Return where to look if the library lacks what the extension's SQL has; "" otherwise.

    The library of 0.1 gives a wrong hint, and PostgreSQL gives none.
    """
    lacks = (psycopg.errors.UndefinedFunction, psycopg.errors.UndefinedColumn)
    if not isinstance(error, lacks) or "pgflash" not in (error.diag.message_primary or ""):
        return ""
    return "'pgflash version' says whether the library in the server and the extension fit."


def _words(error: psycopg.Error) -> str:
    """Return an error's text in one line."""
    text = error.diag.message_primary or str(error)
    # libpq asks questions on further lines; our own hint follows anyway.
    first = text.strip().splitlines()[:1]
    words = " ".join("".join(first).split())
    return words.removeprefix("connection is bad: ").removeprefix("connection failed: ")
