# SPDX-License-Identifier: PostgreSQL
"""Check the consistency conditions of TPC-C 5.11 clause 3.3.2.

A database that a cache has served a stale block to will, sooner or later, break one
of them.  Conditions 1 to 10 and 12 are checked over all rows; 11 holds only before
the first New-Order and is left out.
"""

from __future__ import annotations

import re

import psycopg

from pgflash.lab.oltp.model import ConditionResult
from pgflash.lab.oltp.sql_files import read_sql

_CONDITION = re.compile(r"^-- condition (\d+): (.+)$", re.MULTILINE)


def condition_statements() -> list[tuple[int, str, str]]:
    """Return (number, what must hold, statement) for each condition, in order."""
    parts = _CONDITION.split(read_sql("consistency.sql"))[1:]
    return [
        (int(number), statement_of, sql.strip())
        for number, statement_of, sql in zip(parts[0::3], parts[1::3], parts[2::3], strict=True)
    ]


def check_consistency(conninfo: str) -> list[ConditionResult]:
    """Check every condition in one snapshot, and return them all, good and bad."""
    with psycopg.connect(conninfo, application_name="pgflash oltp check") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        return check_connection(connection)


def check_connection(connection: psycopg.Connection) -> list[ConditionResult]:
    """Check every condition in the connection's transaction."""
    connection.execute("SET LOCAL work_mem = '64MB'")
    # A handful of plain aggregates: compiling them costs more than it saves.
    connection.execute("SET LOCAL jit = off")
    results = []
    for number, statement_of, sql in condition_statements():
        row = connection.execute(sql.encode()).fetchone()
        assert row is not None
        results.append(
            ConditionResult(number=number, condition=statement_of, violations=int(row[0]))
        )
    return results
