/*
 * bridge_load.c
 *		Blocks that are read from a relation's file because somebody wants them
 *		in the cache, not because a query needs them now.
 *
 * The order of steps is that of a query's miss (request.c), so nothing else is
 * needed for the block to be the right one: first a ticket from the look-up,
 * then the read, then PostgreSQL's own check of the page, then the fill, which
 * fails if anything has changed since the ticket.  The descriptor has to be of
 * the file that has the name now; descriptors_number() finds that out.  So the
 * relation needs no lock: it may be changed, truncated, rewritten or dropped
 * meanwhile, on a standby by replay.
 *
 * As no query asked for the block, it is neither a hit nor a miss, nor a
 * request for the miss-ratio curve.  The read is one from disk in pgflash_io.
 * In a full set the replacement policy decides as for any other block.
 *
 * Queries come first: a block is loaded only while the staging ring is at most
 * half full, and while half of the accumulated write budget is left.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "bridge/bridge_load.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "account/account_calls.h"
#include "bridge/bridge_runtime.h"
#include "broken.h"
#include "fcache/assert.h"
#include "fcache/housekeeping.h"
#include "fcache/writer.h"
#include "hooks/request.h"
#include "hooks/runtime.h"

/* The accumulated write budget is at most five minutes' worth. */
#define BUDGETS_IN_A_DAY (24 * 60 / 5)

_Static_assert(PATHS_MAX <= BRIDGE_LOAD_PATH, "a path fits");

/* The run that this process is loading. */
static struct
{
	const OpenFile *file;
	FillPlan plan;
	unsigned char *page; /* of block 0 of the plan's numbers */
	unsigned filled;     /* of the plan */
	unsigned got;        /* blocks that were read */
} run;

static bool
budget_is_short(void)
{
	FcBudgetInfo info;

	fc_budget_info(&runtime.cache, &info);
	return info.bytes_per_day > 0 &&
	       info.left_now_bytes < (uint64_t) BRIDGE_LOAD_BLOCKS * FC_BLOCK_SIZE +
	                                 info.bytes_per_day / BUDGETS_IN_A_DAY / 2;
}

const char *
bridge_load_hindrance(void)
{
	if (!bridge_attached() || fc_mode(&runtime.cache, NULL) != FC_SERVE)
		return "the mode of the cache is not serve";
	if (!fc_writer_ring_info(&runtime.cache).served)
		return "\"pgflash writer\" is not running";
	if (budget_is_short())
		return "the rest of pgflash.write_budget is left to queries";
	return NULL;
}

uint32_t
bridge_load_segment_blocks(void)
{
	return runtime.segment_blocks;
}

void
bridge_load_path(uint32_t tablespace, uint32_t database, uint32_t relation,
                 uint32_t segment, char path[BRIDGE_LOAD_PATH])
{
	FcFileId id = { .tablespace = tablespace,
		            .database = database,
		            .relation = relation,
		            .segment = segment };

	paths_of_file(&runtime.root, id, path);
}

/* Which of the blocks are not cached?  Take their tickets. */
static void
plan_run(int fd, OpenFile *file, uint32_t first, BridgeLoad *out)
{
	run.plan.count = 0;
	for (unsigned i = 0; i < out->looked; i++)
	{
		FcTicket *ticket = &run.plan.ticket[run.plan.count];
		FcStatus status =
			fc_read_ticket(&runtime.cache, &file->file, first + i, ticket);

		/* Perhaps truncated meanwhile: retry once with the current number. */
		if (status == FC_STALE && descriptors_number(fd, file))
			status =
				fc_read_ticket(&runtime.cache, &file->file, first + i, ticket);
		if (status == FC_MISS)
			run.plan.block[run.plan.count++] = (uint8_t) i;
		else if (status == FC_OK)
			out->cached++;
		else
			out->refused++;
	}
}

/* The blocks that the file has from there on, up to count. */
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

/* Read from the first to the last block of the plan, in one call. */
static void
read_planned(int fd, OpenFile *file, uint32_t first, BridgeLoad *out)
{
	unsigned begin = run.plan.block[0];
	unsigned end = run.plan.block[run.plan.count - 1] + 1u;
	size_t size = (size_t) (end - begin) * FC_BLOCK_SIZE;
	Accounted counted;
	uint64_t before = fc_clock_ns();
	ssize_t got;

	account_begin(&counted, file);
	got = pread(fd, run.page + (size_t) begin * FC_BLOCK_SIZE, size,
	            (off_t) (first + begin) * FC_BLOCK_SIZE);
	if (got < 0)
		out->error = errno;
	account_end_read(&counted, SOURCE_DISK, fd, size, got);
	out->read_ns = fc_clock_ns() - before;
	if (FC_BROKEN(LOAD_TICKET))
		(void) usleep(20000);
	out->read_bytes = got > 0 ? (uint64_t) got : 0;
	run.got = begin + (unsigned) (out->read_bytes / FC_BLOCK_SIZE);
}

void
bridge_load_read(int fd, uint32_t first, unsigned count, void *buffer,
                 BridgeLoad *out)
{
	OpenFile *file = request_file(fd);

	FC_ASSERT(count > 0 && count <= BRIDGE_LOAD_BLOCKS &&
	          BRIDGE_LOAD_BLOCKS <= RUN_FILL_BLOCKS);
	*out = (BridgeLoad){ .looked = blocks_left(fd, first, count) };
	out->end = out->looked < count;
	run.file = file;
	run.page = buffer;
	run.filled = run.got = run.plan.count = 0;
	if (runtime.cache.token == 0)
		(void) fc_process_begin(&runtime.cache);
	if (file == NULL || !request_cache_serves() ||
	    !descriptors_number(fd, file))
	{
		out->refused = out->looked;
		return;
	}
	plan_run(fd, file, first, out);
	if (run.plan.count > 0)
		read_planned(fd, file, first, out);
}

static bool
fill_one(unsigned number)
{
	FcTicket ticket = run.plan.ticket[number];
	unsigned block = run.plan.block[number];

	/* Negative control: what happens if the ticket is taken too late. */
	if (FC_BROKEN(LOAD_TICKET) &&
	    fc_read_ticket(&runtime.cache, &run.file->file, ticket.block,
	                   &ticket) != FC_MISS)
		return false;
	return block < run.got &&
	       request_fill_block(&run.file->file, &ticket,
	                          run.page + (size_t) block * FC_BLOCK_SIZE);
}

bool
bridge_load_fill(bool give_up, BridgeLoad *out)
{
	while (run.filled < run.plan.count)
	{
		FcRingInfo ring = fc_writer_ring_info(&runtime.cache);

		if (!give_up && ring.used >= (ring.pages + 1) / 2)
			return false;
		if (!give_up && fill_one(run.filled))
			out->loaded++;
		else
			out->refused++;
		run.filled++;
	}
	return true;
}
