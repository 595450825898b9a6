# SPDX-License-Identifier: PostgreSQL
"""What stock PostgreSQL shows, section by section, with one query each.

The extension keeps the same sections (extension/src/snapshot/snapshot_sections.c), under the same
names; docs/reference/snapshots.md lists them.
"""

from dataclasses import dataclass

from pgflash.model.snapshot import SectionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class StockSection:
    """A section whose rows are kept as the server gives them."""

    name: str
    kind: SectionKind
    query: str
    major_min: int = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaColumn:
    """A counter of a section of kind delta."""

    name: str
    #: The counter's name in the server, in newer and older versions.
    sources: tuple[str, ...]
    #: Rows with the most of it are kept one by one.
    ranked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSection:
    """A section of kind delta: many rows, of which the top ones are kept."""

    name: str
    query: str
    keys: tuple[str, ...]
    #: The keys' names in the section; if empty, the keys are not part of it.
    key_names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    columns: tuple[DeltaColumn, ...]
    birth: str = ""
    limit: int
    #: The label of the row that sums up all others.
    other: tuple[str | None, ...]


#: Commands and connection strings may hold passwords: for them only the fact that they changed is
#: kept.
_SETTINGS = """
select name,
       case when name in ('primary_conninfo', 'archive_command', 'restore_command',
                          'archive_cleanup_command', 'recovery_end_command',
                          'ssl_passphrase_command') and setting <> ''
            then 'md5 ' || pg_catalog.md5(setting) else setting end as setting,
       unit, source
  from pg_catalog.pg_settings
 where setting is distinct from boot_val
 order by name
"""

SERVER = """
select pg_catalog.version() as version,
       pg_catalog.current_setting('server_version_num')::int as version_num,
       '' as extension_version,
       (select system_identifier::text from pg_catalog.pg_control_system()) as system_identifier,
       pg_catalog.pg_postmaster_start_time() as started_at,
       pg_catalog.current_setting('block_size')::int as block_size,
       pg_catalog.current_setting('wal_block_size')::int as wal_block_size,
       pg_catalog.pg_size_bytes(pg_catalog.current_setting('wal_segment_size')) as wal_segment_size,
       pg_catalog.current_setting('data_checksums')::bool as data_checksums,
       pg_catalog.pg_is_in_recovery() as in_recovery,
       coalesce(sum(greatest(extract(epoch from pg_catalog.clock_timestamp() - state_change), 0))
                filter (where active), 0)::float8 * 1000::float8 as active_in_flight_ms,
       count(*) filter (where active) as active_sessions,
       count(*) as sessions
  from (select state_change,
               state in ('active', 'fastpath function call')
                 and pid <> pg_catalog.pg_backend_pid() as active
          from pg_catalog.pg_stat_activity
         where backend_type = 'client backend') a
"""

#: When counting began. A crash resets the counters without restarting the postmaster; the
#: checkpointer is as old as the counters are.
STARTED = """
select coalesce(min(backend_start), pg_catalog.pg_postmaster_start_time())
  from pg_catalog.pg_stat_activity where backend_type = 'checkpointer'
"""

_WAL_POSITION = """
select pg_catalog.pg_wal_lsn_diff(
         case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
              else pg_catalog.pg_current_wal_lsn() end, '0/0')::bigint as wal_bytes
"""


def _view(name: str, *, section: str, major_min: int = 15) -> StockSection:
    return StockSection(
        name=section,
        kind=SectionKind.COUNTER,
        query=f"select * from pg_catalog.{name}",
        major_min=major_min,
    )


STOCK = (
    StockSection(name="settings", kind=SectionKind.GAUGE, query=_SETTINGS),
    StockSection(
        name="databases",
        kind=SectionKind.GAUGE,
        query="select oid as database_oid, datname as database from pg_catalog.pg_database "
        "order by oid",
    ),
    StockSection(
        name="tablespaces",
        kind=SectionKind.GAUGE,
        query="select oid as tablespace_oid, spcname as tablespace from pg_catalog.pg_tablespace "
        "order by oid",
    ),
    _view("pg_stat_database", section="database"),
    _view("pg_stat_bgwriter", section="bgwriter"),
    _view("pg_stat_checkpointer", section="checkpointer", major_min=17),
    _view("pg_stat_wal", section="stat_wal"),
    _view("pg_stat_io", section="stat_io", major_min=16),
    _view("pg_stat_slru", section="slru"),
    _view("pg_stat_archiver", section="archiver"),
    StockSection(name="wal_position", kind=SectionKind.COUNTER, query=_WAL_POSITION),
)

STATEMENTS_SCHEMA = """
select pg_catalog.quote_ident(n.nspname)
  from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace
 where e.extname = 'pg_stat_statements'
"""

#: The schema of pg_stat_statements is filled in.
STATEMENTS = DeltaSection(
    name="statements",
    query="select * from {schema}.pg_stat_statements(false) where queryid is not null",
    keys=("dbid", "userid", "queryid", "toplevel"),
    key_names=("database_oid", "user_oid", "query_id", "toplevel"),
    columns=(
        DeltaColumn(name="calls", sources=("calls",)),
        DeltaColumn(name="rows", sources=("rows",)),
        DeltaColumn(name="plan_time_ms", sources=("total_plan_time",)),
        DeltaColumn(name="exec_time_ms", sources=("total_exec_time",), ranked=True),
        DeltaColumn(name="shared_blocks_hit", sources=("shared_blks_hit",)),
        DeltaColumn(name="shared_blocks_read", sources=("shared_blks_read",), ranked=True),
        DeltaColumn(name="shared_blocks_dirtied", sources=("shared_blks_dirtied",)),
        DeltaColumn(name="shared_blocks_written", sources=("shared_blks_written",)),
        DeltaColumn(name="temp_blocks_read", sources=("temp_blks_read",)),
        DeltaColumn(name="temp_blocks_written", sources=("temp_blks_written",), ranked=True),
        DeltaColumn(name="read_time_ms", sources=("shared_blk_read_time", "blk_read_time")),
        DeltaColumn(name="write_time_ms", sources=("shared_blk_write_time", "blk_write_time")),
        DeltaColumn(name="wal_records", sources=("wal_records",)),
        DeltaColumn(name="wal_fpi", sources=("wal_fpi",)),
        DeltaColumn(name="wal_bytes", sources=("wal_bytes",), ranked=True),
    ),
    birth="stats_since",
    limit=100,
    other=(),
)

TEXTS = """
select distinct on (queryid) queryid, pg_catalog.left(query, 4000)
  from {schema}.pg_stat_statements(true)
 where queryid = any(%s) and query is not null
"""

#: pg_statio_all_tables and the like join tables, indexes and TOAST for every row; this returns the
#: same figures in one pass.
RELATIONS = DeltaSection(
    name="relations",
    query="""
select c.oid, pg_catalog.current_database() as database, n.nspname as schema, c.relname as relation,
       c.relkind::text as relkind, 'main' as fork, t.spcname as tablespace,
       pg_catalog.pg_stat_get_blocks_fetched(c.oid)
         - pg_catalog.pg_stat_get_blocks_hit(c.oid) as blocks_read,
       pg_catalog.pg_stat_get_blocks_hit(c.oid) as blocks_hit
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_database d on d.datname = pg_catalog.current_database()
  left join pg_catalog.pg_tablespace t
    on t.oid = coalesce(nullif(c.reltablespace, 0::oid), d.dattablespace)
 where c.relkind in ('r', 'i', 't', 'm') and pg_catalog.pg_stat_get_blocks_fetched(c.oid) > 0
""",
    keys=("oid",),
    labels=("database", "schema", "relation", "relkind", "fork", "tablespace"),
    columns=(
        DeltaColumn(name="blocks_read", sources=("blocks_read",), ranked=True),
        DeltaColumn(name="blocks_hit", sources=("blocks_hit",), ranked=True),
    ),
    limit=200,
    other=(None, None, "other", None, None, None),
)

#: Sections that only the extension has, and what they are.
EXTENSION_ONLY = {
    "io": "exact counts and times of file calls",
    "io_histogram": "histograms of file calls",
    "io_tablespaces": "file calls by tablespace",
    "wal": "exact counts and times of WAL writes",
    "cache": "the flash cache",
    "cache_devices": "the flash cache",
    "cache_relations": "the flash cache",
    "advice": "flash-cache advice",
    "sampler": "sampled waits",
    "samples": "sampled waits",
    "sample_looks": "sampled waits",
    "backend_cpu": "the processor time of sessions",
}
