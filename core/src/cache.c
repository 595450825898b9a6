/*
 * cache.c
 *		The flow of control: what happens at a read, a fill and a change.
 *
 * Read this file first.  It says in which order things happen; index.c, files.c
 * and device_file.c do them.  The order is the protocol:
 *
 *	read	note mode and generations, find the entry, read the slot; the hit
 *			counts only if the whole entry, the file's generation and the mode
 *			are still the same and the CRC32C is right
 *	fill	claim a way, copy the page, write the slot, publish
 *	change	move the generation and empty the entry; the real change; the same
 *			again; then refresh the copy, if nobody else changed the set
 *
 * The CRC32C covers the key before the content, so that a slot written in the
 * wrong place, or left over from another block, does not pass.
 *
 * Failures: a slot that cannot be read or is corrupt is a miss.  Too many of
 * them take the cache offline, with a reason; nothing else ever fails.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fcache/checksum.h"
#include "shared.h"

/*
 * A device gets this many failed calls, and this many corrupt slots, in an hour
 * before the cache goes offline.  A single flipped bit costs its slot, one a day
 * costs nothing more for ever; a device that has lost its mind costs a few dozen
 * misses.
 */
#define FAILURE_WINDOW_NS 3600000000000ULL
#define DEVICE_ERRORS_MAX 32
#define CORRUPT_SLOTS_MAX 256

/* A longer run is invalidated as a range: it moves the file's generation. */
#define RUN_BLOCKS_MAX 128

#ifdef FC_TEST
uint64_t fc_test_broken;
void (*fc_test_point)(const char *name);
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

/* Sizes and offsets of everything; false if the config cannot work. */
static bool
lay_out(const FcConfig *config, FcShared *shared)
{
	uint64_t end = sizeof(FcShared);

	if (config->slot_count < FC_WAYS || config->slot_count % FC_WAYS != 0 ||
	    config->policy == NULL || config->process_count == 0 ||
	    config->process_count > 0xffff ||
	    (config->file_count & (config->file_count - 1)) != 0 ||
	    config->file_count == 1)
		return false;

	memset(shared, 0, sizeof(*shared));
	shared->magic = FC_MAGIC;
	shared->set_count = config->slot_count / FC_WAYS;
	shared->set_size =
		(uint32_t) ((sizeof(FcSet) + config->policy->set_state_size + 7) &
	                ~7ULL);
	shared->process_count = config->process_count;
	shared->file_count = config->file_count != 0
	                         ? config->file_count
	                         : power_of_2(config->slot_count / 64, 1024);
	shared->chunk_count = power_of_2(config->slot_count / 16, 1024);
	shared->class_count = config->slot_count / 64 >= 65536
	                          ? 65536
	                          : power_of_2(config->slot_count / 64, 1024);

	shared->processes_offset =
		place(&end, shared->process_count * sizeof(FcProcess));
	shared->shards_offset = place(&end, FC_SHARDS * sizeof(FcShard));
	shared->generations_offset =
		place(&end, shared->file_count * sizeof(FcAtomic64));
	shared->tags_offset = place(&end, shared->file_count * sizeof(FcAtomic32));
	shared->files_offset =
		place(&end, shared->file_count * sizeof(FcFileEntry));
	shared->chunks_offset =
		place(&end, shared->chunk_count * sizeof(FcAtomic32));
	shared->classes_offset =
		place(&end, shared->class_count * sizeof(FcClassEntry));
	shared->sets_offset =
		place(&end, (uint64_t) shared->set_count * shared->set_size);
	shared->memory_size = end;
	return true;
}

size_t
fc_cache_memory_size(const FcConfig *config)
{
	FcShared shared;

	return lay_out(config, &shared) ? shared.memory_size : 0;
}

static FcStatus
open_handle(FcCache *cache, FcShared *shared, const FcPolicy *policy,
            FcDevice *device)
{
	memset(cache, 0, sizeof(*cache));
	cache->shared = shared;
	cache->policy = policy;
	cache->device = device;
	cache->scratch = aligned_alloc(FC_IO_ALIGN, FC_BLOCK_SIZE);
	return cache->scratch != NULL ? FC_OK : FC_FAILED;
}

FcStatus
fc_cache_create(FcCache *cache, void *memory, const FcConfig *config,
                FcDevice *device)
{
	FcShared *shared = memory;
	FcShared layout;

	/* What holds a cache already is not zeros. */
	if (!lay_out(config, &layout) || shared->magic != 0)
		return FC_INVALID;

	memcpy(memory, &layout, sizeof(layout));
	atomic_store(&shared->absent_epoch, 2); /* 0 means "not noted" */
	atomic_store(&shared->mode_word,
	             (uint64_t) FC_PASSTHROUGH | (FC_REASON_STARTING << 8));
	return open_handle(cache, shared, config->policy, device);
}

FcStatus
fc_cache_attach(FcCache *cache, void *memory, const FcPolicy *policy,
                FcDevice *device)
{
	FcShared *shared = memory;

	if (shared->magic != FC_MAGIC)
		return FC_INVALID;
	return open_handle(cache, shared, policy, device);
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

/*
 * A failure of the device: when there are too many in a window, stop using it.
 * Two processes may begin a window at once; then a failure or two is forgotten.
 */
static void
count_failure(FcCache *cache, FcCounter counter, uint32_t max, FcReason reason)
{
	FcFailures *failures = &cache->shared->failures[reason];
	uint64_t now = fc_now_ns();

	fc_count(cache, counter, 1);
	if (now - atomic_load(&failures->window_start_ns) > FAILURE_WINDOW_NS)
	{
		atomic_store(&failures->window_start_ns, now);
		atomic_store(&failures->count, 0);
	}
	if (atomic_fetch_add(&failures->count, 1) + 1 >= max &&
	    fc_mode(cache, NULL) != FC_OFFLINE)
		(void) fc_mode_set(cache, FC_OFFLINE, reason);
}

/* ---- slots ------------------------------------------------------------------- */

static off_t
slot_offset(uint32_t slot)
{
	return FC_SLOTS_OFFSET + (off_t) slot * FC_BLOCK_SIZE;
}

static uint32_t
checksum_of(uint64_t key, const void *page)
{
	return fc_crc32c(fc_crc32c(0, &key, sizeof(key)), page, FC_BLOCK_SIZE);
}

/* Read a slot into page, through the scratch block if page is not aligned. */
static bool
read_slot(FcCache *cache, uint32_t slot, void *page)
{
	bool bounce = cache->device->direct && (uintptr_t) page % FC_IO_ALIGN != 0;
	void *target = bounce ? cache->scratch : page;
	uint64_t start = fc_now_ns();
	ssize_t got = cache->device->ops->read(cache->device, target, FC_BLOCK_SIZE,
	                                       slot_offset(slot));

	fc_count(cache, FC_COUNT_flash_reads, 1);
	if (got != FC_BLOCK_SIZE)
	{
		/* A signal is nobody's fault. */
		if (got < 0 && errno == EINTR)
			return false;
		count_failure(cache, FC_COUNT_flash_read_errors, DEVICE_ERRORS_MAX,
		              FC_REASON_READ_ERRORS);
		return false;
	}
	fc_count(cache, FC_COUNT_flash_read_bytes, FC_BLOCK_SIZE);
	if (bounce)
		memcpy(page, cache->scratch, FC_BLOCK_SIZE);
	fc_time(cache, FC_TIME_FLASH_READ, fc_now_ns() - start);
	return true;
}

/* Write the scratch block to a slot. */
static bool
write_slot(FcCache *cache, uint32_t slot)
{
	uint64_t start = fc_now_ns();
	ssize_t put = cache->device->ops->write(cache->device, cache->scratch,
	                                        FC_BLOCK_SIZE, slot_offset(slot));

	fc_count(cache, FC_COUNT_flash_writes, 1);
	if (put != FC_BLOCK_SIZE)
	{
		if (put >= 0 || errno != EINTR)
			count_failure(cache, FC_COUNT_flash_write_errors, DEVICE_ERRORS_MAX,
			              FC_REASON_WRITE_ERRORS);
		return false;
	}
	fc_count(cache, FC_COUNT_flash_write_bytes, FC_BLOCK_SIZE);
	fc_time(cache, FC_TIME_FLASH_WRITE, fc_now_ns() - start);
	return true;
}

/* ---- reads ------------------------------------------------------------------- */

FcStatus
fc_look_up(FcCache *cache, const FcFile *file, uint32_t block, FcTicket *ticket,
           FcSeen *seen)
{
	FcShared *shared = cache->shared;
	uint64_t key = fc_key(file->number, block);

	/* No file has that block, and one past it would wrap. */
	if (block == FC_BLOCKS_ALL)
		return FC_INVALID;

	ticket->mode_word = atomic_load(&shared->mode_word);
	if (fc_word_mode(ticket->mode_word) != FC_SERVE)
		return FC_OFF;
	if (!fc_file_current(cache, file))
		return FC_STALE;
	if (!FC_BROKEN(CLASS_NONE) &&
	    fc_class_of_file(shared, file->number) == FC_CLASS_NONE)
	{
		fc_count(cache, FC_COUNT_bypass_reads, 1);
		return FC_OFF;
	}

	/* What is noted here must not have moved when the fill is published. */
	ticket->file = file->number;
	ticket->block = block;
	ticket->file_generation = file->generation;
	ticket->set_generation =
		atomic_load(&fc_set(shared, fc_index_set_of(shared, key))->generation);
	FC_POINT("ticket-noted");

	return fc_index_find(shared, key, seen) ? FC_OK : FC_MISS;
}

/* Did nothing move between the look-up and now?  After this the page counts. */
static bool
read_holds(FcCache *cache, const FcTicket *ticket, const FcSeen *seen)
{
	FcShared *shared = cache->shared;
	uint64_t key = fc_key(ticket->file, ticket->block);

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
	fc_count(cache, FC_COUNT_misses, 1);
	atomic_fetch_add_explicit(&fc_files(cache->shared)[ticket->file].misses, 1,
	                          memory_order_relaxed);
	return FC_MISS;
}

static FcStatus
read_page(FcCache *cache, const FcFile *file, uint32_t block, void *page,
          FcTicket *ticket)
{
	FcSeen seen;
	FcStatus status = fc_look_up(cache, file, block, ticket, &seen);

	if (status == FC_MISS)
		return missed(cache, ticket);
	if (status != FC_OK)
		return status;

	uint64_t key = fc_key(ticket->file, block);

	FC_POINT("entry-found");
	if (!read_slot(cache, seen.slot, page))
	{
		/* The copy is of no use; make room for a better one. */
		(void) fc_index_drop(cache->shared, key, &seen);
		return missed(cache, ticket);
	}
	FC_POINT("slot-read");

	if (!FC_BROKEN(CRC) && checksum_of(key, page) != fc_meta_high(seen.meta))
	{
		/* Torn by a fill meanwhile, or really corrupt? */
		if (fc_index_drop(cache->shared, key, &seen))
			count_failure(cache, FC_COUNT_corrupt_slots, CORRUPT_SLOTS_MAX,
			              FC_REASON_CORRUPTION);
		return missed(cache, ticket);
	}
	if (!read_holds(cache, ticket, &seen))
		return missed(cache, ticket);

	ticket->slot = seen.slot;
	ticket->meta = seen.meta;
	fc_index_touch(cache, &seen);
	fc_count(cache, FC_COUNT_hits, 1);
	atomic_fetch_add_explicit(&fc_files(cache->shared)[ticket->file].hits, 1,
	                          memory_order_relaxed);
	return FC_OK;
}

FcStatus
fc_read(FcCache *cache, const FcFile *file, uint32_t block, void *page,
        FcTicket *ticket)
{
	int saved_errno = errno;
	FcStatus status = read_page(cache, file, block, page, ticket);

	errno = saved_errno;
	return status;
}

bool
fc_hit_holds(const FcCache *cache, const FcTicket *ticket)
{
	FcSeen seen = { .slot = ticket->slot, .meta = ticket->meta };

	return fc_index_holds(cache->shared, fc_key(ticket->file, ticket->block),
	                      &seen) &&
	       atomic_load(&fc_generations(cache->shared)[ticket->file]) ==
	           ticket->file_generation;
}

void
fc_hit_drop(FcCache *cache, const FcTicket *ticket)
{
	FcSeen seen = { .slot = ticket->slot, .meta = ticket->meta };

	(void) fc_index_drop(cache->shared, fc_key(ticket->file, ticket->block),
	                     &seen);
}

bool
fc_cached(const FcCache *cache, const FcFile *file, uint32_t block)
{
	FcSeen seen;

	return fc_mode(cache, NULL) == FC_SERVE && fc_file_current(cache, file) &&
	       fc_class_of_file(cache->shared, file->number) != FC_CLASS_NONE &&
	       fc_index_find(cache->shared, fc_key(file->number, block), &seen);
}

FcStatus
fc_slot_read(FcCache *cache, uint32_t slot, void *page, FcFileId *id_out,
             FcTicket *ticket)
{
	FcShared *shared = cache->shared;
	FcSet *set = fc_set(shared, slot / FC_WAYS);
	FcSeen seen = { .slot = slot };
	FcFileInfo info;
	int saved_errno = errno;

	ticket->mode_word = atomic_load(&shared->mode_word);
	if (fc_word_mode(ticket->mode_word) == FC_OFFLINE)
		return FC_OFF;

	seen.meta = atomic_load(&set->meta[slot % FC_WAYS]);
	if (fc_meta_state(seen.meta) != FC_VALID)
		return FC_MISS;

	uint64_t key = atomic_load(&set->key[slot % FC_WAYS]);

	/* The key is this entry's only if the meta has not moved. */
	if (!fc_index_holds(shared, key, &seen))
		return FC_MISS;

	ticket->file = fc_key_file(key);
	ticket->block = (uint32_t) key;
	ticket->slot = slot;
	ticket->meta = seen.meta;
	ticket->set_generation = atomic_load(&set->generation);
	ticket->file_generation =
		atomic_load(&fc_generations(shared)[ticket->file]);
	if (!fc_file_info(cache, ticket->file, &info))
		return FC_MISS;
	*id_out = info.id;

	bool read = read_slot(cache, slot, page);

	errno = saved_errno;
	if (!read || !read_holds(cache, ticket, &seen))
		return FC_MISS;
	if (checksum_of(key, page) != fc_meta_high(seen.meta))
	{
		if (fc_index_drop(shared, key, &seen))
			count_failure(cache, FC_COUNT_corrupt_slots, CORRUPT_SLOTS_MAX,
			              FC_REASON_CORRUPTION);
		return FC_MISS;
	}
	return FC_OK;
}

void
fc_disk_read(FcCache *cache, const FcFile *file, uint32_t blocks,
             uint64_t bytes, uint64_t ns)
{
	fc_count(cache, FC_COUNT_disk_reads, blocks > 0 ? 1 : 0);
	fc_count(cache, FC_COUNT_disk_read_bytes, bytes);
	fc_time(cache, FC_TIME_DISK_READ, ns);
	if (fc_file_current(cache, file))
		atomic_fetch_add_explicit(
			&fc_files(cache->shared)[file->number].disk_read_ns, ns,
			memory_order_relaxed);
}

/* ---- fills ------------------------------------------------------------------- */

static FcStatus
fill_page(FcCache *cache, const FcTicket *ticket, const void *page)
{
	uint64_t key = fc_key(ticket->file, ticket->block);
	FcSeen claim;
	bool same_way;

	/* Spare the write if the answer is known already. */
	if (!FC_BROKEN(MODE_CHECK) &&
	    atomic_load(&cache->shared->mode_word) != ticket->mode_word)
	{
		fc_count(cache, FC_COUNT_insert_skip_not_current, 1);
		return FC_SKIP;
	}
	if (fc_index_claim(cache, ticket, &claim, &same_way) != FC_OK)
		return FC_SKIP;

	/* The caller's page may change while we look at it: the copy may not. */
	memcpy(cache->scratch, page, FC_BLOCK_SIZE);

	uint32_t crc = checksum_of(key, cache->scratch);

	FC_POINT("claimed");
	if (!write_slot(cache, claim.slot))
	{
		fc_index_abandon(cache, ticket, &claim);
		fc_count(cache, FC_COUNT_insert_skip_corrupt, 1);
		return FC_SKIP;
	}
	FC_POINT("slot-written");

	FcStatus status = fc_index_publish(cache, ticket, &claim, crc, same_way);

	if (status == FC_OK)
		fc_count(cache, FC_COUNT_inserts, 1);
	return status;
}

FcStatus
fc_fill(FcCache *cache, const FcTicket *ticket, const void *page)
{
	int saved_errno = errno;
	FcStatus status = fill_page(cache, ticket, page);

	errno = saved_errno;
	return status;
}

/* ---- changes ------------------------------------------------------------------ */

/* One half of a bracket: forget the blocks; true if the one block was cached. */
static bool
invalidate(FcCache *cache, FcFile *file, const FcChange *change,
           uint64_t *generation_out)
{
	bool was_cached = false;

	*generation_out = 0;
	if (!fc_file_resolve(cache, file))
		return false;

	if (change->count > RUN_BLOCKS_MAX)
	{
		fc_file_invalidate(cache, file->number, change->first, change->count);
		return false;
	}
	for (uint32_t i = 0; i < change->count; i++)
		was_cached = fc_index_invalidate(
			cache, fc_key(file->number, change->first + i), generation_out);
	return was_cached;
}

void
fc_change_begin(FcCache *cache, FcFile *file, uint32_t first, uint32_t count,
                FcChange *change)
{
	*change = (FcChange){ .first = first, .count = count };
	change->ticket.mode_word = atomic_load(&cache->shared->mode_word);
	if (fc_word_mode(change->ticket.mode_word) == FC_OFFLINE)
		return;

	fc_count(cache, FC_COUNT_invalidations, 1);
	change->was_cached =
		invalidate(cache, file, change, &change->ticket.set_generation) &&
		count == 1;
	change->ticket.file = file->number;
	change->ticket.block = first;
	change->ticket.file_generation = file->generation;
	FC_POINT("change-begun");
}

void
fc_change_end(FcCache *cache, FcFile *file, FcChange *change)
{
	uint64_t generation;

	FC_POINT("change-ending");
	if (fc_mode(cache, NULL) == FC_OFFLINE || FC_BROKEN(SECOND_INVALIDATE))
		return;

	(void) invalidate(cache, file, change, &generation);

	/*
	 * The copy may be refreshed if nobody but us has changed the set since we
	 * began, and the file is still the one it was.
	 */
	if (!FC_BROKEN(REFRESH) &&
	    (generation != change->ticket.set_generation + 1 ||
	     file->number != change->ticket.file ||
	     file->generation != change->ticket.file_generation))
	{
		if (change->was_cached)
			fc_count(cache, FC_COUNT_insert_skip_modification, 1);
		change->was_cached = false;
	}
	change->ticket.set_generation = generation;
}

FcStatus
fc_change_fill(FcCache *cache, const FcChange *change, const void *page)
{
	if (!change->was_cached ||
	    fc_word_mode(change->ticket.mode_word) != FC_SERVE)
		return FC_SKIP;

	FcStatus status = fc_fill(cache, &change->ticket, page);

	if (status == FC_OK)
		fc_count(cache, FC_COUNT_updates, 1);
	return status;
}
