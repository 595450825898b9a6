/*
 * snapshot.c
 *		Takes a snapshot: stores what the server has counted so far in tables.
 *
 * pgflash_snapshot() is one transaction: a head, its sections, and the values
 * that the next snapshot will subtract (snapshot_delta.c).  So a snapshot that
 * fails halfway, or whose transaction is rolled back, leaves nothing behind,
 * and the next one starts where the previous one ended.  No statistics are
 * reset.
 *
 * Two concurrent snapshots wait for each other, by a lock on the extension.  A
 * lock on the table would conflict with a vacuum.  DROP EXTENSION waits for
 * that lock, too.
 *
 * It writes with the rights of the extension's owner, so that members of
 * pg_monitor can call it, and reads with those of pg_monitor (rights.c).  Names
 * of objects that are not PostgreSQL's own are qualified, and search_path has
 * only pg_catalog and pg_temp.  Triggers that another user created on the
 * tables, by a right that was granted too freely, do not fire.
 *
 * To protect the disk, users who are not superusers can together take
 * COMMANDS_A_DAY snapshots a day.  Those that are rolled back have filled the
 * disk as well, so a counter in shared memory has all of them.  To protect the
 * schedule, these users cannot hold the lock for long: a transaction block is
 * refused, and a statement that does not end in HOLD_LIMIT_MS after its
 * snapshot, such as one that sleeps, loses its session.  Only the end of the
 * session is certain: a cancel can be caught, and is ignored while the client
 * is to send more.
 *
 * Counters run from the start of the server or from its last crash.  A crash
 * destroys shared memory, and all counts with it, but not the postmaster.  The
 * time when counting began is noted in shared memory; snapshots for which it
 * differs cannot be subtracted.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "storage/latch.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "broken.h"
#include "server/catalog.h"
#include "server/compat.h"
#include "server/rights.h"
#include "server/shmem.h"
#include "snapshot/snapshot.h"

PG_FUNCTION_INFO_V1(pgflash_snapshot);

/*
 * By command, by all users who are not superusers together; they take some 30
 * MB.
 */
#define COMMANDS_A_DAY 1000

#define DAY_US (24 * 60 * 60 * USECS_PER_SEC)

/* Less than a scheduled snapshot waits for the lock. */
#define HOLD_LIMIT_MS 2000

/*
 * Settings of the session that would change or slow down what we read and
 * write.
 */
static const char *const settings[][2] = {
	{ "search_path", "pg_catalog, pg_temp" },
	{ "pgflash.restrict_objects", FC_BROKEN(TRIGGERS) ? "off" : "on" },
	{ "extra_float_digits", "1" },
	{ "max_parallel_workers_per_gather", "0" },
	{ "jit", "off" },
	{ "session_replication_role", FC_BROKEN(TRIGGERS) ? "origin" : "replica" },
	/* Since 17, and minor releases of 15 and 16. */
	{ "restrict_nonsystem_relation_kind", "" },
};

static struct
{
	/* When counting began: at the server's start, or after its last crash. */
	TimestampTz counting_since;
	/* What users who are not superusers have begun, since the day's begin. */
	slock_t lock;
	TimestampTz day;
	int commands;
} *shared;

static size_t
shared_size_bytes(void)
{
	return sizeof(*shared);
}

/* Runs again after a crash, with new memory. */
static void
start_counting(void *memory)
{
	shared = memory;
	memset(shared, 0, sizeof(*shared));
	shared->counting_since = GetCurrentTimestamp();
	SpinLockInit(&shared->lock);
}

/* This transaction holds the lock for a user who may not do so for long. */
static bool is_limited;
static TimeoutId limit;

void
snapshot_install(void)
{
	static const SharedPart part = { .name = "pgflash snapshots",
		                             .size_bytes = shared_size_bytes,
		                             .start = start_counting };

	shmem_add(&part);
}

static void
set_settings(void)
{
	for (Size i = 0; i < lengthof(settings); i++)
	{
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			(void) set_config_option(settings[i][0], settings[i][1], PGC_SUSET,
			                         PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
			                         false);
	}
}

/* Prevent two concurrent snapshots of this database. */
static void
take_turns(Snapshooting *now)
{
	CatalogExtension here = catalog_lock(ShareRowExclusiveLock);

	if (!OidIsValid(here.oid))
		ereport(ERROR,
		        (errcode(ERRCODE_UNDEFINED_OBJECT),
		         errmsg("the extension pgflash is not in this database")));
	if (!here.is_current)
		ereport(ERROR,
		        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		         errmsg("the extension pgflash in this database is of another "
		                "version than the library"),
		         errhint("%s", catalog_remedy(here))));
	now->extension = here.oid;
	Assert(OidIsValid(here.oid) && OidIsValid(here.schema));
	now->schema =
		psprintf("%s.", quote_identifier(get_namespace_name(here.schema)));
}

/* Read a column of the first row, a number or a time; 0 if there is none. */
static int64
read_number(int column)
{
	bool is_null = true;
	Datum value = 0;

	Assert(SPI_gettypeid(SPI_tuptable->tupdesc, column) == INT8OID ||
	       SPI_gettypeid(SPI_tuptable->tupdesc, column) == TIMESTAMPTZOID);
	if (SPI_processed > 0)
		value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc,
		                      column, &is_null);
	return is_null ? 0 : DatumGetInt64(value);
}

/* Find the newest snapshot, if counting has continued since. */
static void
find_previous(Snapshooting *now)
{
	Oid types[] = { TIMESTAMPTZOID };
	Datum values[] = { TimestampTzGetDatum(shared->counting_since) };

	SPI_execute_with_args(
		psprintf(
			"select snapshot_id, taken_at from (select * "
			"from %spgflash_snapshots order by snapshot_id desc limit 1) s "
			"where started_at = $1 or %s",
			now->schema, FC_BROKEN(LIFE) ? "true" : "false"),
		1, types, values, NULL, false, 1);
	now->previous_id = read_number(1);
	now->previous_at = read_number(2);
}

/* Count this command, and tell whether there were too many. */
static bool
count_command(void)
{
	TimestampTz now = GetCurrentTimestamp();
	bool too_many;

	Assert(shared != NULL);
	SpinLockAcquire(&shared->lock);
	if (now - shared->day >= DAY_US)
	{
		shared->day = now;
		shared->commands = 0;
	}
	too_many = shared->commands >= COMMANDS_A_DAY;
	if (!too_many)
		shared->commands++;
	SpinLockRelease(&shared->lock);
	return too_many;
}

static void
check_commands(const Snapshooting *now)
{
	SPI_execute(psprintf("select count(*) from (select taken_at "
	                     "from %spgflash_snapshots where origin = 'command' "
	                     "order by snapshot_id desc limit %d) s "
	                     "where taken_at > now() - interval '1 day'",
	                     now->schema, COMMANDS_A_DAY),
	            true, 1);
	if (read_number(1) >= COMMANDS_A_DAY || count_command())
		ereport(
			ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
		     errmsg("too many snapshots have been taken by command"),
		     errdetail("There were %d in 24 hours, including those that were "
		               "rolled back.",
		               COMMANDS_A_DAY),
		     errhint("Scheduled snapshots continue, and a superuser may "
		             "take more.")));
}

static void
insert_head(Snapshooting *now, const char *origin)
{
	Oid types[] = { TIMESTAMPTZOID, INT8OID, TEXTOID, OIDOID, TIMESTAMPTZOID };
	Datum values[] = { TimestampTzGetDatum(shared->counting_since),
		               Int64GetDatum(now->previous_id),
		               CStringGetTextDatum(origin),
		               ObjectIdGetDatum(now->extension),
		               TimestampTzGetDatum(now->taken_at) };

	SPI_execute_with_args(
		psprintf("insert into %spgflash_snapshots (taken_at, started_at, "
	             "previous_id, took_ms, origin, server_version_num, "
	             "extension_version) "
	             "select $5, $1, nullif($2, 0), 0, $3, "
	             "current_setting('server_version_num')::int, extversion "
	             "from pg_extension where oid = $4 returning snapshot_id",
	             now->schema),
		5, types, values, NULL, false, 0);
	now->id = read_number(1);
}

static void
note_time(const Snapshooting *now, instr_time begin)
{
	Oid types[] = { INT8OID, FLOAT8OID };
	Datum values[2];
	instr_time end;

	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, begin);
	values[0] = Int64GetDatum(now->id);
	values[1] = Float8GetDatum(INSTR_TIME_GET_MILLISEC(end));
	SPI_execute_with_args(psprintf("update %spgflash_snapshots "
	                               "set took_ms = $2 where snapshot_id = $1",
	                               now->schema),
	                      2, types, values, NULL, false, 0);
}

/* ---- those who may not hold the lock for long ---------------------------- */

static void
at_limit(void)
{
	ProcDiePending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
}

/* From PRE_COMMIT on, the user has no more influence. */
static void
at_transaction(XactEvent event, void *argument)
{
	(void) event;
	(void) argument;
	if (is_limited)
		disable_timeout(limit, false);
	is_limited = false;
}

/* End the session if this transaction does not end soon. */
static void
limit_hold(void)
{
	static bool is_known;

	if (!is_known)
	{
		limit = RegisterTimeout(USER_TIMEOUT, at_limit);
		RegisterXactCallback(at_transaction, NULL);
		is_known = true;
	}
	if (!is_limited)
		enable_timeout_after(limit, HOLD_LIMIT_MS);
	is_limited = true;
}

/* Refuse a transaction whose end is up to the user. */
static void
refuse_block(void)
{
	if (IsTransactionBlock() || IsSubTransaction())
		ereport(ERROR,
		        (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
		         errmsg("pgflash_snapshot() cannot run inside a transaction "
		                "block"),
		         errdetail("No scheduled snapshot could be taken before its "
		                   "end. Only superusers may do that."),
		         errhint("Call it in autocommit mode, in a statement of its "
		                 "own.")));
	/* A pipeline is a block as well. */
	PreventInTransactionBlock(true, "pgflash_snapshot()");
}

int64
snapshot_take(const char *origin)
{
	const char *texts_missing = NULL;
	Snapshooting now = { .texts_missing = &texts_missing };
	bool limited =
		strcmp(origin, "command") == 0 && !superuser_arg(GetOuterUserId());
	Rights before;
	int nest_level;
	instr_time begin;

	Assert(IsTransactionState() && shared != NULL);
	if (RecoveryInProgress())
		ereport(ERROR,
		        (errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
		         errmsg("a standby cannot store snapshots, because it "
		                "cannot write"),
		         errhint("Store them in a file: pgflash snapshot --store "
		                 "FILE.")));
	PreventCommandIfReadOnly("pgflash_snapshot()");
	PreventCommandIfParallelMode("pgflash_snapshot()");
	/*
	 * For example, a superuser analyzes a table, and an index's expression
	 * calls this: the limits of the table's owner would not apply.
	 */
	if (strcmp(origin, "command") == 0 && InSecurityRestrictedOperation())
		ereport(ERROR,
		        (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		         errmsg("cannot take a snapshot within security-restricted "
		                "operation")));
	if (limited)
		refuse_block();

	nest_level = NewGUCNestLevel();
	set_settings();
	before = rights_as_now();
	take_turns(&now);

	/*
	 * Begin here: time spent waiting does not count, and statistics read before
	 * are outdated.
	 */
	INSTR_TIME_SET_CURRENT(begin);
	pgstat_clear_snapshot();
	SPI_connect();
	if (limited)
		check_commands(&now);
	find_previous(&now);
	now.taken_at = GetCurrentTimestamp();
	insert_head(&now, origin);
	snapshot_sections_write(&now);
	note_time(&now, begin);
	SPI_finish();
	rights_back(before);
	AtEOXact_GUC(true, nest_level);
	if (limited)
		limit_hold();
	return now.id;
}

Datum
pgflash_snapshot(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	shmem_require_preloaded();
	PG_RETURN_INT64(snapshot_take("command"));
}
