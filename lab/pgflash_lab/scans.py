# SPDX-License-Identifier: PostgreSQL
"""Compare a table with its index: a row that only one of them has is lost.

The planner answers a count from whatever is smallest, so each query runs with all other kinds of
scan switched off.
"""

from collections.abc import Sequence

import psycopg
from psycopg import sql

_SCANS = ("seqscan", "indexscan", "indexonlyscan", "bitmapscan")


def missing_in_index(
    connection: psycopg.Connection, table: sql.Composable, *, column: str, needed: str
) -> int:
    """Return how many rows of a table an index scan on a column does not find.

    The column is never negative, and "needed" is in no index, so that the row itself is read.  This
    needs a transaction.
    """
    query = sql.SQL("SELECT count({needed}) FROM {table} WHERE {column} >= 0").format(
        needed=sql.Identifier(needed), table=table, column=sql.Identifier(column)
    )
    in_table = _count(connection, query, scans=("seqscan",))
    in_index = _count(connection, query, scans=("indexscan", "bitmapscan"))
    return in_table - in_index


def _count(connection: psycopg.Connection, query: sql.Composed, *, scans: Sequence[str]) -> int:
    """Return the number that a query returns with only some kinds of scans."""
    for one in _SCANS:
        connection.execute(f"SET LOCAL enable_{one} = {'on' if one in scans else 'off'}")
    row = connection.execute(query).fetchone()
    for one in _SCANS:
        connection.execute(f"SET LOCAL enable_{one} = on")
    assert row is not None
    return int(row[0])
