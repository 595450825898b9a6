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

-- What logical replication of another server brings is about that server: it is ignored.  A
-- publication FOR ALL TABLES includes these tables.
CREATE FUNCTION pgflash_ignore_replicated() RETURNS trigger
AS 'MODULE_PATHNAME', 'pgflash_ignore_replicated'
LANGUAGE C;

CREATE TRIGGER pgflash_ignore_replicated BEFORE INSERT OR UPDATE OR DELETE ON pgflash_cache_policies
	FOR EACH ROW EXECUTE FUNCTION pgflash_ignore_replicated();
ALTER TABLE pgflash_cache_policies ENABLE REPLICA TRIGGER pgflash_ignore_replicated;
CREATE TRIGGER pgflash_ignore_replicated BEFORE INSERT OR UPDATE OR DELETE ON pgflash_snapshots
	FOR EACH ROW EXECUTE FUNCTION pgflash_ignore_replicated();
ALTER TABLE pgflash_snapshots ENABLE REPLICA TRIGGER pgflash_ignore_replicated;
CREATE TRIGGER pgflash_ignore_replicated BEFORE INSERT OR UPDATE OR DELETE ON pgflash_snapshot_sections
	FOR EACH ROW EXECUTE FUNCTION pgflash_ignore_replicated();
ALTER TABLE pgflash_snapshot_sections ENABLE REPLICA TRIGGER pgflash_ignore_replicated;
CREATE TRIGGER pgflash_ignore_replicated BEFORE INSERT OR UPDATE OR DELETE ON pgflash_snapshot_queries
	FOR EACH ROW EXECUTE FUNCTION pgflash_ignore_replicated();
ALTER TABLE pgflash_snapshot_queries ENABLE REPLICA TRIGGER pgflash_ignore_replicated;
CREATE TRIGGER pgflash_ignore_replicated BEFORE INSERT OR UPDATE OR DELETE ON pgflash_baselines
	FOR EACH ROW EXECUTE FUNCTION pgflash_ignore_replicated();
ALTER TABLE pgflash_baselines ENABLE REPLICA TRIGGER pgflash_ignore_replicated;
CREATE TRIGGER pgflash_ignore_replicated BEFORE INSERT OR UPDATE OR DELETE ON pgflash_stored_list
	FOR EACH ROW EXECUTE FUNCTION pgflash_ignore_replicated();
ALTER TABLE pgflash_stored_list ENABLE REPLICA TRIGGER pgflash_ignore_replicated;
CREATE TRIGGER pgflash_ignore_replicated BEFORE INSERT OR UPDATE OR DELETE ON pgflash_stored_list_head
	FOR EACH ROW EXECUTE FUNCTION pgflash_ignore_replicated();
ALTER TABLE pgflash_stored_list_head ENABLE REPLICA TRIGGER pgflash_ignore_replicated;
