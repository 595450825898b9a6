# SPDX-License-Identifier: PostgreSQL
"""The sections of a snapshot.

Generated from definitions/ by `make generate`.
"""

from collections.abc import Mapping

from pgflash.model.snapshot import DeltaCount, Falls, SectionDefinition, SectionKind

_DEFINITIONS = (
    SectionDefinition(
        name="server",
        kind=SectionKind.GAUGE,
        client="yes",
        columns=(
            "version",
            "version_num",
            "extension_version",
            "system_identifier",
            "started_at",
            "block_size",
            "wal_block_size",
            "wal_segment_size",
            "data_checksums",
            "in_recovery",
            "cores",
            "memory_bytes",
            "page_size",
            "active_in_flight_ms",
            "active_sessions",
            "sessions",
        ),
        query="""
select pg_catalog.version() as version,
       pg_catalog.current_setting('server_version_num')::int as version_num,
       coalesce((select extversion from pg_catalog.pg_extension where oid = $1::oid), '')
         as extension_version,
       (select system_identifier from pg_catalog.pg_control_system()) as system_identifier,
       pg_catalog.pg_postmaster_start_time() as started_at,
       pg_catalog.current_setting('block_size')::int as block_size,
       pg_catalog.current_setting('wal_block_size')::int as wal_block_size,
       pg_catalog.pg_size_bytes(pg_catalog.current_setting('wal_segment_size'))
         as wal_segment_size,
       pg_catalog.current_setting('data_checksums')::bool as data_checksums,
       pg_catalog.pg_is_in_recovery() as in_recovery,
       $2::bigint as cores, $3::bigint as memory_bytes, $4::bigint as page_size,
       coalesce(sum(greatest(extract(epoch from pg_catalog.clock_timestamp() - state_change), 0))
                filter (where active), 0)::float8 * 1000::float8 as active_in_flight_ms,
       count(*) filter (where active) as active_sessions,
       count(*) as sessions
  from (select state_change,
               state in ('active', 'fastpath function call')
                 and pid <> pg_catalog.pg_backend_pid() as active
          from pg_catalog.pg_stat_activity
         where backend_type = 'client backend') a
""",
    ),
    SectionDefinition(
        name="settings",
        kind=SectionKind.GAUGE,
        client="yes",
        columns=("name", "setting", "unit", "source"),
        query="""
select name,
       case when name in ('primary_conninfo', 'archive_command', 'restore_command',
                          'archive_cleanup_command', 'recovery_end_command',
                          'ssl_passphrase_command') and setting <> ''
            then 'md5 ' || pg_catalog.md5(setting) else setting end as setting,
       unit, source
  from pg_catalog.pg_settings
 where setting is distinct from boot_val or name like 'pgflash.%'
 order by name
""",
    ),
    SectionDefinition(
        name="databases",
        kind=SectionKind.GAUGE,
        client="yes",
        columns=("database_oid", "database", "frozen_age"),
        query="""
select oid as database_oid, datname as database, pg_catalog.age(datfrozenxid) as frozen_age
  from pg_catalog.pg_database order by oid
""",
    ),
    SectionDefinition(
        name="tablespaces",
        kind=SectionKind.GAUGE,
        client="yes",
        columns=("tablespace_oid", "tablespace"),
        query="""
select oid as tablespace_oid, spcname as tablespace from pg_catalog.pg_tablespace order by oid
""",
    ),
    SectionDefinition(
        name="database",
        kind=SectionKind.COUNTER,
        client="yes",
        key=("datid",),
        gauges=("numbackends",),
        reset="stats_reset",
        of_parts=True,
        query="select * from pg_catalog.pg_stat_database",
    ),
    SectionDefinition(
        name="bgwriter",
        kind=SectionKind.COUNTER,
        client="yes",
        reset="stats_reset",
        query="select * from pg_catalog.pg_stat_bgwriter",
    ),
    SectionDefinition(
        name="checkpointer",
        kind=SectionKind.COUNTER,
        client="yes",
        major_min=17,
        reset="stats_reset",
        query="select * from pg_catalog.pg_stat_checkpointer",
    ),
    SectionDefinition(
        name="stat_wal",
        kind=SectionKind.COUNTER,
        client="yes",
        reset="stats_reset",
        query="select * from pg_catalog.pg_stat_wal",
    ),
    SectionDefinition(
        name="stat_io",
        kind=SectionKind.COUNTER,
        client="yes",
        major_min=16,
        key=("backend_type", "object", "context"),
        gauges=("op_bytes",),
        reset="stats_reset",
        query="select * from pg_catalog.pg_stat_io",
    ),
    SectionDefinition(
        name="stat_lock",
        kind=SectionKind.COUNTER,
        client="yes",
        major_min=19,
        key=("locktype",),
        reset="stats_reset",
        query="select * from pg_catalog.pg_stat_lock",
    ),
    SectionDefinition(
        name="stat_recovery",
        kind=SectionKind.GAUGE,
        client="yes",
        major_min=19,
        query="select * from pg_catalog.pg_stat_recovery",
    ),
    SectionDefinition(
        name="slru",
        kind=SectionKind.COUNTER,
        client="yes",
        key=("name",),
        reset="stats_reset",
        query="select * from pg_catalog.pg_stat_slru",
    ),
    SectionDefinition(
        name="archiver",
        kind=SectionKind.COUNTER,
        client="yes",
        reset="stats_reset",
        query="select * from pg_catalog.pg_stat_archiver",
    ),
    SectionDefinition(
        name="replication",
        kind=SectionKind.GAUGE,
        client="yes",
        columns=(
            "application_name",
            "client_address",
            "state",
            "sync_state",
            "send_bytes",
            "write_bytes",
            "flush_bytes",
            "replay_bytes",
            "write_lag_ms",
            "flush_lag_ms",
            "replay_lag_ms",
        ),
        every=True,
        query="""
select r.application_name, r.client_addr::text as client_address, r.state, r.sync_state,
       pg_catalog.pg_wal_lsn_diff(w.lsn, r.sent_lsn)::bigint as send_bytes,
       pg_catalog.pg_wal_lsn_diff(w.lsn, r.write_lsn)::bigint as write_bytes,
       pg_catalog.pg_wal_lsn_diff(w.lsn, r.flush_lsn)::bigint as flush_bytes,
       pg_catalog.pg_wal_lsn_diff(w.lsn, r.replay_lsn)::bigint as replay_bytes,
       (extract(epoch from r.write_lag) * 1000)::float8 as write_lag_ms,
       (extract(epoch from r.flush_lag) * 1000)::float8 as flush_lag_ms,
       (extract(epoch from r.replay_lag) * 1000)::float8 as replay_lag_ms
  from pg_catalog.pg_stat_replication r
 cross join (select case when pg_catalog.pg_is_in_recovery()
                         then pg_catalog.pg_last_wal_receive_lsn()
                         else pg_catalog.pg_current_wal_lsn() end as lsn) w
 order by 1, 2
""",
    ),
    SectionDefinition(
        name="replication_slots",
        kind=SectionKind.GAUGE,
        client="yes",
        columns=("slot", "slot_type", "database", "active", "wal_status", "retained_bytes"),
        every=True,
        query="""
select s.slot_name as slot, s.slot_type, s.database, s.active, s.wal_status,
       pg_catalog.pg_wal_lsn_diff(
         case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_receive_lsn()
              else pg_catalog.pg_current_wal_lsn() end, s.restart_lsn)::bigint as retained_bytes
  from pg_catalog.pg_replication_slots s order by 1
""",
    ),
    SectionDefinition(
        name="standby",
        kind=SectionKind.GAUGE,
        client="yes",
        columns=("status", "sender_host", "replay_bytes", "replay_age_ms"),
        every=True,
        query="""
select r.status, r.sender_host,
       pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_last_wal_receive_lsn(),
                                  pg_catalog.pg_last_wal_replay_lsn())::bigint as replay_bytes,
       (extract(epoch from pg_catalog.clock_timestamp()
                           - pg_catalog.pg_last_xact_replay_timestamp()) * 1000)::float8
         as replay_age_ms
  from (select pg_catalog.pg_is_in_recovery() as in_recovery) s
  left join pg_catalog.pg_stat_wal_receiver r on true
 where s.in_recovery
""",
    ),
    SectionDefinition(
        name="wal_position",
        kind=SectionKind.COUNTER,
        client="yes",
        columns=("wal_bytes",),
        falls=Falls.CLAMP,
        query="""
select pg_catalog.pg_wal_lsn_diff(
         case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
              else pg_catalog.pg_current_wal_lsn() end, '0/0')::bigint as wal_bytes
""",
    ),
    SectionDefinition(
        name="io",
        kind=SectionKind.COUNTER,
        about="exact counts and times of file calls",
        key=("backend_type", "file_class", "operation", "source"),
        gauges=("mean_ms",),
        falls=Falls.RESTART,
    ),
    SectionDefinition(
        name="io_histogram",
        kind=SectionKind.COUNTER,
        about="histograms of file calls",
        key=("backend_type", "file_class", "operation", "source", "lower_us"),
        gauges=("upper_us",),
        falls=Falls.RESTART,
        ends=True,
    ),
    SectionDefinition(
        name="io_tablespaces",
        kind=SectionKind.COUNTER,
        about="file calls by tablespace",
        key=("tablespace_oid",),
        falls=Falls.RESTART,
    ),
    SectionDefinition(
        name="wal",
        kind=SectionKind.COUNTER,
        about="exact counts and times of WAL writes",
        gauges=("write_mean_ms", "sync_mean_ms", "wal_records", "wal_fpi", "wal_bytes"),
        reset="stats_since",
        falls=Falls.RESTART,
    ),
    SectionDefinition(
        name="sampler",
        kind=SectionKind.COUNTER,
        about="sampled waits",
        gauges=(
            "running",
            "pid",
            "rate_hz",
            "oldest_at",
            "newest_at",
            "looks_kept",
            "records_kept",
            "ring_bytes",
        ),
        falls=Falls.CLAMP,
    ),
    SectionDefinition(
        name="backend_cpu",
        kind=SectionKind.COUNTER,
        about="the CPU time of sessions",
        key=("backend_type",),
        gauges=("processes",),
        falls=Falls.CLAMP,
    ),
    SectionDefinition(
        name="cache",
        kind=SectionKind.COUNTER,
        about="the flash cache",
        gauges=(
            "size_bytes",
            "size_max_bytes",
            "resize_progress",
            "slots",
            "used_slots",
            "used_bytes",
            "keep_blocks",
            "hit_ratio",
            "flash_write_bytes_day",
            "write_budget_left_bytes",
            "flash_read_mean_ms",
            "disk_read_mean_ms",
            "staging_blocks",
            "staging_used",
            "metadata_bytes",
            "metadata_huge_bytes",
            "metadata_bytes_per_block",
        ),
    ),
    SectionDefinition(
        name="cache_devices",
        kind=SectionKind.COUNTER,
        about="the flash cache",
        key=("cache_file",),
        gauges=("read_mean_ms", "write_mean_ms"),
    ),
    SectionDefinition(
        name="advice",
        kind=SectionKind.GAUGE,
        about="flash-cache advice",
    ),
    SectionDefinition(
        name="cache_relations",
        kind=SectionKind.GAUGE,
        about="the flash cache",
        columns=("database", "schema", "relation", "relkind", "fork", "cached_blocks", "policy"),
    ),
    SectionDefinition(
        name="host_cpu",
        kind=SectionKind.COUNTER,
        client="local",
        columns=(
            "user_s",
            "nice_s",
            "system_s",
            "idle_s",
            "iowait_s",
            "irq_s",
            "softirq_s",
            "steal_s",
        ),
        falls=Falls.CLAMP,
    ),
    SectionDefinition(
        name="host_memory",
        kind=SectionKind.COUNTER,
        client="local",
        columns=(
            "page_in_kb",
            "page_out_kb",
            "swap_in_pages",
            "swap_out_pages",
            "faults",
            "major_faults",
            "context_switches",
            "interrupts",
            "processes",
        ),
        falls=Falls.CLAMP,
    ),
    SectionDefinition(
        name="host_disks",
        kind=SectionKind.COUNTER,
        client="local",
        columns=(
            "disk",
            "reads",
            "reads_merged",
            "read_bytes",
            "read_time_ms",
            "writes",
            "writes_merged",
            "write_bytes",
            "write_time_ms",
            "io_time_ms",
            "weighted_time_ms",
            "discards",
            "discard_bytes",
            "flushes",
            "flush_time_ms",
        ),
        key=("disk",),
        wraps=(
            "read_time_ms",
            "write_time_ms",
            "io_time_ms",
            "weighted_time_ms",
            "flush_time_ms",
        ),
    ),
    SectionDefinition(
        name="host_state",
        kind=SectionKind.GAUGE,
        client="local",
        columns=(
            "running",
            "blocked",
            "load_1",
            "load_5",
            "load_15",
            "memory_bytes",
            "free_bytes",
            "available_bytes",
            "buffers_bytes",
            "cached_bytes",
            "swap_bytes",
            "swap_free_bytes",
        ),
        every=True,
    ),
    SectionDefinition(
        name="statements",
        kind=SectionKind.DELTA,
        client="yes",
        columns=("database_oid", "user_oid", "query_id", "toplevel"),
        key=("database_oid", "user_oid", "query_id", "toplevel"),
        query="select * from {schema}pg_stat_statements(false)",
        counts=(
            DeltaCount(name="calls", sources=("calls",), ranked=True),
            DeltaCount(name="rows", sources=("rows",)),
            DeltaCount(name="plan_time_ms", sources=("total_plan_time",)),
            DeltaCount(name="exec_time_ms", sources=("total_exec_time",), ranked=True),
            DeltaCount(name="shared_blocks_hit", sources=("shared_blks_hit",), ranked=True),
            DeltaCount(name="shared_blocks_read", sources=("shared_blks_read",), ranked=True),
            DeltaCount(name="shared_blocks_dirtied", sources=("shared_blks_dirtied",)),
            DeltaCount(name="shared_blocks_written", sources=("shared_blks_written",)),
            DeltaCount(name="temp_blocks_read", sources=("temp_blks_read",)),
            DeltaCount(name="temp_blocks_written", sources=("temp_blks_written",), ranked=True),
            DeltaCount(name="read_time_ms", sources=("shared_blk_read_time", "blk_read_time")),
            DeltaCount(name="write_time_ms", sources=("shared_blk_write_time", "blk_write_time")),
            DeltaCount(name="wal_records", sources=("wal_records",)),
            DeltaCount(name="wal_fpi", sources=("wal_fpi",)),
            DeltaCount(name="wal_bytes", sources=("wal_bytes",), ranked=True),
        ),
        read_key=("dbid", "userid", "queryid", "toplevel"),
        birth="stats_since",
        limit=120,
        text_max=32000,
    ),
    SectionDefinition(
        name="statement_reads",
        kind=SectionKind.DELTA,
        about="what statements took from where",
        columns=("database_oid", "user_oid", "query_id"),
        key=("database_oid", "user_oid", "query_id"),
    ),
    SectionDefinition(
        name="relations",
        kind=SectionKind.DELTA,
        client="yes",
        columns=("database", "schema", "relation", "relkind", "fork", "tablespace"),
        key=("database", "schema", "relation", "relkind", "fork"),
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
        counts=(
            DeltaCount(name="blocks_read", sources=("blocks_read",), ranked=True),
            DeltaCount(name="blocks_hit", sources=("blocks_hit",), ranked=True),
        ),
        read_key=("oid",),
        limit=200,
    ),
    SectionDefinition(
        name="relation_stats",
        kind=SectionKind.DELTA,
        client="yes",
        columns=("database", "schema", "relation", "relkind"),
        key=("database", "schema", "relation", "relkind"),
        query="""
select c.oid, pg_catalog.current_database() as database, n.nspname as schema, c.relname as relation,
       c.relkind::text as relkind,
       pg_catalog.pg_stat_get_blocks_fetched(c.oid) as blocks_looked_up,
       pg_catalog.pg_stat_get_blocks_hit(c.oid) as blocks_hit,
       case when c.relkind <> 'i' then pg_catalog.pg_stat_get_numscans(c.oid) end as seq_scans,
       case when c.relkind <> 'i' then pg_catalog.pg_stat_get_tuples_returned(c.oid) end
         as seq_rows,
       case when c.relkind = 'i' then pg_catalog.pg_stat_get_numscans(c.oid) end as index_scans,
-- since 18: pg_catalog.pg_stat_get_total_vacuum_time(c.oid) as vacuum_time_ms,
-- since 18: pg_catalog.pg_stat_get_total_autovacuum_time(c.oid) as autovacuum_time_ms,
       pg_catalog.pg_stat_get_tuples_inserted(c.oid) as rows_inserted,
       pg_catalog.pg_stat_get_tuples_updated(c.oid) as rows_updated,
       pg_catalog.pg_stat_get_tuples_hot_updated(c.oid) as rows_hot_updated,
       pg_catalog.pg_stat_get_tuples_deleted(c.oid) as rows_deleted,
       pg_catalog.pg_stat_get_vacuum_count(c.oid) as vacuums,
       pg_catalog.pg_stat_get_autovacuum_count(c.oid) as autovacuums,
       pg_catalog.pg_stat_get_analyze_count(c.oid) as analyzes,
       pg_catalog.pg_stat_get_autoanalyze_count(c.oid) as autoanalyzes
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'i', 't', 'm') and pg_catalog.pg_stat_get_blocks_fetched(c.oid) > 0
""",
        counts=(
            DeltaCount(name="blocks_looked_up", sources=("blocks_looked_up",), ranked=True),
            DeltaCount(name="blocks_hit", sources=("blocks_hit",)),
            DeltaCount(name="seq_scans", sources=("seq_scans",)),
            DeltaCount(name="seq_rows", sources=("seq_rows",), ranked=True),
            DeltaCount(name="index_scans", sources=("index_scans",)),
            DeltaCount(name="rows_inserted", sources=("rows_inserted",), ranked=True),
            DeltaCount(name="rows_updated", sources=("rows_updated",), ranked=True),
            DeltaCount(name="rows_hot_updated", sources=("rows_hot_updated",)),
            DeltaCount(name="rows_deleted", sources=("rows_deleted",), ranked=True),
            DeltaCount(name="vacuums", sources=("vacuums",), ranked=True),
            DeltaCount(name="autovacuums", sources=("autovacuums",), ranked=True),
            DeltaCount(name="analyzes", sources=("analyzes",)),
            DeltaCount(name="autoanalyzes", sources=("autoanalyzes",)),
            DeltaCount(name="vacuum_time_ms", sources=("vacuum_time_ms",)),
            DeltaCount(name="autovacuum_time_ms", sources=("autovacuum_time_ms",)),
        ),
        read_key=("oid",),
        limit=100,
    ),
    SectionDefinition(
        name="dead_rows",
        kind=SectionKind.GAUGE,
        client="yes",
        columns=(
            "database",
            "schema",
            "relation",
            "live_rows",
            "dead_rows",
            "last_vacuum",
            "last_autovacuum",
            "frozen_age",
        ),
        query="""
select pg_catalog.current_database() as database, n.nspname as schema, c.relname as relation,
       pg_catalog.pg_stat_get_live_tuples(c.oid) as live_rows,
       pg_catalog.pg_stat_get_dead_tuples(c.oid) as dead_rows,
       pg_catalog.pg_stat_get_last_vacuum_time(c.oid) as last_vacuum,
       pg_catalog.pg_stat_get_last_autovacuum_time(c.oid) as last_autovacuum,
       pg_catalog.age(c.relfrozenxid) as frozen_age
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'm') and pg_catalog.pg_stat_get_dead_tuples(c.oid) > 0
 order by 5 desc, 2, 3 limit 50
""",
    ),
    SectionDefinition(
        name="lock_waits",
        kind=SectionKind.COUNTER,
        about="locks by object",
        columns=(
            "database_oid",
            "database",
            "relation_oid",
            "schema",
            "relation",
            "lock_type",
            "lock_mode",
            "samples",
            "seconds",
        ),
        key=("database_oid", "relation_oid", "lock_type", "lock_mode"),
        falls=Falls.RESTART,
    ),
    SectionDefinition(
        name="samples",
        kind=SectionKind.DELTA,
        about="sampled waits",
        columns=(
            "bucket",
            "backend_type",
            "database_oid",
            "user_oid",
            "query_id",
            "wait_event_type",
            "wait_event",
            "wait_class",
            "samples",
            "seconds",
        ),
        key=(
            "bucket",
            "backend_type",
            "database_oid",
            "user_oid",
            "query_id",
            "wait_event_type",
            "wait_event",
            "wait_class",
        ),
    ),
    SectionDefinition(
        name="sample_looks",
        kind=SectionKind.DELTA,
        about="sampled waits",
        columns=("bucket", "looks", "missed", "seconds", "gap_seconds", "idle_sessions"),
        key=("bucket",),
    ),
    SectionDefinition(
        name="missing",
        kind=SectionKind.GAUGE,
        client="yes",
        columns=("section", "reason"),
    ),
)

SECTIONS: Mapping[str, SectionDefinition] = {one.name: one for one in _DEFINITIONS}
