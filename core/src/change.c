/*
 * change.c
 *		A change: the bracket around every call that writes to a file or
 *		truncates it.
 *
 *	begin		advance the generation and empty the entry
 *	(the real change)
 *	end			the same again, for fills that happened meanwhile
 *	refresh		fill in what was written, if no other process changed the set
 *
 * index.c explains why a concurrent fill can publish nothing stale; file.c
 * explains why the search for the file comes after the real change.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "file.h"
#include "fill.h"
#include "index.h"

/*
 * A longer run is invalidated as a range, which advances the file's generation.
 */
#define RUN_BLOCKS_MAX 128

/*
 * One half of the bracket: invalidate the blocks, and return what the index
 * held of the last one.
 */
static FcHeld
invalidate(FcCache *cache, FcFile *file, const FcChange *change,
           FcHome *home_out)
{
	FcHeld held = FC_HELD_NOT;

	*home_out = (FcHome){ 0 };
	if (!fc_file_resolve(cache, file))
		return FC_HELD_NOT;

	FC_ASSERT(file->number < cache->shared->file_count);
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
	 * All this becomes visible before the real change.  Without the fence,
	 * 64-bit ARM may make a store of the kernel visible before our
	 * store-conditional.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	FC_POINT("change-begun");
}

void
fc_change_end(FcCache *cache, FcFile *file, FcChange *change)
{
	FcHome home;

	/* The real change before the search for the file: see file.c. */
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
	 * The copy may be refreshed if no other process has changed the set since
	 * the change began, and the file still has the same number.
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
	FC_ASSERT((uint32_t) atomic_load(&cache->shared->everyone) > 0);
	fc_cache_clear(cache);
	atomic_fetch_sub(&cache->shared->everyone, FC_CHANGE_COUNTED_OUT);
}

void
fc_change_distrust(FcCache *cache, FcFile *file)
{
	FcChange change;
	FcHome home;

	fc_change_begin(cache, file, 0, FC_BLOCKS_ALL, &change);
	if (fc_mode(cache, NULL) != FC_OFFLINE)
		(void) invalidate(cache, file, &change, &home);

	/* The change is not counted out, so the file can never be stamped again. */
	if (FC_BROKEN(DISTRUST))
		fc_stamp_count_out(cache, file, &change);
}

FcStatus
fc_change_fill(FcCache *cache, const FcChange *change, const void *page)
{
	FC_ASSERT(!change->counted_in);
	FC_ASSERT(!change->was_cached || change->count == 1);
	if (!change->was_cached ||
	    fc_word_mode(change->ticket.mode_word) != FC_SERVE)
		return FC_SKIP;

	FcStatus status = fc_fill_update(cache, &change->ticket, page);

	if (status == FC_OK)
	{
		fc_count(cache, FC_COUNT_updates, 1);
		fc_count(cache, FC_COUNT_coalesced_updates, change->was_staged);
	}
	return status;
}
