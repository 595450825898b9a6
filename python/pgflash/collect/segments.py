# SPDX-License-Identifier: PostgreSQL
"""What was asked of which relation's files: the extension's counts, and the names of relations.

Counts are by file and looked up nowhere, which is fast; names are asked for of those few files
that are shown.  A file of another database has no name here but its number.
"""

from collections.abc import Iterable

from psycopg import sql

from pgflash.model.live import FileKey, FileRow, LiveServer
from pgflash.session import Connection, said

#: What pgflash.account_relations holds by default, and more: what is beyond is left out, those that
#: cost most time since the server started are kept.  20,000 take 0.1 s to ask for.
FILES_MAX = 20_000

_COUNTS = """
select coalesce(tablespace_oid, 0), coalesce(database_oid, 0), coalesce(relfilenumber, 0),
       sum(reads)::float8, sum(flash_reads)::float8, sum(read_bytes)::float8,
       sum(read_time_ms)::float8, sum(writes + extends)::float8,
       sum(write_bytes + extend_bytes)::float8, sum(write_time_ms + extend_time_ms)::float8
  from {schema}.pgflash_io_relation_rows()
 group by 1, 2, 3
 order by sum(read_time_ms + write_time_ms + extend_time_ms) desc
 limit {limit}
"""
_NAMES = """
select key.tablespace, key.database, key.number,
       case when key.number = 0 then 'all others together'
            when key.database in (0, own.oid)
            then pg_catalog.pg_filenode_relation(key.tablespace, key.number)::regclass::text end,
       d.datname
  from unnest(%s::oid[], %s::oid[], %s::oid[]) as key (tablespace, database, number)
  join pg_catalog.pg_database own on own.datname = current_database()
  left join pg_catalog.pg_database d on d.oid = key.database
"""


def count_files(connection: Connection, server: LiveServer) -> dict[FileKey, FileRow]:
    """Return what was asked of files since the server started."""
    query = sql.SQL(_COUNTS).format(schema=sql.SQL(server.schema), limit=sql.Literal(FILES_MAX))
    with said("ask what was read and written"), connection.cursor(binary=True) as cursor:
        rows = cursor.execute(query, prepare=True).fetchall()
    return {row[:3]: row[3:] for row in rows}


def name_files(connection: Connection, keys: Iterable[FileKey]) -> dict[FileKey, str]:
    """Return what people call the relations that have these files."""
    asked = list(keys)
    with said("ask for names of relations"):
        rows = connection.execute(_NAMES, tuple(map(list, zip(*asked, strict=True)))).fetchall()
    return {
        (space, database, number): name or _unnamed(number, database_name)
        for space, database, number, name, database_name in rows
    }


def _unnamed(number: int, database: str | None) -> str:
    return f"file {number} of {f'database {database}' if database else 'a dropped database'}"
