/*
 * replacement.h
 *		Which block of a set is evicted, and whether the new one is worth the
 *		write.
 *
 * The mechanism (claim.c) calls a policy through this table.  A policy sees one
 * set of FC_WAYS ways at a time: what it knows of each way, and what it chooses
 * to remember of blocks that have left.  What it learns about all sets together
 * it keeps in a state that they share.  Both states are in shared memory, and
 * several processes use them at once without a lock.  So every function must
 * tolerate torn or lost updates, and must not block, allocate, call out or
 * fail.  A wrong choice may cost a hit but never yields a wrong block.  A state
 * of all zeros is new.
 *
 * A read is one of the following:
 *
 *	hit			touched
 *	miss		missed; then, unless a way is free, choose; then, unless that
 *				said no, evicted (if a block was in the way) and filled
 *
 * A block that is loaded (fc_fill_load()) was not read.  Unless a way is free,
 * choose is called for it; then, unless that said no, evicted and filled.  It
 * is no reference: it must not count as a read, nor be remembered if it is
 * refused, and it must not take the way of a block that is worth more than one
 * whose last read was long ago.
 *
 * A write is no reference and changes nothing here.  When a block moves to
 * another set, moves is called for the set it is in; then, for the other set,
 * everything that follows missed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_REPLACEMENT_H
#define FCACHE_REPLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FC_WAYS     64
#define FC_WAY_NONE 64

/* What a policy may know of a block: enough to recognize it, not to find it. */
typedef struct FcCandidate
{
	uint32_t fingerprint; /* of file and block, well mixed */
	uint8_t relation;     /* of the relation and fork, well mixed */
	uint8_t note;         /* from missed() to choose() and filled() */
	bool loaded;          /* no read asked for it; note is its heat */
} FcCandidate;

/*
 * How often a block is expected to be read, from 0 (rarely) to FC_HEATS - 1: a
 * block of one heat several times as often as one of the heat below.
 */
#define FC_HEATS 4

/* As the heat of a block to be loaded: it takes only a free way. */
#define FC_HEAT_SPARE FC_HEATS

/* The set an event happens in. */
typedef struct FcReplacementPlace
{
	void *set;    /* the set's own state */
	void *shared; /* the state of all sets */
	uint32_t set_number;
	uint32_t set_count;
} FcReplacementPlace;

typedef struct FcReplacement
{
	const char *name;
	size_t set_state_size;    /* bytes per set, a multiple of 8 */
	size_t shared_state_size; /* bytes, a multiple of 8 */

	/* A read was served from this way. */
	void (*touched)(const FcReplacementPlace *place, unsigned way);

	/* A read did not find the candidate; called once for each miss. */
	void (*missed)(const FcReplacementPlace *place, FcCandidate *candidate);

	/*
	 * No way is free for the candidate.  Returns the way to evict, one of the
	 * bits in usable (never 0), or FC_WAY_NONE = do not fill.
	 */
	unsigned (*choose)(const FcReplacementPlace *place,
	                   const FcCandidate *candidate, uint64_t usable);

	/*
	 * The block in this way moves to another set because the cache changes its
	 * size.  This is no read, but otherwise as missed().
	 */
	void (*moves)(const FcReplacementPlace *place, unsigned way,
	              FcCandidate *candidate);

	/* The heat of the block in this way. */
	unsigned (*heat)(const FcReplacementPlace *place, unsigned way);

	/* The block in this way makes room for another one. */
	void (*evicted)(const FcReplacementPlace *place, unsigned way,
	                const FcCandidate *old);

	/* The candidate takes this way. */
	void (*filled)(const FcReplacementPlace *place, unsigned way,
	               const FcCandidate *candidate);
} FcReplacement;

/*
 * Evicts the block that gains least for its space; see replacement_gittins.c.
 */
extern const FcReplacement fc_replacement_gittins;

/* LFU with ageing and a ghost that remembers frequencies: for comparison. */
extern const FcReplacement fc_replacement_lfu;

#endif
