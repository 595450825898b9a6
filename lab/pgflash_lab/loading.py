# SPDX-License-Identifier: PostgreSQL
"""Loading the database of any workload.

A load is one transaction, complete or absent: it creates the tables, so COPY FREEZE may write rows
that need no hint bits and no later vacuum.  Vacuum and size follow it.
"""

from collections.abc import Callable, Sequence

import psycopg

from pgflash.errors import PgflashError
from pgflash.machine.host import core_count, memory_bytes

#: Called with a stage's name and how much of it is done, from 0 to 1.
Progress = Callable[[str, float], None]


class LoadError(PgflashError):
    """A workload's database could not be created."""


def index_memory() -> str:
    """Return a load's maintenance_work_mem: each processor may build an index at the same time."""
    return f"{max(1, min(256 << 20, memory_bytes() // (8 * core_count())) >> 20)}MB"


def create_schema(
    connection: psycopg.Connection, schema: str, tables: str, *, replace: bool
) -> None:
    """Create the empty tables; remove an old load first if requested."""
    row = connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", (schema,)).fetchone()
    assert row is not None
    if row[0] and not replace:
        raise LoadError(
            f'schema "{schema}" exists already',
            hint="Load into another database, or ask for the schema to be replaced.",
        )
    if row[0]:
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())
    connection.execute(f"SET LOCAL maintenance_work_mem = '{index_memory()}'".encode())
    connection.execute(tables.encode())


def statements_of(script: str) -> list[str]:
    """Split a script of plain statements, none of which has a semicolon inside."""
    return [one for one in (part.strip() for part in script.split(";\n")) if one]


def run_all(
    connection: psycopg.Connection, stage: str, statements: Sequence[str], report: Progress
) -> None:
    """Run statements one by one, as one stage."""
    for number, statement in enumerate(statements):
        report(stage, number / len(statements))
        connection.execute(statement.encode())
    report(stage, 1.0)


def schema_bytes(connection: psycopg.Connection, schema: str) -> int:
    """Return the size of a schema's tables, including their indexes."""
    row = connection.execute(
        "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class"
        " WHERE relnamespace = %s::regnamespace AND relkind = 'r'",
        (schema,),
    ).fetchone()
    assert row is not None
    return int(row[0])
