
-- pgflash, what holds no data: functions, views, comments and rights.  An update drops
-- and makes all of them: what is new is written here, and nowhere else.
-- SPDX-License-Identifier: PostgreSQL
--
-- Whoever owns the schema may have put functions and operators there before.  They are
-- looked at when the script runs, and a better match than PostgreSQL's own would be in the
-- views for good, to be run by each superuser who reads them.  So nothing here is left to be
-- found: every function and operator is called by its schema, with arguments of exactly its
-- types.  tools/tidy.py and tests/hostile see to it.

-- ---- pgflash_cache: one row ------------------------------------------------

CREATE FUNCTION pgflash_cache_row(
	OUT mode text,
	OUT mode_reason text,
	OUT start_reason text,
	OUT cache_file text,
	OUT direct_io boolean,
	OUT io_engine text,
	OUT size_bytes bigint,
	OUT size_max_bytes bigint,
	OUT resize_progress double precision,
	OUT resize_reason text,
	OUT slots bigint,
	OUT used_slots bigint,
	OUT used_bytes bigint,
	OUT keep_blocks bigint,
	OUT hits bigint,
	OUT staged_hits bigint,
	OUT misses bigint,
	OUT hit_ratio double precision,
	OUT page_cache_reads bigint,
	OUT inserts bigint,
	OUT eviction_invalidated bigint,
	OUT eviction_aged_out bigint,
	OUT eviction_buffer_pinned bigint,
	OUT insert_skip_not_current bigint,
	OUT insert_skip_writer_overloaded bigint,
	OUT insert_skip_exists bigint,
	OUT insert_skip_not_useful bigint,
	OUT insert_skip_modification bigint,
	OUT insert_skip_corrupt bigint,
	OUT insert_skip_budget bigint,
	OUT insert_skip_device bigint,
	OUT insert_skip_invalid bigint,
	OUT bypass_reads bigint,
	OUT updates bigint,
	OUT coalesced_updates bigint,
	OUT invalidations bigint,
	OUT prefetches_swallowed bigint,
	OUT flash_reads bigint,
	OUT flash_read_bytes bigint,
	OUT flash_writes bigint,
	OUT flash_write_bytes bigint,
	OUT flash_write_bytes_day bigint,
	OUT write_budget_left_bytes bigint,
	OUT flash_read_errors bigint,
	OUT read_timeouts bigint,
	OUT flash_write_errors bigint,
	OUT corrupt_slots bigint,
	OUT disk_reads bigint,
	OUT disk_read_bytes bigint,
	OUT verify_compared bigint,
	OUT verify_mismatches bigint,
	OUT moved_blocks bigint,
	OUT takeovers bigint,
	OUT file_displacements bigint,
	OUT file_shortages bigint,
	OUT clears bigint,
	OUT foreign_changes bigint,
	OUT files_kept bigint,
	OUT files_dropped bigint,
	OUT flash_read_mean_ms double precision,
	OUT disk_read_mean_ms double precision,
	OUT flash_read_histogram bigint[],
	OUT disk_read_histogram bigint[],
	OUT staging_blocks bigint,
	OUT staging_used bigint,
	OUT writer_running boolean,
	OUT metadata_bytes bigint,
	OUT metadata_bytes_per_block double precision
)
AS 'MODULE_PATHNAME', 'pgflash_cache_row'
LANGUAGE C VOLATILE PARALLEL SAFE;

CREATE VIEW pgflash_cache AS SELECT * FROM pgflash_cache_row();

COMMENT ON FUNCTION pgflash_cache_row() IS 'What the view pgflash_cache shows.';
COMMENT ON VIEW pgflash_cache IS
	'The flash cache of this server, in one row. Counts run since the server started, or restarted after a crash.';
COMMENT ON COLUMN pgflash_cache.mode IS
	'serve: reads and fills; passthrough: only drops what changes and stays warm; offline: untouched until the next start.';
COMMENT ON COLUMN pgflash_cache.mode_reason IS 'Why the mode is what it is, in words.';
COMMENT ON COLUMN pgflash_cache.start_reason IS 'Whether the cache began warm, with the blocks of before the last restart, or cold, and why.';
COMMENT ON COLUMN pgflash_cache.cache_file IS 'The setting pgflash.cache_file.';
COMMENT ON COLUMN pgflash_cache.direct_io IS
	'Whether the cache files are read and written without the page cache (O_DIRECT).';
COMMENT ON COLUMN pgflash_cache.io_engine IS
	'How this session reads the cache files: aio (many blocks at once, with a deadline), or plain where the kernel allows no AIO.';
COMMENT ON COLUMN pgflash_cache.size_bytes IS 'Bytes of blocks that the cache can hold; while its size changes: the new size.';
COMMENT ON COLUMN pgflash_cache.size_max_bytes IS 'What size_bytes can grow to without a restart.';
COMMENT ON COLUMN pgflash_cache.resize_progress IS 'How much of a change of size is done, 0 to 1; null if the size is not changing.';
COMMENT ON COLUMN pgflash_cache.resize_reason IS 'Why the cache does not get the size of pgflash.cache_size; null if it has it, or is about to.';
COMMENT ON COLUMN pgflash_cache.slots IS 'Blocks of 8 kB that the cache can hold.';
COMMENT ON COLUMN pgflash_cache.used_slots IS 'Blocks that the cache holds now.';
COMMENT ON COLUMN pgflash_cache.used_bytes IS 'Bytes of blocks that the cache holds now.';
COMMENT ON COLUMN pgflash_cache.keep_blocks IS 'Blocks of relations with the cache policy keep that the cache holds now.';
COMMENT ON COLUMN pgflash_cache.hits IS 'Blocks read from flash.';
COMMENT ON COLUMN pgflash_cache.staged_hits IS 'Of the hits: blocks read from the staging ring, since they were not on flash yet.';
COMMENT ON COLUMN pgflash_cache.misses IS
	'Blocks looked up and not read from flash. Blocks in the page cache are not looked up.';
COMMENT ON COLUMN pgflash_cache.hit_ratio IS 'hits / (hits + misses); null before the first look-up.';
COMMENT ON COLUMN pgflash_cache.page_cache_reads IS
	'Blocks left to the page cache of the operating system, which had them.';
COMMENT ON COLUMN pgflash_cache.inserts IS
	'Blocks put into the cache, refreshed ones included (Oracle: flash cache inserts).';
COMMENT ON COLUMN pgflash_cache.eviction_invalidated IS
	'Blocks dropped because they changed (Oracle: flash cache eviction: invalidated).';
COMMENT ON COLUMN pgflash_cache.eviction_aged_out IS
	'Blocks dropped to make room (Oracle: flash cache eviction: aged out).';
COMMENT ON COLUMN pgflash_cache.eviction_buffer_pinned IS
	'Blocks that should have made room but were in use (Oracle: flash cache eviction: buffer pinned).';
COMMENT ON COLUMN pgflash_cache.insert_skip_not_current IS
	'Blocks not put in: their file was dropped or truncated, or the mode changed, since they were read (Oracle: flash cache insert skip: not current).';
COMMENT ON COLUMN pgflash_cache.insert_skip_writer_overloaded IS
	'Blocks not put in: the staging ring was full, or too many were being put in at one place (Oracle: flash cache insert skip: DBWR overloaded).';
COMMENT ON COLUMN pgflash_cache.insert_skip_exists IS
	'Blocks not put in: they were there already (Oracle: flash cache insert skip: exists).';
COMMENT ON COLUMN pgflash_cache.insert_skip_not_useful IS
	'Blocks not put in: the replacement policy expects more of what is there, or what was there before a restart is about to be (Oracle: flash cache insert skip: not useful).';
COMMENT ON COLUMN pgflash_cache.insert_skip_modification IS
	'Blocks not put in: they, or a neighbour in the index, changed since they were read (Oracle: flash cache insert skip: modification).';
COMMENT ON COLUMN pgflash_cache.insert_skip_corrupt IS
	'Blocks dropped again: they could not be written whole (Oracle: flash cache insert skip: corrupt).';
COMMENT ON COLUMN pgflash_cache.insert_skip_budget IS
	'Blocks not put in, or not refreshed: pgflash.write_budget was used up.';
COMMENT ON COLUMN pgflash_cache.insert_skip_device IS
	'Blocks not put in: their cache file is bypassed, out of use, or, being one of several, late with writes.';
COMMENT ON COLUMN pgflash_cache.insert_skip_invalid IS
	'Blocks not put in: what the disk gave was not valid, by its page checksum (in a cluster with data checksums) or its header.';
COMMENT ON COLUMN pgflash_cache.bypass_reads IS
	'Reads that were not looked up: base backups, parts of blocks, files being copied (in calls); runs of large scans, relations with the cache policy none (in blocks).';
COMMENT ON COLUMN pgflash_cache.updates IS 'Of the inserts: blocks refreshed after they were written.';
COMMENT ON COLUMN pgflash_cache.coalesced_updates IS
	'Of the updates: those that replaced a copy before it was written to flash, so that it never had to be.';
COMMENT ON COLUMN pgflash_cache.invalidations IS
	'Changes of relation files announced to the cache, each of one block or a range.';
COMMENT ON COLUMN pgflash_cache.prefetches_swallowed IS
	'Requests to read ahead from disk that were dropped, since the blocks were on flash; they are fetched from there.';
COMMENT ON COLUMN pgflash_cache.flash_reads IS 'Reads of the cache file, in calls.';
COMMENT ON COLUMN pgflash_cache.flash_read_bytes IS 'Bytes read from the cache file.';
COMMENT ON COLUMN pgflash_cache.flash_writes IS 'Writes of the cache file, in calls.';
COMMENT ON COLUMN pgflash_cache.flash_write_bytes IS 'Bytes written to the cache file.';
COMMENT ON COLUMN pgflash_cache.flash_write_bytes_day IS 'Bytes written to the cache files in the last 24 hours, also before a restart; null without a cache.';
COMMENT ON COLUMN pgflash_cache.write_budget_left_bytes IS
	'pgflash.write_budget less flash_write_bytes_day: what is left of the day''s budget; null if there is none.';
COMMENT ON COLUMN pgflash_cache.flash_read_errors IS 'Reads of the cache file that failed or came back short.';
COMMENT ON COLUMN pgflash_cache.read_timeouts IS
	'Reads of the cache file that were not done by pgflash.read_deadline; the disk was read instead.';
COMMENT ON COLUMN pgflash_cache.flash_write_errors IS 'Writes of the cache file that failed or came back short.';
COMMENT ON COLUMN pgflash_cache.corrupt_slots IS 'Blocks that came back from flash with a wrong checksum; none was used.';
COMMENT ON COLUMN pgflash_cache.disk_reads IS
	'Reads of relation files that neither the page cache nor flash could serve, in calls.';
COMMENT ON COLUMN pgflash_cache.disk_read_bytes IS 'Bytes of those reads.';
COMMENT ON COLUMN pgflash_cache.verify_compared IS
	'Blocks from flash that were compared with their file (pgflash.verify, pgflash_cache_verify).';
COMMENT ON COLUMN pgflash_cache.verify_mismatches IS 'Of those: blocks that differed. Anything but 0 is a bug or a bad disk.';
COMMENT ON COLUMN pgflash_cache.moved_blocks IS 'Cached blocks copied to another slot because the size of the cache changed.';
COMMENT ON COLUMN pgflash_cache.takeovers IS 'Slots taken over from a process that died while it filled them.';
COMMENT ON COLUMN pgflash_cache.file_displacements IS
	'Times a file lost its place in the list of cached files, and what it had cached, to another one.';
COMMENT ON COLUMN pgflash_cache.file_shortages IS 'Times a file could not be cached because no place in the list of cached files could be had at once.';
COMMENT ON COLUMN pgflash_cache.clears IS 'Times the whole cache was cleared.';
COMMENT ON COLUMN pgflash_cache.foreign_changes IS
	'Times a data file was found changed though no change passed pgflash: by a program or an extension that writes it by itself, or touches its attributes. What was cached of the file was dropped.';
COMMENT ON COLUMN pgflash_cache.files_kept IS 'Data files whose cached blocks outlived a restart, because the files were as they had been.';
COMMENT ON COLUMN pgflash_cache.files_dropped IS 'Data files whose cached blocks did not outlive a restart, because the files had changed, or might have.';
COMMENT ON COLUMN pgflash_cache.flash_read_mean_ms IS 'Mean time of a read of the cache file that was waited for, in milliseconds; null if there was none.';
COMMENT ON COLUMN pgflash_cache.disk_read_mean_ms IS 'Mean time of the disk reads, in milliseconds; null if there was none.';
COMMENT ON COLUMN pgflash_cache.flash_read_histogram IS
	'Times of reads of the cache file that were waited for: element i counts those from 2^(i-1) to 2^i microseconds; the first one counts all below 2, the last one all above.';
COMMENT ON COLUMN pgflash_cache.disk_read_histogram IS 'Times of the disk reads, in the same buckets.';
COMMENT ON COLUMN pgflash_cache.staging_blocks IS 'Blocks that the staging ring can hold: the way from a query to flash.';
COMMENT ON COLUMN pgflash_cache.staging_used IS 'Blocks that are in the staging ring now, about.';
COMMENT ON COLUMN pgflash_cache.writer_running IS
	'Whether the process that writes to flash is there. Without it the cache takes no new blocks once the staging ring is full.';
COMMENT ON COLUMN pgflash_cache.metadata_bytes IS 'Bytes of shared memory that the cache takes, all included.';
COMMENT ON COLUMN pgflash_cache.metadata_bytes_per_block IS 'metadata_bytes / slots.';

-- ---- pgflash_cache_devices: one row for each cache file ---------------------

CREATE FUNCTION pgflash_cache_devices_rows(
	OUT cache_file text,
	OUT state text,
	OUT state_reason text,
	OUT direct_io boolean,
	OUT reads bigint,
	OUT writes bigint,
	OUT read_bytes bigint,
	OUT write_bytes bigint,
	OUT read_mean_ms double precision,
	OUT write_mean_ms double precision,
	OUT read_errors bigint,
	OUT write_errors bigint,
	OUT read_timeouts bigint,
	OUT corrupt_slots bigint,
	OUT bypassed_reads bigint
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_cache_devices_rows'
LANGUAGE C VOLATILE PARALLEL SAFE ROWS 1;

CREATE VIEW pgflash_cache_devices AS SELECT * FROM pgflash_cache_devices_rows();

COMMENT ON FUNCTION pgflash_cache_devices_rows() IS 'What the view pgflash_cache_devices shows.';
COMMENT ON VIEW pgflash_cache_devices IS 'What was read from and written to each cache file. No row without a cache.';
COMMENT ON COLUMN pgflash_cache_devices.cache_file IS 'Path of the cache file.';
COMMENT ON COLUMN pgflash_cache_devices.state IS
	'in use; bypassed: not used until it has recovered; missing: it could not be opened at the start; failed: out of use until the next start.';
COMMENT ON COLUMN pgflash_cache_devices.state_reason IS 'Why the state is what it is, in words.';
COMMENT ON COLUMN pgflash_cache_devices.direct_io IS
	'Whether it is read and written without the page cache (O_DIRECT).';
COMMENT ON COLUMN pgflash_cache_devices.reads IS 'Reads, in calls.';
COMMENT ON COLUMN pgflash_cache_devices.writes IS 'Writes, in calls.';
COMMENT ON COLUMN pgflash_cache_devices.read_bytes IS 'Bytes read.';
COMMENT ON COLUMN pgflash_cache_devices.write_bytes IS 'Bytes written.';
COMMENT ON COLUMN pgflash_cache_devices.read_mean_ms IS 'Mean time of a read, in milliseconds; null if there was none.';
COMMENT ON COLUMN pgflash_cache_devices.write_mean_ms IS 'Mean time of a write, in milliseconds; null if there was none.';
COMMENT ON COLUMN pgflash_cache_devices.read_errors IS 'Reads that failed or came back short.';
COMMENT ON COLUMN pgflash_cache_devices.write_errors IS 'Writes that failed or came back short.';
COMMENT ON COLUMN pgflash_cache_devices.read_timeouts IS
	'Reads that were not done by pgflash.read_deadline; the disk was read instead.';
COMMENT ON COLUMN pgflash_cache_devices.corrupt_slots IS
	'Blocks that came back with a wrong checksum; none was used.';
COMMENT ON COLUMN pgflash_cache_devices.bypassed_reads IS
	'Blocks that were read from disk though this file holds them, since it was bypassed or out of use.';

-- ---- pgflash_relations: one row for each relation fork the cache has met -----

CREATE FUNCTION pgflash_relations_rows(
	OUT relation regclass,
	OUT fork text,
	OUT tablespace oid,
	OUT filenode oid,
	OUT cached_blocks bigint,
	OUT hits bigint,
	OUT misses bigint,
	OUT disk_read_time_ms double precision,
	OUT policy text
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_relations_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- A relation's fork is as many files as it has gigabytes.
CREATE VIEW pgflash_relations AS
SELECT
	relation,
	fork,
	tablespace,
	filenode,
	pg_catalog.sum(cached_blocks)::bigint AS cached_blocks,
	pg_catalog.sum(hits)::bigint AS hits,
	pg_catalog.sum(misses)::bigint AS misses,
	pg_catalog.sum(disk_read_time_ms) AS disk_read_time_ms,
	pg_catalog.min(policy) AS policy
FROM pgflash_relations_rows()
GROUP BY relation, fork, tablespace, filenode;

COMMENT ON FUNCTION pgflash_relations_rows() IS 'What the view pgflash_relations shows, by segment file.';
COMMENT ON VIEW pgflash_relations IS
	'Relations of the current database, and those shared by all databases, that were looked up in the cache since the server started.';
COMMENT ON COLUMN pgflash_relations.relation IS
	'The table, index or other relation; null if its file belongs to none that is visible now (dropped, or not committed yet).';
COMMENT ON COLUMN pgflash_relations.fork IS 'main, fsm (free space map), vm (visibility map) or init.';
COMMENT ON COLUMN pgflash_relations.tablespace IS 'OID of the tablespace that the file is in.';
COMMENT ON COLUMN pgflash_relations.filenode IS 'Number of the file, as in pg_class.relfilenode.';
COMMENT ON COLUMN pgflash_relations.cached_blocks IS 'Blocks of 8 kB in the cache now; may be a little high after a process was killed.';
COMMENT ON COLUMN pgflash_relations.hits IS 'Blocks read from flash.';
COMMENT ON COLUMN pgflash_relations.misses IS 'Blocks looked up and not read from flash.';
COMMENT ON COLUMN pgflash_relations.disk_read_time_ms IS 'Time spent reading the file from disk, in milliseconds.';
COMMENT ON COLUMN pgflash_relations.policy IS 'The cache policy in force for the file: keep, none or default.';

-- ---- pgflash_cache_policy: keep, none, default -----------------------------------

COMMENT ON TYPE pgflash_relation_name IS
	'A relation by its OID, as text by its qualified name; in a dump it may be named before it is made.';
COMMENT ON FUNCTION pgflash_relation_name_in(cstring) IS 'I/O';
COMMENT ON FUNCTION pgflash_relation_name_out(pgflash_relation_name) IS 'I/O';

COMMENT ON TABLE pgflash_cache_policies IS
	'What pgflash_set_cache_policy() was told. Part of dumps; change it by that function only.';
COMMENT ON COLUMN pgflash_cache_policies.relation IS 'The table, index or materialized view.';
COMMENT ON COLUMN pgflash_cache_policies.policy IS 'keep, none or default.';

CREATE FUNCTION pgflash_cache_policy_rows(
	OUT relation regclass,
	OUT name text,
	OUT policy text,
	OUT set_on regclass
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_cache_policy_rows'
LANGUAGE C STABLE PARALLEL RESTRICTED;

CREATE VIEW pgflash_cache_policy AS SELECT * FROM pgflash_cache_policy_rows();

COMMENT ON FUNCTION pgflash_cache_policy_rows() IS 'What the view pgflash_cache_policy shows.';
COMMENT ON VIEW pgflash_cache_policy IS
	'Relations of the current database that have a cache policy: their own, or that of the partitioned table or index they belong to.';
COMMENT ON COLUMN pgflash_cache_policy.relation IS
	'The table, index or materialized view; null if it was named in a dump and is not there yet.';
COMMENT ON COLUMN pgflash_cache_policy.name IS 'Its qualified name.';
COMMENT ON COLUMN pgflash_cache_policy.policy IS 'keep, none or default.';
COMMENT ON COLUMN pgflash_cache_policy.set_on IS
	'The relation for which the policy was set: the same, or a partitioned one above it.';

CREATE FUNCTION pgflash_set_cache_policy(relation regclass, policy text) RETURNS void
AS 'MODULE_PATHNAME', 'pgflash_set_cache_policy'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pgflash_set_cache_policy(regclass, text) IS
	'Sets the cache policy of a table, index or materialized view: keep, none or default. Null takes it back.';

-- ---- pgflash_cache_advice: one row for each size -----------------------------

CREATE FUNCTION pgflash_cache_advice_rows(
	OUT size_factor double precision,
	OUT size_of text,
	OUT size_bytes bigint,
	OUT hit_ratio double precision,
	OUT disk_reads_per_s double precision,
	OUT disk_reads_factor double precision,
	OUT saved_ms_per_s double precision,
	OUT requests_per_s double precision,
	OUT disk_read_mean_ms double precision,
	OUT flash_read_mean_ms double precision,
	OUT flash_read_mean_from text,
	OUT window_s double precision,
	OUT sample_rate double precision,
	OUT sampled_blocks bigint
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_cache_advice_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 8;

CREATE VIEW pgflash_cache_advice AS SELECT * FROM pgflash_cache_advice_rows();

COMMENT ON FUNCTION pgflash_cache_advice_rows() IS 'What the view pgflash_cache_advice shows.';
COMMENT ON VIEW pgflash_cache_advice IS
	'What a flash cache of 1/8 to 16 times the present size would bring to the workload of the last hours (Oracle: V$DB_CACHE_ADVICE). No row if pgflash.advice is off.';
COMMENT ON COLUMN pgflash_cache_advice.size_factor IS 'Times the present size.';
COMMENT ON COLUMN pgflash_cache_advice.size_of IS
	'Whose present size: cache, or shared_buffers if there is no cache.';
COMMENT ON COLUMN pgflash_cache_advice.size_bytes IS 'The size of the flash cache that this row is about, in bytes.';
COMMENT ON COLUMN pgflash_cache_advice.hit_ratio IS
	'Share of the requests that flash would serve; modelled from a sample; null before the first request.';
COMMENT ON COLUMN pgflash_cache_advice.disk_reads_per_s IS
	'Expected blocks a second to be read from disk: requests_per_s * (1 - hit_ratio).';
COMMENT ON COLUMN pgflash_cache_advice.disk_reads_factor IS
	'disk_reads_per_s, as a share of that of the present size.';
COMMENT ON COLUMN pgflash_cache_advice.saved_ms_per_s IS
	'Expected waiting saved against a server without flash cache, in milliseconds a second of all processes together: hits a second * (disk_read_mean_ms - flash_read_mean_ms).';
COMMENT ON COLUMN pgflash_cache_advice.requests_per_s IS
	'Blocks a second that neither shared_buffers nor the page cache had; of the last hours. Counted while the cache serves, else estimated from one read in 32.';
COMMENT ON COLUMN pgflash_cache_advice.disk_read_mean_ms IS
	'Measured mean time that a block from disk is waited for, in milliseconds, in the last hours; null if none was read. Blocks asked for alone and in runs are timed apart, and weighted by how many were asked for.';
COMMENT ON COLUMN pgflash_cache_advice.flash_read_mean_ms IS 'Mean time that a block from flash is waited for, in milliseconds, in the last hours, weighted alike.';
COMMENT ON COLUMN pgflash_cache_advice.flash_read_mean_from IS
	'Where flash_read_mean_ms is from: measured, or assumed (0.1 for a block alone, 0.02 in runs) where nothing has been read from flash.';
COMMENT ON COLUMN pgflash_cache_advice.window_s IS
	'How many seconds the figures stand for. What is an hour old counts half.';
COMMENT ON COLUMN pgflash_cache_advice.sample_rate IS 'Share of all blocks that is in the sample.';
COMMENT ON COLUMN pgflash_cache_advice.sampled_blocks IS 'Blocks of the sample that were requested in the last 8 hours.';

-- ---- pgflash_io and its kin: exact accounting of file calls --------------------

CREATE FUNCTION pgflash_io_rows(
	OUT backend_type text,
	OUT file_class text,
	OUT operation text,
	OUT source text,
	OUT calls bigint,
	OUT bytes bigint,
	OUT time_ms double precision,
	OUT told_calls bigint,
	OUT worker_calls bigint,
	OUT worker_time_ms double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_io_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 40;

CREATE VIEW pgflash_io AS
SELECT
	backend_type,
	file_class,
	operation,
	source,
	calls,
	bytes,
	time_ms,
	time_ms OPERATOR(pg_catalog./) calls::double precision AS mean_ms,
	told_calls,
	worker_calls,
	worker_time_ms
FROM pgflash_io_rows();

COMMENT ON FUNCTION pgflash_io_rows() IS 'What the view pgflash_io shows.';
COMMENT ON VIEW pgflash_io IS
	'Every file call of the server, counted and timed, since the server started. No row if pgflash.account was off all the time.';
COMMENT ON COLUMN pgflash_io.backend_type IS
	'Who called, as pg_stat_activity names it, but for background workers, which are all one. Since PostgreSQL 18 a read by an io worker counts for whoever asked for it; where that cannot be told, for "io worker".';
COMMENT ON COLUMN pgflash_io.file_class IS
	'data (relations), temp relation, temp (spilled sorts and hashes), wal, wal init (segments being made), slru, control or other (configuration, maps, directories). Pipes, sockets and devices are not counted.';
COMMENT ON COLUMN pgflash_io.operation IS
	'read, write, extend (a write or allocation that begins at or beyond the end of a relation''s file, and any allocation) or sync (fsync, fdatasync).';
COMMENT ON COLUMN pgflash_io.source IS
	'Who served a read: disk, page cache (of the operating system) or flash. Else disk.';
COMMENT ON COLUMN pgflash_io.calls IS 'Calls of the operating system; one may be of many blocks. Failed ones count, too.';
COMMENT ON COLUMN pgflash_io.bytes IS 'Bytes that they read or wrote.';
COMMENT ON COLUMN pgflash_io.time_ms IS 'Time that the caller waited for them, in milliseconds.';
COMMENT ON COLUMN pgflash_io.mean_ms IS 'Mean time of a call, in milliseconds: time_ms / calls.';
COMMENT ON COLUMN pgflash_io.told_calls IS
	'Of the reads: those whose source is known for certain. The others were told by their time; all are certain while the flash cache serves. Null for other operations.';
COMMENT ON COLUMN pgflash_io.worker_calls IS
	'Of the calls: those that an io worker made for this backend type, which perhaps did other things meanwhile.';
COMMENT ON COLUMN pgflash_io.worker_time_ms IS 'Time that the io workers waited for those, in milliseconds.';

CREATE FUNCTION pgflash_io_histogram_rows(
	OUT backend_type text,
	OUT file_class text,
	OUT operation text,
	OUT source text,
	OUT lower_us double precision,
	OUT upper_us double precision,
	OUT calls bigint
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_io_histogram_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 400;

CREATE VIEW pgflash_io_histogram AS SELECT * FROM pgflash_io_histogram_rows();

COMMENT ON FUNCTION pgflash_io_histogram_rows() IS 'What the view pgflash_io_histogram shows.';
COMMENT ON VIEW pgflash_io_histogram IS
	'The times of the calls in pgflash_io: how many took from lower_us to upper_us. Each range is twice as wide as the one before; ranges without calls have no row.';
COMMENT ON COLUMN pgflash_io_histogram.backend_type IS 'As in pgflash_io.';
COMMENT ON COLUMN pgflash_io_histogram.file_class IS 'As in pgflash_io.';
COMMENT ON COLUMN pgflash_io_histogram.operation IS 'As in pgflash_io.';
COMMENT ON COLUMN pgflash_io_histogram.source IS 'As in pgflash_io.';
COMMENT ON COLUMN pgflash_io_histogram.lower_us IS 'They took at least so long, in microseconds.';
COMMENT ON COLUMN pgflash_io_histogram.upper_us IS 'They took less than this, in microseconds.';
COMMENT ON COLUMN pgflash_io_histogram.calls IS 'How many.';

-- Nothing is looked up here: fast, and for whoever takes snapshots.
CREATE FUNCTION pgflash_io_relation_rows(
	OUT tablespace_oid oid,
	OUT database_oid oid,
	OUT relfilenumber oid,
	OUT fork text,
	OUT file_gone boolean,
	OUT reads bigint,
	OUT read_bytes bigint,
	OUT read_time_ms double precision,
	OUT disk_reads bigint,
	OUT disk_read_time_ms double precision,
	OUT page_cache_reads bigint,
	OUT page_cache_read_time_ms double precision,
	OUT flash_reads bigint,
	OUT flash_read_time_ms double precision,
	OUT writes bigint,
	OUT write_bytes bigint,
	OUT write_time_ms double precision,
	OUT extends bigint,
	OUT extend_bytes bigint,
	OUT extend_time_ms double precision,
	OUT syncs bigint,
	OUT sync_time_ms double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_io_relation_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1000;

-- For who looks again and again.
CREATE FUNCTION pgflash_io_relation_changes(
	IN since bigint,
	OUT mark bigint,
	OUT place integer,
	OUT tablespace_oid oid,
	OUT database_oid oid,
	OUT relfilenumber oid,
	OUT fork text,
	OUT file_gone boolean,
	OUT reads bigint,
	OUT read_bytes bigint,
	OUT read_time_ms double precision,
	OUT disk_reads bigint,
	OUT disk_read_time_ms double precision,
	OUT page_cache_reads bigint,
	OUT page_cache_read_time_ms double precision,
	OUT flash_reads bigint,
	OUT flash_read_time_ms double precision,
	OUT writes bigint,
	OUT write_bytes bigint,
	OUT write_time_ms double precision,
	OUT extends bigint,
	OUT extend_bytes bigint,
	OUT extend_time_ms double precision,
	OUT syncs bigint,
	OUT sync_time_ms double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_io_relation_changes'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1000;

CREATE VIEW pgflash_io_relations AS
SELECT
	r.tablespace_oid,
	r.database_oid,
	r.relfilenumber,
	r.fork,
	CASE WHEN r.relfilenumber IS NULL THEN 'other'::text ELSE c.oid::pg_catalog.regclass::text END AS relation,
	r.reads,
	r.read_bytes,
	r.read_time_ms,
	r.disk_reads,
	r.disk_read_time_ms,
	r.page_cache_reads,
	r.page_cache_read_time_ms,
	r.flash_reads,
	r.flash_read_time_ms,
	r.writes,
	r.write_bytes,
	r.write_time_ms,
	r.extends,
	r.extend_bytes,
	r.extend_time_ms,
	r.syncs,
	r.sync_time_ms
FROM pgflash_io_relation_rows() r
LEFT JOIN pg_catalog.pg_database d ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
LEFT JOIN pg_catalog.pg_class c
	ON pg_catalog.pg_relation_filenode(c.oid::pg_catalog.regclass) OPERATOR(pg_catalog.=) r.relfilenumber
	AND CASE WHEN c.reltablespace OPERATOR(pg_catalog.=) 0::oid THEN d.dattablespace ELSE c.reltablespace END
		OPERATOR(pg_catalog.=) r.tablespace_oid
	AND CASE WHEN c.relisshared THEN 0::oid ELSE d.oid END OPERATOR(pg_catalog.=) r.database_oid;

COMMENT ON FUNCTION pgflash_io_relation_rows() IS
	'What the view pgflash_io_relations shows, without names, and whether the file is gone. A relation that was dropped or rewritten stays until its place is needed.';
COMMENT ON FUNCTION pgflash_io_relation_changes(bigint) IS
	'As pgflash_io_relation_rows(), but only what has changed since this session got the mark, which is in every row of its last answer; all if it is another mark or null. A row replaces what an earlier one said of its place.';
COMMENT ON VIEW pgflash_io_relations IS
	'File calls by fork of a relation, in all databases, since the server started.';
COMMENT ON COLUMN pgflash_io_relations.tablespace_oid IS 'OID of the tablespace that the files are in.';
COMMENT ON COLUMN pgflash_io_relations.database_oid IS 'OID of the database; 0 for catalogs that all databases share.';
COMMENT ON COLUMN pgflash_io_relations.relfilenumber IS 'Number of the files, as in pg_class.relfilenode.';
COMMENT ON COLUMN pgflash_io_relations.fork IS 'main, fsm (free space map), vm (visibility map) or init.';
COMMENT ON COLUMN pgflash_io_relations.relation IS
	'The table, index or other relation; null if it is of another database, dropped, rewritten, or not committed yet. "other": all that found no place among pgflash.account_relations.';
COMMENT ON COLUMN pgflash_io_relations.reads IS 'Reads, in calls of the operating system.';
COMMENT ON COLUMN pgflash_io_relations.read_bytes IS 'Bytes read.';
COMMENT ON COLUMN pgflash_io_relations.read_time_ms IS 'Time spent in reads, in milliseconds.';
COMMENT ON COLUMN pgflash_io_relations.disk_reads IS 'Of the reads: those that the disk served.';
COMMENT ON COLUMN pgflash_io_relations.disk_read_time_ms IS 'Time spent in those, in milliseconds.';
COMMENT ON COLUMN pgflash_io_relations.page_cache_reads IS 'Of the reads: those that the page cache of the operating system served.';
COMMENT ON COLUMN pgflash_io_relations.page_cache_read_time_ms IS 'Time spent in those, in milliseconds.';
COMMENT ON COLUMN pgflash_io_relations.flash_reads IS 'Of the reads: those that the flash cache served.';
COMMENT ON COLUMN pgflash_io_relations.flash_read_time_ms IS 'Time spent in those, in milliseconds.';
COMMENT ON COLUMN pgflash_io_relations.writes IS 'Writes within the file, in calls.';
COMMENT ON COLUMN pgflash_io_relations.write_bytes IS 'Bytes of those.';
COMMENT ON COLUMN pgflash_io_relations.write_time_ms IS 'Time spent in those, in milliseconds.';
COMMENT ON COLUMN pgflash_io_relations.extends IS 'Writes and allocations beyond the end of the file, in calls.';
COMMENT ON COLUMN pgflash_io_relations.extend_bytes IS 'Bytes of those.';
COMMENT ON COLUMN pgflash_io_relations.extend_time_ms IS 'Time spent in those, in milliseconds.';
COMMENT ON COLUMN pgflash_io_relations.syncs IS 'fsync and fdatasync, in calls.';
COMMENT ON COLUMN pgflash_io_relations.sync_time_ms IS 'Time spent in those, in milliseconds.';

CREATE FUNCTION pgflash_io_tablespace_rows(
	OUT tablespace_oid oid,
	OUT reads bigint,
	OUT read_bytes bigint,
	OUT read_time_ms double precision,
	OUT disk_reads bigint,
	OUT disk_read_time_ms double precision,
	OUT page_cache_reads bigint,
	OUT page_cache_read_time_ms double precision,
	OUT flash_reads bigint,
	OUT flash_read_time_ms double precision,
	OUT writes bigint,
	OUT write_bytes bigint,
	OUT write_time_ms double precision,
	OUT extends bigint,
	OUT extend_bytes bigint,
	OUT extend_time_ms double precision,
	OUT syncs bigint,
	OUT sync_time_ms double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_io_tablespace_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 4;

CREATE VIEW pgflash_io_tablespaces AS
SELECT
	r.tablespace_oid,
	t.spcname AS tablespace,
	r.reads,
	r.read_bytes,
	r.read_time_ms,
	r.disk_reads,
	r.disk_read_time_ms,
	r.page_cache_reads,
	r.page_cache_read_time_ms,
	r.flash_reads,
	r.flash_read_time_ms,
	r.writes,
	r.write_bytes,
	r.write_time_ms,
	r.extends,
	r.extend_bytes,
	r.extend_time_ms,
	r.syncs,
	r.sync_time_ms
FROM pgflash_io_tablespace_rows() r
LEFT JOIN pg_catalog.pg_tablespace t ON t.oid OPERATOR(pg_catalog.=) r.tablespace_oid;

COMMENT ON FUNCTION pgflash_io_tablespace_rows() IS 'What the view pgflash_io_tablespaces shows, without names.';
COMMENT ON VIEW pgflash_io_tablespaces IS
	'File calls of relations by tablespace, since the server started, those of dropped relations included.';
COMMENT ON COLUMN pgflash_io_tablespaces.tablespace_oid IS
	'OID of the tablespace; null for all together that were used after the first 31.';
COMMENT ON COLUMN pgflash_io_tablespaces.tablespace IS 'Its name; null if it was dropped.';
COMMENT ON COLUMN pgflash_io_tablespaces.reads IS 'Reads, in calls of the operating system.';
COMMENT ON COLUMN pgflash_io_tablespaces.read_bytes IS 'Bytes read.';
COMMENT ON COLUMN pgflash_io_tablespaces.read_time_ms IS 'Time spent in reads, in milliseconds.';
COMMENT ON COLUMN pgflash_io_tablespaces.disk_reads IS 'Of the reads: those that the disk served.';
COMMENT ON COLUMN pgflash_io_tablespaces.disk_read_time_ms IS 'Time spent in those, in milliseconds.';
COMMENT ON COLUMN pgflash_io_tablespaces.page_cache_reads IS 'Of the reads: those that the page cache of the operating system served.';
COMMENT ON COLUMN pgflash_io_tablespaces.page_cache_read_time_ms IS 'Time spent in those, in milliseconds.';
COMMENT ON COLUMN pgflash_io_tablespaces.flash_reads IS 'Of the reads: those that the flash cache served.';
COMMENT ON COLUMN pgflash_io_tablespaces.flash_read_time_ms IS 'Time spent in those, in milliseconds.';
COMMENT ON COLUMN pgflash_io_tablespaces.writes IS 'Writes within the file, in calls.';
COMMENT ON COLUMN pgflash_io_tablespaces.write_bytes IS 'Bytes of those.';
COMMENT ON COLUMN pgflash_io_tablespaces.write_time_ms IS 'Time spent in those, in milliseconds.';
COMMENT ON COLUMN pgflash_io_tablespaces.extends IS 'Writes and allocations beyond the end of the file, in calls.';
COMMENT ON COLUMN pgflash_io_tablespaces.extend_bytes IS 'Bytes of those.';
COMMENT ON COLUMN pgflash_io_tablespaces.extend_time_ms IS 'Time spent in those, in milliseconds.';
COMMENT ON COLUMN pgflash_io_tablespaces.syncs IS 'fsync and fdatasync, in calls.';
COMMENT ON COLUMN pgflash_io_tablespaces.sync_time_ms IS 'Time spent in those, in milliseconds.';

CREATE FUNCTION pgflash_wal_row(
	OUT writes bigint,
	OUT write_bytes bigint,
	OUT write_time_ms double precision,
	OUT syncs bigint,
	OUT sync_time_ms double precision,
	OUT wastage_bytes bigint,
	OUT stats_since timestamptz
)
AS 'MODULE_PATHNAME', 'pgflash_wal_row'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE VIEW pgflash_wal AS
SELECT
	r.writes,
	r.write_bytes,
	r.write_time_ms,
	CASE WHEN r.writes OPERATOR(pg_catalog.<>) 0::bigint
		THEN r.write_time_ms OPERATOR(pg_catalog./) r.writes::double precision END AS write_mean_ms,
	r.syncs,
	r.sync_time_ms,
	CASE WHEN r.syncs OPERATOR(pg_catalog.<>) 0::bigint
		THEN r.sync_time_ms OPERATOR(pg_catalog./) r.syncs::double precision END AS sync_mean_ms,
	w.wal_records,
	w.wal_fpi,
	w.wal_bytes,
	r.wastage_bytes,
	r.stats_since
FROM pgflash_wal_row() r, pg_catalog.pg_stat_wal w;

COMMENT ON FUNCTION pgflash_wal_row() IS 'What the view pgflash_wal shows, but for the columns of pg_stat_wal.';
COMMENT ON VIEW pgflash_wal IS
	'Writes and syncs of the WAL, in one row, since the server started. Segments being made are not in it; they are "wal init" in pgflash_io.';
COMMENT ON COLUMN pgflash_wal.writes IS 'Writes, in calls.';
COMMENT ON COLUMN pgflash_wal.write_bytes IS 'Bytes written.';
COMMENT ON COLUMN pgflash_wal.write_time_ms IS
	'Time spent in writes, in milliseconds; with wal_sync_method = open_sync or open_datasync that of syncs is in it.';
COMMENT ON COLUMN pgflash_wal.write_mean_ms IS 'Mean time of a write, in milliseconds; null if there was none.';
COMMENT ON COLUMN pgflash_wal.syncs IS 'fsync and fdatasync, in calls.';
COMMENT ON COLUMN pgflash_wal.sync_time_ms IS 'Time spent in those, in milliseconds.';
COMMENT ON COLUMN pgflash_wal.sync_mean_ms IS 'Mean time of a sync, in milliseconds; null if there was none.';
COMMENT ON COLUMN pgflash_wal.wal_records IS 'WAL records generated, as in pg_stat_wal: since its own stats_reset.';
COMMENT ON COLUMN pgflash_wal.wal_fpi IS 'Full page images generated, as in pg_stat_wal.';
COMMENT ON COLUMN pgflash_wal.wal_bytes IS 'Bytes of WAL generated, as in pg_stat_wal.';
COMMENT ON COLUMN pgflash_wal.wastage_bytes IS
	'Of the bytes written: those written again, since WAL is written in whole pages and the last one was not full (Oracle: redo wastage).';
COMMENT ON COLUMN pgflash_wal.stats_since IS
	'When counting began, in this view and in all of pgflash_io: the start of the server. A crash of one of its processes does not begin anew. Null if nothing is counted.';

-- ---- snapshots ------------------------------------------------------------------

COMMENT ON TABLE pgflash_snapshots IS 'Snapshots of what the server had counted. Not part of dumps.';
COMMENT ON COLUMN pgflash_snapshots.snapshot_id IS 'Number of the snapshot; a later one has a higher number.';
COMMENT ON COLUMN pgflash_snapshots.taken_at IS 'When it was taken.';
COMMENT ON COLUMN pgflash_snapshots.started_at IS
	'When the server had begun to count: at its start, or after its last crash. Snapshots with different ones cannot be subtracted.';
COMMENT ON COLUMN pgflash_snapshots.previous_id IS
	'The snapshot before, from which its sections of kind delta count; null if the server has started since, or if it was the first one.';
COMMENT ON COLUMN pgflash_snapshots.took_ms IS 'How long it took, in milliseconds, without waiting for another one.';
COMMENT ON COLUMN pgflash_snapshots.origin IS 'schedule or command.';
COMMENT ON COLUMN pgflash_snapshots.server_version_num IS 'Version of the server, as in server_version_num.';
COMMENT ON COLUMN pgflash_snapshots.extension_version IS 'Version of the extension.';

COMMENT ON TABLE pgflash_snapshot_sections IS 'What the snapshots hold, by section.';
COMMENT ON COLUMN pgflash_snapshot_sections.snapshot_id IS 'The snapshot.';
COMMENT ON COLUMN pgflash_snapshot_sections.section IS 'Name of the section.';
COMMENT ON COLUMN pgflash_snapshot_sections.kind IS
	'counter: cumulative; gauge: as of the moment of the snapshot; delta: since the snapshot before.';
COMMENT ON COLUMN pgflash_snapshot_sections.content IS
	'{"columns": [...], "rows": [[...], ...]}; docs/reference/snapshots.md lists the columns.';

COMMENT ON TABLE pgflash_snapshot_queries IS 'Texts of the statements that snapshots name.';
COMMENT ON COLUMN pgflash_snapshot_queries.query_id IS 'As in pg_stat_statements.';
COMMENT ON COLUMN pgflash_snapshot_queries.query IS 'The first 4000 characters.';
COMMENT ON COLUMN pgflash_snapshot_queries.used_at IS 'When a snapshot last named it, to a day.';

COMMENT ON TABLE pgflash_snapshot_last IS 'What the next snapshot subtracts from; of use to pgflash_snapshot() only.';

CREATE FUNCTION pgflash_snapshot() RETURNS bigint
AS 'MODULE_PATHNAME', 'pgflash_snapshot'
LANGUAGE C VOLATILE PARALLEL UNSAFE SECURITY DEFINER;

COMMENT ON FUNCTION pgflash_snapshot() IS
	'Takes a snapshot and returns its number. Resets nothing. Waits for one that is being taken.';

CREATE FUNCTION pgflash_snapshot_drop(before timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
BEGIN ATOMIC
	DELETE FROM pgflash_snapshot_queries
		WHERE used_at OPERATOR(pg_catalog.<) (before OPERATOR(pg_catalog.-) interval '1 day');
	-- Not left to the foreign key alone, which does nothing where triggers do not fire.
	DELETE FROM pgflash_snapshot_sections s USING pgflash_snapshots h
		WHERE h.snapshot_id OPERATOR(pg_catalog.=) s.snapshot_id AND h.taken_at OPERATOR(pg_catalog.<) before;
	WITH dropped AS (
		DELETE FROM pgflash_snapshots WHERE taken_at OPERATOR(pg_catalog.<) before RETURNING snapshot_id
	)
	SELECT pg_catalog.count(*) FROM dropped;
END;

COMMENT ON FUNCTION pgflash_snapshot_drop(timestamptz) IS
	'Drops the snapshots that were taken before this time, and returns how many there were.';

-- ---- the sampler ----------------------------------------------------------------

CREATE FUNCTION pgflash_active_sessions_rows(
	since timestamptz,
	until timestamptz,
	OUT sample_id bigint,
	OUT sampled_at timestamptz,
	OUT seconds double precision,
	OUT pid integer,
	OUT leader_pid integer,
	OUT backend_type text,
	OUT database_oid oid,
	OUT user_oid oid,
	OUT query_id bigint,
	OUT query_start timestamptz,
	OUT state text,
	OUT wait_event_type text,
	OUT wait_event text,
	OUT wait_class text
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_active_sessions_rows'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE VIEW pgflash_active_sessions AS SELECT * FROM pgflash_active_sessions_rows(
	'-infinity'::timestamptz,
	'infinity'::timestamptz
);

COMMENT ON FUNCTION pgflash_active_sessions_rows(timestamptz, timestamptz) IS
	'What the view pgflash_active_sessions shows, of one period: from since to just before until.';
COMMENT ON VIEW pgflash_active_sessions IS
	'What sessions were doing, each time the sampler looked (Oracle: V$ACTIVE_SESSION_HISTORY). Sessions that were idle have no row.';
COMMENT ON COLUMN pgflash_active_sessions.sample_id IS 'Number of the look; 1 was the first since the server started.';
COMMENT ON COLUMN pgflash_active_sessions.sampled_at IS 'When the sampler looked.';
COMMENT ON COLUMN pgflash_active_sessions.seconds IS
	'How much time the row stands for, in seconds. Their sum is time spent, also where the rate was changed.';
COMMENT ON COLUMN pgflash_active_sessions.pid IS 'Process ID.';
COMMENT ON COLUMN pgflash_active_sessions.leader_pid IS 'Process ID of the session that a parallel worker works for; else null.';
COMMENT ON COLUMN pgflash_active_sessions.backend_type IS 'As in pg_stat_activity.';
COMMENT ON COLUMN pgflash_active_sessions.database_oid IS 'OID of the database; null for processes that are in none.';
COMMENT ON COLUMN pgflash_active_sessions.user_oid IS 'OID of the user; null for processes that have none.';
COMMENT ON COLUMN pgflash_active_sessions.query_id IS
	'Identifier of the query, as in pg_stat_statements; null if it was not computed (compute_query_id), or not yet.';
COMMENT ON COLUMN pgflash_active_sessions.query_start IS 'When the query began.';
COMMENT ON COLUMN pgflash_active_sessions.state IS 'As in pg_stat_activity; null for most background processes.';
COMMENT ON COLUMN pgflash_active_sessions.wait_event_type IS 'As in pg_stat_activity; null: it waited for nothing that PostgreSQL names, so it was at work.';
COMMENT ON COLUMN pgflash_active_sessions.wait_event IS 'As in pg_stat_activity.';
COMMENT ON COLUMN pgflash_active_sessions.wait_class IS
	'What the wait means to a client: CPU (a statement without a wait), User I/O, Commit, Configuration, Concurrency, Application, Network or Other; System I/O and Idle are not database time.';

CREATE FUNCTION pgflash_sample_summary(
	since timestamptz,
	until timestamptz,
	OUT bucket timestamptz,
	OUT backend_type text,
	OUT database_oid oid,
	OUT user_oid oid,
	OUT query_id bigint,
	OUT state text,
	OUT wait_event_type text,
	OUT wait_event text,
	OUT wait_class text,
	OUT samples bigint,
	OUT seconds double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_sample_summary'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pgflash_sample_summary(timestamptz, timestamptz) IS
	'What pgflash_active_sessions has of a period, from since to just before until, added up by the minute.';

CREATE FUNCTION pgflash_sample_minutes(
	since timestamptz,
	until timestamptz,
	OUT bucket timestamptz,
	OUT looks bigint,
	OUT seconds double precision,
	OUT gap_seconds double precision,
	OUT missed_looks bigint,
	OUT idle_sessions double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_sample_minutes'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION pgflash_sample_minutes(timestamptz, timestamptz) IS
	'How often the sampler looked in a period, from since to just before until, by the minute, and for how long it did not.';

CREATE FUNCTION pgflash_sampler_row(
	OUT running boolean,
	OUT pid integer,
	OUT rate_hz integer,
	OUT looks bigint,
	OUT missed_looks bigint,
	OUT gap_seconds double precision,
	OUT oldest_at timestamptz,
	OUT newest_at timestamptz,
	OUT looks_kept bigint,
	OUT records_kept bigint,
	OUT ring_bytes bigint,
	OUT cpu_seconds double precision,
	OUT cpu_user_s double precision,
	OUT cpu_system_s double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_sampler_row'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 1;

CREATE VIEW pgflash_sampler AS SELECT * FROM pgflash_sampler_row();

COMMENT ON FUNCTION pgflash_sampler_row() IS 'What the view pgflash_sampler shows.';
COMMENT ON VIEW pgflash_sampler IS 'The sampler, in one row. No row if pgflash.sample_memory is 0.';
COMMENT ON COLUMN pgflash_sampler.running IS 'Whether the background worker "pgflash sampler" is there.';
COMMENT ON COLUMN pgflash_sampler.pid IS 'Its process ID.';
COMMENT ON COLUMN pgflash_sampler.rate_hz IS 'How often a second it looks; 0: not at all.';
COMMENT ON COLUMN pgflash_sampler.looks IS 'Looks since the server started.';
COMMENT ON COLUMN pgflash_sampler.missed_looks IS 'Looks that should have been made and were not: the sampler was stopped, or kept waiting for a processor.';
COMMENT ON COLUMN pgflash_sampler.gap_seconds IS 'Time for which no look stands, in seconds, whether looks were missed or pgflash.sample_rate was 0.';
COMMENT ON COLUMN pgflash_sampler.oldest_at IS 'Time of the oldest look that is kept.';
COMMENT ON COLUMN pgflash_sampler.newest_at IS 'Time of the newest look.';
COMMENT ON COLUMN pgflash_sampler.looks_kept IS 'Looks that are kept.';
COMMENT ON COLUMN pgflash_sampler.records_kept IS 'Rows of pgflash_active_sessions that are kept.';
COMMENT ON COLUMN pgflash_sampler.ring_bytes IS 'Shared memory for them: 40 bytes for each look and for each row.';
COMMENT ON COLUMN pgflash_sampler.cpu_seconds IS 'Processor time that the sampler itself has used, in seconds.';
COMMENT ON COLUMN pgflash_sampler.cpu_user_s IS
	'Processor time of client backends and parallel workers in user mode, in seconds, those that have ended included as far as they were seen; null if /proc cannot be read.';
COMMENT ON COLUMN pgflash_sampler.cpu_system_s IS 'The same in system mode, in seconds.';

CREATE FUNCTION pgflash_backend_cpu_rows(
	OUT backend_type text,
	OUT processes bigint,
	OUT cpu_user_s double precision,
	OUT cpu_system_s double precision,
	OUT cpu_seconds double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_backend_cpu_rows'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 16;

CREATE VIEW pgflash_backend_cpu AS SELECT * FROM pgflash_backend_cpu_rows();

COMMENT ON FUNCTION pgflash_backend_cpu_rows() IS 'What the view pgflash_backend_cpu shows.';
COMMENT ON VIEW pgflash_backend_cpu IS
	'Processor time of the server''s processes since it started, by type, read from /proc once a second. No row where that cannot be read.';
COMMENT ON COLUMN pgflash_backend_cpu.backend_type IS
	'As in pg_stat_activity; postmaster; unattributed: processes that ended before they were seen, or after they were last seen, and programs that the server ran.';
COMMENT ON COLUMN pgflash_backend_cpu.processes IS 'How many there are now.';
COMMENT ON COLUMN pgflash_backend_cpu.cpu_user_s IS 'Seconds in user mode, of those that have ended, too.';
COMMENT ON COLUMN pgflash_backend_cpu.cpu_system_s IS 'Seconds in system mode.';
COMMENT ON COLUMN pgflash_backend_cpu.cpu_seconds IS 'Both together, in seconds.';

-- ---- wait events ------------------------------------------------------------------

CREATE FUNCTION pgflash_wait_class(backend_type text, wait_event_type text, wait_event text) RETURNS text
AS 'MODULE_PATHNAME', 'pgflash_wait_class'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION pgflash_wait_class(text, text, text) IS
	'The wait class of a wait event of a process of this type; null for a type is a client backend, null for an event none.';

CREATE FUNCTION pgflash_wait_events_rows(
	OUT wait_event_type text,
	OUT wait_event text,
	OUT wait_class text
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_wait_events_rows'
LANGUAGE C STABLE STRICT PARALLEL SAFE ROWS 250;

CREATE VIEW pgflash_wait_events AS SELECT * FROM pgflash_wait_events_rows();

COMMENT ON FUNCTION pgflash_wait_events_rows() IS 'What the view pgflash_wait_events shows.';
COMMENT ON VIEW pgflash_wait_events IS
	'The wait events that this server knows and their classes. Of other extensions'' events only the types are known.';
COMMENT ON COLUMN pgflash_wait_events.wait_event_type IS 'As in pg_stat_activity.';
COMMENT ON COLUMN pgflash_wait_events.wait_event IS 'As in pg_stat_activity.';
COMMENT ON COLUMN pgflash_wait_events.wait_class IS
	'Its class where a client backend or a parallel worker waits. Others'' waits are System I/O, or Idle.';

-- ---- functions ----------------------------------------------------------------

CREATE FUNCTION pgflash_cache_set_mode(mode text) RETURNS void
AS 'MODULE_PATHNAME', 'pgflash_cache_set_mode'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pgflash_cache_set_mode(text) IS
	'Changes the mode of the cache for all sessions at once: serve, passthrough or offline. Offline lasts until the server restarts.';

CREATE FUNCTION pgflash_cache_clear() RETURNS void
AS 'MODULE_PATHNAME', 'pgflash_cache_clear'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pgflash_cache_clear() IS 'Drops every block from the cache.';

CREATE FUNCTION pgflash_cache_verify(OUT compared bigint, OUT mismatched bigint)
AS 'MODULE_PATHNAME', 'pgflash_cache_verify'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pgflash_cache_verify() IS
	'Compares every cached block with its file. Blocks that change meanwhile are left out. A mismatch takes the cache offline.';

CREATE FUNCTION pgflash_drive_writes_per_day(capacity_bytes bigint) RETURNS double precision
AS 'MODULE_PATHNAME', 'pgflash_drive_writes_per_day'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION pgflash_drive_writes_per_day(bigint) IS
	'How many times a day flash of this capacity (of all cache files'' drives together) is written in full, by what was written in the last 24 hours or since the cache files were made.';

-- ---- rights -------------------------------------------------------------------

REVOKE ALL ON FUNCTION pgflash_cache_row() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_devices_rows() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_relations_rows() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_advice_rows() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_drive_writes_per_day(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_set_mode(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_clear() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_cache_verify() FROM PUBLIC;
REVOKE ALL ON pgflash_cache, pgflash_cache_devices, pgflash_relations FROM PUBLIC;
REVOKE ALL ON pgflash_cache_advice FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_io_rows(), pgflash_io_histogram_rows() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_io_relation_rows(), pgflash_io_tablespace_rows() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_io_relation_changes(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_wal_row() FROM PUBLIC;
REVOKE ALL ON pgflash_io, pgflash_io_histogram, pgflash_io_relations FROM PUBLIC;
REVOKE ALL ON pgflash_io_tablespaces, pgflash_wal FROM PUBLIC;

-- pg_dump reads the table with the rights of whoever runs it.
GRANT SELECT ON pgflash_cache_policies, pgflash_cache_policy TO PUBLIC;

GRANT EXECUTE ON FUNCTION pgflash_cache_row() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_cache_devices_rows() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_relations_rows() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_cache_advice_rows() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_drive_writes_per_day(bigint) TO pg_monitor;
GRANT SELECT ON pgflash_cache_advice TO pg_monitor;
GRANT SELECT ON pgflash_cache, pgflash_cache_devices, pgflash_relations TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_io_rows(), pgflash_io_histogram_rows() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_io_relation_rows(), pgflash_io_tablespace_rows() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_io_relation_changes(bigint) TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_wal_row() TO pg_monitor;
GRANT SELECT ON pgflash_io, pgflash_io_histogram, pgflash_io_relations TO pg_monitor;
GRANT SELECT ON pgflash_io_tablespaces, pgflash_wal TO pg_monitor;

REVOKE ALL ON pgflash_snapshots, pgflash_snapshot_sections, pgflash_snapshot_queries, pgflash_snapshot_last FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_snapshot() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_snapshot_drop(timestamptz) FROM PUBLIC;
GRANT SELECT ON pgflash_snapshots, pgflash_snapshot_sections, pgflash_snapshot_queries TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_snapshot() TO pg_monitor;

-- Everybody sees his own sessions, as in pg_stat_activity.
GRANT SELECT ON pgflash_active_sessions, pgflash_wait_events TO PUBLIC;

REVOKE ALL ON FUNCTION pgflash_sample_summary(timestamptz, timestamptz) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_sample_minutes(timestamptz, timestamptz) FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_sampler_row() FROM PUBLIC;
REVOKE ALL ON FUNCTION pgflash_backend_cpu_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_sampler, pgflash_backend_cpu FROM PUBLIC;

GRANT EXECUTE ON FUNCTION pgflash_sample_summary(timestamptz, timestamptz) TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_sample_minutes(timestamptz, timestamptz) TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_sampler_row() TO pg_monitor;
GRANT EXECUTE ON FUNCTION pgflash_backend_cpu_rows() TO pg_monitor;
GRANT SELECT ON pgflash_sampler, pgflash_backend_cpu TO pg_monitor;
