/*
 * snapshot_sections.c
 *		The sections of a snapshot.
 *
 * Most sections are a query whose rows are kept as they are;
 * docs/reference/snapshots.md lists them.  Each is read in a subtransaction.  A
 * section that cannot be read (a view of another version, a library that was
 * not loaded) is listed in the section "missing" with the server's own message,
 * and the snapshot continues.  It does not continue if the user or the machine
 * forces it to end: a cancelled query, a full disk.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "server/compat.h"
#include "server/memory_limit.h"
#include "snapshot/snapshot.h"

/* A section that is the result of a query. */
typedef struct QuerySection
{
	const char *name;
	const char *kind;
	int major_min;     /* of the server */
	const char *query; /* %1$s: the extension's schema */
} QuerySection;

static const QuerySection queries[] = {
	{ "settings", "gauge", 0,
	  /* These may hold passwords: a hash shows only that they changed. */
	  "select name, case when name = any ('{primary_conninfo,archive_command,"
	  "restore_command,archive_cleanup_command,recovery_end_command,"
	  "ssl_passphrase_command}'::text[]) and setting <> '' "
	  "then 'md5 ' || md5(setting) else setting end as setting, unit, source "
	  "from pg_settings where setting is distinct from boot_val "
	  "or name like 'pgflash.%%' order by name" },
	{ "databases", "gauge", 0,
	  "select oid as database_oid, datname as database from pg_database "
	  "order by oid" },
	{ "tablespaces", "gauge", 0,
	  "select oid as tablespace_oid, spcname as tablespace from pg_tablespace "
	  "order by oid" },
	{ "database", "counter", 0, "select * from pg_stat_database" },
	{ "bgwriter", "counter", 0, "select * from pg_stat_bgwriter" },
	{ "checkpointer", "counter", 17, "select * from pg_stat_checkpointer" },
	{ "stat_wal", "counter", 0, "select * from pg_stat_wal" },
	{ "stat_io", "counter", 16, "select * from pg_stat_io" },
	{ "slru", "counter", 0, "select * from pg_stat_slru" },
	{ "archiver", "counter", 0, "select * from pg_stat_archiver" },
	{ "wal_position", "counter", 0,
	  "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') as wal_bytes" },
	{ "io", "counter", 0, "select * from %1$spgflash_io" },
	{ "io_histogram", "counter", 0, "select * from %1$spgflash_io_histogram" },
	{ "io_tablespaces", "counter", 0,
	  "select * from %1$spgflash_io_tablespaces" },
	{ "wal", "counter", 0, "select * from %1$spgflash_wal" },
	{ "sampler", "counter", 0, "select * from %1$spgflash_sampler" },
	{ "backend_cpu", "counter", 0, "select * from %1$spgflash_backend_cpu" },
	{ "cache", "counter", 0, "select * from %1$spgflash_cache" },
	{ "cache_devices", "counter", 0,
	  "select * from %1$spgflash_cache_devices" },
	{ "advice", "gauge", 0, "select * from %1$spgflash_cache_advice" },
	{ "cache_relations", "gauge", 0,
	  "select current_database() as database, n.nspname as schema, "
	  "c.relname as relation, c.relkind, r.fork, r.cached_blocks, r.policy "
	  "from (select relation, fork, sum(cached_blocks)::bigint as "
	  "cached_blocks, "
	  "min(policy) as policy from %1$spgflash_relations_rows() "
	  "where relation is not null and cached_blocks > 0 group by 1, 2 "
	  "order by 3 desc limit 100) r "
	  "join pg_class c on c.oid = r.relation "
	  "join pg_namespace n on n.oid = c.relnamespace "
	  "order by r.cached_blocks desc" },
};

/*
 * A section that a function writes into the text; the function may return why
 * it cannot.
 */
typedef struct Written
{
	const char *name;
	const char *kind;
	const char *(*write)(StringInfo text);
} Written;

static const Written hosts[] = {
	{ "host_cpu", "counter", snapshot_host_cpu },
	{ "host_memory", "counter", snapshot_host_memory },
	{ "host_disks", "counter", snapshot_host_disks },
	{ "host_state", "gauge", snapshot_host_state },
};

/* Sections that keep themselves, or return why they cannot. */
typedef struct Kept
{
	const char *name;
	const char *(*keep)(const Snapshooting *now);
} Kept;

void
snapshot_section_keep(const Snapshooting *now, const char *name,
                      const char *kind, const char *content)
{
	Oid types[] = { INT8OID, TEXTOID, TEXTOID, JSONBOID };
	Datum values[] = { Int64GetDatum(now->id), CStringGetTextDatum(name),
		               CStringGetTextDatum(kind),
		               DirectFunctionCall1(jsonb_in,
		                                   CStringGetDatum(content)) };

	SPI_execute_with_args(psprintf("insert into %spgflash_snapshot_sections "
	                               "(snapshot_id, section, kind, content) "
	                               "values ($1, $2, $3, $4)",
	                               now->schema),
	                      4, types, values, NULL, false, 0);
}

/* ---- one section ----------------------------------------------------------------- */

static const char *
keep_query(const Snapshooting *now, const void *what)
{
	const QuerySection *query = what;
	StringInfoData text;

	if (COMPAT_MAJOR < query->major_min)
		return psprintf("PostgreSQL has it from version %d on",
		                query->major_min);
	snapshot_read(psprintf(query->query, now->schema), 0, NULL, NULL);
	initStringInfo(&text);
	section_of_result(&text);
	snapshot_section_keep(now, query->name, query->kind, text.data);
	return NULL;
}

static const char *
keep_written(const Snapshooting *now, const void *what)
{
	const Written *written = what;
	StringInfoData text;
	const char *reason;

	initStringInfo(&text);
	reason = written->write(&text);
	if (reason == NULL)
		snapshot_section_keep(now, written->name, written->kind, text.data);
	return reason;
}

static const char *
keep_server(const Snapshooting *now, const void *what)
{
	StringInfoData text;

	(void) what;
	snapshot_read(
		psprintf(
			"select version() as version, "
			"current_setting('server_version_num')::int as version_num, "
			"(select extversion from pg_extension where oid = %u) "
			"as extension_version, "
			"(select system_identifier from pg_control_system()) "
			"as system_identifier, "
			"pg_postmaster_start_time() as started_at, "
			"current_setting('block_size')::int as block_size, "
			"current_setting('wal_block_size')::int as wal_block_size, "
			"pg_size_bytes(current_setting('wal_segment_size')) "
			"as wal_segment_size, "
			"current_setting('data_checksums')::bool as data_checksums, "
			"pg_is_in_recovery() as in_recovery, "
			"%ld::bigint as cores, " UINT64_FORMAT "::bigint as memory_bytes, "
			"%ld::bigint as page_size, "
			"coalesce(sum(greatest(extract(epoch from "
			"clock_timestamp() - state_change), 0)) "
			"filter (where active), 0)::float8 * 1000 as active_in_flight_ms, "
			"count(*) filter (where active) as active_sessions, "
			"count(*) as sessions "
			"from (select state_change, "
			"state in ('active', 'fastpath function call') "
			"and pid <> pg_backend_pid() as active from pg_stat_activity "
			"where backend_type = 'client backend') a",
			now->extension, sysconf(_SC_NPROCESSORS_ONLN),
			memory_limit_bytes(""), sysconf(_SC_PAGESIZE)),
		0, NULL, NULL);
	initStringInfo(&text);
	section_of_result(&text);
	snapshot_section_keep(now, "server", "gauge", text.data);
	return NULL;
}

static const char *
keep_itself(const Snapshooting *now, const void *what)
{
	return ((const Kept *) what)->keep(now);
}

/* ---- all of them --------------------------------------------------------------------- */

/* Errors that end the whole snapshot: they are not the section's fault. */
static bool
ends_everything(const ErrorData *error)
{
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_SYSTEM_ERROR:
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_INTERNAL_ERROR:
			return true;
		default:
			return false;
	}
}

/* Keep a section in a subtransaction; returns NULL, or why it failed. */
static const char *
attempt(const Snapshooting *now,
        const char *(*keep)(const Snapshooting *now, const void *what),
        const void *what)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	const char *volatile reason = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		reason = keep(now, what);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (ends_everything(error))
			ReThrowError(error);
		reason = error->message;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return reason;
}

static void
note(StringInfo missing, const char *name, const char *reason)
{
	if (reason == NULL)
		return;
	section_row(missing);
	section_text(missing, name);
	section_text(missing, reason);
}

void
snapshot_sections_write(const Snapshooting *now)
{
	static const char *const columns[] = { "section", "reason" };
	static const Kept kept[] = { { "statements", snapshot_statements },
		                         { "relations", snapshot_relations },
		                         { "samples", snapshot_samples },
		                         { "sample_looks", snapshot_sample_looks } };
	StringInfoData missing;

	initStringInfo(&missing);
	section_begin(&missing, columns, lengthof(columns));
	note(&missing, "server", attempt(now, keep_server, NULL));
	for (Size i = 0; i < lengthof(queries); i++)
		note(&missing, queries[i].name, attempt(now, keep_query, &queries[i]));
	for (Size i = 0; i < lengthof(hosts); i++)
		note(&missing, hosts[i].name, attempt(now, keep_written, &hosts[i]));
	for (Size i = 0; i < lengthof(kept); i++)
		note(&missing, kept[i].name, attempt(now, keep_itself, &kept[i]));
	section_end(&missing);
	snapshot_section_keep(now, "missing", "gauge", missing.data);
}
