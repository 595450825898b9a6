/*
 * bridge_classes.c
 *		Core's classes of relations, as PostgreSQL's side of the extension asks for
 *		them.
 *
 * Core is told file by file, under a lock that it waits for only a short while;
 * here a whole database is told at once, with some patience.  May run in a
 * transaction's commit callback: nothing here allocates, reports or fails.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "bridge/bridge_classes.h"

#include <string.h>
#include <unistd.h>

#include "hooks/runtime.h"

/* Tries for the lock, and the pause between two: a tenth of a second in all. */
#define LOCK_TRIES    100
#define LOCK_PAUSE_US 1000

static const char *const words[] = {
	[POLICY_DEFAULT] = "default", [POLICY_KEEP] = "keep", [POLICY_NONE] = "none"
};

_Static_assert((int) POLICY_DEFAULT == (int) FC_CLASS_DEFAULT &&
                   (int) POLICY_KEEP == (int) FC_CLASS_KEEP &&
                   (int) POLICY_NONE == (int) FC_CLASS_NONE,
               "two names for the same, in two worlds");

const char *
bridge_class_word(CachePolicy policy)
{
	return words[policy];
}

bool
bridge_class_of_word(const char *word, CachePolicy *policy_out)
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

/* Wait a little for the lock; false if that has been enough. */
static bool
patient(int *tries)
{
	if (++*tries >= LOCK_TRIES)
		return false;
	(void) usleep(LOCK_PAUSE_US);
	return true;
}

bool
bridge_class_replace(uint32_t database, const ClassedFile *files,
                     uint32_t count, uint32_t round, uint32_t *unplaced_out)
{
	FcCache *cache = &runtime.cache;
	int tries = 0;

	*unplaced_out = 0;
	if (!runtime_attached())
		return true;

	for (uint32_t i = 0; i < count; i++)
	{
		FcFileId id = { .tablespace = files[i].tablespace,
			            .database = files[i].database,
			            .relation = files[i].relation };
		FcStatus status;

		while ((status = fc_file_class_set(cache, id, (FcClass) files[i].policy,
		                                   round)) == FC_SKIP)
		{
			if (!patient(&tries))
				return false;
		}
		*unplaced_out += status == FC_FULL;
	}

	while (!fc_file_classes_forget(cache, database, round) ||
	       !fc_file_classes_apply(cache))
	{
		if (!patient(&tries))
			return false;
	}
	return true;
}

uint32_t
bridge_class_of_others(uint32_t database)
{
	FcFileId id;
	FcClass class;
	uint32_t count = 0;

	if (!runtime_attached())
		return 0;
	for (uint32_t place = 0;
	     fc_file_class_info(&runtime.cache, place, &id, &class); place++)
		count += class != FC_CLASS_DEFAULT && id.database != database;
	return count;
}

uint32_t
bridge_class_limit(void)
{
	return runtime_attached() ? fc_file_class_count(&runtime.cache)
	                          : UINT32_MAX;
}

bool
bridge_class_database_at(uint32_t place, uint32_t *database_out)
{
	FcFileId id;
	FcClass class;

	if (!runtime_attached() ||
	    !fc_file_class_info(&runtime.cache, place, &id, &class))
		return false;
	*database_out = class == FC_CLASS_DEFAULT ? 0 : id.database;
	return true;
}

void
bridge_class_set_keep_share(int percent)
{
	if (runtime_attached())
		fc_keep_share_set(&runtime.cache, (unsigned) percent);
}

uint64_t
bridge_class_keep_blocks(void)
{
	return runtime_attached() ? fc_keep_blocks(&runtime.cache) : 0;
}
