/*
 * columns.c
 *		The columns of each function that returns rows, and their types.
 *
 * Generated from definitions/ by `make generate`.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "server/columns.h"

/* clang-format off */

const RowType active_sessions_columns = {
	.arguments = 2,
	.count = ACTIVE_SESSIONS_COLUMNS,
	.columns = (const RowColumn[]){
		{ "sample_id", INT8OID },
		{ "sampled_at", TIMESTAMPTZOID },
		{ "seconds", FLOAT8OID },
		{ "pid", INT4OID },
		{ "leader_pid", INT4OID },
		{ "backend_type", TEXTOID },
		{ "database_oid", OIDOID },
		{ "user_oid", OIDOID },
		{ "query_id", INT8OID },
		{ "query_start", TIMESTAMPTZOID },
		{ "state", TEXTOID },
		{ "wait_event_type", TEXTOID },
		{ "wait_event", TEXTOID },
		{ "wait_class", TEXTOID },
	}
};

const RowType backend_cpu_columns = {
	.arguments = 0,
	.count = BACKEND_CPU_COLUMNS,
	.columns = (const RowColumn[]){
		{ "backend_type", TEXTOID },
		{ "processes", INT8OID },
		{ "cpu_user_s", FLOAT8OID },
		{ "cpu_system_s", FLOAT8OID },
		{ "cpu_seconds", FLOAT8OID },
	}
};

const RowType cache_columns = {
	.arguments = 0,
	.count = CACHE_COLUMNS,
	.columns = (const RowColumn[]){
		{ "mode", TEXTOID },
		{ "mode_reason", TEXTOID },
		{ "start_reason", TEXTOID },
		{ "cache_file", TEXTOID },
		{ "direct_io", BOOLOID },
		{ "io_engine", TEXTOID },
		{ "page_cache_check", TEXTOID },
		{ "size_bytes", INT8OID },
		{ "size_max_bytes", INT8OID },
		{ "resize_progress", FLOAT8OID },
		{ "resize_reason", TEXTOID },
		{ "slots", INT8OID },
		{ "used_slots", INT8OID },
		{ "used_bytes", INT8OID },
		{ "keep_blocks", INT8OID },
		{ "hits", INT8OID },
		{ "staged_hits", INT8OID },
		{ "misses", INT8OID },
		{ "hit_ratio", FLOAT8OID },
		{ "page_cache_reads", INT8OID },
		{ "inserts", INT8OID },
		{ "eviction_invalidated", INT8OID },
		{ "eviction_aged_out", INT8OID },
		{ "eviction_buffer_pinned", INT8OID },
		{ "insert_skip_not_current", INT8OID },
		{ "insert_skip_writer_overloaded", INT8OID },
		{ "insert_skip_exists", INT8OID },
		{ "insert_skip_not_useful", INT8OID },
		{ "insert_skip_modification", INT8OID },
		{ "insert_skip_corrupt", INT8OID },
		{ "insert_skip_budget", INT8OID },
		{ "insert_skip_device", INT8OID },
		{ "insert_skip_invalid", INT8OID },
		{ "bypass_reads", INT8OID },
		{ "updates", INT8OID },
		{ "coalesced_updates", INT8OID },
		{ "invalidations", INT8OID },
		{ "prefetches_swallowed", INT8OID },
		{ "neighbour_reads", INT8OID },
		{ "neighbour_inserts", INT8OID },
		{ "flash_reads", INT8OID },
		{ "flash_read_bytes", INT8OID },
		{ "flash_writes", INT8OID },
		{ "flash_write_bytes", INT8OID },
		{ "flash_write_bytes_day", INT8OID },
		{ "write_budget_left_bytes", INT8OID },
		{ "flash_read_errors", INT8OID },
		{ "read_timeouts", INT8OID },
		{ "flash_write_errors", INT8OID },
		{ "corrupt_slots", INT8OID },
		{ "disk_reads", INT8OID },
		{ "disk_read_bytes", INT8OID },
		{ "verify_compared", INT8OID },
		{ "verify_mismatches", INT8OID },
		{ "moved_blocks", INT8OID },
		{ "takeovers", INT8OID },
		{ "file_displacements", INT8OID },
		{ "file_shortages", INT8OID },
		{ "clears", INT8OID },
		{ "foreign_changes", INT8OID },
		{ "files_kept", INT8OID },
		{ "files_dropped", INT8OID },
		{ "flash_read_mean_ms", FLOAT8OID },
		{ "disk_read_mean_ms", FLOAT8OID },
		{ "flash_read_histogram", INT8ARRAYOID },
		{ "disk_read_histogram", INT8ARRAYOID },
		{ "staging_blocks", INT8OID },
		{ "staging_used", INT8OID },
		{ "writer_running", BOOLOID },
		{ "missing_workers", TEXTOID },
		{ "metadata_bytes", INT8OID },
		{ "metadata_huge_bytes", INT8OID },
		{ "metadata_bytes_per_block", FLOAT8OID },
	}
};

const RowType cache_advice_columns = {
	.arguments = 0,
	.count = CACHE_ADVICE_COLUMNS,
	.columns = (const RowColumn[]){
		{ "size_factor", FLOAT8OID },
		{ "size_of", TEXTOID },
		{ "size_bytes", INT8OID },
		{ "hit_ratio", FLOAT8OID },
		{ "disk_reads_per_s", FLOAT8OID },
		{ "disk_reads_factor", FLOAT8OID },
		{ "saved_ms_per_s", FLOAT8OID },
		{ "requests_per_s", FLOAT8OID },
		{ "disk_read_mean_ms", FLOAT8OID },
		{ "flash_read_mean_ms", FLOAT8OID },
		{ "flash_read_mean_from", TEXTOID },
		{ "window_s", FLOAT8OID },
		{ "sample_rate", FLOAT8OID },
		{ "sampled_blocks", INT8OID },
	}
};

const RowType cache_benefit_columns = {
	.arguments = 0,
	.count = CACHE_BENEFIT_COLUMNS,
	.columns = (const RowColumn[]){
		{ "period", TEXTOID },
		{ "since", TIMESTAMPTZOID },
		{ "flash_reads", INT8OID },
		{ "flash_read_ms", FLOAT8OID },
		{ "disk_reads", INT8OID },
		{ "disk_read_ms", FLOAT8OID },
		{ "page_cache_reads", INT8OID },
		{ "page_cache_read_ms", FLOAT8OID },
		{ "saved_ms", FLOAT8OID },
		{ "saved_share", FLOAT8OID },
		{ "finding", TEXTOID },
	}
};

const RowType cache_blocks_columns = {
	.arguments = 1,
	.count = CACHE_BLOCKS_COLUMNS,
	.columns = (const RowColumn[]){
		{ "tablespace", OIDOID },
		{ "database", OIDOID },
		{ "filenode", OIDOID },
		{ "fork", TEXTOID },
		{ "block", INT8OID },
	}
};

const RowType cache_devices_columns = {
	.arguments = 0,
	.count = CACHE_DEVICES_COLUMNS,
	.columns = (const RowColumn[]){
		{ "cache_file", TEXTOID },
		{ "state", TEXTOID },
		{ "state_reason", TEXTOID },
		{ "direct_io", BOOLOID },
		{ "reads", INT8OID },
		{ "writes", INT8OID },
		{ "read_bytes", INT8OID },
		{ "write_bytes", INT8OID },
		{ "read_mean_ms", FLOAT8OID },
		{ "write_mean_ms", FLOAT8OID },
		{ "read_errors", INT8OID },
		{ "write_errors", INT8OID },
		{ "read_timeouts", INT8OID },
		{ "corrupt_slots", INT8OID },
		{ "bypassed_reads", INT8OID },
	}
};

const RowType cache_list_columns = {
	.arguments = 0,
	.count = CACHE_LIST_COLUMNS,
	.columns = (const RowColumn[]){
		{ "tablespace", OIDOID },
		{ "database", OIDOID },
		{ "filenode", OIDOID },
		{ "fork", TEXTOID },
		{ "segment", INT4OID },
		{ "heat", INT4OID },
		{ "blocks", INT4OID },
		{ "bitmap", BYTEAOID },
	}
};

const RowType cache_load_progress_columns = {
	.arguments = 0,
	.count = CACHE_LOAD_PROGRESS_COLUMNS,
	.columns = (const RowColumn[]){
		{ "load_id", INT8OID },
		{ "relation_oid", OIDOID },
		{ "tablespace", OIDOID },
		{ "database", OIDOID },
		{ "filenode", OIDOID },
		{ "state", TEXTOID },
		{ "state_reason", TEXTOID },
		{ "blocks_total", INT8OID },
		{ "blocks_done", INT8OID },
		{ "blocks_cached", INT8OID },
		{ "blocks_loaded", INT8OID },
		{ "blocks_refused", INT8OID },
		{ "queued_at", TIMESTAMPTZOID },
		{ "started_at", TIMESTAMPTZOID },
		{ "ended_at", TIMESTAMPTZOID },
	}
};

const RowType cache_policy_columns = {
	.arguments = 0,
	.count = CACHE_POLICY_COLUMNS,
	.columns = (const RowColumn[]){
		{ "relation", REGCLASSOID },
		{ "name", TEXTOID },
		{ "policy", TEXTOID },
		{ "set_on", REGCLASSOID },
	}
};

const RowType cache_verify_columns = {
	.arguments = 0,
	.count = CACHE_VERIFY_COLUMNS,
	.columns = (const RowColumn[]){
		{ "compared", INT8OID },
		{ "mismatched", INT8OID },
	}
};

const RowType cache_warmth_columns = {
	.arguments = 0,
	.count = CACHE_WARMTH_COLUMNS,
	.columns = (const RowColumn[]){
		{ "list_id", INT8OID },
		{ "origin", TEXTOID },
		{ "state", TEXTOID },
		{ "state_reason", TEXTOID },
		{ "warmth", FLOAT8OID },
		{ "to_go_s", FLOAT8OID },
		{ "list_age_s", FLOAT8OID },
		{ "list_taken_at", TIMESTAMPTZOID },
		{ "blocks_total", INT8OID },
		{ "blocks_done", INT8OID },
		{ "blocks_cached", INT8OID },
		{ "blocks_loaded", INT8OID },
		{ "blocks_refused", INT8OID },
		{ "blocks_missing", INT8OID },
		{ "queued_at", TIMESTAMPTZOID },
		{ "started_at", TIMESTAMPTZOID },
		{ "ended_at", TIMESTAMPTZOID },
	}
};

const RowType io_columns = {
	.arguments = 0,
	.count = IO_COLUMNS,
	.columns = (const RowColumn[]){
		{ "backend_type", TEXTOID },
		{ "file_class", TEXTOID },
		{ "operation", TEXTOID },
		{ "source", TEXTOID },
		{ "calls", INT8OID },
		{ "bytes", INT8OID },
		{ "time_ms", FLOAT8OID },
		{ "told_calls", INT8OID },
		{ "worker_calls", INT8OID },
		{ "worker_time_ms", FLOAT8OID },
	}
};

const RowType io_histogram_columns = {
	.arguments = 0,
	.count = IO_HISTOGRAM_COLUMNS,
	.columns = (const RowColumn[]){
		{ "backend_type", TEXTOID },
		{ "file_class", TEXTOID },
		{ "operation", TEXTOID },
		{ "source", TEXTOID },
		{ "lower_us", FLOAT8OID },
		{ "upper_us", FLOAT8OID },
		{ "calls", INT8OID },
	}
};

const RowType io_relation_changes_columns = {
	.arguments = 1,
	.count = IO_RELATION_CHANGES_COLUMNS,
	.columns = (const RowColumn[]){
		{ "mark", INT8OID },
		{ "place", INT4OID },
		{ "tablespace_oid", OIDOID },
		{ "database_oid", OIDOID },
		{ "relfilenumber", OIDOID },
		{ "fork", TEXTOID },
		{ "file_gone", BOOLOID },
		{ "reads", INT8OID },
		{ "read_bytes", INT8OID },
		{ "read_time_ms", FLOAT8OID },
		{ "disk_reads", INT8OID },
		{ "disk_read_time_ms", FLOAT8OID },
		{ "page_cache_reads", INT8OID },
		{ "page_cache_read_time_ms", FLOAT8OID },
		{ "flash_reads", INT8OID },
		{ "flash_read_time_ms", FLOAT8OID },
		{ "writes", INT8OID },
		{ "write_bytes", INT8OID },
		{ "write_time_ms", FLOAT8OID },
		{ "extends", INT8OID },
		{ "extend_bytes", INT8OID },
		{ "extend_time_ms", FLOAT8OID },
		{ "syncs", INT8OID },
		{ "sync_time_ms", FLOAT8OID },
	}
};

const RowType io_relation_columns = {
	.arguments = 0,
	.count = IO_RELATION_COLUMNS,
	.columns = (const RowColumn[]){
		{ "tablespace_oid", OIDOID },
		{ "database_oid", OIDOID },
		{ "relfilenumber", OIDOID },
		{ "fork", TEXTOID },
		{ "file_gone", BOOLOID },
		{ "reads", INT8OID },
		{ "read_bytes", INT8OID },
		{ "read_time_ms", FLOAT8OID },
		{ "disk_reads", INT8OID },
		{ "disk_read_time_ms", FLOAT8OID },
		{ "page_cache_reads", INT8OID },
		{ "page_cache_read_time_ms", FLOAT8OID },
		{ "flash_reads", INT8OID },
		{ "flash_read_time_ms", FLOAT8OID },
		{ "writes", INT8OID },
		{ "write_bytes", INT8OID },
		{ "write_time_ms", FLOAT8OID },
		{ "extends", INT8OID },
		{ "extend_bytes", INT8OID },
		{ "extend_time_ms", FLOAT8OID },
		{ "syncs", INT8OID },
		{ "sync_time_ms", FLOAT8OID },
	}
};

const RowType io_tablespace_columns = {
	.arguments = 0,
	.count = IO_TABLESPACE_COLUMNS,
	.columns = (const RowColumn[]){
		{ "tablespace_oid", OIDOID },
		{ "reads", INT8OID },
		{ "read_bytes", INT8OID },
		{ "read_time_ms", FLOAT8OID },
		{ "disk_reads", INT8OID },
		{ "disk_read_time_ms", FLOAT8OID },
		{ "page_cache_reads", INT8OID },
		{ "page_cache_read_time_ms", FLOAT8OID },
		{ "flash_reads", INT8OID },
		{ "flash_read_time_ms", FLOAT8OID },
		{ "writes", INT8OID },
		{ "write_bytes", INT8OID },
		{ "write_time_ms", FLOAT8OID },
		{ "extends", INT8OID },
		{ "extend_bytes", INT8OID },
		{ "extend_time_ms", FLOAT8OID },
		{ "syncs", INT8OID },
		{ "sync_time_ms", FLOAT8OID },
	}
};

const RowType last_statement_columns = {
	.arguments = 0,
	.count = LAST_STATEMENT_COLUMNS,
	.columns = (const RowColumn[]){
		{ "queryid", INT8OID },
		{ "shared_hit_blocks", INT8OID },
		{ "page_cache_reads", INT8OID },
		{ "page_cache_read_blocks", INT8OID },
		{ "page_cache_read_time_ms", FLOAT8OID },
		{ "flash_reads", INT8OID },
		{ "flash_read_blocks", INT8OID },
		{ "flash_read_time_ms", FLOAT8OID },
		{ "disk_reads", INT8OID },
		{ "disk_read_blocks", INT8OID },
		{ "disk_read_time_ms", FLOAT8OID },
		{ "worker_read_time_ms", FLOAT8OID },
	}
};

const RowType lock_waits_columns = {
	.arguments = 0,
	.count = LOCK_WAITS_COLUMNS,
	.columns = (const RowColumn[]){
		{ "database_oid", OIDOID },
		{ "relation_oid", OIDOID },
		{ "lock_type", TEXTOID },
		{ "lock_mode", TEXTOID },
		{ "samples", INT8OID },
		{ "seconds", FLOAT8OID },
	}
};

const RowType relations_columns = {
	.arguments = 0,
	.count = RELATIONS_COLUMNS,
	.columns = (const RowColumn[]){
		{ "relation", REGCLASSOID },
		{ "fork", TEXTOID },
		{ "tablespace", OIDOID },
		{ "filenode", OIDOID },
		{ "cached_blocks", INT8OID },
		{ "file_blocks", INT8OID },
		{ "hits", INT8OID },
		{ "misses", INT8OID },
		{ "disk_read_time_ms", FLOAT8OID },
		{ "policy", TEXTOID },
	}
};

const RowType sample_minutes_columns = {
	.arguments = 2,
	.count = SAMPLE_MINUTES_COLUMNS,
	.columns = (const RowColumn[]){
		{ "bucket", TIMESTAMPTZOID },
		{ "looks", INT8OID },
		{ "seconds", FLOAT8OID },
		{ "gap_seconds", FLOAT8OID },
		{ "missed_looks", INT8OID },
		{ "idle_sessions", FLOAT8OID },
	}
};

const RowType sample_summary_columns = {
	.arguments = 2,
	.count = SAMPLE_SUMMARY_COLUMNS,
	.columns = (const RowColumn[]){
		{ "bucket", TIMESTAMPTZOID },
		{ "backend_type", TEXTOID },
		{ "database_oid", OIDOID },
		{ "user_oid", OIDOID },
		{ "query_id", INT8OID },
		{ "state", TEXTOID },
		{ "wait_event_type", TEXTOID },
		{ "wait_event", TEXTOID },
		{ "wait_class", TEXTOID },
		{ "samples", INT8OID },
		{ "seconds", FLOAT8OID },
	}
};

const RowType sampler_columns = {
	.arguments = 0,
	.count = SAMPLER_COLUMNS,
	.columns = (const RowColumn[]){
		{ "running", BOOLOID },
		{ "pid", INT4OID },
		{ "rate_hz", INT4OID },
		{ "looks", INT8OID },
		{ "missed_looks", INT8OID },
		{ "gap_seconds", FLOAT8OID },
		{ "oldest_at", TIMESTAMPTZOID },
		{ "newest_at", TIMESTAMPTZOID },
		{ "looks_kept", INT8OID },
		{ "records_kept", INT8OID },
		{ "ring_bytes", INT8OID },
		{ "cpu_seconds", FLOAT8OID },
		{ "cpu_user_s", FLOAT8OID },
		{ "cpu_system_s", FLOAT8OID },
	}
};

const RowType statement_columns = {
	.arguments = 0,
	.count = STATEMENT_COLUMNS,
	.columns = (const RowColumn[]){
		{ "userid", OIDOID },
		{ "dbid", OIDOID },
		{ "toplevel", BOOLOID },
		{ "queryid", INT8OID },
		{ "calls", INT8OID },
		{ "stats_since", TIMESTAMPTZOID },
		{ "shared_hit_blocks", INT8OID },
		{ "page_cache_reads", INT8OID },
		{ "page_cache_read_blocks", INT8OID },
		{ "page_cache_read_time_ms", FLOAT8OID },
		{ "flash_reads", INT8OID },
		{ "flash_read_blocks", INT8OID },
		{ "flash_read_time_ms", FLOAT8OID },
		{ "disk_reads", INT8OID },
		{ "disk_read_blocks", INT8OID },
		{ "disk_read_time_ms", FLOAT8OID },
		{ "worker_read_time_ms", FLOAT8OID },
	}
};

const RowType wait_events_columns = {
	.arguments = 0,
	.count = WAIT_EVENTS_COLUMNS,
	.columns = (const RowColumn[]){
		{ "wait_event_type", TEXTOID },
		{ "wait_event", TEXTOID },
		{ "wait_class", TEXTOID },
	}
};

const RowType wal_columns = {
	.arguments = 0,
	.count = WAL_COLUMNS,
	.columns = (const RowColumn[]){
		{ "writes", INT8OID },
		{ "write_bytes", INT8OID },
		{ "write_time_ms", FLOAT8OID },
		{ "syncs", INT8OID },
		{ "sync_time_ms", FLOAT8OID },
		{ "wastage_bytes", INT8OID },
		{ "stats_since", TIMESTAMPTZOID },
	}
};
