/*
 * cache_policy.h
 *		What the host wants of each relation; see cache_policy.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_CACHE_POLICY_H
#define FCACHE_CACHE_POLICY_H

#include "index.h"

/* A relation whose policy is not the default; see cache_policy.c. */
typedef struct FcCachePolicyEntry
{
	uint32_t tablespace;
	uint32_t database;
	uint32_t relation;
	FcAtomic32 word;
} FcCachePolicyEntry;

/* A policy lies within this many places of its hash. */
#define FC_CACHE_POLICY_PROBES 64

static inline FcCachePolicyEntry *
fc_cache_policy_table(const FcShared *shared)
{
	return FC_AT(shared, cache_policies_offset, FcCachePolicyEntry);
}

/* The table's policy for a relation: for a number that is being assigned. */
extern FcCachePolicy fc_cache_policy_of(const FcShared *shared,
                                        const FcFileId *id);

/* The policy in a number's line. */
extern FcCachePolicy fc_cache_policy_of_file(const FcShared *shared,
                                             uint32_t number);

/*
 * The usable ways that a block of this file may take; may be none.  *must_out:
 * it must take one of them, whatever the replacement policy thinks of the
 * block.
 */
extern uint64_t fc_cache_policy_usable(const FcShared *shared, const FcSet *set,
                                       uint32_t number, uint64_t usable,
                                       bool *must_out);

/*
 * Housekeeping: update the numbers' policies, drop the blocks of policy none.
 */
extern void fc_cache_policy_sweep(FcCache *cache);

#endif
