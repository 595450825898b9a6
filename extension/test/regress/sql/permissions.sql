-- An ordinary role sees and does nothing; pg_monitor may look; only superusers change the cache.
CREATE EXTENSION pgflash;
CREATE ROLE regress_pgflash_nobody;
CREATE ROLE regress_pgflash_monitor IN ROLE pg_monitor;

SET ROLE regress_pgflash_nobody;
SELECT count(*) FROM pgflash_cache;
SELECT count(*) FROM pgflash_io;
SELECT count(*) FROM pgflash_snapshots;
SELECT pgflash_snapshot();
SELECT pgflash_cache_clear();
SELECT count(*) > 0 AS all_may_read FROM pgflash_wait_events;

SET ROLE regress_pgflash_monitor;
SELECT count(*) FROM pgflash_cache;
SELECT count(*) > 0 AS some FROM pgflash_io;
SELECT pgflash_cache_clear();
SELECT pgflash_cache_set_mode('off');
SELECT pgflash_cache_verify();

-- It takes snapshots and reads them; to drop them is for superusers.
SELECT pgflash_snapshot() > 0 AS taken;
SELECT count(*) FROM pgflash_snapshots;
SELECT pgflash_snapshot_drop('infinity');
DELETE FROM pgflash_snapshots;

-- As with every view on a function, who reads it needs both.
RESET ROLE;
GRANT SELECT ON pgflash_cache TO regress_pgflash_nobody;
SET ROLE regress_pgflash_nobody;
SELECT count(*) FROM pgflash_cache;
RESET ROLE;
GRANT EXECUTE ON FUNCTION pgflash_cache_row() TO regress_pgflash_nobody;
SET ROLE regress_pgflash_nobody;
SELECT count(*) FROM pgflash_cache;

RESET ROLE;
DROP OWNED BY regress_pgflash_nobody;
DROP ROLE regress_pgflash_nobody, regress_pgflash_monitor;
DROP EXTENSION pgflash;
