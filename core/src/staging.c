/*
 * staging.c
 *		The staging ring: pages of shared memory between a fill and the flash.
 *
 * No process that reads or writes a relation waits for a flash write.  A fill
 * copies its block into a page of the ring and publishes the entry as STAGED,
 * with a reference to the page; the writer (writer.c) writes it to flash later.
 * Until then the page serves readers.
 *
 *	page	FREE -take-> TAKEN -hand over-> STAGED -writer-> WRITING -> FREE
 *	entry	     claim: FILLING -publish-> STAGED -writer-> WRITING -> VALID
 *
 * A page lives as long as an entry names it.  A process that takes an entry out
 * of STAGED (by a change or an eviction) gives the page back.  While the page
 * is in WRITING, it belongs to the device, and only the writer gives it back.
 * Taking a page advances its sequence, which is part of every reference.  So a
 * reference to an earlier use is recognized, and giving a page back twice frees
 * it once.
 *
 * A reader copies the page out and trusts the copy only if the page was not
 * taken again meanwhile, the CRC32C is right, and the entry is unchanged.
 *
 * Two bitmaps say where to look: one for the pages in use, one for pages that
 * may have something for the writer.  They are hints; the pages' words are the
 * truth.  A process killed between updating the two leaves a wrong hint, which
 * the writer's tidying corrects; the tidying also gives back what dead fillers
 * had taken.
 *
 * Locking: none.  Taking a page and giving it back are each one
 * compare-and-swap of its word.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "fcache/crc32c.h"
#include "staging.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "read.h"

/* One page for so many slots: two bytes of memory per slot. */
#define SLOTS_PER_PAGE 4096
#define PAGES_MIN      32

uint32_t
fc_staging_pages_for(uint64_t slot_count)
{
	uint32_t pages = PAGES_MIN;

	while (pages < FC_RING_MAX &&
	       (uint64_t) pages * 2 * SLOTS_PER_PAGE <= slot_count)
		pages *= 2;
	FC_ASSERT(pages <= FC_RING_MAX && (pages & (pages - 1)) == 0);
	return pages;
}

/* ---- the maps ------------------------------------------------------------ */

static uint32_t
words_of(const FcShared *shared)
{
	return (shared->ring_count + 63) / 64;
}

/* Bits of the map's word that stand for pages. */
static uint64_t
pages_in_word(const FcShared *shared, uint32_t word)
{
	uint32_t left = shared->ring_count - word * 64;

	FC_ASSERT(word * 64 < shared->ring_count);
	return left >= 64 ? UINT64_MAX : (1ULL << left) - 1;
}

uint32_t
fc_staging_used(const FcShared *shared)
{
	uint32_t used = 0;

	/* Relaxed: a hint; only the time of a write depends on it. */
	for (uint32_t i = 0; i < words_of(shared); i++)
		used += (uint32_t) __builtin_popcountll(
			atomic_load_explicit(&shared->ring_busy[i], memory_order_relaxed));
	return used;
}

bool
fc_staging_crowded(const FcShared *shared)
{
	FC_ASSERT(shared->ring_count > 0);
	return fc_staging_used(shared) >= shared->ring_count / 2;
}

void
fc_staging_note(FcShared *shared, uint32_t number)
{
	FC_ASSERT(number < shared->ring_count);
	atomic_fetch_or(&shared->ring_staged[number / 64], 1ULL << (number % 64));
}

/* ---- taking and releasing ----------------------------------------------- */

/*
 * Take a page that the map called free and that no other process is trying for.
 */
static bool
take_page(FcCache *cache, uint32_t number, uint32_t *ref_out)
{
	FcStagedPage *page = fc_staged_page(cache->shared, number);
	uint64_t word = atomic_load(&page->word);
	uint32_t sequence = fc_page_sequence(word) + 1;

	FC_ASSERT(cache->token != 0);
	if (fc_page_state(word) != FC_PAGE_FREE ||
	    !atomic_compare_exchange_strong(
			&page->word, &word,
			fc_page_word(FC_PAGE_TAKEN, sequence, cache->token)))
		return false;

	/* A process that sees a byte we write also sees the new sequence. */
	atomic_thread_fence(memory_order_seq_cst);
	*ref_out = fc_page_ref(number, sequence);
	return true;
}

bool
fc_staging_take(FcCache *cache, uint32_t *ref_out)
{
	FcShared *shared = cache->shared;
	uint32_t words = words_of(shared);

	for (uint32_t i = 0; i < words; i++)
	{
		uint32_t word = (cache->process + i) % words;
		FcAtomic64 *busy = &shared->ring_busy[word];
		uint64_t pages = pages_in_word(shared, word);
		uint64_t seen = atomic_load(busy);

		while ((~seen & pages) != 0)
		{
			unsigned bit = (unsigned) __builtin_ctzll(~seen & pages);

			seen = atomic_fetch_or(busy, 1ULL << bit);
			if ((seen & (1ULL << bit)) == 0)
			{
				FC_POINT("page-found");
				if (take_page(cache, word * 64 + bit, ref_out))
					return true;
			}
			seen |= 1ULL << bit;
		}
	}
	return false;
}

/* Free the page if it is still in the state seen. */
static bool
give_back(FcShared *shared, uint32_t ref, uint64_t seen)
{
	uint32_t number = fc_ref_number(shared, ref);
	FcStagedPage *page = fc_staged_page(shared, number);

	FC_ASSERT(fc_page_state(seen) != FC_PAGE_FREE);
	if (!atomic_compare_exchange_strong(
			&page->word, &seen,
			fc_page_word(FC_PAGE_FREE, fc_page_sequence(seen), 0)))
		return false;
	FC_POINT("page-freed");
	atomic_fetch_and(&shared->ring_busy[number / 64], ~(1ULL << (number % 64)));
	return true;
}

void
fc_staging_free(FcShared *shared, uint32_t ref)
{
	FcStagedPage *page = fc_staged_page(shared, fc_ref_number(shared, ref));
	uint64_t word = atomic_load(&page->word);

	/* The filler may hand the page over while we look; then look again. */
	while (fc_page_is(word, ref) && (fc_page_state(word) == FC_PAGE_TAKEN ||
	                                 fc_page_state(word) == FC_PAGE_STAGED))
	{
		if (give_back(shared, ref, word))
			return;
		word = atomic_load(&page->word);
	}
}

void
fc_staging_reset(FcShared *shared)
{
	/*
	 * The sequences go on, so that entries naming an earlier use are
	 * recognized.
	 */
	for (uint32_t number = 0; number < shared->ring_count; number++)
	{
		FcStagedPage *page = fc_staged_page(shared, number);
		FcAtomic64 *word = &page->word;

		/*
		 * Any slot that exists: the page of a dead filler is asked for its
		 * slot.
		 */
		atomic_store(&page->slot, 0);
		atomic_store(word,
		             fc_page_word(FC_PAGE_FREE,
		                          fc_page_sequence(atomic_load(word)) + 1, 0));
	}
	for (uint32_t i = 0; i < FC_RING_MAX / 64; i++)
	{
		atomic_store(&shared->ring_busy[i], 0);
		atomic_store(&shared->ring_staged[i], 0);
	}
	atomic_store(&shared->ring_writer, 0);
	atomic_store(&shared->ring_rest, FC_WRITER_AWAKE);
	atomic_store(&shared->ring_stood_in_us, 0);
}

/*
 * Correct the map after a process was killed between updating word and map.  A
 * process that is taking the page just now finds it in use with a clear bit,
 * and sets the bit.
 */
void
fc_staging_mend(FcShared *shared, uint32_t number)
{
	FcPageState state =
		fc_page_state(atomic_load(&fc_staged_page(shared, number)->word));

	if (state == FC_PAGE_FREE)
		atomic_fetch_and(&shared->ring_busy[number / 64],
		                 ~(1ULL << (number % 64)));
	else if (state == FC_PAGE_STAGED)
		fc_staging_note(shared, number);
}

void
fc_staging_written(FcShared *shared, uint32_t ref)
{
	FcStagedPage *page = fc_staged_page(shared, fc_ref_number(shared, ref));
	uint64_t word = atomic_load(&page->word);

	if (fc_page_is(word, ref) && fc_page_state(word) == FC_PAGE_WRITING)
		(void) give_back(shared, ref, word);
}

/* ---- filling ------------------------------------------------------------- */

void
fc_staging_put(FcCache *cache, uint32_t ref, uint64_t key, uint32_t slot,
               const void *page, bool update)
{
	FcShared *shared = cache->shared;
	uint32_t number = fc_ref_number(shared, ref);
	FcStagedPage *head = fc_staged_page(shared, number);
	void *copy = fc_staged_bytes(shared, number);

	FC_ASSERT(slot / FC_WAYS < shared->set_count);
	FC_ASSERT(fc_key_file(key) != FC_FILE_NONE);

	/* The caller's page may change while we look at it; the copy cannot. */
	memcpy(copy, page, FC_BLOCK_SIZE);

	/* Relaxed: the swap that publishes the entry releases all of it. */
	atomic_store_explicit(&head->crc, fc_crc32c_slot(key, copy),
	                      memory_order_relaxed);
	atomic_store_explicit(&head->slot, slot, memory_order_relaxed);
	atomic_store_explicit(&head->update, update, memory_order_relaxed);
	atomic_store_explicit(&head->staged_ns, fc_clock_ns(),
	                      memory_order_relaxed);
}

void
fc_staging_hand_over(FcCache *cache, uint32_t ref)
{
	FcShared *shared = cache->shared;
	uint32_t number = fc_ref_number(shared, ref);
	FcStagedPage *page = fc_staged_page(shared, number);
	uint64_t taken =
		fc_page_word(FC_PAGE_TAKEN, fc_ref_sequence(ref), cache->token);
	/* Relaxed: this process has stored it. */
	bool update = atomic_load_explicit(&page->update, memory_order_relaxed);

	FC_ASSERT(cache->token != 0);

	/*
	 * This fails if the block has already changed and the page was given back.
	 */
	if (!atomic_compare_exchange_strong(
			&page->word, &taken,
			fc_page_word(FC_PAGE_STAGED, fc_ref_sequence(ref), 0)))
		return;
	FC_POINT("handed-over");
	fc_staging_note(shared, number);

	/*
	 * Unless the ring is crowded, do not wake the writer: a dozing one will
	 * look on its own soon enough, and an update had better wait.
	 */
	uint32_t rest = atomic_load(&shared->ring_rest);

	if (rest != FC_WRITER_AWAKE &&
	    ((rest == FC_WRITER_SLEEPS && !update) || fc_staging_crowded(shared)))
		fc_staging_wake(shared);
}

void
fc_staging_wake(FcShared *shared)
{
	int saved_errno = errno;

	if (atomic_exchange(&shared->ring_rest, FC_WRITER_AWAKE) != FC_WRITER_AWAKE)
		syscall(SYS_futex, &shared->ring_rest, FUTEX_WAKE, INT_MAX, NULL, NULL,
		        0);
	errno = saved_errno;
}

/* ---- reading ------------------------------------------------------------- */

bool
fc_staging_read(const FcCache *cache, uint64_t key, FcSeen *seen, void *page)
{
	const FcShared *shared = cache->shared;
	uint32_t ref = fc_meta_high(seen->meta);
	FcStagedPage *head = fc_staged_page(shared, fc_ref_number(shared, ref));

	FC_ASSERT(fc_meta_staged(seen->meta));
	if (!fc_page_is(atomic_load(&head->word), ref))
		return false;
	FC_POINT("page-seen");
	memcpy(page, fc_staged_bytes(shared, fc_ref_number(shared, ref)),
	       FC_BLOCK_SIZE);

	/*
	 * Relaxed, like the plain loads of the bytes: the load of the page's word
	 * keeps them after itself, the fence keeps them before the next one.  With
	 * the fence in take_page(), a process that sees a byte of the next use sees
	 * its sequence.
	 */
	seen->crc = atomic_load_explicit(&head->crc, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return fc_page_is(atomic_load(&head->word), ref) &&
	       (FC_BROKEN(CRC) || fc_crc32c_slot(key, page) == seen->crc);
}
