/*
 * visits.c
 *		Processes that enter one database for a moment, and their launchers.
 *
 * A process can connect to only one database in its life, and while it is
 * connected, that database can be neither dropped nor copied.  So there are two
 * kinds of process for work in databases: a launcher, connected to none, sends
 * a visitor, which does its work and exits.  Only databases with the extension
 * are visited (outside.c).
 *
 * No process waits for a visitor:
 *	- Commands that drop, copy or rename the database ask autovacuum workers to
 *	  leave, and so does a process that waits for one of their locks.  The
 *	  PGPROC of a visitor marks it as one of them, and as a process of the
 *	  database's owner, and it leaves when asked.
 *	- It gives up on a lock after LOCK_WAIT_MS, even on the first one that it
 *	  takes on connecting: the settings for that are made before.
 *	- It does not wait for a standby to receive what it commits, nor for a safe
 *	  snapshot.
 *	- When its time is over, its launcher asks it to leave.  If it does not, the
 *	  launcher continues without it.
 *
 * A visit leaves no trace in the database's statistics, because entries for
 * unused databases would make autovacuum process them.  Only a visitor that
 * writes is counted.
 *
 * A visitor reports through shared memory, in its place among those of its
 * launcher; a visitor that died has reported nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <signal.h>
#include <time.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "broken.h"
#include "server/background.h"
#include "server/compat.h"
#include "server/shmem.h"
#include "server/visits.h"

/*
 * Less than deadlock_timeout, since a waiting visitor reacts to nothing else.
 */
#define LOCK_WAIT_MS "500"

/* Launchers do not wait for a visitor for longer than this. */
#define LATE_MS 1000

/* A visitor that was asked to leave is terminated after this time. */
#define AGAIN_MS 1000

/* How often a visitor is checked, in addition to when it exits. */
#define LOOK_MS 200

/*
 * These override postgresql.conf and the settings of the database's owner.  A
 * transaction of another kind could wait for other transactions, or fail on a
 * standby.
 */
static const char *const settings[][2] = {
	{ "lock_timeout", FC_BROKEN(VISIT_LOCKS) ? "0" : LOCK_WAIT_MS },
	{ "default_transaction_isolation", "read committed" },
	{ "default_transaction_deferrable", "off" },
	{ "synchronous_commit", "local" },
	/* Since 17.  It would end a launcher that looks at a large pg_class. */
	{ "transaction_timeout", "0" },
};

static void
set(const char *name, const char *value)
{
	SetConfigOption(name, value, PGC_SUSET, PGC_S_OVERRIDE);
}

static void
set_settings(void)
{
	for (Size i = 0; i < lengthof(settings); i++)
	{
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			set(settings[i][0], settings[i][1]);
	}
}

/* ---- shared memory ------------------------------------------------------- */

/*
 * Written by the visitor, and read once it is gone.  A visitor of a launcher
 * that has restarted may write where another visitor's answer is expected, so
 * the answer contains the database.
 */
typedef struct Word
{
	Oid database;
	VisitAnswer answer;
} Word;

#define WORDS (VISITS_LAUNCHERS * VISITS_MAX)

static Word *words;

static size_t
words_size_bytes(void)
{
	return WORDS * sizeof(Word);
}

static void
start_words(void *memory)
{
	words = memory;
}

void
visits_install(void)
{
	static const SharedPart part = { .name = "pgflash visits",
		                             .size_bytes = words_size_bytes,
		                             .start = start_words };

	shmem_add(&part);
}

/* ---- launchers: visits under way ----------------------------------------- */

/* The arguments of a visitor. */
typedef struct VisitArguments
{
	uint32 answer; /* the place of its answer */
	Oid owner;     /* of the database */
} VisitArguments;

StaticAssertDecl(sizeof(VisitArguments) <= BGW_EXTRALEN, "the arguments fit");

typedef struct Visit
{
	BackgroundWorkerHandle *handle; /* NULL: this place is free */
	Oid database;
	VisitArguments arguments;
	int64 began_ms;
	int64 leave_ms; /* when to ask it (again) to leave */
	bool asked;
} Visit;

/* Visits of this launcher. */
static Visit visits[VISITS_MAX];

static Visit *
free_place(void)
{
	for (int place = 0; place < VISITS_MAX; place++)
	{
		if (visits[place].handle == NULL)
			return &visits[place];
	}
	return NULL;
}

static bool
start(Visit *visit, const VisitKind *kind)
{
	BackgroundWorker worker;
	MemoryContext before;
	bool started;

	Assert(visit->handle == NULL && visit->arguments.answer < WORDS);
	background_describe(&worker, kind->type, kind->function);
	snprintf(worker.bgw_name, BGW_MAXLEN, "%s of database %u", kind->name,
	         visit->database);
	worker.bgw_flags |= BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(visit->database);
	memcpy(worker.bgw_extra, &visit->arguments, sizeof(visit->arguments));
	worker.bgw_notify_pid = MyProcPid;

	/* The handle must outlive the current memory context. */
	before = MemoryContextSwitchTo(TopMemoryContext);
	started = RegisterDynamicBackgroundWorker(&worker, &visit->handle);
	MemoryContextSwitchTo(before);
	return started;
}

VisitSent
visits_begin(const VisitKind *kind, Oid database, Oid owner)
{
	Visit *place = free_place();
	Visit visit = { .database = database, .began_ms = visits_clock_ms() };

	Assert(OidIsValid(database) && kind->limit_ms > 0);
	if (place == NULL || visits_inside(database))
		return VISIT_NO_PLACE;
	visit.leave_ms = visit.began_ms + kind->limit_ms;
	visit.arguments.answer =
		(uint32) (kind->launcher * VISITS_MAX + (int) (place - visits));
	visit.arguments.owner = owner;
	words[visit.arguments.answer] = (Word){ 0 };

	/* All max_worker_processes are in use: try another time. */
	if (!start(&visit, kind))
		return VISIT_NO_WORKER;
	Assert(visit.handle != NULL);
	*place = visit;
	return VISIT_SENT;
}

/* Is the visitor gone?  If it has stayed too long, ask it to leave. */
static bool
is_over(Visit *visit)
{
	pid_t pid;
	int64 now_ms = visits_clock_ms();

	Assert(visit->handle != NULL);
	switch (GetBackgroundWorkerPid(visit->handle, &pid))
	{
		case BGWH_STOPPED:
			return true;
		case BGWH_POSTMASTER_DIED:
			proc_exit(1);
		case BGWH_NOT_YET_STARTED:
		case BGWH_STARTED:
			break;
	}
	if (now_ms >= visit->leave_ms && !FC_BROKEN(VISIT_LIMIT))
	{
		TerminateBackgroundWorker(visit->handle);
		visit->asked = true;
		visit->leave_ms = now_ms + AGAIN_MS;
	}
	return false;
}

static VisitAnswer
answer_of(const Visit *visit)
{
	const Word *word = &words[visit->arguments.answer];

	return word->database == visit->database ? word->answer
	                                         : (VisitAnswer){ 0 };
}

bool
visits_over(Oid *database_out, VisitAnswer *answer_out)
{
	for (int place = 0; place < VISITS_MAX; place++)
	{
		Visit *visit = &visits[place];

		if (visit->handle == NULL || !is_over(visit))
			continue;
		pfree(visit->handle);
		visit->handle = NULL;
		Assert(OidIsValid(visit->database));
		*database_out = visit->database;
		*answer_out = answer_of(visit);
		return true;
	}
	return false;
}

bool
visits_inside(Oid database)
{
	for (int place = 0; place < VISITS_MAX; place++)
	{
		if (visits[place].handle != NULL && visits[place].database == database)
			return true;
	}
	return false;
}

bool
visits_wait(void)
{
	int64 now_ms = visits_clock_ms();

	for (int place = 0; place < VISITS_MAX; place++)
	{
		if (visits[place].handle != NULL &&
		    (now_ms - visits[place].began_ms < LATE_MS ||
		     FC_BROKEN(VISIT_LATE)))
			return true;
	}
	return free_place() == NULL;
}

static bool
any_under_way(void)
{
	for (int place = 0; place < VISITS_MAX; place++)
	{
		if (visits[place].handle != NULL)
			return true;
	}
	return false;
}

static void
doze(int64 wait_ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
	                 (long) Max(wait_ms, 0), PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* Was the visitor asked to leave, and has it had the time to do so? */
static bool
is_stuck(Oid database)
{
	for (int place = 0; place < VISITS_MAX; place++)
	{
		const Visit *visit = &visits[place];

		if (visit->handle != NULL && visit->database == database)
			return visit->asked && visits_clock_ms() >= visit->leave_ms;
	}
	return false;
}

VisitSent
visits_send(const VisitKind *kind, Oid database, Oid owner,
            VisitAnswer *answer_out)
{
	VisitSent sent;
	VisitAnswer answer;
	Oid over;

	*answer_out = (VisitAnswer){ 0 };

	/* Clear visits of earlier calls. */
	while (visits_over(&over, &answer))
		;
	sent = visits_begin(kind, database, owner);
	while (visits_inside(database) && sent == VISIT_SENT &&
	       !is_stuck(database) && !ShutdownRequestPending)
	{
		if (!visits_over(&over, &answer))
			doze(LOOK_MS);
		else if (over == database)
			*answer_out = answer;
	}
	return sent;
}

/* ---- launchers ----------------------------------------------------------- */

void
visits_register_launcher(const char *name, const char *function)
{
	BackgroundWorker worker;

	/*
	 * pg_upgrade has read the next transaction ID: what a visitor writes would
	 * have numbers that the new cluster gives to others.
	 */
	if (IsBinaryUpgrade && !FC_BROKEN(UPGRADE_VISITS))
		return;
	background_describe(&worker, name, function);
	worker.bgw_flags |= BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = 5;
	background_submit(&worker);
}

void
visits_launcher_begin(void)
{
	background_begin();
	set_settings();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
}

int64
visits_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void
visits_sleep(int64 wait_ms)
{
	if (any_under_way())
		wait_ms = Min(wait_ms, LOOK_MS);
	/*
	 * Waiting for a visitor resets the latch, but the reasons for setting it
	 * remain.
	 */
	if (ShutdownRequestPending || ConfigReloadPending)
		return;
	doze(wait_ms);
}

bool
visits_reload(void)
{
	if (!ConfigReloadPending)
		return false;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	return true;
}

/* ---- visitors ------------------------------------------------------------ */

static VisitArguments
arguments(void)
{
	VisitArguments given;

	memcpy(&given, MyBgworkerEntry->bgw_extra, sizeof(given));
	return given;
}

void
visits_answer(VisitAnswer answer)
{
	Assert(arguments().answer < WORDS && OidIsValid(MyDatabaseId));
	words[arguments().answer] = (Word){ MyDatabaseId, answer };
}

/*
 * The first request raises an error, which the log reports in one line; a
 * second one ends the process at once.
 */
static void
leave(SIGNAL_ARGS)
{
	static volatile sig_atomic_t asked = false;

	if (asked)
		die(COMPAT_SIGNAL);
	else
		StatementCancelHandler(COMPAT_SIGNAL);
	asked = true;
}

/*
 * Mark this process so that others can ask it to leave as they ask autovacuum
 * workers, and so that the database's owner can terminate it, which DROP
 * DATABASE ... WITH (FORCE) requires.  Our own rights do not depend on it.  No
 * other process sees the mark before InitPostgres() lists us.
 */
static void
mark_as_interruptible(void)
{
	if (!FC_BROKEN(VISIT_GIVES_WAY))
		MyProc->statusFlags |= PROC_IS_AUTOVACUUM;
	if (!FC_BROKEN(VISIT_OWNER))
		MyProc->roleId = arguments().owner;
}

/* Runs after the end of the transaction and before statistics are reported. */
static void
forget_database(int code, Datum argument)
{
	(void) code;
	(void) argument;
	MyDatabaseId = InvalidOid;
}

static void
leave_no_trace(void)
{
	if (FC_BROKEN(VISIT_TRACE))
		return;
	set("track_counts", "off");
	before_shmem_exit(forget_database, (Datum) 0);
}

/* Giving up is not an error: the launcher will send another visitor. */
static void
end_early(Oid database)
{
	ErrorData *error;

	MemoryContextSwitchTo(TopMemoryContext);
	error = CopyErrorData();
	if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE &&
	    error->sqlerrcode != ERRCODE_QUERY_CANCELED)
		return;
	FlushErrorState();
	HOLD_INTERRUPTS();
	ereport(LOG,
	        (errmsg("pgflash: a visit of database %u ended early: %s", database,
	                error->sqlerrcode == ERRCODE_QUERY_CANCELED
	                    ? "it gave way, or took too long"
	                    : error->message)));
	proc_exit(0);
}

void
visits_work(Oid database, bool counted, void (*work)(void))
{
	Assert(OidIsValid(database) && arguments().answer < WORDS);
	pqsignal(SIGTERM, leave);
	set_settings();
	mark_as_interruptible();
	if (!counted)
		leave_no_trace();
	PG_TRY();
	{
		BackgroundWorkerUnblockSignals();
		BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
		work();
	}
	PG_CATCH();
	{
		end_early(database);
		PG_RE_THROW();
	}
	PG_END_TRY();
	proc_exit(0);
}
