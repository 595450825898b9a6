# SPDX-License-Identifier: PostgreSQL
"""Make the schema and the rows that exist before a load: batch 0."""

from importlib import resources

import psycopg

from pgflash_lab.bulk.model import BulkParameters
from pgflash_lab.loading import Progress

#: Accounts are drawn from this many.
ACCOUNTS = 1_000_000

_BASE = """
INSERT INTO load.sale (batch, account, amount, note)
SELECT 0, n * 7919 %% %(accounts)s, n %% 1000, repeat(md5(n::text), 9)
  FROM generate_series(1, %(rows)s::bigint) AS n
"""

_LEDGER = """
INSERT INTO load.ledger
SELECT 0, count(*), sum(amount), 0, 0 FROM load.sale
"""


def load(conninfo: str, parameters: BulkParameters, progress: Progress | None = None) -> None:
    """Make the schema "load" and fill the hot table, in one transaction."""
    report = progress or (lambda _stage, _fraction: None)
    with psycopg.connect(conninfo, application_name="pgflash load") as connection:
        connection.execute("SET LOCAL maintenance_work_mem = '256MB'")
        connection.execute(_text("tables.sql").encode())
        report("load rows", 0.0)
        connection.execute(_BASE, {"rows": parameters.base_rows, "accounts": ACCOUNTS})
        connection.execute(_LEDGER)
        report("create indexes", 0.0)
        connection.execute(_text("indexes.sql").encode())
        connection.commit()
        connection.autocommit = True
        report("vacuum", 0.0)
        connection.execute("VACUUM (ANALYZE) load.sale, load.audit, load.ledger")
    report("vacuum", 1.0)


def _text(name: str) -> str:
    return resources.files(__package__).joinpath("sql", name).read_text(encoding="utf-8")
