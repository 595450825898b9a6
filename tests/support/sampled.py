# SPDX-License-Identifier: PostgreSQL
"""Helpers of the sampler's tests: queries of its views, and sessions that do something."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from threading import Event, Thread
from typing import Any

import psycopg
from psycopg.rows import dict_row

from pgflash_lab.server import Server
from support.patience import eventually, until

Row = dict[str, Any]
TimeRange = tuple[datetime, datetime]


def rows(server: Server, query: str, *parameters: object) -> list[Row]:
    with server.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(query, parameters)
        return cursor.fetchall() if cursor.description else []


def sampler(server: Server) -> Row:
    return rows(server, "select * from pgflash_sampler")[0]


def gap_s(server: Server) -> float:
    """Return the seconds so far that no look of the sampler represents.

    The look that ends a gap adds it.  So there have been two looks when this returns.
    """
    looks = sampler(server)["looks"]
    until(lambda: sampler(server)["looks"] >= looks + 2)
    return float(sampler(server)["gap_seconds"])


@contextmanager
def working(server: Server, query: str, *, setup: str = "") -> Iterator[int]:
    """Run a query in a session of its own; yield its process ID, then wait for its end."""
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


@contextmanager
def sleeping(
    server: Server, query: str = "select pg_sleep(600)", *, setup: str = ""
) -> Iterator[int]:
    """Let a session sleep until the end; yield its process ID once it is asleep."""
    connection = server.connect()
    if setup:
        connection.execute(setup)
    pid = connection.info.backend_pid

    def run() -> None:
        with connection, suppress(psycopg.errors.QueryCanceled):
            connection.execute(query)

    thread = Thread(target=run)
    thread.start()
    try:
        assert eventually(
            lambda: bool(
                rows(
                    server,
                    "select 1 as one from pg_stat_activity"
                    " where wait_event = 'PgSleep' and coalesce(leader_pid, pid) = %s",
                    pid,
                )
            )
        )
        yield pid
    finally:
        while thread.is_alive():  # it may not have begun yet
            connection.cancel()
            thread.join(0.1)


@contextmanager
def repeating(server: Server, query: str) -> Iterator[int]:
    """Let a session run a query again and again until the end; yield its process ID."""
    connection = server.connect()
    enough = Event()

    def run() -> None:
        with connection:
            while not enough.is_set():
                connection.execute(query)

    thread = Thread(target=run)
    thread.start()
    try:
        yield connection.info.backend_pid
    finally:
        enough.set()
        thread.join()


def slept(server: Server, seconds: float, *, query: str = "select pg_sleep({})") -> TimeRange:
    """Let a session sleep until a look has seen it; return the range, by the server's clock."""
    clock = "select clock_timestamp()"
    looks = (
        "select from pgflash_active_sessions where pid = pg_backend_pid()"
        " and sampled_at >= %s and wait_event = 'PgSleep'"
    )
    with server.connect() as connection:
        (begin,) = connection.execute(clock).fetchone() or ()

        def seen() -> bool:
            connection.execute(query.format(seconds))
            return connection.execute(looks, [begin]).rowcount > 0

        assert eventually(seen)
        (end,) = connection.execute(clock).fetchone() or ()
    return begin, end


def seen_by(server: Server, role: str) -> set[int]:
    """Return the process IDs of the sessions that a role sees."""
    with server.connect() as connection:
        connection.execute(f"set role {role}")
        found = connection.execute("select distinct pid from pgflash_active_sessions").fetchall()
    return {pid for (pid,) in found}
