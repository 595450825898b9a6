/*
 * resize.c
 *		Growing and shrinking the cache while it is in use.
 *
 * Memory is laid out once, for the largest size.  The geometry word says how
 * many sets are in use.  A change of size takes three steps:
 *
 *	{N, N'}		Fills use a block's home under N'; look-ups try that home and
 *				then the one under N; changes invalidate both.
 *	the walk	Goes through each set of the old size.  A block that no longer
 *				belongs there is copied to its new home, or dropped if there is
 *				no room for it; then its entry is emptied.
 *	{N', N'}	Now nothing is left at an old home.  After shrinking, the
 *				removed sets are drained: once no process writes their slots any
 *				more, the device may reclaim the space.
 *
 * Why nothing stale can result:
 *
 *	- A fill notes its home and the epoch before the word changes; the epoch
 *	  advances after that and before the walk.  So either the fill fails, or its
 *	  claim was visible before the walk, which dooms it or moves its block.
 *	  After the walk every block is at its new home.
 *	- A change empties the old home first, then the new one.  A move claims its
 *	  place at the new home, then checks that the old entry is unchanged.  So
 *	  one of them sees the other.
 *	- A change reads the word and the epoch, does its work, and reads them
 *	  again; if they changed, it repeats the work.  So a change that knew only
 *	  the old size is followed by one that knows the new one.
 *	- A read that found an entry at the old home looks at it again after the
 *	  slot has been read, as always.
 *
 * Locking: one process at a time, whose token is in shared->resizer.  The
 * walk's position is in shared memory, and each set can be walked again, so a
 * process that dies can be taken over at any point.  A new change of size waits
 * until this one is over.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>

#include "budget.h"
#include "file.h"
#include "geometry.h"
#include "health.h"
#include "process.h"
#include "fcache/crc32c.h"
#include "reader.h"
#include "staging.h"

/* ---- one at a time ------------------------------------------------------- */

static bool
lock_resizer(FcCache *cache)
{
	FcAtomic32 *lock = &cache->shared->resizer;
	uint32_t owner = 0;

	if (cache->token == 0 && fc_process_begin(cache) != FC_OK)
		return false;
	if (atomic_compare_exchange_strong(lock, &owner, cache->token))
		return true;
	return fc_process_gone(cache, owner) &&
	       atomic_compare_exchange_strong(lock, &owner, cache->token);
}

static void
unlock_resizer(FcCache *cache)
{
	uint32_t mine = cache->token;

	FC_ASSERT(mine != 0);
	atomic_compare_exchange_strong(&cache->shared->resizer, &mine, 0);
}

/* ---- one block ----------------------------------------------------------- */

/*
 * Copy the block into the scratch block from wherever it is; sets seen's
 * CRC32C.
 */
static bool
fetch(FcCache *cache, uint64_t key, FcSeen *seen)
{
	FC_ASSERT(fc_meta_serves(seen->meta));
	if (fc_meta_staged(seen->meta))
		return fc_staging_read(cache, key, seen, cache->scratch);
	seen->crc = fc_meta_high(seen->meta);
	return fc_reader_slot(cache, seen, cache->scratch) &&
	       fc_crc32c_slot(key, cache->scratch) == seen->crc;
}

/*
 * The process that moves blocks may wait: it writes the scratch block itself.
 */
static bool
write_slot(FcCache *cache, uint32_t slot)
{
	uint64_t start = fc_clock_ns();
	FcDevice *device;
	off_t offset;

	fc_devices_place_of_slot(cache, slot, &device, &offset);

	ssize_t put =
		device->ops->write(device, cache->scratch, FC_BLOCK_SIZE, offset);
	FcOutcome outcome = put == FC_BLOCK_SIZE        ? FC_OUTCOME_OK
	                    : put < 0 && errno == EINTR ? FC_OUTCOME_INTERRUPTED
	                                                : FC_OUTCOME_ERROR;

	fc_devices_write_done(cache, device, fc_clock_ns() - start, outcome);
	return outcome == FC_OUTCOME_OK;
}

/*
 * Note what a fill at the block's present home needs; false: the block is
 * unwanted.
 */
static bool
note_ticket(FcCache *cache, uint64_t key, FcTicket *ticket)
{
	FcShared *shared = cache->shared;

	FC_ASSERT(fc_key_file(key) != FC_FILE_NONE);
	ticket->file = fc_key_file(key);
	ticket->block = (uint32_t) key;
	ticket->mode_word = atomic_load(&shared->mode_word);
	ticket->file_generation =
		atomic_load(&fc_generations(shared)[ticket->file]);
	ticket->set = fc_index_set_of(shared, key);
	ticket->set_generation =
		atomic_load(&fc_set(shared, ticket->set)->generation);
	return fc_generation_state(ticket->file_generation) != FC_NUMBER_RETIRED &&
	       fc_devices_take_set(cache, ticket->set) && fc_budget_allows(cache);
}

/*
 * The new place is claimed before the last look at the old entry: a change
 * either finds the claim, or has emptied the old entry before that look.  The
 * ticket is noted before the first look: a change of this block, which empties
 * the old entry first, either did so before that look or advances the new
 * home's generation after the ticket.
 */
static bool
copy_to_home(FcCache *cache, uint64_t key, const FcSeen *from)
{
	FcSeen seen = *from;
	FcTicket ticket;
	FcSeen claim;

	if (!note_ticket(cache, key, &ticket))
		return false;
	FC_POINT("move-noted");
	if (!fc_index_holds(cache->shared, key, &seen) ||
	    fc_claim_move(cache, &ticket, &seen, &claim) != FC_OK)
		return false;
	FC_POINT("move-claimed");

	bool good = fetch(cache, key, &seen) && write_slot(cache, claim.slot);

	FC_POINT("move-written");
	if (!good ||
	    (!FC_BROKEN(MOVE_LOOK) && !fc_index_holds(cache->shared, key, &seen)))
	{
		fc_claim_abandon(cache, &ticket, &claim);
		return false;
	}
	FC_POINT("move-looked");
	if (FC_BROKEN(MOVE_TICKET))
		(void) note_ticket(cache, key, &ticket);
	return fc_claim_publish(cache, &ticket, &claim, FC_VALID, seen.crc) ==
	       FC_OK;
}

/*
 * Copy a cached block to its present home, and count the move.  The caller must
 * drop the entry it was copied from.
 */
static void
move(FcCache *cache, uint64_t key, const FcSeen *from)
{
	int saved_errno = errno;

	if (copy_to_home(cache, key, from))
		fc_count(cache, FC_COUNT_moved_blocks, 1);
	errno = saved_errno;
}

/* ---- the walk ------------------------------------------------------------ */

/* Move a block away that occupies this way and belongs elsewhere now. */
static void
clear_way(FcCache *cache, uint32_t number, unsigned way)
{
	FcShared *shared = cache->shared;
	FcSet *set = fc_set(shared, number);

	FC_ASSERT(number < shared->set_count && way < FC_WAYS);
	for (;;)
	{
		FcSeen seen = { .slot = number * FC_WAYS + way,
			            .meta = atomic_load(&set->meta[way]) };
		uint64_t key = atomic_load(&set->key[way]);
		FcState state = fc_meta_state(seen.meta);

		if (state == FC_EMPTY || state == FC_DOOMED ||
		    state == FC_WRITING_DOOMED ||
		    fc_index_set_of(shared, key) == number)
			return;
		FC_POINT("way-looked-at");
		if (state == FC_FILLING)
		{
			if (fc_index_doom(shared, &seen))
				return;
			continue;
		}
		move(cache, key, &seen);
		FC_POINT("moved");
		if (fc_index_drop(shared, key, &seen))
			return;
	}
}

/*
 * If so, the walk waits, because it would have to drop what it cannot copy now.
 */
static bool
a_device_stalls(const FcShared *shared)
{
	for (uint32_t i = 0; i < shared->device_count; i++)
	{
		if (fc_health_state(shared, i) == FC_DEVICE_STALLED ||
		    atomic_load(&shared->health[i].writes_late) != 0)
			return true;
	}
	return false;
}

static void
walk(FcCache *cache, uint64_t geometry, uint32_t *budget)
{
	FcShared *shared = cache->shared;
	uint32_t sets = fc_geometry_old(geometry);
	uint32_t at = atomic_load(&shared->walk_at);

	FC_ASSERT(fc_geometry_moving(geometry));
	FC_ASSERT(atomic_load(&shared->resizer) == cache->token);

	/*
	 * Before the epoch: advancing it at each try would cost hits on other
	 * devices.
	 */
	if (at < sets && a_device_stalls(shared))
		return;

	/* Repeated if a process died just after it; that costs a few fills. */
	if (at == 0 && !FC_BROKEN(EPOCH))
		fc_mode_new_epoch(shared);
	FC_POINT("epoch-moved");

	for (; at < sets && *budget > 0 && !a_device_stalls(shared); (*budget)--)
	{
		for (unsigned way = 0; way < FC_WAYS; way++)
			clear_way(cache, at, way);
		atomic_store(&shared->walk_at, ++at);
		FC_POINT("set-cleared");
	}
	if (at < sets)
		return;
	atomic_store(
		&shared->geometry,
		fc_geometry_word(fc_geometry_new(geometry), fc_geometry_new(geometry)));
	FC_POINT("geometry-settled");
}

/* ---- the removed sets ---------------------------------------------------- */

/* Is no process writing a slot of this set any more? */
static bool
set_is_quiet(FcCache *cache, uint32_t number)
{
	FcSet *set = fc_set(cache->shared, number);

	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		FcSeen seen = { .slot = number * FC_WAYS + way,
			            .meta = atomic_load(&set->meta[way]) };

		if (fc_meta_state(seen.meta) != FC_EMPTY &&
		    !fc_claim_take_over(cache, &seen))
			return false;
	}
	return true;
}

static void
drain(FcCache *cache, uint32_t sets, uint32_t *budget)
{
	FcAtomic32 *room = &cache->shared->room_sets;
	uint32_t at = atomic_load(room);

	FC_ASSERT(at <= cache->shared->set_count);
	for (; at > sets && *budget > 0; (*budget)--)
	{
		if (!set_is_quiet(cache, at - 1) && !FC_BROKEN(DRAIN))
			return;
		atomic_store(room, --at);
	}
}

/* ---- the steps ----------------------------------------------------------- */

FcStatus
fc_resize_begin(FcCache *cache, uint32_t slot_count)
{
	FcShared *shared = cache->shared;
	uint32_t sets = slot_count / FC_WAYS;

	if (slot_count % (FC_WAYS * shared->device_count) != 0 || sets == 0 ||
	    sets > shared->set_count)
		return FC_INVALID;
	if (fc_mode(cache, NULL) == FC_OFFLINE)
		return FC_OFF;
	if (!lock_resizer(cache))
		return FC_SKIP;

	FcStatus status = FC_SKIP;
	FcSize size = fc_geometry_size(cache);

	if (!size.changing)
	{
		uint32_t now = size.slots / FC_WAYS;

		/* In this order: a death in between leaves a consistent size. */
		if (sets > now)
			atomic_store(&shared->room_sets, sets);
		atomic_store(&shared->walk_at, 0);
		FC_POINT("resize-begun");
		atomic_store(&shared->geometry, fc_geometry_word(now, sets));
		FC_POINT("geometry-moved");
		status = FC_OK;
	}
	unlock_resizer(cache);
	return status;
}

bool
fc_resize_step(FcCache *cache, uint32_t sets)
{
	FcShared *shared = cache->shared;
	uint32_t budget = sets;

	FC_ASSERT(sets > 0);
	if (!fc_geometry_size(cache).changing || fc_mode(cache, NULL) == FC_OFFLINE)
		return false;
	if (!lock_resizer(cache))
		return true;

	uint64_t geometry = atomic_load(&shared->geometry);

	if (fc_geometry_moving(geometry))
		walk(cache, geometry, &budget);
	geometry = atomic_load(&shared->geometry);
	if (!fc_geometry_moving(geometry))
		drain(cache, fc_geometry_new(geometry), &budget);
	unlock_resizer(cache);
	return fc_geometry_size(cache).changing;
}
