/*
 * index.c
 *		Which slot holds a block: sets of 64 entries, without a lock.
 *
 * A block's key determines its set; the entry's number is the slot's number.
 * An entry is empty, or held by the one process that fills it, or it says where
 * the block is: in a page of the staging ring, in a page that is being written
 * to the slot, or in the slot.
 *
 *	EMPTY --claim--> FILLING --publish--> STAGED --> WRITING --> VALID
 *	                    |                   |           |          |
 *	invalidate:      DOOMED               EMPTY  WRITING_DOOMED  EMPTY
 *	then:       abandoned: EMPTY                 written: EMPTY
 *
 * STAGED and VALID entries may be claimed for another block.  Every step is one
 * compare-and-swap of the entry's meta word, and claiming and emptying advance
 * its sequence, so that ours fails if another process took a step meanwhile.
 * An entry in FILLING or DOOMED belongs to its owner until the owner releases
 * it or is gone; one in WRITING or WRITING_DOOMED belongs to the writer
 * (writer.c), because the device may write its slot at any moment.
 *
 * Why no stale block can be published.  A filler claims the entry and writes
 * the key, then compares the generations it noted before the real read.  A
 * changer advances the generation, then looks at all 64 keys.  If the changer
 * looked before the key was written, the filler compares after the generation
 * advanced, and fails.  If the changer looked later, it finds the claim and
 * dooms it, or finds the entry valid and empties it.
 *
 * If two processes fill the same block at once, it may end up in two ways.
 * Both copies are right, and an invalidation removes both, since it always
 * looks at every way.
 *
 * This file has the changer's half and what all look-ups do; the filler's half
 * is in claim.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stddef.h>

#include "devices.h"
#include "file.h"
#include "geometry.h"
#include "staging.h"

#define CACHE_LINE 64

static bool
same_key(uint64_t a, uint64_t b)
{
	if (FC_BROKEN(FULL_KEY))
		return (uint32_t) a == (uint32_t) b;
	return a == b;
}

/*
 * Begin to fetch so many bytes of a set.  Without this, the processor reads the
 * keys line by line, and then waits for the meta word once more.
 */
static inline void
prefetch_set(const FcSet *set, size_t size)
{
	const char *bytes = (const char *) set;

	FC_ASSERT(size > 0 && size <= offsetof(FcSet, replacement_state));
	for (size_t at = 0; at < size; at += CACHE_LINE)
		__builtin_prefetch(bytes + at);

	/* Sets do not begin at a line, so the last byte may be in one more. */
	__builtin_prefetch(bytes + size - 1);
}

/* ---- look-ups ------------------------------------------------------------ */

static bool
find_in(const FcShared *shared, uint32_t number, uint64_t key, FcSeen *seen)
{
	FcSet *set = fc_set(shared, number);
	unsigned first = fc_first_way(number);

	prefetch_set(set, offsetof(FcSet, replacement_state));
	for (unsigned i = 0; i < FC_WAYS; i++)
	{
		unsigned way = (first + i) % FC_WAYS;

		/*
		 * Relaxed: it only skips ways.  A key that matches is read again below;
		 * one that is seen late costs a miss.
		 */
		if (!same_key(
				atomic_load_explicit(&set->key[way], memory_order_relaxed),
				key))
			continue;

		/* The key is this entry's only if read between two equal metas. */
		uint64_t meta = atomic_load(&set->meta[way]);

		if (!fc_meta_serves(meta) ||
		    !same_key(atomic_load(&set->key[way]), key) ||
		    atomic_load(&set->meta[way]) != meta)
			continue;
		*seen = (FcSeen){ .slot = number * FC_WAYS + way, .meta = meta };
		return true;
	}
	return false;
}

/*
 * Is it the same entry, with the same bytes?  A block in the ring may have been
 * written to its slot; then the entry's checksum must be that of the bytes
 * read.
 */
static bool
same_entry(uint64_t meta, const FcSeen *seen)
{
	FC_ASSERT(fc_meta_serves(seen->meta));
	if (meta == seen->meta)
		return true;
	if (!fc_meta_staged(seen->meta))
		return false;
	return meta ==
	           fc_meta_as(seen->meta, FC_WRITING, fc_meta_high(seen->meta)) ||
	       meta ==
	           fc_meta_as(seen->meta, FC_STAGED, fc_meta_high(seen->meta)) ||
	       meta == fc_meta_as(seen->meta, FC_VALID, seen->crc);
}

void
fc_index_prefetch(const FcShared *shared, uint64_t key)
{
	prefetch_set(fc_set(shared, fc_index_set_of(shared, key)),
	             offsetof(FcSet, replacement_state));
}

bool
fc_index_find(const FcShared *shared, uint64_t key, FcSeen *seen)
{
	uint64_t geometry = atomic_load(&shared->geometry);
	uint32_t home = fc_home(shared, key, fc_geometry_new(geometry));

	if (find_in(shared, home, key, seen))
		return true;
	if (!fc_geometry_moving(geometry))
		return false;

	/* The block may still be at its old home. */
	FC_POINT("looked-at-new-home");
	uint32_t old_home = fc_home(shared, key, fc_geometry_old(geometry));

	return old_home != home && find_in(shared, old_home, key, seen);
}

bool
fc_index_holds(const FcShared *shared, uint64_t key, const FcSeen *seen)
{
	FcSet *set = fc_set_of_slot(shared, seen->slot);
	unsigned way = seen->slot % FC_WAYS;

	/*
	 * The caller has read the bytes, by plain loads or through the kernel.  An
	 * atomic load orders only what follows it; the fence keeps those reads
	 * before the loads of the entry.
	 */
	atomic_thread_fence(memory_order_seq_cst);

	uint64_t meta = atomic_load(&set->meta[way]);

	return same_entry(meta, seen) &&
	       same_key(atomic_load(&set->key[way]), key) &&
	       same_entry(atomic_load(&set->meta[way]), seen);
}

/* ---- changes ------------------------------------------------------------- */

/*
 * Empty an entry.  The key stays, so that the way can be recognized.  A slot
 * that the device may be writing remains the writer's.
 */
static bool
forget(FcShared *shared, FcSet *set, unsigned way, uint64_t meta)
{
	uint64_t key = atomic_load(&set->key[way]);
	bool counted = fc_blocks_counted(shared);
	uint32_t ref = fc_meta_high(meta);
	FcState state = fc_meta_state(meta);
	uint64_t next = state == FC_WRITING && !FC_BROKEN(PIN)
	                    ? fc_meta_as(meta, FC_WRITING_DOOMED, ref)
	                    : fc_meta_next(meta, FC_EMPTY, 0);

	FC_ASSERT(fc_meta_serves(meta));
	if (state == FC_WRITING && FC_BROKEN(WRITING_DOOM))
		return true;
	if (!atomic_compare_exchange_strong(&set->meta[way], &meta, next))
		return false;
	FC_POINT("entry-forgotten");
	if (state == FC_STAGED)
		fc_staging_free(shared, ref);
	if (counted)
		fc_chunk_leave(shared, fc_key_file(key), (uint32_t) key);
	return true;
}

/* Doom a fill under way; its owner will notice. */
static bool
doom(FcSet *set, unsigned way, uint64_t meta)
{
	FC_ASSERT(fc_meta_state(meta) == FC_FILLING);
	if (FC_BROKEN(DOOM))
		return true;
	return atomic_compare_exchange_strong(
		&set->meta[way], &meta,
		fc_meta_as(meta, FC_DOOMED, fc_meta_high(meta)));
}

bool
fc_index_drop(FcShared *shared, uint64_t key, const FcSeen *seen)
{
	FcSet *set = fc_set_of_slot(shared, seen->slot);
	unsigned way = seen->slot % FC_WAYS;
	uint64_t meta = atomic_load(&set->meta[way]);

	/* A staged entry may move on while we look; then look again. */
	while (same_entry(meta, seen) && fc_index_holds(shared, key, seen))
	{
		if (forget(shared, set, way, meta))
			return true;
		meta = atomic_load(&set->meta[way]);
	}
	return false;
}

/* Remove whatever this way holds of the block. */
static FcHeld
invalidate_way(FcCache *cache, FcSet *set, unsigned way, uint64_t key)
{
	/*
	 * A failed swap means that another process moved the entry on.  If it still
	 * has our key then, look again; if not, the process that claimed it will
	 * compare the generation that we have already advanced.
	 */
	while (same_key(atomic_load(&set->key[way]), key))
	{
		uint64_t meta = atomic_load(&set->meta[way]);
		FcState state = fc_meta_state(meta);

		FC_POINT("entry-looked-at");
		switch (state)
		{
			case FC_EMPTY:
			case FC_DOOMED:
			case FC_WRITING_DOOMED:
				return FC_HELD_NOT;
			case FC_FILLING:
				if (doom(set, way, meta))
					return FC_HELD_NOT;
				break;
			case FC_VALID:
			case FC_STAGED:
			case FC_WRITING:
				if (forget(cache->shared, set, way, meta))
					return state == FC_STAGED ? FC_HELD_STAGED : FC_HELD;
				break;
		}
		if (FC_BROKEN(LOOK_AGAIN))
			return FC_HELD_NOT;
	}
	return FC_HELD_NOT;
}

bool
fc_index_doom(const FcShared *shared, const FcSeen *seen)
{
	return doom(fc_set_of_slot(shared, seen->slot), seen->slot % FC_WAYS,
	            seen->meta);
}

static FcHeld
either(FcHeld before, FcHeld now)
{
	return now != FC_HELD_NOT ? now : before;
}

static FcHeld
invalidate_in(FcCache *cache, uint64_t key, FcHome *home)
{
	FcSet *set = fc_set(cache->shared, home->set);
	FcHeld held = FC_HELD_NOT;

	FC_ASSERT(fc_key_file(key) != FC_FILE_NONE);
	prefetch_set(set, offsetof(FcSet, meta));
	home->generation = atomic_fetch_add(&set->generation, 1) + 1;
	FC_POINT("set-generation-moved");
	if (FC_BROKEN(INVALIDATE) ||
	    (FC_BROKEN(BYPASSED) && !fc_devices_set_usable(cache, home->set)))
		return FC_HELD_NOT;

	/* Not relaxed: no look may happen before the generation advances. */
	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		if (same_key(atomic_load(&set->key[way]), key))
		{
			held = either(held, invalidate_way(cache, set, way, key));
		}
		if (FC_BROKEN(EVERY_WAY) && held != FC_HELD_NOT)
			break;
	}

	if (held != FC_HELD_NOT)
		fc_count(cache, FC_COUNT_eviction_invalidated, 1);
	return held;
}

/*
 * At both homes: the old one first, since blocks move from the old to the new.
 */
static FcHeld
invalidate_homes(FcCache *cache, uint64_t key, uint64_t geometry,
                 FcHome *home_out)
{
	FcShared *shared = cache->shared;
	FcHome home = { .set = fc_home(shared, key, fc_geometry_new(geometry)) };
	FcHome old = { .set = fc_home(shared, key, fc_geometry_old(geometry)) };
	bool twice = old.set != home.set && !FC_BROKEN(OLD_HOME);
	bool old_first = !FC_BROKEN(HOME_ORDER);
	FcHeld held = FC_HELD_NOT;

	if (twice && old_first)
		held = invalidate_in(cache, key, &old);
	FC_POINT("between-homes");
	held = either(held, invalidate_in(cache, key, &home));
	if (twice && !old_first)
		held = either(held, invalidate_in(cache, key, &old));
	*home_out = home;
	return held;
}

FcHeld
fc_index_invalidate(FcCache *cache, uint64_t key, FcHome *home_out)
{
	FcHeld held = FC_HELD_NOT;
	FcFrame frame;

	/* Repeat if a change of the size began or ended meanwhile: see resize.c. */
	do
	{
		frame = fc_frame(cache->shared);
		FC_POINT("frame-noted");
		held = either(held,
		              invalidate_homes(cache, key, frame.geometry, home_out));
	} while (!fc_frame_stands(cache->shared, &frame) && !FC_BROKEN(FRAME));
	return held;
}

/* ---- walks through all sets ---------------------------------------------- */

/* What a walk looks for, and how much it has dropped. */
typedef struct Walk
{
	bool everything;
	uint32_t number; /* ... or blocks of this file, */
	uint32_t first;  /* from here */
	uint32_t last;   /* to before here */
	uint64_t dropped;
} Walk;

static bool
wanted(const Walk *walk, uint64_t key)
{
	return walk->everything ||
	       (fc_key_file(key) == walk->number && (uint32_t) key >= walk->first &&
	        (uint32_t) key < walk->last);
}

static void
walk_set(FcCache *cache, FcSet *set, Walk *walk)
{
	if (walk->everything)
		atomic_fetch_add(&set->generation, 1);
	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		uint64_t key = atomic_load(&set->key[way]);

		if (wanted(walk, key))
			walk->dropped +=
				invalidate_way(cache, set, way, key) != FC_HELD_NOT;
	}
}

/*
 * While the size changes, a block may move from a set that the walk has yet to
 * reach into one that it has passed.  Then it walks twice; a block moves only
 * once.
 */
static void
walk_sets(FcCache *cache, Walk *walk)
{
	FcShared *shared = cache->shared;
	FcFrame frame;

	do
	{
		frame = fc_frame(shared);

		bool twice =
			fc_geometry_moving(frame.geometry) && !FC_BROKEN(TWO_WALKS);

		for (int time = 0; time <= twice; time++)
		{
			for (uint32_t i = 0; i < fc_geometry_sets(frame.geometry); i++)
			{
				walk_set(cache, fc_set(shared, i), walk);
				FC_POINT("set-walked");
			}
		}
	} while (!fc_frame_stands(shared, &frame) && !FC_BROKEN(FRAME));
	fc_count(cache, FC_COUNT_eviction_invalidated, walk->dropped);
}

void
fc_index_invalidate_file(FcCache *cache, uint32_t number, uint32_t first,
                         uint32_t last)
{
	Walk walk = { .number = number, .first = first, .last = last };

	FC_ASSERT(number != FC_FILE_NONE && number < cache->shared->file_count);
	FC_ASSERT(first <= last);
	walk_sets(cache, &walk);
}

void
fc_index_clear(FcCache *cache)
{
	Walk walk = { .everything = true };

	walk_sets(cache, &walk);
}
