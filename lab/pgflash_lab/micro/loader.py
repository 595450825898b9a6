# SPDX-License-Identifier: PostgreSQL
"""Make the two tables, both on the default tablespace: the lab moves one of them."""

from importlib import resources

import psycopg
from psycopg import sql

from pgflash_lab.loading import Progress, index_memory, statements_of
from pgflash_lab.micro.model import FILL_PERCENT, MicroParameters, Side


def load(conninfo: str, parameters: MicroParameters, progress: Progress | None = None) -> None:
    """Make the schema "micro" with both tables."""
    report = progress or (lambda _stage, _fraction: None)
    tables = resources.files(__package__).joinpath("sql", "tables.sql").read_text(encoding="utf-8")
    with psycopg.connect(conninfo, application_name="pgflash micro load") as connection:
        connection.execute(f"SET LOCAL maintenance_work_mem = '{index_memory()}'".encode())
        connection.execute("CREATE SCHEMA micro")
        for number, side in enumerate(Side):
            report("load rows", number / len(Side))
            for statement in statements_of(tables):
                connection.execute(
                    sql.SQL(statement).format(
                        table=_table(side),
                        fill=sql.Literal(FILL_PERCENT),
                        rows=sql.Literal(parameters.rows),
                    )
                )
        connection.commit()
        connection.autocommit = True
        for side in Side:
            report("vacuum", 0.5)
            connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(_table(side)))
    report("vacuum", 1.0)


def _table(side: Side) -> sql.Identifier:
    return sql.Identifier("micro", f"on_{side}")
