-- pgflash's views and the functions that return rows, with their comments and rights.
-- SPDX-License-Identifier: PostgreSQL
--
-- Generated from definitions/ by `make generate`.

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

CREATE VIEW pgflash_active_sessions AS SELECT * FROM pgflash_active_sessions_rows('-infinity'::timestamptz, 'infinity'::timestamptz);

COMMENT ON FUNCTION pgflash_active_sessions_rows(timestamptz, timestamptz) IS
	'The rows of the view pgflash_active_sessions for one period: from since to just before until.';
COMMENT ON VIEW pgflash_active_sessions IS
	'What sessions were doing at each sample (Oracle: V$ACTIVE_SESSION_HISTORY). Idle sessions have no row.';
COMMENT ON COLUMN pgflash_active_sessions.sample_id IS
	'Number of the sample; the first since the server started is 1.';
COMMENT ON COLUMN pgflash_active_sessions.sampled_at IS
	'When the sample was taken.';
COMMENT ON COLUMN pgflash_active_sessions.seconds IS
	'Time that the row represents, in seconds. The sum over rows is time spent, even if the sample rate was changed.';
COMMENT ON COLUMN pgflash_active_sessions.pid IS
	'Process ID.';
COMMENT ON COLUMN pgflash_active_sessions.leader_pid IS
	'Process ID of the session that a parallel worker works for; null for other processes.';
COMMENT ON COLUMN pgflash_active_sessions.backend_type IS
	'As in pg_stat_activity.';
COMMENT ON COLUMN pgflash_active_sessions.database_oid IS
	'OID of the database; null for processes without one.';
COMMENT ON COLUMN pgflash_active_sessions.user_oid IS
	'OID of the user; null for processes without one.';
COMMENT ON COLUMN pgflash_active_sessions.query_id IS
	'Identifier of the query, as in pg_stat_statements; null if it was not computed (compute_query_id), or not yet.';
COMMENT ON COLUMN pgflash_active_sessions.query_start IS
	'When the query began.';
COMMENT ON COLUMN pgflash_active_sessions.state IS
	'As in pg_stat_activity; null for most background processes.';
COMMENT ON COLUMN pgflash_active_sessions.wait_event_type IS
	'As in pg_stat_activity; null if the process was working: it waited for nothing that PostgreSQL names.';
COMMENT ON COLUMN pgflash_active_sessions.wait_event IS
	'As in pg_stat_activity.';
COMMENT ON COLUMN pgflash_active_sessions.wait_class IS
	'What the wait means to a client: CPU (a statement without a wait), User I/O, Commit, Configuration, Concurrency, Application, Network or Other. System I/O and Idle are not DB time.';
GRANT SELECT ON pgflash_active_sessions TO PUBLIC;

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

COMMENT ON FUNCTION pgflash_backend_cpu_rows() IS
	'What the view pgflash_backend_cpu shows.';
COMMENT ON VIEW pgflash_backend_cpu IS
	'CPU time of the server''s processes since it started, by type, read from /proc once a second. No rows where /proc cannot be read.';
COMMENT ON COLUMN pgflash_backend_cpu.backend_type IS
	'As in pg_stat_activity; or postmaster; or unattributed: processes that ended before they were seen or after they were last seen, and programs that the server ran.';
COMMENT ON COLUMN pgflash_backend_cpu.processes IS
	'Processes of this type now.';
COMMENT ON COLUMN pgflash_backend_cpu.cpu_user_s IS
	'CPU time in user mode, including processes that have ended, in seconds.';
COMMENT ON COLUMN pgflash_backend_cpu.cpu_system_s IS
	'CPU time in system mode, in seconds.';
COMMENT ON COLUMN pgflash_backend_cpu.cpu_seconds IS
	'The sum of both, in seconds.';
REVOKE ALL ON FUNCTION pgflash_backend_cpu_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_backend_cpu FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_backend_cpu_rows() TO pg_monitor;
GRANT SELECT ON pgflash_backend_cpu TO pg_monitor;

COMMENT ON TABLE pgflash_baselines IS
	'Named periods whose snapshots are kept: neither pgflash.snapshot_retention nor pgflash_snapshot_drop() drops them. Not part of dumps.';
COMMENT ON COLUMN pgflash_baselines.name IS
	'Name of the baseline.';
COMMENT ON COLUMN pgflash_baselines.begin_id IS
	'Its first snapshot.';
COMMENT ON COLUMN pgflash_baselines.end_id IS
	'Its last snapshot.';
COMMENT ON COLUMN pgflash_baselines.kept_at IS
	'When it was made.';

CREATE FUNCTION pgflash_cache_row(
	OUT mode text,
	OUT mode_reason text,
	OUT start_reason text,
	OUT cache_file text,
	OUT direct_io boolean,
	OUT io_engine text,
	OUT page_cache_check text,
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
	OUT neighbour_reads bigint,
	OUT neighbour_inserts bigint,
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
	OUT missing_workers text,
	OUT metadata_bytes bigint,
	OUT metadata_huge_bytes bigint,
	OUT metadata_bytes_per_block double precision
)
AS 'MODULE_PATHNAME', 'pgflash_cache_row'
LANGUAGE C VOLATILE PARALLEL SAFE;

CREATE VIEW pgflash_cache AS SELECT * FROM pgflash_cache_row();

COMMENT ON FUNCTION pgflash_cache_row() IS
	'What the view pgflash_cache shows.';
COMMENT ON VIEW pgflash_cache IS
	'The flash cache of this server, in one row. Counts begin at 0 when the server starts or restarts after a crash.';
COMMENT ON COLUMN pgflash_cache.mode IS
	'serve: the cache answers reads and adds blocks. passthrough: it only drops blocks that change, and stays warm. offline: it is not used until the next start.';
COMMENT ON COLUMN pgflash_cache.mode_reason IS
	'Why the cache is in this mode.';
COMMENT ON COLUMN pgflash_cache.start_reason IS
	'Whether the cache started warm, with the blocks it held before the restart, or cold, and why.';
COMMENT ON COLUMN pgflash_cache.cache_file IS
	'The setting pgflash.cache_file.';
COMMENT ON COLUMN pgflash_cache.direct_io IS
	'Whether the cache files are read and written without the page cache (O_DIRECT).';
COMMENT ON COLUMN pgflash_cache.io_engine IS
	'How this session reads the cache files: aio (many blocks at once, with a deadline), or plain where the kernel allows no AIO. A file on tmpfs is read by one plain call a block, whatever it says.';
COMMENT ON COLUMN pgflash_cache.page_cache_check IS
	'How pgflash asks whether the page cache has a block: cachestat; mincore, if cachestat is missing or forbidden; or none: then flash is tried first, and also holds blocks that are in memory.';
COMMENT ON COLUMN pgflash_cache.size_bytes IS
	'Size of the cache in bytes; while it is being resized, its new size.';
COMMENT ON COLUMN pgflash_cache.size_max_bytes IS
	'The size that the cache can grow to without a restart, in bytes.';
COMMENT ON COLUMN pgflash_cache.resize_progress IS
	'How much of a resize is done, from 0 to 1; null if no resize is running.';
COMMENT ON COLUMN pgflash_cache.resize_reason IS
	'Why the cache does not have the size of pgflash.cache_size; null if it has that size, or soon will.';
COMMENT ON COLUMN pgflash_cache.slots IS
	'Blocks of 8 kB that the cache can hold.';
COMMENT ON COLUMN pgflash_cache.used_slots IS
	'Blocks that the cache holds now.';
COMMENT ON COLUMN pgflash_cache.used_bytes IS
	'Bytes that the cache holds now.';
COMMENT ON COLUMN pgflash_cache.keep_blocks IS
	'Blocks in the cache now that belong to relations with the cache policy keep.';
COMMENT ON COLUMN pgflash_cache.hits IS
	'Blocks that the cache had: read from flash, or from the staging ring. Oracle: physical read flash cache hits.';
COMMENT ON COLUMN pgflash_cache.staged_hits IS
	'Hits on blocks that were still in the staging ring, not yet on flash.';
COMMENT ON COLUMN pgflash_cache.misses IS
	'Blocks looked up in the cache that it did not serve. Blocks in the page cache are not looked up.';
COMMENT ON COLUMN pgflash_cache.hit_ratio IS
	'hits / (hits + misses); null before the first lookup.';
COMMENT ON COLUMN pgflash_cache.page_cache_reads IS
	'Blocks that were read from the operating system''s page cache, which had them.';
COMMENT ON COLUMN pgflash_cache.inserts IS
	'Blocks added to the cache, including refreshed ones. Oracle: flash cache inserts.';
COMMENT ON COLUMN pgflash_cache.eviction_invalidated IS
	'Blocks dropped because they changed. Oracle: flash cache eviction: invalidated.';
COMMENT ON COLUMN pgflash_cache.eviction_aged_out IS
	'Blocks dropped to make room for others. Oracle: flash cache eviction: aged out.';
COMMENT ON COLUMN pgflash_cache.eviction_buffer_pinned IS
	'Blocks chosen to make room but kept because they were in use. Oracle: flash cache eviction: buffer pinned.';
COMMENT ON COLUMN pgflash_cache.insert_skip_not_current IS
	'Blocks not added because their file was dropped or truncated, or the mode changed, after they were read. Oracle: flash cache insert skip: not current.';
COMMENT ON COLUMN pgflash_cache.insert_skip_writer_overloaded IS
	'Blocks not added because the staging ring was full, or because too many blocks were being added to the same set. Oracle: flash cache insert skip: DBWR overloaded.';
COMMENT ON COLUMN pgflash_cache.insert_skip_exists IS
	'Blocks not added because the cache already had them. Oracle: flash cache insert skip: exists.';
COMMENT ON COLUMN pgflash_cache.insert_skip_not_useful IS
	'Blocks not added because the replacement policy preferred the blocks already there, or because the blocks from before a restart were still to be loaded. Oracle: flash cache insert skip: not useful.';
COMMENT ON COLUMN pgflash_cache.insert_skip_modification IS
	'Blocks not added because they, or a neighbour in the index, changed after they were read. Oracle: flash cache insert skip: modification.';
COMMENT ON COLUMN pgflash_cache.insert_skip_corrupt IS
	'Blocks dropped because they could not be written completely. Oracle: flash cache insert skip: corrupt.';
COMMENT ON COLUMN pgflash_cache.insert_skip_budget IS
	'Blocks not added, or not refreshed, because pgflash.write_budget was used up.';
COMMENT ON COLUMN pgflash_cache.insert_skip_device IS
	'Blocks not added because their cache file was bypassed or out of use or, if there are several files, late with its writes.';
COMMENT ON COLUMN pgflash_cache.insert_skip_invalid IS
	'Blocks not added because the disk returned an invalid page, judged by its checksum (in a cluster with data checksums) or its header.';
COMMENT ON COLUMN pgflash_cache.bypass_reads IS
	'Reads that bypassed the cache: base backups, parts of blocks and files being copied (in calls); runs of large scans and relations with the cache policy none (in blocks).';
COMMENT ON COLUMN pgflash_cache.updates IS
	'Inserts that refreshed a cached block after it was written, in blocks.';
COMMENT ON COLUMN pgflash_cache.coalesced_updates IS
	'Updates that replaced a copy before the copy was written to flash, which saved that write.';
COMMENT ON COLUMN pgflash_cache.invalidations IS
	'Changes of relation files announced to the cache, each of one block or a range of blocks.';
COMMENT ON COLUMN pgflash_cache.prefetches_swallowed IS
	'Prefetch requests not passed on because flash had the blocks; they are fetched from there.';
COMMENT ON COLUMN pgflash_cache.neighbour_reads IS
	'Reads from disk that also read the blocks around the one that was asked for, in calls.';
COMMENT ON COLUMN pgflash_cache.neighbour_inserts IS
	'Blocks added to the cache by neighbour_reads; inserts counts them, too.';
COMMENT ON COLUMN pgflash_cache.flash_reads IS
	'Reads of the cache files, in calls.';
COMMENT ON COLUMN pgflash_cache.flash_read_bytes IS
	'Bytes read from the cache files.';
COMMENT ON COLUMN pgflash_cache.flash_writes IS
	'Writes of the cache files, in calls.';
COMMENT ON COLUMN pgflash_cache.flash_write_bytes IS
	'Bytes written to the cache files.';
COMMENT ON COLUMN pgflash_cache.flash_write_bytes_day IS
	'Bytes written to the cache files in the last 24 hours, including those before a restart; null without a cache.';
COMMENT ON COLUMN pgflash_cache.write_budget_left_bytes IS
	'What is left of pgflash.write_budget for the day, in bytes; null if there is no budget.';
COMMENT ON COLUMN pgflash_cache.flash_read_errors IS
	'Reads of the cache files that failed or returned too few bytes.';
COMMENT ON COLUMN pgflash_cache.read_timeouts IS
	'Reads of the cache files that exceeded pgflash.read_deadline; the blocks were read from disk instead.';
COMMENT ON COLUMN pgflash_cache.flash_write_errors IS
	'Writes of the cache files that failed or wrote too few bytes.';
COMMENT ON COLUMN pgflash_cache.corrupt_slots IS
	'Blocks that flash returned with a wrong checksum; none was used.';
COMMENT ON COLUMN pgflash_cache.disk_reads IS
	'Reads of relation files that neither the page cache nor flash could serve, in calls.';
COMMENT ON COLUMN pgflash_cache.disk_read_bytes IS
	'Bytes read by disk_reads.';
COMMENT ON COLUMN pgflash_cache.verify_compared IS
	'Blocks from flash that were compared with their file (pgflash.verify, pgflash_cache_verify).';
COMMENT ON COLUMN pgflash_cache.verify_mismatches IS
	'Compared blocks that differed from their file. Anything but 0 means that another program changed the file (foreign_changes), a bad disk, or a bug.';
COMMENT ON COLUMN pgflash_cache.moved_blocks IS
	'Cached blocks copied to another slot because the cache was resized.';
COMMENT ON COLUMN pgflash_cache.takeovers IS
	'Slots taken over from a process that died while it filled them.';
COMMENT ON COLUMN pgflash_cache.file_displacements IS
	'Times a file, with its cached blocks, lost its place in the list of cached files to another file.';
COMMENT ON COLUMN pgflash_cache.file_shortages IS
	'Times a file could not be cached because the list of cached files had no free place.';
COMMENT ON COLUMN pgflash_cache.clears IS
	'Times the whole cache was cleared.';
COMMENT ON COLUMN pgflash_cache.foreign_changes IS
	'Times a data file had changed although pgflash saw no change: a program or an extension wrote to it directly, or touched its attributes. The file''s cached blocks were dropped.';
COMMENT ON COLUMN pgflash_cache.files_kept IS
	'Data files whose cached blocks survived a restart because the files had not changed.';
COMMENT ON COLUMN pgflash_cache.files_dropped IS
	'Data files whose cached blocks did not survive a restart because the files had changed, or may have.';
COMMENT ON COLUMN pgflash_cache.flash_read_mean_ms IS
	'Mean time of a flash read that a process waited for; null if there was none. In milliseconds.';
COMMENT ON COLUMN pgflash_cache.disk_read_mean_ms IS
	'Mean time of a disk read; null if there was none. In milliseconds.';
COMMENT ON COLUMN pgflash_cache.flash_read_histogram IS
	'Times of flash reads that a process waited for. Element i counts the reads that took from 2^(i-1) to 2^i microseconds; the first element also counts all shorter ones, the last one all longer ones.';
COMMENT ON COLUMN pgflash_cache.disk_read_histogram IS
	'Times of disk reads, in the same buckets.';
COMMENT ON COLUMN pgflash_cache.staging_blocks IS
	'Blocks that the staging ring can hold. New blocks wait there until the writer copies them to flash.';
COMMENT ON COLUMN pgflash_cache.staging_used IS
	'Blocks in the staging ring now, approximately.';
COMMENT ON COLUMN pgflash_cache.writer_running IS
	'Whether the process that writes to flash is running. Without it the cache takes no new blocks once the staging ring is full.';
COMMENT ON COLUMN pgflash_cache.missing_workers IS
	'The background workers of pgflash for which max_worker_processes leaves no place; null if there are none.';
COMMENT ON COLUMN pgflash_cache.metadata_bytes IS
	'Shared memory that the cache uses, in bytes.';
COMMENT ON COLUMN pgflash_cache.metadata_huge_bytes IS
	'Of metadata_bytes, what is in huge pages. The worker puts the cache''s own memory there after the start if the kernel can (Linux 6.1, transparent huge pages not set to never); null if that memory is in PostgreSQL''s, for which huge_pages decides.';
COMMENT ON COLUMN pgflash_cache.metadata_bytes_per_block IS
	'metadata_bytes / slots.';
REVOKE ALL ON FUNCTION pgflash_cache_row() FROM PUBLIC;
REVOKE ALL ON pgflash_cache FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_cache_row() TO pg_monitor;
GRANT SELECT ON pgflash_cache TO pg_monitor;

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

COMMENT ON FUNCTION pgflash_cache_advice_rows() IS
	'What the view pgflash_cache_advice shows.';
COMMENT ON VIEW pgflash_cache_advice IS
	'The predicted effect of a flash cache of 1/8 to 16 times the present size on the workload of the last hours (Oracle: V$DB_CACHE_ADVICE). No rows if pgflash.advice is off.';
COMMENT ON COLUMN pgflash_cache_advice.size_factor IS
	'The size as a multiple of the present size.';
COMMENT ON COLUMN pgflash_cache_advice.size_of IS
	'What the present size is taken from: cache, or shared_buffers if there is no cache.';
COMMENT ON COLUMN pgflash_cache_advice.size_bytes IS
	'The size of the flash cache that this row describes, in bytes.';
COMMENT ON COLUMN pgflash_cache_advice.hit_ratio IS
	'Share of the requests that flash would serve, modelled from a sample; null before the first request.';
COMMENT ON COLUMN pgflash_cache_advice.disk_reads_per_s IS
	'Blocks expected to be read from disk per second: requests_per_s * (1 - hit_ratio).';
COMMENT ON COLUMN pgflash_cache_advice.disk_reads_factor IS
	'disk_reads_per_s, relative to that of the present size.';
COMMENT ON COLUMN pgflash_cache_advice.saved_ms_per_s IS
	'Read time that the cache would save compared with no flash cache, in milliseconds per second, over all processes: hits per second * (disk_read_mean_ms - flash_read_mean_ms).';
COMMENT ON COLUMN pgflash_cache_advice.requests_per_s IS
	'Blocks per second, over the last hours, that neither shared_buffers nor the page cache had. Counted while the cache serves, otherwise estimated from one read in 32.';
COMMENT ON COLUMN pgflash_cache_advice.disk_read_mean_ms IS
	'Measured mean time of a block from disk over the last hours, in milliseconds; null if none was read. Single blocks and runs of blocks are timed separately and weighted by the number requested.';
COMMENT ON COLUMN pgflash_cache_advice.flash_read_mean_ms IS
	'Mean time of a block from flash over the last hours, weighted in the same way, in milliseconds.';
COMMENT ON COLUMN pgflash_cache_advice.flash_read_mean_from IS
	'Where flash_read_mean_ms comes from: measured, or assumed (0.1 for a single block, 0.02 in runs) where nothing has been read from flash.';
COMMENT ON COLUMN pgflash_cache_advice.window_s IS
	'The time that the figures represent, in seconds. Requests of an hour ago count half.';
COMMENT ON COLUMN pgflash_cache_advice.sample_rate IS
	'Share of all blocks that is in the sample.';
COMMENT ON COLUMN pgflash_cache_advice.sampled_blocks IS
	'Blocks of the sample that were requested in the last 8 hours.';
REVOKE ALL ON FUNCTION pgflash_cache_advice_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_cache_advice FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_cache_advice_rows() TO pg_monitor;
GRANT SELECT ON pgflash_cache_advice TO pg_monitor;

CREATE FUNCTION pgflash_cache_benefit_rows(
	OUT period text,
	OUT since timestamptz,
	OUT flash_reads bigint,
	OUT flash_read_ms double precision,
	OUT disk_reads bigint,
	OUT disk_read_ms double precision,
	OUT page_cache_reads bigint,
	OUT page_cache_read_ms double precision,
	OUT saved_ms double precision,
	OUT saved_share double precision,
	OUT finding text
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_cache_benefit_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 3;

CREATE VIEW pgflash_cache_benefit AS SELECT * FROM pgflash_cache_benefit_rows();

COMMENT ON FUNCTION pgflash_cache_benefit_rows() IS
	'What the view pgflash_cache_benefit shows.';
COMMENT ON VIEW pgflash_cache_benefit IS
	'How much less time reads of relations by client backends and their parallel workers took because of the flash cache: one row each for the last hour, the last day, and the time since the server started. No rows without a cache, or if pgflash.account has been off all the time. A read that an I/O worker or io_uring makes for a session (PostgreSQL 18) counts with all of its time, although the session waits for a part of it.';
COMMENT ON COLUMN pgflash_cache_benefit.period IS
	'hour, day or start.';
COMMENT ON COLUMN pgflash_cache_benefit.since IS
	'When the period of this row begins: within five minutes of what its name says, or later if the server is younger.';
COMMENT ON COLUMN pgflash_cache_benefit.flash_reads IS
	'Reads that flash served, in calls.';
COMMENT ON COLUMN pgflash_cache_benefit.flash_read_ms IS
	'Time that these reads took (exact), in milliseconds.';
COMMENT ON COLUMN pgflash_cache_benefit.disk_reads IS
	'Reads that the disk served, in calls.';
COMMENT ON COLUMN pgflash_cache_benefit.disk_read_ms IS
	'Time that these reads took (exact), in milliseconds.';
COMMENT ON COLUMN pgflash_cache_benefit.page_cache_reads IS
	'Reads that the operating system''s page cache served, in calls.';
COMMENT ON COLUMN pgflash_cache_benefit.page_cache_read_ms IS
	'Time that these reads took (exact), in milliseconds.';
COMMENT ON COLUMN pgflash_cache_benefit.saved_ms IS
	'Read time saved (modelled): flash_reads times the mean time of a disk read, less flash_read_ms. Negative if flash was slower than the disk. The mean is that of the row''s period or, if fewer than 100 reads came from disk in it, that since the server started; null if that has fewer, too. In milliseconds.';
COMMENT ON COLUMN pgflash_cache_benefit.saved_share IS
	'Read time saved as a share of the time that reads would have taken without the cache: saved_ms / (saved_ms + flash_read_ms + disk_read_ms + page_cache_read_ms).';
COMMENT ON COLUMN pgflash_cache_benefit.finding IS
	'The same in one sentence: what the cache saved, or why it saved nothing.';
REVOKE ALL ON FUNCTION pgflash_cache_benefit_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_cache_benefit FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_cache_benefit_rows() TO pg_monitor;
GRANT SELECT ON pgflash_cache_benefit TO pg_monitor;

CREATE FUNCTION pgflash_cache_blocks(
	relation regclass,
	OUT tablespace oid,
	OUT database oid,
	OUT filenode oid,
	OUT fork text,
	OUT block bigint
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_cache_blocks'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 10000;

COMMENT ON FUNCTION pgflash_cache_blocks(regclass) IS
	'The blocks in the cache: those of one relation of the current database (without its indexes) or, if the argument is null, those of all databases. It reads the entry of every slot of the cache, which takes about a second for 100 GB, and returns a row of 40 bytes for each block. A block that two processes put in at once may have two rows.';
REVOKE ALL ON FUNCTION pgflash_cache_blocks(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_cache_blocks(regclass) TO pg_monitor;

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

COMMENT ON FUNCTION pgflash_cache_devices_rows() IS
	'What the view pgflash_cache_devices shows.';
COMMENT ON VIEW pgflash_cache_devices IS
	'Reads and writes of each cache file. No rows without a cache.';
COMMENT ON COLUMN pgflash_cache_devices.cache_file IS
	'Path of the cache file.';
COMMENT ON COLUMN pgflash_cache_devices.state IS
	'in use; bypassed: not used until it has recovered; missing: it could not be opened at start; failed: out of use until the next start.';
COMMENT ON COLUMN pgflash_cache_devices.state_reason IS
	'Why the file is in this state.';
COMMENT ON COLUMN pgflash_cache_devices.direct_io IS
	'Whether the file is read and written without the page cache (O_DIRECT).';
COMMENT ON COLUMN pgflash_cache_devices.reads IS
	'Reads, in calls.';
COMMENT ON COLUMN pgflash_cache_devices.writes IS
	'Writes, in calls.';
COMMENT ON COLUMN pgflash_cache_devices.read_bytes IS
	'Bytes read.';
COMMENT ON COLUMN pgflash_cache_devices.write_bytes IS
	'Bytes written.';
COMMENT ON COLUMN pgflash_cache_devices.read_mean_ms IS
	'Mean time of a read; null if there was none. In milliseconds.';
COMMENT ON COLUMN pgflash_cache_devices.write_mean_ms IS
	'Mean time of a write; null if there was none. In milliseconds.';
COMMENT ON COLUMN pgflash_cache_devices.read_errors IS
	'Reads that failed or returned too few bytes.';
COMMENT ON COLUMN pgflash_cache_devices.write_errors IS
	'Writes that failed or wrote too few bytes.';
COMMENT ON COLUMN pgflash_cache_devices.read_timeouts IS
	'Reads that exceeded pgflash.read_deadline; the blocks were read from disk instead.';
COMMENT ON COLUMN pgflash_cache_devices.corrupt_slots IS
	'Blocks returned with a wrong checksum; none was used.';
COMMENT ON COLUMN pgflash_cache_devices.bypassed_reads IS
	'Blocks read from disk although this file holds them, because it was bypassed or out of use.';
REVOKE ALL ON FUNCTION pgflash_cache_devices_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_cache_devices FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_cache_devices_rows() TO pg_monitor;
GRANT SELECT ON pgflash_cache_devices TO pg_monitor;

CREATE FUNCTION pgflash_cache_list(
	OUT tablespace oid,
	OUT database oid,
	OUT filenode oid,
	OUT fork text,
	OUT segment integer,
	OUT heat integer,
	OUT blocks integer,
	OUT bitmap bytea
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_cache_list'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1000;

COMMENT ON FUNCTION pgflash_cache_list() IS
	'The blocks in the cache, of all databases, as bitmaps: a row for each file segment and heat, the hottest of a segment first. It reads the entry of every slot of the cache once, without a lock, so it may contain a block that has just left, or lack one that has just come.';
REVOKE ALL ON FUNCTION pgflash_cache_list() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_cache_list() TO pg_monitor;

CREATE FUNCTION pgflash_cache_load_progress_rows(
	OUT load_id bigint,
	OUT relation_oid oid,
	OUT tablespace oid,
	OUT database oid,
	OUT filenode oid,
	OUT state text,
	OUT state_reason text,
	OUT blocks_total bigint,
	OUT blocks_done bigint,
	OUT blocks_cached bigint,
	OUT blocks_loaded bigint,
	OUT blocks_refused bigint,
	OUT queued_at timestamptz,
	OUT started_at timestamptz,
	OUT ended_at timestamptz
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_cache_load_progress_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 10;

CREATE VIEW pgflash_cache_load_progress AS SELECT * FROM pgflash_cache_load_progress_rows();

COMMENT ON FUNCTION pgflash_cache_load_progress_rows() IS
	'What the view pgflash_cache_load_progress shows.';
COMMENT ON VIEW pgflash_cache_load_progress IS
	'Progress of pgflash_cache_load(): a row for each file that is waiting or being loaded, and for those that were loaded last. No rows without a cache.';
COMMENT ON COLUMN pgflash_cache_load_progress.load_id IS
	'Number of the request; files are loaded in this order.';
COMMENT ON COLUMN pgflash_cache_load_progress.relation_oid IS
	'OID of the relation in its database.';
COMMENT ON COLUMN pgflash_cache_load_progress.tablespace IS
	'OID of the file''s tablespace.';
COMMENT ON COLUMN pgflash_cache_load_progress.database IS
	'OID of the database; 0 for relations shared by all databases.';
COMMENT ON COLUMN pgflash_cache_load_progress.filenode IS
	'Number of the file, as in pg_class.relfilenode.';
COMMENT ON COLUMN pgflash_cache_load_progress.state IS
	'waiting, loading, done, cancelled, or failed: the file could not be read, for instance because the relation was rewritten or dropped.';
COMMENT ON COLUMN pgflash_cache_load_progress.state_reason IS
	'Why it failed, or why nothing is being loaded at present.';
COMMENT ON COLUMN pgflash_cache_load_progress.blocks_total IS
	'Blocks of the file when it was requested.';
COMMENT ON COLUMN pgflash_cache_load_progress.blocks_done IS
	'Blocks that were looked at: the sum of the next three.';
COMMENT ON COLUMN pgflash_cache_load_progress.blocks_cached IS
	'Blocks that were in the cache already.';
COMMENT ON COLUMN pgflash_cache_load_progress.blocks_loaded IS
	'Blocks that were read from the file and added to the cache.';
COMMENT ON COLUMN pgflash_cache_load_progress.blocks_refused IS
	'Blocks that were not added: the cache is full of blocks that are used more, the relation has the policy none, or the block changed meanwhile.';
COMMENT ON COLUMN pgflash_cache_load_progress.queued_at IS
	'When it was requested.';
COMMENT ON COLUMN pgflash_cache_load_progress.started_at IS
	'When its first block was read; null before that.';
COMMENT ON COLUMN pgflash_cache_load_progress.ended_at IS
	'When it was done, cancelled or failed; null before that.';
REVOKE ALL ON FUNCTION pgflash_cache_load_progress_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_cache_load_progress FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_cache_load_progress_rows() TO pg_monitor;
GRANT SELECT ON pgflash_cache_load_progress TO pg_monitor;

COMMENT ON TABLE pgflash_cache_policies IS
	'Policies set with pgflash_set_cache_policy(). Part of dumps; only that function should change it.';
COMMENT ON COLUMN pgflash_cache_policies.relation IS
	'The table, index or materialized view.';
COMMENT ON COLUMN pgflash_cache_policies.policy IS
	'keep, none or default.';

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

COMMENT ON FUNCTION pgflash_cache_policy_rows() IS
	'What the view pgflash_cache_policy shows.';
COMMENT ON VIEW pgflash_cache_policy IS
	'Relations of the current database that have a cache policy: their own, or that of the partitioned table or index they belong to.';
COMMENT ON COLUMN pgflash_cache_policy.relation IS
	'The table, index or materialized view; null if a dump named it and it does not exist yet.';
COMMENT ON COLUMN pgflash_cache_policy.name IS
	'Its qualified name.';
COMMENT ON COLUMN pgflash_cache_policy.policy IS
	'keep, none or default.';
COMMENT ON COLUMN pgflash_cache_policy.set_on IS
	'The relation for which the policy was set: this one, or a partitioned one above it.';
GRANT SELECT ON pgflash_cache_policy TO PUBLIC;

CREATE FUNCTION pgflash_cache_verify(
	OUT compared bigint,
	OUT mismatched bigint
)
AS 'MODULE_PATHNAME', 'pgflash_cache_verify'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION pgflash_cache_verify() IS
	'Compares every cached block with its file. Leaves out blocks that change meanwhile. A mismatch takes the cache offline.';
REVOKE ALL ON FUNCTION pgflash_cache_verify() FROM PUBLIC;

CREATE FUNCTION pgflash_cache_warmth_rows(
	OUT list_id bigint,
	OUT origin text,
	OUT state text,
	OUT state_reason text,
	OUT warmth double precision,
	OUT to_go_s double precision,
	OUT list_age_s double precision,
	OUT list_taken_at timestamptz,
	OUT blocks_total bigint,
	OUT blocks_done bigint,
	OUT blocks_cached bigint,
	OUT blocks_loaded bigint,
	OUT blocks_refused bigint,
	OUT blocks_missing bigint,
	OUT queued_at timestamptz,
	OUT started_at timestamptz,
	OUT ended_at timestamptz
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_cache_warmth_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1;

CREATE VIEW pgflash_cache_warmth AS SELECT * FROM pgflash_cache_warmth_rows();

COMMENT ON FUNCTION pgflash_cache_warmth_rows() IS
	'What the view pgflash_cache_warmth shows.';
COMMENT ON VIEW pgflash_cache_warmth IS
	'The list of blocks that is loaded into the cache, or was loaded last: how much of it is in the cache, and how far loading it is. No row without a list.';
COMMENT ON COLUMN pgflash_cache_warmth.list_id IS
	'Number of the list.';
COMMENT ON COLUMN pgflash_cache_warmth.origin IS
	'repository: it is the list in pgflash_stored_list. session: pgflash_cache_load_list() was given it.';
COMMENT ON COLUMN pgflash_cache_warmth.state IS
	'waiting, loading, done or cancelled.';
COMMENT ON COLUMN pgflash_cache_warmth.state_reason IS
	'Why nothing is being loaded at present, if there is something left.';
COMMENT ON COLUMN pgflash_cache_warmth.warmth IS
	'Share of the list''s blocks that are in the cache now, from 0 to 1; sampled. Null if the list cannot be read any more.';
COMMENT ON COLUMN pgflash_cache_warmth.to_go_s IS
	'Time until the list is loaded, at the mean speed so far; 0 when it is; null while nothing is being loaded. In seconds.';
COMMENT ON COLUMN pgflash_cache_warmth.list_age_s IS
	'Time since the list was taken; 0 if that is in the future by this server''s clock. In seconds.';
COMMENT ON COLUMN pgflash_cache_warmth.list_taken_at IS
	'When the list was taken.';
COMMENT ON COLUMN pgflash_cache_warmth.blocks_total IS
	'Blocks of the list.';
COMMENT ON COLUMN pgflash_cache_warmth.blocks_done IS
	'Blocks that were looked at: the sum of the next four.';
COMMENT ON COLUMN pgflash_cache_warmth.blocks_cached IS
	'Blocks that were in the cache already.';
COMMENT ON COLUMN pgflash_cache_warmth.blocks_loaded IS
	'Blocks that were read from their files and added to the cache.';
COMMENT ON COLUMN pgflash_cache_warmth.blocks_refused IS
	'Blocks that were not added: see pgflash_cache_load_progress.';
COMMENT ON COLUMN pgflash_cache_warmth.blocks_missing IS
	'Blocks that are not there: the file was dropped, rewritten or truncated, or cannot be read.';
COMMENT ON COLUMN pgflash_cache_warmth.queued_at IS
	'When the list was given, or the server started with it.';
COMMENT ON COLUMN pgflash_cache_warmth.started_at IS
	'When its first block was looked up; null before that.';
COMMENT ON COLUMN pgflash_cache_warmth.ended_at IS
	'When it was done or cancelled; null before that.';
REVOKE ALL ON FUNCTION pgflash_cache_warmth_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_cache_warmth FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_cache_warmth_rows() TO pg_monitor;
GRANT SELECT ON pgflash_cache_warmth TO pg_monitor;

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
	r.backend_type,
	r.file_class,
	r.operation,
	r.source,
	r.calls,
	r.bytes,
	r.time_ms,
	r.time_ms OPERATOR(pg_catalog./) r.calls::double precision AS mean_ms,
	r.told_calls,
	r.worker_calls,
	r.worker_time_ms
FROM pgflash_io_rows() r;

COMMENT ON FUNCTION pgflash_io_rows() IS
	'What the view pgflash_io shows.';
COMMENT ON VIEW pgflash_io IS
	'Every file call of the server, counted and timed since the server started. No rows if pgflash.account has been off all the time.';
COMMENT ON COLUMN pgflash_io.backend_type IS
	'The process that called, named as in pg_stat_activity, except that all background workers are one type. Since PostgreSQL 18 a read by an I/O worker counts for the process that requested it; if that is unknown, for "io worker".';
COMMENT ON COLUMN pgflash_io.file_class IS
	'data (relations), temp relation, temp (spilled sorts and hashes), wal, wal init (WAL segments being created), slru, control or other (configuration, maps, directories). Pipes, sockets and devices are not counted.';
COMMENT ON COLUMN pgflash_io.operation IS
	'read, write, extend (a write that begins at or beyond the end of a relation''s file, and every allocation) or sync (fsync, fdatasync).';
COMMENT ON COLUMN pgflash_io.source IS
	'The source that served a read: disk, page cache (of the operating system) or flash. For other operations, disk.';
COMMENT ON COLUMN pgflash_io.calls IS
	'System calls, including failed ones; one call can read or write many blocks.';
COMMENT ON COLUMN pgflash_io.bytes IS
	'Bytes read or written.';
COMMENT ON COLUMN pgflash_io.time_ms IS
	'Time that the caller waited, in milliseconds.';
COMMENT ON COLUMN pgflash_io.mean_ms IS
	'Mean time of a call, in milliseconds: time_ms / calls.';
COMMENT ON COLUMN pgflash_io.told_calls IS
	'Reads whose source is certain. The sources of the others were inferred from their times. While the flash cache serves, all reads of whole blocks of relations are certain, except those of base backups. Null for other operations.';
COMMENT ON COLUMN pgflash_io.worker_calls IS
	'Calls that an I/O worker or io_uring made for this backend type, which may have done other work meanwhile.';
COMMENT ON COLUMN pgflash_io.worker_time_ms IS
	'Time from those calls to their completion; with io_uring, until a process collected the completion. In milliseconds.';
REVOKE ALL ON FUNCTION pgflash_io_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_io FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_io_rows() TO pg_monitor;
GRANT SELECT ON pgflash_io TO pg_monitor;

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

COMMENT ON FUNCTION pgflash_io_histogram_rows() IS
	'What the view pgflash_io_histogram shows.';
COMMENT ON VIEW pgflash_io_histogram IS
	'The times of the calls in pgflash_io: how many took from lower_us to upper_us. Each range is twice as wide as the one before it; ranges without calls have no row.';
COMMENT ON COLUMN pgflash_io_histogram.backend_type IS
	'As in pgflash_io.';
COMMENT ON COLUMN pgflash_io_histogram.file_class IS
	'As in pgflash_io.';
COMMENT ON COLUMN pgflash_io_histogram.operation IS
	'As in pgflash_io.';
COMMENT ON COLUMN pgflash_io_histogram.source IS
	'As in pgflash_io.';
COMMENT ON COLUMN pgflash_io_histogram.lower_us IS
	'The calls took at least this long, in microseconds.';
COMMENT ON COLUMN pgflash_io_histogram.upper_us IS
	'The calls took less than this, in microseconds.';
COMMENT ON COLUMN pgflash_io_histogram.calls IS
	'Number of calls.';
REVOKE ALL ON FUNCTION pgflash_io_histogram_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_io_histogram FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_io_histogram_rows() TO pg_monitor;
GRANT SELECT ON pgflash_io_histogram TO pg_monitor;

CREATE FUNCTION pgflash_io_relation_changes(
	since bigint,
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

COMMENT ON FUNCTION pgflash_io_relation_changes(bigint) IS
	'Like pgflash_io_relation_rows(), but only what has changed since this session got the given mark; everything if the mark is null or not the session''s latest. A row replaces the earlier row of its place.';
REVOKE ALL ON FUNCTION pgflash_io_relation_changes(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_io_relation_changes(bigint) TO pg_monitor;

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
	'The rows of the view pgflash_io_relations, without names, and whether the file is gone. A relation that was dropped or rewritten stays until its place is needed.';
COMMENT ON VIEW pgflash_io_relations IS
	'File calls by relation and fork, in all databases, since the server started.';
COMMENT ON COLUMN pgflash_io_relations.tablespace_oid IS
	'OID of the files'' tablespace.';
COMMENT ON COLUMN pgflash_io_relations.database_oid IS
	'OID of the database; 0 for catalogs that all databases share.';
COMMENT ON COLUMN pgflash_io_relations.relfilenumber IS
	'Number of the files, as in pg_class.relfilenode.';
COMMENT ON COLUMN pgflash_io_relations.fork IS
	'main, fsm (free space map), vm (visibility map) or init.';
COMMENT ON COLUMN pgflash_io_relations.relation IS
	'The table, index or other relation; null if it is in another database, dropped, rewritten, or not committed yet. "other": the sum of all relations beyond pgflash.account_relations.';
COMMENT ON COLUMN pgflash_io_relations.reads IS
	'Reads, in calls.';
COMMENT ON COLUMN pgflash_io_relations.read_bytes IS
	'Bytes read.';
COMMENT ON COLUMN pgflash_io_relations.read_time_ms IS
	'Time spent in reads, in milliseconds.';
COMMENT ON COLUMN pgflash_io_relations.disk_reads IS
	'Reads that the disk served.';
COMMENT ON COLUMN pgflash_io_relations.disk_read_time_ms IS
	'Time spent in disk_reads, in milliseconds.';
COMMENT ON COLUMN pgflash_io_relations.page_cache_reads IS
	'Reads that the operating system''s page cache served.';
COMMENT ON COLUMN pgflash_io_relations.page_cache_read_time_ms IS
	'Time spent in page_cache_reads, in milliseconds.';
COMMENT ON COLUMN pgflash_io_relations.flash_reads IS
	'Reads that the flash cache served.';
COMMENT ON COLUMN pgflash_io_relations.flash_read_time_ms IS
	'Time spent in flash_reads, in milliseconds.';
COMMENT ON COLUMN pgflash_io_relations.writes IS
	'Writes within the file, in calls.';
COMMENT ON COLUMN pgflash_io_relations.write_bytes IS
	'Bytes written by writes.';
COMMENT ON COLUMN pgflash_io_relations.write_time_ms IS
	'Time spent in writes, in milliseconds.';
COMMENT ON COLUMN pgflash_io_relations.extends IS
	'Writes and allocations beyond the end of the file, in calls.';
COMMENT ON COLUMN pgflash_io_relations.extend_bytes IS
	'Bytes written or allocated by extends.';
COMMENT ON COLUMN pgflash_io_relations.extend_time_ms IS
	'Time spent in extends, in milliseconds.';
COMMENT ON COLUMN pgflash_io_relations.syncs IS
	'Calls of fsync and fdatasync.';
COMMENT ON COLUMN pgflash_io_relations.sync_time_ms IS
	'Time spent in syncs, in milliseconds.';
REVOKE ALL ON FUNCTION pgflash_io_relation_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_io_relations FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_io_relation_rows() TO pg_monitor;
GRANT SELECT ON pgflash_io_relations TO pg_monitor;

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

COMMENT ON FUNCTION pgflash_io_tablespace_rows() IS
	'The rows of the view pgflash_io_tablespaces, without names.';
COMMENT ON VIEW pgflash_io_tablespaces IS
	'File calls of relations by tablespace since the server started, including those of dropped relations.';
COMMENT ON COLUMN pgflash_io_tablespaces.tablespace_oid IS
	'OID of the tablespace; null for the sum of all tablespaces used after the first 31.';
COMMENT ON COLUMN pgflash_io_tablespaces.tablespace IS
	'Its name; null if it was dropped.';
COMMENT ON COLUMN pgflash_io_tablespaces.reads IS
	'Reads, in calls.';
COMMENT ON COLUMN pgflash_io_tablespaces.read_bytes IS
	'Bytes read.';
COMMENT ON COLUMN pgflash_io_tablespaces.read_time_ms IS
	'Time spent in reads, in milliseconds.';
COMMENT ON COLUMN pgflash_io_tablespaces.disk_reads IS
	'Reads that the disk served.';
COMMENT ON COLUMN pgflash_io_tablespaces.disk_read_time_ms IS
	'Time spent in disk_reads, in milliseconds.';
COMMENT ON COLUMN pgflash_io_tablespaces.page_cache_reads IS
	'Reads that the operating system''s page cache served.';
COMMENT ON COLUMN pgflash_io_tablespaces.page_cache_read_time_ms IS
	'Time spent in page_cache_reads, in milliseconds.';
COMMENT ON COLUMN pgflash_io_tablespaces.flash_reads IS
	'Reads that the flash cache served.';
COMMENT ON COLUMN pgflash_io_tablespaces.flash_read_time_ms IS
	'Time spent in flash_reads, in milliseconds.';
COMMENT ON COLUMN pgflash_io_tablespaces.writes IS
	'Writes within the file, in calls.';
COMMENT ON COLUMN pgflash_io_tablespaces.write_bytes IS
	'Bytes written by writes.';
COMMENT ON COLUMN pgflash_io_tablespaces.write_time_ms IS
	'Time spent in writes, in milliseconds.';
COMMENT ON COLUMN pgflash_io_tablespaces.extends IS
	'Writes and allocations beyond the end of the file, in calls.';
COMMENT ON COLUMN pgflash_io_tablespaces.extend_bytes IS
	'Bytes written or allocated by extends.';
COMMENT ON COLUMN pgflash_io_tablespaces.extend_time_ms IS
	'Time spent in extends, in milliseconds.';
COMMENT ON COLUMN pgflash_io_tablespaces.syncs IS
	'Calls of fsync and fdatasync.';
COMMENT ON COLUMN pgflash_io_tablespaces.sync_time_ms IS
	'Time spent in syncs, in milliseconds.';
REVOKE ALL ON FUNCTION pgflash_io_tablespace_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_io_tablespaces FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_io_tablespace_rows() TO pg_monitor;
GRANT SELECT ON pgflash_io_tablespaces TO pg_monitor;

CREATE FUNCTION pgflash_last_statement_rows(
	OUT queryid bigint,
	OUT shared_hit_blocks bigint,
	OUT page_cache_reads bigint,
	OUT page_cache_read_blocks bigint,
	OUT page_cache_read_time_ms double precision,
	OUT flash_reads bigint,
	OUT flash_read_blocks bigint,
	OUT flash_read_time_ms double precision,
	OUT disk_reads bigint,
	OUT disk_read_blocks bigint,
	OUT disk_read_time_ms double precision,
	OUT worker_read_time_ms double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_last_statement_rows'
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 1;

CREATE VIEW pgflash_last_statement AS SELECT * FROM pgflash_last_statement_rows();

COMMENT ON FUNCTION pgflash_last_statement_rows() IS
	'What the view pgflash_last_statement shows.';
COMMENT ON VIEW pgflash_last_statement IS
	'What this session''s last statement took from shared buffers, page cache, flash and disk. Not counted are the statements that read this view, and those like BEGIN and COMMIT. No row if there was none, or with pgflash.track_statements = none.';
COMMENT ON COLUMN pgflash_last_statement.queryid IS
	'Identifier of the query, as in pg_stat_statements; null if it was not computed.';
COMMENT ON COLUMN pgflash_last_statement.shared_hit_blocks IS
	'Blocks found in shared buffers.';
COMMENT ON COLUMN pgflash_last_statement.page_cache_reads IS
	'Reads that the operating system''s page cache served; one can read many blocks. In calls.';
COMMENT ON COLUMN pgflash_last_statement.page_cache_read_blocks IS
	'Blocks of page_cache_reads.';
COMMENT ON COLUMN pgflash_last_statement.page_cache_read_time_ms IS
	'Time of page_cache_reads, in milliseconds.';
COMMENT ON COLUMN pgflash_last_statement.flash_reads IS
	'Reads that the flash cache served, in calls.';
COMMENT ON COLUMN pgflash_last_statement.flash_read_blocks IS
	'Blocks of flash_reads.';
COMMENT ON COLUMN pgflash_last_statement.flash_read_time_ms IS
	'Time of flash_reads, in milliseconds.';
COMMENT ON COLUMN pgflash_last_statement.disk_reads IS
	'Reads that the disk served, in calls.';
COMMENT ON COLUMN pgflash_last_statement.disk_read_blocks IS
	'Blocks of disk_reads.';
COMMENT ON COLUMN pgflash_last_statement.disk_read_time_ms IS
	'Time of disk_reads. Reads of parallel workers and I/O workers overlap, so the sum can exceed the statement''s duration. In milliseconds.';
COMMENT ON COLUMN pgflash_last_statement.worker_read_time_ms IS
	'The part of these times that an I/O worker or io_uring spent, while the session may have done other work, in milliseconds.';
GRANT SELECT ON pgflash_last_statement TO PUBLIC;

CREATE FUNCTION pgflash_lock_waits_rows(
	OUT database_oid oid,
	OUT relation_oid oid,
	OUT lock_type text,
	OUT lock_mode text,
	OUT samples bigint,
	OUT seconds double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_lock_waits_rows'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE VIEW pgflash_lock_waits AS SELECT * FROM pgflash_lock_waits_rows();

COMMENT ON FUNCTION pgflash_lock_waits_rows() IS
	'What the view pgflash_lock_waits shows.';
COMMENT ON VIEW pgflash_lock_waits IS
	'Lock waits (wait event type Lock) by the locked object, as sampled since the server started.';
COMMENT ON COLUMN pgflash_lock_waits.database_oid IS
	'OID of the database; null for shared objects, and for locks that belong to no database.';
COMMENT ON COLUMN pgflash_lock_waits.relation_oid IS
	'OID of the table or index; null if the lock is on none, or if it is not known. For a session that waits for a transaction, the relation whose tuple lock it holds meanwhile.';
COMMENT ON COLUMN pgflash_lock_waits.lock_type IS
	'As in pg_locks: relation, extend, page, tuple, transactionid, virtualxid, object, advisory or another. "other" adds up the objects beyond the 1,000 that have a row.';
COMMENT ON COLUMN pgflash_lock_waits.lock_mode IS
	'The requested mode, as in pg_locks; null if the lock had been granted and the session had not woken yet.';
COMMENT ON COLUMN pgflash_lock_waits.samples IS
	'Number of samples.';
COMMENT ON COLUMN pgflash_lock_waits.seconds IS
	'Time that they represent, in seconds.';
REVOKE ALL ON FUNCTION pgflash_lock_waits_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_lock_waits FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_lock_waits_rows() TO pg_monitor;
GRANT SELECT ON pgflash_lock_waits TO pg_monitor;

CREATE FUNCTION pgflash_relations_rows(
	OUT relation regclass,
	OUT fork text,
	OUT tablespace oid,
	OUT filenode oid,
	OUT cached_blocks bigint,
	OUT file_blocks bigint,
	OUT hits bigint,
	OUT misses bigint,
	OUT disk_read_time_ms double precision,
	OUT policy text
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_relations_by_file'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE VIEW pgflash_relations AS
SELECT
	r.relation,
	r.fork,
	r.tablespace,
	r.filenode,
	pg_catalog.sum(r.cached_blocks)::bigint AS cached_blocks,
	pg_catalog.max(r.file_blocks) AS file_blocks,
	pg_catalog.sum(r.cached_blocks)::double precision OPERATOR(pg_catalog./) pg_catalog.max(r.file_blocks)::double precision AS cached_share,
	pg_catalog.sum(r.hits)::bigint AS hits,
	pg_catalog.sum(r.misses)::bigint AS misses,
	pg_catalog.sum(r.disk_read_time_ms) AS disk_read_time_ms,
	pg_catalog.min(r.policy) AS policy
FROM pgflash_relations_rows() r
-- A relation's fork is as many files as it has gigabytes.
GROUP BY relation, fork, tablespace, filenode;

COMMENT ON FUNCTION pgflash_relations_rows() IS
	'The rows of the view pgflash_relations, by segment file.';
COMMENT ON VIEW pgflash_relations IS
	'Relations of the current database, and those shared by all databases, that were looked up in the cache since the server started.';
COMMENT ON COLUMN pgflash_relations.relation IS
	'The table, index or other relation; null if no relation visible now has this file (it was dropped, or is not committed yet).';
COMMENT ON COLUMN pgflash_relations.fork IS
	'main, fsm (free space map), vm (visibility map) or init.';
COMMENT ON COLUMN pgflash_relations.tablespace IS
	'OID of the file''s tablespace.';
COMMENT ON COLUMN pgflash_relations.filenode IS
	'Number of the file, as in pg_class.relfilenode.';
COMMENT ON COLUMN pgflash_relations.cached_blocks IS
	'Blocks in the cache now; may be slightly too high after a process was killed.';
COMMENT ON COLUMN pgflash_relations.file_blocks IS
	'Blocks that the fork has on disk now, in all its files; null if it is empty or gone.';
COMMENT ON COLUMN pgflash_relations.cached_share IS
	'Share of the fork that is cached: cached_blocks / file_blocks.';
COMMENT ON COLUMN pgflash_relations.hits IS
	'Blocks read from flash.';
COMMENT ON COLUMN pgflash_relations.misses IS
	'Blocks looked up in the cache and not read from flash.';
COMMENT ON COLUMN pgflash_relations.disk_read_time_ms IS
	'Time spent reading the file from disk, in milliseconds.';
COMMENT ON COLUMN pgflash_relations.policy IS
	'The cache policy in force for the file: keep, none or default.';
REVOKE ALL ON FUNCTION pgflash_relations_rows() FROM PUBLIC;
REVOKE ALL ON pgflash_relations FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_relations_rows() TO pg_monitor;
GRANT SELECT ON pgflash_relations TO pg_monitor;

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
	'The number of samples in each minute of a period, from since to just before until, and the time that no sample represents.';
REVOKE ALL ON FUNCTION pgflash_sample_minutes(timestamptz, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_sample_minutes(timestamptz, timestamptz) TO pg_monitor;

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
	'The rows of pgflash_active_sessions of a period, from since to just before until, added up by minute.';
REVOKE ALL ON FUNCTION pgflash_sample_summary(timestamptz, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_sample_summary(timestamptz, timestamptz) TO pg_monitor;

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

COMMENT ON FUNCTION pgflash_sampler_row() IS
	'What the view pgflash_sampler shows.';
COMMENT ON VIEW pgflash_sampler IS
	'The sampler, in one row. No row if pgflash.sample_memory is 0.';
COMMENT ON COLUMN pgflash_sampler.running IS
	'Whether the background worker "pgflash sampler" is running.';
COMMENT ON COLUMN pgflash_sampler.pid IS
	'Its process ID.';
COMMENT ON COLUMN pgflash_sampler.rate_hz IS
	'Samples per second; 0 if it takes none.';
COMMENT ON COLUMN pgflash_sampler.looks IS
	'Samples since the server started.';
COMMENT ON COLUMN pgflash_sampler.missed_looks IS
	'Samples that should have been taken and were not: the sampler was stopped, or waited for a processor.';
COMMENT ON COLUMN pgflash_sampler.gap_seconds IS
	'Time that no sample represents, in seconds, because samples were missed or pgflash.sample_rate was 0.';
COMMENT ON COLUMN pgflash_sampler.oldest_at IS
	'Time of the oldest sample that is kept.';
COMMENT ON COLUMN pgflash_sampler.newest_at IS
	'Time of the newest sample.';
COMMENT ON COLUMN pgflash_sampler.looks_kept IS
	'Samples that are kept.';
COMMENT ON COLUMN pgflash_sampler.records_kept IS
	'Rows of pgflash_active_sessions that are kept.';
COMMENT ON COLUMN pgflash_sampler.ring_bytes IS
	'Shared memory for them: 40 bytes for each sample and for each row.';
COMMENT ON COLUMN pgflash_sampler.cpu_seconds IS
	'CPU time that the sampler itself has used, in seconds.';
COMMENT ON COLUMN pgflash_sampler.cpu_user_s IS
	'CPU time of client backends and parallel workers in user mode, in seconds, including processes that have ended, as far as they were seen; null if /proc cannot be read.';
COMMENT ON COLUMN pgflash_sampler.cpu_system_s IS
	'The same in system mode, in seconds.';
REVOKE ALL ON FUNCTION pgflash_sampler_row() FROM PUBLIC;
REVOKE ALL ON pgflash_sampler FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_sampler_row() TO pg_monitor;
GRANT SELECT ON pgflash_sampler TO pg_monitor;

COMMENT ON TABLE pgflash_snapshot_last IS
	'Values that the next snapshot subtracts; for pgflash_snapshot() only.';

COMMENT ON TABLE pgflash_snapshot_queries IS
	'Texts of the statements that snapshots refer to.';
COMMENT ON COLUMN pgflash_snapshot_queries.query_id IS
	'As in pg_stat_statements.';
COMMENT ON COLUMN pgflash_snapshot_queries.query IS
	'The first 32,000 characters.';
COMMENT ON COLUMN pgflash_snapshot_queries.used_at IS
	'When a snapshot last referred to the statement, accurate to a day; infinity if one of a baseline does.';

COMMENT ON TABLE pgflash_snapshot_sections IS
	'The contents of the snapshots, by section.';
COMMENT ON COLUMN pgflash_snapshot_sections.snapshot_id IS
	'The snapshot.';
COMMENT ON COLUMN pgflash_snapshot_sections.section IS
	'Name of the section.';
COMMENT ON COLUMN pgflash_snapshot_sections.kind IS
	'counter: cumulative; gauge: the value at the moment of the snapshot; delta: counted since the previous snapshot.';
COMMENT ON COLUMN pgflash_snapshot_sections.content IS
	'{"columns": [...], "rows": [[...], ...]}; docs/reference/snapshots.md lists the columns.';

COMMENT ON TABLE pgflash_snapshots IS
	'Snapshots of the server''s counters. Not part of dumps.';
COMMENT ON COLUMN pgflash_snapshots.snapshot_id IS
	'Number of the snapshot; later snapshots have higher numbers.';
COMMENT ON COLUMN pgflash_snapshots.taken_at IS
	'When it was taken.';
COMMENT ON COLUMN pgflash_snapshots.started_at IS
	'When the counters started: at server start, or after the last crash. Snapshots with different values cannot be subtracted.';
COMMENT ON COLUMN pgflash_snapshots.previous_id IS
	'The previous snapshot, from which sections of kind delta count; null if the server has started since then, or if this is the first.';
COMMENT ON COLUMN pgflash_snapshots.took_ms IS
	'Time it took, in milliseconds, excluding the wait for another snapshot.';
COMMENT ON COLUMN pgflash_snapshots.origin IS
	'schedule or command.';
COMMENT ON COLUMN pgflash_snapshots.server_version_num IS
	'Version of the server, as in server_version_num.';
COMMENT ON COLUMN pgflash_snapshots.extension_version IS
	'Version of the extension.';

CREATE FUNCTION pgflash_statement_rows(
	OUT userid oid,
	OUT dbid oid,
	OUT toplevel boolean,
	OUT queryid bigint,
	OUT calls bigint,
	OUT stats_since timestamptz,
	OUT shared_hit_blocks bigint,
	OUT page_cache_reads bigint,
	OUT page_cache_read_blocks bigint,
	OUT page_cache_read_time_ms double precision,
	OUT flash_reads bigint,
	OUT flash_read_blocks bigint,
	OUT flash_read_time_ms double precision,
	OUT disk_reads bigint,
	OUT disk_read_blocks bigint,
	OUT disk_read_time_ms double precision,
	OUT worker_read_time_ms double precision
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_statement_rows'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1000;

CREATE VIEW pgflash_statements AS SELECT * FROM pgflash_statement_rows();

COMMENT ON FUNCTION pgflash_statement_rows() IS
	'What the view pgflash_statements shows.';
COMMENT ON VIEW pgflash_statements IS
	'What statements took from shared buffers, page cache, flash and disk, since the server started or the last reset. Reads of data files only: not of temporary tables or files. Parallel workers and I/O workers count for the session that they work for.';
COMMENT ON COLUMN pgflash_statements.userid IS
	'OID of the user who executed it. This column and the next three are as in pg_stat_statements, and have its names. userid, dbid and queryid are null in the row that adds up all other statements: those that were replaced (pgflash.statements_max), and those without an identifier (compute_query_id).';
COMMENT ON COLUMN pgflash_statements.dbid IS
	'OID of the database.';
COMMENT ON COLUMN pgflash_statements.toplevel IS
	'True if a client sent it, or if a trigger ran it while a transaction was committed. False if it ran inside another statement, whose row includes these numbers.';
COMMENT ON COLUMN pgflash_statements.queryid IS
	'Identifier of the query. Null for another user''s, without the rights of pg_read_all_stats.';
COMMENT ON COLUMN pgflash_statements.calls IS
	'Executions, including failed ones.';
COMMENT ON COLUMN pgflash_statements.stats_since IS
	'When the counters of this row started.';
COMMENT ON COLUMN pgflash_statements.shared_hit_blocks IS
	'Blocks found in shared buffers.';
COMMENT ON COLUMN pgflash_statements.page_cache_reads IS
	'Reads that the operating system''s page cache served; one can read many blocks. In calls.';
COMMENT ON COLUMN pgflash_statements.page_cache_read_blocks IS
	'Blocks of page_cache_reads.';
COMMENT ON COLUMN pgflash_statements.page_cache_read_time_ms IS
	'Time of page_cache_reads, in milliseconds.';
COMMENT ON COLUMN pgflash_statements.flash_reads IS
	'Reads that the flash cache served, in calls.';
COMMENT ON COLUMN pgflash_statements.flash_read_blocks IS
	'Blocks of flash_reads.';
COMMENT ON COLUMN pgflash_statements.flash_read_time_ms IS
	'Time of flash_reads, in milliseconds.';
COMMENT ON COLUMN pgflash_statements.disk_reads IS
	'Reads that the disk served, in calls.';
COMMENT ON COLUMN pgflash_statements.disk_read_blocks IS
	'Blocks of disk_reads.';
COMMENT ON COLUMN pgflash_statements.disk_read_time_ms IS
	'Time of disk_reads. Reads of parallel workers and I/O workers overlap, so the sum can exceed the statement''s duration. In milliseconds.';
COMMENT ON COLUMN pgflash_statements.worker_read_time_ms IS
	'The part of these times that an I/O worker or io_uring spent, while the session may have done other work, in milliseconds.';
GRANT SELECT ON pgflash_statements TO PUBLIC;

COMMENT ON TABLE pgflash_stored_list IS
	'The list of cached blocks that the primary stores, so that standbys and copies of this server can load them: see pgflash.cache_list_interval. Not part of dumps.';
COMMENT ON COLUMN pgflash_stored_list.tablespace IS
	'OID of the file''s tablespace.';
COMMENT ON COLUMN pgflash_stored_list.database IS
	'OID of the database; 0 for relations shared by all databases.';
COMMENT ON COLUMN pgflash_stored_list.filenode IS
	'Number of the file, as in pg_class.relfilenode.';
COMMENT ON COLUMN pgflash_stored_list.fork IS
	'main, fsm, vm or init.';
COMMENT ON COLUMN pgflash_stored_list.segment IS
	'Number of the segment file of the fork, from 0.';
COMMENT ON COLUMN pgflash_stored_list.heat IS
	'How often these blocks are expected to be read, from 0 to 3, as in pgflash_cache_list().';
COMMENT ON COLUMN pgflash_stored_list.bitmap IS
	'The blocks, as in pgflash_cache_list().';

COMMENT ON TABLE pgflash_stored_list_head IS
	'One row about the list in pgflash_stored_list. Not part of dumps.';
COMMENT ON COLUMN pgflash_stored_list_head.is_only IS
	'Always true: there is one row.';
COMMENT ON COLUMN pgflash_stored_list_head.list_number IS
	'A random number, drawn whenever the list changes.';
COMMENT ON COLUMN pgflash_stored_list_head.system_identifier IS
	'Identity of the cluster, as in pg_control_system().';
COMMENT ON COLUMN pgflash_stored_list_head.taken_at IS
	'When the list was changed last.';
COMMENT ON COLUMN pgflash_stored_list_head.wal_left_bytes IS
	'What was left of pgflash.cache_list_wal_budget then; below 0: it was exceeded. In bytes.';

CREATE FUNCTION pgflash_wait_events_rows(
	OUT wait_event_type text,
	OUT wait_event text,
	OUT wait_class text
)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pgflash_wait_events_rows'
LANGUAGE C STABLE STRICT PARALLEL SAFE ROWS 250;

CREATE VIEW pgflash_wait_events AS SELECT * FROM pgflash_wait_events_rows();

COMMENT ON FUNCTION pgflash_wait_events_rows() IS
	'What the view pgflash_wait_events shows.';
COMMENT ON VIEW pgflash_wait_events IS
	'The wait events that this server knows, and their classes. For other extensions'' events only the type is known.';
COMMENT ON COLUMN pgflash_wait_events.wait_event_type IS
	'As in pg_stat_activity.';
COMMENT ON COLUMN pgflash_wait_events.wait_event IS
	'As in pg_stat_activity.';
COMMENT ON COLUMN pgflash_wait_events.wait_class IS
	'The class when a client backend or a parallel worker waits. Other processes'' waits are System I/O or Idle.';
GRANT SELECT ON pgflash_wait_events TO PUBLIC;

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
	CASE WHEN r.writes OPERATOR(pg_catalog.<>) 0::bigint THEN r.write_time_ms OPERATOR(pg_catalog./) r.writes::double precision END AS write_mean_ms,
	r.syncs,
	r.sync_time_ms,
	CASE WHEN r.syncs OPERATOR(pg_catalog.<>) 0::bigint THEN r.sync_time_ms OPERATOR(pg_catalog./) r.syncs::double precision END AS sync_mean_ms,
	w.wal_records AS wal_records,
	w.wal_fpi AS wal_fpi,
	w.wal_bytes AS wal_bytes,
	r.wastage_bytes,
	r.stats_since
FROM pgflash_wal_row() r
CROSS JOIN pg_catalog.pg_stat_wal w;

COMMENT ON FUNCTION pgflash_wal_row() IS
	'The row of the view pgflash_wal, without the columns from pg_stat_wal.';
COMMENT ON VIEW pgflash_wal IS
	'Writes and syncs of the WAL since the server started, in one row. Segments being created are not included; they are "wal init" in pgflash_io.';
COMMENT ON COLUMN pgflash_wal.writes IS
	'Writes, in calls.';
COMMENT ON COLUMN pgflash_wal.write_bytes IS
	'Bytes written.';
COMMENT ON COLUMN pgflash_wal.write_time_ms IS
	'Time spent in writes; with wal_sync_method = open_sync or open_datasync it includes the time of syncs. In milliseconds.';
COMMENT ON COLUMN pgflash_wal.write_mean_ms IS
	'Mean time of a write; null if there was none. In milliseconds.';
COMMENT ON COLUMN pgflash_wal.syncs IS
	'Calls of fsync and fdatasync.';
COMMENT ON COLUMN pgflash_wal.sync_time_ms IS
	'Time spent in syncs, in milliseconds.';
COMMENT ON COLUMN pgflash_wal.sync_mean_ms IS
	'Mean time of a sync; null if there was none. In milliseconds.';
COMMENT ON COLUMN pgflash_wal.wal_records IS
	'WAL records generated since pg_stat_wal was reset, as in pg_stat_wal.';
COMMENT ON COLUMN pgflash_wal.wal_fpi IS
	'Full page images generated, as in pg_stat_wal.';
COMMENT ON COLUMN pgflash_wal.wal_bytes IS
	'Bytes of WAL generated, as in pg_stat_wal.';
COMMENT ON COLUMN pgflash_wal.wastage_bytes IS
	'Bytes written more than once: WAL is written in whole pages, and a page that was not full is written again. Oracle: redo wastage.';
COMMENT ON COLUMN pgflash_wal.stats_since IS
	'When the counters here and in all pgflash_io views started: at server start. They do not restart when one of the server''s processes crashes. Null if nothing is counted.';
REVOKE ALL ON FUNCTION pgflash_wal_row() FROM PUBLIC;
REVOKE ALL ON pgflash_wal FROM PUBLIC;
GRANT EXECUTE ON FUNCTION pgflash_wal_row() TO pg_monitor;
GRANT SELECT ON pgflash_wal TO pg_monitor;
