# SPDX-License-Identifier: PostgreSQL
"""Check the specification's statements on the tables' contents (clauses 4.2 and 2.5).

A database that was served a stale block by a cache, or that lost a part of a refresh function,
violates one of these conditions sooner or later.
"""

import psycopg

from pgflash_lab.conditions import ConditionResult, check_conditions, check_in_session
from pgflash_lab.warehouse.texts import read_sql


def check_consistency(conninfo: str) -> list[ConditionResult]:
    """Check every condition in one snapshot, and return them all, good and bad."""
    return check_conditions(conninfo, read_sql("consistency.sql"))


def check_connection(connection: psycopg.Connection) -> list[ConditionResult]:
    """Check every condition in the connection's transaction."""
    return check_in_session(connection, read_sql("consistency.sql"))
