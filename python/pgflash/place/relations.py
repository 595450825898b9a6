# SPDX-License-Identifier: PostgreSQL
"""Relations as placement needs them: found by name, with what belongs to them.

A name is read as it is in the catalog ("public.Order") or as SQL would write it
(public."Order").  The second form is required if the name of the schema or of the relation contains
a dot.  A name without a schema is in public.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from psycopg import sql

from pgflash.place.cluster import Cluster
from pgflash.place.errors import GoneError, PlaceError
from pgflash.place.names import quote_name

TABLE_KINDS = frozenset("rmp")
INDEX_KINDS = frozenset("iI")
#: Kinds that are only a name for their partitions and have no file.
PARTITIONED_KINDS = frozenset("pI")

_COLUMNS = """
select c.oid, n.nspname, c.relname, c.relkind::text, c.relpersistence::text,
       coalesce(t.spcname, d.spcname),
       -- Null of a relation that is being dropped.
       coalesce(case when c.relkind in ('r', 'm', 't') then pg_table_size(c.oid)
                     when c.relkind = 'i' then pg_relation_size(c.oid) end, 0)::int8,
       n.nspname in ('pg_catalog', 'information_schema') or n.nspname like 'pg\\_toast%%'
         or n.nspname like 'pg\\_temp%%',
       pg_has_role(c.relowner, 'USAGE'), pg_get_userbyid(c.relowner),
       coalesce((select indrelid from pg_index where indexrelid = c.oid), c.oid)
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_tablespace t on t.oid = c.reltablespace
 cross join (select spcname from pg_database b join pg_tablespace s on s.oid = b.dattablespace
              where b.datname = current_database()) d
"""

#: Whether a role's members may become superusers through it: by the role itself, by a role it
#: belongs to, or by the server's files and programs.
_IS_AS_A_SUPERUSER = """
select exists (select from pg_catalog.pg_roles r
                where (r.rolsuper or r.rolcreaterole or r.rolname in
                       ('pg_read_server_files', 'pg_write_server_files',
                        'pg_execute_server_program'))
                  and pg_catalog.pg_has_role(%s::name, r.oid, 'MEMBER'))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table, materialized view or index."""

    database: str
    oid: int
    schema: str
    name: str
    kind: str
    persistence: str
    tablespace: str
    bytes: int
    is_system: bool
    is_ours: bool
    owner: str
    #: The oid of an index's table; a table's own oid. REINDEX gives an index another oid.
    table_oid: int

    @property
    def title(self) -> str:
        """Its name as a plan writes it; in SQL form if it would be unclear which dot separates."""
        if "." in self.schema + self.name:
            return f"{quote_name(self.schema)}.{quote_name(self.name)}"
        return f"{self.schema}.{self.name}"

    @property
    def sql(self) -> sql.Composed:
        """Its name as SQL writes it."""
        return sql.SQL("{}.{}").format(sql.Identifier(self.schema), sql.Identifier(self.name))

    @property
    def is_index(self) -> bool:
        """Whether it is an index."""
        return self.kind in INDEX_KINDS

    @property
    def is_partitioned(self) -> bool:
        """Whether it has no file, only partitions."""
        return self.kind in PARTITIONED_KINDS


def find_relation(
    cluster: Cluster, name: str, *, kinds: frozenset[str], database: str = ""
) -> Relation:
    """Return the relation with this name, or say why there is none."""
    if database and not cluster.has_database(database):
        raise GoneError(f'there is no database "{database}"')
    found = _select(
        cluster,
        "where c.relkind = any(%s) and (n.nspname || '.' || c.relname = %s or c.oid = "
        "to_regclass(%s) or (c.relname = %s and n.nspname = 'public'))",
        [*kinds],
        name,
        _as_regclass(cluster, name, database),
        name,
        database=database,
    )
    exact = [one for one in found if one.title == name] or found
    what = "index" if kinds == INDEX_KINDS else "table"
    where = f'database "{database or cluster.database}"'
    if not exact:
        others = _select(
            cluster,
            "where c.relkind = any(%s) and c.relname = %s order by n.nspname",
            *([*kinds], name),
            database=database,
        )
        also = f" There is {' and '.join(one.title for one in others)}." if others else ""
        raise GoneError(
            f"there is no {what} {name} in {where}", hint=f"Name it as SCHEMA.NAME.{also}"
        )
    if len(exact) > 1:
        raise PlaceError(
            f"{name} could be {' or '.join(one.title for one in exact)}",
            hint="Name it as SCHEMA.NAME.",
        )
    return exact[0]


def file_of(cluster: Cluster, relation: Relation) -> Path | None:
    """Return the first file of a relation, if we can see it."""
    if not cluster.is_local or relation.is_partitioned:
        return None
    data = cluster.setting_or_none("data_directory")
    path = cluster.value(
        "select pg_relation_filepath(c.oid) from pg_class c join pg_namespace n "
        "on n.oid = c.relnamespace where n.nspname = %s and c.relname = %s",
        relation.schema,
        relation.name,
        database=relation.database,
    )
    return Path(data) / path if data and path else None


def find_again(cluster: Cluster, relation: Relation) -> Relation | None:
    """Return a relation as it is now, or None if it is gone."""
    found = _select(
        cluster,
        "where n.nspname = %s and c.relname = %s and c.relkind = any(%s)",
        relation.schema,
        relation.name,
        [*(INDEX_KINDS if relation.is_index else TABLE_KINDS)],
        database=relation.database,
    )
    return found[0] if found else None


def indexes_of(cluster: Cluster, table: Relation) -> list[Relation]:
    """Return the indexes of a table, by name."""
    return _select(
        cluster,
        "where c.oid in (select indexrelid from pg_index where indrelid = %s) order by c.relname",
        table.oid,
        database=table.database,
    )


def tree_of(cluster: Cluster, relation: Relation) -> list[Relation]:
    """Return a partitioned relation's partitions, then itself; any other relation alone."""
    if not relation.is_partitioned:
        return [relation]
    return _select(
        cluster,
        "join pg_partition_tree(%s) tree on tree.relid = c.oid where c.relkind <> 'f' "
        "order by tree.level desc, n.nspname, c.relname",
        relation.oid,
        database=relation.database,
    )


def relations_in(cluster: Cluster, database: str) -> list[Relation]:
    """Return the users' tables and indexes in a database's default tablespace."""
    if not cluster.has_database(database):
        raise GoneError(f'there is no database "{database}"')
    tables = _select(
        cluster,
        "where c.relkind in ('r', 'm', 'p') and c.reltablespace = 0 and c.relpersistence <> 't' "
        "order by n.nspname, c.relname",
        database=database,
    )
    indexes = _select(
        cluster,
        "where c.relkind in ('i', 'I') and c.reltablespace = 0 and c.relpersistence <> 't' "
        "order by n.nspname, c.relname",
        database=database,
    )
    return [one for one in (*tables, *indexes) if not one.is_system]


def refuse_relation(cluster: Cluster, relation: Relation) -> None:
    """Refuse a relation that cannot or must not be moved."""
    if cluster.is_standby:
        raise PlaceError(
            "this server is a standby: its tables are where those of its primary are",
            hint="Connect to the primary.",
        )
    if relation.persistence == "t":
        raise PlaceError(
            f"{relation.title} is a temporary relation of some session",
            hint="New ones go where temp_tablespaces says: pgflash place temp.",
        )
    if relation.is_system:
        raise PlaceError(f"{relation.title} belongs to PostgreSQL and stays where it is")
    if not relation.is_ours:
        raise PlaceError(
            f'{relation.title} belongs to role "{relation.owner}"',
            hint=_how_to_own(cluster, relation.owner),
        )


def _how_to_own(cluster: Cluster, owner: str) -> str:
    """Say how to get an owner's rights; never by becoming a superuser."""
    if cluster.value(_IS_AS_A_SUPERUSER, owner):
        return f"Connect as {owner}, or have a superuser give it to another role: ALTER ... OWNER."
    return f"Connect as {owner}, or GRANT {quote_name(owner)} TO {quote_name(cluster.role)};"


def _as_regclass(cluster: Cluster, name: str, database: str) -> str | None:
    """Return the name if SQL can parse it; to_regclass() is strict about quotes."""
    try:
        parts = cluster.value("select parse_ident(%s)", name, database=database)
    except PlaceError:
        return None
    return name if parts and len(parts) <= 2 else None


def _select(
    cluster: Cluster, condition: str, *values: object, database: str = ""
) -> list[Relation]:
    names: Sequence[str] = Relation.__dataclass_fields__.keys()  # type: ignore[assignment]
    where = database or cluster.database
    rows = cluster.rows(
        sql.SQL(_COLUMNS) + sql.SQL(condition),
        *values,
        database=database,
    )
    return [Relation(**dict(zip(names, (where, *row), strict=True))) for row in rows]
