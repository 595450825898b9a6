-- The extension is made, all of its views can be read, and it is dropped again.
CREATE EXTENSION pgflash;

-- Each view, by a count of its rows: it is an error if one cannot be read.
DO $$
DECLARE
  view regclass;
  rows bigint;
BEGIN
  FOR view IN
    SELECT c.oid FROM pg_depend d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND d.objid = c.oid
     WHERE d.deptype = 'e' AND c.relkind = 'v'
       AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pgflash')
  LOOP
    EXECUTE format('SELECT count(*) FROM %s', view) INTO rows;
  END LOOP;
END $$;

-- One row each, whatever the cache is doing.
SELECT count(*) FROM pgflash_cache;
SELECT count(*) FROM pgflash_wal;
SELECT count(*) FROM pgflash_sampler;

-- This session reads its own relations, and that is counted.
CREATE TABLE counted AS SELECT generate_series(1, 1000) AS number;
SELECT sum(number) FROM counted;
SELECT sum(calls) > 0 AS calls, sum(bytes) > 0 AS bytes, bool_and(time_ms >= 0) AS times FROM pgflash_io;

-- A snapshot is kept, and dropped.
SELECT pgflash_snapshot() AS snapshot \gset
SELECT count(*) FROM pgflash_snapshots WHERE snapshot_id = :snapshot;
SELECT pgflash_snapshot_drop('infinity'::timestamptz) > 0 AS dropped;
SELECT count(*) FROM pgflash_snapshots;

DROP TABLE counted;
DROP EXTENSION pgflash;
