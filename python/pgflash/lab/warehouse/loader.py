# SPDX-License-Identifier: PostgreSQL
"""Create and fill the database.

Everything happens in one transaction: a load is complete or absent.  The tables are new
in it, so COPY FREEZE may write rows that need no hint bits and no later vacuum.  Indexes
and the rows for the refresh functions follow, then VACUUM ANALYZE.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
from psycopg import sql

from pgflash.errors import PgflashError
from pgflash.lab.warehouse.data import TABLES, expected_rows, find_program, generate
from pgflash.lab.warehouse.model import (
    REFRESH_SETS,
    LoadResult,
    WarehouseConfig,
    refresh_orders,
)
from pgflash.lab.warehouse.texts import fill_in, read_sql

#: Called with a stage's name and how much of it is done, from 0 to 1.
Progress = Callable[[str, float], None]

_COPY_BYTES = 256 * 1024


class LoadError(PgflashError):
    """The warehouse database could not be made."""


def load(
    conninfo: str,
    config: WarehouseConfig,
    progress: Progress | None = None,
    *,
    replace: bool = False,
) -> LoadResult:
    """Make the schema "warehouse" in a database, fill it, index it.

    An existing schema of that name is refused unless it is to be replaced.
    """
    report = progress or (lambda _stage, _fraction: None)
    find_program()  # an error now rather than after the first table
    begin = time.monotonic()
    with (
        psycopg.connect(conninfo, application_name="pgflash warehouse load") as connection,
        tempfile.TemporaryDirectory(prefix="pgflash-warehouse-") as folder,
    ):
        _create_schema(connection, replace=replace)
        report("make rows", 0.0)
        files = generate(Path(folder), scale_factor=config.scale_factor)
        rows = _copy_all(connection, files, config.scale_factor, report)
        _run_all(connection, "create indexes", _statements(read_sql("indexes.sql")), report)
        size = {"sets": REFRESH_SETS, "size": refresh_orders(config.scale_factor)}
        refreshes = fill_in(read_sql("refreshes.sql"), size)
        _run_all(connection, "lay out refreshes", _statements(refreshes), report)
        connection.execute(
            "INSERT INTO warehouse.load VALUES (%s, %s, now())",
            (str(config.scale_factor), REFRESH_SETS),
        )
        connection.commit()
        connection.autocommit = True
        tables = (*TABLES, "refresh_keys", "refresh_orders", "refresh_lineitem")
        _run_all(
            connection, "vacuum", [f"VACUUM (ANALYZE) warehouse.{one}" for one in tables], report
        )
        size_row = connection.execute(
            "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class"
            " WHERE relnamespace = 'warehouse'::regnamespace AND relkind = 'r'"
        ).fetchone()
    assert size_row is not None
    return LoadResult(
        scale_factor=config.scale_factor,
        rows=rows,
        size_bytes=int(size_row[0]),
        elapsed_s=time.monotonic() - begin,
    )


def _create_schema(connection: psycopg.Connection, *, replace: bool) -> None:
    """Create the empty tables, after getting rid of an old load if that was asked."""
    row = connection.execute("SELECT to_regnamespace('warehouse') IS NOT NULL").fetchone()
    assert row is not None
    if row[0] and not replace:
        raise LoadError(
            'schema "warehouse" exists already',
            hint="Load into another database, or ask for the schema to be replaced.",
        )
    if row[0]:
        connection.execute("DROP SCHEMA warehouse CASCADE")
    connection.execute("SET LOCAL maintenance_work_mem = '256MB'")
    connection.execute(read_sql("tables.sql").encode())


def _copy_all(
    connection: psycopg.Connection,
    files: Mapping[str, Path],
    scale_factor: float,
    report: Progress,
) -> dict[str, int]:
    """Fill all tables; return their numbers of rows."""
    expected = expected_rows(scale_factor)
    total = sum(expected.values())
    rows: dict[str, int] = {}
    for table, file in files.items():
        report("load rows", min(1.0, sum(rows.values()) / total))
        rows[table] = _copy(connection, table, file)
        file.unlink()  # the disk may be small
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


def _run_all(
    connection: psycopg.Connection, stage: str, statements: list[str], report: Progress
) -> None:
    for number, statement in enumerate(statements):
        report(stage, number / len(statements))
        connection.execute(statement.encode())
    report(stage, 1.0)


def _statements(text: str) -> list[str]:
    """Split a script of plain statements."""
    return [one for one in (part.strip() for part in text.split(";\n")) if one]
