/*
 * background.c
 *		What our background workers have in common.
 *
 * Those that go into databases, and those that send them there, are described in
 * visits.c; all others run as long as the server does.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "background.h"

void
background_describe(BackgroundWorker *worker, const char *name,
                    const char *function)
{
	memset(worker, 0, sizeof(*worker));
	snprintf(worker->bgw_name, BGW_MAXLEN, "%s", name);
	snprintf(worker->bgw_type, BGW_MAXLEN, "%s", name);
	snprintf(worker->bgw_library_name, BGW_MAXLEN, "%s", "pgflash");
	snprintf(worker->bgw_function_name, BGW_MAXLEN, "%s", function);
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS;
}

void
background_register(const char *name, const char *function)
{
	BackgroundWorker worker;

	background_describe(&worker, name, function);
	worker.bgw_start_time = BgWorkerStart_PostmasterStart;
	worker.bgw_restart_time = 1;
	RegisterBackgroundWorker(&worker);
}
