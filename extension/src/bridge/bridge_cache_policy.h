/*
 * bridge_cache_policy.h
 *		What the cache should do with the blocks of a relation: keep, none,
 *		default.
 *
 * For PostgreSQL's side of the extension; includes no headers of PostgreSQL or
 * core.  Without a cache, nothing here has any effect.
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

/* A relation's files, all forks and segments, and their policy. */
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
 * Tell core which files of a database have a policy; all its others have the
 * default.  round must differ from that of the last call.  Takes effect at
 * once.  *unplaced_out: the number of files for which there was no room.
 * False: some could not be set now, call again.
 */
extern bool bridge_cache_policy_replace(uint32_t database,
                                        const PolicyFile *files, uint32_t count,
                                        uint32_t round, uint32_t *unplaced_out);

/*
 * How many files of other databases have a policy, and how many of all
 * databases may.
 */
extern uint32_t bridge_cache_policy_of_others(uint32_t database);
extern uint32_t bridge_cache_policy_limit(void);

/* The database with a policy at this place, 0 = none; false beyond the last. */
extern bool bridge_cache_policy_database_at(uint32_t place,
                                            uint32_t *database_out);

extern void bridge_cache_policy_set_keep_share(int percent);
extern uint64_t bridge_cache_policy_keep_blocks(void);

#endif
