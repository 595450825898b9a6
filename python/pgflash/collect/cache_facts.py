# SPDX-License-Identifier: PostgreSQL
"""The facts about pgflash itself in the extension's views, for the doctor; nothing is changed."""

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from pgflash.model.doctor import CacheFacts
from pgflash.session import Connection, find_extension, require_own

_CACHE = "select * from {schema}.pgflash_cache"
_DEVICES = "select * from {schema}.pgflash_cache_devices"
_BENEFIT = "select * from {schema}.pgflash_cache_benefit where period = 'start'::text"
#: Those without a place, and those that have ended.  Policies need a cache that has started.  A
#: standby has no launchers.  A role that does not see the checkpointer sees none of the server's
#: processes.
_MISSING = """
select pg_catalog.btrim(name, '"'::text) as name
  from {schema}.pgflash_cache,
       pg_catalog.string_to_table(missing_workers, ', '::text) as m (name)
union
select name
  from (select 'pgflash snapshots'::text
        union all
        select 'pgflash policies'::text from {schema}.pgflash_cache where start_reason is not null)
    as l (name)
 where not pg_catalog.pg_is_in_recovery()
   and exists (select from pg_catalog.pg_stat_activity where backend_type = 'checkpointer'::text)
   and not exists (select from pg_catalog.pg_stat_activity where backend_type = name)
union
select 'pgflash sampler'::text from {schema}.pgflash_sampler where not running
"""
#: A standby takes no snapshots.
_AGE = """
select extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.max(taken_at))::float8 as age_s
  from {schema}.pgflash_snapshots where not pg_catalog.pg_is_in_recovery()
"""

NO_EXTENSION = "the extension pgflash is not in this database"


@dataclass(frozen=True, slots=True, kw_only=True)
class PgflashState:
    """The facts, or the reason why there are none."""

    cache: CacheFacts | None = None
    why_no_cache: str = ""
    snapshot_age_s: float | None = None


def read_pgflash(connection: Connection) -> PgflashState:
    """Return what the extension says of its cache and its snapshots."""
    found = find_extension(connection)
    if found is None:
        return PgflashState(why_no_cache=NO_EXTENSION)
    schema = sql.Identifier(found.schema)
    try:
        age_s = _rows(connection, schema, _AGE)[0]["age_s"]
        (cache,) = _rows(connection, schema, _CACHE)
        missing = tuple(str(row["name"]) for row in _rows(connection, schema, _MISSING))
        return PgflashState(
            cache=CacheFacts(
                cache=cache,
                devices=tuple(_rows(connection, schema, _DEVICES)),
                benefit=next(iter(_rows(connection, schema, _BENEFIT)), None),
                missing_workers=missing,
            ),
            snapshot_age_s=None if age_s is None else float(str(age_s)),
        )
    except psycopg.Error as error:
        return PgflashState(why_no_cache=error.diag.message_primary or str(error))


def _rows(connection: Connection, schema: sql.Identifier, query: str) -> list[Mapping[str, object]]:
    require_own(connection, query)
    with connection.cursor(row_factory=dict_row) as cursor:
        return list(cursor.execute(sql.SQL(query).format(schema=schema)).fetchall())
