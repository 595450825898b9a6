-- pgflash 0.1 as it was last, without its comments: for tests of the update from it.
-- SPDX-License-Identifier: PostgreSQL

\echo Use "CREATE EXTENSION pgflash" to load this file. \quit

-- ---- pgflash_cache: one row ------------------------------------------------

CREATE FUNCTION pgflash_cache_row(
	OUT mode text,
	OUT mode_reason text,
	OUT start_reason text,
	OUT cache_file text,
	OUT direct_io boolean,
	OUT io_engine text,
	OUT size_bytes bigint,
	OUT size_max_bytes bigint,
	OUT resize_progress double precision,
	OUT slots bigint,
	OUT used_slots bigint,
	OUT used_bytes bigint,
	OUT keep_blocks bigint,
	OUT hits bigint,
	OUT staged_hits bigint,
	OUT misses bigint,
	OUT hit_ratio double precision,
	OUT page_cache_reads bigint,
	OUT inserts bigint,
	OUT eviction_invalidated bigint,
	OUT eviction_aged_out bigint,
	OUT eviction_buffer_pinned bigint,
	OUT insert_skip_not_current bigint,
	OUT insert_skip_writer_overloaded bigint,
	OUT insert_skip_exists bigint,
	OUT insert_skip_not_useful bigint,
	OUT insert_skip_modification bigint,
	OUT insert_skip_corrupt bigint,
	OUT insert_skip_budget bigint,
	OUT insert_skip_device bigint,
	OUT insert_skip_invalid bigint,
	OUT bypass_reads bigint,
	OUT updates bigint,
	OUT coalesced_updates bigint,
	OUT invalidations bigint,
	OUT prefetches_swallowed bigint,
	OUT flash_reads bigint,
	OUT flash_read_bytes bigint,
	OUT flash_writes bigint,
	OUT flash_write_bytes bigint,
	OUT flash_write_bytes_day bigint,
	OUT write_budget_left_bytes bigint,
	OUT flash_read_errors bigint,
	OUT read_timeouts bigint,
	OUT flash_write_errors bigint,
	OUT corrupt_slots bigint,
	OUT disk_reads bigint,
	OUT disk_read_bytes bigint,
	OUT verify_compared bigint,
	OUT verify_mismatches bigint,
	OUT moved_blocks bigint,
	OUT takeovers bigint,
	OUT file_displacements bigint,
	OUT file_shortages bigint,
	OUT clears bigint,
	OUT files_kept bigint,
	OUT files_dropped bigint,
	OUT flash_read_mean_ms double precision,
	OUT disk_read_mean_ms double precision,
	OUT flash_read_histogram bigint[],
	OUT disk_read_histogram bigint[],
	OUT staging_blocks bigint,
	OUT staging_used bigint,
	OUT writer_running boolean,
	OUT metadata_bytes bigint,
	OUT metadata_bytes_per_block double precision
)
AS 'MODULE_PATHNAME', 'pgflash_cache_row'
LANGUAGE C VOLATILE PARALLEL SAFE;

CREATE VIEW pgflash_cache AS SELECT * FROM pgflash_cache_row();

-- ---- pgflash_cache_devices: one row for each cache file ---------------------

CREATE FUNCTION pgflash_cache_devices_rows(
	OUT cache_file text,
	OUT state text,
	OUT state_reason text,
	OUT direct_io boolean,
	OUT reads bigint,
	OUT writes bigint,
	OUT read_bytes bigint,
	OUT write_bytes bigint,
	OUT read_mean_ms double precision,
	OUT write_mean_ms double precision,
	OUT read_errors bigint,
	OUT write_errors bigint,
	OUT read_timeouts bigint,
	OUT corrupt_slots bigint,
	OUT bypassed_reads bigint
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_cache_devices_rows'
LANGUAGE C VOLATILE PARALLEL SAFE ROWS 1;

CREATE VIEW pgflash_cache_devices AS SELECT * FROM pgflash_cache_devices_rows();

-- ---- pgflash_relations: one row for each relation fork the cache has met -----

CREATE FUNCTION pgflash_relations_rows(
	OUT relation regclass,
	OUT fork text,
	OUT tablespace oid,
	OUT filenode oid,
	OUT cached_blocks bigint,
	OUT hits bigint,
	OUT misses bigint,
	OUT disk_read_time_ms double precision,
	OUT policy text
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_relations_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- A relation's fork is as many files as it has gigabytes.
CREATE VIEW pgflash_relations AS
SELECT
	relation,
	fork,
	tablespace,
	filenode,
	sum(cached_blocks)::bigint AS cached_blocks,
	sum(hits)::bigint AS hits,
	sum(misses)::bigint AS misses,
	sum(disk_read_time_ms) AS disk_read_time_ms,
	min(policy) AS policy
FROM pgflash_relations_rows()
GROUP BY relation, fork, tablespace, filenode;

-- ---- pgflash_cache_policy: keep, none, default -----------------------------------

-- The relation's OID, which follows its renames; a dump holds its name.
CREATE TYPE pgflash_relation_name;

CREATE FUNCTION pgflash_relation_name_in(cstring) RETURNS pgflash_relation_name
AS 'MODULE_PATHNAME', 'pgflash_relation_name_in'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION pgflash_relation_name_out(pgflash_relation_name) RETURNS cstring
AS 'MODULE_PATHNAME', 'pgflash_relation_name_out'
LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE TYPE pgflash_relation_name (
	INPUT = pgflash_relation_name_in,
	OUTPUT = pgflash_relation_name_out,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = plain
);

CREATE TABLE pgflash_cache_policies (
	relation pgflash_relation_name NOT NULL,
	policy text NOT NULL CHECK (policy IN ('keep', 'none', 'default'))
) USING heap;

SELECT pg_catalog.pg_extension_config_dump('pgflash_cache_policies', '');

CREATE FUNCTION pgflash_cache_policy_rows(
	OUT relation regclass,
	OUT name text,
	OUT policy text,
	OUT set_on regclass
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_cache_policy_rows'
LANGUAGE C STABLE PARALLEL RESTRICTED;

CREATE VIEW pgflash_cache_policy AS SELECT * FROM pgflash_cache_policy_rows();

CREATE FUNCTION pgflash_set_cache_policy(relation regclass, policy text) RETURNS void
AS 'MODULE_PATHNAME', 'pgflash_set_cache_policy'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- ---- pgflash_cache_advice: one row for each size -----------------------------

CREATE FUNCTION pgflash_cache_advice_rows(
	OUT size_factor double precision,
	OUT size_of text,
	OUT size_bytes bigint,
	OUT hit_ratio double precision,
	OUT disk_reads_per_s double precision,
	OUT disk_reads_factor double precision,
	OUT saved_ms_per_s double precision,
	OUT requests_per_s double precision,
	OUT disk_read_mean_ms double precision,
	OUT flash_read_mean_ms double precision,
	OUT flash_read_mean_from text,
	OUT window_s double precision,
	OUT sample_rate double precision,
	OUT sampled_blocks bigint
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_cache_advice_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 8;

CREATE VIEW pgflash_cache_advice AS SELECT * FROM pgflash_cache_advice_rows();

-- ---- pgflash_io and its kin: exact accounting of file calls --------------------

CREATE FUNCTION pgflash_io_rows(
	OUT backend_type text,
	OUT file_class text,
	OUT operation text,
	OUT source text,
	OUT calls bigint,
	OUT bytes bigint,
	OUT time_ms double precision,
	OUT told_calls bigint,
	OUT worker_calls bigint,
	OUT worker_time_ms double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_io_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 40;

CREATE VIEW pgflash_io AS
SELECT
	backend_type,
	file_class,
	operation,
	source,
	calls,
	bytes,
	time_ms,
	time_ms / calls AS mean_ms,
	told_calls,
	worker_calls,
	worker_time_ms
FROM pgflash_io_rows();

CREATE FUNCTION pgflash_io_histogram_rows(
	OUT backend_type text,
	OUT file_class text,
	OUT operation text,
	OUT source text,
	OUT lower_us double precision,
	OUT upper_us double precision,
	OUT calls bigint
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_io_histogram_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 400;

CREATE VIEW pgflash_io_histogram AS SELECT * FROM pgflash_io_histogram_rows();

-- Nothing is looked up here: fast, and for whoever takes snapshots.
CREATE FUNCTION pgflash_io_relation_rows(
	OUT tablespace_oid oid,
	OUT database_oid oid,
	OUT relfilenumber oid,
	OUT fork text,
	OUT file_gone boolean,
	OUT reads bigint,
	OUT read_bytes bigint,
	OUT read_time_ms double precision,
	OUT disk_reads bigint,
	OUT disk_read_time_ms double precision,
	OUT page_cache_reads bigint,
	OUT page_cache_read_time_ms double precision,
	OUT flash_reads bigint,
	OUT flash_read_time_ms double precision,
	OUT writes bigint,
	OUT write_bytes bigint,
	OUT write_time_ms double precision,
	OUT extends bigint,
	OUT extend_bytes bigint,
	OUT extend_time_ms double precision,
	OUT syncs bigint,
	OUT sync_time_ms double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_io_relation_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1000;

-- For who looks again and again.
CREATE FUNCTION pgflash_io_relation_changes(
	IN since bigint,
	OUT mark bigint,
	OUT place integer,
	OUT tablespace_oid oid,
	OUT database_oid oid,
	OUT relfilenumber oid,
	OUT fork text,
	OUT file_gone boolean,
	OUT reads bigint,
	OUT read_bytes bigint,
	OUT read_time_ms double precision,
	OUT disk_reads bigint,
	OUT disk_read_time_ms double precision,
	OUT page_cache_reads bigint,
	OUT page_cache_read_time_ms double precision,
	OUT flash_reads bigint,
	OUT flash_read_time_ms double precision,
	OUT writes bigint,
	OUT write_bytes bigint,
	OUT write_time_ms double precision,
	OUT extends bigint,
	OUT extend_bytes bigint,
	OUT extend_time_ms double precision,
	OUT syncs bigint,
	OUT sync_time_ms double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_io_relation_changes'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1000;

CREATE VIEW pgflash_io_relations AS
SELECT
	r.tablespace_oid,
	r.database_oid,
	r.relfilenumber,
	r.fork,
	CASE WHEN r.relfilenumber IS NULL THEN 'other' ELSE c.oid::regclass::text END AS relation,
	r.reads,
	r.read_bytes,
	r.read_time_ms,
	r.disk_reads,
	r.disk_read_time_ms,
	r.page_cache_reads,
	r.page_cache_read_time_ms,
	r.flash_reads,
	r.flash_read_time_ms,
	r.writes,
	r.write_bytes,
	r.write_time_ms,
	r.extends,
	r.extend_bytes,
	r.extend_time_ms,
	r.syncs,
	r.sync_time_ms
FROM pgflash_io_relation_rows() r
LEFT JOIN pg_database d ON d.datname = current_database()
LEFT JOIN pg_class c
	ON pg_relation_filenode(c.oid) = r.relfilenumber
	AND coalesce(nullif(c.reltablespace, 0), d.dattablespace) = r.tablespace_oid
	AND CASE WHEN c.relisshared THEN 0 ELSE d.oid END = r.database_oid;

CREATE FUNCTION pgflash_io_tablespace_rows(
	OUT tablespace_oid oid,
	OUT reads bigint,
	OUT read_bytes bigint,
	OUT read_time_ms double precision,
	OUT disk_reads bigint,
	OUT disk_read_time_ms double precision,
	OUT page_cache_reads bigint,
	OUT page_cache_read_time_ms double precision,
	OUT flash_reads bigint,
	OUT flash_read_time_ms double precision,
	OUT writes bigint,
	OUT write_bytes bigint,
	OUT write_time_ms double precision,
	OUT extends bigint,
	OUT extend_bytes bigint,
	OUT extend_time_ms double precision,
	OUT syncs bigint,
	OUT sync_time_ms double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_io_tablespace_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 4;

CREATE VIEW pgflash_io_tablespaces AS
SELECT
	r.tablespace_oid,
	t.spcname AS tablespace,
	r.reads,
	r.read_bytes,
	r.read_time_ms,
	r.disk_reads,
	r.disk_read_time_ms,
	r.page_cache_reads,
	r.page_cache_read_time_ms,
	r.flash_reads,
	r.flash_read_time_ms,
	r.writes,
	r.write_bytes,
	r.write_time_ms,
	r.extends,
	r.extend_bytes,
	r.extend_time_ms,
	r.syncs,
	r.sync_time_ms
FROM pgflash_io_tablespace_rows() r
LEFT JOIN pg_tablespace t ON t.oid = r.tablespace_oid;

CREATE FUNCTION pgflash_wal_row(
	OUT writes bigint,
	OUT write_bytes bigint,
	OUT write_time_ms double precision,
	OUT syncs bigint,
	OUT sync_time_ms double precision,
	OUT wastage_bytes bigint,
	OUT stats_since timestamptz
)
AS 'MODULE_PATHNAME', 'pgflash_wal_row'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE VIEW pgflash_wal AS
SELECT
	r.writes,
	r.write_bytes,
	r.write_time_ms,
	r.write_time_ms / nullif(r.writes, 0) AS write_mean_ms,
	r.syncs,
	r.sync_time_ms,
	r.sync_time_ms / nullif(r.syncs, 0) AS sync_mean_ms,
	w.wal_records,
	w.wal_fpi,
	w.wal_bytes,
	r.wastage_bytes,
	r.stats_since
FROM pgflash_wal_row() r, pg_stat_wal w;

-- ---- snapshots ------------------------------------------------------------------

CREATE TABLE pgflash_snapshots (
	snapshot_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	taken_at timestamptz NOT NULL,
	started_at timestamptz NOT NULL,
	previous_id bigint,
	took_ms real NOT NULL,
	origin text NOT NULL,
	server_version_num integer NOT NULL,
	extension_version text NOT NULL
) USING heap;

CREATE TABLE pgflash_snapshot_sections (
	snapshot_id bigint NOT NULL REFERENCES pgflash_snapshots ON DELETE CASCADE,
	section text NOT NULL,
	kind text NOT NULL CHECK (kind IN ('counter', 'gauge', 'delta')),
	content jsonb NOT NULL,
	PRIMARY KEY (snapshot_id, section)
) USING heap WITH (toast_tuple_target = 256);

CREATE TABLE pgflash_snapshot_queries (
	query_id bigint PRIMARY KEY,
	query text NOT NULL,
	used_at timestamptz NOT NULL DEFAULT now()
) USING heap;

-- What the next snapshot subtracts from; a crash empties it, and the counters with it.
CREATE UNLOGGED TABLE pgflash_snapshot_last (
	section text PRIMARY KEY,
	snapshot_id bigint NOT NULL,
	content bytea NOT NULL
) USING heap;
ALTER TABLE pgflash_snapshot_last ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE FUNCTION pgflash_snapshot() RETURNS bigint
AS 'MODULE_PATHNAME', 'pgflash_snapshot'
LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER;

CREATE FUNCTION pgflash_snapshot_drop(before timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
BEGIN ATOMIC
	DELETE FROM pgflash_snapshot_queries WHERE used_at < before - interval '1 day';
	WITH dropped AS (DELETE FROM pgflash_snapshots WHERE taken_at < before RETURNING snapshot_id)
	SELECT count(*) FROM dropped;
END;

-- ---- the sampler ----------------------------------------------------------------

CREATE FUNCTION pgflash_active_sessions_rows(
	since timestamptz,
	until timestamptz,
	OUT sample_id bigint,
	OUT sampled_at timestamptz,
	OUT seconds double precision,
	OUT pid integer,
	OUT leader_pid integer,
	OUT backend_type text,
	OUT database_oid oid,
	OUT user_oid oid,
	OUT query_id bigint,
	OUT query_start timestamptz,
	OUT state text,
	OUT wait_event_type text,
	OUT wait_event text,
	OUT wait_class text
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_active_sessions_rows'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE VIEW pgflash_active_sessions AS SELECT * FROM pgflash_active_sessions_rows('-infinity', 'infinity');

CREATE FUNCTION pgflash_sample_summary(
	since timestamptz,
	until timestamptz,
	OUT bucket timestamptz,
	OUT backend_type text,
	OUT database_oid oid,
	OUT user_oid oid,
	OUT query_id bigint,
	OUT state text,
	OUT wait_event_type text,
	OUT wait_event text,
	OUT wait_class text,
	OUT samples bigint,
	OUT seconds double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_sample_summary'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION pgflash_sample_minutes(
	since timestamptz,
	until timestamptz,
	OUT bucket timestamptz,
	OUT looks bigint,
	OUT seconds double precision,
	OUT gap_seconds double precision,
	OUT missed_looks bigint,
	OUT idle_sessions double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_sample_minutes'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION pgflash_sampler_row(
	OUT running boolean,
	OUT pid integer,
	OUT rate_hz integer,
	OUT looks bigint,
	OUT missed_looks bigint,
	OUT gap_seconds double precision,
	OUT oldest_at timestamptz,
	OUT newest_at timestamptz,
	OUT looks_kept bigint,
	OUT records_kept bigint,
	OUT ring_bytes bigint,
	OUT cpu_seconds double precision,
	OUT cpu_user_s double precision,
	OUT cpu_system_s double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_sampler_row'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 1;

CREATE VIEW pgflash_sampler AS SELECT * FROM pgflash_sampler_row();

CREATE FUNCTION pgflash_backend_cpu_rows(
	OUT backend_type text,
	OUT processes bigint,
	OUT cpu_user_s double precision,
	OUT cpu_system_s double precision,
	OUT cpu_seconds double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_backend_cpu_rows'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 16;

CREATE VIEW pgflash_backend_cpu AS SELECT * FROM pgflash_backend_cpu_rows();

-- ---- wait events ------------------------------------------------------------------

CREATE FUNCTION pgflash_wait_class(backend_type text, wait_event_type text, wait_event text) RETURNS text
AS 'MODULE_PATHNAME', 'pgflash_wait_class'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION pgflash_wait_events_rows(
	OUT wait_event_type text,
	OUT wait_event text,
	OUT wait_class text
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_wait_events_rows'
LANGUAGE C STABLE STRICT PARALLEL SAFE ROWS 250;

CREATE VIEW pgflash_wait_events AS SELECT * FROM pgflash_wait_events_rows();

-- ---- functions ----------------------------------------------------------------

CREATE FUNCTION pgflash_cache_set_mode(mode text) RETURNS void
AS 'MODULE_PATHNAME', 'pgflash_cache_set_mode'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE FUNCTION pgflash_cache_clear() RETURNS void
AS 'MODULE_PATHNAME', 'pgflash_cache_clear'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE FUNCTION pgflash_cache_verify(OUT compared bigint, OUT mismatched bigint)
AS 'MODULE_PATHNAME', 'pgflash_cache_verify'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE FUNCTION pgflash_drive_writes_per_day(capacity_bytes bigint) RETURNS double precision
AS 'MODULE_PATHNAME', 'pgflash_drive_writes_per_day'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

-- ---- rights -------------------------------------------------------------------

REVOKE ALL ON FUNCTION pgflash_cache_row() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_devices_rows() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_relations_rows() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_advice_rows() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_drive_writes_per_day(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_set_mode(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_clear() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_verify() FROM PUBLIC;
REVOKE ALL ON pgflash_cache, pgflash_cache_devices, pgflash_relations FROM PUBLIC;
REVOKE ALL ON pgflash_cache_advice FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_io_rows(), pgflash_io_histogram_rows() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_io_relation_rows(), pgflash_io_tablespace_rows() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_io_relation_changes(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_wal_row() FROM PUBLIC;
REVOKE ALL ON pgflash_io, pgflash_io_histogram, pgflash_io_relations FROM PUBLIC;
REVOKE ALL ON pgflash_io_tablespaces, pgflash_wal FROM PUBLIC;

-- pg_dump reads the table with the rights of whoever runs it.
GRANT SELECT ON pgflash_cache_policies, pgflash_cache_policy TO PUBLIC;

GRANT EXECUTE ON FUNCTION pgflash_cache_row() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_cache_devices_rows() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_relations_rows() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_cache_advice_rows() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_drive_writes_per_day(bigint) TO pg_monitor;
GRANT SELECT ON pgflash_cache_advice TO pg_monitor;
GRANT SELECT ON pgflash_cache, pgflash_cache_devices, pgflash_relations TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_io_rows(), pgflash_io_histogram_rows() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_io_relation_rows(), pgflash_io_tablespace_rows() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_io_relation_changes(bigint) TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_wal_row() TO pg_monitor;
GRANT SELECT ON pgflash_io, pgflash_io_histogram, pgflash_io_relations TO pg_monitor;
GRANT SELECT ON pgflash_io_tablespaces, pgflash_wal TO pg_monitor;

REVOKE ALL ON pgflash_snapshots, pgflash_snapshot_sections, pgflash_snapshot_queries, pgflash_snapshot_last FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_snapshot() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_snapshot_drop(timestamptz) FROM PUBLIC;
GRANT SELECT ON pgflash_snapshots, pgflash_snapshot_sections, pgflash_snapshot_queries TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_snapshot() TO pg_monitor;

-- Everybody sees his own sessions, as in pg_stat_activity.
GRANT SELECT ON pgflash_active_sessions, pgflash_wait_events TO PUBLIC;

REVOKE ALL ON FUNCTION pgflash_sample_summary(timestamptz, timestamptz) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_sample_minutes(timestamptz, timestamptz) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_sampler_row() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_backend_cpu_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_sampler, pgflash_backend_cpu FROM PUBLIC;

GRANT EXECUTE ON FUNCTION pgflash_sample_summary(timestamptz, timestamptz) TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_sample_minutes(timestamptz, timestamptz) TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_sampler_row() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_backend_cpu_rows() TO pg_monitor;
GRANT SELECT ON pgflash_sampler, pgflash_backend_cpu TO pg_monitor;
