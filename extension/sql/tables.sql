-- pgflash, what holds data: made once, and kept by updates.
-- SPDX-License-Identifier: PostgreSQL
--
-- CREATE EXTENSION runs library.sql, this file, then what later versions added (from-*.sql,
-- which their updates run as well), then views.sql and functions.sql.

-- ---- cache policies ----------------------------------------------------------

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
	policy text NOT NULL CHECK (policy OPERATOR(pg_catalog.=) ANY (ARRAY['keep'::text, 'none'::text, 'default'::text]))
) USING heap;

SELECT pg_catalog.pg_extension_config_dump('pgflash_cache_policies'::pg_catalog.regclass, ''::text);

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
	kind text NOT NULL CHECK (kind OPERATOR(pg_catalog.=) ANY (ARRAY['counter'::text, 'gauge'::text, 'delta'::text])),
	content jsonb NOT NULL,
	PRIMARY KEY (snapshot_id, section)
) USING heap WITH (toast_tuple_target = 256);

CREATE TABLE pgflash_snapshot_queries (
	query_id bigint PRIMARY KEY,
	query text NOT NULL,
	used_at timestamptz NOT NULL DEFAULT pg_catalog.now()
) USING heap;

-- The values that the next snapshot subtracts; a crash empties it, and the counters with it.
CREATE UNLOGGED TABLE pgflash_snapshot_last (
	section text PRIMARY KEY,
	snapshot_id bigint NOT NULL,
	content bytea NOT NULL
) USING heap;
ALTER TABLE pgflash_snapshot_last ALTER COLUMN content SET STORAGE EXTERNAL;
