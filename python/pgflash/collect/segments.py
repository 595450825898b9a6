# SPDX-License-Identifier: PostgreSQL
"""What was asked of which relation's files: the extension's counts, and the names of relations.

Counts are by file and looked up nowhere, and only those are told that changed since the last look,
which is fast; names are asked for of those few files that are shown.  A file of another database
has no name here but its number.
"""

from collections.abc import Iterable

from psycopg import sql

from pgflash.collect.names import short_name
from pgflash.model.live import FileChange, FileKey, LiveServer
from pgflash.session import Connection, said

#: What pgflash.account_relations holds by default, and more: what is beyond is left out, those that
#: cost most time since the server started are told first.
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
    """Asks over one session what changed since it last asked."""

    def __init__(self, connection: Connection) -> None:
        """Have asked for nothing yet."""
        self._connection = connection
        self._mark: int | None = None

    def read(self, server: LiveServer) -> list[FileChange]:
        """Return all files at first, and then those of which something was asked."""
        query = sql.SQL(_CHANGES).format(
            schema=sql.SQL(server.schema), since=sql.Placeholder(), limit=sql.Literal(FILES_MAX)
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
    """Return what people call the relations that have these files."""
    asked = list(keys)
    with said("ask for names of relations"):
        rows = connection.execute(_NAMES, tuple(map(list, zip(*asked, strict=True)))).fetchall()
    return {
        (space, database, number): short_name(name) if name else _unnamed(number, database_name)
        for space, database, number, name, database_name in rows
    }


def _unnamed(number: int, database: str | None) -> str:
    return f"file {number} of {f'database {database}' if database else 'a dropped database'}"
