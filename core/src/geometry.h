/*
 * geometry.h
 *		How many sets are in use, and which of them is a block's home.
 *
 * resize.c changes it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_GEOMETRY_H
#define FCACHE_GEOMETRY_H

#include "shared.h"

/*
 * The geometry word: old count of sets << 32 | new count.  They differ while
 * the size changes: then fills use a block's new home, and look-ups and changes
 * look at both homes.
 */
static inline uint64_t
fc_geometry_word(uint32_t old_sets, uint32_t new_sets)
{
	FC_ASSERT(old_sets > 0 && new_sets > 0);
	return (uint64_t) old_sets << 32 | new_sets;
}

static inline uint32_t
fc_geometry_old(uint64_t geometry)
{
	return (uint32_t) (geometry >> 32);
}

static inline uint32_t
fc_geometry_new(uint64_t geometry)
{
	return (uint32_t) geometry;
}

static inline bool
fc_geometry_moving(uint64_t geometry)
{
	return fc_geometry_old(geometry) != fc_geometry_new(geometry);
}

/* No set from this number on holds anything. */
static inline uint32_t
fc_geometry_sets(uint64_t geometry)
{
	uint32_t old_sets = fc_geometry_old(geometry);
	uint32_t new_sets = fc_geometry_new(geometry);

	return old_sets > new_sets ? old_sets : new_sets;
}

/* The sets in use both before and after the change of size. */
static inline uint32_t
fc_geometry_least(uint64_t geometry)
{
	uint32_t old_sets = fc_geometry_old(geometry);
	uint32_t new_sets = fc_geometry_new(geometry);

	return old_sets < new_sets ? old_sets : new_sets;
}

/*
 * After so many hashes, the home is chosen by a rule that may move more blocks.
 */
#define FC_HOME_HASHES 64

/*
 * The home set of a block when so many sets are in use.  Each hash of a series
 * picks one of all the sets there could be; the first that picks a set in use
 * decides.  So a larger count moves only the blocks for which an earlier hash
 * picks one of the new sets, and a smaller count moves only the blocks of the
 * sets that are removed.  At the maximum the first hash always decides.
 */
static inline uint32_t
fc_home(const FcShared *shared, uint64_t key, uint32_t sets)
{
	uint64_t hash = fc_mix(key);

	FC_ASSERT(sets > 0 && sets <= shared->set_count);
	for (int round = 0; round < FC_HOME_HASHES; round++)
	{
		uint32_t set = (uint32_t) (((hash >> 32) * shared->set_count) >> 32);

		if (set < sets)
			return set;
		hash = fc_mix(hash + 0x9e3779b97f4a7c15ULL);
	}
	return (uint32_t) (((hash >> 32) * sets) >> 32);
}

/*
 * Free ways of a set are filled from this one on, wrapping around.  It differs
 * between sets, so that a cache that is not full is spread evenly over its
 * file: a drive may lay out its channels one by one there.
 */
static inline unsigned
fc_first_way(uint32_t set)
{
	return set * 39 % FC_WAYS;
}

/* The set that a fill of the block uses now. */
static inline uint32_t
fc_index_set_of(const FcShared *shared, uint64_t key)
{
	return fc_home(shared, key,
	               fc_geometry_new(atomic_load(&shared->geometry)));
}

/* Does the cache file have room for the slot? */
static inline bool
fc_slot_has_room(const FcCache *cache, uint32_t slot)
{
	return slot / FC_WAYS < atomic_load(&cache->shared->room_sets);
}

/*
 * A change reads this before and after its work.  If it is the same, no home
 * has moved in between.  The epoch reveals a geometry that moved and came back.
 */
typedef struct FcFrame
{
	uint64_t mode_word;
	uint64_t geometry;
} FcFrame;

static inline FcFrame
fc_frame(const FcShared *shared)
{
	return (FcFrame){ .mode_word = atomic_load(&shared->mode_word),
		              .geometry = atomic_load(&shared->geometry) };
}

static inline bool
fc_frame_stands(const FcShared *shared, const FcFrame *frame)
{
	return atomic_load(&shared->geometry) == frame->geometry &&
	       atomic_load(&shared->mode_word) == frame->mode_word;
}

#endif
