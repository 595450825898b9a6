/*
 * cache.c
 *		A cache's life in memory, and a process's handle on it.
 *
 * Creating a cache writes only the head of its memory: the rest is zeros, and
 * zeros are an empty cache (shared.h).  The process that creates it is alone.
 *
 * read.c, fill.c and change.c define the order of steps; index.c, claim.c,
 * file.c, reader.c, staging.c, writer.c and devices.c perform them.  The order
 * is the protocol:
 *
 *	read	note mode and generations, find the entry, read the slot, or the
 *			page of the staging ring that the block is in; the hit is valid only
 *			if the whole entry, the file's generation and the mode are still the
 *			same and the CRC32C is right
 *	fill	take a page of the ring, claim a way, copy the block, publish; the
 *			writer writes it to the slot later
 *	change	advance the generation and empty the entry; the real change; the
 *			same again; then refresh the copy if no other process changed the
 *			set
 *
 * Failures: a slot that cannot be read or is corrupt is a miss.  Too many such
 * slots take their cache file out of use; nothing else ever fails.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>

#include "budget.h"
#include "cache_policy.h"
#include "flights.h"
#include "geometry.h"
#include "health.h"
#include "index.h"
#include "probe.h"
#include "reader.h"
#include "wear.h"

/*
 * The deadline of a read from flash, unless the host sets another.  Tests that
 * are not about time set none, and do not fail if a process stops for long.
 */
#ifdef FC_TEST
#define READ_DEADLINE_NS 600000000000
#else
#define READ_DEADLINE_NS 50000000
#endif

/* ---- creating one, and taking part ------------------------------------- */

size_t
fc_cache_memory_needed(const FcConfig *config)
{
	FcShared shared;

	return fc_layout(config, &shared) ? shared.memory_size : 0;
}

FcStatus
fc_cache_open(FcCache *cache, FcShared *shared,
              const FcReplacement *replacement, FcDevice *devices)
{
	FC_ASSERT(shared->magic == FC_MAGIC && replacement != NULL);
	memset(cache, 0, sizeof(*cache));
	cache->shared = shared;
	cache->replacement = replacement;
	cache->devices = devices;
	cache->read_deadline_ns = READ_DEADLINE_NS;
	cache->scratch = aligned_alloc(FC_IO_ALIGN, FC_BLOCK_SIZE);
	return cache->scratch != NULL ? FC_OK : FC_FAILED;
}

FcStatus
fc_cache_create(FcCache *cache, void *memory, const FcConfig *config,
                FcDevice *devices)
{
	FcShared *shared = memory;
	FcShared layout;
	uint32_t sets = config->slot_count / FC_WAYS;

	/* Memory that already holds a cache is not all zeros. */
	if (!fc_layout(config, &layout) || (uintptr_t) memory % FC_IO_ALIGN != 0 ||
	    shared->magic != 0)
		return FC_INVALID;

	/* Everything after the head is already zeros. */
	memcpy(memory, &layout, offsetof(FcShared, mode_word));
	atomic_store(&shared->absent_epoch, 2); /* 0 means "not noted" */
	atomic_store(&shared->mode_word,
	             (uint64_t) FC_PASSTHROUGH | (FC_REASON_STARTING << 8));
	for (uint32_t i = 0; devices != NULL && i < layout.device_count; i++)
		if (devices[i].ops == NULL)
			fc_health_absent(shared, i);
	fc_budget_begin(shared);
	atomic_store(&shared->geometry, fc_geometry_word(sets, sets));
	atomic_store(&shared->room_sets, sets);
	FC_ASSERT(sets > 0 && sets <= shared->set_count);
	return fc_cache_open(cache, shared, config->replacement, devices);
}

FcStatus
fc_cache_attach(FcCache *cache, void *memory, const FcReplacement *replacement,
                FcDevice *devices)
{
	FcShared *shared = memory;

	if (shared->magic != FC_MAGIC)
		return FC_INVALID;
	return fc_cache_open(cache, shared, replacement, devices);
}

void
fc_cache_close(FcCache *cache)
{
	fc_reader_close(cache);
	fc_probe_close(cache);
	fc_wear_close(cache);
	fc_stand_in_close(cache);
	free(cache->scratch);
	cache->scratch = NULL;
}

size_t
fc_cache_memory_size(const FcCache *cache)
{
	return cache->shared->memory_size;
}

/* ---- housekeeping ------------------------------------------------------ */

void
fc_cache_clear(FcCache *cache)
{
	fc_mode_new_epoch(cache->shared);
	fc_index_clear(cache);
	fc_count(cache, FC_COUNT_clears, 1);
}

void
fc_cache_sweep(FcCache *cache)
{
	if (fc_mode(cache, NULL) != FC_OFFLINE)
		fc_cache_policy_sweep(cache);
}
