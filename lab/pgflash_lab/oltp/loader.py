# SPDX-License-Identifier: PostgreSQL
"""Create and fill the database.

Rows are made here while the server stores the previous ones, so both cores of a small machine work.
Indexes follow, then VACUUM ANALYZE for the visibility map and the statistics. See
pgflash_lab.loading.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from random import Random

import psycopg
from psycopg import sql

from pgflash_lab.loading import Progress, create_schema, run_all, schema_bytes, statements_of
from pgflash_lab.oltp.model import LoadResult, OltpParameters
from pgflash_lab.oltp.rows import (
    CUSTOMERS_PER_DISTRICT,
    DISTRICTS,
    ITEMS,
    ORDERS_PER_DISTRICT,
    STOCK_PER_WAREHOUSE,
    Rows,
    choose_load_constant,
)
from pgflash_lab.oltp.sql_files import read_sql

#: A table's rows per warehouse, roughly: weights for the progress display.
TABLES = {
    "warehouse": 1,
    "district": DISTRICTS,
    "stock": STOCK_PER_WAREHOUSE,
    "customer": CUSTOMERS_PER_DISTRICT * DISTRICTS,
    "history": CUSTOMERS_PER_DISTRICT * DISTRICTS,
    "orders": ORDERS_PER_DISTRICT * DISTRICTS,
    "new_order": 900 * DISTRICTS,
    "order_line": 10 * ORDERS_PER_DISTRICT * DISTRICTS,
}

_COPY_ROWS = 1_000


def load(
    conninfo: str,
    parameters: OltpParameters,
    progress: Progress | None = None,
    *,
    replace: bool = False,
) -> LoadResult:
    """Make the schema "oltp" in a database, fill it, index it.

    An existing schema of that name is refused unless replacing it is requested.
    """
    report = progress or (lambda _stage, _fraction: None)
    begin = time.monotonic()
    constant = choose_load_constant(Random(f"{parameters.seed} c_last"))
    with psycopg.connect(conninfo, application_name="pgflash oltp load") as connection:
        create_schema(connection, "oltp", read_sql("tables.sql"), replace=replace)
        rows_count = _copy_all(connection, parameters, constant, report)
        indexes = statements_of(read_sql("indexes.sql"))
        run_all(connection, "create indexes", indexes, report)
        connection.execute(read_sql("procedures.sql").encode())
        connection.execute(read_sql("terminal.sql").encode())
        connection.execute(
            "INSERT INTO oltp.load VALUES (%s, %s, %s, now())",
            (parameters.warehouses, parameters.seed, constant),
        )
        connection.commit()
        connection.autocommit = True
        vacuums = [f"VACUUM (ANALYZE) oltp.{one}" for one in ("item", *TABLES)]
        run_all(connection, "vacuum", vacuums, report)
        size_bytes = schema_bytes(connection, "oltp")
    return LoadResult(
        warehouses=parameters.warehouses,
        seed=parameters.seed,
        c_last_constant=constant,
        rows=rows_count,
        size_bytes=size_bytes,
        elapsed_s=time.monotonic() - begin,
    )


def _copy_all(
    connection: psycopg.Connection, parameters: OltpParameters, constant: int, report: Progress
) -> int:
    """Fill all tables; return the number of rows."""
    now = datetime.now(tz=UTC).isoformat()
    rows = Rows(seed=parameters.seed, c_last_constant=constant, now=now)
    total = ITEMS + parameters.warehouses * sum(TABLES.values())
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        report("load rows", min(1.0, done / total))

    _copy(connection, "item", rows.item(), advance)
    # One COPY for each table, so that the load is a few long sequential writes.
    for table in TABLES:
        make = getattr(rows, table)
        lines = (line for w_id in range(1, parameters.warehouses + 1) for line in make(w_id))
        _copy(connection, table, lines, advance)
    report("load rows", 1.0)
    return done


def _copy(
    connection: psycopg.Connection,
    table: str,
    lines: Iterator[str],
    advance: Callable[[int], None],
) -> None:
    """Send one table's rows."""
    statement = sql.SQL("COPY oltp.{} FROM STDIN (FREEZE)").format(sql.Identifier(table))
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        while block := list(islice(lines, _COPY_ROWS)):
            copy.write("".join(block).encode("ascii"))
            advance(len(block))
