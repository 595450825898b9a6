/*
 * load_worker.c
 *		The process that loads files into the cache.
 *
 * It runs only while there is something to load; the housekeeping worker starts
 * it.  It reads a file in runs of up to 16 blocks, with one call each: a disk
 * charges per call rather than per byte.  Blocks that are cached are not read.
 * Where the file system allows it, the page cache is left alone (O_DIRECT).
 *
 * Queries must not feel it.  It reads at most pgflash.load_rate.  When a read
 * takes much longer than the quickest ones do, the disk has a queue, and the
 * process rests for a multiple of that time.  It waits, too, while the cache or
 * its writer could not take a block without being in the way of queries
 * (bridge_load.c).
 *
 * It holds no lock and is connected to no database.  A file is opened for a
 * portion of it at a time, so that a dropped one does not occupy its space for
 * longer than that.
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
#include "utils/guc.h"
#include "utils/memutils.h"

#include "bridge/bridge_load.h"
#include "bridge/bridge_runtime.h"
#include "load/load.h"
#include "server/background.h"
#include "server/compat.h"
#include "settings.h"

#define NS_OF_MS 1000000.0

/* Runs that are read from a file before it is opened again. */
#define PORTION_RUNS 64

/* While nothing can be loaded, look again after this time. */
#define HINDERED_MS 1000

/* While the ring is half full; and how often before a block is given up. */
#define RING_MS    2
#define RING_TRIES 1000

/*
 * A read that takes SLOW times as long as the quickest has waited for others;
 * then rest for REST times as long.  The quickest is forgotten by a hundredth
 * for each read, since the disk may become slower for good.
 */
#define SLOW   3
#define REST   4
#define FORGET 1.01

PGDLLEXPORT void pgflash_loader_main(Datum argument);

static double quickest_ns;

/* Milliseconds by which the process is ahead of its rate. */
static double ahead_ms;

/* Wait; leave when told to. */
static void
wait_ms(long ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
	                 ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* ---- pace ---------------------------------------------------------------- */

/* How long the process has to rest after a read, in milliseconds. */
static double
rest_after(const BridgeLoad *got)
{
	double ns = (double) got->read_ns;
	double rest_ms = 0;

	quickest_ns = quickest_ns == 0 ? ns : Min(quickest_ns * FORGET, ns);
	if (ns > SLOW * quickest_ns)
		rest_ms = REST * ns / NS_OF_MS;
	if (setting_load_rate_mb > 0)
		rest_ms = Max(rest_ms, (double) got->read_bytes / 1024 / 1024 /
		                               setting_load_rate_mb * 1000 -
		                           ns / NS_OF_MS);
	return rest_ms;
}

static void
pace(const BridgeLoad *got)
{
	if (got->read_bytes == 0)
		return;
	ahead_ms = Max(0, ahead_ms + rest_after(got));
	if (ahead_ms < 1)
		return;
	wait_ms((long) ahead_ms);
	ahead_ms = 0;
}

/* ---- files --------------------------------------------------------------- */

static int
open_segment(const LoadFile *file, uint32 segment)
{
	char path[BRIDGE_LOAD_PATH];
	int fd;

	bridge_load_path(file->tablespace, file->database, file->filenode, segment,
	                 path);
	fd = OpenTransientFile(path, O_RDONLY | PG_BINARY | O_DIRECT);
	if (fd < 0 && errno == EINVAL)
		fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	return fd;
}

/* Load a run; false: the file has ended, or could not be read. */
static bool
load_run(int fd, LoadFile *file, uint32 first, unsigned count, void *buffer)
{
	BridgeLoad got;

	bridge_load_read(fd, first, count, buffer, &got);
	for (int tries = 0;
	     !bridge_load_fill(tries == RING_TRIES || ShutdownRequestPending, &got);
	     tries++)
		wait_ms(RING_MS);
	file->done += got.looked;
	file->cached += got.cached;
	file->loaded += got.loaded;
	file->refused += got.refused;
	file->error = got.error;
	pace(&got);
	return !got.end && got.error == 0;
}

/* Load a portion of the file, of one segment. */
static void
load_portion(LoadFile *file, void *buffer)
{
	uint32 segment_blocks = bridge_load_segment_blocks();
	uint32 first = (uint32) (file->done % segment_blocks);
	int fd = open_segment(file, (uint32) (file->done / segment_blocks));
	bool more = fd >= 0;

	if (fd < 0)
		file->error = errno;
	for (int i = 0; more && i < PORTION_RUNS && first < segment_blocks &&
	                file->done < file->blocks && !ShutdownRequestPending;
	     i++)
	{
		uint64 left = Min(file->blocks - file->done, segment_blocks - first);
		unsigned count = (unsigned) Min(left, BRIDGE_LOAD_BLOCKS);

		more = load_run(fd, file, first, count, buffer);
		first += count;
		if (!load_store(file))
			break; /* cancelled */
	}
	if (fd >= 0)
		(void) CloseTransientFile(fd);

	/* A file that became shorter ends earlier. */
	if (file->error != 0)
		file->state = LOAD_FAILED;
	else if (!more || file->done == file->blocks)
		file->state = LOAD_DONE;
	(void) load_store(file);
}

/* Why is there nothing to do now?  NULL: there is. */
static const char *
hindrance(void)
{
	return setting_load_rate_mb == 0 ? "pgflash.load_rate is 0"
	                                 : bridge_load_hindrance();
}

void
pgflash_loader_main(Datum argument)
{
	LoadFile file;
	char *buffer;

	(void) argument;
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	if (!bridge_attached() || !load_attached())
		proc_exit(0);

	buffer = (char *) TYPEALIGN(
		COMPAT_IO_ALIGN,
		MemoryContextAlloc(TopMemoryContext,
	                       BRIDGE_LOAD_BLOCKS * BLCKSZ + COMPAT_IO_ALIGN));
	load_save();
	while (!ShutdownRequestPending && load_next(&file))
	{
		const char *why = hindrance();

		load_set_reason(why);
		if (why != NULL)
			wait_ms(HINDERED_MS);
		else
			load_portion(&file, buffer);
		load_save();
	}
	load_set_reason(NULL);
	proc_exit(0);
}

/* ---- its start ----------------------------------------------------------- */

void
load_worker_tick(void)
{
	static BackgroundWorkerHandle *handle;
	BackgroundWorker worker;
	pid_t pid;

	if (handle != NULL && GetBackgroundWorkerPid(handle, &pid) != BGWH_STOPPED)
		return;
	if (handle != NULL)
		pfree(handle);
	handle = NULL;
	if (!load_pending())
		return;

	background_describe(&worker, "pgflash loader", "pgflash_loader_main");
	worker.bgw_start_time = BgWorkerStart_PostmasterStart;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
	{
		handle = NULL;
		load_set_reason("max_worker_processes are in use");
	}
}
