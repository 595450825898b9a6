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
