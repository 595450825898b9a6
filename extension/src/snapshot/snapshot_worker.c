/*
 * snapshot_worker.c
 *		Takes snapshots on a schedule, and drops old ones.
 *
 * A launcher (visits.c) sends a visitor into the database that keeps the
 * snapshots: every pgflash.snapshot_interval, at whole multiples of it, and
 * once right after the server has started, since a report covers only the time
 * between two snapshots of the same life of the server.  The visitor takes a
 * snapshot, then drops those older than pgflash.snapshot_retention, in a second
 * transaction, because a disk too full for the one may allow the other.  Then
 * other visitors name the files of other databases that the snapshot lists
 * (snapshot_names.c).
 *
 * The same launcher sends visitors for the stored list of cached blocks
 * (load_channel.c), which is in the same database.
 *
 * Which database: that of pgflash.snapshot_database or else, of those that have
 * the extension, the first one that belongs to a superuser, or the first one.
 * What is stored there does not count, nor when a tenant's database was
 * created: both are up to the tenant, who may read there what others do.  The
 * launcher searches for it when it does not know it, and again when a visitor
 * finds the extension gone.  While there is none, it searches every LOOK_S.
 *
 * The visitor has the rights of the extension's owner (rights.c).  If the SQL
 * is of another version than the library, it only reports that.
 *
 * On a standby no snapshot can be stored; the launcher logs that, waits, and
 * starts when the standby is promoted.  A visitor that fails logs the reason
 * and leaves nothing behind; the next one comes on schedule.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "load/load_channel.h"
#include "server/catalog.h"
#include "server/outside.h"
#include "server/rights.h"
#include "settings.h"
#include "server/visits.h"
#include "snapshot/snapshot.h"

/* How often databases are searched while none is known to keep snapshots. */
#define LOOK_S 60

/* A promotion is noticed within this time. */
#define STANDBY_S 10

/*
 * A visitor gives up on a lock after this time: another session may want to
 * drop its database.
 */
#define LOCK_TIMEOUT "3s"

/* Visitors that only look, or name files, take some milliseconds. */
#define LOOK_LIMIT_MS 20000
#define TAKE_LIMIT_MS 300000

PGDLLEXPORT void pgflash_snapshot_launcher_main(Datum argument);
PGDLLEXPORT void pgflash_snapshot_look_main(Datum database);
PGDLLEXPORT void pgflash_snapshot_take_main(Datum database);
PGDLLEXPORT void pgflash_snapshot_name_main(Datum database);
PGDLLEXPORT void pgflash_stored_list_main(Datum database);

#define VISITOR "pgflash snapshot visitor"

/* Is the extension installed there? */
static const VisitKind visit_look = { VISITS_SNAPSHOTS, "pgflash snapshot",
	                                  VISITOR, "pgflash_snapshot_look_main",
	                                  LOOK_LIMIT_MS };

static const VisitKind visit_take = { VISITS_SNAPSHOTS, "pgflash snapshot",
	                                  VISITOR, "pgflash_snapshot_take_main",
	                                  TAKE_LIMIT_MS };

/* What are the names of the files that the last snapshot lists? */
static const VisitKind visit_name = { VISITS_SNAPSHOTS, "pgflash snapshot",
	                                  VISITOR, "pgflash_snapshot_name_main",
	                                  LOOK_LIMIT_MS };

/* Is a list of cached blocks to be loaded or stored? */
static const VisitKind visit_list = { VISITS_SNAPSHOTS, "pgflash stored list",
	                                  "pgflash stored list visitor",
	                                  "pgflash_stored_list_main",
	                                  TAKE_LIMIT_MS };

/* What a visitor reports. */
typedef enum Answer
{
	ANSWER_FAILED,   /* it died */
	ANSWER_STRANGER, /* the extension is not installed there */
	ANSWER_OLDER,    /* its SQL is older than the library */
	ANSWER_NEWER,    /* or newer */
	ANSWER_DONE
} Answer;

/* ---- the visitor --------------------------------------------------------- */

static const char *
schema_now(void)
{
	return quote_identifier(get_namespace_name(catalog_schema()));
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

/*
 * Do one piece of work (NULL: none) in a transaction, if the extension is
 * installed.  Views of another version are not read, because their origin is
 * unknown.
 */
static Answer
carry_out(void (*work)(void), const char *doing)
{
	CatalogExtension here;

	Assert(!IsTransactionState());
	begin(doing);
	here = catalog_lock(AccessShareLock);
	if (here.is_current && work != NULL)
	{
		Rights before = rights_as_owner(here.owner);

		work();
		rights_back(before);
	}
	end();
	if (here.is_current)
		return ANSWER_DONE;
	if (!OidIsValid(here.oid))
		return ANSWER_STRANGER;
	return catalog_is_newer(here) ? ANSWER_NEWER : ANSWER_OLDER;
}

static void
take(void)
{
	(void) snapshot_take("schedule");
}

static void
answer(Answer word)
{
	visits_answer((VisitAnswer){ .word = word });
}

static void
prepare(void)
{
	rights_settle();
	SetConfigOption("lock_timeout", LOCK_TIMEOUT, PGC_USERSET, PGC_S_OVERRIDE);
}

static void
work_look(void)
{
	prepare();
	answer(carry_out(NULL, "looking for the extension"));
}

static void
work_take(void)
{
	Answer word;

	prepare();
	word = carry_out(take, "taking a snapshot");
	answer(word);
	if (word == ANSWER_DONE && setting_snapshot_retention_min > 0)
		(void) carry_out(drop_old, "dropping old snapshots");
}

static void
work_name(void)
{
	Rights before;

	prepare();
	begin("naming files");
	before = rights_as_monitor();
	snapshot_names_answer();
	rights_back(before);
	end();
	answer(ANSWER_DONE);
}

static void
work_list(void)
{
	prepare();
	answer(carry_out(load_channel_visit, "warming caches"));
}

void
pgflash_snapshot_look_main(Datum database)
{
	visits_work(DatumGetObjectId(database), false, work_look);
}

/* This visitor writes, which autovacuum must know. */
void
pgflash_snapshot_take_main(Datum database)
{
	visits_work(DatumGetObjectId(database), true, work_take);
}

void
pgflash_snapshot_name_main(Datum database)
{
	visits_work(DatumGetObjectId(database), false, work_name);
}

/* It writes only on a primary, and what it writes autovacuum must know. */
void
pgflash_stored_list_main(Datum database)
{
	visits_work(DatumGetObjectId(database), !RecoveryInProgress(), work_list);
}

/* ---- the launcher -------------------------------------------------------- */

static void
say_other_version(Oid database, bool newer)
{
	static Oid reported_for;

	if (reported_for != database)
		ereport(WARNING,
		        (errmsg("pgflash: the extension in database %u is of another "
		                "version than the library",
		                database),
		         errdetail("It keeps no snapshots until they are the same."),
		         newer ? errhint("The library is older: install the version of "
		                         "pgflash that the extension has there, and "
		                         "restart the server.")
		               : errhint("Run ALTER EXTENSION pgflash UPDATE there.")));
	reported_for = database;
}

static Answer
send_visitor(const VisitKind *kind, Oid database, Oid owner)
{
	VisitAnswer said;
	static bool complained;

	if (visits_send(kind, database, owner, &said) == VISIT_NO_WORKER)
	{
		if (!complained)
			ereport(WARNING,
			        (errmsg("pgflash: no background worker is free to take a "
			                "snapshot"),
			         errdetail("No snapshots are taken until one is. Further "
			                   "cases are not logged."),
			         errhint("You might need to increase "
			                 "max_worker_processes.")));
		complained = true;
	}
	Assert(said.word <= ANSWER_DONE);
	if ((Answer) said.word != ANSWER_OLDER &&
	    (Answer) said.word != ANSWER_NEWER)
		return (Answer) said.word;
	say_other_version(database, (Answer) said.word == ANSWER_NEWER);
	return ANSWER_STRANGER;
}

/* May this database keep snapshots? */
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

/* Add the databases that suit and whose owner is a superuser, or is none. */
static List *
add_databases(List *found, const List *all,
              bool (*suit)(const ListedDatabase *one), bool of_superusers)
{
	MemoryContext before = MemoryContextSwitchTo(TopMemoryContext);
	ListCell *cell;

	foreach (cell, all)
	{
		const ListedDatabase *one = lfirst(cell);
		ListedDatabase *copy;

		if (!suit(one) || superuser_arg(one->owner) != of_superusers)
			continue;
		copy = palloc(sizeof(ListedDatabase));
		*copy = *one;
		found = lappend(found, copy);
	}
	MemoryContextSwitchTo(before);
	return found;
}

/*
 * Databases that accept connections, those of superusers first, in permanent
 * memory; none if their list or that of the roles is locked.
 */
static List *
select_databases(bool (*suit)(const ListedDatabase *one))
{
	List *all = NIL;
	List *found = NIL;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (ConditionalLockRelationOid(AuthIdRelationId, AccessShareLock) &&
	    outside_databases(&all))
	{
		found = add_databases(found, all, suit, true);
		found = add_databases(found, all, suit, false);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(TopMemoryContext);
	return found;
}

/* Databases without the extension are not visited. */
static Answer
look_into(Oid database)
{
	Oid owner;

	switch (outside_look(database, &owner))
	{
		case OUTSIDE_STRANGER:
			return ANSWER_STRANGER;
		case OUTSIDE_THERE:
			return send_visitor(&visit_look, database, owner);
		case OUTSIDE_UNKNOWN:
			break;
	}
	return ANSWER_FAILED;
}

/*
 * Search for the database that keeps snapshots; false if there is none, or if
 * it cannot be determined.  If the previous one cannot be examined now, do not
 * start over in another one.
 */
static bool
find_repository(Oid before, ListedDatabase *found_out)
{
	List *databases = select_databases(is_candidate);
	bool found = false;
	ListCell *cell;

	foreach (cell, databases)
	{
		const ListedDatabase *one = lfirst(cell);
		Answer said =
			ShutdownRequestPending ? ANSWER_FAILED : look_into(one->oid);

		found = said == ANSWER_DONE;
		if (found)
			*found_out = *one;
		if (found || (said == ANSWER_FAILED && one->oid == before))
			break;
	}
	list_free_deep(databases);
	return found;
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

	Assert(interval > 0);
	return (now / interval + 1) * interval;
}

static const ListedDatabase *
find_listed(const List *databases, Oid database)
{
	ListCell *cell;

	foreach (cell, databases)
	{
		const ListedDatabase *one = lfirst(cell);

		if (one->oid == database)
			return one;
	}
	return NULL;
}

/* Request the names of files of other databases that the snapshot lists. */
static void
request_names(void)
{
	List *databases = NIL;
	Oid wanted = snapshot_names_wanted(InvalidOid);

	if (OidIsValid(wanted))
		databases = select_databases(is_any);
	for (; OidIsValid(wanted) && !ShutdownRequestPending;
	     wanted = snapshot_names_wanted(wanted))
	{
		const ListedDatabase *one = find_listed(databases, wanted);

		if (one == NULL ||
		    send_visitor(&visit_name, wanted, one->owner) != ANSWER_DONE)
			snapshot_names_forget(wanted);
	}
	list_free_deep(databases);
}

/* What the launcher knows. */
typedef struct Schedule
{
	Oid repository; /* InvalidOid: still to be found */
	Oid owner;      /* of that database, when it was found */
	Oid logged;     /* the one that was last logged */
	TimestampTz due;
	TimestampTz list_due;
} Schedule;

static void
find(Schedule *schedule)
{
	ListedDatabase found;

	if (!find_repository(schedule->logged, &found))
		return;
	Assert(OidIsValid(found.oid) && OidIsValid(found.owner));
	schedule->repository = found.oid;
	schedule->owner = found.owner;
	if (found.oid == schedule->logged || RecoveryInProgress())
		return;
	ereport(LOG, (errmsg("pgflash: keeping snapshots in database \"%s\"",
	                     NameStr(found.name))));
	schedule->logged = found.oid;
	schedule->due = 0;
}

/* Do what is due; returns the time of the next call. */
static TimestampTz
work_when_due(Schedule *schedule)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!OidIsValid(schedule->repository))
		find(schedule);
	if (!OidIsValid(schedule->repository))
		return later(now, LOOK_S);
	if (now < schedule->due)
	{
		/* If the clock was set back, the next time is earlier now. */
		schedule->due = Min(schedule->due, next_time(now));
		return schedule->due;
	}

	schedule->due = next_time(now);
	switch (send_visitor(&visit_take, schedule->repository, schedule->owner))
	{
		case ANSWER_DONE:
			request_names();
			return schedule->due;
		case ANSWER_STRANGER:
		case ANSWER_OLDER: /* the same as for a stranger, as the next */
		case ANSWER_NEWER:
			schedule->logged = InvalidOid;
			break;
		case ANSWER_FAILED:
			break; /* the database may be gone */
	}
	schedule->repository = InvalidOid;
	return Min(schedule->due, later(now, LOOK_S));
}

/* The same for the stored list of cached blocks. */
static TimestampTz
list_when_due(Schedule *schedule)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz next = later(now, load_channel_every_s(RecoveryInProgress()));

	if (!load_channel_wanted())
		return later(now, LOOK_S);
	/* Another interval, a promotion or another clock may make it earlier. */
	schedule->list_due = Min(schedule->list_due, next);
	if (now < schedule->list_due)
		return schedule->list_due;

	schedule->list_due = next;
	if (!OidIsValid(schedule->repository))
		find(schedule);
	if (!OidIsValid(schedule->repository))
		schedule->list_due = Min(next, later(now, LOOK_S));
	else if (send_visitor(&visit_list, schedule->repository, schedule->owner) !=
	         ANSWER_DONE)
		schedule->repository = InvalidOid;
	return schedule->list_due;
}

/* The settings may name another database or another interval. */
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
			again = work_when_due(&schedule);
		again = Min(again, list_when_due(&schedule));
		after = GetCurrentTimestamp();
		/* The clock was set back meanwhile, so again no longer applies. */
		if (after < now)
			continue;
		if (again > now)
			visits_sleep(TimestampDifferenceMilliseconds(after, again));
	}

	/* Not 0: after a pg_terminate_backend() the launcher must be restarted. */
	proc_exit(1);
}

void
snapshot_worker_register(void)
{
	snapshot_install();
	snapshot_names_install();
	visits_register_launcher("pgflash snapshots",
	                         "pgflash_snapshot_launcher_main");
}
