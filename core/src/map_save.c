/*
 * map_save.c
 *		Saving the map, by the last process of a server that shut down.
 *
 * First, room for the whole map is reserved, so that a full file system leaves
 * no half map.  Then the records and the files are written.  Then everything is
 * synced, and only then do the superblocks say "clean".  Records of empty sets
 * are not written: whatever is in their place has another life's nonce.
 *
 * A file is saved if it has a stamp and no process is changing it.  Records may
 * also have blocks of other files; the next life does not know their numbers.
 *
 * A crash before the superblocks are written leaves a cache without a map.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fcache/crc32c.h"
#include "file.h"
#include "geometry.h"
#include "health.h"
#include "index.h"
#include "map.h"
#include "superblock.h"

/* ---- records ------------------------------------------------------------- */

static bool
make_record(const FcShared *shared, uint32_t set_number, FcDiskRecord *record)
{
	FcSet *set = fc_set(shared, set_number);
	uint32_t size = fc_map_record_size(shared);

	FC_ASSERT(set_number < shared->set_count);
	memset(record, 0, size);
	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		uint64_t meta = atomic_load(&set->meta[way]);

		if (fc_meta_state(meta) != FC_VALID)
			continue;
		record->valid |= 1ULL << way;
		record->key[way] = atomic_load(&set->key[way]);
		record->block_crc[way] = fc_meta_high(meta);
	}
	if (record->valid == 0)
		return false;
	record->nonce = shared->nonce;
	record->set = set_number;
	memcpy(record + 1, set->replacement_state,
	       shared->set_size - sizeof(FcSet));
	record->crc = fc_map_record_crc(record, size);
	return true;
}

static bool
save_records(const FcCache *cache, uint32_t device, char *buffer)
{
	const FcShared *shared = cache->shared;
	uint32_t size = fc_map_record_size(shared);
	uint32_t per_chunk = fc_map_records_per_chunk(shared);
	uint32_t sets = fc_map_sets_of_file(shared);
	char *room = buffer + FC_MAP_CHUNK; /* of one record, before it is placed */

	FC_ASSERT(per_chunk > 0 && device < shared->device_count);
	for (uint32_t first = 0; first < sets; first += per_chunk)
	{
		bool any = false;

		memset(buffer, 0, FC_MAP_CHUNK);
		for (uint32_t i = first; i < sets && i < first + per_chunk; i++)
		{
			FcDiskRecord *record = (FcDiskRecord *) (void *) room;

			if (!make_record(shared, i * shared->device_count + device, record))
				continue;
			memcpy(buffer + (size_t) (i - first) * size, record, size);
			any = true;
		}
		if (any &&
		    !fc_map_transfer(cache->devices[device].fd, buffer, FC_MAP_CHUNK,
		                     fc_map_records_begin(shared) +
		                         (off_t) (first / per_chunk) * FC_MAP_CHUNK,
		                     true))
			return false;
	}
	return true;
}

/* ---- files --------------------------------------------------------------- */

/* May the file's blocks be used in another life? */
static bool
is_kept(const FcShared *shared, uint32_t number)
{
	const FcFileEntry *entry = &fc_files(shared)[number];

	FC_ASSERT(number != FC_FILE_NONE && number < shared->file_count);
	return atomic_load(&fc_tags(shared)[number]) != 0 &&
	       fc_generation_state(atomic_load(&fc_generations(shared)[number])) !=
	           FC_NUMBER_RETIRED &&
	       atomic_load(&entry->stamp) != 0 &&
	       (uint32_t) atomic_load(
			   fc_stamp_counter_of_file(shared, &entry->id)) == 0;
}

static bool
save_files(const FcCache *cache)
{
	const FcShared *shared = cache->shared;
	uint64_t state = fc_map_replacement_size(shared);
	uint32_t count = 0;

	for (uint32_t number = 1; number < shared->file_count; number++)
		count += is_kept(shared, number);

	uint64_t size = fc_map_files_size(count, state);
	FcDiskFiles *files = aligned_alloc(FC_IO_ALIGN, size);

	if (files == NULL)
		return false;
	memset(files, 0, size);
	files->nonce = shared->nonce;
	files->replacement_hash = shared->replacement_hash;
	files->file_count = shared->file_count;
	files->set_count = shared->set_count;
	files->record_size = fc_map_record_size(shared);
	files->count = count;
	files->replacement_size = state;

	FcDiskFile *line = (FcDiskFile *) (void *) (files + 1);

	for (uint32_t number = 1; number < shared->file_count && count > 0;
	     number++)
	{
		const FcFileEntry *entry = &fc_files(shared)[number];

		if (!is_kept(shared, number))
			continue;
		*line++ = (FcDiskFile){ .id = { entry->id.tablespace,
			                            entry->id.database, entry->id.relation,
			                            entry->id.fork, entry->id.segment },
			                    .number = number,
			                    .changes = atomic_load(&entry->changes),
			                    .stamp = atomic_load(&entry->stamp) };
		count--;
	}
	memcpy(line, FC_AT(shared, replacement_offset, char), state);
	files->crc =
		fc_crc32c(0, &files->nonce, size - offsetof(FcDiskFiles, nonce));

	bool saved = fc_map_transfer(cache->devices[0].fd, files, size,
	                             fc_map_files_begin(shared), true);

	free(files);
	return saved;
}

/* ---- the whole map ------------------------------------------------------- */

/*
 * Reserve space at the end of a file, so that a full file system leaves no half
 * map.
 */
static bool
reserve(const FcCache *cache, uint32_t device)
{
	const FcShared *shared = cache->shared;
	off_t from = fc_map_records_begin(shared);
	off_t end = fc_map_files_begin(shared);
	int error;

	FC_ASSERT(cache->devices[device].fd >= 0 && from < end);
	if (device == 0)
		end += (off_t) fc_map_files_size(shared->file_count,
		                                 fc_map_replacement_size(shared));
	do
		error = posix_fallocate(cache->devices[device].fd, from, end - from);
	while (error == EINTR);
	errno = error;
	return error == 0;
}

static bool
mark_clean(FcCache *cache, const FcCheckpoint *checkpoint)
{
	FcShared *shared = cache->shared;

	FC_ASSERT(shared->nonce != 0);
	for (uint32_t i = 0; i < shared->device_count; i++)
	{
		FcLabel label = cache->devices[i].label;

		label.clean = true;
		label.slot_count = fc_map_sets_of_file(shared) * FC_WAYS;
		label.nonce = shared->nonce;
		label.identity.checkpoint = *checkpoint;
		if (!fc_superblock_write(cache->devices[i].fd, &label))
			return false;
	}
	return true;
}

/* Do all devices answer?  Waiting for one that hangs could last for ever. */
static bool
all_answer(const FcShared *shared)
{
	for (uint32_t i = 0; i < shared->device_count; i++)
	{
		if (!fc_health_answers(shared, i))
			return false;
	}
	return true;
}

FcStatus
fc_map_save(FcCache *cache, const FcCheckpoint *checkpoint)
{
	FcShared *shared = cache->shared;
	uint64_t geometry = atomic_load(&shared->geometry);
	char *buffer;
	bool saved = true;

	/*
	 * Do not keep what is offline, or what a crashed process may have
	 * overwritten.
	 */
	if (shared->nonce == 0 || fc_mode(cache, NULL) == FC_OFFLINE ||
	    fc_map_unsynced(cache) ||
	    (uint32_t) atomic_load(&shared->everyone) != 0 ||
	    !fc_blocks_counted(shared) || fc_geometry_moving(geometry) ||
	    fc_map_record_size(shared) > FC_MAP_CHUNK)
		return FC_SKIP;
	for (uint32_t i = 0; i < shared->device_count; i++)
		if (cache->devices[i].fd < 0)
			return FC_SKIP;
	if (!all_answer(shared))
	{
		errno = EBUSY;
		return FC_FAILED;
	}

	buffer = aligned_alloc(FC_IO_ALIGN, 2 * (size_t) FC_MAP_CHUNK);
	if (buffer == NULL)
		return FC_FAILED;
	for (uint32_t i = 0; saved && i < shared->device_count; i++)
		saved = reserve(cache, i) && save_records(cache, i, buffer);
	saved = saved && save_files(cache);
	for (uint32_t i = 0; saved && i < shared->device_count; i++)
		saved = fdatasync(cache->devices[i].fd) == 0;
	free(buffer);
	return saved && mark_clean(cache, checkpoint) ? FC_OK : FC_FAILED;
}
