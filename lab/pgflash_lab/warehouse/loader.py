# SPDX-License-Identifier: PostgreSQL
"""Create and fill the database.

Indexes and the rows for the refresh functions follow the tables, then VACUUM ANALYZE.
See pgflash_lab.loading.
"""

import tempfile
import time
from pathlib import Path

import psycopg
from psycopg import sql

from pgflash_lab.loading import (
    LoadError,
    Progress,
    create_schema,
    run_all,
    schema_bytes,
    statements_of,
)
from pgflash_lab.warehouse.data import (
    TABLES,
    expected_rows,
    find_program,
    generate,
    part_count,
)
from pgflash_lab.warehouse.model import (
    REFRESH_SETS,
    LoadResult,
    WarehouseParameters,
    order_key_type,
    refresh_orders,
)
from pgflash_lab.warehouse.texts import fill_in, read_sql

_COPY_BYTES = 256 * 1024


def load(
    conninfo: str,
    parameters: WarehouseParameters,
    progress: Progress | None = None,
    *,
    replace: bool = False,
) -> LoadResult:
    """Make the schema "warehouse" in a database, fill it, index it.

    An existing schema of that name is refused unless replacing it is requested.
    """
    report = progress or (lambda _stage, _fraction: None)
    find_program()  # raises an error now rather than after the first table
    begin = time.monotonic()
    with (
        psycopg.connect(conninfo, application_name="pgflash warehouse load") as connection,
        tempfile.TemporaryDirectory(prefix="pgflash-warehouse-") as folder,
    ):
        create_schema(connection, "warehouse", read_sql("tables.sql"), replace=replace)
        _set_order_keys(connection, order_key_type(parameters.scale_factor))
        rows = _copy_all(connection, Path(folder), parameters.scale_factor, report)
        run_all(connection, "create indexes", statements_of(read_sql("indexes.sql")), report)
        size = {"sets": REFRESH_SETS, "size": refresh_orders(parameters.scale_factor)}
        refreshes = fill_in(read_sql("refreshes.sql"), size)
        run_all(connection, "lay out refreshes", statements_of(refreshes), report)
        connection.execute(
            "INSERT INTO warehouse.load VALUES (%s, %s, now())",
            (str(parameters.scale_factor), REFRESH_SETS),
        )
        connection.commit()
        connection.autocommit = True
        tables = (*TABLES, "refresh_keys", "refresh_orders", "refresh_lineitem")
        vacuums = [f"VACUUM (ANALYZE) warehouse.{one}" for one in tables]
        run_all(connection, "vacuum", vacuums, report)
        size_bytes = schema_bytes(connection, "warehouse")
    return LoadResult(
        scale_factor=parameters.scale_factor,
        rows=rows,
        size_bytes=size_bytes,
        elapsed_s=time.monotonic() - begin,
    )


def _set_order_keys(connection: psycopg.Connection, kind: str) -> None:
    """Give the empty tables order keys of another type than the usual one."""
    if kind != "integer":
        for table, column in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
            connection.execute(f"ALTER TABLE warehouse.{table} ALTER {column} TYPE {kind}".encode())


def _copy_all(
    connection: psycopg.Connection, folder: Path, scale_factor: float, report: Progress
) -> dict[str, int]:
    """Fill all tables, part by part: the disk may be small; return their numbers of rows."""
    expected = expected_rows(scale_factor)
    total = sum(expected.values())
    rows = dict.fromkeys(TABLES, 0)
    parts = part_count(scale_factor)
    for part in range(1, parts + 1):
        report("make rows", (part - 1) / parts)
        files = generate(folder, scale_factor=scale_factor, part=part, parts=parts)
        for table, file in files.items():
            report("load rows", min(1.0, sum(rows.values()) / total))
            rows[table] += _copy(connection, table, file)
            file.unlink()
    short = [name for name, count in expected.items() if rows[name] < count * 9 // 10]
    if short:
        raise LoadError(f"there are rows missing of {', '.join(short)}")
    report("load rows", 1.0)
    return rows


def _copy(connection: psycopg.Connection, table: str, file: Path) -> int:
    """Send one table's rows; return how many there were."""
    statement = sql.SQL("COPY warehouse.{} FROM STDIN (FORMAT csv, HEADER, FREEZE)").format(
        sql.Identifier(table)
    )
    with connection.cursor() as cursor, file.open("rb") as lines:
        with cursor.copy(statement) as copy:
            while block := lines.read(_COPY_BYTES):
                copy.write(block)
        return cursor.rowcount
