# SPDX-License-Identifier: PostgreSQL
"""Check that each batch is there and whole, and that nothing else is there.

The driver detects an acknowledged batch that is missing from the ledger; a row that is missing,
duplicated or stale violates one of the conditions here.
"""

import psycopg
from psycopg import sql

from pgflash.model.words import whole
from pgflash_lab.scans import missing_in_index
from pgflash_lab.workload import InconsistentError

#: Full joins, so that a batch without rows counts as well as rows without a batch.
CONDITIONS = {
    "each batch has its sales": """
        SELECT count(*) FROM load.ledger
          FULL JOIN (SELECT batch, count(*) AS rows, sum(amount) AS amount
                       FROM load.sale GROUP BY batch) AS sale USING (batch)
         WHERE sale_rows IS DISTINCT FROM coalesce(rows, 0)
            OR sale_amount IS DISTINCT FROM coalesce(amount, 0)
    """,
    "each batch has its audit rows": """
        SELECT count(*) FROM load.ledger
          FULL JOIN (SELECT batch, count(*) AS rows, sum(amount) AS amount
                       FROM load.audit GROUP BY batch) AS audit USING (batch)
         WHERE audit_rows IS DISTINCT FROM coalesce(rows, 0)
            OR audit_amount IS DISTINCT FROM coalesce(amount, 0)
    """,
    "no two sales have the same number": """
        SELECT count(*) - count(DISTINCT id) FROM load.sale
    """,
}

#: The columns of the hot table that have an index of their own.
INDEXES = ("id", "account")


def check(conninfo: str) -> tuple[str, ...]:
    """Return the conditions if all hold, otherwise raise."""
    held = []
    with psycopg.connect(conninfo, application_name="pgflash load check") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute("SET LOCAL work_mem = '64MB'")
        connection.execute("SET LOCAL jit = off")
        for condition, query in CONDITIONS.items():
            held.append(_hold(condition, _number(connection, query)))
        for column in INDEXES:
            missing = missing_in_index(
                connection, sql.Identifier("load", "sale"), column=column, needed="note"
            )
            held.append(_hold(f"the index by {column} finds every sale", missing))
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
