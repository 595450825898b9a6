# SPDX-License-Identifier: PostgreSQL
"""Put an approach's tables in their places before anything is measured.

A server gets a tablespace on each device that does not hold its data.  Tables move with their
indexes and TOAST tables, in one transaction each.  Nobody else works in the database meanwhile, so
locks do not matter (pgflash place is for servers in use).
"""

from collections.abc import Mapping, Sequence

from psycopg import Connection, sql

from pgflash_lab.account import make_server_dir
from pgflash_lab.devices import Places
from pgflash_lab.model.run import Approach
from pgflash_lab.server import Server
from pgflash_lab.workload import DATABASE, MeasureError

#: The tablespace of the device that holds the data directory.
OWN_TABLESPACE = "pg_default"


def make_tablespaces(server: Server, places: Places) -> dict[str, str]:
    """Make a tablespace on each other device; return each device's, by role."""
    names = {"array": OWN_TABLESPACE, "flash": OWN_TABLESPACE}
    with server.connect() as connection:
        for role, folder in places.tablespaces.items():
            names[role] = f"on_{role}"
            statement = sql.SQL("create tablespace {} location {}").format(
                sql.Identifier(names[role]), sql.Literal(str(make_server_dir(folder)))
            )
            connection.execute(statement)
    return names


def place(server: Server, approach: Approach, tablespaces: Mapping[str, str], schema: str) -> None:
    """Move the objects that the approach places elsewhere, and set its cache policies."""
    with server.connect(DATABASE) as connection:
        if approach.temp:
            statement = sql.SQL("alter database {} set temp_tablespaces = {}").format(
                sql.Identifier(DATABASE), sql.Identifier(tablespaces[approach.temp])
            )
            connection.execute(statement)
        for name in approach.objects:
            _move(connection, schema, name, tablespaces["flash"])
        for name in approach.keep:
            table, indexes = _relations(connection, schema, name)
            for relation in (table, *indexes):
                connection.execute(
                    "select pgflash_set_cache_policy(%s::regclass, 'keep')",
                    (relation.as_string(connection),),
                )
        if approach.objects:
            # Write the copies now rather than while we measure.
            connection.execute("checkpoint")


def _move(connection: Connection, schema: str, name: str, tablespace: str) -> None:
    """Move a table with its indexes."""
    table, indexes = _relations(connection, schema, name)
    where = sql.Identifier(tablespace)
    with connection.transaction():
        connection.execute(sql.SQL("alter table {} set tablespace {}").format(table, where))
        for index in indexes:
            connection.execute(sql.SQL("alter index {} set tablespace {}").format(index, where))


def _relations(
    connection: Connection, schema: str, name: str
) -> tuple[sql.Identifier, Sequence[sql.Identifier]]:
    """Return a table and its indexes."""
    rows = connection.execute(
        "select t.oid, i.relname from pg_class t "
        "left join pg_index x on x.indrelid = t.oid left join pg_class i on i.oid = x.indexrelid "
        "where t.relnamespace = to_regnamespace(%s) and t.relname = %s and t.relkind = 'r' "
        "order by i.oid",
        (schema, name),
    ).fetchall()
    if not rows:
        raise MeasureError(
            f'the workload {schema} has no table "{name}"',
            hint="An approach's objects and keep name tables of the workload.",
        )
    indexes = [sql.Identifier(schema, index) for _, index in rows if index is not None]
    return sql.Identifier(schema, name), indexes
