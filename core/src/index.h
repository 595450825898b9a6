/*
 * index.h
 *		The entries of the index, and the calls that the rest of core may use.
 *
 * index.c describes the life of an entry, claim.c how a process claims one.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_INDEX_H
#define FCACHE_INDEX_H

#include "shared.h"

/*
 * An entry is two words.  key: file number << 32 | block.  meta:
 *
 *	bits 32-63	VALID: CRC32C of key and content; FILLING, DOOMED: owner token;
 *				STAGED, WRITING, WRITING_DOOMED: reference to a page of the ring
 *	bits  3-31	sequence, + 1 whenever the entry is claimed or emptied
 *	bits  0-2	state
 *
 * The key changes only while the owner holds the entry in FILLING.  The
 * sequence stays the same from STAGED through WRITING to VALID: it is the same
 * block with the same bytes.
 */
typedef enum FcState
{
	FC_EMPTY,
	FC_FILLING,       /* the owner is copying the block */
	FC_DOOMED,        /* ... but it changed: the owner will empty the entry */
	FC_VALID,         /* the slot holds the block */
	FC_STAGED,        /* a page of the ring does */
	FC_WRITING,       /* ... and is being written to the slot */
	FC_WRITING_DOOMED /* ... but it changed: the writer will empty the entry */
} FcState;

#define FC_META_STATE_MASK    7ULL
#define FC_META_SEQUENCE_ONE  8ULL
#define FC_META_SEQUENCE_MASK 0xfffffff8ULL

static inline FcState
fc_meta_state(uint64_t meta)
{
	return (FcState) (meta & FC_META_STATE_MASK);
}

static inline uint32_t
fc_meta_high(uint64_t meta)
{
	return (uint32_t) (meta >> 32);
}

/* Does the entry say where the block is? */
static inline bool
fc_meta_serves(uint64_t meta)
{
	return fc_meta_state(meta) >= FC_VALID && fc_meta_state(meta) <= FC_WRITING;
}

/* Is the block in a page of the ring? */
static inline bool
fc_meta_staged(uint64_t meta)
{
	return fc_meta_state(meta) == FC_STAGED ||
	       fc_meta_state(meta) == FC_WRITING;
}

/* The same entry in another state, with the same sequence. */
static inline uint64_t
fc_meta_as(uint64_t meta, FcState state, uint32_t high)
{
	FC_ASSERT(state > FC_EMPTY && state <= FC_WRITING_DOOMED);
	return ((uint64_t) high << 32) | (meta & FC_META_SEQUENCE_MASK) |
	       (uint64_t) state;
}

/* The same entry in another state, with the next sequence. */
static inline uint64_t
fc_meta_next(uint64_t meta, FcState state, uint32_t high)
{
	FC_ASSERT(state == FC_EMPTY || state == FC_FILLING);
	return ((uint64_t) high << 32) |
	       ((meta + FC_META_SEQUENCE_ONE) & FC_META_SEQUENCE_MASK) |
	       (uint64_t) state;
}

static inline uint64_t
fc_key(uint32_t file, uint32_t block)
{
	return ((uint64_t) file << 32) | block;
}

static inline uint32_t
fc_key_file(uint64_t key)
{
	return (uint32_t) (key >> 32);
}

/* A set: 64 entries, followed by the replacement policy's state. */
typedef struct FcSet
{
	FcAtomic64 generation; /* + 1 at every change of a block of this set */
	FcAtomic64 key[FC_WAYS];
	FcAtomic64 meta[FC_WAYS];
	char replacement_state[];
} FcSet;

static inline FcSet *
fc_set(const FcShared *shared, uint32_t number)
{
	FC_ASSERT(number < shared->set_count);
	return (FcSet *) (void *) ((char *) shared + shared->sets_offset +
	                           (uint64_t) number * shared->set_size);
}

static inline FcSet *
fc_set_of_slot(const FcShared *shared, uint32_t slot)
{
	return fc_set(shared, slot / FC_WAYS);
}

/* ---- index.c: which slot holds a block ----------------------------------- */

/* An entry as it was seen. */
typedef struct FcSeen
{
	uint32_t slot;
	uint32_t crc; /* of the bytes read from a page of the ring */
	uint64_t meta;
} FcSeen;

/*
 * Let the processor begin to fetch the memory that a look-up of the block will
 * read.  This is a hint: nothing is looked at.
 */
extern void fc_index_prefetch(const FcShared *shared, uint64_t key);

/* Find an entry that says where the block is. */
extern bool fc_index_find(const FcShared *shared, uint64_t key, FcSeen *seen);

/*
 * Is the whole entry still as it was seen?  A block that was read from the ring
 * may have been written to flash meanwhile.
 */
extern bool fc_index_holds(const FcShared *shared, uint64_t key,
                           const FcSeen *seen);

/* Empty the entry if it is still as it was seen. */
extern bool fc_index_drop(FcShared *shared, uint64_t key, const FcSeen *seen);

/* How a change found its block. */
typedef enum FcHeld
{
	FC_HELD_NOT,
	FC_HELD,
	FC_HELD_STAGED /* the write to flash had not begun */
} FcHeld;

/* The home set of a block, and the generation that an invalidation gave it. */
typedef struct FcHome
{
	uint32_t set;
	uint64_t generation;
} FcHome;

/*
 * The block changes: advance its set's generation, empty its entry, and doom
 * fills of it.  While the size changes, do so at both its homes.  Says whether
 * the block was cached.
 */
extern FcHeld fc_index_invalidate(FcCache *cache, uint64_t key,
                                  FcHome *home_out);

/* Doom a fill under way; false if the entry has moved on. */
extern bool fc_index_doom(const FcShared *shared, const FcSeen *seen);

/* These walk through all sets. */
extern void fc_index_invalidate_file(FcCache *cache, uint32_t number,
                                     uint32_t first, uint32_t last);
extern void fc_index_clear(FcCache *cache);

/* ---- claim.c: claiming a slot -------------------------------------------- */

/*
 * Claim a way for the ticket's block.  On FC_OK the caller owns the slot and
 * must publish or abandon it.
 */
extern FC_MUST_CHECK FcStatus fc_claim(FcCache *cache, const FcTicket *ticket,
                                       FcSeen *claim);

/*
 * The same for a block that no read asked for, of this heat (replacement.h).
 */
extern FC_MUST_CHECK FcStatus fc_claim_load(FcCache *cache,
                                            const FcTicket *ticket,
                                            unsigned heat, FcSeen *claim);

/* Is a way of the set free?  A hint. */
extern bool fc_claim_has_room(const FcCache *cache, uint32_t set_number);

/*
 * The same for a block that is cached elsewhere and moves into the ticket's
 * set.
 */
extern FC_MUST_CHECK FcStatus fc_claim_move(FcCache *cache,
                                            const FcTicket *ticket,
                                            const FcSeen *from, FcSeen *claim);

/*
 * Publish the claimed entry, unless anything changed since the ticket: VALID
 * with the CRC32C of the slot's content, or STAGED with the reference of a
 * page.
 */
extern FC_MUST_CHECK FcStatus fc_claim_publish(FcCache *cache,
                                               const FcTicket *ticket,
                                               const FcSeen *claim,
                                               FcState state, uint32_t high);
extern void fc_claim_abandon(FcCache *cache, const FcTicket *ticket,
                             const FcSeen *claim);

/* If the owner of this fill is gone, empty the entry; true if it did. */
extern bool fc_claim_take_over(FcCache *cache, const FcSeen *seen);

/* What the replacement policy expects of the block in a slot. */
extern unsigned fc_claim_heat(const FcCache *cache, uint32_t slot);

/* Tell the replacement policy of a hit. */
extern void fc_claim_touch(FcCache *cache, const FcSeen *seen);

#endif
