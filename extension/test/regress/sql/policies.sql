-- keep and none, for a table: set, shown, taken back.
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

-- It is its owner's to say.
CREATE ROLE regress_pgflash_stranger;
SET ROLE regress_pgflash_stranger;
SELECT pgflash_set_cache_policy('warm', 'none');
RESET ROLE;

-- default is a policy, too; null takes it back.
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
