/*
 * background.c
 *		Common code of our background workers.
 *
 * Workers that go into databases, and their launchers, are described in
 * visits.c; all others run as long as the server does.
 *
 * max_worker_processes may be too low for the workers that run from the start.
 * Then PostgreSQL leaves some out for good.  These are noted and reported.
 * Whenever a statement begins, and at least TRY_US after the last attempt, we
 * try again to start them, since another worker may have freed its place.  This
 * costs nothing unless a worker is missing: otherwise the hook is not set.
 *
 * A worker that was registered stays registered, even over a crash of the
 * server: PostgreSQL keeps the list.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "postmaster/interrupt.h"
#include "utils/timestamp.h"

#include "broken.h"
#include "server/background.h"
#include "server/compat.h"
#include "server/shmem.h"

/* More than the library has. */
#define MISSING_MAX 8

#define TRY_US INT64CONST(1000000)

typedef struct Missing
{
	pg_atomic_uint64 tried_at; /* a TimestampTz */
	pg_atomic_uint32 had[MISSING_MAX];
} Missing;

/* Workers left out at the start, in order of registration. */
static BackgroundWorker left_out[MISSING_MAX];
static int left_out_count;
static Missing *missing;

static ExecutorStart_hook_type previous_executor_start;

void
background_describe(BackgroundWorker *worker, const char *name,
                    const char *function)
{
	/* Our workers are found by their names. */
	Assert(strlen(name) < BGW_MAXLEN && strlen(function) < BGW_MAXLEN);
	memset(worker, 0, sizeof(*worker));
	snprintf(worker->bgw_name, BGW_MAXLEN, "%s", name);
	snprintf(worker->bgw_type, BGW_MAXLEN, "%s", name);
	snprintf(worker->bgw_library_name, BGW_MAXLEN, "%s", "pgflash");
	snprintf(worker->bgw_function_name, BGW_MAXLEN, "%s", function);
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS;
}

void
background_submit(BackgroundWorker *worker)
{
	Assert(process_shared_preload_libraries_in_progress);
	RegisterBackgroundWorker(worker);

	/* A single-user server has no workers, and needs none. */
	if (!IsPostmasterEnvironment || compat_worker_listed(worker->bgw_name))
		return;
	if (left_out_count == MISSING_MAX)
		elog(ERROR, "too many background workers");
	left_out[left_out_count++] = *worker;
}

void
background_register(const char *name, const char *function)
{
	BackgroundWorker worker;

	background_describe(&worker, name, function);
	worker.bgw_start_time = BgWorkerStart_PostmasterStart;
	worker.bgw_restart_time = 1;
	background_submit(&worker);
}

/* ---- those that are missing ---------------------------------------------- */

void
background_begin(void)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	/*
	 * When PostgreSQL sets up a background worker, it discards a SIGHUP that
	 * has come since the process was forked: it may have the configuration of
	 * before.
	 */
	ConfigReloadPending = true;
}

bool
background_missing(const char *name)
{
	for (int i = 0; i < left_out_count; i++)
	{
		if (strcmp(left_out[i].bgw_name, name) == 0)
			return missing == NULL || pg_atomic_read_u32(&missing->had[i]) == 0;
	}
	return false;
}

char *
background_missing_names(void)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < left_out_count; i++)
	{
		if (background_missing(left_out[i].bgw_name))
			appendStringInfo(&names, "%s\"%s\"", names.len == 0 ? "" : ", ",
			                 left_out[i].bgw_name);
	}
	return names.len == 0 ? NULL : names.data;
}

/*
 * Try to register a missing worker.  One process does so; the others continue.
 */
static void
try_again(void)
{
	uint64 before;

	if (missing == NULL || FC_BROKEN(LEFT_OUT))
		return;
	before = pg_atomic_read_u64(&missing->tried_at);
	if (GetCurrentTimestamp() - (TimestampTz) before < TRY_US ||
	    !pg_atomic_compare_exchange_u64(&missing->tried_at, &before,
	                                    (uint64) GetCurrentTimestamp()))
		return;
	for (int i = 0; i < left_out_count; i++)
	{
		uint32 not_had = 0;

		if (!pg_atomic_compare_exchange_u32(&missing->had[i], &not_had, 1))
			continue;
		if (!RegisterDynamicBackgroundWorker(&left_out[i], NULL))
		{
			pg_atomic_write_u32(&missing->had[i], 0);
			return;
		}
		ereport(LOG,
		        (errmsg("pgflash: there is a background worker for \"%s\" now",
		                left_out[i].bgw_name)));
	}
}

static void
executor_start(QueryDesc *query, int flags)
{
	try_again();
	if (previous_executor_start != NULL)
		previous_executor_start(query, flags);
	else
		standard_ExecutorStart(query, flags);
}

static size_t
size_bytes(void)
{
	return MAXALIGN(sizeof(Missing));
}

/*
 * The memory is new: the postmaster's list tells which workers were registered
 * before a crash.
 */
static void
start(void *memory)
{
	Assert(left_out_count > 0 && left_out_count <= MISSING_MAX);
	missing = memory;
	pg_atomic_init_u64(&missing->tried_at, 0);
	for (int i = 0; i < MISSING_MAX; i++)
		pg_atomic_init_u32(&missing->had[i],
		                   i < left_out_count &&
		                       compat_worker_listed(left_out[i].bgw_name));
}

void
background_install(void)
{
	static const SharedPart part = { .name = "pgflash background workers",
		                             .size_bytes = size_bytes,
		                             .start = start };

	Assert(process_shared_preload_libraries_in_progress);
	if (left_out_count == 0)
		return;
	ereport(
		WARNING,
		(errmsg("pgflash: there are no background workers for %s",
	            background_missing_names()),
	     errdetail("They are not running: without \"pgflash\" the cache does "
	               "not serve, without "
	               "\"pgflash writer\" no blocks are added."),
	     errhint("Raise max_worker_processes by %d or more.", left_out_count)));
	shmem_add(&part);
	previous_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
}
