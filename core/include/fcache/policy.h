/*
 * policy.h
 *		Which block of a set has to go, and is the new one worth the write.
 *
 * The mechanism (index.c) calls a policy through this table.  A policy sees one
 * set of FC_WAYS ways at a time: what it knows of each way, and what it chooses
 * to remember of blocks that have left.  Its state lies in shared memory and is
 * touched by several processes at once without a lock: every function must
 * stand torn or lost updates, must not block, allocate, call out or fail, and a
 * wrong choice may cost a hit but never a wrong block.  A set begins with a state
 * of zeros.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_POLICY_H
#define FCACHE_POLICY_H

#include <stddef.h>
#include <stdint.h>

#define FC_WAYS     64
#define FC_WAY_NONE 64

/* What a policy may know of a block: enough to recognise it, not to find it. */
typedef struct FcCandidate
{
	uint32_t fingerprint;   /* of file and block, well mixed */
	uint8_t relation_class; /* what kind of relation; 0 = unknown */
} FcCandidate;

typedef struct FcPolicy
{
	const char *name;
	size_t set_state_size; /* bytes per set, a multiple of 8 */

	/* A read was served from this way. */
	void (*touched)(void *state, unsigned way);

	/*
	 * A read missed the candidate and no way is free: the way that goes, one of
	 * the bits in usable (never 0), or FC_WAY_NONE = do not fill.
	 */
	unsigned (*choose)(void *state, const FcCandidate *candidate,
	                   uint64_t usable);

	/* The candidate now lies in this way. */
	void (*filled)(void *state, unsigned way, const FcCandidate *candidate);

	/* The block in this way made room for another one. */
	void (*evicted)(void *state, unsigned way, const FcCandidate *old);
} FcPolicy;

/* LFU with ageing and a ghost that remembers frequencies. */
extern const FcPolicy fc_policy_lfu;

#endif
