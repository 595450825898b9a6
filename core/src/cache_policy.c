/*
 * cache_policy.c
 *		keep, none, default: what the host wants of each relation.
 *
 * A cache policy belongs to a relation, that is, to all forks and segments of a
 * tablespace, database and relfilenumber.  It is kept in two places.  The table
 * of policies (open addressing, an entry within FC_CACHE_POLICY_PROBES places
 * of its hash) holds the relations whose policy is not the default, whether or
 * not the cache knows them.  The line of each file number has a copy, so that a
 * look-up costs one load.
 *
 *	keep	A kept block gives its slot only to another kept one, and takes the
 *			slots of others while kept blocks have less than their share.
 *			Beyond the share it is a block like any other.  The share is counted
 *			in each set: keys spread over the sets evenly, so it holds for the
 *			whole, no counter can drift, and every set keeps room for the rest.
 *	none	Not looked up, so neither served nor filled.
 *
 * A policy is a wish, never a question of right or wrong bytes: a stale copy
 * costs a slot or a hit for as long as it is stale.
 *
 * Locking: the table and the copies change under the file lock.  A policy is
 * set in the table first; then the copies of live numbers follow.  A process
 * that assigns a number holds the lock and looks into the table.  So whichever
 * comes first, the copy is right.  A process that dies in between leaves
 * cache_policies_changed set, and housekeeping finishes the work.
 *
 * The replacement policy (fcache/replacement.h) is something else: it says
 * which of any two blocks is evicted.
 *
 * When a file's policy becomes none, housekeeping drops the file's blocks,
 * since that may take a while; from the moment the copy says none, they are not
 * looked up.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "cache_policy.h"
#include "file.h"

/*
 * Files or policies processed while holding the lock once: some microseconds.
 */
#define LOCK_BATCH 1024

/* ---- the table ----------------------------------------------------------- */

/*
 * word: policy | round << 8, 0 = free.  It is written last and cleared first,
 * so an entry is consistent wherever a process is killed.
 */
static FcCachePolicy
word_policy(uint32_t word)
{
	uint32_t policy = word & 0xff;

	/* Memory that outlived its server may hold anything. */
	return policy <= FC_CACHE_POLICY_NONE ? (FcCachePolicy) policy
	                                      : FC_CACHE_POLICY_DEFAULT;
}

static uint32_t
first_place(const FcShared *shared, const FcFileId *id)
{
	uint64_t hash = fc_mix(((uint64_t) id->tablespace << 32) | id->database);

	hash = fc_mix(hash ^ id->relation);
	return (uint32_t) (hash >> 32) & (shared->cache_policy_count - 1);
}

static FcCachePolicyEntry *
entry_at(const FcShared *shared, uint32_t first, uint32_t probe)
{
	FC_ASSERT(first < shared->cache_policy_count);
	return &fc_cache_policy_table(
		shared)[(first + probe) & (shared->cache_policy_count - 1)];
}

/* The relation's entry, or else the first free place for one, or NULL. */
static FcCachePolicyEntry *
find(const FcShared *shared, const FcFileId *id, bool *found)
{
	uint32_t first = first_place(shared, id);
	FcCachePolicyEntry *free_entry = NULL;

	*found = false;
	for (uint32_t probe = 0; probe < FC_CACHE_POLICY_PROBES; probe++)
	{
		FcCachePolicyEntry *entry = entry_at(shared, first, probe);

		if (atomic_load(&entry->word) == 0)
		{
			if (free_entry == NULL)
				free_entry = entry;
		}
		else if (entry->relation == id->relation &&
		         entry->database == id->database &&
		         entry->tablespace == id->tablespace)
		{
			*found = true;
			return entry;
		}
	}
	return free_entry;
}

FcCachePolicy
fc_cache_policy_of(const FcShared *shared, const FcFileId *id)
{
	bool found;
	const FcCachePolicyEntry *entry;

	if (atomic_load(&shared->cache_policies_used) == 0)
		return FC_CACHE_POLICY_DEFAULT;
	entry = find(shared, id, &found);
	return found ? word_policy(atomic_load(&entry->word))
	             : FC_CACHE_POLICY_DEFAULT;
}

/* Under the lock. */
static FcStatus
set_policy(FcShared *shared, const FcFileId *id, FcCachePolicy policy,
           uint32_t round)
{
	bool found;
	FcCachePolicyEntry *entry = find(shared, id, &found);
	FcCachePolicy before = found ? word_policy(atomic_load(&entry->word))
	                             : FC_CACHE_POLICY_DEFAULT;

	FC_ASSERT(policy <= FC_CACHE_POLICY_NONE);
	if (policy != before)
	{
		atomic_store(&shared->cache_policies_used, 1);
		atomic_store(&shared->cache_policies_changed, 1);
	}
	if (policy == FC_CACHE_POLICY_DEFAULT)
	{
		if (found)
			atomic_store(&entry->word, 0);
		return FC_OK;
	}
	if (entry == NULL)
		return FC_FULL;
	if (!found)
	{
		entry->tablespace = id->tablespace;
		entry->database = id->database;
		entry->relation = id->relation;
	}
	atomic_store(&entry->word, (uint32_t) policy | (round << 8));
	return FC_OK;
}

FcStatus
fc_cache_policy_set(FcCache *cache, FcFileId id, FcCachePolicy policy,
                    uint32_t round)
{
	FcStatus status;

	if (!fc_file_lock(cache))
		return FC_SKIP;
	status = set_policy(cache->shared, &id, policy, round);
	fc_file_unlock(cache);
	return status;
}

bool
fc_cache_policy_info(const FcCache *cache, uint32_t place, FcFileId *id_out,
                     FcCachePolicy *policy_out)
{
	const FcShared *shared = cache->shared;

	if (place >= shared->cache_policy_count)
		return false;

	const FcCachePolicyEntry *entry = &fc_cache_policy_table(shared)[place];

	*policy_out = word_policy(atomic_load(&entry->word));
	*id_out = (FcFileId){ .tablespace = entry->tablespace,
		                  .database = entry->database,
		                  .relation = entry->relation };
	return true;
}

uint32_t
fc_cache_policy_count(const FcCache *cache)
{
	return cache->shared->cache_policy_count / 2;
}

bool
fc_cache_policy_forget(FcCache *cache, uint32_t database, uint32_t round)
{
	FcShared *shared = cache->shared;

	for (uint32_t place = 0; place < shared->cache_policy_count;)
	{
		if (!fc_file_lock(cache))
			return false;
		for (uint32_t i = 0;
		     i < LOCK_BATCH && place < shared->cache_policy_count; i++, place++)
		{
			FcCachePolicyEntry *entry = &fc_cache_policy_table(shared)[place];
			uint32_t word = atomic_load(&entry->word);

			if (word == 0 || entry->database != database ||
			    (word >> 8) == (round & 0xffffff))
				continue;
			atomic_store(&shared->cache_policies_changed, 1);
			atomic_store(&entry->word, 0);
		}
		fc_file_unlock(cache);
	}
	return true;
}

/* ---- the copies ---------------------------------------------------------- */

FcCachePolicy
fc_cache_policy_of_file(const FcShared *shared, uint32_t number)
{
	FC_ASSERT(number < shared->file_count);

	/* Relaxed: under either policy, what is served is right. */
	return (FcCachePolicy) atomic_load_explicit(
		&fc_files(shared)[number].cache_policy, memory_order_relaxed);
}

/* Under the lock: update one number's copy from the table. */
static void
follow(FcShared *shared, uint32_t number)
{
	FcFileEntry *entry = &fc_files(shared)[number];
	FcCachePolicy policy;

	FC_ASSERT(number < shared->file_count);

	/* An unused place: when it is assigned, the policy is looked up again. */
	if (atomic_load(&fc_tags(shared)[number]) == 0)
		return;
	policy = fc_cache_policy_of(shared, &entry->id);
	if (policy == FC_CACHE_POLICY_NONE)
		atomic_store(&shared->cache_policy_drop_wanted, 1);
	atomic_store(&entry->cache_policy, (uint32_t) policy);
}

bool
fc_cache_policy_apply(FcCache *cache)
{
	FcShared *shared = cache->shared;

	if (atomic_exchange(&shared->cache_policies_changed, 0) == 0)
		return true;

	for (uint32_t number = 0; number < shared->file_count;)
	{
		if (!fc_file_lock(cache))
		{
			atomic_store(&shared->cache_policies_changed, 1);
			return false;
		}
		for (uint32_t i = 0; i < LOCK_BATCH && number < shared->file_count;
		     i++, number++)
			follow(shared, number);
		fc_file_unlock(cache);
	}
	return true;
}

/* Drop the blocks of files that must not be looked up any more. */
static void
drop_none(FcCache *cache)
{
	FcShared *shared = cache->shared;

	if (atomic_exchange(&shared->cache_policy_drop_wanted, 0) == 0 ||
	    FC_BROKEN(POLICY_DROP))
		return;
	for (uint32_t number = 0; number < shared->file_count; number++)
	{
		/*
		 * This also advances the file's generation, so that a fill fails that
		 * began before the policy was set.
		 */
		if (fc_cache_policy_of_file(shared, number) == FC_CACHE_POLICY_NONE &&
		    atomic_load(&fc_tags(shared)[number]) != 0)
			fc_file_invalidate(cache, number, 0, FC_BLOCKS_ALL);
	}
}

void
fc_cache_policy_sweep(FcCache *cache)
{
	if (fc_cache_policy_apply(cache))
		drop_none(cache);
}

/* ---- effects ------------------------------------------------------------- */

void
fc_cache_policy_set_keep_share(FcCache *cache, unsigned percent)
{
	atomic_store(&cache->shared->keep_ways,
	             (uint32_t) ((percent > 100 ? 100 : percent) * FC_WAYS / 100));
}

uint64_t
fc_cache_policy_keep_blocks(const FcCache *cache)
{
	const FcShared *shared = cache->shared;
	uint64_t blocks = 0;

	if (atomic_load(&shared->cache_policies_used) == 0)
		return 0;
	for (uint32_t number = 0; number < shared->file_count; number++)
	{
		if (fc_cache_policy_of_file(shared, number) == FC_CACHE_POLICY_KEEP)
			blocks += atomic_load(&fc_files(shared)[number].cached_blocks);
	}
	return blocks;
}

/* Those of the ways that hold kept blocks. */
static uint64_t
kept_ways(const FcShared *shared, const FcSet *set, uint64_t ways)
{
	uint64_t kept = 0;

	for (; ways != 0; ways &= ways - 1)
	{
		unsigned way = (unsigned) __builtin_ctzll(ways);

		/* Relaxed: it only decides which block leaves. */
		uint32_t number = fc_key_file(
			atomic_load_explicit(&set->key[way], memory_order_relaxed));

		if (number < shared->file_count &&
		    fc_cache_policy_of_file(shared, number) == FC_CACHE_POLICY_KEEP)
			kept |= 1ULL << way;
	}
	return kept;
}

uint64_t
fc_cache_policy_usable(const FcShared *shared, const FcSet *set,
                       uint32_t number, uint64_t usable, bool *must_out)
{
	FC_ASSERT(usable != 0 && number < shared->file_count);
	*must_out = false;

	/* Relaxed, here and below: it only decides which block leaves. */
	if (atomic_load_explicit(&shared->cache_policies_used,
	                         memory_order_relaxed) == 0 ||
	    FC_BROKEN(KEEP))
		return usable;

	uint64_t kept = kept_ways(shared, set, usable);
	uint32_t count = (uint32_t) __builtin_popcountll(kept);
	uint32_t share =
		FC_BROKEN(KEEP_SHARE)
			? FC_WAYS
			: atomic_load_explicit(&shared->keep_ways, memory_order_relaxed);

	if (fc_cache_policy_of_file(shared, number) != FC_CACHE_POLICY_KEEP)
		return count <= share ? usable & ~kept : usable;
	if (count >= share || (usable & ~kept) == 0)
		return usable;
	*must_out = true;
	return usable & ~kept;
}
