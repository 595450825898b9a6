# SPDX-License-Identifier: PostgreSQL
"""Visitors, which pgflash sends into databases: seen, stopped, and resumed."""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from pgflash_lab.server import Server
from support.cached import process_titles
from support.patience import PATIENCE_S, eventually, until
from support.policies import Connection, make_table, prepare, set_policy

#: A visitor that has waited for less than this sleeps until it gives up: LOCK_WAIT_MS of visits.c.
ASLEEP_S_MAX = 0.4


def oid_of(server: Server, database: str) -> int:
    """Return the OID of a database."""
    with server.connect() as connection:
        row = connection.execute(
            "select oid from pg_database where datname = %s", [database]
        ).fetchone()
    assert row is not None
    return int(row[0])


def make_database(server: Server, name: str) -> None:
    """Create a database with the extension, and a table that is to be kept."""
    with server.connect() as connection:
        connection.execute(f"create database {name}")
    with server.connect(name) as connection:
        prepare(connection)
        make_table(connection, "t")
        set_policy(connection, "t", "keep")


def visitors(server: Server, database: int) -> list[int]:
    """Return the visitors that are in a database, or on their way."""
    wanted = re.compile(rf"pgflash (policies|snapshot) of database {database}\b")
    return [pid for pid, title in process_titles(server) if wanted.match(title)]


@contextmanager
def locked(server: Server, database: str, catalog: str) -> Iterator[Connection]:
    """Hold a lock on a catalog, which nobody can then read."""
    with server.connect(database, autocommit=False) as holder:
        # So that the session can be closed, and all that it needs is already known.
        holder.execute("select 1")
        holder.execute(f"lock table {catalog} in access exclusive mode")
        yield holder
        holder.rollback()


def _stop(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        return eventually(lambda: _state(pid) in {"T", "gone"}) and _state(pid) == "T"
    return False


def _waited_s(watcher: Connection, pid: int) -> float | None:
    """Return how long a process has waited for a lock, or None if it does not wait."""
    row = watcher.execute(
        "select extract(epoch from clock_timestamp() - waitstart)::float8"
        " from pg_locks where pid = %s and not granted and waitstart is not null",
        [pid],
    ).fetchone()
    return None if row is None else float(row[0])


def _state(pid: int) -> str:
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        found = re.search(r"^State:\s+(\S)", status, re.M)
        assert found is not None
        return "gone" if found[1] in "ZX" else found[1]
    return "gone"


@contextmanager
def stopped_visitor(server: Server, database: str) -> Iterator[int]:
    """Stop a visitor in a database without other sessions: it stands for one that hangs."""
    number = oid_of(server, database)
    caught: list[int] = []

    def catch(watcher: Connection) -> bool:
        for pid in visitors(server, number):
            asked_at = time.monotonic()
            waited_s = _waited_s(watcher, pid)
            if waited_s is None or not _stop(pid):
                continue
            # It is still waiting then, asleep: elsewhere it may hold what the whole server needs.
            if waited_s + time.monotonic() - asked_at < ASLEEP_S_MAX:
                caught.append(pid)
                return True
            resume(pid)
        return False

    with server.connect(database) as connection:
        # The commit of this calls for a visitor.
        connection.execute("create table if not exists calls (a int); truncate calls")
    # Held up by a lock, it is there long enough to be found.
    with locked(server, database, "pg_namespace"), server.connect() as watcher:
        # It gives up in half a second, which a busy machine may miss; others come, each later.
        until(lambda: catch(watcher), seconds=5 * PATIENCE_S)
    try:
        until(lambda: not sessions(server, number))
        yield caught[0]
    finally:
        resume(caught[0])


def sessions(server: Server, database: int) -> int:
    """Return how many clients are connected to a database."""
    with server.connect() as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity"
            " where datid = %s and backend_type = 'client backend'",
            [database],
        ).fetchone()
    assert row is not None
    return int(row[0])


def resume(pid: int) -> None:
    """Resume a stopped process."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def is_asked_to_leave(pid: int) -> bool:
    """Say whether a stopped process has a pending SIGTERM."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        found = re.search(r"^ShdPnd:\s+(\S+)", status, re.M)
        assert found is not None
        return bool(int(found[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def is_gone(pid: int) -> bool:
    """Say whether a process has ended."""
    return _state(pid) == "gone"


def has_statistics(connection: psycopg.Connection[tuple[object, ...]], database: int) -> bool:
    """Say whether a database has an entry in the statistics."""
    row = connection.execute("select pg_stat_have_stats('database', %s, 0)", [database]).fetchone()
    assert row is not None
    return bool(row[0])
