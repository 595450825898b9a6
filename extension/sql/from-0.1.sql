-- pgflash, what an update from 0.1 adds to what holds data; tables.sql makes it in a new extension.
-- SPDX-License-Identifier: PostgreSQL

CREATE TABLE pgflash_baselines (
	name text PRIMARY KEY,
	begin_id bigint NOT NULL REFERENCES pgflash_snapshots,
	end_id bigint NOT NULL REFERENCES pgflash_snapshots,
	kept_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
	CHECK (begin_id OPERATOR(pg_catalog.<) end_id)
) USING heap;
