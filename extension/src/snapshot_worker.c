/*
 * snapshot_worker.c
 *		Snapshots on a schedule, and an end to old ones.
 *
 * A launcher (visits.c) sends a visitor into the database that keeps the snapshots: every
 * pgflash.snapshot_interval, at whole multiples of it, and once right after the server
 * has started, since only what lies between two snapshots of one life of the server can
 * be told.  The visitor takes a snapshot, then drops those that are older than
 * pgflash.snapshot_retention, each in a transaction of its own: a disk that is full for
 * the one may still have the other.  Then other visitors name the files of other
 * databases that the snapshot met (snapshot_names.c).
 *
 * Which database: that of pgflash.snapshot_database, or else, of those that have the
 * extension, the one with the newest snapshot, or the first that was made.  The launcher looks for it when it
 * does not know, and again when a visitor finds the extension gone.  While there is
 * none it looks every LOOK_S.
 *
 * On a standby nothing can be kept; the launcher says so, waits, and begins when the
 * standby is promoted.  A visitor that fails has said why in the log, and left nothing
 * behind; the next one comes at its time.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "settings.h"
#include "shmem.h"
#include "snapshot.h"
#include "visits.h"

/* How often databases are looked at while none is known that keeps snapshots. */
#define LOOK_S 60

/* A promotion is seen after this. */
#define STANDBY_S 10

/* A visitor that waits longer for a lock gives up: others may want to drop its database. */
#define LOCK_TIMEOUT "3s"

PGDLLEXPORT void pgflash_snapshot_launcher_main(Datum argument);
PGDLLEXPORT void pgflash_snapshot_visitor_main(Datum database);

/* What a visitor goes for. */
typedef enum Errand
{
	ERRAND_LOOK, /* is the extension there, and when was its newest snapshot? */
	ERRAND_TAKE,
	ERRAND_NAME /* what are the files called that the last snapshot met? */
} Errand;

/* What it has to say. */
typedef enum Answer
{
	ANSWER_FAILED,   /* it died */
	ANSWER_STRANGER, /* the extension is not there */
	ANSWER_DONE
} Answer;

typedef struct SnapshotShared
{
	pg_atomic_uint32 errand;
	pg_atomic_uint32 answer;
	pg_atomic_uint64 newest_at; /* of this database's snapshots; 0 = none */
} SnapshotShared;

static SnapshotShared *shared;

/* ---- shared memory ----------------------------------------------------------------- */

static size_t
shared_size_bytes(void)
{
	return sizeof(SnapshotShared);
}

static void
start_shared(void *memory)
{
	shared = memory;
	pg_atomic_init_u32(&shared->errand, ERRAND_LOOK);
	pg_atomic_init_u32(&shared->answer, ANSWER_FAILED);
	pg_atomic_init_u64(&shared->newest_at, 0);
}

/* ---- the visitor ---------------------------------------------------------------------- */

static const char *
schema_now(void)
{
	return quote_identifier(get_namespace_name(catalog_schema()));
}

static void
look(void)
{
	bool is_null = true;
	Datum newest = 0;

	SPI_connect();
	SPI_execute(psprintf("select max(taken_at) from %s.pgflash_snapshots",
	                     schema_now()),
	            true, 1);
	if (SPI_processed > 0)
		newest = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1,
		                       &is_null);
	pg_atomic_write_u64(&shared->newest_at,
	                    is_null ? 0 : (uint64) DatumGetTimestampTz(newest));
	SPI_finish();
}

static void
drop_old(void)
{
	Oid types[] = { TIMESTAMPTZOID };
	Datum values[] = { TimestampTzGetDatum(
		GetCurrentTimestamp() -
		(int64) setting_snapshot_retention_min * 60 * USECS_PER_SEC) };

	SPI_connect();
	SPI_execute_with_args(
		psprintf("select %s.pgflash_snapshot_drop($1)", schema_now()), 1, types,
		values, NULL, false, 0);
	SPI_finish();
}

static void
begin(const char *doing)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	pgstat_report_activity(STATE_RUNNING, doing);
}

static void
end(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* One piece of work in a transaction; false if the extension is not there. */
static bool
carry_out(void (*work)(void), const char *doing)
{
	bool there;

	begin(doing);
	there = OidIsValid(catalog_extension());
	if (there)
		work();
	end();
	return there;
}

static void
take(void)
{
	(void) snapshot_take("schedule");
}

/* True unless the extension would have to be there, and is not. */
static bool
run_errand(Errand errand)
{
	bool there = true;

	switch (errand)
	{
		case ERRAND_LOOK:
			return carry_out(look, "looking for snapshots");
		case ERRAND_TAKE:
			there = carry_out(take, "taking a snapshot");
			break;
		case ERRAND_NAME:
			begin("naming files");
			snapshot_names_answer();
			end();
			break;
	}
	return there;
}

void
pgflash_snapshot_visitor_main(Datum database)
{
	Errand errand = (Errand) pg_atomic_read_u32(&shared->errand);
	bool there;

	visits_enter(DatumGetObjectId(database));
	SetConfigOption("search_path", "pg_catalog, pg_temp", PGC_USERSET,
	                PGC_S_OVERRIDE);
	SetConfigOption("lock_timeout", LOCK_TIMEOUT, PGC_USERSET, PGC_S_OVERRIDE);

	there = run_errand(errand);
	pg_atomic_write_u32(&shared->answer, there ? ANSWER_DONE : ANSWER_STRANGER);
	if (errand == ERRAND_TAKE && there && setting_snapshot_retention_min > 0)
		(void) carry_out(drop_old, "dropping old snapshots");
	proc_exit(0);
}

/* ---- the launcher ------------------------------------------------------------------------ */

static Answer
send_visitor(Oid database, Errand errand)
{
	static const VisitKind kind = { "pgflash snapshot",
		                            "pgflash snapshot visitor",
		                            "pgflash_snapshot_visitor_main" };
	static bool said;

	pg_atomic_write_u32(&shared->errand, (uint32) errand);
	pg_atomic_write_u32(&shared->answer, ANSWER_FAILED);
	pg_atomic_write_u64(&shared->newest_at, 0);
	if (!visits_send(&kind, database))
	{
		if (!said)
			ereport(WARNING,
			        (errmsg("pgflash: no background worker to be had to take a "
			                "snapshot"),
			         errdetail("There are none until there is one. Further "
			                   "cases are not logged."),
			         errhint("You might need to increase "
			                 "max_worker_processes.")));
		said = true;
	}
	return (Answer) pg_atomic_read_u32(&shared->answer);
}

/* Could this database keep snapshots? */
static bool
is_candidate(const ListedDatabase *one)
{
	const char *wanted = setting_snapshot_database;

	return wanted[0] != '\0' ? strcmp(NameStr(one->name), wanted) == 0
	                         : !one->is_template;
}

static bool
is_any(const ListedDatabase *one)
{
	(void) one;
	return true;
}

/* Databases that can be connected to, in memory that stays. */
static List *
databases_that(bool (*suit)(const ListedDatabase *one))
{
	List *found = NIL;
	ListCell *cell;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	foreach (cell, visits_databases())
	{
		const ListedDatabase *one = lfirst(cell);
		MemoryContext before;

		if (!suit(one))
			continue;
		before = MemoryContextSwitchTo(TopMemoryContext);
		found = lappend_oid(found, one->oid);
		MemoryContextSwitchTo(before);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(TopMemoryContext);
	return found;
}

/* Look into databases for the one that keeps snapshots; InvalidOid if there is none. */
static Oid
find_repository(void)
{
	List *databases = databases_that(is_candidate);
	Oid found = InvalidOid;
	uint64 found_newest = 0;
	ListCell *cell;

	foreach (cell, databases)
	{
		uint64 newest;

		if (ShutdownRequestPending)
			break;
		if (send_visitor(lfirst_oid(cell), ERRAND_LOOK) != ANSWER_DONE)
			continue;
		newest = pg_atomic_read_u64(&shared->newest_at);
		if (!OidIsValid(found) || newest > found_newest)
		{
			found = lfirst_oid(cell);
			found_newest = newest;
		}
	}
	list_free(databases);
	return found;
}

static void
say_where(Oid database)
{
	char *name;

	StartTransactionCommand();
	name = get_database_name(database);
	if (name != NULL)
		ereport(LOG, (errmsg("pgflash: keeping snapshots in database \"%s\"",
		                     name)));
	CommitTransactionCommand();
}

static TimestampTz
later(TimestampTz from, int64 seconds)
{
	return from + seconds * USECS_PER_SEC;
}

/* The next whole multiple of the interval. */
static TimestampTz
next_time(TimestampTz now)
{
	int64 interval = (int64) setting_snapshot_interval_s * USECS_PER_SEC;

	return (now / interval + 1) * interval;
}

/* Have those files named that the snapshot met in other databases. */
static void
have_files_named(void)
{
	List *databases = NIL;
	Oid wanted = snapshot_names_wanted(InvalidOid);

	if (OidIsValid(wanted))
		databases = databases_that(is_any);
	for (; OidIsValid(wanted) && !ShutdownRequestPending;
	     wanted = snapshot_names_wanted(wanted))
	{
		if (!list_member_oid(databases, wanted) ||
		    send_visitor(wanted, ERRAND_NAME) != ANSWER_DONE)
			snapshot_names_forget(wanted);
	}
	list_free(databases);
}

/* What the launcher knows. */
typedef struct Schedule
{
	Oid repository; /* InvalidOid: to be looked for */
	Oid said;       /* what the log says it is */
	TimestampTz due;
} Schedule;

static void
find(Schedule *schedule)
{
	schedule->repository = find_repository();
	if (!OidIsValid(schedule->repository) ||
	    schedule->repository == schedule->said)
		return;
	say_where(schedule->repository);
	schedule->said = schedule->repository;
	schedule->due = 0;
}

/* Do what is due; when to come again. */
static TimestampTz
round_of_work(Schedule *schedule)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!OidIsValid(schedule->repository))
		find(schedule);
	if (!OidIsValid(schedule->repository))
		return later(now, LOOK_S);
	if (now < schedule->due)
	{
		/* After the clock was set back the next time has come nearer. */
		schedule->due = Min(schedule->due, next_time(now));
		return schedule->due;
	}

	schedule->due = next_time(now);
	switch (send_visitor(schedule->repository, ERRAND_TAKE))
	{
		case ANSWER_DONE:
			have_files_named();
			return schedule->due;
		case ANSWER_STRANGER:
			schedule->said = InvalidOid;
			break;
		case ANSWER_FAILED:
			break; /* perhaps the database is gone */
	}
	schedule->repository = InvalidOid;
	return Min(schedule->due, later(now, LOOK_S));
}

/* The settings may name another database, or another time. */
static void
take_settings(Schedule *schedule)
{
	schedule->repository = InvalidOid;
	if (setting_snapshot_interval_s > 0)
		schedule->due = Min(schedule->due, next_time(GetCurrentTimestamp()));
}

static bool
on_standby(void)
{
	static bool said;

	if (!RecoveryInProgress())
		return false;
	if (!said)
		ereport(LOG, (errmsg("pgflash: no snapshots are taken on a standby")));
	said = true;
	return true;
}

void
pgflash_snapshot_launcher_main(Datum argument)
{
	Schedule schedule = { 0 };

	(void) argument;
	visits_launcher_begin();
	while (!ShutdownRequestPending)
	{
		TimestampTz now = GetCurrentTimestamp();
		TimestampTz again;
		TimestampTz after;

		if (visits_reload())
			take_settings(&schedule);
		if (on_standby())
			again = later(now, STANDBY_S);
		else if (setting_snapshot_interval_s == 0)
			again = later(now, LOOK_S);
		else
			again = round_of_work(&schedule);
		after = GetCurrentTimestamp();
		/* The clock was set back meanwhile: AGAIN is of another time. */
		if (after < now)
			continue;
		if (again > now)
			visits_sleep(TimestampDifferenceMilliseconds(after, again));
	}

	/* Not 0: who is ended by somebody's pg_terminate_backend() is started again. */
	proc_exit(1);
}

void
snapshot_worker_register(void)
{
	static const SharedPart part = { .name = "pgflash snapshot visits",
		                             .size_bytes = shared_size_bytes,
		                             .start = start_shared };

	snapshot_install();
	snapshot_names_install();
	shmem_add(&part);
	visits_register_launcher("pgflash snapshots",
	                         "pgflash_snapshot_launcher_main");
}
