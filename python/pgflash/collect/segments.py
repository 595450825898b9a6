# SPDX-License-Identifier: PostgreSQL
"""Requests to each relation's files: the extension's counts, and the relations' names.

The extension counts by file without looking up names, and reports only the files that changed since
the last look, which is fast; we look up the names of only the few files that are shown.  A file of
another database has only its number as a name here.
"""

from collections.abc import Iterable

from psycopg import sql

from pgflash.collect.names import short_name
from pgflash.model.live import FileChange, FileKey, LiveServer
from pgflash.session import Connection, said

#: More than pgflash.account_relations holds by default. Files beyond this are left out; the files
#: that cost most time since the server started come first.
FILES_MAX = 20_000

_CHANGES = """
select mark, place,
       coalesce(tablespace_oid, 0), coalesce(database_oid, 0), coalesce(relfilenumber, 0),
       reads::float8, flash_reads::float8, read_bytes::float8, read_time_ms,
       (writes + extends)::float8, (write_bytes + extend_bytes)::float8,
       write_time_ms + extend_time_ms
  from {schema}.pgflash_io_relation_changes({since}::bigint)
 order by read_time_ms + write_time_ms + extend_time_ms desc
 limit {limit}
"""
_NAMES = """
select key.tablespace, key.database, key.number,
       case when key.number = 0::oid then 'all others together'
            when key.database in (0::oid, own.oid)
            then pg_catalog.pg_filenode_relation(key.tablespace, key.number)::regclass::text end,
       d.datname
  from unnest(%s::oid[], %s::oid[], %s::oid[]) as key (tablespace, database, number)
  join pg_catalog.pg_database own on own.datname = pg_catalog.current_database()
  left join pg_catalog.pg_database d on d.oid = key.database
"""


class FileReader:
    """Reports over one session what changed since its last read."""

    def __init__(self, connection: Connection) -> None:
        """Start without having read anything."""
        self._connection = connection
        self._mark: int | None = None

    def read(self, server: LiveServer) -> list[FileChange]:
        """Return all files at first, and then those with new requests."""
        query = sql.SQL(_CHANGES).format(
            schema=sql.Identifier(server.schema),
            since=sql.Placeholder(),
            limit=sql.Literal(FILES_MAX),
        )
        with (
            said("ask what was read and written"),
            self._connection.cursor(binary=True) as cursor,
        ):
            rows = cursor.execute(query, (self._mark,), prepare=True).fetchall()
        if rows:
            self._mark = rows[0][0]
        return [(row[1], row[2:5], row[5:]) for row in rows]


def name_files(connection: Connection, keys: Iterable[FileKey]) -> dict[FileKey, str]:
    """Return the usual names of the relations that have these files."""
    asked = list(keys)
    with said("ask for names of relations"):
        rows = connection.execute(_NAMES, tuple(map(list, zip(*asked, strict=True)))).fetchall()
    return {
        (space, database, number): short_name(name) if name else _unnamed(number, database_name)
        for space, database, number, name, database_name in rows
    }


def _unnamed(number: int, database: str | None) -> str:
    return f"file {number} of {f'database {database}' if database else 'a dropped database'}"
