-- Settings with a value that cannot be, in a place that cannot be, by who may not.

-- Of the server, and not of a session.
SET pgflash.cache_size = '2GB';
SET pgflash.cache_file = '/tmp/other';
SET pgflash.account = off;
SET pgflash.sample_rate = 5;

-- Out of range, of another type, no number, not one of the values.
ALTER SYSTEM SET pgflash.keep_share = 101;
ALTER SYSTEM SET pgflash.keep_share = -1;
ALTER SYSTEM SET pgflash.sample_rate = 1001;
ALTER SYSTEM SET pgflash.read_deadline = 'soon';
ALTER SYSTEM SET pgflash.read_deadline = '1 parsec';
ALTER SYSTEM SET pgflash.advice = 'maybe';
ALTER SYSTEM SET pgflash.verify = 'always';

-- No setting of pgflash: a misspelt one is not taken for somebody else's.
SET pgflash.cache_sise = '2GB';

-- Only superusers set them.
CREATE ROLE regress_pgflash_nobody;
SET ROLE regress_pgflash_nobody;
ALTER SYSTEM SET pgflash.verify = 'off';
SELECT current_setting('pgflash.keep_share') <> '' AS may_be_read;
RESET ROLE;
DROP ROLE regress_pgflash_nobody;

-- None of this has changed anything.
SELECT name FROM pg_settings WHERE name LIKE 'pgflash.%' AND pending_restart;
SELECT name FROM pg_file_settings WHERE name LIKE 'pgflash.%' AND error IS NOT NULL;
