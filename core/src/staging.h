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
	FC_PAGE_TAKEN, /* the owner is filling it */
	FC_PAGE_STAGED,
	FC_PAGE_WRITING /* the owner is writing it to flash */
} FcPageState;

/*
 * A page's head.  word:
 *
 *	bits 32-63	owner's token: who fills it (TAKEN), who writes it (WRITING)
 *	bits  2-21	sequence, + 1 whenever the page is taken
 *	bits  0-1	state
 *
 * Everything except the word changes only while the page is TAKEN.  A
 * reference, number << 20 | sequence, names a page; the sequence shows when a
 * reference is to an earlier use of the page.
 */
typedef struct FcStagedPage
{
	FcAtomic64 word;
	FcAtomic64 staged_ns; /* when it was filled */
	FcAtomic32 slot;
	FcAtomic32 crc;
	FcAtomic32 update; /* refreshes a block that was changed */
} __attribute__((aligned(64))) FcStagedPage;

#define FC_PAGE_STATE_MASK    3ULL
#define FC_PAGE_SEQUENCE_BITS 20
#define FC_PAGE_SEQUENCE_MASK ((1U << FC_PAGE_SEQUENCE_BITS) - 1)

static inline uint64_t
fc_page_word(FcPageState state, uint32_t sequence, uint32_t owner)
{
	FC_ASSERT((owner != 0) ==
	          (state == FC_PAGE_TAKEN || state == FC_PAGE_WRITING));
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
	FC_ASSERT(number < FC_RING_MAX);
	return number << FC_PAGE_SEQUENCE_BITS | (sequence & FC_PAGE_SEQUENCE_MASK);
}

static inline uint32_t
fc_ref_sequence(uint32_t ref)
{
	return ref & FC_PAGE_SEQUENCE_MASK;
}

/*
 * Masked, so that no content of an entry can name a page that does not exist.
 */
static inline uint32_t
fc_ref_number(const FcShared *shared, uint32_t ref)
{
	return (ref >> FC_PAGE_SEQUENCE_BITS) & (shared->ring_count - 1);
}

static inline FcStagedPage *
fc_staged_page(const FcShared *shared, uint32_t number)
{
	FC_ASSERT(number < shared->ring_count);
	return &FC_AT(shared, staged_offset, FcStagedPage)[number];
}

/* The page itself, aligned for direct I/O. */
static inline void *
fc_staged_bytes(const FcShared *shared, uint32_t number)
{
	FC_ASSERT(number < shared->ring_count);
	return FC_AT(shared, ring_offset, char) + (size_t) number * FC_BLOCK_SIZE;
}

/* Is the page with this word still in the use that the reference names? */
static inline bool
fc_page_is(uint64_t word, uint32_t ref)
{
	return FC_BROKEN(RING_SEQUENCE) ||
	       fc_page_sequence(word) == fc_ref_sequence(ref);
}

/* The number of pages for a cache of so many slots: a power of 2. */
extern uint32_t fc_staging_pages_for(uint64_t slot_count);

/* Take a free page; false if there is none. */
extern bool fc_staging_take(FcCache *cache, uint32_t *ref_out);

/* Copy a block into a page that the caller has taken. */
extern void fc_staging_put(FcCache *cache, uint32_t ref, uint64_t key,
                           uint32_t slot, const void *page, bool update);

/* The page's entry is published: hand the page to the writer. */
extern void fc_staging_hand_over(FcCache *cache, uint32_t ref);

/*
 * Give a page back.  Only for the process that took it and did not publish it,
 * or that took the entry naming it out of STAGED.  Does nothing to a page that
 * is being written, or that another process gave back before.
 */
extern void fc_staging_free(FcShared *shared, uint32_t ref);

/* The same for the writer: the page has been written, or never will be. */
extern void fc_staging_written(FcShared *shared, uint32_t ref);

/*
 * Pages in use, approximately; and whether so many that the writer must hurry.
 */
extern uint32_t fc_staging_used(const FcShared *shared);
extern bool fc_staging_crowded(const FcShared *shared);

/* Tell the writer to look at this page. */
extern void fc_staging_note(FcShared *shared, uint32_t number);

/* All processes are gone: empty the ring, whatever it held. */
extern void fc_staging_reset(FcShared *shared);

/* Make the map of pages in use agree with the page's word. */
extern void fc_staging_mend(FcShared *shared, uint32_t number);

/*
 * Copy a block out of the ring, from the page that the seen entry (STAGED or
 * WRITING) names.  If true, the entry must still be compared, as after a read
 * of a slot.  False: the page is no longer the one the entry meant; look the
 * block up again.
 */
extern FC_MUST_CHECK bool fc_staging_read(const FcCache *cache, uint64_t key,
                                          FcSeen *seen, void *page);

/* Wake the writer if it sleeps. */
extern void fc_staging_wake(FcShared *shared);

#endif
