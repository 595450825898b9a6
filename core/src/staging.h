/*
 * staging.h
 *		The staging ring: pages on their way to flash; see staging.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_STAGING_H
#define FCACHE_STAGING_H

#include "index.h"

typedef enum FcPageState
{
	FC_PAGE_FREE,
	FC_PAGE_TAKEN, /* the owner fills it */
	FC_PAGE_STAGED,
	FC_PAGE_WRITING /* the owner has it written */
} FcPageState;

/*
 * A page's head.  word:
 *
 *	bits 32-63	owner's token: who fills it (TAKEN), who writes it (WRITING)
 *	bits  2-21	sequence, + 1 whenever the page is taken
 *	bits  0-1	state
 *
 * All but the word changes only while the page is TAKEN.  A page is named by a
 * reference, its number << 20 | sequence, so that a reference to an earlier use is
 * known for what it is.
 */
typedef struct FcStagedPage
{
	FcAtomic64 word;
	FcAtomic64 staged_ns; /* when it was filled */
	FcAtomic32 slot;
	FcAtomic32 crc;
	FcAtomic32 update; /* it refreshes a block that was written */
} __attribute__((aligned(64))) FcStagedPage;

#define FC_PAGE_STATE_MASK    3ULL
#define FC_PAGE_SEQUENCE_BITS 20
#define FC_PAGE_SEQUENCE_MASK ((1U << FC_PAGE_SEQUENCE_BITS) - 1)

static inline uint64_t
fc_page_word(FcPageState state, uint32_t sequence, uint32_t owner)
{
	return (uint64_t) owner << 32 |
	       (uint64_t) (sequence & FC_PAGE_SEQUENCE_MASK) << 2 |
	       (uint64_t) state;
}

static inline FcPageState
fc_page_state(uint64_t word)
{
	return (FcPageState) (word & FC_PAGE_STATE_MASK);
}

static inline uint32_t
fc_page_sequence(uint64_t word)
{
	return (uint32_t) (word >> 2) & FC_PAGE_SEQUENCE_MASK;
}

static inline uint32_t
fc_page_owner(uint64_t word)
{
	return (uint32_t) (word >> 32);
}

static inline uint32_t
fc_page_ref(uint32_t number, uint32_t sequence)
{
	return number << FC_PAGE_SEQUENCE_BITS | (sequence & FC_PAGE_SEQUENCE_MASK);
}

static inline uint32_t
fc_ref_sequence(uint32_t ref)
{
	return ref & FC_PAGE_SEQUENCE_MASK;
}

/* Whatever an entry holds, it is no page that there is not. */
static inline uint32_t
fc_ref_number(const FcShared *shared, uint32_t ref)
{
	return (ref >> FC_PAGE_SEQUENCE_BITS) & (shared->ring_count - 1);
}

static inline FcStagedPage *
fc_staged_page(const FcShared *shared, uint32_t number)
{
	return &FC_AT(shared, staged_offset, FcStagedPage)[number];
}

/* The page itself, aligned for direct I/O. */
static inline void *
fc_staged_bytes(const FcShared *shared, uint32_t number)
{
	return FC_AT(shared, ring_offset, char) + (size_t) number * FC_BLOCK_SIZE;
}

/* Does this word still stand for what the reference named? */
static inline bool
fc_page_is(uint64_t word, uint32_t ref)
{
	return FC_BROKEN(RING_SEQUENCE) ||
	       fc_page_sequence(word) == fc_ref_sequence(ref);
}

/* How many pages a cache of so many slots has: a power of 2. */
extern uint32_t fc_staging_pages_for(uint64_t slot_count);

/* Take a free page; false if there is none. */
extern bool fc_staging_take(FcCache *cache, uint32_t *ref_out);

/* Copy a block into a page that one has taken. */
extern void fc_staging_put(FcCache *cache, uint32_t ref, uint64_t key,
                           uint32_t slot, const void *page, bool update);

/* The page's entry is published: hand the page to the writer. */
extern void fc_staging_hand_over(FcCache *cache, uint32_t ref);

/*
 * Give a page back.  Only for who took it and did not publish it, and for who took
 * the entry that named it out of STAGED.  Does nothing to a page that is being
 * written, or that somebody else gave back before.
 */
extern void fc_staging_free(FcShared *shared, uint32_t ref);

/* The same for the writer: the page is on flash, or will never be. */
extern void fc_staging_written(FcShared *shared, uint32_t ref);

/* Pages in use, about; and whether that is so many that the writer must hurry. */
extern uint32_t fc_staging_used(const FcShared *shared);
extern bool fc_staging_crowded(const FcShared *shared);

/* There may be something for the writer in this page. */
extern void fc_staging_note(FcShared *shared, uint32_t number);

/* All processes are gone: whatever was in the ring, it is empty. */
extern void fc_staging_reset(FcShared *shared);

/* The map of pages in use says what the page's word says. */
extern void fc_staging_mend(FcShared *shared, uint32_t number);

/*
 * Copy a block out of the ring, where the entry seen (STAGED or WRITING) says it
 * is.  On true the entry has still to be compared, as after a read of a slot.
 * False: the page is not what the entry meant any more; look the block up again.
 */
extern FC_MUST_CHECK bool fc_staging_read(const FcCache *cache, uint64_t key,
                                          FcSeen *seen, void *page);

/* Wake the writer if it sleeps. */
extern void fc_staging_wake(FcShared *shared);

#endif
