/*
 * bridge_writer.c
 *		The background worker that writes to flash.
 *
 * Whoever puts a block into the cache leaves it in the staging ring; this process
 * takes it to the cache file, so that no query waits for a flash write.  While it
 * is away the cache serves what it has, and takes no new blocks once the ring is
 * full.
 *
 * It waits inside core, not on its latch, since those who fill the ring wake it
 * without knowing PostgreSQL; its SIGTERM handler does so, too.
 *
 * When it is told to stop it writes what is staged, for a bounded time: what is
 * not on flash then is forgotten.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <errno.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "utils/wait_event.h"

#include "bridge/bridge.h"
#include "bridge/bridge_runtime.h"
#include "fcache/writer.h"
#include "hooks/runtime.h"
#include "server/background.h"

#define MS UINT64CONST(1000000)

/* Look so often whether the postmaster still lives. */
#define REST (1000 * MS)

/* The writer before us may take a moment to be gone. */
#define RETRY_MS 100

/* Of what is staged at the end, write what can be written in this time. */
#define DRAIN (2000 * MS)

/* Core's; this process is the writer. */
static FcWriter *writer;

PGDLLEXPORT void pgflash_writer_main(Datum argument);

static void
handle_stop(SIGNAL_ARGS)
{
	int saved_errno = errno;

	SignalHandlerForShutdownRequest(postgres_signal_arg);
	if (bridge_attached())
		fc_writer_wake(&runtime.cache);
	errno = saved_errno;
}

/* Become the writer; false if we are to stop before. */
static bool
begin(void)
{
	while (!ShutdownRequestPending)
	{
		if (fc_writer_begin(&runtime.cache, &writer) == FC_OK)
			return true;
		(void) WaitLatch(MyLatch,
		                 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
		                 RETRY_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

void
pgflash_writer_main(Datum argument)
{
	(void) argument;
	pqsignal(SIGHUP, SIG_IGN);
	pqsignal(SIGTERM, handle_stop);
	BackgroundWorkerUnblockSignals();

	/* The cache was refused after we were registered: not to be started again. */
	if (!bridge_attached())
		proc_exit(0);

	if (begin())
	{
		pgstat_report_wait_start(PG_WAIT_EXTENSION);
		while (!ShutdownRequestPending && PostmasterIsAlive())
		{
			CHECK_FOR_INTERRUPTS();
			fc_writer_run(writer, REST);
		}
		/* What does not get done in time is lost to the cache, no more. */
		if (fc_writer_drain(writer, DRAIN) == FC_OK)
			(void) fc_writer_end(writer, 0);
		pgstat_report_wait_end();
	}

	/* Not 0: who is ended by somebody's pg_terminate_backend() is started again. */
	proc_exit(1);
}

void
bridge_writer_register(void)
{
	background_register("pgflash writer", "pgflash_writer_main");
}
