# SPDX-License-Identifier: PostgreSQL
"""Check the consistency conditions of TPC-C 5.11 clause 3.3.2.

A database that was served a stale block by a cache will, sooner or later, violate one of them.
Conditions 1 to 10 and 12 are checked over all rows; 11 holds only before the first New-Order and is
left out.
"""

import psycopg

from pgflash_lab.conditions import ConditionResult, check_conditions, check_in_session
from pgflash_lab.oltp.sql_files import read_sql


def check_consistency(conninfo: str) -> list[ConditionResult]:
    """Check every condition in one snapshot, and return them all, good and bad."""
    return check_conditions(conninfo, read_sql("consistency.sql"))


def check_connection(connection: psycopg.Connection) -> list[ConditionResult]:
    """Check every condition in the connection's transaction."""
    return check_in_session(connection, read_sql("consistency.sql"))
