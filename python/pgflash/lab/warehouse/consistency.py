# SPDX-License-Identifier: PostgreSQL
"""Check what the specification says of the tables' contents (clauses 4.2 and 2.5).

A database that a cache has served a stale block to, or that lost a part of a refresh
function, breaks one of these conditions sooner or later.
"""

from __future__ import annotations

import re

import psycopg

from pgflash.lab.warehouse.model import ConditionResult
from pgflash.lab.warehouse.texts import read_sql

_CONDITION = re.compile(r"^-- condition (\d+): (.+)$", re.MULTILINE)


def condition_statements() -> list[tuple[int, str, str]]:
    """Return (number, what must hold, statement) for each condition, in order."""
    parts = _CONDITION.split(read_sql("consistency.sql"))[1:]
    return [
        (int(number), condition, statement.strip())
        for number, condition, statement in zip(parts[0::3], parts[1::3], parts[2::3], strict=True)
    ]


def check_consistency(conninfo: str) -> list[ConditionResult]:
    """Check every condition in one snapshot, and return them all, good and bad."""
    with psycopg.connect(conninfo, application_name="pgflash warehouse check") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        return check_connection(connection)


def check_connection(connection: psycopg.Connection) -> list[ConditionResult]:
    """Check every condition in the connection's transaction."""
    connection.execute("SET LOCAL work_mem = '256MB'")
    connection.execute("SET LOCAL jit = off")
    results = []
    for number, condition, statement in condition_statements():
        row = connection.execute(statement.encode()).fetchone()
        assert row is not None
        results.append(ConditionResult(number=number, condition=condition, violations=int(row[0])))
    return results
