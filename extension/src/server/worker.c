/*
 * worker.c
 *		The background worker: self-test, housekeeping, log.
 *
 * The postmaster never uses PostgreSQL's own file layer.  So only a child can
 * find out whether the server's file calls really pass through our hooks.  The
 * worker is that child: it makes all the calls that are made for a data file on
 * a probe file, and lets the cache serve only if each of them passed through a
 * hook.  Until then, and if the worker never starts, the cache serves nothing.
 *
 * After that it wakes up once a second to clean up and to log what hooks could
 * not.  While a device is bypassed, it wakes up more often, to probe it.  It
 * needs no database, so it runs during recovery and on a standby, too.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/wait_event.h"

#include "bridge/bridge.h"
#include "bridge/bridge_cache_policy.h"
#include "bridge/bridge_runtime.h"
#include "load/load.h"
#include "server/background.h"
#include "server/benefit.h"
#include "settings.h"
#include "server/worker.h"

/*
 * It is next to the cluster's own files; backups skip it because of its name.
 */
#define PROBE_FILE "pgsql_tmp_pgflash_probe"

PGDLLEXPORT void pgflash_worker_main(Datum argument);

/*
 * Create, write, read and remove the probe file.  Returns NULL, or what went
 * wrong.
 */
static const char *
probe(void)
{
	PGAlignedBlock written;
	PGAlignedBlock got;
	const char *unseen;
	File file;
	bool good;

	memset(&written, 'p', sizeof(written));
	memset(&got, 0, sizeof(got));
	bridge_self_test_begin();

	file = PathNameOpenFile(PROBE_FILE, O_RDWR | O_CREAT | O_TRUNC | PG_BINARY);
	if (file < 0)
		return "the probe file could not be created";

	good = FileWrite(file, written.data, BLCKSZ, 0,
	                 WAIT_EVENT_DATA_FILE_WRITE) == BLCKSZ &&
	       FileRead(file, got.data, BLCKSZ, 0, WAIT_EVENT_DATA_FILE_READ) ==
	           BLCKSZ &&
	       memcmp(written.data, got.data, BLCKSZ) == 0 &&
	       FileTruncate(file, 0, WAIT_EVENT_DATA_FILE_TRUNCATE) == 0;
	FileClose(file);
	good = pg_truncate(PROBE_FILE, 0) == 0 && good;
	good = durable_unlink(PROBE_FILE, LOG) == 0 && good;
	if (!good)
		return "the probe file could not be written, read and removed";

	unseen = bridge_self_test_end();
	return unseen == NULL ? NULL
	                      : psprintf("%s() does not pass pgflash", unseen);
}

static void
self_test(void)
{
	const char *problem = probe();

	if (problem == NULL)
		bridge_start_serving();
	else
		bridge_fail_self_test(problem);
}

void
pgflash_worker_main(Datum argument)
{
	bool loading;

	(void) argument;
	background_begin();

	/* The cache was refused after we were registered: do not restart us. */
	if (!bridge_attached())
		proc_exit(0);

	bridge_cache_policy_set_keep_share(setting_keep_share);
	if (bridge_needs_self_test())
		self_test();

	while (!ShutdownRequestPending)
	{
		unsigned again_ms;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			bridge_settings_reloaded();
			bridge_cache_policy_set_keep_share(setting_keep_share);
		}

		loading = bridge_load();
		again_ms = bridge_tick();
		benefit_note();
		load_worker_tick();

		(void) WaitLatch(MyLatch,
		                 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
		                 loading ? 0 : (long) again_ms, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}

	/* Not 0: after a pg_terminate_backend() the worker must be restarted. */
	proc_exit(1);
}

void
worker_register(void)
{
	background_register("pgflash", "pgflash_worker_main");
}
