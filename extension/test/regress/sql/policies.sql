-- keep and none, for a table: set, shown, removed.
CREATE EXTENSION pgflash;
CREATE TABLE hot (id int PRIMARY KEY, note text);

SELECT pgflash_set_cache_policy('hot', 'keep');
SELECT relation, policy FROM pgflash_cache_policy ORDER BY relation::text COLLATE "C";

-- It follows the name.
ALTER TABLE hot RENAME TO warm;
SELECT relation, policy FROM pgflash_cache_policy ORDER BY relation::text COLLATE "C";

-- What cannot be is refused.
SELECT pgflash_set_cache_policy('warm', 'always');
SELECT pgflash_set_cache_policy('nowhere', 'keep');
SELECT pgflash_set_cache_policy('pg_class', 'keep');

-- Whatever has blocks of its own has one: an index, a materialized view, each partition.
CREATE MATERIALIZED VIEW copied AS SELECT 1 AS id;
CREATE TABLE parts (id int) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
SELECT pgflash_set_cache_policy('hot_pkey', 'none');
SELECT pgflash_set_cache_policy('copied', 'keep');
SELECT pgflash_set_cache_policy('parts', 'keep');
SELECT relation, policy FROM pgflash_cache_policy ORDER BY relation::text COLLATE "C";
DROP TABLE parts;
DROP MATERIALIZED VIEW copied;
SELECT pgflash_set_cache_policy('hot_pkey', NULL);

-- What has none is refused, and what only one session sees.
CREATE VIEW seen AS SELECT 1 AS id;
CREATE TEMPORARY TABLE passing (id int);
SELECT pgflash_set_cache_policy('seen', 'keep');
SELECT pgflash_set_cache_policy('passing', 'keep');
DROP TABLE passing;
DROP VIEW seen;

-- It is its owner's to say.
CREATE ROLE regress_pgflash_stranger;
SET ROLE regress_pgflash_stranger;
SELECT pgflash_set_cache_policy('warm', 'none');
RESET ROLE;

-- default is a policy, too; null removes it.
SELECT pgflash_set_cache_policy('warm', 'default');
SELECT relation, policy FROM pgflash_cache_policy;
SELECT pgflash_set_cache_policy('warm', NULL);
SELECT count(*) FROM pgflash_cache_policy;

-- A policy goes with its table.
SELECT pgflash_set_cache_policy('warm', 'none');
DROP TABLE warm;
SELECT count(*) FROM pgflash_cache_policy;

DROP ROLE regress_pgflash_stranger;
DROP EXTENSION pgflash;
