# SPDX-License-Identifier: PostgreSQL
"""A session with a server: connected, or one clear sentence why not.

What psycopg raises becomes a PgflashError that says what to do next: a server that does
not answer, a server that is too old, a role that may not.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgflash.errors import PgflashError

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

#: The oldest major that pgflash knows.
MAJOR_MIN = 15

CONNECT_TIMEOUT_S = 10


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
    """Return a session in autocommit mode; an empty DSN means libpq's environment."""
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
    return connection


@contextlib.contextmanager
def said(doing: str) -> Iterator[None]:
    """Say what the server said no to."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise SessionError(
            f"could not {doing}: {_words(error)}",
            hint="pg_monitor is enough: GRANT pg_monitor TO the role.",
        ) from error
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
