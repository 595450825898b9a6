/*
 * layout.c
 *		The place of everything in the memory of a cache.
 *
 * The layout follows from the configuration alone, so that a process that finds
 * memory can tell whether it holds a cache of the wanted layout: the fields of
 * FcShared before mode_word are the layout, and are compared as bytes
 * (revive.c).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "cache_policy.h"
#include "count.h"
#include "file.h"
#include "process.h"
#include "staging.h"

/*
 * The arrays shared by all slots are sized in proportion to them, within
 * limits, so that from 768 MB on a slot takes at most 28 bytes of memory,
 * everything included.  Below that the minimum sizes weigh more
 * (layout_test.c).
 */
#define SLOTS_PER_FILE           64
#define SLOTS_PER_CHUNK          16
#define SLOTS_PER_CACHE_POLICY   64
#define SLOTS_PER_CHANGE_COUNTER 128
#define SLOTS_PER_COUNTERS_BYTE  4

/*
 * The largest power of 2 not above at_most, within limits that are powers of 2.
 */
static uint32_t
power_of_2(uint64_t at_most, uint32_t min, uint32_t max)
{
	uint32_t power = min;

	FC_ASSERT((min & (min - 1)) == 0 && (max & (max - 1)) == 0 && min <= max);
	while (power < max && power <= at_most / 2)
		power *= 2;
	return power;
}

/* At most as many files can have a cached block as there are slots. */
static uint32_t
files_for(uint32_t slots)
{
	return power_of_2(slots / SLOTS_PER_FILE, power_of_2(slots, 64, 256),
	                  1U << 31);
}

/*
 * Counters exist several times, so that processes do not slow each other down.
 */
static uint32_t
shards_for(uint32_t slots, uint32_t devices)
{
	size_t size = sizeof(FcShard) + devices * sizeof(FcDeviceShard);

	return power_of_2(slots / SLOTS_PER_COUNTERS_BYTE / size, 2, 16);
}

static uint64_t
place_aligned(uint64_t *end, uint64_t size, uint64_t align)
{
	uint64_t offset = (*end + align - 1) & ~(align - 1);

	FC_ASSERT((align & (align - 1)) == 0);
	*end = offset + size;
	return offset;
}

static uint64_t
place(uint64_t *end, uint64_t size)
{
	return place_aligned(end, size, 64);
}

/* FNV-1a, of the policy's name and the sizes of its states. */
static uint32_t
replacement_hash(const FcReplacement *replacement)
{
	uint32_t hash = 2166136261U ^ (uint32_t) replacement->set_state_size ^
	                (uint32_t) replacement->shared_state_size << 12;

	for (const char *c = replacement->name; *c != '\0'; c++)
		hash = (hash ^ (unsigned char) *c) * 16777619U;
	return hash;
}

/*
 * Everything is laid out for the maximum size.  So when the host computes the
 * layout again after a crash, the result does not depend on the size then in
 * use.
 */
bool
fc_layout(const FcConfig *config, FcShared *shared)
{
	uint64_t end = sizeof(FcShared);
	uint32_t devices = config->device_count != 0 ? config->device_count : 1;
	uint32_t slots = config->slot_count_max != 0 ? config->slot_count_max
	                                             : config->slot_count;

	if (config->slot_count < FC_WAYS || devices > FC_DEVICES_MAX ||
	    config->slot_count % (FC_WAYS * devices) != 0 ||
	    slots < config->slot_count || slots % (FC_WAYS * devices) != 0 ||
	    config->replacement == NULL || config->process_count == 0 ||
	    config->process_count > 0xffff ||
	    (config->file_count & (config->file_count - 1)) != 0 ||
	    config->file_count == 1 || config->ring_pages > FC_RING_MAX ||
	    (config->ring_pages & (config->ring_pages - 1)) != 0)
		return false;

	memset(shared, 0, sizeof(*shared));
	shared->magic = FC_MAGIC;
	shared->set_count = slots / FC_WAYS;
	shared->device_count = devices;
	shared->set_size =
		(uint32_t) ((sizeof(FcSet) + config->replacement->set_state_size + 7) &
	                ~7ULL);
	shared->process_count = config->process_count;
	shared->shard_count = shards_for(slots, devices);
	shared->change_counter_count =
		power_of_2(slots / SLOTS_PER_CHANGE_COUNTER, 128, 1024);
	shared->file_count =
		config->file_count != 0 ? config->file_count : files_for(slots);
	shared->chunk_count = power_of_2(slots / SLOTS_PER_CHUNK, 512, 1U << 31);
	shared->cache_policy_count =
		power_of_2(slots / SLOTS_PER_CACHE_POLICY, 256, 65536);
	shared->replacement_hash = replacement_hash(config->replacement);

	shared->ring_count = config->ring_pages != 0 ? config->ring_pages
	                                             : fc_staging_pages_for(slots);
	shared->staged_offset =
		place(&end, shared->ring_count * sizeof(FcStagedPage));
	shared->ring_offset = place_aligned(
		&end, (uint64_t) shared->ring_count * FC_BLOCK_SIZE, FC_IO_ALIGN);
	shared->processes_offset =
		place(&end, shared->process_count * sizeof(FcProcess));
	shared->shards_offset = place(&end, shared->shard_count * sizeof(FcShard));
	shared->device_shards_offset = place(
		&end, (uint64_t) shared->shard_count * devices * sizeof(FcDeviceShard));
	shared->change_counters_offset =
		place(&end, shared->change_counter_count * sizeof(FcAtomic64));
	shared->generations_offset =
		place(&end, shared->file_count * sizeof(FcAtomic64));
	shared->tags_offset = place(&end, shared->file_count * sizeof(FcAtomic32));
	shared->files_offset =
		place(&end, shared->file_count * sizeof(FcFileEntry));
	shared->chunks_offset =
		place(&end, shared->chunk_count * sizeof(FcAtomic32));
	shared->cache_policies_offset =
		place(&end, shared->cache_policy_count * sizeof(FcCachePolicyEntry));
	shared->replacement_offset =
		place(&end, config->replacement->shared_state_size);
	shared->sets_offset =
		place(&end, (uint64_t) shared->set_count * shared->set_size);
	shared->memory_size = end;
	FC_ASSERT(shared->ring_offset % FC_IO_ALIGN == 0 &&
	          end > shared->sets_offset);
	return true;
}
