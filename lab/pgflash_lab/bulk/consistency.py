# SPDX-License-Identifier: PostgreSQL
"""Check that each batch is there and whole, and that nothing else is there.

The driver detects an acknowledged batch that is missing from the ledger; a row that is missing,
duplicated or stale violates one of the conditions here.
"""

import psycopg
from psycopg import sql

from pgflash.model.words import whole
from pgflash_lab.conditions import prepare
from pgflash_lab.scans import missing_in_index
from pgflash_lab.workload import InconsistentError

#: Full joins, so that a batch without rows counts as well as rows without a batch.
CONDITIONS = {
    "each batch has its lines": """
        SELECT count(*) FROM load.ledger
          FULL JOIN (SELECT batch, count(*) AS rows, sum(l_extendedprice) AS amount
                       FROM load.lineitem GROUP BY batch) AS line USING (batch)
         WHERE line_rows IS DISTINCT FROM coalesce(rows, 0)
            OR line_amount IS DISTINCT FROM coalesce(amount, 0)
    """,
    "each batch has its orders": """
        SELECT count(*) FROM load.ledger
          FULL JOIN (SELECT batch, count(*) AS rows, sum(o_totalprice) AS amount
                       FROM load.orders GROUP BY batch) AS orders USING (batch)
         WHERE order_rows IS DISTINCT FROM coalesce(rows, 0)
            OR order_amount IS DISTINCT FROM coalesce(amount, 0)
    """,
    "the lines of an order are numbered from 1 without a gap": """
        SELECT count(*)
          FROM (SELECT 1 FROM load.lineitem GROUP BY batch, l_orderkey
                HAVING min(l_linenumber) <> 1 OR max(l_linenumber) <> count(*)) AS odd
    """,
    "each line that was loaded has its order, and each order a line": """
        SELECT count(*) FROM load.orders
          FULL JOIN (SELECT DISTINCT batch, l_orderkey FROM load.lineitem WHERE batch > 0) AS line
                    ON line.batch = orders.batch AND l_orderkey = o_orderkey
         WHERE o_orderkey IS NULL OR l_orderkey IS NULL
    """,
}

#: The columns of the hot table by which an index finds its rows.
INDEXES = ("l_orderkey", "l_partkey")


def check(conninfo: str) -> tuple[str, ...]:
    """Return the conditions if all hold, otherwise raise."""
    held = []
    with psycopg.connect(conninfo, application_name="pgflash load check") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        prepare(connection)
        for condition, query in CONDITIONS.items():
            held.append(_hold(condition, _number(connection, query)))
        for column in INDEXES:
            missing = missing_in_index(
                connection, sql.Identifier("load", "lineitem"), column=column, needed="l_comment"
            )
            held.append(_hold(f"the index by {column} finds every line", missing))
    return tuple(held)


def _hold(condition: str, violations: int) -> str:
    """Return a condition's name, or raise if it is violated."""
    if violations:
        raise InconsistentError(
            f"the database is inconsistent: {condition} ({whole(violations)} violations)",
            hint="Keep the server's log and the run's folder, and report this.",
        )
    return condition


def _number(connection: psycopg.Connection, query: str) -> int:
    """Return the one number that a query returns."""
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])
