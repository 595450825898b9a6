-- pgflash's functions that are not behind a view, and the rights on tables.
-- SPDX-License-Identifier: PostgreSQL
--
-- An update drops and makes all of this and of views.sql.
--
-- Whoever owns the schema may have put functions and operators there before.  They are
-- looked up when the script runs, and a better match than PostgreSQL's own would stay in the
-- views, to be run by each superuser who reads them.  So nothing here is left to be
-- found: every function and operator is called by its schema, with arguments of exactly its
-- types.  tools/tidy.py and tests/hostile check that.

-- ---- cache policies ----------------------------------------------------------

COMMENT ON TYPE pgflash_relation_name IS
	'A relation by its OID, as text by its qualified name; in a dump it may be named before it is made.';
COMMENT ON FUNCTION pgflash_relation_name_in(cstring) IS 'I/O';
COMMENT ON FUNCTION pgflash_relation_name_out(pgflash_relation_name) IS 'I/O';

CREATE FUNCTION pgflash_set_cache_policy(relation regclass, policy text) RETURNS void
AS 'MODULE_PATHNAME', 'pgflash_set_cache_policy'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- ---- the cache -----------------------------------------------------------------

CREATE FUNCTION pgflash_cache_set_mode(mode text) RETURNS void
AS 'MODULE_PATHNAME', 'pgflash_cache_set_mode'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE FUNCTION pgflash_cache_clear() RETURNS void
AS 'MODULE_PATHNAME', 'pgflash_cache_clear'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE FUNCTION pgflash_drive_writes_per_day(capacity_bytes bigint) RETURNS double precision
AS 'MODULE_PATHNAME', 'pgflash_drive_writes_per_day'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

-- ---- snapshots -----------------------------------------------------------------

CREATE FUNCTION pgflash_snapshot() RETURNS bigint
AS 'MODULE_PATHNAME', 'pgflash_snapshot'
LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER;

CREATE FUNCTION pgflash_snapshot_drop(before timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
BEGIN ATOMIC
	DELETE FROM pgflash_snapshot_queries
		WHERE used_at OPERATOR(pg_catalog.<) (before OPERATOR(pg_catalog.-) interval '1 day');
	-- Not left to the foreign key alone, which does nothing where triggers do not fire.
	DELETE FROM pgflash_snapshot_sections s USING pgflash_snapshots h
		WHERE h.snapshot_id OPERATOR(pg_catalog.=) s.snapshot_id AND h.taken_at OPERATOR(pg_catalog.<) before;
	WITH dropped AS (
		DELETE FROM pgflash_snapshots WHERE taken_at OPERATOR(pg_catalog.<) before RETURNING snapshot_id
	)
	SELECT pg_catalog.count(*) FROM dropped;
END;

-- ---- wait events ---------------------------------------------------------------

CREATE FUNCTION pgflash_wait_class(backend_type text, wait_event_type text, wait_event text) RETURNS text
AS 'MODULE_PATHNAME', 'pgflash_wait_class'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- ---- comments ----------------------------------------------------------------

-- BEGIN generated: comments
COMMENT ON FUNCTION pgflash_set_cache_policy(regclass, text) IS
	'Sets the cache policy of a table, index or materialized view: keep, none or default. Null removes it.';
COMMENT ON FUNCTION pgflash_cache_set_mode(text) IS
	'Changes the mode of the cache for all sessions at once: serve, passthrough or offline. Offline lasts until the server restarts.';
COMMENT ON FUNCTION pgflash_cache_clear() IS
	'Drops every block from the cache.';
COMMENT ON FUNCTION pgflash_drive_writes_per_day(bigint) IS
	'Drive writes per day: how many times a day flash of this capacity (all cache files'' drives together) is written in full, judged by the last 24 hours or the time since the cache files were created; null before anything is known.';
COMMENT ON FUNCTION pgflash_snapshot() IS
	'Takes a snapshot and returns its number. Resets nothing. Waits for a snapshot in progress.';
COMMENT ON FUNCTION pgflash_snapshot_drop(timestamptz) IS
	'Drops the snapshots taken before this time, and returns their number.';
COMMENT ON FUNCTION pgflash_wait_class(text, text, text) IS
	'The wait class of a wait event of a process of this type; null for a type is a client backend, null for an event none.';
-- END generated: comments

-- ---- rights --------------------------------------------------------------------

REVOKE ALL ON FUNCTION pgflash_cache_set_mode(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_clear() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_drive_writes_per_day(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_drive_writes_per_day(bigint) TO pg_monitor;

-- pg_dump reads the table with the rights of whoever runs it.
GRANT SELECT ON pgflash_cache_policies TO PUBLIC;

REVOKE ALL ON pgflash_snapshots, pgflash_snapshot_sections, pgflash_snapshot_queries, pgflash_snapshot_last FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_snapshot() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_snapshot_drop(timestamptz) FROM PUBLIC;
GRANT SELECT ON pgflash_snapshots, pgflash_snapshot_sections, pgflash_snapshot_queries TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_snapshot() TO pg_monitor;
