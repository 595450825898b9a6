/*
 * bridge_writer.c
 *		The background worker that writes to flash.
 *
 * A process that puts a block into the cache leaves it in the staging ring.
 * This process copies it to the cache file, so that no query waits for a flash
 * write.  While there is no writer, the cache serves what it has, and admits no
 * new blocks once the ring is full.
 *
 * It waits inside core, not on its latch, since the processes that fill the
 * ring wake it without using PostgreSQL; its SIGTERM handler does the same.
 *
 * When told to stop, it writes staged blocks for a limited time.  Blocks that
 * are not on flash by then are dropped.
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
#include "server/compat.h"

#define MS UINT64CONST(1000000)

/* How often to check whether the postmaster is still alive. */
#define REST (1000 * MS)

/* The previous writer may need a moment to exit. */
#define RETRY_MS 100

/* At the end, write staged blocks for this long. */
#define DRAIN (2000 * MS)

/* Core's writer, which is this process. */
static FcWriter *writer;

PGDLLEXPORT void pgflash_writer_main(Datum argument);

static void
handle_stop(SIGNAL_ARGS)
{
	int saved_errno = errno;

	SignalHandlerForShutdownRequest(COMPAT_SIGNAL);
	if (bridge_attached())
		fc_writer_wake(&runtime.cache);
	errno = saved_errno;
}

/* Become the writer; false if told to stop first. */
static bool
begin(void)
{
	while (!ShutdownRequestPending)
	{
		Assert(bridge_attached());
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
	pqsignal(SIGHUP, COMPAT_SIGNAL_IGNORED);
	pqsignal(SIGTERM, handle_stop);
	BackgroundWorkerUnblockSignals();

	/* The cache was refused after we were registered: do not restart us. */
	if (!bridge_attached())
		proc_exit(0);

	if (begin())
	{
		Assert(writer != NULL);
		pgstat_report_wait_start(PG_WAIT_EXTENSION);
		while (!ShutdownRequestPending && PostmasterIsAlive())
		{
			CHECK_FOR_INTERRUPTS();
			fc_writer_run(writer, REST);
		}
		/* Only the cache loses blocks that were not written in time. */
		if (fc_writer_drain(writer, DRAIN) == FC_OK)
			(void) fc_writer_end(writer, 0);
		pgstat_report_wait_end();
	}

	/* Not 0: after a pg_terminate_backend() the writer must be restarted. */
	proc_exit(1);
}

void
bridge_writer_register(void)
{
	background_register("pgflash writer", "pgflash_writer_main");
}
