/*
 * bridge_cache_policy.c
 *		Core's cache policies of relations, for PostgreSQL's side of the
 *		extension.
 *
 * Core takes one file at a time, under a lock for which it waits only briefly.
 * This file sets a whole database at once, and tries longer.  It may run in a
 * transaction's commit callback, so nothing here allocates, reports or fails.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "bridge/bridge_cache_policy.h"

#include <string.h>
#include <unistd.h>

#include "hooks/runtime.h"
#include "fcache/assert.h"
#include "fcache/housekeeping.h"

/*
 * Attempts to take the lock, and the pause between them: a tenth of a second in
 * all.
 */
#define LOCK_TRIES    100
#define LOCK_PAUSE_US 1000

static const char *const words[] = {
	[POLICY_DEFAULT] = "default", [POLICY_KEEP] = "keep", [POLICY_NONE] = "none"
};

_Static_assert((int) POLICY_DEFAULT == (int) FC_CACHE_POLICY_DEFAULT &&
                   (int) POLICY_KEEP == (int) FC_CACHE_POLICY_KEEP &&
                   (int) POLICY_NONE == (int) FC_CACHE_POLICY_NONE,
               "the numbers of a policy agree");

const char *
bridge_cache_policy_word(CachePolicy policy)
{
	FC_ASSERT(policy <= POLICY_NONE);
	return words[policy];
}

bool
bridge_cache_policy_of_word(const char *word, CachePolicy *policy_out)
{
	for (int policy = POLICY_DEFAULT; policy <= POLICY_NONE; policy++)
	{
		if (strcmp(words[policy], word) == 0)
		{
			*policy_out = (CachePolicy) policy;
			return true;
		}
	}
	return false;
}

/* Wait a little for the lock; false once all attempts are used up. */
static bool
try_again(int *tries)
{
	if (++*tries >= LOCK_TRIES)
		return false;
	(void) usleep(LOCK_PAUSE_US);
	return true;
}

bool
bridge_cache_policy_replace(uint32_t database, const PolicyFile *files,
                            uint32_t count, uint32_t round,
                            uint32_t *unplaced_out)
{
	FcCache *cache = &runtime.cache;
	int tries = 0;

	FC_ASSERT(database != 0 && (files != NULL || count == 0));
	*unplaced_out = 0;
	if (!runtime_attached())
		return true;

	for (uint32_t i = 0; i < count; i++)
	{
		FcFileId id = { .tablespace = files[i].tablespace,
			            .database = files[i].database,
			            .relation = files[i].relation };
		FcStatus status;

		FC_ASSERT(id.database == database && id.relation != 0);
		FC_ASSERT(files[i].policy != POLICY_DEFAULT);
		while ((status = fc_cache_policy_set(cache, id,
		                                     (FcCachePolicy) files[i].policy,
		                                     round)) == FC_SKIP)
		{
			if (!try_again(&tries))
				return false;
		}
		*unplaced_out += status == FC_FULL;
	}

	while (!fc_cache_policy_forget(cache, database, round) ||
	       !fc_cache_policy_apply(cache))
	{
		if (!try_again(&tries))
			return false;
	}
	FC_ASSERT(*unplaced_out <= count);
	return true;
}

uint32_t
bridge_cache_policy_of_others(uint32_t database)
{
	FcFileId id;
	FcCachePolicy policy;
	uint32_t count = 0;

	if (!runtime_attached())
		return 0;
	for (uint32_t place = 0;
	     fc_cache_policy_info(&runtime.cache, place, &id, &policy); place++)
		count += policy != FC_CACHE_POLICY_DEFAULT && id.database != database;
	return count;
}

uint32_t
bridge_cache_policy_limit(void)
{
	return runtime_attached() ? fc_cache_policy_count(&runtime.cache)
	                          : UINT32_MAX;
}

bool
bridge_cache_policy_database_at(uint32_t place, uint32_t *database_out)
{
	FcFileId id;
	FcCachePolicy policy;

	if (!runtime_attached() ||
	    !fc_cache_policy_info(&runtime.cache, place, &id, &policy))
		return false;
	*database_out = policy == FC_CACHE_POLICY_DEFAULT ? 0 : id.database;
	return true;
}

void
bridge_cache_policy_set_keep_share(int percent)
{
	FC_ASSERT(percent >= 0 && percent <= 100);
	if (runtime_attached())
		fc_cache_policy_set_keep_share(&runtime.cache, (unsigned) percent);
}

uint64_t
bridge_cache_policy_keep_blocks(void)
{
	return runtime_attached() ? fc_cache_policy_keep_blocks(&runtime.cache) : 0;
}
