/*
 * revive.c
 *		A cache that outlives the processes that used it.
 *
 * The server crashed, but the machine did not: slots and page cache are
 * unchanged, and if the cache's memory was placed where it outlives the server,
 * it is still there.  The index, claims and locks in it remain valid, since any
 * process may be killed anywhere anyway (their owners are gone and are taken
 * over).  What may no longer hold is that files are unchanged.  So all files
 * fall asleep (stamp.c), and those with a change in flight are dropped.
 *
 * The process that crashed may have overwritten the memory first.  Consider
 * what it may have damaged:
 *	- an entry's key or meta: its CRC32C covers key and content;
 *	- a file's name, number, changes in flight or stamp: the stamp holds its
 *	  inode;
 *	- a set's generation: only tickets hold it, and they are all gone;
 *	- the replacement policy's state: by contract it tolerates anything;
 *	- cache policies: a wish, not a question of right or wrong bytes; an invalid
 *	  value is read as the default;
 *	- the staging ring: it is emptied, and what was on its way to flash is lost;
 *	- the head: it is compared with that of a new cache;
 *	- the write budget, and what was written: the cache files have them, too
 *	  (wear.c);
 *	- counters of cached blocks, keys beyond all tables: fc_revive_audit().
 * The audit looks at every entry once, before anything is served.  Until it is
 * finished no process trusts the counters, and a change of a range walks the
 * index.
 *
 * If reviving is interrupted by a kill, it starts again the next time: each
 * step can be repeated.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "budget.h"
#include "cache_policy.h"
#include "count.h"
#include "file.h"
#include "geometry.h"
#include "health.h"
#include "process.h"
#include "staging.h"

/* ---- judging ------------------------------------------------------------- */

static FcStart
judge(const FcShared *shared, const FcShared *layout, uint32_t sets,
      const FcIdentity *identity, uint64_t nonce)
{
	const FcIdentity *mine = &shared->identity;
	uint64_t geometry = atomic_load(&shared->geometry);

	FC_ASSERT(sets > 0 && sets <= layout->set_count);
	if (shared->magic == 0)
		return FC_START_NOTHING;
	if (shared->magic != layout->magic)
		return FC_START_FORMAT;
	if (memcmp(shared, layout, offsetof(FcShared, mode_word)) != 0)
		return FC_START_GEOMETRY;

	/* The files have another size now, or a change of size was under way. */
	if (geometry != fc_geometry_word(sets, sets) ||
	    atomic_load(&shared->room_sets) != sets)
		return FC_START_GEOMETRY;
	if (mine->system != identity->system && !FC_BROKEN(SYSTEM))
		return FC_START_SYSTEM;
	if ((mine->directory_volume != identity->directory_volume ||
	     mine->directory_inode != identity->directory_inode) &&
	    !FC_BROKEN(DIRECTORY))
		return FC_START_DIRECTORY;
	if ((mine->boot[0] != identity->boot[0] ||
	     mine->boot[1] != identity->boot[1]) &&
	    !FC_BROKEN(BOOT))
		return FC_START_BOOT;
	if ((shared->nonce != nonce || nonce == 0) && !FC_BROKEN(NONCE))
		return FC_START_NONCE;
	if (atomic_load(&shared->control) != identity->checkpoint.crc &&
	    atomic_load(&shared->control_next) != identity->checkpoint.crc &&
	    !FC_BROKEN(CHECKPOINT))
		return FC_START_CHECKPOINT;

	/* Changes of unknown files may have been interrupted, or not announced. */
	if ((fc_word_mode(atomic_load(&shared->mode_word)) == FC_OFFLINE ||
	     (uint32_t) atomic_load(&shared->everyone) != 0) &&
	    !FC_BROKEN(OFFLINE))
		return FC_START_OFFLINE;
	return FC_START_MEMORY;
}

/* ---- going on ------------------------------------------------------------ */

/* True if the file is asleep afterwards. */
static bool
put_to_sleep(FcShared *shared, uint32_t number)
{
	FcFileEntry *entry = &fc_files(shared)[number];
	FcAtomic64 *generation = &fc_generations(shared)[number];
	uint64_t before = atomic_load(generation);
	bool quiet = (uint32_t) atomic_load(
					 fc_stamp_counter_of_file(shared, &entry->id)) == 0 ||
	             FC_BROKEN(IN_FLIGHT);
	bool sleeps = quiet && atomic_load(&fc_tags(shared)[number]) != 0 &&
	              fc_generation_state(before) != FC_NUMBER_RETIRED;

	FC_ASSERT(number != FC_FILE_NONE && number < shared->file_count);
	atomic_store(generation,
	             fc_generation_next(before, sleeps ? FC_NUMBER_ASLEEP
	                                               : FC_NUMBER_RETIRED));
	atomic_store(&entry->hits, 0);
	atomic_store(&entry->misses, 0);
	atomic_store(&entry->disk_read_ns, 0);
	atomic_store(&entry->cache_policy, fc_cache_policy_of(shared, &entry->id));
	return sleeps;
}

/* Forget all counters, and with them the notes on their earlier values. */
static void
forget_counters(FcShared *shared)
{
	memset(fc_shards(shared), 0, shared->shard_count * sizeof(FcShard));
	memset(fc_device_shards(shared), 0,
	       (size_t) shared->shard_count * shared->device_count *
	           sizeof(FcDeviceShard));
	memset(shared->health, 0, sizeof(shared->health));
	shared->disk_window = (FcDiskSums){ 0 };
	shared->disk_mean_ns = 0;
	fc_budget_begin(shared);
}

static void
reset(FcShared *shared)
{
	uint64_t epoch = atomic_load(&shared->mode_word) >> 16;
	uint32_t asleep = 0;

	/* First of all: from now on no process trusts the counters. */
	atomic_store(&shared->audit_wanted, !FC_BROKEN(AUDIT));
	atomic_store(&shared->mode_word, (epoch + 1) << 16 |
	                                     (uint64_t) FC_REASON_STARTING << 8 |
	                                     (uint64_t) FC_PASSTHROUGH);
	for (uint32_t number = 1; number < shared->file_count; number++)
		asleep += put_to_sleep(shared, number);
	atomic_store(&shared->asleep_count, asleep);

	/* Only after the files that these counted for are retired. */
	for (uint32_t i = 0; i < shared->change_counter_count; i++)
		atomic_store(&fc_stamp_change_counters(shared)[i], 0);

	/* Parts of a map that were not taken in by now are lost. */
	shared->map_nonce = 0;

	/* Even, and a new value: files noted as absent are searched for again. */
	atomic_store(&shared->absent_epoch,
	             (atomic_load(&shared->absent_epoch) | 1) + 1);
	fc_staging_reset(shared);
	forget_counters(shared);
}

FcStart
fc_revive(FcCache *cache, void *memory, const FcConfig *config,
          FcDevice *devices, const FcIdentity *identity, uint64_t nonce)
{
	FcShared *shared = memory;
	FcShared layout;
	FcStart start;

	FC_ASSERT(devices != NULL && identity != NULL);
	if (!fc_layout(config, &layout))
		return FC_START_GEOMETRY;
	start =
		judge(shared, &layout, config->slot_count / FC_WAYS, identity, nonce);
	if (start != FC_START_MEMORY)
		return start;
	if (fc_cache_open(cache, shared, config->replacement, devices) != FC_OK)
		return FC_START_UNREADABLE;
	reset(shared);
	for (uint32_t i = 0; i < layout.device_count; i++)
		if (devices[i].ops == NULL)
			fc_health_absent(shared, i);
	return FC_START_MEMORY;
}

/* ---- the audit ----------------------------------------------------------- */

/* Can this be an entry's key, in this set? */
static bool
is_possible(const FcShared *shared, uint32_t set_number, uint64_t key)
{
	uint32_t number = fc_key_file(key);

	return number != FC_FILE_NONE && number < shared->file_count &&
	       atomic_load(&fc_tags(shared)[number]) != 0 &&
	       fc_generation_state(atomic_load(&fc_generations(shared)[number])) !=
	           FC_NUMBER_RETIRED &&
	       fc_index_set_of(shared, key) == set_number;
}

static void
audit_entry(FcCache *cache, uint32_t set_number, unsigned way)
{
	FcShared *shared = cache->shared;
	FcSet *set = fc_set(shared, set_number);

	FC_ASSERT(way < FC_WAYS && !fc_blocks_counted(shared));

	/* A change may move the entry on while we look; then look again. */
	for (;;)
	{
		uint64_t meta = atomic_load(&set->meta[way]);
		uint64_t key = atomic_load(&set->key[way]);
		FcState state = fc_meta_state(meta);

		if (state == FC_EMPTY)
			return;
		if (state == FC_VALID && is_possible(shared, set_number, key))
		{
			fc_chunk_enter(shared, fc_key_file(key), (uint32_t) key);
			return;
		}

		/*
		 * No process fills yet, so a claim is that of a process that is gone,
		 * or never was one; blocks that were on their way to flash are lost.
		 */
		if ((state == FC_FILLING || state == FC_DOOMED) &&
		    !fc_process_gone(cache, fc_meta_high(meta)))
			return;
		FC_POINT("entry-audited");
		if (atomic_compare_exchange_strong(&set->meta[way], &meta,
		                                   fc_meta_next(meta, FC_EMPTY, 0)))
			return;
	}
}

void
fc_revive_audit(FcCache *cache)
{
	FcShared *shared = cache->shared;

	if (atomic_load(&shared->audit_wanted) == 0)
		return;

	for (uint32_t i = 0; i < shared->chunk_count; i++)
		atomic_store(&fc_chunks(shared)[i], 0);
	for (uint32_t number = 1; number < shared->file_count; number++)
	{
		atomic_store(&fc_files(shared)[number].cached_blocks, 0);
		atomic_store(&fc_files(shared)[number].high, 0);
	}
	for (uint32_t i = 0; i < fc_geometry_slot_count(cache) / FC_WAYS; i++)
	{
		for (unsigned way = 0; way < FC_WAYS; way++)
			audit_entry(cache, i, way);
	}
	atomic_store(&shared->audit_wanted, 0);
}
