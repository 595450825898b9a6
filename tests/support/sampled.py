# SPDX-License-Identifier: PostgreSQL
"""What the sampler's tests share: questions to its views, and sessions that do something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

from psycopg.rows import dict_row

from pgflash.lab.server import Server

Row = dict[str, Any]


def rows(server: Server, query: str, *parameters: object) -> list[Row]:
    with server.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(query, parameters)
        return cursor.fetchall() if cursor.description else []


def sampler(server: Server) -> Row:
    return rows(server, "select * from pgflash_sampler")[0]


@contextmanager
def working(server: Server, query: str, *, setup: str = "") -> Iterator[int]:
    """Run a query in a session of its own; yields its process ID, waits for its end."""
    connection = server.connect()
    if setup:
        connection.execute(setup)

    def run() -> None:
        with connection:
            connection.execute(query)

    thread = Thread(target=run)
    pid = connection.info.backend_pid
    thread.start()
    try:
        yield pid
    finally:
        thread.join()


def seen_by(server: Server, role: str) -> set[int]:
    """Return the process IDs of the sessions that a role sees."""
    with server.connect() as connection:
        connection.execute(f"set role {role}")
        found = connection.execute("select distinct pid from pgflash_active_sessions").fetchall()
    return {pid for (pid,) in found}
