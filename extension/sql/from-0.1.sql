-- pgflash, the tables added since 0.1: a new extension gets them too, after those of tables.sql.
-- SPDX-License-Identifier: PostgreSQL

-- Periods whose snapshots are not dropped.
CREATE TABLE pgflash_baselines (
	name text PRIMARY KEY,
	begin_id bigint NOT NULL REFERENCES pgflash_snapshots,
	end_id bigint NOT NULL REFERENCES pgflash_snapshots,
	kept_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
	CHECK (begin_id OPERATOR(pg_catalog.<) end_id)
) USING heap;

-- The blocks in the primary's cache, and one row about them; the library writes both.
CREATE TABLE pgflash_stored_list (
	tablespace oid NOT NULL,
	database oid NOT NULL,
	filenode oid NOT NULL,
	fork text NOT NULL,
	segment integer NOT NULL,
	heat integer NOT NULL,
	bitmap bytea NOT NULL,
	PRIMARY KEY (tablespace, database, filenode, fork, segment, heat)
) USING heap;

CREATE TABLE pgflash_stored_list_head (
	is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
	list_number bigint NOT NULL,
	system_identifier bigint NOT NULL,
	taken_at timestamptz NOT NULL,
	wal_left_bytes bigint NOT NULL
) USING heap;
