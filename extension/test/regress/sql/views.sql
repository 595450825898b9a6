-- What always holds for the rows of the views, whatever the cache is doing.
CREATE EXTENSION pgflash;
CREATE TABLE filled (id int PRIMARY KEY, pad text);
INSERT INTO filled SELECT n, repeat('x', 500) FROM generate_series(1, 2000) n;

-- The cache.
SELECT mode IN ('serve', 'passthrough', 'offline') AS mode,
       hits >= 0 AND misses >= 0 AS counted,
       coalesce(hit_ratio BETWEEN 0 AND 1, true) AS ratio,
       coalesce(used_bytes <= size_bytes, true) AS fits,
       coalesce(verify_mismatches, 0) AS mismatches
  FROM pgflash_cache;
SELECT count(*) <= 16 AS devices FROM pgflash_cache_devices;

-- Only relations of this database have a name here.
SELECT count(*) FROM pgflash_relations WHERE relation IS NOT NULL
   AND relation NOT IN (SELECT oid FROM pg_class);

-- Every file call: of a known process, with its bytes and its time.
SELECT bool_and(backend_type <> '') AS processes, bool_and(calls > 0) AS calls,
       bool_and(bytes >= 0) AS bytes, bool_and(time_ms >= 0) AS times
  FROM pgflash_io;
SELECT bool_and(calls > 0) AS calls FROM pgflash_io_histogram;
SELECT relfilenumber = pg_relation_filenode('filled') AS file, extends > 0 AS extended,
       extend_bytes >= pg_relation_size('filled') AS bytes
  FROM pgflash_io_relations WHERE relation = 'filled' AND fork = 'main';
SELECT count(*) > 0 AS some FROM pgflash_io_tablespaces WHERE tablespace = 'pg_default';

-- The sampler.
SELECT rate_hz BETWEEN 0 AND 1000 AS rate, looks_kept <= looks AS kept FROM pgflash_sampler;
SELECT count(*) AS nobody FROM pgflash_active_sessions WHERE pid IS NULL;
SELECT count(*) FROM pgflash_sample_summary('infinity', '-infinity');

-- They cannot be written to.
DELETE FROM pgflash_io;
INSERT INTO pgflash_cache DEFAULT VALUES;

DROP TABLE filled;
-- A view that others rest on keeps the extension.
CREATE VIEW resting AS SELECT mode FROM pgflash_cache;
DROP EXTENSION pgflash;
DROP VIEW resting;
DROP EXTENSION pgflash;
