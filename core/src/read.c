/*
 * read.c
 *		A read: from the look-up to the caller's buffer.
 *
 *	look up		note mode and generations, find the entry
 *	read		the slot, into a page of the process's own (reader.c); or, if
 *				the block is not there yet, the page of the staging ring
 *	judge		is the CRC32C right, and are the whole entry, the file's
 *				generation and the mode still the same?
 *	copy		only now, into the caller's buffer
 *
 * If all blocks of a run are found, they take these steps side by side: their
 * slots are read at once, and each is judged when it arrives.  Meanwhile the
 * processor fetches the memory that they will be copied to.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <string.h>

#include "cache_policy.h"
#include "devices.h"
#include "fcache/crc32c.h"
#include "file.h"
#include "geometry.h"
#include "health.h"
#include "read.h"
#include "reader.h"
#include "staging.h"

/*
 * How often a block is looked up again because it moves from the ring to flash.
 */
#define LOOKS_MAX 3

#define CACHE_LINE 64

/* More would push the processor's working data out of its own cache. */
#define FETCH_PAGES_MAX 32

/*
 * In a run, the memory of so many look-ups is fetched ahead.  One to eight are
 * equally good, more are worse.
 */
#define PREFETCH_BLOCKS 4

/* ---- look-ups ------------------------------------------------------------ */

void
fc_read_prefetch(const FcCache *cache, const FcFile *file, uint32_t first,
                 unsigned count)
{
	FC_ASSERT(count > 0);

	/* The number may be outdated; then this fetches in vain. */
	if (file->number == FC_FILE_NONE)
		return;
	if (count > PREFETCH_BLOCKS)
		count = PREFETCH_BLOCKS;
	for (unsigned i = 0; i < count; i++)
		fc_index_prefetch(cache->shared, fc_key(file->number, first + i));
}

static bool
may_serve(const FcCache *cache, const FcFile *file)
{
	return fc_mode(cache, NULL) == FC_SERVE && fc_file_current(cache, file) &&
	       fc_cache_policy_of_file(cache->shared, file->number) !=
	           FC_CACHE_POLICY_NONE;
}

/*
 * Note what must be unchanged when the block is served or filled; find its
 * entry.
 */
static bool
note_and_find(const FcShared *shared, const FcFile *file, uint32_t block,
              uint64_t mode_word, FcTicket *ticket, FcSeen *seen)
{
	uint64_t key = fc_key(file->number, block);

	FC_ASSERT(file->number != FC_FILE_NONE && block != FC_BLOCKS_ALL);
	ticket->mode_word = mode_word;
	ticket->file = file->number;
	ticket->block = block;
	ticket->file_generation = file->generation;
	ticket->set = fc_index_set_of(shared, key);
	ticket->set_generation =
		atomic_load(&fc_set(shared, ticket->set)->generation);
	FC_POINT("ticket-noted");

	return fc_index_find(shared, key, seen);
}

FcStatus
fc_read_look_up(FcCache *cache, const FcFile *file, uint32_t block,
                FcTicket *ticket, FcSeen *seen)
{
	FcShared *shared = cache->shared;
	uint64_t mode_word = atomic_load(&shared->mode_word);

	/* No file has this block, and the number after it would wrap around. */
	if (block == FC_BLOCKS_ALL)
		return FC_INVALID;
	if (fc_word_mode(mode_word) != FC_SERVE)
		return FC_OFF;
	if (!fc_file_current(cache, file))
		return FC_STALE;
	if (!FC_BROKEN(POLICY_NONE) &&
	    fc_cache_policy_of_file(shared, file->number) == FC_CACHE_POLICY_NONE)
	{
		fc_count(cache, FC_COUNT_bypass_reads, 1);
		return FC_OFF;
	}
	return note_and_find(shared, file, block, mode_word, ticket, seen)
	           ? FC_OK
	           : FC_MISS;
}

FcStatus
fc_read_ticket(FcCache *cache, const FcFile *file, uint32_t block,
               FcTicket *ticket)
{
	FcSeen seen;

	return fc_read_look_up(cache, file, block, ticket, &seen);
}

/* Has nothing changed since the look-up?  Then the page is valid. */
static bool
read_holds(FcCache *cache, const FcTicket *ticket, const FcSeen *seen)
{
	FcShared *shared = cache->shared;
	uint64_t key = fc_key(ticket->file, ticket->block);

	FC_ASSERT(ticket->file < shared->file_count);
	if (!FC_BROKEN(ENTRY_COMPARE) && !fc_index_holds(shared, key, seen))
		return false;
	if (!FC_BROKEN(REPLAY_FILE) &&
	    atomic_load(&fc_generations(shared)[ticket->file]) !=
	        ticket->file_generation)
		return false;
	return FC_BROKEN(MODE_CHECK) ||
	       atomic_load(&shared->mode_word) == ticket->mode_word;
}

static FcStatus
missed(FcCache *cache, const FcTicket *ticket)
{
	FC_ASSERT(ticket->file != FC_FILE_NONE);
	fc_count(cache, FC_COUNT_misses, 1);

	/* Relaxed: a counter, as in count.c. */
	atomic_fetch_add_explicit(&fc_files(cache->shared)[ticket->file].misses, 1,
	                          memory_order_relaxed);
	return FC_MISS;
}

/* The look-up of a run's block is next: fetch the memory of a later one. */
static inline void
prefetch_later(const FcCache *cache, const FcFile *file, uint32_t block,
               unsigned left)
{
	FC_ASSERT(left > 0);
	if (left > PREFETCH_BLOCKS)
		fc_read_prefetch(cache, file, block + PREFETCH_BLOCKS, 1);
}

/* ---- runs ---------------------------------------------------------------- */

/* The request, and the entries that were found. */
typedef struct Run
{
	FcCache *cache;
	const FcFile *file;
	void *const *page;
	FcTicket *ticket;
	FcStatus *status;
	unsigned hits;
	unsigned staged_hits;
	unsigned found;
	FcSeen seen[FC_RUN_BLOCKS_MAX];   /* entries whose slots must be read */
	uint8_t block[FC_RUN_BLOCKS_MAX]; /* ... and their index in the run */
} Run;

_Static_assert(FC_RUN_BLOCKS_MAX <= 256, "a byte names a block of a run");

static void
begin_run(Run *run, FcCache *cache, const FcFile *file, void *const page[],
          FcTicket ticket[], FcStatus status[])
{
	run->cache = cache;
	run->file = file;
	run->page = page;
	run->ticket = ticket;
	run->status = status;
	run->hits = run->staged_hits = 0;
	run->found = 0;
}

/* Are these the bytes that the entry stands for?  If not, drop the entry. */
static bool
checksum_right(FcCache *cache, uint64_t key, const FcSeen *seen,
               const void *page)
{
	FC_ASSERT(!fc_meta_staged(seen->meta));
	if (FC_BROKEN(CRC) || fc_crc32c_slot(key, page) == fc_meta_high(seen->meta))
		return true;

	/* Torn by a fill meanwhile, or really corrupt? */
	if (fc_index_drop(cache->shared, key, seen))
		fc_devices_slot_corrupt(cache, seen->slot);
	return false;
}

/* Note a hit; it is counted at the end of the run. */
static void
hit(Run *run, FcTicket *ticket, const FcSeen *seen)
{
	FC_ASSERT(fc_meta_serves(seen->meta));
	ticket->slot = seen->slot;
	ticket->meta = seen->meta;
	ticket->crc = seen->crc;
	fc_claim_touch(run->cache, seen);
	run->hits++;
	run->staged_hits += fc_meta_staged(seen->meta);
}

static void
count_hits(const Run *run)
{
	if (run->hits == 0)
		return;
	FC_ASSERT(run->staged_hits <= run->hits && run->hits <= FC_RUN_BLOCKS_MAX);
	fc_count(run->cache, FC_COUNT_hits, run->hits);
	fc_count(run->cache, FC_COUNT_staged_hits, run->staged_hits);

	/* Relaxed: a counter, as in count.c. */
	atomic_fetch_add_explicit(
		&fc_files(run->cache->shared)[run->file->number].hits, run->hits,
		memory_order_relaxed);
}

/* A slot of the run has been read, or could not be read. */
static void
judge(void *context, unsigned index, const void *page, bool failed)
{
	Run *run = context;
	FcCache *cache = run->cache;
	unsigned block = run->block[index];
	FcTicket *ticket = &run->ticket[block];
	const FcSeen *seen = &run->seen[index];
	uint64_t key = fc_key(ticket->file, ticket->block);

	FC_ASSERT(index < run->found && (page == NULL || !failed));
	FC_POINT("slot-read");
	/* A copy that cannot be read is useless; make room for a better one. */
	if (failed)
		(void) fc_index_drop(cache->shared, key, seen);
	if (page == NULL || !checksum_right(cache, key, seen, page) ||
	    !read_holds(cache, ticket, seen))
	{
		run->status[block] = missed(cache, ticket);
		return;
	}
	FC_POINT("slot-judged");
	if (page != run->page[block])
		memcpy(run->page[block], page, FC_BLOCK_SIZE);
	hit(run, ticket, seen);
	run->status[block] = FC_OK;
}

/*
 * Look up a block of the run, and if it is in the ring, read it there.  True if
 * its slot must be read; otherwise its status is known.
 */
static bool
find_block(Run *run, uint32_t block, unsigned i)
{
	FcCache *cache = run->cache;
	FcTicket *ticket = &run->ticket[i];
	FcSeen *seen = &run->seen[run->found];
	FcStatus *status = &run->status[i];

	FC_ASSERT(run->found < FC_RUN_BLOCKS_MAX);
	for (int look = 1;; look++)
	{
		*status = fc_read_look_up(cache, run->file, block, ticket, seen);
		if (*status == FC_OK && !fc_devices_slot_usable(cache, seen->slot))
		{
			fc_devices_slot_bypassed(cache, seen->slot);
			*status = FC_MISS;
		}
		if (*status == FC_MISS)
			missed(cache, ticket);
		if (*status != FC_OK)
			return false;
		if (!fc_meta_staged(seen->meta))
			return true;

		uint64_t key = fc_key(ticket->file, block);

		FC_POINT("entry-staged");
		if (fc_staging_read(cache, key, seen, run->page[i]))
			break;

		/*
		 * It was written to its slot, or dropped: look again.  If that happens
		 * too often, something is wrong with the entry.
		 */
		if (look == LOOKS_MAX)
		{
			(void) fc_index_drop(cache->shared, key, seen);
			*status = missed(cache, ticket);
			return false;
		}
	}
	FC_POINT("page-copied");
	if (read_holds(cache, ticket, seen))
		hit(run, ticket, seen);
	else
		*status = missed(cache, ticket);
	return false;
}

/*
 * The pages will be written, all at once, when the slots arrive.  Until then
 * the processor can fetch their memory, which the copy would otherwise wait
 * for.
 */
static void
fetch_pages(void *context)
{
	const Run *run = context;
	unsigned count =
		run->found < FETCH_PAGES_MAX ? run->found : FETCH_PAGES_MAX;

	for (unsigned i = 0; i < count; i++)
	{
		const char *page = run->page[run->block[i]];

		for (unsigned at = 0; at < FC_BLOCK_SIZE; at += CACHE_LINE)
			__builtin_prefetch(page + at, 1);
	}
}

/* Read those of the slots whose files are in memory. */
static void
copy_found(Run *run)
{
	unsigned left = 0;

	for (unsigned i = 0; i < run->found; i++)
	{
		void *page = run->page[run->block[i]];

		if (fc_reader_copy(run->cache, &run->seen[i], page))
		{
			judge(run, i, page, false);
			continue;
		}
		run->seen[left] = run->seen[i];
		run->block[left++] = run->block[i];
	}
	run->found = left;
}

/* Read the slots that were found. */
static void
read_found(Run *run)
{
	if (run->found > 0)
	{
		FC_POINT("entry-found");
		copy_found(run);
	}
	if (run->found > 0)
	{
		fc_reader_read(run->cache, run->seen, run->found, judge, fetch_pages,
		               run);
	}
	count_hits(run);
}

void
fc_read_blocks(FcCache *cache, const FcFile *file, uint32_t first,
               unsigned count, void *const page[], FcTicket ticket[],
               FcStatus status[])
{
	int saved_errno = errno;
	Run run;

	FC_ASSERT(count <= FC_RUN_BLOCKS_MAX);
	begin_run(&run, cache, file, page, ticket, status);
	for (unsigned i = 0; i < count; i++)
	{
		prefetch_later(cache, file, first + i, count - i);
		if (find_block(&run, first + i, i))
			run.block[run.found++] = (uint8_t) i;
	}
	read_found(&run);
	errno = saved_errno;
}

/* Find all blocks of a run; false if one of them is not cached. */
static bool
find_run(Run *run, uint32_t first, unsigned count)
{
	FcCache *cache = run->cache;
	uint64_t mode_word = atomic_load(&cache->shared->mode_word);
	uint8_t staged[FC_RUN_BLOCKS_MAX];
	unsigned staged_count = 0;

	FC_ASSERT(count <= FC_RUN_BLOCKS_MAX);
	if (!may_serve(cache, run->file))
		return false;
	for (unsigned i = 0; i < count; i++)
	{
		FcSeen *seen = &run->seen[run->found];

		prefetch_later(cache, run->file, first + i, count - i);
		if (!note_and_find(cache->shared, run->file, first + i, mode_word,
		                   &run->ticket[i], seen) ||
		    !fc_devices_slot_usable(cache, seen->slot))
			return false;
		if (fc_meta_staged(seen->meta))
			staged[staged_count++] = (uint8_t) i;
		else
			run->block[run->found++] = (uint8_t) i;
	}

	/*
	 * Only now that all blocks are found: this copies the staged ones.  Some
	 * may have been written to their slots meanwhile.
	 */
	for (unsigned i = 0; i < staged_count; i++)
	{
		if (find_block(run, first + staged[i], staged[i]))
			run->block[run->found++] = staged[i];
	}
	return true;
}

bool
fc_read_run(FcCache *cache, const FcFile *file, uint32_t first, unsigned count,
            void *const page[], FcTicket ticket[])
{
	int saved_errno = errno;
	FcStatus status[FC_RUN_BLOCKS_MAX];
	bool whole;
	Run run;

	FC_ASSERT(count <= FC_RUN_BLOCKS_MAX);
	begin_run(&run, cache, file, page, ticket, status);
	whole = find_run(&run, first, count);
	if (whole)
		read_found(&run);
	for (unsigned i = 0; whole && i < count; i++)
		whole = status[i] == FC_OK;
	errno = saved_errno;
	return whole;
}

FcStatus
fc_read(FcCache *cache, const FcFile *file, uint32_t block, void *page,
        FcTicket *ticket)
{
	FcStatus status;

	FC_ASSERT(page != NULL);
	fc_read_blocks(cache, file, block, 1, &page, ticket, &status);
	return status;
}

/* ---- after a hit --------------------------------------------------------- */

bool
fc_read_hit_holds(const FcCache *cache, const FcTicket *ticket)
{
	FcSeen seen = { .slot = ticket->slot,
		            .meta = ticket->meta,
		            .crc = ticket->crc };

	FC_ASSERT(ticket->file != FC_FILE_NONE && fc_meta_serves(ticket->meta));
	return fc_index_holds(cache->shared, fc_key(ticket->file, ticket->block),
	                      &seen) &&
	       atomic_load(&fc_generations(cache->shared)[ticket->file]) ==
	           ticket->file_generation;
}

void
fc_read_hit_drop(FcCache *cache, const FcTicket *ticket)
{
	FcSeen seen = { .slot = ticket->slot,
		            .meta = ticket->meta,
		            .crc = ticket->crc };

	FC_ASSERT(ticket->file != FC_FILE_NONE && fc_meta_serves(ticket->meta));
	(void) fc_index_drop(cache->shared, fc_key(ticket->file, ticket->block),
	                     &seen);
}

bool
fc_read_would_hit(const FcCache *cache, const FcFile *file, uint32_t block)
{
	FcSeen seen;

	return may_serve(cache, file) &&
	       fc_index_find(cache->shared, fc_key(file->number, block), &seen) &&
	       fc_devices_slot_usable(cache, seen.slot);
}

/* ---- before a read ------------------------------------------------------- */

uint32_t
fc_read_ahead(FcCache *cache, const FcFile *file, uint32_t first,
              unsigned count)
{
	int saved_errno = errno;
	FcSeen seen[FC_AHEAD_BLOCKS_MAX];
	uint32_t block[FC_AHEAD_BLOCKS_MAX];
	uint32_t end = first + count;
	unsigned found = 0;

	FC_ASSERT(count <= FC_AHEAD_BLOCKS_MAX);
	for (uint32_t i = first; i != end && may_serve(cache, file); i++)
	{
		prefetch_later(cache, file, i, end - i);

		/* A block in the ring is in memory already. */
		if (!fc_index_find(cache->shared, fc_key(file->number, i),
		                   &seen[found]) ||
		    fc_meta_staged(seen[found].meta) ||
		    !fc_devices_slot_usable(cache, seen[found].slot))
			continue;
		block[found++] = i;
	}
	if (found > 0)
	{
		unsigned begun = fc_reader_ahead(cache, seen, found);

		if (begun < found)
			end = block[begun];
	}
	errno = saved_errno;
	return end;
}

/* Find the block's entry, if it may be served and its slot must be read. */
static bool
find_on_flash(const FcCache *cache, const FcFile *file, uint32_t block,
              FcSeen *seen)
{
	FC_ASSERT(block != FC_BLOCKS_ALL);
	return may_serve(cache, file) &&
	       fc_index_find(cache->shared, fc_key(file->number, block), seen) &&
	       !fc_meta_staged(seen->meta) &&
	       fc_devices_slot_usable(cache, seen->slot);
}

bool
fc_read_begin(FcCache *cache, const FcFile *file, uint32_t block)
{
	int saved_errno = errno;
	FcSeen seen;
	bool begun = find_on_flash(cache, file, block, &seen) &&
	             fc_reader_ahead(cache, &seen, 1) == 1 &&
	             fc_reader_under_way(cache, &seen);

	errno = saved_errno;
	return begun;
}

bool
fc_read_under_way(FcCache *cache, const FcFile *file, uint32_t block)
{
	int saved_errno = errno;
	FcSeen seen;
	bool under_way = find_on_flash(cache, file, block, &seen) &&
	                 fc_reader_under_way(cache, &seen);

	errno = saved_errno;
	return under_way;
}

/* ---- all slots, one by one ----------------------------------------------- */

/*
 * The block of a slot, noted in the ticket and in seen; FC_MISS: it has none,
 * or that changed meanwhile.
 */
static FcStatus
find_in_slot(const FcCache *cache, FcSeen *seen, FcFileInfo *info,
             FcTicket *ticket)
{
	FcShared *shared = cache->shared;
	FcSet *set = fc_set(shared, seen->slot / FC_WAYS);

	FC_ASSERT(seen->slot / FC_WAYS < shared->set_count);
	ticket->mode_word = atomic_load(&shared->mode_word);
	if (fc_word_mode(ticket->mode_word) == FC_OFFLINE)
		return FC_OFF;

	seen->meta = atomic_load(&set->meta[seen->slot % FC_WAYS]);
	if (!fc_meta_serves(seen->meta))
		return FC_MISS;

	uint64_t key = atomic_load(&set->key[seen->slot % FC_WAYS]);

	/* The key is this entry's only if the meta is unchanged. */
	if (!fc_index_holds(shared, key, seen))
		return FC_MISS;

	ticket->file = fc_key_file(key);
	ticket->block = (uint32_t) key;

	/* Before the audit a key may be anything. */
	if (ticket->file >= shared->file_count)
		return FC_MISS;
	ticket->slot = seen->slot;
	ticket->meta = seen->meta;
	ticket->set_generation = atomic_load(&set->generation);
	ticket->file_generation =
		atomic_load(&fc_generations(shared)[ticket->file]);
	return fc_file_info(cache, ticket->file, info) ? FC_OK : FC_MISS;
}

bool
fc_read_slot_block(const FcCache *cache, uint32_t slot, FcFileId *id_out,
                   uint32_t *block_out)
{
	FcSeen seen = { .slot = slot };
	FcFileInfo info;
	FcTicket ticket;

	if (find_in_slot(cache, &seen, &info, &ticket) != FC_OK)
		return false;
	*id_out = info.id;
	*block_out = ticket.block;
	return true;
}

FcStatus
fc_read_slot(FcCache *cache, uint32_t slot, void *page, FcFileId *id_out,
             FcTicket *ticket)
{
	FcSeen seen = { .slot = slot };
	FcFileInfo info;
	int saved_errno = errno;
	FcStatus status = find_in_slot(cache, &seen, &info, ticket);

	if (status != FC_OK)
		return status;
	*id_out = info.id;

	uint64_t key = fc_key(ticket->file, ticket->block);
	bool read = fc_meta_staged(seen.meta)
	                ? fc_staging_read(cache, key, &seen, page)
	                : fc_reader_slot(cache, &seen, page);

	ticket->crc = seen.crc;
	errno = saved_errno;
	if (!read || !read_holds(cache, ticket, &seen) ||
	    (!fc_meta_staged(seen.meta) &&
	     !checksum_right(cache, key, &seen, page)))
		return FC_MISS;
	return FC_OK;
}

void
fc_read_disk_done(FcCache *cache, const FcFile *file, uint32_t blocks,
                  uint64_t bytes, uint64_t ns)
{
	fc_count(cache, FC_COUNT_disk_reads, blocks > 0 ? 1 : 0);
	fc_count(cache, FC_COUNT_disk_read_bytes, bytes);
	if (ns == 0)
		return;
	fc_count_time(cache, FC_TIME_DISK_READ, ns);
	fc_health_disk_read(cache, ns);

	/*
	 * Relaxed: a counter.  If the number is given to another file meanwhile,
	 * this read is added to that file's time.
	 */
	if (fc_file_current(cache, file))
		atomic_fetch_add_explicit(
			&fc_files(cache->shared)[file->number].disk_read_ns, ns,
			memory_order_relaxed);
}
