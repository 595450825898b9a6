/*
 * cache.c
 *		The flow of control: what happens at a fill and a change.
 *
 * Read this file first, then read.c.  They say in which order things happen;
 * index.c, files.c, reader.c, staging.c, writer.c and devices.c do them.  The order
 * is the protocol:
 *
 *	read	note mode and generations, find the entry, read the slot, or the page
 *			of the staging ring that the block is in; the hit counts only if the
 *			whole entry, the file's generation and the mode are still the same
 *			and the CRC32C is right
 *	fill	take a page of the ring, claim a way, copy the block, publish; the
 *			writer has it written to the slot later
 *	change	move the generation and empty the entry; the real change; the same
 *			again; then refresh the copy, if nobody else changed the set
 *
 * Failures: a slot that cannot be read or is corrupt is a miss.  Too many of
 * them take its cache file out of use; nothing else ever fails.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "budget.h"
#include "devices.h"
#include "flights.h"
#include "health.h"
#include "probe.h"
#include "reader.h"
#include "staging.h"

/* A read that flash has not answered by then is the disk's, unless the host says so. */
#define READ_DEADLINE_NS 50000000

/* A longer run is invalidated as a range: it moves the file's generation. */
#define RUN_BLOCKS_MAX 128

#ifdef FC_TEST
uint64_t fc_test_broken;
void (*fc_test_point)(const char *name);
uint64_t fc_test_now_ns;
uint64_t fc_test_tick_ns;
void *const *fc_test_page;
#endif

/* ---- memory ---------------------------------------------------------------- */

/* The largest power of 2 that is not larger, or min, which is one. */
static uint32_t
power_of_2(uint32_t at_most, uint32_t min)
{
	uint32_t power = min;

	while (power <= at_most / 2)
		power *= 2;
	return power;
}

static uint64_t
place(uint64_t *end, uint64_t size)
{
	uint64_t offset = (*end + 63) & ~63ULL;

	*end = offset + size;
	return offset;
}

/* FNV-1a, of the policy's name and the sizes of its states. */
static uint32_t
policy_hash(const FcPolicy *policy)
{
	uint32_t hash = 2166136261U ^ (uint32_t) policy->set_state_size ^
	                (uint32_t) policy->shared_state_size << 12;

	for (const char *c = policy->name; *c != '\0'; c++)
		hash = (hash ^ (unsigned char) *c) * 16777619U;
	return hash;
}

/*
 * All of it is of the maximum: after a crash the host lays out again, with the size
 * of then, what the first layout was given memory for.
 */
bool
fc_lay_out(const FcConfig *config, FcShared *shared)
{
	uint64_t end = sizeof(FcShared);
	uint32_t devices = config->device_count != 0 ? config->device_count : 1;
	uint32_t slots = config->slot_count_max != 0 ? config->slot_count_max
	                                             : config->slot_count;

	if (config->slot_count < FC_WAYS || devices > FC_DEVICES_MAX ||
	    config->slot_count % (FC_WAYS * devices) != 0 ||
	    slots < config->slot_count || slots % (FC_WAYS * devices) != 0 ||
	    config->policy == NULL || config->process_count == 0 ||
	    config->process_count > 0xffff ||
	    (config->file_count & (config->file_count - 1)) != 0 ||
	    config->file_count == 1)
		return false;

	memset(shared, 0, sizeof(*shared));
	shared->magic = FC_MAGIC;
	shared->set_count = slots / FC_WAYS;
	shared->device_count = devices;
	shared->set_size =
		(uint32_t) ((sizeof(FcSet) + config->policy->set_state_size + 7) &
	                ~7ULL);
	shared->process_count = config->process_count;
	shared->file_count = config->file_count != 0 ? config->file_count
	                                             : power_of_2(slots / 64, 1024);
	shared->chunk_count = power_of_2(slots / 16, 1024);
	shared->class_count =
		slots / 64 >= 65536 ? 65536 : power_of_2(slots / 64, 1024);
	shared->policy_hash = policy_hash(config->policy);

	shared->processes_offset =
		place(&end, shared->process_count * sizeof(FcProcess));
	shared->shards_offset = place(&end, FC_SHARDS * sizeof(FcShard));
	shared->device_shards_offset =
		place(&end, (uint64_t) FC_SHARDS * devices * sizeof(FcDeviceShard));
	shared->generations_offset =
		place(&end, shared->file_count * sizeof(FcAtomic64));
	shared->tags_offset = place(&end, shared->file_count * sizeof(FcAtomic32));
	shared->files_offset =
		place(&end, shared->file_count * sizeof(FcFileEntry));
	shared->chunks_offset =
		place(&end, shared->chunk_count * sizeof(FcAtomic32));
	shared->classes_offset =
		place(&end, shared->class_count * sizeof(FcClassEntry));
	shared->policy_offset = place(&end, config->policy->shared_state_size);
	shared->ring_count = fc_staging_pages_for(slots);
	shared->staged_offset =
		place(&end, shared->ring_count * sizeof(FcStagedPage));
	/* The memory may begin anywhere, but the pages are aligned. */
	shared->ring_offset = place(
		&end, (uint64_t) shared->ring_count * FC_BLOCK_SIZE + FC_IO_ALIGN);
	shared->sets_offset =
		place(&end, (uint64_t) shared->set_count * shared->set_size);
	shared->memory_size = end;
	return true;
}

size_t
fc_cache_memory_size(const FcConfig *config)
{
	FcShared shared;

	return fc_lay_out(config, &shared) ? shared.memory_size : 0;
}

FcStatus
fc_open_handle(FcCache *cache, FcShared *shared, const FcPolicy *policy,
               FcDevice *devices)
{
	memset(cache, 0, sizeof(*cache));
	cache->shared = shared;
	cache->policy = policy;
	cache->devices = devices;
	cache->read_deadline_ns = READ_DEADLINE_NS;
	cache->scratch = aligned_alloc(FC_IO_ALIGN, FC_BLOCK_SIZE);
	return cache->scratch != NULL ? FC_OK : FC_FAILED;
}

FcStatus
fc_cache_create(FcCache *cache, void *memory, const FcConfig *config,
                FcDevice *devices)
{
	FcShared *shared = memory;
	FcShared layout;

	/* What holds a cache already is not zeros. */
	if (!fc_lay_out(config, &layout) || shared->magic != 0)
		return FC_INVALID;

	/* What follows is zeros already. */
	memcpy(memory, &layout, offsetof(FcShared, mode_word));
	atomic_store(&shared->absent_epoch, 2); /* 0 means "not noted" */
	atomic_store(&shared->mode_word,
	             (uint64_t) FC_PASSTHROUGH | (FC_REASON_STARTING << 8));
	for (uint32_t i = 0; devices != NULL && i < layout.device_count; i++)
		if (devices[i].ops == NULL)
			fc_health_absent(shared, i);
	fc_budget_begin(shared);
	fc_resize_init(shared, config->slot_count / FC_WAYS);
	return fc_open_handle(cache, shared, config->policy, devices);
}

FcStatus
fc_cache_attach(FcCache *cache, void *memory, const FcPolicy *policy,
                FcDevice *devices)
{
	FcShared *shared = memory;

	if (shared->magic != FC_MAGIC)
		return FC_INVALID;
	return fc_open_handle(cache, shared, policy, devices);
}

void
fc_cache_close(FcCache *cache)
{
	fc_reader_close(cache);
	fc_probe_close(cache);
	fc_stand_in_close(cache);
	free(cache->scratch);
	cache->scratch = NULL;
}

size_t
fc_memory_size(const FcCache *cache)
{
	return cache->shared->memory_size;
}

void
fc_cache_clear(FcCache *cache)
{
	fc_mode_new_epoch(cache->shared);
	fc_index_clear(cache);
	fc_count(cache, FC_COUNT_clears, 1);
}

void
fc_sweep(FcCache *cache)
{
	if (fc_mode(cache, NULL) != FC_OFFLINE)
		fc_classes_sweep(cache);
}

/* ---- fills ------------------------------------------------------------------- */

static FcStatus
fill_page(FcCache *cache, const FcTicket *ticket, const void *page, bool update)
{
	uint64_t key = fc_key(ticket->file, ticket->block);
	FcSeen claim;
	uint32_t ref;

	/* Spare the copy if the answer is known already. */
	if (!FC_BROKEN(MODE_CHECK) &&
	    atomic_load(&cache->shared->mode_word) != ticket->mode_word)
	{
		fc_count(cache, FC_COUNT_insert_skip_not_current, 1);
		return FC_SKIP;
	}
	if (!fc_set_usable(cache, ticket->set))
	{
		fc_count(cache, FC_COUNT_insert_skip_device, 1);
		return FC_SKIP;
	}
	if (fc_map_expects(cache->shared, ticket->set))
	{
		fc_count(cache, FC_COUNT_insert_skip_not_useful, 1);
		return FC_SKIP;
	}
	if (!fc_budget_allows(cache))
	{
		fc_count(cache, FC_COUNT_insert_skip_budget, 1);
		return FC_SKIP;
	}

	/* First the page: without one, nothing is to make room. */
	if ((cache->token == 0 && fc_process_begin(cache) != FC_OK) ||
	    !fc_staging_take(cache, &ref))
	{
		fc_count(cache, FC_COUNT_insert_skip_writer_overloaded, 1);
		return FC_SKIP;
	}
	FC_POINT("page-taken");
	if (fc_index_claim(cache, ticket, &claim) != FC_OK)
	{
		fc_staging_free(cache->shared, ref);
		return FC_SKIP;
	}
	FC_POINT("claimed");
	fc_staging_put(cache, ref, key, claim.slot, page, update);
	FC_POINT("block-copied");
	if (fc_index_publish(cache, ticket, &claim, FC_STAGED, ref) != FC_OK)
	{
		fc_staging_free(cache->shared, ref);
		return FC_SKIP;
	}
	FC_POINT("published");
	fc_count(cache, FC_COUNT_inserts, 1);
	fc_staging_hand_over(cache, ref);
	return FC_OK;
}

static FcStatus
fill(FcCache *cache, const FcTicket *ticket, const void *page, bool update)
{
	int saved_errno = errno;
	FcStatus status = fill_page(cache, ticket, page, update);

	errno = saved_errno;
	return status;
}

FcStatus
fc_fill(FcCache *cache, const FcTicket *ticket, const void *page)
{
	return fill(cache, ticket, page, false);
}

/* ---- moves -------------------------------------------------------------------- */

/* The block into the scratch block, from wherever it is; seen learns its CRC32C. */
static bool
fetch(FcCache *cache, uint64_t key, FcSeen *seen)
{
	if (fc_meta_staged(seen->meta))
		return fc_staging_read(cache, key, seen, cache->scratch);
	seen->crc = fc_meta_high(seen->meta);
	return fc_slot_fetch(cache, seen, cache->scratch) &&
	       fc_slot_checksum(key, cache->scratch) == seen->crc;
}

/* Who moves blocks may wait: it writes the scratch block to the slot itself. */
static bool
write_slot(FcCache *cache, uint32_t slot)
{
	uint64_t start = fc_now_ns();
	FcDevice *device;
	off_t offset;

	fc_slot_place(cache, slot, &device, &offset);

	ssize_t put =
		device->ops->write(device, cache->scratch, FC_BLOCK_SIZE, offset);
	FcOutcome outcome = put == FC_BLOCK_SIZE        ? FC_OUTCOME_OK
	                    : put < 0 && errno == EINTR ? FC_OUTCOME_INTERRUPTED
	                                                : FC_OUTCOME_ERROR;

	fc_device_write_done(cache, device, fc_now_ns() - start, outcome);
	return outcome == FC_OUTCOME_OK;
}

/* What a fill at the block's present home would need; false: nobody wants it. */
static bool
note_ticket(FcCache *cache, uint64_t key, FcTicket *ticket)
{
	FcShared *shared = cache->shared;

	ticket->file = fc_key_file(key);
	ticket->block = (uint32_t) key;
	ticket->mode_word = atomic_load(&shared->mode_word);
	ticket->file_generation =
		atomic_load(&fc_generations(shared)[ticket->file]);
	ticket->set = fc_index_set_of(shared, key);
	ticket->set_generation =
		atomic_load(&fc_set(shared, ticket->set)->generation);
	return fc_generation_state(ticket->file_generation) != FC_NUMBER_RETIRED &&
	       fc_set_usable(cache, ticket->set) && fc_budget_allows(cache);
}

/*
 * The new place is claimed before the last look at the old entry: a change either
 * finds the claim, or has emptied the old entry before that look.  Besides, the
 * ticket is noted before the first look: a change of this block, which empties the
 * old entry first, either did so before that look or moves the new home's
 * generation after the ticket.
 */
static bool
copy_to_home(FcCache *cache, uint64_t key, const FcSeen *from)
{
	FcSeen seen = *from;
	FcTicket ticket;
	FcSeen claim;

	if (!note_ticket(cache, key, &ticket))
		return false;
	FC_POINT("move-noted");
	if (!fc_index_holds(cache->shared, key, &seen) ||
	    fc_index_claim_move(cache, &ticket, &seen, &claim) != FC_OK)
		return false;
	FC_POINT("move-claimed");

	bool good = fetch(cache, key, &seen) && write_slot(cache, claim.slot);

	FC_POINT("move-written");
	if (!good ||
	    (!FC_BROKEN(MOVE_LOOK) && !fc_index_holds(cache->shared, key, &seen)))
	{
		fc_index_abandon(cache, &ticket, &claim);
		return false;
	}
	FC_POINT("move-looked");
	if (FC_BROKEN(MOVE_TICKET))
		(void) note_ticket(cache, key, &ticket);
	return fc_index_publish(cache, &ticket, &claim, FC_VALID, seen.crc) ==
	       FC_OK;
}

void
fc_move(FcCache *cache, uint64_t key, const FcSeen *from)
{
	int saved_errno = errno;

	if (copy_to_home(cache, key, from))
		fc_count(cache, FC_COUNT_moved_blocks, 1);
	errno = saved_errno;
}

/* ---- changes ------------------------------------------------------------------ */

/* One half of a bracket: forget the blocks; says what it found of the last one. */
static FcHeld
invalidate(FcCache *cache, FcFile *file, const FcChange *change,
           FcHome *home_out)
{
	FcHeld held = FC_HELD_NOT;

	*home_out = (FcHome){ 0 };
	if (!fc_file_resolve(cache, file))
		return FC_HELD_NOT;

	if (change->count > RUN_BLOCKS_MAX)
	{
		fc_file_invalidate(cache, file->number, change->first, change->count);
		return FC_HELD_NOT;
	}
	for (uint32_t i = 0; i < change->count; i++)
		held = fc_index_invalidate(
			cache, fc_key(file->number, change->first + i), home_out);
	return held;
}

void
fc_change_begin(FcCache *cache, FcFile *file, uint32_t first, uint32_t count,
                FcChange *change)
{
	*change = (FcChange){ .first = first, .count = count };
	change->ticket.mode_word = atomic_load(&cache->shared->mode_word);
	if (fc_word_mode(change->ticket.mode_word) == FC_OFFLINE)
		return;

	FcHome home;

	fc_count(cache, FC_COUNT_invalidations, 1);
	fc_writer_begins(cache, file, change);

	FcHeld held = invalidate(cache, file, change, &home);

	change->was_cached = held != FC_HELD_NOT && count == 1;
	change->was_staged = held == FC_HELD_STAGED;
	change->ticket.set = home.set;
	change->ticket.set_generation = home.generation;
	change->ticket.file = file->number;
	change->ticket.block = first;
	change->ticket.file_generation = file->generation;
	FC_POINT("change-begun");
}

void
fc_change_end(FcCache *cache, FcFile *file, FcChange *change)
{
	FcHome home;

	/* The real change before the search for the file: see files.c. */
	atomic_thread_fence(memory_order_seq_cst);
	FC_POINT("change-ending");
	if (fc_mode(cache, NULL) == FC_OFFLINE || FC_BROKEN(SECOND_INVALIDATE))
	{
		fc_writer_ends(cache, file, change);
		return;
	}

	(void) invalidate(cache, file, change, &home);
	fc_writer_ends(cache, file, change);

	/*
	 * The copy may be refreshed if nobody but us has changed the set since we
	 * began, and the file is still the one it was.
	 */
	if (!FC_BROKEN(REFRESH) &&
	    (home.generation != change->ticket.set_generation + 1 ||
	     home.set != change->ticket.set ||
	     file->number != change->ticket.file ||
	     file->generation != change->ticket.file_generation))
	{
		if (change->was_cached)
			fc_count(cache, FC_COUNT_insert_skip_modification, 1);
		change->was_cached = false;
	}
	change->ticket.set_generation = home.generation;
}

void
fc_change_all_begin(FcCache *cache)
{
	atomic_fetch_add(&cache->shared->everyone, FC_WRITER_BEGINS);
	fc_cache_clear(cache);
}

void
fc_change_all_end(FcCache *cache)
{
	fc_cache_clear(cache);
	atomic_fetch_sub(&cache->shared->everyone, FC_WRITER_ENDS);
}

void
fc_file_distrust(FcCache *cache, FcFile *file)
{
	FcChange change;
	FcHome home;

	fc_change_begin(cache, file, 0, FC_BLOCKS_ALL, &change);
	if (fc_mode(cache, NULL) != FC_OFFLINE)
		(void) invalidate(cache, file, &change, &home);

	/* Not counted out: nobody hands in a stamp for it any more. */
	if (FC_BROKEN(DISTRUST))
		fc_writer_ends(cache, file, &change);
}

FcStatus
fc_change_fill(FcCache *cache, const FcChange *change, const void *page)
{
	if (!change->was_cached ||
	    fc_word_mode(change->ticket.mode_word) != FC_SERVE)
		return FC_SKIP;

	FcStatus status = fill(cache, &change->ticket, page, true);

	if (status == FC_OK)
	{
		fc_count(cache, FC_COUNT_updates, 1);
		fc_count(cache, FC_COUNT_coalesced_updates, change->was_staged);
	}
	return status;
}
