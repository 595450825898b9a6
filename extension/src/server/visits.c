/*
 * visits.c
 *		Processes that go into one database for a moment, and their launchers.
 *
 * A process can connect to only one database in its life, and while it is
 * connected, that database can be neither dropped nor copied.  So work in
 * databases is divided between two kinds of process: a launcher, connected to
 * none, sends a visitor, which does its work and exits.  Only databases with
 * the extension are visited (outside.c).
 *
 * Nobody waits for a visitor:
 *	- Commands that drop, copy or rename the database ask autovacuum workers to
 *	  leave, and so does a process that waits for a lock of theirs.  A visitor
 *	  is marked as one of them in its PGPROC, as a process of the database's
 *	  owner, and leaves when asked.
 *	- It gives up on a lock after LOCK_WAIT_MS, from the first one that it takes
 *	  on its way in: the settings for that are in force before.
 *	- It does not wait for a standby to receive what it commits, nor for a safe
 *	  snapshot.
 *	- After its time its launcher asks it to leave.  If it does not, the
 *	  launcher goes on without it.
 *
 * A visit leaves no trace in the database's statistics: entries for unused
 * databases would make autovacuum go there.  The exception is a visitor that
 * writes: it is counted.
 *
 * A visitor reports through shared memory, at its place among those of its
 * launcher; a visitor that died reported nothing.
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
 * Less than deadlock_timeout: while a visitor waits, it reacts to nothing else.
 */
#define LOCK_WAIT_MS "500"

/* A visitor that is there for longer is no longer waited for. */
#define LATE_MS 1000

/* A visitor that was asked to leave is asked again, harder, after this time. */
#define AGAIN_MS 1000

/* How often a visitor is checked, besides when it reports that it exits. */
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
		set(settings[i][0], settings[i][1]);
}

/* ---- shared memory ------------------------------------------------------- */

/*
 * Written by the visitor, and read once it is gone.  A visitor left behind by a
 * launcher that restarted may write where another's answer is expected, so it
 * adds its database.
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
typedef struct Luggage
{
	uint32 answer; /* the place of its answer */
	Oid owner;     /* of the database */
} Luggage;

StaticAssertDecl(sizeof(Luggage) <= BGW_EXTRALEN, "a visitor can carry it");

typedef struct Visit
{
	BackgroundWorkerHandle *handle; /* NULL: this place is free */
	Oid database;
	Luggage luggage;
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

	Assert(visit->handle == NULL && visit->luggage.answer < WORDS);
	background_describe(&worker, kind->type, kind->function);
	snprintf(worker.bgw_name, BGW_MAXLEN, "%s of database %u", kind->name,
	         visit->database);
	worker.bgw_flags |= BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(visit->database);
	memcpy(worker.bgw_extra, &visit->luggage, sizeof(visit->luggage));
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
	visit.luggage.answer =
		(uint32) (kind->launcher * VISITS_MAX + (int) (place - visits));
	visit.luggage.owner = owner;
	words[visit.luggage.answer] = (Word){ 0 };

	/* All max_worker_processes are in use: try another time. */
	if (!start(&visit, kind))
		return VISIT_NO_WORKER;
	Assert(visit.handle != NULL);
	*place = visit;
	return VISIT_SENT;
}

/* Is the visitor gone?  If it has stayed for too long, ask it to leave. */
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
	const Word *word = &words[visit->luggage.answer];

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

/* Was the visitor asked to leave, and did it have the time to? */
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

	/* Clear visits that were left behind. */
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

	background_describe(&worker, name, function);
	worker.bgw_flags |= BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = 5;
	background_submit(&worker);
}

void
visits_launcher_begin(void)
{
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	set_settings();
	BackgroundWorkerUnblockSignals();
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
	 * Waiting for a visitor consumes the latch's wake-ups, but not their
	 * reasons.
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

static Luggage
luggage(void)
{
	Luggage given;

	memcpy(&given, MyBgworkerEntry->bgw_extra, sizeof(given));
	return given;
}

void
visits_answer(VisitAnswer answer)
{
	Assert(luggage().answer < WORDS && OidIsValid(MyDatabaseId));
	words[luggage().answer] = (Word){ MyDatabaseId, answer };
}

/*
 * First by an error, which the log reports in one line; a second request is
 * obeyed at once.
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
 * This lets others ask us to leave as they ask autovacuum workers, and lets the
 * database's owner terminate us, which DROP DATABASE ...  WITH (FORCE)
 * requires.  Our own rights do not depend on it.  No other process sees it
 * before InitPostgres() lists us.
 */
static void
give_way(void)
{
	if (!FC_BROKEN(VISIT_GIVES_WAY))
		MyProc->statusFlags |= PROC_IS_AUTOVACUUM;
	if (!FC_BROKEN(VISIT_OWNER))
		MyProc->roleId = luggage().owner;
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
	ereport(LOG, (errmsg("pgflash: a visit of database %u ended early: %s",
	                     database, error->message)));
	proc_exit(0);
}

void
visits_work(Oid database, bool counted, void (*work)(void))
{
	Assert(OidIsValid(database) && luggage().answer < WORDS);
	pqsignal(SIGTERM, leave);
	set_settings();
	give_way();
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
