/*
 * request.c
 *		A read of a relation's file: what the page cache and flash can serve,
 *		and the fill after a read from disk.
 *
 * If the operating system's page cache can serve a read, it does so and nothing
 * is filled, since the block is already in faster memory (page_cache.c).
 *
 * One block: look it up; on a miss take the ticket, read the file, then fill.
 * The ticket is taken before the read, so any change of the block in between
 * makes it invalid.
 *
 * A run of blocks (PostgreSQL 17 and later read up to 1 MB at once) is served
 * from flash if all of it is cached; its scattered slots are read concurrently.
 * Otherwise one call reads the whole run from the file, since the cost of a
 * disk read is per call rather than per block, and the missing blocks are
 * filled.
 *
 * Large scans must not flush the cache.  A descriptor in the middle of one
 * (scans.c) no longer fills, nor does a run of 32 blocks or more.  Such
 * reads are still served from flash.  Base backups (walsenders) neither look up
 * nor fill; nor do reads that are not made of whole blocks.
 *
 * pgflash.verify compares hits with the file (verify.c).  A single mismatch
 * means that the cache cannot be trusted, so it goes offline at once.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/request.h"

#include <errno.h>
#include <unistd.h>

#include "broken.h"
#include "fcache/assert.h"
#include "fcache/housekeeping.h"
#include "hooks/advice.h"
#include "hooks/page_cache.h"
#include "hooks/runtime.h"
#include "hooks/scans.h"
#include "hooks/verify.h"
#include "settings.h"

OpenFile *
request_file(int fd)
{
	OpenFile *entry = descriptors_entry(fd);

	return entry == NULL || entry->class != FILE_RELATION || entry->dead
	           ? NULL
	           : entry;
}

bool
request_cache_serves(void)
{
	return runtime_attached() && fc_mode(&runtime.cache, NULL) == FC_SERVE;
}

/* ---- the blocks of a call ------------------------------------------------ */

static bool
add_pages(Run *run, void *buffer, size_t size)
{
	size_t count = size / FC_BLOCK_SIZE;

	FC_ASSERT(run->count <= RUN_BLOCKS_MAX);
	if (size % FC_BLOCK_SIZE != 0 || count > RUN_BLOCKS_MAX - run->count)
		return false;
	for (size_t i = 0; i < count; i++)
		run->page[run->count++] = (unsigned char *) buffer + i * FC_BLOCK_SIZE;
	return true;
}

bool
request_run(const Call *call, Run *run)
{
	uint64_t block = (uint64_t) call->offset / FC_BLOCK_SIZE;

	run->count = 0;
	if (call->offset < 0 || call->offset % FC_BLOCK_SIZE != 0)
		return false;

	if (call->iov == NULL)
	{
		if (!add_pages(run, call->buffer, call->size))
			return false;
	}
	for (int i = 0; call->iov != NULL && i < call->iov_count; i++)
	{
		if (!add_pages(run, call->iov[i].iov_base, call->iov[i].iov_len))
			return false;
	}

	run->first = (uint32_t) block;
	return run->count > 0 && block + run->count <= runtime.segment_blocks;
}

bool
request_in_page_cache(const Call *call, const OpenFile *entry)
{
	*call->source = entry->direct ? SOURCE_DISK : SOURCE_UNTOLD;
	if (entry->direct)
		return false;

	FC_ASSERT(call->offset >= 0 && call->size > 0);
	switch (page_cache_ask(call->fd, (FileClass) entry->class,
	                       (uint64_t) call->offset, call->size))
	{
		case PAGE_CACHE_HAS:
			*call->source = SOURCE_PAGE_CACHE;
			return true;
		case PAGE_CACHE_LACKS:
			*call->source = SOURCE_DISK;
			break;
		case PAGE_CACHE_UNTOLD:
			break;
	}
	return false;
}

Request
request_begin(const Call *call, OpenFile *entry, Run *run)
{
	FC_ASSERT(entry->class == FILE_RELATION && runtime_attached());
	run->bulk = false;

	/* A process that has a token adds to a shard of its own. */
	if (runtime.cache.token == 0)
		(void) fc_process_begin(&runtime.cache);

	if (*runtime.is_walsender || !request_run(call, run))
		return REQUEST_BYPASS;

	/*
	 * The memory of the look-up comes while the page cache is asked.  If that
	 * is likely to have the blocks, it would come in vain, and starting the
	 * system call waits for part of it: then later.
	 */
	bool early = entry->direct || entry->lacked;

	if (early)
		fc_read_prefetch(&runtime.cache, &entry->file, run->first, run->count);
	run->bulk = scans_note(entry, run->first, run->count);
	entry->lacked = !request_in_page_cache(call, entry);
	if (!entry->lacked)
		return REQUEST_PAGE_CACHE;
	if (!early)
		fc_read_prefetch(&runtime.cache, &entry->file, run->first, run->count);

	advice_requested(entry->file.id, run->first, run->count);
	return descriptors_number(call->fd, entry) ? REQUEST_WANTED
	                                           : REQUEST_BYPASS;
}

/* ---- flash --------------------------------------------------------------- */

bool
request_all_cached(const OpenFile *entry, uint32_t first, unsigned count)
{
	FC_ASSERT(count <= RUN_BLOCKS_MAX);
	for (unsigned i = 0; i < count; i++)
	{
		if (!fc_read_would_hit(&runtime.cache, &entry->file, first + i))
			return false;
	}
	return true;
}

static FcStatus
look_up(int fd, OpenFile *entry, uint32_t block, void *page, FcTicket *ticket)
{
	uint32_t shown = runtime_wait(runtime.flash_read_event);
	FcStatus status =
		fc_read(&runtime.cache, &entry->file, block, page, ticket);

	FC_ASSERT(block < runtime.segment_blocks);

	/*
	 * The file may have been truncated meanwhile: retry once with the current
	 * number.
	 */
	if (status == FC_STALE && descriptors_number(fd, entry))
		status = fc_read(&runtime.cache, &entry->file, block, page, ticket);
	runtime_wait(shown);
	return status;
}

static ssize_t
read_by_fd(void *fd, uint32_t block, void *page)
{
	return pread(*(int *) fd, page, FC_BLOCK_SIZE,
	             (off_t) block * FC_BLOCK_SIZE);
}

/* Does the file confirm the hit, so that it may be returned? */
static bool
compare_with_file(int fd, const OpenFile *entry, const void *page,
                  const FcTicket *ticket)
{
	switch (verify_hit(read_by_fd, &fd, page, ticket))
	{
		case VERIFIED_SAME:
		case VERIFIED_CHANGED:
		case VERIFIED_UNREADABLE:
			return true;
		case VERIFIED_UNSTEADY:
			return false;
		case VERIFIED_DIFFERENT:
			break;
	}
	verify_report(entry->file.id, ticket);
	(void) fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_MISMATCH);
	return false;
}

static bool
hit_stands(int fd, const OpenFile *entry, const void *page,
           const FcTicket *ticket)
{
	static unsigned hits;

	FC_ASSERT(ticket->file == entry->file.number &&
	          ticket->file != FC_FILE_NONE);
	if (setting_verify == VERIFY_OFF)
		return true;
	if (setting_verify == VERIFY_SAMPLE && ++hits % VERIFY_SAMPLE_EVERY != 0)
		return true;
	return compare_with_file(fd, entry, page, ticket);
}

/*
 * Serve a run from flash, all its slots at once; false if a block is missing or
 * was not read in time.
 */
static bool
serve_run(int fd, OpenFile *entry, const Run *run)
{
	FcTicket ticket[RUN_BLOCKS_MAX];
	uint32_t shown = runtime_wait(runtime.flash_read_event);
	uint64_t begin = fc_clock_ns();
	bool whole = fc_read_run(&runtime.cache, &entry->file, run->first,
	                         run->count, run->page, ticket);
	uint64_t ns = fc_clock_ns() - begin;

	FC_ASSERT(run->count > 1 && run->count <= RUN_BLOCKS_MAX);
	runtime_wait(shown);
	for (unsigned i = 0; whole && i < run->count; i++)
		whole = hit_stands(fd, entry, run->page[i], &ticket[i]);
	if (whole)
		advice_flash_read(run->count, ns);
	return whole;
}

static bool
serve_block(const Call *call, OpenFile *entry, const Run *run, FillPlan *plan)
{
	uint64_t begin = fc_clock_ns();
	FcStatus status =
		look_up(call->fd, entry, run->first, run->page[0], &plan->ticket[0]);
	uint64_t ns = fc_clock_ns() - begin;

	FC_ASSERT(run->count == 1);
	if (status == FC_OK &&
	    hit_stands(call->fd, entry, run->page[0], &plan->ticket[0]))
	{
		advice_flash_read(1, ns);
		return true;
	}
	if (status == FC_MISS && !run->bulk)
		plan->block[plan->count++] = 0;
	return false;
}

/* Take the tickets of the blocks of a run that will be filled. */
static void
plan_run(const Call *call, OpenFile *entry, const Run *run, FillPlan *plan)
{
	if (run->bulk || run->count > RUN_FILL_BLOCKS)
	{
		fc_count(&runtime.cache, FC_COUNT_bypass_reads, run->count);
		return;
	}
	for (unsigned i = 0; i < run->count; i++)
	{
		uint32_t block = run->first + i;

		/*
		 * Cached blocks are read with the others, but neither looked up nor
		 * filled.
		 */
		if (fc_read_would_hit(&runtime.cache, &entry->file, block) ||
		    look_up(call->fd, entry, block, run->page[i],
		            &plan->ticket[plan->count]) != FC_MISS)
			continue;
		plan->block[plan->count++] = (uint8_t) i;
	}
}

bool
request_serve(const Call *call, OpenFile *entry, const Run *run, FillPlan *plan)
{
	bool served;

	FC_ASSERT(run->count > 0 && run->count <= RUN_BLOCKS_MAX);
	plan->count = 0;
	served = run->count == 1 ? serve_block(call, entry, run, plan)
	                         : serve_run(call->fd, entry, run);
	if (served)
	{
		*call->source = SOURCE_FLASH;
		if (run->bulk)
			scans_read_ahead(entry, run->first + run->count);
	}
	else if (run->count > 1)
		plan_run(call, entry, run, plan);
	return served;
}

/* ---- after the disk ------------------------------------------------------ */

/*
 * Would PostgreSQL accept what the disk returned?  If not, do not fill: the
 * next read must reach the disk, which may then return the correct block.
 */
static bool
page_valid(const FcFile *file, const FcTicket *ticket, void *page)
{
	uint32_t block = file->id.segment * runtime.segment_blocks + ticket->block;

	FC_ASSERT(ticket->file != FC_FILE_NONE &&
	          ticket->block < runtime.segment_blocks);
	return FC_BROKEN(INVALID_PAGE) || runtime.page_valid(page, block);
}

bool
request_budget_is_short(void)
{
	FcBudgetInfo info;
	uint64_t enough;

	fc_budget_info(&runtime.cache, &info);
	enough = (uint64_t) RUN_FILL_BLOCKS * FC_BLOCK_SIZE + info.burst_bytes / 2;
	/* A small one is nearly full when no query has filled for a while. */
	if (enough > info.burst_bytes)
		enough = info.burst_bytes - FC_BLOCK_SIZE;
	return info.bytes_per_day > 0 && info.left_now_bytes < enough;
}

bool
request_load_block(const FcFile *file, const FcTicket *ticket, void *page,
                   unsigned heat)
{
	/*
	 * It may be invalid because a process was just writing it: the server locks
	 * only blocks that it asked for.  So this says nothing about the disk, and
	 * is not counted.
	 */
	return page_valid(file, ticket, page) &&
	       fc_fill_load(&runtime.cache, ticket, page, heat) == FC_OK;
}

/* Negative control: the ticket is taken too late. */
static __attribute__((noinline)) FcTicket
ticket_of_now(const FcFile *file, const FcTicket *ticket)
{
	unsigned char page[FC_BLOCK_SIZE];
	FcTicket late;

	return fc_read(&runtime.cache, file, ticket->block, page, &late) == FC_MISS
	           ? late
	           : *ticket;
}

void
request_fill(const FcFile *file, const FillPlan *plan, void *const page[],
             ssize_t got)
{
	FC_ASSERT(plan->count <= RUN_FILL_BLOCKS);
	for (unsigned i = 0; i < plan->count; i++)
	{
		unsigned block = plan->block[i];
		FcTicket ticket = plan->ticket[i];

		if (FC_BROKEN(TICKET_AFTER))
			ticket = ticket_of_now(file, &ticket);
		if (got < (ssize_t) (block + 1) * FC_BLOCK_SIZE)
			continue;
		if (page_valid(file, &ticket, page[block]))
			(void) fc_fill(&runtime.cache, &ticket, page[block]);
		else
			fc_count(&runtime.cache, FC_COUNT_insert_skip_invalid, 1);
	}
}
