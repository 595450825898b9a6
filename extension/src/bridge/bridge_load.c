/*
 * bridge_load.c
 *		Loading: blocks are read from a relation's file to put them into the
 *		cache, not because a query needs them now.
 *
 * The order of steps is that of a query's miss (request.c), so nothing else is
 * needed to be sure that the block is right: first a ticket from the look-up,
 * then the read, then PostgreSQL's own check of the page, then the fill, which
 * fails if anything has changed since the ticket.  The descriptor must refer to
 * the file that has the name now, which descriptors_number() checks.  So the
 * relation needs no lock: it may be changed, truncated, rewritten or dropped
 * meanwhile, on a standby by replay.
 *
 * Since no query asked for the block, it counts neither as a hit nor as a miss,
 * nor as a request for the miss-ratio curve.  pgflash_io counts the read as one
 * from disk.  In a full set the block takes the way only of a block that is
 * worth less than one whose last read was long ago (fc_fill_load()).
 *
 * Queries come first: a block is loaded only while the staging ring is at most
 * half full, and while half of the accumulated write budget is left.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "bridge/bridge_load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "account/account_calls.h"
#include "bridge/bridge_runtime.h"
#include "broken.h"
#include "fcache/assert.h"
#include "fcache/curve.h"
#include "fcache/housekeeping.h"
#include "fcache/replacement.h"
#include "fcache/writer.h"
#include "hooks/request.h"
#include "hooks/runtime.h"

_Static_assert(BRIDGE_LOAD_HEATS == FC_HEATS, "heats are the same as in core");
_Static_assert(PATHS_MAX <= BRIDGE_LOAD_PATH, "a path fits");

/* The run that this process is loading. */
static struct
{
	const OpenFile *file;
	FillPlan plan;
	unsigned heat;
	unsigned char *page; /* of block 0 of the plan's numbers */
	unsigned filled;     /* of the plan */
	unsigned got;        /* blocks that were read */
} run;

/*
 * The hash of a file for the end of whose writes a run has waited in vain: a
 * write that failed never ends.  Until it does, nothing of the file is read.
 */
static uint64_t writes_on;

static bool
is_written(const FcTicket *ticket)
{
	return !fc_fill_may_load(&runtime.cache, ticket);
}

const char *
bridge_load_hindrance(void)
{
	if (!bridge_attached() || fc_mode(&runtime.cache, NULL) != FC_SERVE)
		return "the mode of the cache is not serve";
	if (!fc_writer_serves(&runtime.cache))
		return "\"pgflash writer\" is not running";
	if (request_budget_is_short())
		return "the rest of pgflash.write_budget is left to queries";
	return NULL;
}

bool
bridge_load_over(void)
{
	return !bridge_attached() || fc_mode(&runtime.cache, NULL) == FC_OFFLINE;
}

uint32_t
bridge_load_segment_blocks(void)
{
	return runtime.segment_blocks;
}

/* ---- files --------------------------------------------------------------- */

static FcFileId
id_of(const BridgeLoadFile *file)
{
	return (FcFileId){ .tablespace = file->tablespace,
		               .database = file->database,
		               .relation = file->relation,
		               .fork = (uint8_t) file->fork,
		               .segment = file->segment & (FC_SEGMENTS_MAX - 1) };
}

bool
bridge_load_possible(const BridgeLoadFile *file)
{
	return file->relation != 0 && file->fork < PATHS_FORKS &&
	       file->segment < FC_SEGMENTS_MAX;
}

bool
bridge_load_fork(const char *name, uint32_t *fork_out)
{
	for (uint32_t fork = 0; fork < PATHS_FORKS; fork++)
	{
		if (strcmp(paths_fork_name(fork), name) == 0)
		{
			*fork_out = fork;
			return true;
		}
	}
	return false;
}

void
bridge_load_path(const BridgeLoadFile *file, char path[BRIDGE_LOAD_PATH])
{
	FC_ASSERT(bridge_load_possible(file));
	paths_of_file(&runtime.root, id_of(file), path);
}

unsigned
bridge_load_cached(const BridgeLoadFile *file, const uint32_t blocks[],
                   unsigned count)
{
	FcFile known = fc_file(id_of(file));
	unsigned cached = 0;

	FC_ASSERT(bridge_load_possible(file));
	if (!bridge_attached() || !fc_file_resolve(&runtime.cache, &known))
		return 0;
	for (unsigned i = 0; i < count; i++)
		cached += fc_read_would_hit(&runtime.cache, &known, blocks[i]);
	return cached;
}

/* ---- blocks -------------------------------------------------------------- */

/* Which of the first blocks of a run are not cached?  Take their tickets. */
static void
plan_run(int fd, OpenFile *file, const BridgeLoadRun *wanted, unsigned count,
         BridgeLoad *out)
{
	run.plan.count = 0;
	for (unsigned i = 0; i < count; i++)
	{
		FcTicket *ticket = &run.plan.ticket[run.plan.count];
		uint32_t block = wanted->first + i;
		FcStatus status;

		if ((wanted->wanted >> i & 1) == 0)
			continue;
		out->looked++;
		status = fc_read_ticket(&runtime.cache, &file->file, block, ticket);

		/*
		 * The file may have been truncated meanwhile: retry once with the
		 * current number.
		 */
		if (status == FC_STALE && descriptors_number(fd, file))
			status = fc_read_ticket(&runtime.cache, &file->file, block, ticket);
		if (status == FC_MISS && is_written(ticket) &&
		    writes_on == fc_curve_file_hash(file->file.id))
			out->refused++;
		else if (status == FC_MISS)
			run.plan.block[run.plan.count++] = (uint8_t) i;
		else if (status == FC_OK)
			out->cached++;
		else
			out->refused++;
	}
}

/* The number of blocks in the file from this one on, at most count. */
static unsigned
blocks_left(int fd, uint32_t first, unsigned count)
{
	struct stat status;
	uint64_t blocks;

	if (fstat(fd, &status) != 0)
		return 0;
	blocks = (uint64_t) status.st_size / FC_BLOCK_SIZE;
	if (blocks <= first)
		return 0;
	return blocks - first < count ? (unsigned) (blocks - first) : count;
}

/* Negative control: wait until what was read is no longer what the file has. */
static void
await_change(int fd, const void *page, size_t size, off_t offset)
{
	static char again[BRIDGE_LOAD_BLOCKS * FC_BLOCK_SIZE];

	for (int i = 0; i < 20; i++)
	{
		(void) usleep(50000);
		if (pread(fd, again, size, offset) == (ssize_t) size &&
		    memcmp(again, page, size) != 0)
			break;
	}
	/* The change may not have ended yet. */
	(void) usleep(50000);
}

/* Read from the first to the last block of the plan, in one call. */
static void
read_planned(int fd, OpenFile *file, uint32_t first, BridgeLoad *out)
{
	unsigned begin = run.plan.block[0];
	unsigned end = run.plan.block[run.plan.count - 1] + 1u;
	off_t offset = (off_t) (first + begin) * FC_BLOCK_SIZE;
	size_t size = (size_t) (end - begin) * FC_BLOCK_SIZE;
	Accounted counted;
	uint64_t before = fc_clock_ns();
	ssize_t got;

	account_begin(&counted, file);
	got = pread(fd, run.page + (size_t) begin * FC_BLOCK_SIZE, size, offset);
	if (got < 0)
		out->error = errno;
	account_end_read(&counted, SOURCE_DISK, fd, size, got);
	out->read_ns = fc_clock_ns() - before;
	if (FC_BROKEN(LOAD_TICKET))
		await_change(fd, run.page + (size_t) begin * FC_BLOCK_SIZE, size,
		             offset);
	out->read_bytes = got > 0 ? (uint64_t) got : 0;
	run.got = begin + (unsigned) (out->read_bytes / FC_BLOCK_SIZE);
}

void
bridge_load_read(int fd, const BridgeLoadRun *wanted, void *buffer,
                 BridgeLoad *out)
{
	OpenFile *file = request_file(fd);
	unsigned count = blocks_left(fd, wanted->first, wanted->count);

	FC_ASSERT(wanted->count > 0 && wanted->count <= BRIDGE_LOAD_BLOCKS &&
	          BRIDGE_LOAD_BLOCKS <= RUN_FILL_BLOCKS);
	*out = (BridgeLoad){ .end = count < wanted->count };
	run.file = file;
	run.heat = wanted->heat;
	run.page = buffer;
	run.filled = run.got = run.plan.count = 0;
	if (runtime.cache.token == 0)
		(void) fc_process_begin(&runtime.cache);
	if (file == NULL || !request_cache_serves() ||
	    !descriptors_number(fd, file))
	{
		out->refused = out->looked = (unsigned) __builtin_popcount(
			wanted->wanted & (uint32_t) ((1ULL << count) - 1));
		return;
	}
	plan_run(fd, file, wanted, count, out);
	if (run.plan.count > 0)
		read_planned(fd, file, wanted->first, out);
}

static bool
fill_one(unsigned number)
{
	FcTicket ticket = run.plan.ticket[number];
	unsigned block = run.plan.block[number];

	/* Negative control: the ticket is taken too late. */
	if (FC_BROKEN(LOAD_TICKET) &&
	    fc_read_ticket(&runtime.cache, &run.file->file, ticket.block,
	                   &ticket) != FC_MISS)
		return false;
	return block < run.got &&
	       request_load_block(&run.file->file, &ticket,
	                          run.page + (size_t) block * FC_BLOCK_SIZE,
	                          run.heat);
}

bool
bridge_load_fill(bool give_up, BridgeLoad *out)
{
	while (run.filled < run.plan.count)
	{
		FcRingInfo ring = fc_writer_ring_info(&runtime.cache);
		bool written = is_written(&run.plan.ticket[run.filled]);

		if (!give_up && (written || ring.used >= (ring.pages + 1) / 2))
			return false;
		if (written)
			writes_on = fc_curve_file_hash(run.file->file.id);
		if (!give_up && fill_one(run.filled))
			out->loaded++;
		else
			out->refused++;
		run.filled++;
	}
	return true;
}
