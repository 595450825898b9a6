/*
 * geometry.h
 *		How many sets are in use, and which of them a block belongs into.
 *
 * resize.c changes it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_GEOMETRY_H
#define FCACHE_GEOMETRY_H

#include "shared.h"

/*
 * The geometry word: old count of sets << 32 | new count.  They differ while the
 * size changes: fills go to the new home of a block, look-ups and changes look at
 * both.
 */
static inline uint64_t
fc_geometry_word(uint32_t old_sets, uint32_t new_sets)
{
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

/* Beyond these no set holds anything. */
static inline uint32_t
fc_geometry_sets(uint64_t geometry)
{
	uint32_t old_sets = fc_geometry_old(geometry);
	uint32_t new_sets = fc_geometry_new(geometry);

	return old_sets > new_sets ? old_sets : new_sets;
}

/* These are in use before and after. */
static inline uint32_t
fc_geometry_least(uint64_t geometry)
{
	uint32_t old_sets = fc_geometry_old(geometry);
	uint32_t new_sets = fc_geometry_new(geometry);

	return old_sets < new_sets ? old_sets : new_sets;
}

/* After so many throws a home is chosen that may move more than it must. */
#define FC_HOME_THROWS 64

/*
 * The set of a block when so many sets are in use.  A series of throws at all the
 * sets there could be; the first one that hits a set in use counts.  So a larger
 * count takes only those blocks away that an earlier throw brings into one of the
 * sets that are new, and a smaller one moves only blocks of the sets that go.  At
 * the maximum the first throw hits.
 */
static inline uint32_t
fc_home(const FcShared *shared, uint64_t key, uint32_t sets)
{
	uint64_t hash = fc_mix(key);

	for (int throw = 0; throw < FC_HOME_THROWS; throw ++)
	{
		uint32_t set = (uint32_t) (((hash >> 32) * shared->set_count) >> 32);

		if (set < sets)
			return set;
		hash = fc_mix(hash + 0x9e3779b97f4a7c15ULL);
	}
	return (uint32_t) (((hash >> 32) * sets) >> 32);
}

/*
 * The way that a set is filled from, while it has free ones, round to the one before it.
 * Another one in each set, so that a cache that is not full lies evenly over its
 * file: a drive may have its channels one behind the other there.
 */
static inline unsigned
fc_first_way(uint32_t set)
{
	return set * 39 % FC_WAYS;
}

/* Where a fill of the block goes now. */
static inline uint32_t
fc_index_set_of(const FcShared *shared, uint64_t key)
{
	return fc_home(shared, key,
	               fc_geometry_new(atomic_load(&shared->geometry)));
}

/* Is there room for the slot in its cache file? */
static inline bool
fc_slot_has_room(const FcCache *cache, uint32_t slot)
{
	return slot / FC_WAYS < atomic_load(&cache->shared->room_sets);
}

/*
 * What a change has to see twice alike: between two looks nothing about homes has
 * moved.  The epoch tells when the geometry came back to what it was.
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
