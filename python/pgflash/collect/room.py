# SPDX-License-Identifier: PostgreSQL
"""The sizes of a database's parts, for advice on where to place them.

A table and its TOAST table count together (they move together), and each index alone, under the
names that reports use.  Only the session's own database is covered; the system catalogs are left
out, since nobody moves them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pgflash.session import Connection, said

_RELATIONS = """
select pg_catalog.current_database(), n.nspname, c.relname,
       case when c.relkind = 'i' then pg_catalog.pg_relation_size(c.oid)
            else pg_catalog.pg_table_size(c.oid) end,
       coalesce(t.spcname, '')
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_tablespace t on t.oid = c.reltablespace
 where c.relkind in ('r', 'm', 'i') and c.relpersistence <> 't'
   and n.nspname !~ '^pg_'::text and n.nspname <> 'information_schema'
"""
_SERVER = """
select (select sum(pg_catalog.pg_database_size(oid)) from pg_catalog.pg_database
         where datallowconn),
       pg_catalog.pg_size_bytes(pg_catalog.current_setting('shared_buffers')),
       pg_catalog.pg_size_bytes(pg_catalog.current_setting('max_wal_size')),
       pg_catalog.current_setting('archive_mode') <> 'off',
       coalesce(pg_catalog.current_setting('pgflash.cache_file', true), '') <> '',
       (select system_identifier::text from pg_catalog.pg_control_system())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What takes room on a server's devices."""

    #: By database and name, as in reports.
    sizes: Mapping[tuple[str, str], float]
    #: The tablespaces of relations that are not in their database's default one.
    tablespaces: Mapping[tuple[str, str], str]
    database_bytes: float
    shared_buffers_bytes: float
    max_wal_bytes: float
    archiving: bool
    has_cache: bool
    system_identifier: str


def server_room(connection: Connection) -> Room:
    """Query the sizes of a server's parts."""
    with said("ask for the sizes of relations"):
        rows = connection.execute(_RELATIONS).fetchall()
        server = connection.execute(_SERVER).fetchone()
    assert server is not None
    sizes: dict[tuple[str, str], float] = {}
    tablespaces: dict[tuple[str, str], str] = {}
    for database, schema, relation, size_bytes, tablespace in rows:
        key = (database, relation if schema == "public" else f"{schema}.{relation}")
        sizes[key] = float(size_bytes or 0)
        if tablespace:
            tablespaces[key] = str(tablespace)
    return Room(
        sizes=sizes,
        tablespaces=tablespaces,
        database_bytes=float(server[0] or 0),
        shared_buffers_bytes=float(server[1]),
        max_wal_bytes=float(server[2]),
        archiving=bool(server[3]),
        has_cache=bool(server[4]),
        system_identifier=str(server[5]),
    )
