/*
 * load_worker.c
 *		The processes that load blocks into the cache.
 *
 * They run only while there is something to load; the housekeeping worker
 * starts them.  One loads files (load.c), from their beginning to their end.
 * Up to LOAD_WORKERS load a list (load_list.c): its blocks are scattered, so
 * the disk gets several reads at a time.  Files come first.
 *
 * Each process reads runs of up to 16 blocks, with one call each: a disk
 * charges per call rather than per byte.  Blocks that are cached are not read.
 * Where the file system allows it, the page cache is left alone (O_DIRECT).
 *
 * Queries must not feel it.  Together the processes read at most
 * pgflash.load_rate.  A read that takes much longer than the quickest one
 * shows that the disk has a queue; the process then rests for a multiple of
 * that time.  It also waits while the cache or its writer could take a block
 * only at the expense of queries (bridge_load.c).
 *
 * The processes hold no lock and are connected to no database.  A file is
 * opened for one portion at a time, so a dropped file keeps its space no
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
#include "load/load_list.h"
#include "server/background.h"
#include "server/compat.h"
#include "settings.h"

#define NS_OF_MS 1000000.0

/* Processes that load a list. */
#define LOAD_WORKERS 4

/*
 * Background workers that have a place before them: five of pgflash, one that
 * visits a database, and the launcher of logical replication.
 */
#define OTHER_WORKERS 7

/* Runs that are read from a file before it is opened again. */
#define PORTION_RUNS 64

/* While nothing can be loaded, look again after this time. */
#define HINDERED_MS 1000

/*
 * The wait while the ring is half full, or a block of the segment is being
 * written; how many until a run is given up.
 */
#define RING_MS    2
#define RING_TRIES 1000

/*
 * A read that takes SLOW times as long as the quickest one has waited for
 * others; the process then rests for REST times as long.  The quickest time
 * grows by a hundredth with each read: the disk may become slower for good.
 */
#define SLOW   3
#define REST   4
#define FORGET 1.01

PGDLLEXPORT void pgflash_loader_main(Datum argument);

/* This process's number; number 0 also loads files. */
static int my_number;

static double quickest_ns;

/* Milliseconds by which the process is ahead of its rate. */
static double ahead_ms;

/* Wait, then act on signals and a changed configuration. */
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

/*
 * Is the process to end?  If the cache is offline, it stays so until the server
 * starts again; what is left to load waits for that.
 */
static bool
must_end(void)
{
	return ShutdownRequestPending || bridge_load_over();
}

/* Why nothing can be loaded now; NULL: something can. */
static const char *
hindrance(void)
{
	return setting_load_rate_mb == 0 && !bridge_load_over()
	           ? "pgflash.load_rate is 0"
	           : bridge_load_hindrance();
}

/* May one more run be loaded? */
static bool
may_go_on(void)
{
	return !must_end() && hindrance() == NULL;
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
		                               setting_load_rate_mb * 1000 *
		                               load_list_workers() -
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
open_segment(const BridgeLoadFile *file)
{
	char path[BRIDGE_LOAD_PATH];
	int fd;

	bridge_load_path(file, path);
	fd = OpenTransientFile(path, O_RDONLY | PG_BINARY | O_DIRECT);
	if (fd < 0 && errno == EINVAL)
		fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	return fd;
}

/* Load a run; false: the file has ended, or could not be read. */
static bool
load_run(int fd, const BridgeLoadRun *wanted, void *buffer, BridgeLoad *got)
{
	bridge_load_read(fd, wanted, buffer, got);
	for (int tries = 0;
	     !bridge_load_fill(tries == RING_TRIES || ShutdownRequestPending, got);
	     tries++)
		wait_ms(RING_MS);
	pace(got);
	return !got->end && got->error == 0;
}

/* Load a run of a whole file. */
static bool
load_file_run(int fd, LoadFile *file, uint32 first, unsigned count,
              void *buffer)
{
	BridgeLoadRun wanted = { .first = first,
		                     .count = count,
		                     .wanted =
		                         (uint32) ((UINT64CONST(1) << count) - 1) };
	BridgeLoad got;
	bool more = load_run(fd, &wanted, buffer, &got);

	file->done += got.looked;
	file->cached += got.cached;
	file->loaded += got.loaded;
	file->refused += got.refused;
	file->error = got.error;
	return more;
}

/* Load a portion of the file, of one segment. */
static void
load_portion(LoadFile *file, void *buffer)
{
	uint32 segment_blocks = bridge_load_segment_blocks();
	uint32 first = (uint32) (file->done % segment_blocks);
	BridgeLoadFile segment = { .tablespace = file->tablespace,
		                       .database = file->database,
		                       .relation = file->filenode,
		                       .segment =
		                           (uint32) (file->done / segment_blocks) };
	int fd = open_segment(&segment);
	bool more = fd >= 0;

	if (fd < 0)
		file->error = errno;
	for (int i = 0; more && i < PORTION_RUNS && first < segment_blocks &&
	                file->done < file->blocks && may_go_on();
	     i++)
	{
		uint64 left = Min(file->blocks - file->done, segment_blocks - first);
		unsigned count = (unsigned) Min(left, BRIDGE_LOAD_BLOCKS);

		more = load_file_run(fd, file, first, count, buffer);
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

/* Wait for a moment if nothing can be loaded now; true if it did. */
static bool
hindered(void)
{
	const char *why = hindrance();

	load_set_reason(why);
	if (why != NULL)
		wait_ms(HINDERED_MS);
	return why != NULL;
}

/* Load the files that were asked for, unless another process does. */
static void
load_files(void *buffer)
{
	LoadFile file;

	if (my_number != 0)
		return;
	load_save();
	while (!must_end() && load_next(&file))
	{
		if (!hindered())
			load_portion(&file, buffer);
		load_save();
	}
}

/* ---- a list -------------------------------------------------------------- */

/* The list whose part this process loads; 0: none. */
static uint64 part_of;

static void
end_part(void)
{
	uint64 list = part_of;

	part_of = 0;
	if (list != 0)
		load_list_end(list);
}

/* The blocks of the bitmap that are in this run. */
static uint32
wanted_of(const LoadPart *part, const uint8 *bitmap, uint32 first)
{
	uint32 wanted = 0;

	Assert(first % 8 == 0);
	for (uint32 i = 0; i < BRIDGE_LOAD_BLOCKS / 8; i++)
	{
		uint32 byte = first / 8 + i;

		if (byte < part->size)
			wanted |= (uint32) bitmap[byte] << (8 * i);
	}
	return wanted;
}

/*
 * Load a portion of a part from block *first on, which it advances.  False: the
 * part has ended, or is no longer wanted.
 */
static bool
load_part_portion(const LoadPart *part, const uint8 *bitmap, uint32 *first,
                  LoadCounts *counts, void *buffer)
{
	BridgeLoadFile file = load_list_file(part);
	int fd = bridge_load_possible(&file) ? open_segment(&file) : -1;
	bool more = fd >= 0;

	for (int runs = 0;
	     more && runs < PORTION_RUNS && may_go_on() && *first / 8 < part->size;
	     *first += BRIDGE_LOAD_BLOCKS)
	{
		BridgeLoadRun wanted = { .first = *first,
			                     .count = BRIDGE_LOAD_BLOCKS,
			                     .wanted = wanted_of(part, bitmap, *first),
			                     .heat = part->heat };
		BridgeLoad got;
		LoadCounts run;

		if (wanted.wanted == 0)
			continue;
		more = load_run(fd, &wanted, buffer, &got);
		run = (LoadCounts){ .done = got.looked,
			                .cached = got.cached,
			                .loaded = got.loaded,
			                .refused = got.refused };
		counts->done += run.done;
		more = load_list_count(part_of, &run) && more;
		runs++;
	}
	if (fd >= 0)
		(void) CloseTransientFile(fd);
	return more && *first / 8 < part->size && !must_end();
}

/* Load a part whose bitmap was read. */
static void
load_part(const LoadPart *part, const uint8 *bitmap, void *buffer)
{
	LoadCounts counts = { 0 };
	LoadCounts rest = { 0 };
	uint32 first = 0;
	bool more = true;

	while (more && !must_end())
	{
		load_files(buffer);
		if (!hindered())
			more = load_part_portion(part, bitmap, &first, &counts, buffer);
		else
			more = load_list_count(part_of, &rest);
	}

	/* What was not reached does not exist, or will not be loaded. */
	if (counts.done < part->blocks && !bridge_load_over())
	{
		rest.done = part->blocks - counts.done;
		if (ShutdownRequestPending)
			rest.refused = rest.done;
		else
			rest.missing = rest.done;
		(void) load_list_count(part_of, &rest);
	}
}

/* Load a part of the list; false: none is left. */
static bool
load_next_part(void *buffer)
{
	uint8 *bitmap = NULL;
	uint32 number;
	LoadPart part;
	int fd;

	if (!load_list_begin(&part_of, &number))
		return false;
	fd = load_list_open(part_of);
	if (fd >= 0)
	{
		if (load_list_part(fd, number, &part))
			bitmap = load_list_bitmap(fd, &part);
		(void) CloseTransientFile(fd);
	}
	if (bitmap != NULL)
	{
		load_part(&part, bitmap, buffer);
		pfree(bitmap);
	}

	/* A list of which a part has not ended begins again at the next start. */
	if (bridge_load_over())
		part_of = 0;
	end_part();
	return true;
}

/* ---- the process --------------------------------------------------------- */

static void
leave(int code, Datum argument)
{
	(void) code;
	(void) argument;
	end_part();
	load_list_leave(my_number);
}

void
pgflash_loader_main(Datum argument)
{
	char *buffer;

	background_begin();
	if (!bridge_attached() || !load_attached())
		proc_exit(0);

	/* The housekeeping worker before this one may have started one, too. */
	my_number = DatumGetInt32(argument);
	if (!load_list_join(my_number))
		proc_exit(0);
	before_shmem_exit(leave, (Datum) 0);
	buffer = (char *) TYPEALIGN(
		COMPAT_IO_ALIGN,
		MemoryContextAlloc(TopMemoryContext,
	                       BRIDGE_LOAD_BLOCKS * BLCKSZ + COMPAT_IO_ALIGN));
	do
		load_files(buffer);
	while (!must_end() && load_next_part(buffer));
	load_set_reason(bridge_load_over() ? hindrance() : NULL);
	proc_exit(0);
}

/* ---- its start ----------------------------------------------------------- */

/*
 * Does a process run, or start?  If an earlier housekeeping worker started it,
 * there is no handle, only its number.
 */
static bool
runs(BackgroundWorkerHandle *handle, int number)
{
	pid_t pid;

	return load_list_joined(number) ||
	       (handle != NULL &&
	        GetBackgroundWorkerPid(handle, &pid) != BGWH_STOPPED);
}

/* Start a process unless it runs; false: there is no place for it. */
static bool
start_worker(BackgroundWorkerHandle **handle, int number)
{
	BackgroundWorker worker;

	if (runs(*handle, number))
		return true;
	if (*handle != NULL)
		pfree(*handle);
	*handle = NULL;

	background_describe(&worker, "pgflash loader", "pgflash_loader_main");
	worker.bgw_start_time = BgWorkerStart_PostmasterStart;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = Int32GetDatum(number);
	return RegisterDynamicBackgroundWorker(&worker, handle);
}

static int
wanted_workers(void)
{
	if (load_list_pending())
		return Max(1, Min(LOAD_WORKERS, max_worker_processes - OTHER_WORKERS));
	return load_pending() ? 1 : 0;
}

void
load_worker_tick(void)
{
	static BackgroundWorkerHandle *handles[LOAD_WORKERS];
	int wanted = wanted_workers();

	/* Nobody else does: what is cancelled now must not be loaded again. */
	if (!runs(handles[0], 0))
		load_save();
	if (wanted > 0 && bridge_load_over())
	{
		load_set_reason(hindrance());
		return;
	}

	/* One process is enough; with fewer than wanted, loading takes longer. */
	for (int i = 0; i < wanted; i++)
	{
		if (start_worker(&handles[i], i))
			continue;
		handles[i] = NULL;
		if (i == 0)
			load_set_reason("max_worker_processes are in use");
		break;
	}
}
