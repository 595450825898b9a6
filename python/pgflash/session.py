# SPDX-License-Identifier: PostgreSQL
"""A session with a server: connected, or one clear sentence why not.

Every session begins with a search_path of the catalog alone.  Whoever may create something in
public, or whoever owns the database, could else have us run an operator or a function of
theirs with our role's rights, which may be a superuser's.  It is a statement of its own, the
first one: a pooler drops what stands in the connection's options.  What we ask of another
schema (the extension's, pg_stat_statements') is qualified; and as a pooler may give the next
statement to another session of the server, so is every function, and no operator needs a cast
to be found.  Nor does a function of the extension: who may create in its schema can offer one
of the same name that fits better.

What psycopg raises becomes a PgflashError that says what to do next: a server that does
not answer, a server that is too old, a role that may not.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgflash.errors import PgflashError

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

#: The oldest major that pgflash knows.
MAJOR_MIN = 15

CONNECT_TIMEOUT_S = 10

#: pg_temp last: it would else be searched first for tables and types.
SEARCH_PATH = "set search_path = pg_catalog, pg_temp"


def tell_nobody(_role: str) -> None:
    """Keep it to ourselves that a session may do everything."""


#: Told the role of each session that may do everything; the command line listens.
tell_superuser: Callable[[str], None] = tell_nobody


class SessionError(PgflashError):
    """The server cannot be reached, or does not let us do what was asked."""


def parse_dsn(dsn: str) -> dict[str, Any]:
    """Return what a connection string says, or say why it is none."""
    try:
        return conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        raise SessionError(
            f"the connection string is wrong: {_words(error)}",
            hint='Write it as "host=... port=... dbname=... user=...", or as a postgresql:// URI.',
            exit_code=2,
        ) from error


def connect(dsn: str) -> Connection:
    """Return a session in autocommit mode; an empty DSN means libpq's environment.

    Nothing but the catalog is found in it without its schema.
    """
    wait_s = parse_dsn(dsn).get("connect_timeout") or CONNECT_TIMEOUT_S
    try:
        connection = psycopg.connect(
            dsn, autocommit=True, application_name="pgflash", connect_timeout=wait_s
        )
    except psycopg.OperationalError as error:
        raise SessionError(
            f"could not connect: {_words(error)}",
            hint="Name the server with --dsn, or in the environment: PGHOST, PGPORT, PGDATABASE, "
            "PGUSER.",
        ) from error
    major = connection.info.server_version // 10_000
    if major < MAJOR_MIN:
        connection.close()
        raise SessionError(
            f"the server is PostgreSQL {major}, which is too old: pgflash is for {MAJOR_MIN} on",
        )
    try:
        with said("begin a session"):
            connection.execute(SEARCH_PATH)
    except SessionError:
        connection.close()
        raise
    if connection.info.parameter_status("is_superuser") == "on":
        tell_superuser(connection.info.user)
    return connection


_ENOUGH = "pg_monitor is enough: GRANT pg_monitor TO the role."


@contextlib.contextmanager
def said(doing: str, *, hint: str = _ENOUGH) -> Iterator[None]:
    """Say what the server said no to; HINT names the rights that are needed."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise SessionError(f"could not {doing}: {_words(error)}", hint=hint) from error
    except psycopg.Error as error:
        raise SessionError(
            f"could not {doing}: {_words(error)}", hint=error.diag.message_hint or ""
        ) from error


def _words(error: psycopg.Error) -> str:
    """Return what an error says, in one line."""
    text = error.diag.message_primary or str(error)
    # libpq asks questions on further lines; a hint of ours follows anyway.
    first = text.strip().splitlines()[:1]
    return " ".join("".join(first).removeprefix("connection is bad: ").split())
