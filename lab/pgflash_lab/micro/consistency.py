# SPDX-License-Identifier: PostgreSQL
"""Check that both tables contain what was loaded, and every change since.

A stale page from a cache, or one that a device lost, violates one of the conditions: each row
itself says what it must contain.
"""

import psycopg
from psycopg import sql

from pgflash.model.words import whole
from pgflash_lab.micro.model import Side
from pgflash_lab.scans import missing_in_index
from pgflash_lab.workload import InconsistentError

#: What must hold, and how many rows violate it; {table} is each table in turn.
CONDITIONS = {
    "numbers run from 1 without a gap": (
        "SELECT abs(count(*) - coalesce(max(number), -1)) + abs(coalesce(min(number), 0) - 1)"
        " FROM {table}"
    ),
    "amount = number + changes": (
        "SELECT count(*) FROM {table} WHERE amount IS DISTINCT FROM number + changes"
    ),
    "the note is the one that was loaded": (
        "SELECT count(*) FROM {table} WHERE note IS DISTINCT FROM repeat(md5(number::text), 6)"
    ),
}


def check(conninfo: str) -> tuple[str, ...]:
    """Return the conditions if all hold, otherwise raise."""
    held = []
    with psycopg.connect(conninfo, application_name="pgflash micro check") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute("SET LOCAL jit = off")
        for side in Side:
            for condition, query in CONDITIONS.items():
                held.append(_hold(side, condition, _number(connection, side, query)))
            missing = missing_in_index(connection, _table(side), column="number", needed="note")
            held.append(_hold(side, "the index finds every row", missing))
    return tuple(held)


def _hold(side: Side, condition: str, violations: int) -> str:
    """Return a condition's name, or raise if it is violated."""
    if violations:
        raise InconsistentError(
            f"the database is inconsistent: {side.table}: {condition} ({whole(violations)} off)",
            hint="Keep the server's log and the run's folder, and report this.",
        )
    return f"{side.table}: {condition}"


def _number(connection: psycopg.Connection, side: Side, query: str) -> int:
    """Return the one number that a query on a side's table returns."""
    row = connection.execute(sql.SQL(query).format(table=_table(side))).fetchone()
    assert row is not None
    return int(row[0])


def _table(side: Side) -> sql.Identifier:
    return sql.Identifier("micro", f"on_{side}")
