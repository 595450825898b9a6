/*
 * policy_worker.c
 *		Keeps policies in force: after a restart, a rewrite, a restore, and on a
 *		standby.
 *
 * Policies are stored in databases, and a process can read only one database in
 * its life.  So a launcher sends visitors (visits.c) into those that have the
 * extension, which it detects from outside (outside.c).  A visitor reads the
 * rows, makes a plan (policy_plan.c), applies it, and exits.
 *
 * A database is visited:
 *	- after the start of the server, as soon as possible;
 *	- when woken by a commit that may have moved files (policy_wake.c): at
 *	  once, but not twice within a second, or WOKEN_S_MAX with many databases;
 *	- otherwise every LOOK_S;
 *	- if it could not be read, or its visitor returned nothing: after AGAIN_S,
 *	  and then after twice as long each time.
 * With many databases all intervals become longer, so that there is less than
 * one visit a second.  They are measured by the monotonic clock: if the
 * server's clock is set back by an hour, a rewrite must not wait for an hour.
 *
 * Between looks the launcher sleeps.  It waits only a moment for a visitor, so
 * no database delays another.  It starts as soon as databases can be read, on a
 * standby as well.  There nothing wakes it and nothing is written; it notices a
 * replayed rewrite at the next visit.
 *
 * A plan of a dropped database stays in core's memory until the launcher next
 * reads the list.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "broken.h"
#include "policy/relation_policy.h"
#include "server/outside.h"
#include "server/rights.h"
#include "server/visits.h"

#define WOKEN_S_MAX  5
#define LOOK_S       60
#define LOOK_S_CROWD 600
#define LIST_S       60

/* If woken continuously, this many databases are visited a second. */
#define WOKEN_VISITS 4

/*
 * After this, retry a database whose catalogs or policies were locked, or that
 * got no visitor.
 */
#define AGAIN_S 5

/*
 * A visit takes some milliseconds; if it takes longer than this, something
 * delays it.
 */
#define LIMIT_MS 20000

PGDLLEXPORT void pgflash_policy_launcher_main(Datum argument);
PGDLLEXPORT void pgflash_policy_visitor_main(Datum database);

/* What a visitor reports. */
typedef enum Visit
{
	VISIT_FAILED,   /* it died, or could not work now */
	VISIT_STRANGER, /* the extension is not installed there */
	VISIT_DONE
} Visit;

/* ---- the visitor --------------------------------------------------------- */

/* The number of files of this database that cannot be distinguished. */
static uint32 unplaced_here;

static Visit
carry_out(Oid table)
{
	if (!policy_plan_apply(policy_plan(table), &unplaced_here))
		return VISIT_FAILED;
	return OidIsValid(table) ? VISIT_DONE : VISIT_STRANGER;
}

/*
 * Never wait for the table: a session that holds its lock applies a plan of its
 * own.
 */
static Visit
visit(void)
{
	Oid table = policy_table();
	bool reads_only = TransactionStartedDuringRecovery();

	if (!OidIsValid(table))
		return carry_out(table);
	if (!ConditionalLockRelationOid(table, reads_only ? AccessShareLock
	                                                  : POLICY_TABLE_LOCK) ||
	    policy_table() != table)
		return VISIT_FAILED;
	if (!reads_only)
		policy_table_tidy(table);
	if (policy_table_rows(table) != NIL)
		policy_need();
	return carry_out(table);
}

static void
work(void)
{
	Visit result;
	Rights before;

	Assert(!IsTransactionState());
	rights_settle();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	before = rights_as_monitor();
	result = visit();
	rights_back(before);
	PopActiveSnapshot();
	CommitTransactionCommand();
	visits_answer(
		(VisitAnswer){ .word = (uint32) result, .number = unplaced_here });
}

void
pgflash_policy_visitor_main(Datum database)
{
	visits_work(DatumGetObjectId(database), false, work);
}

/* ---- the launcher: what it knows of databases ---------------------------- */

typedef struct Known
{
	Oid database; /* hash key */
	int64 visited_ms;
	int64 next_ms;
	int failures; /* in a row */
	uint32 unplaced;
	bool listed;
	bool woken;    /* ... while a visitor was there */
	bool answered; /* it was looked at or visited at least once */
} Known;

static HTAB *known;

static void
know(Oid database)
{
	bool found;
	Known *entry = hash_search(known, &database, HASH_ENTER, &found);

	Assert(OidIsValid(database));
	if (!found)
	{
		entry->visited_ms = 0;
		entry->next_ms = visits_clock_ms();
		entry->answered = false;
		entry->failures = 0;
		entry->unplaced = 0;
		entry->woken = false;
	}
	entry->listed = true;
}

/* Forget databases that have policies in core but are no longer listed. */
static void
forget_dropped(List *with_policies)
{
	ListCell *cell;

	foreach (cell, with_policies)
	{
		Oid database = lfirst_oid(cell);
		uint32 unplaced;

		if (hash_search(known, &database, HASH_FIND, NULL) == NULL)
			(void) bridge_cache_policy_replace(database, NULL, 0,
			                                   policy_round(), &unplaced);
	}
}

static List *
databases_with_policies(void)
{
	List *databases = NIL;
	uint32_t database;

	for (uint32_t place = 0; bridge_cache_policy_database_at(place, &database);
	     place++)
	{
		if (database != 0)
			databases = list_append_unique_oid(databases, database);
	}
	return databases;
}

static void
take_list(List *databases, List *with_policies)
{
	ListCell *cell;
	HASH_SEQ_STATUS walk;
	Known *entry;

	hash_seq_init(&walk, known);
	while ((entry = hash_seq_search(&walk)) != NULL)
		entry->listed = false;
	foreach (cell, databases)
		know(((const ListedDatabase *) lfirst(cell))->oid);

	hash_seq_init(&walk, known);
	while ((entry = hash_seq_search(&walk)) != NULL)
	{
		if (!entry->listed)
			hash_search(known, &entry->database, HASH_REMOVE, NULL);
	}
	forget_dropped(with_policies);
}

/*
 * Read what core knows first, then the list, so that a database created in
 * between is not mistaken for a dropped one.  Returns the seconds after which
 * to read the list again.
 */
static int64
read_list(void)
{
	List *with_policies;
	List *databases;
	bool had;

	StartTransactionCommand();
	with_policies = databases_with_policies();
	PushActiveSnapshot(GetTransactionSnapshot());
	had = outside_databases(&databases);
	PopActiveSnapshot();
	if (had)
		take_list(databases, with_policies);
	CommitTransactionCommand();
	return had ? LIST_S : AGAIN_S;
}

/* ---- the launcher: visits ------------------------------------------------ */

static void
say_no_worker(Oid database)
{
	static bool said;

	if (!said)
		ereport(WARNING,
		        (errmsg("pgflash: no background worker is free to read the "
		                "cache policies of database %u",
		                database),
		         errdetail("They are not in force until there is one. Further "
		                   "cases are not logged."),
		         errhint("You might need to increase "
		                 "max_worker_processes.")));
	said = true;
}

static bool
send_visitor(Oid database, Oid owner)
{
	static const VisitKind kind = { VISITS_POLICIES, "pgflash policies",
		                            "pgflash policy visitor",
		                            "pgflash_policy_visitor_main", LIMIT_MS };
	VisitSent sent = visits_begin(&kind, database, owner);

	Assert(OidIsValid(owner) || FC_BROKEN(VISIT_STRANGERS));
	if (sent == VISIT_NO_WORKER)
		say_no_worker(database);
	return sent == VISIT_SENT;
}

/* If all have answered, and none has a policy, sessions need not wake us. */
static void
judge_need(void)
{
	HASH_SEQ_STATUS walk;
	const Known *entry;
	bool all = true;

	hash_seq_init(&walk, known);
	while ((entry = hash_seq_search(&walk)) != NULL)
		all = all && entry->answered;
	if (all && policy_need_not())
		ereport(DEBUG1,
		        (errmsg_internal("pgflash: no database has a cache policy")));
}

/* Note the result, and the time of the next visit. */
static void
conclude(Known *entry, Visit visit)
{
	/* At most one visit in two seconds, however many databases there are. */
	int64 crowd_s = 2 * hash_get_num_entries(known);
	int64 pause_s = LOOK_S;
	int shift = Min(entry->failures, 8);

	Assert(visit <= VISIT_DONE);
	if (visit != VISIT_FAILED)
	{
		entry->answered = true;
		entry->failures = 0;
	}
	else
	{
		entry->failures++;
		pause_s = Min(LOOK_S, (int64) AGAIN_S << shift);
	}
	judge_need();
	pause_s = Max(pause_s, Min(crowd_s, LOOK_S_CROWD));
	entry->visited_ms = visits_clock_ms();
	entry->next_ms = entry->visited_ms + pause_s * 1000;
}

/*
 * The extension is not installed there.  If core knows of a policy, it was
 * dropped with the extension, or was set since; in the second case another
 * visit is needed.
 */
static Visit
forget_stranger(Oid database)
{
	List *with_policies = databases_with_policies();
	bool has_policies = list_member_oid(with_policies, database);
	uint32 unplaced;

	list_free(with_policies);
	if (!has_policies)
		return VISIT_STRANGER;
	(void) bridge_cache_policy_replace(database, NULL, 0, policy_round(),
	                                   &unplaced);
	return VISIT_FAILED;
}

static void
look_at(Known *entry)
{
	Oid owner = InvalidOid;

	switch (FC_BROKEN(VISIT_STRANGERS) ? OUTSIDE_THERE
	                                   : outside_look(entry->database, &owner))
	{
		case OUTSIDE_UNKNOWN:
			conclude(entry, VISIT_FAILED);
			break;
		case OUTSIDE_STRANGER:
			conclude(entry, forget_stranger(entry->database));
			break;
		case OUTSIDE_THERE:
			/* conclude() is called when the visitor is gone. */
			if (send_visitor(entry->database, owner))
				entry->next_ms = PG_INT64_MAX;
			else
				conclude(entry, VISIT_FAILED);
			break;
	}
}

static void
wake(Known *entry)
{
	int64 pause_s = hash_get_num_entries(known) / WOKEN_VISITS;
	int64 soon_ms =
		entry->visited_ms + Max(1, Min(pause_s, WOKEN_S_MAX)) * 1000;

	Assert(entry->failures >= 0 && entry->next_ms >= entry->visited_ms);

	/* A visitor that is there now may have read the rows before the change. */
	if (visits_inside(entry->database))
		entry->woken = true;
	else
		entry->next_ms = Min(entry->next_ms, soon_ms);
}

/*
 * Report files that cannot be distinguished when there are more than before.
 * Rewritten ones may find room.
 */
static void
report_unplaced(Known *entry, uint32 count)
{
	if (count > entry->unplaced)
		ereport(WARNING,
		        (errmsg("pgflash: %u files of database %u have no cache "
		                "policy, since too many have one",
		                count, entry->database),
		         errdetail("A cache of this size can tell %u files apart.",
		                   bridge_cache_policy_limit()),
		         errhint("Set pgflash.cache_size to more.")));
	entry->unplaced = count == 0 ? 0 : Max(count, entry->unplaced);
}

/* Take the answers of visitors that are done. */
static void
take_answers(void)
{
	Oid database;
	VisitAnswer answer;

	while (visits_over(&database, &answer))
	{
		Known *entry = hash_search(known, &database, HASH_FIND, NULL);

		if (entry == NULL)
			continue;
		if (answer.word != VISIT_FAILED)
			report_unplaced(entry, (uint32) answer.number);
		conclude(entry, (Visit) answer.word);
		if (entry->woken)
			wake(entry);
		entry->woken = false;
	}
}

static void
wake_database(Oid database)
{
	Known *entry = hash_search(known, &database, HASH_FIND, NULL);

	if (entry != NULL)
		wake(entry);
}

/* Databases woken since the last look are due soon. */
static void
take_woken(void)
{
	HASH_SEQ_STATUS walk;
	Known *entry;

	if (!policy_take_woken(wake_database))
		return;
	hash_seq_init(&walk, known);
	while ((entry = hash_seq_search(&walk)) != NULL)
		wake(entry);
}

/* The database that has been due for longest, or else will be next. */
static Known *
next_due(void)
{
	HASH_SEQ_STATUS walk;
	Known *entry;
	Known *next = NULL;

	hash_seq_init(&walk, known);
	while ((entry = hash_seq_search(&walk)) != NULL)
	{
		if (next == NULL || entry->next_ms < next->next_ms)
			next = entry;
	}
	return next;
}

void
pgflash_policy_launcher_main(Datum argument)
{
	int64 list_next_ms = 0;
	HASHCTL control = { .keysize = sizeof(Oid), .entrysize = sizeof(Known) };

	(void) argument;
	visits_launcher_begin();

	known =
		hash_create("pgflash databases", 64, &control, HASH_ELEM | HASH_BLOBS);
	policy_wake_me();

	while (!ShutdownRequestPending)
	{
		int64 now_ms = visits_clock_ms();
		Known *next;

		(void) visits_reload();
		if (policy_list_wanted() || now_ms >= list_next_ms)
			list_next_ms = now_ms + read_list() * 1000;
		take_answers();
		take_woken();

		next = next_due();
		if (visits_wait())
			visits_sleep(list_next_ms - now_ms);
		else if (next != NULL && next->next_ms <= now_ms)
			look_at(next);
		else
			visits_sleep((next != NULL ? Min(next->next_ms, list_next_ms)
			                           : list_next_ms) -
			             now_ms);
	}

	/* Not 0: after a pg_terminate_backend() the launcher must be restarted. */
	proc_exit(1);
}

void
policy_worker_register(void)
{
	policy_wake_install();
	visits_register_launcher("pgflash policies",
	                         "pgflash_policy_launcher_main");
}
