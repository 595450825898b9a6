/*
 * cache.c
 *		The flow of control: what happens at a fill and a change.
 *
 * Read this file first, then read.c.  They say in which order things happen;
 * index.c, claim.c, files.c, reader.c, staging.c, writer.c and devices.c do them.
 * The order is the protocol:
 *
 *	read	note mode and generations, find the entry, read the slot, or the page
 *			of the staging ring that the block is in; the hit counts only if the
 *			whole entry, the file's generation and the mode are still the same
 *			and the CRC32C is right
 *	fill	take a page of the ring, claim a way, copy the block, publish; the
 *			writer has it written to the slot later
 *	change	move the generation and empty the entry; the real change; the same
 *			again; then refresh the copy, if nobody else changed the set
 *
 * Failures: a slot that cannot be read or is corrupt is a miss.  Too many of
 * them take its cache file out of use; nothing else ever fails.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>

#include "budget.h"
#include "classes.h"
#include "devices.h"
#include "files.h"
#include "index.h"
#include "map.h"
#include "staging.h"

/* A longer run is invalidated as a range: it moves the file's generation. */
#define RUN_BLOCKS_MAX 128

#ifdef FC_TEST
uint64_t fc_test_broken;
void (*fc_test_point)(const char *name);
uint64_t fc_test_now_ns;
uint64_t fc_test_tick_ns;
void *const *fc_test_page;
#endif

void
fc_cache_clear(FcCache *cache)
{
	fc_mode_new_epoch(cache->shared);
	fc_index_clear(cache);
	fc_count(cache, FC_COUNT_clears, 1);
}

void
fc_sweep(FcCache *cache)
{
	if (fc_mode(cache, NULL) != FC_OFFLINE)
		fc_classes_sweep(cache);
}

/* ---- fills ------------------------------------------------------------------- */

static FcStatus
fill_page(FcCache *cache, const FcTicket *ticket, const void *page, bool update)
{
	uint64_t key = fc_key(ticket->file, ticket->block);
	FcSeen claim;
	uint32_t ref;

	/* Spare the copy if the answer is known already. */
	if (!FC_BROKEN(MODE_CHECK) &&
	    atomic_load(&cache->shared->mode_word) != ticket->mode_word)
	{
		fc_count(cache, FC_COUNT_insert_skip_not_current, 1);
		return FC_SKIP;
	}
	if (!fc_set_takes(cache, ticket->set))
	{
		fc_count(cache, FC_COUNT_insert_skip_device, 1);
		return FC_SKIP;
	}
	if (fc_map_expects(cache->shared, ticket->set))
	{
		fc_count(cache, FC_COUNT_insert_skip_not_useful, 1);
		return FC_SKIP;
	}
	if (!fc_budget_allows(cache))
	{
		fc_count(cache, FC_COUNT_insert_skip_budget, 1);
		return FC_SKIP;
	}

	/* First the page: without one, nothing is to make room. */
	if ((cache->token == 0 && fc_process_begin(cache) != FC_OK) ||
	    !fc_staging_take(cache, &ref))
	{
		fc_count(cache, FC_COUNT_insert_skip_writer_overloaded, 1);
		return FC_SKIP;
	}
	FC_POINT("page-taken");
	if (fc_index_claim(cache, ticket, &claim) != FC_OK)
	{
		fc_staging_free(cache->shared, ref);
		return FC_SKIP;
	}
	FC_POINT("claimed");
	fc_staging_put(cache, ref, key, claim.slot, page, update);
	FC_POINT("block-copied");
	if (fc_index_publish(cache, ticket, &claim, FC_STAGED, ref) != FC_OK)
	{
		fc_staging_free(cache->shared, ref);
		return FC_SKIP;
	}
	FC_POINT("published");
	fc_count(cache, FC_COUNT_inserts, 1);
	fc_staging_hand_over(cache, ref);
	return FC_OK;
}

static FcStatus
fill(FcCache *cache, const FcTicket *ticket, const void *page, bool update)
{
	int saved_errno = errno;
	FcStatus status = fill_page(cache, ticket, page, update);

	errno = saved_errno;
	return status;
}

FcStatus
fc_fill(FcCache *cache, const FcTicket *ticket, const void *page)
{
	return fill(cache, ticket, page, false);
}

/* ---- changes ------------------------------------------------------------------ */

/* One half of a bracket: forget the blocks; says what it found of the last one. */
static FcHeld
invalidate(FcCache *cache, FcFile *file, const FcChange *change,
           FcHome *home_out)
{
	FcHeld held = FC_HELD_NOT;

	*home_out = (FcHome){ 0 };
	if (!fc_file_resolve(cache, file))
		return FC_HELD_NOT;

	if (change->count > RUN_BLOCKS_MAX)
	{
		fc_file_invalidate(cache, file->number, change->first, change->count);
		return FC_HELD_NOT;
	}
	for (uint32_t i = 0; i < change->count; i++)
		held = fc_index_invalidate(
			cache, fc_key(file->number, change->first + i), home_out);
	return held;
}

void
fc_change_begin(FcCache *cache, FcFile *file, uint32_t first, uint32_t count,
                FcChange *change)
{
	*change = (FcChange){ .first = first, .count = count };
	change->ticket.mode_word = atomic_load(&cache->shared->mode_word);
	if (fc_word_mode(change->ticket.mode_word) == FC_OFFLINE)
		return;

	FcHome home;

	fc_count(cache, FC_COUNT_invalidations, 1);
	fc_stamp_count_in(cache, file, change);

	FcHeld held = invalidate(cache, file, change, &home);

	change->was_cached = held != FC_HELD_NOT && count == 1;
	change->was_staged = held == FC_HELD_STAGED;
	change->ticket.set = home.set;
	change->ticket.set_generation = home.generation;
	change->ticket.file = file->number;
	change->ticket.block = first;
	change->ticket.file_generation = file->generation;

	/*
	 * All this is seen before the real change is: a store of the kernel's may else pass
	 * a store-conditional of ours on 64-bit ARM.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	FC_POINT("change-begun");
}

void
fc_change_end(FcCache *cache, FcFile *file, FcChange *change)
{
	FcHome home;

	/* The real change before the search for the file: see files.c. */
	atomic_thread_fence(memory_order_seq_cst);
	FC_POINT("change-ending");
	if (fc_mode(cache, NULL) == FC_OFFLINE || FC_BROKEN(SECOND_INVALIDATE))
	{
		fc_stamp_count_out(cache, file, change);
		return;
	}

	(void) invalidate(cache, file, change, &home);
	fc_stamp_count_out(cache, file, change);

	/*
	 * The copy may be refreshed if nobody but us has changed the set since we
	 * began, and the file is still the one it was.
	 */
	if (!FC_BROKEN(REFRESH) &&
	    (home.generation != change->ticket.set_generation + 1 ||
	     home.set != change->ticket.set ||
	     file->number != change->ticket.file ||
	     file->generation != change->ticket.file_generation))
	{
		if (change->was_cached)
			fc_count(cache, FC_COUNT_insert_skip_modification, 1);
		change->was_cached = false;
	}
	change->ticket.set_generation = home.generation;
}

void
fc_change_all_begin(FcCache *cache)
{
	atomic_fetch_add(&cache->shared->everyone, FC_CHANGE_COUNTED_IN);
	fc_cache_clear(cache);
}

void
fc_change_all_end(FcCache *cache)
{
	fc_cache_clear(cache);
	atomic_fetch_sub(&cache->shared->everyone, FC_CHANGE_COUNTED_OUT);
}

void
fc_file_distrust(FcCache *cache, FcFile *file)
{
	FcChange change;
	FcHome home;

	fc_change_begin(cache, file, 0, FC_BLOCKS_ALL, &change);
	if (fc_mode(cache, NULL) != FC_OFFLINE)
		(void) invalidate(cache, file, &change, &home);

	/* Not counted out: nobody hands in a stamp for it any more. */
	if (FC_BROKEN(DISTRUST))
		fc_stamp_count_out(cache, file, &change);
}

FcStatus
fc_change_fill(FcCache *cache, const FcChange *change, const void *page)
{
	if (!change->was_cached ||
	    fc_word_mode(change->ticket.mode_word) != FC_SERVE)
		return FC_SKIP;

	FcStatus status = fill(cache, &change->ticket, page, true);

	if (status == FC_OK)
	{
		fc_count(cache, FC_COUNT_updates, 1);
		fc_count(cache, FC_COUNT_coalesced_updates, change->was_staged);
	}
	return status;
}
