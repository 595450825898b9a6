-- pgflash's functions that are not behind a view, and the rights on tables.
-- SPDX-License-Identifier: PostgreSQL
--
-- An update drops and makes all of this and of views.sql.
--
-- The owner of the schema may have put functions and operators there before.  They are
-- looked up when the script runs, and a better match than PostgreSQL's own would stay in the
-- views, to be run by each superuser who reads them.  So nothing here is left to be
-- found: every function and operator is called by its schema, with arguments of exactly its
-- types.  tools/tidy.py and tests/hostile check that.

-- ---- cache policies ----------------------------------------------------------

COMMENT ON TYPE pgflash_relation_name IS
	'A relation by its OID, as text by its qualified name; in a dump it may be named before it is made.';
COMMENT ON FUNCTION pgflash_relation_name_in(cstring) IS 'I/O';
COMMENT ON FUNCTION pgflash_relation_name_out(pgflash_relation_name) IS 'I/O';

COMMENT ON FUNCTION pgflash_ignore_replicated() IS
	'Trigger of the extension''s tables: ignores rows that logical replication brings from another server.';

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

CREATE FUNCTION pgflash_cache_load(relation regclass, indexes boolean DEFAULT true) RETURNS bigint
AS 'MODULE_PATHNAME', 'pgflash_cache_load'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE FUNCTION pgflash_cache_load_list(list record[], taken_at timestamptz DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'pgflash_cache_load_list'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION pgflash_cache_load_cancel(relation regclass DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'pgflash_cache_load_cancel'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

CREATE FUNCTION pgflash_drive_writes_per_day(capacity_bytes bigint) RETURNS double precision
AS 'MODULE_PATHNAME', 'pgflash_drive_writes_per_day'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

-- ---- snapshots -----------------------------------------------------------------

CREATE FUNCTION pgflash_snapshot() RETURNS bigint
AS 'MODULE_PATHNAME', 'pgflash_snapshot'
LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER;

-- What writes the tables writes them as the extension's owner, with others' triggers off: they
-- would run with the rights of the caller.  So nothing is left to foreign keys, which are triggers.
CREATE FUNCTION pgflash_snapshot_drop(before timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET session_replication_role = replica
BEGIN ATOMIC
	-- A baseline that is being made has locked its ends: wait for it, so that it counts below.
	SELECT FROM pgflash_snapshots h WHERE h.taken_at OPERATOR(pg_catalog.<) before
		AND NOT EXISTS (SELECT FROM pgflash_baselines b
			WHERE h.snapshot_id OPERATOR(pg_catalog.>=) b.begin_id AND h.snapshot_id OPERATOR(pg_catalog.<=) b.end_id)
		ORDER BY h.snapshot_id FOR UPDATE OF h;
	DELETE FROM pgflash_snapshot_queries
		WHERE used_at OPERATOR(pg_catalog.<) (before OPERATOR(pg_catalog.-) interval '1 day');
	DELETE FROM pgflash_snapshot_sections s USING pgflash_snapshots h
		WHERE h.snapshot_id OPERATOR(pg_catalog.=) s.snapshot_id AND h.taken_at OPERATOR(pg_catalog.<) before
		AND NOT EXISTS (SELECT FROM pgflash_baselines b
			WHERE h.snapshot_id OPERATOR(pg_catalog.>=) b.begin_id AND h.snapshot_id OPERATOR(pg_catalog.<=) b.end_id);
	WITH dropped AS (
		DELETE FROM pgflash_snapshots h WHERE h.taken_at OPERATOR(pg_catalog.<) before
		AND NOT EXISTS (SELECT FROM pgflash_baselines b
			WHERE h.snapshot_id OPERATOR(pg_catalog.>=) b.begin_id AND h.snapshot_id OPERATOR(pg_catalog.<=) b.end_id)
		RETURNING h.snapshot_id
	)
	SELECT pg_catalog.count(*) FROM dropped;
END;

-- The texts of the statements that its snapshots name are kept, too.
CREATE FUNCTION pgflash_baseline_keep(name text, begin_id bigint, end_id bigint) RETURNS bigint
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET session_replication_role = replica
BEGIN ATOMIC
	-- A snapshot that does not exist is null here, which the table refuses.
	INSERT INTO pgflash_baselines (name, begin_id, end_id)
		VALUES (
			pgflash_baseline_keep.name,
			(SELECT h.snapshot_id FROM pgflash_snapshots h
				WHERE h.snapshot_id OPERATOR(pg_catalog.=) pgflash_baseline_keep.begin_id FOR KEY SHARE),
			(SELECT h.snapshot_id FROM pgflash_snapshots h
				WHERE h.snapshot_id OPERATOR(pg_catalog.=) pgflash_baseline_keep.end_id FOR KEY SHARE));
	UPDATE pgflash_snapshot_queries q SET used_at = 'infinity'::timestamptz
		WHERE q.query_id OPERATOR(pg_catalog.=) ANY (
			SELECT (r.value OPERATOR(pg_catalog.->>) (c.ordinality::integer OPERATOR(pg_catalog.-) 1))::bigint
			FROM pgflash_snapshot_sections s,
				pg_catalog.jsonb_array_elements_text(s.content OPERATOR(pg_catalog.->) 'columns'::text)
					WITH ORDINALITY AS c,
				pg_catalog.jsonb_array_elements(s.content OPERATOR(pg_catalog.->) 'rows'::text) AS r
			WHERE s.section OPERATOR(pg_catalog.=) ANY (ARRAY['statements'::text, 'statement_reads'::text, 'samples'::text])
				AND c.value OPERATOR(pg_catalog.=) 'query_id'::text
				AND s.snapshot_id OPERATOR(pg_catalog.>=) pgflash_baseline_keep.begin_id
				AND s.snapshot_id OPERATOR(pg_catalog.<=) pgflash_baseline_keep.end_id);
	SELECT pg_catalog.count(*) FROM pgflash_snapshots h
		WHERE h.snapshot_id OPERATOR(pg_catalog.>=) pgflash_baseline_keep.begin_id
			AND h.snapshot_id OPERATOR(pg_catalog.<=) pgflash_baseline_keep.end_id;
END;

CREATE FUNCTION pgflash_baseline_drop(name text) RETURNS boolean
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET session_replication_role = replica
BEGIN ATOMIC
	-- Texts that no other baseline needs are as old as others from now on.
	UPDATE pgflash_snapshot_queries q SET used_at = pg_catalog.now()
		WHERE q.used_at OPERATOR(pg_catalog.=) 'infinity'::timestamptz
			AND q.query_id OPERATOR(pg_catalog.<>) ALL (
				SELECT (r.value OPERATOR(pg_catalog.->>) (c.ordinality::integer OPERATOR(pg_catalog.-) 1))::bigint
				FROM pgflash_baselines b
					JOIN pgflash_snapshot_sections s
						ON s.snapshot_id OPERATOR(pg_catalog.>=) b.begin_id AND s.snapshot_id OPERATOR(pg_catalog.<=) b.end_id,
					pg_catalog.jsonb_array_elements_text(s.content OPERATOR(pg_catalog.->) 'columns'::text)
						WITH ORDINALITY AS c,
					pg_catalog.jsonb_array_elements(s.content OPERATOR(pg_catalog.->) 'rows'::text) AS r
				WHERE b.name OPERATOR(pg_catalog.<>) pgflash_baseline_drop.name
					AND s.section OPERATOR(pg_catalog.=) ANY (ARRAY['statements'::text, 'statement_reads'::text, 'samples'::text])
					AND c.value OPERATOR(pg_catalog.=) 'query_id'::text
					AND (r.value OPERATOR(pg_catalog.->>) (c.ordinality::integer OPERATOR(pg_catalog.-) 1)) IS NOT NULL);
	WITH dropped AS (
		DELETE FROM pgflash_baselines b WHERE b.name OPERATOR(pg_catalog.=) pgflash_baseline_drop.name RETURNING b.name
	)
	SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>) 0::bigint FROM dropped;
END;

-- ---- statements ----------------------------------------------------------------

CREATE FUNCTION pgflash_statements_reset() RETURNS void
AS 'MODULE_PATHNAME', 'pgflash_statements_reset'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- ---- wait events ---------------------------------------------------------------

CREATE FUNCTION pgflash_wait_class(backend_type text, wait_event_type text, wait_event text) RETURNS text
AS 'MODULE_PATHNAME', 'pgflash_wait_class'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- ---- comments ----------------------------------------------------------------

-- BEGIN generated: comments
COMMENT ON FUNCTION pgflash_set_cache_policy(regclass, text) IS
	'Sets the cache policy of a table, index or materialized view: keep, none or default. Null removes it.';
COMMENT ON FUNCTION pgflash_cache_set_mode(text) IS
	'Changes the mode of the cache for all sessions at once: serve, passthrough or offline. A mode lasts until the server restarts, after which the cache serves again. Only a restart ends offline.';
COMMENT ON FUNCTION pgflash_cache_clear() IS
	'Drops every block from the cache.';
COMMENT ON FUNCTION pgflash_cache_load(regclass, boolean) IS
	'Loads a relation into the cache, in the background: with its partitions, or the tables that inherit from it, their TOAST tables and, unless indexes is false, their indexes. Returns how many blocks they have.';
COMMENT ON FUNCTION pgflash_cache_load_list(record[], timestamptz) IS
	'Loads the blocks of a list into the cache, in the background, hottest first: rows of pgflash_cache_list() of this server or another one with the same files, such as its primary. It takes the place of the list before. taken_at is when the list was taken (null: now). Returns its number of blocks.';
COMMENT ON FUNCTION pgflash_cache_load_cancel(regclass) IS
	'Cancels loading of a relation of the current database (without its indexes) or, if the argument is null, of all, the list included, and returns how many files were not loaded to their end, the list counted as one.';
COMMENT ON FUNCTION pgflash_drive_writes_per_day(bigint) IS
	'Drive writes per day: how many times a day flash of this capacity (all cache files'' drives together) is written in full, judged by the last 24 hours or the time since the cache files were created; null before anything is known.';
COMMENT ON FUNCTION pgflash_snapshot() IS
	'Takes a snapshot and returns its number. Resets nothing. Waits for a snapshot in progress.';
COMMENT ON FUNCTION pgflash_snapshot_drop(timestamptz) IS
	'Drops the snapshots taken before this time, except those of baselines, and returns their number.';
COMMENT ON FUNCTION pgflash_baseline_keep(text, bigint, bigint) IS
	'Keeps the snapshots from begin_id to end_id, which must exist, and the texts of their statements, under a name, and returns the number of snapshots.';
COMMENT ON FUNCTION pgflash_baseline_drop(text) IS
	'Drops a baseline, and returns whether it existed. Its snapshots are then dropped when they are old enough.';
COMMENT ON FUNCTION pgflash_statements_reset() IS
	'Sets the sums of pgflash_statements to zero, for all users and databases.';
COMMENT ON FUNCTION pgflash_wait_class(text, text, text) IS
	'The wait class of a wait event of a process of this type. A null type means a client backend; a null event means that the process waits for none.';
-- END generated: comments

-- ---- rights --------------------------------------------------------------------

REVOKE ALL ON FUNCTION pgflash_cache_set_mode(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_clear() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_statements_reset() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_load(regclass, boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_load_list(record[], timestamptz) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_load_cancel(regclass) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_drive_writes_per_day(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_drive_writes_per_day(bigint) TO pg_monitor;

-- pg_dump reads the table with the privileges of its user.
GRANT SELECT ON pgflash_cache_policies TO PUBLIC;

REVOKE ALL ON pgflash_snapshots, pgflash_snapshot_sections, pgflash_snapshot_queries, pgflash_snapshot_last,
	pgflash_baselines, pgflash_stored_list, pgflash_stored_list_head FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_snapshot() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_snapshot_drop(timestamptz) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_baseline_keep(text, bigint, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_baseline_drop(text) FROM PUBLIC;
GRANT SELECT ON pgflash_snapshots, pgflash_snapshot_sections, pgflash_snapshot_queries, pgflash_baselines,
	pgflash_stored_list, pgflash_stored_list_head TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_snapshot() TO pg_monitor;
