# SPDX-License-Identifier: PostgreSQL
"""Create and fill the database.

Everything happens in one transaction: a load is complete or absent.  The tables are new
in it, so COPY FREEZE may write rows that need no hint bits and no later vacuum.  Rows
are made here while the server takes in the ones before, so both cores of a small machine
work; indexes follow, then VACUUM ANALYZE for the visibility map and the statistics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from random import Random

import psycopg
from psycopg import sql

from pgflash.errors import PgflashError
from pgflash.lab.oltp.model import LoadResult, OltpConfig
from pgflash.lab.oltp.rows import (
    CUSTOMERS_PER_DISTRICT,
    DISTRICTS,
    ITEMS,
    ORDERS_PER_DISTRICT,
    STOCK_PER_WAREHOUSE,
    Rows,
    choose_load_constant,
)
from pgflash.lab.oltp.sql_files import read_sql

#: Called with a stage's name and how much of it is done, from 0 to 1.
Progress = Callable[[str, float], None]

#: A table's rows per warehouse, roughly, as weights for the progress shown.
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


class LoadError(PgflashError):
    """The oltp database could not be made."""


def load(
    conninfo: str,
    config: OltpConfig,
    progress: Progress | None = None,
    *,
    replace: bool = False,
) -> LoadResult:
    """Make the schema "oltp" in a database, fill it, index it.

    An existing schema of that name is refused unless it is to be replaced.
    """
    report = progress or (lambda _stage, _fraction: None)
    begin = time.monotonic()
    constant = choose_load_constant(Random(f"{config.seed} c_last"))
    with psycopg.connect(conninfo, application_name="pgflash oltp load") as connection:
        _create_schema(connection, replace=replace)
        rows_count = _copy_all(connection, config, constant, report)
        _create_indexes(connection, config, report)
        connection.execute(read_sql("procedures.sql").encode())
        connection.execute(read_sql("terminal.sql").encode())
        connection.execute(
            "INSERT INTO oltp.load VALUES (%s, %s, %s, %s, now())",
            (config.warehouses, config.seed, constant, config.foreign_keys),
        )
        connection.commit()
        connection.autocommit = True
        _vacuum(connection, report)
        size = connection.execute(
            "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class"
            " WHERE relnamespace = 'oltp'::regnamespace AND relkind = 'r'"
        ).fetchone()
    assert size is not None
    return LoadResult(
        warehouses=config.warehouses,
        seed=config.seed,
        c_last_constant=constant,
        rows=rows_count,
        size_bytes=int(size[0]),
        elapsed_s=time.monotonic() - begin,
    )


def _create_schema(connection: psycopg.Connection, *, replace: bool) -> None:
    """Create the empty tables, after getting rid of an old load if that was asked."""
    row = connection.execute("SELECT to_regnamespace('oltp') IS NOT NULL").fetchone()
    assert row is not None
    if row[0] and not replace:
        raise LoadError(
            'schema "oltp" exists already',
            hint="Load into another database, or ask for the schema to be replaced.",
        )
    if row[0]:
        connection.execute("DROP SCHEMA oltp CASCADE")
    connection.execute("SET LOCAL maintenance_work_mem = '256MB'")
    connection.execute(read_sql("tables.sql").encode())


def _copy_all(
    connection: psycopg.Connection, config: OltpConfig, constant: int, report: Progress
) -> int:
    """Fill all tables; return the number of rows."""
    now = datetime.now(tz=UTC).isoformat()
    rows = Rows(seed=config.seed, c_last_constant=constant, now=now)
    total = ITEMS + config.warehouses * sum(TABLES.values())
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        report("load rows", min(1.0, done / total))

    _copy(connection, "item", rows.item(), advance)
    # One COPY for each table, so that the load is a few long sequential writes.
    for table in TABLES:
        make = getattr(rows, table)
        lines = (line for w_id in range(1, config.warehouses + 1) for line in make(w_id))
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


def _create_indexes(connection: psycopg.Connection, config: OltpConfig, report: Progress) -> None:
    """Create keys and indexes, and the references if they are wanted."""
    statements = _statements(read_sql("indexes.sql"))
    if config.foreign_keys:
        statements += _statements(read_sql("foreign_keys.sql"))
    for number, statement in enumerate(statements):
        report("create indexes", number / len(statements))
        connection.execute(statement.encode())
    report("create indexes", 1.0)


def _statements(text: str) -> list[str]:
    """Split a file of plain statements, none of which has a semicolon inside."""
    return [part.strip() for part in text.split(";\n") if part.strip()]


def _vacuum(connection: psycopg.Connection, report: Progress) -> None:
    """Vacuum and analyze each table."""
    tables = ["item", *TABLES]
    for number, table in enumerate(tables):
        report("vacuum", number / len(tables))
        connection.execute(sql.SQL("VACUUM (ANALYZE) oltp.{}").format(sql.Identifier(table)))
    report("vacuum", 1.0)
