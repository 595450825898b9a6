/*
 * geometry.c
 *		How large the cache is, and how far a change of its size has progressed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "geometry.h"

uint32_t
fc_geometry_slot_count(const FcCache *cache)
{
	FC_ASSERT(atomic_load(&cache->shared->geometry) != 0);
	return fc_geometry_sets(atomic_load(&cache->shared->geometry)) * FC_WAYS;
}

FcSize
fc_geometry_size(const FcCache *cache)
{
	const FcShared *shared = cache->shared;
	uint64_t geometry = atomic_load(&shared->geometry);
	uint32_t sets = fc_geometry_new(geometry);
	uint32_t room = atomic_load(&shared->room_sets);
	bool moving = fc_geometry_moving(geometry);

	FC_ASSERT(sets > 0 && sets <= shared->set_count);
	return (FcSize){
		.slots = sets * FC_WAYS,
		.slots_max = shared->set_count * FC_WAYS,
		.room_slots = room * FC_WAYS,
		.changing = moving || room > sets,
		.done = !moving ? 1
		                : (double) atomic_load(&shared->walk_at) /
		                      fc_geometry_old(geometry),
	};
}
