/*
 * flights.c
 *		Pages on their way from the staging ring to their slots, for the writer.
 *
 * Pages are picked oldest first.  The entry changes from STAGED to WRITING,
 * then the page does.  When the device has written the page, the entry becomes
 * VALID, or EMPTY if the block changed meanwhile or the write failed; then the
 * page is free.
 *
 * From the first step to the last no other process takes the slot or the page,
 * because the device may write the slot and read the page at any moment.
 *
 * Several devices: a device that hangs must not hold all pages and all flights,
 * or nothing would reach the others.  So each has its share of flights.  A
 * device that does not complete a write within LATE_NS gets no more until it
 * does, and pages staged for it are dropped.
 *
 * Updates wait for LINGER_NS unless the ring is crowded, so that a block that
 * is changed again and again is written to flash once (coalesced_updates).
 *
 * Crash.  The kernel does not end a process before its transfers are over, so
 * those of a process that is gone are done.  The next writer goes through the
 * ring: it writes again what was being written, and empties entries that were
 * doomed.  (If a dead process's transfer were late after all, the checksums in
 * the entries would reveal it.)
 *
 * Locking: none here.  shared->ring_writer has the token of one process at a
 * time, and only that process uses this file (writer.c, stand_in.c).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "flights.h"

#include <time.h>

#include "devices.h"
#include "file.h"
#include "health.h"
#include "process.h"
#include "staging.h"

/* How long an update may wait for the next update of its block. */
#define LINGER_NS 4000000000ULL

/* A write that takes longer than this means that its device hangs. */
#define LATE_NS 1000000000ULL

/* ---- the queue ----------------------------------------------------------- */

/* Devices that are not files need no kernel queue: a plain one will do. */
void
fc_flights_open(FcWriter *writer, FcCache *cache)
{
	FC_ASSERT(writer->flying == 0);
	writer->cache = cache;
	writer->queue.depth = FC_QUEUE_DEPTH_WRITER;
	for (uint32_t i = 0; i < cache->shared->device_count; i++)
	{
		if (cache->devices[i].fd < 0)
			continue;
		fc_queue_open(&writer->queue, FC_QUEUE_DEPTH_WRITER);
		return;
	}
}

/* ---- the entry of a page ------------------------------------------------- */

static FcAtomic64 *
meta_of(const FcShared *shared, uint32_t slot)
{
	return &fc_set(shared, slot / FC_WAYS)->meta[slot % FC_WAYS];
}

static uint64_t
key_of(const FcShared *shared, uint32_t slot)
{
	return atomic_load(&fc_set(shared, slot / FC_WAYS)->key[slot % FC_WAYS]);
}

/* Is the entry in this state, and does it name this page? */
static bool
meta_is(uint64_t meta, FcState state, uint32_t ref)
{
	return fc_meta_state(meta) == state && fc_meta_high(meta) == ref;
}

static bool
entry_moves(const FcShared *shared, uint32_t slot, uint32_t ref, FcState from,
            FcState to, uint32_t high)
{
	FcAtomic64 *meta = meta_of(shared, slot);
	uint64_t seen = atomic_load(meta);

	FC_ASSERT(fc_meta_staged(from) || from == FC_WRITING_DOOMED);
	return meta_is(seen, from, ref) &&
	       atomic_compare_exchange_strong(meta, &seen,
	                                      to == FC_EMPTY
	                                          ? fc_meta_next(seen, FC_EMPTY, 0)
	                                          : fc_meta_as(seen, to, high));
}

/* After a write: true if the entry now says that the slot holds the block. */
static bool
settle_entry(FcShared *shared, uint32_t slot, uint32_t ref, uint32_t crc,
             bool written)
{
	uint64_t key = key_of(shared, slot);

	if (written && entry_moves(shared, slot, ref, FC_WRITING, FC_VALID, crc))
		return true;
	if (!written && entry_moves(shared, slot, ref, FC_WRITING, FC_EMPTY, 0))
		fc_chunk_leave(shared, fc_key_file(key), (uint32_t) key);

	/*
	 * The block changed meanwhile; the process that doomed the entry counted it
	 * out.
	 */
	(void) entry_moves(shared, slot, ref, FC_WRITING_DOOMED, FC_EMPTY, 0);
	return false;
}

/* ---- what dead processes have left --------------------------------------- */

/* A page of a dead filler: keep it if its entry was published, else free it. */
static void
rescue_taken(FcShared *shared, uint32_t number, uint64_t word)
{
	FcStagedPage *page = fc_staged_page(shared, number);
	uint32_t ref = fc_page_ref(number, fc_page_sequence(word));
	uint32_t slot = atomic_load(&page->slot);
	bool published =
		meta_is(atomic_load(meta_of(shared, slot)), FC_STAGED, ref);

	FC_ASSERT(fc_page_state(word) == FC_PAGE_TAKEN);
	if (atomic_compare_exchange_strong(
			&page->word, &word,
			fc_page_word(published ? FC_PAGE_STAGED : FC_PAGE_FREE,
	                     fc_page_sequence(word), 0)))
		fc_staging_mend(shared, number);
}

/* A page that a dead writer was about to write, was writing, or had written. */
static void
take_up(FcShared *shared, uint32_t number, uint64_t word)
{
	FcStagedPage *page = fc_staged_page(shared, number);
	uint32_t ref = fc_page_ref(number, fc_page_sequence(word));
	uint32_t slot = atomic_load(&page->slot);

	FC_ASSERT(fc_page_state(word) == FC_PAGE_STAGED ||
	          fc_page_state(word) == FC_PAGE_WRITING);

	/* Empty a doomed entry.  Otherwise start again from the beginning. */
	(void) entry_moves(shared, slot, ref, FC_WRITING_DOOMED, FC_EMPTY, 0);
	(void) entry_moves(shared, slot, ref, FC_WRITING, FC_STAGED, ref);
	FC_POINT("entry-taken-up");

	/*
	 * If the entry no longer names the page, picking the page will show that.
	 */
	if (fc_page_state(word) == FC_PAGE_WRITING)
		atomic_store(&page->word,
		             fc_page_word(FC_PAGE_STAGED, fc_page_sequence(word), 0));
	fc_staging_note(shared, number);
}

void
fc_flights_take_up(FcShared *shared)
{
	for (uint32_t number = 0; number < shared->ring_count; number++)
	{
		uint64_t word = atomic_load(&fc_staged_page(shared, number)->word);

		if (fc_page_state(word) == FC_PAGE_STAGED ||
		    fc_page_state(word) == FC_PAGE_WRITING)
			take_up(shared, number, word);
	}
}

void
fc_flights_tidy(FcWriter *writer)
{
	FcShared *shared = writer->cache->shared;

	for (uint32_t number = 0; number < shared->ring_count; number++)
	{
		uint64_t word = atomic_load(&fc_staged_page(shared, number)->word);

		if (fc_page_state(word) == FC_PAGE_TAKEN &&
		    fc_process_gone(writer->cache, fc_page_owner(word)))
			rescue_taken(shared, number, word);
		else
			fc_staging_mend(shared, number);
	}
	writer->tidied_ns = fc_clock_ns();
}

/* ---- several devices ----------------------------------------------------- */

static unsigned
depth_of(const FcWriter *writer)
{
	return writer->queue.depth < FC_QUEUE_DEPTH_WRITER ? writer->queue.depth
	                                                   : FC_QUEUE_DEPTH_WRITER;
}

/* How many pages may be under way to one device? */
static unsigned
share_of_device(const FcWriter *writer)
{
	const FcShared *shared = writer->cache->shared;
	unsigned depth = depth_of(writer);
	unsigned pages = shared->ring_count < depth ? shared->ring_count : depth;
	unsigned share = pages / shared->device_count;

	FC_ASSERT(depth > 0 && shared->device_count > 0);
	if (shared->device_count == 1 || FC_BROKEN(WRITE_SHARE))
		return depth;
	return share > 0 ? share : 1;
}

static void
note_late(FcShared *shared, uint32_t device, bool late)
{
	FcAtomic32 *noted = &shared->health[device].writes_late;

	FC_ASSERT(device < shared->device_count);

	/* A single device has no others to make room for. */
	if (shared->device_count > 1 && !FC_BROKEN(WRITE_LATE) &&
	    atomic_load(noted) != late)
		atomic_store(noted, late);
}

/* Find what is under way to each device, and since when. */
static void
look_at_devices(FcWriter *writer)
{
	FcShared *shared = writer->cache->shared;
	uint64_t now = fc_clock_ns();
	bool late[FC_DEVICES_MAX] = { false };

	for (uint32_t i = 0; i < shared->device_count; i++)
		writer->room[i] = share_of_device(writer);
	for (unsigned i = 0; i < FC_QUEUE_DEPTH_WRITER && writer->flying > 0; i++)
	{
		const FcFlight *flight = &writer->flight[i];

		if (!flight->used)
			continue;

		uint32_t device = fc_devices_number_of_slot(shared, flight->slot);

		if (writer->room[device] > 0)
			writer->room[device]--;
		late[device] |= now - flight->start_ns > LATE_NS;
	}
	for (uint32_t i = 0; i < shared->device_count; i++)
		note_late(shared, i, late[i]);
}

/* ---- picking ------------------------------------------------------------- */

typedef struct Pick
{
	uint32_t number;
	uint64_t staged_ns;
} Pick;

/*
 * Insert a pick, the oldest first; if there are too many, the youngest is
 * dropped.
 */
static unsigned
insert(Pick *picks, unsigned count, unsigned max, Pick new)
{
	unsigned at = count < max ? count : max;

	FC_ASSERT(max > 0 && count <= max);
	while (at > 0 && picks[at - 1].staged_ns > new.staged_ns)
	{
		if (at < max)
			picks[at] = picks[at - 1];
		at--;
	}
	if (at < max)
		picks[at] = new;
	return count < max ? count + 1 : max;
}

/* Is this page due to be written?  Pages that are not staged lose their bit. */
static bool
is_due(FcShared *shared, uint32_t number, uint64_t now, bool linger)
{
	FcStagedPage *page = fc_staged_page(shared, number);
	uint64_t bit = 1ULL << (number % 64);

	if (fc_page_state(atomic_load(&page->word)) != FC_PAGE_STAGED)
	{
		/*
		 * Clear the bit first: if a process stages the page now, either it sets
		 * the bit again or we see the page.
		 */
		atomic_fetch_and(&shared->ring_staged[number / 64], ~bit);
		if (fc_page_state(atomic_load(&page->word)) != FC_PAGE_STAGED)
			return false;
		fc_staging_note(shared, number);
	}
	return !linger || atomic_load(&page->update) == 0 ||
	       now >= atomic_load(&page->staged_ns) + LINGER_NS;
}

/* Has its device room for it, or must it be dropped? */
static bool
may_go(const FcShared *shared, uint32_t number, const unsigned room[])
{
	uint32_t slot = atomic_load(&fc_staged_page(shared, number)->slot);
	uint32_t device = fc_devices_number_of_slot(shared, slot);

	return room == NULL || room[device] > 0 || !fc_health_takes(shared, device);
}

/* room: pages for each device; NULL: any number. */
static unsigned
find_due(FcShared *shared, bool linger, const unsigned room[], Pick *picks,
         unsigned max)
{
	uint64_t now = fc_clock_ns();
	unsigned count = 0;

	for (uint32_t i = 0; i < shared->ring_count; i += 64)
	{
		uint64_t bits = atomic_load(&shared->ring_staged[i / 64]);

		for (; bits != 0; bits &= bits - 1)
		{
			Pick pick = { .number = i + (uint32_t) __builtin_ctzll(bits) };

			if (!is_due(shared, pick.number, now, linger) ||
			    !may_go(shared, pick.number, room))
				continue;
			pick.staged_ns =
				atomic_load(&fc_staged_page(shared, pick.number)->staged_ns);
			count = insert(picks, count, max, pick);
		}
	}
	return count;
}

bool
fc_flights_due(FcShared *shared)
{
	Pick pick;

	return find_due(shared, !fc_staging_crowded(shared), NULL, &pick, 1) > 0;
}

static FcFlight *
free_flight(FcWriter *writer)
{
	for (unsigned i = 0; i < FC_QUEUE_DEPTH_WRITER; i++)
	{
		if (!writer->flight[i].used)
			return &writer->flight[i];
	}
	return NULL;
}

/*
 * Drop a page whose device went out of use, or became late, after it was
 * staged.
 */
static void
drop_staged(FcCache *cache, uint32_t ref, uint32_t slot)
{
	FcShared *shared = cache->shared;
	uint64_t key = key_of(shared, slot);

	FC_ASSERT(fc_key_file(key) < shared->file_count);
	if (entry_moves(shared, slot, ref, FC_STAGED, FC_EMPTY, 0))
	{
		fc_chunk_leave(shared, fc_key_file(key), (uint32_t) key);
		fc_count(cache, FC_COUNT_insert_skip_device, 1);
	}
	fc_staging_free(shared, ref);
}

/*
 * Take over entry and page for the writer; false if the block is no longer
 * wanted.
 */
static bool
take_off(FcWriter *writer, uint32_t number)
{
	FcCache *cache = writer->cache;
	FcShared *shared = cache->shared;
	FcStagedPage *page = fc_staged_page(shared, number);
	uint64_t word = atomic_load(&page->word);
	uint32_t sequence = fc_page_sequence(word);
	uint32_t ref = fc_page_ref(number, sequence);
	uint32_t slot = atomic_load(&page->slot);

	if (fc_page_state(word) != FC_PAGE_STAGED)
		return false;
	FC_POINT("page-picked");
	if (!fc_devices_take_set(cache, slot / FC_WAYS))
	{
		drop_staged(cache, ref, slot);
		return false;
	}
	if (writer->room[fc_devices_number_of_slot(shared, slot)] == 0)
		return false;
	if (!entry_moves(shared, slot, ref, FC_STAGED, FC_WRITING, ref))
	{
		/*
		 * The process that took the entry away may have died before it freed
		 * the page.
		 */
		fc_staging_free(shared, ref);
		return false;
	}
	FC_POINT("entry-writing");
	if (!atomic_compare_exchange_strong(
			&page->word, &word,
			fc_page_word(FC_PAGE_WRITING, sequence, cache->token)))
	{
		/* This cannot happen if pages are given back correctly. */
		(void) settle_entry(shared, slot, ref, 0, false);
		return false;
	}
	FC_POINT("page-writing");

	FcFlight *flight = free_flight(writer);

	FC_ASSERT(flight != NULL && writer->waiting_count < FC_QUEUE_DEPTH_WRITER);
	*flight = (FcFlight){ .key = key_of(shared, slot),
		                  .ref = ref,
		                  .slot = slot,
		                  .crc = atomic_load(&page->crc),
		                  .used = true };
	flight->transfer = (FcTransfer){ .write = true,
		                             .page = fc_staged_bytes(shared, number),
		                             .tag = flight };
	fc_devices_place_of_slot(cache, slot, &flight->transfer.device,
	                         &flight->transfer.offset);
	writer->waiting[writer->waiting_count++] = &flight->transfer;
	writer->room[fc_devices_number_of_slot(shared, slot)]--;
	writer->flying++;
	return true;
}

/* Hand to the queue what it accepts; the rest stays for the next round. */
void
fc_flights_submit(FcWriter *writer)
{
	uint64_t now = fc_clock_ns();
	unsigned taken;

	FC_ASSERT(writer->waiting_count <= writer->flying);
	if (writer->waiting_count == 0)
		return;
	for (unsigned i = 0; i < writer->waiting_count; i++)
	{
		FcFlight *flight = writer->waiting[i]->tag;

		flight->start_ns = now;
		if (FC_BROKEN(PAGE_PIN))
			fc_staging_written(writer->cache->shared, flight->ref);
	}
	taken =
		fc_queue_submit(&writer->queue, writer->waiting, writer->waiting_count);
	writer->waiting_count -= taken;
	for (unsigned i = 0; i < writer->waiting_count; i++)
		writer->waiting[i] = writer->waiting[i + taken];
	FC_POINT("submitted");
}

void
fc_flights_begin(FcWriter *writer, bool linger)
{
	Pick picks[FC_QUEUE_DEPTH_WRITER];
	FcShared *shared = writer->cache->shared;
	unsigned depth = depth_of(writer);
	unsigned count;

	FC_ASSERT(writer->flying <= FC_QUEUE_DEPTH_WRITER);

	/* While offline, nothing is touched. */
	if (fc_mode(writer->cache, NULL) == FC_OFFLINE)
		return;
	look_at_devices(writer);
	if (writer->flying < depth)
	{
		count = find_due(shared, linger && !fc_staging_crowded(shared),
		                 writer->room, picks, depth - writer->flying);
		for (unsigned i = 0; i < count; i++)
			(void) take_off(writer, picks[i].number);
		writer->worked |= count > 0;
	}
	fc_flights_submit(writer);
}

/* ---- finishing ----------------------------------------------------------- */

static void
land(FcWriter *writer, FcFlight *flight)
{
	FcCache *cache = writer->cache;
	bool written = flight->transfer.result == FC_BLOCK_SIZE;

	FC_ASSERT(flight->used && writer->flying > 0);
	fc_devices_write_done(cache, flight->transfer.device,
	                      fc_clock_ns() - flight->start_ns,
	                      fc_devices_outcome(flight->transfer.result));
	if (!written)
		fc_count(cache, FC_COUNT_insert_skip_corrupt, 1);
	FC_POINT("written");
	(void) settle_entry(cache->shared, flight->slot, flight->ref, flight->crc,
	                    written);
	FC_POINT("entry-settled");
	fc_staging_written(cache->shared, flight->ref);
	flight->used = false;
	writer->flying--;
}

/* Wait up to timeout_ns until min are written; settle all that are. */
void
fc_flights_finish(FcWriter *writer, unsigned min, uint64_t timeout_ns)
{
	FcTransfer *done[FC_QUEUE_DEPTH_WRITER];
	unsigned count;

	FC_ASSERT(writer->waiting_count <= writer->flying);

	/* The kernel accepted none: nothing is under way to wait for. */
	if (writer->flying == writer->waiting_count)
	{
		struct timespec nap = fc_timespec(timeout_ns);

		nanosleep(&nap, NULL);
		return;
	}
	count = fc_queue_reap(&writer->queue, min, timeout_ns, done,
	                      FC_QUEUE_DEPTH_WRITER);
	for (unsigned i = 0; i < count; i++)
		land(writer, done[i]->tag);
}
