/*
 * bridge_cache_policy.h
 *		What the cache is to do with the blocks of a relation: keep, none, default.
 *
 * Plain C, for PostgreSQL's side of the extension.  Nothing here does anything
 * where there is no cache.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_CACHE_POLICY_H
#define PGFLASH_BRIDGE_CACHE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

typedef enum CachePolicy
{
	POLICY_DEFAULT,
	POLICY_KEEP,
	POLICY_NONE
} CachePolicy;

/* A relation's files, all forks and segments, and what is wanted of them. */
typedef struct PolicyFile
{
	uint32_t tablespace;
	uint32_t database;
	uint32_t relation; /* relfilenumber */
	CachePolicy policy;
} PolicyFile;

/* "keep", "none" or "default"; false if the word is none of them. */
extern const char *bridge_cache_policy_word(CachePolicy policy);
extern bool bridge_cache_policy_of_word(const char *word,
                                        CachePolicy *policy_out);

/*
 * These are the files of a database whose policy is not the default; all others
 * have it.  round: another one than at the last call.  Takes effect at once.
 * *unplaced_out: so many found no place.  False: not all of it could be done
 * now, call again.
 */
extern bool bridge_cache_policy_replace(uint32_t database,
                                        const PolicyFile *files, uint32_t count,
                                        uint32_t round, uint32_t *unplaced_out);

/* Files of other databases that have a policy, and of all together may have. */
extern uint32_t bridge_cache_policy_of_others(uint32_t database);
extern uint32_t bridge_cache_policy_limit(void);

/* The database with a policy at this place, 0 = none; false beyond the last. */
extern bool bridge_cache_policy_database_at(uint32_t place,
                                            uint32_t *database_out);

extern void bridge_cache_policy_set_keep_share(int percent);
extern uint64_t bridge_cache_policy_keep_blocks(void);

#endif
