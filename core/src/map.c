/*
 * map.c
 *		The place of everything in a saved map, and how its parts are read and
 *		written.
 *
 * All offsets follow from the layout and from the number of sets in use, so a
 * map is only found by a cache of the size that saved it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "map.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "fcache/crc32c.h"
#include "geometry.h"
#include "index.h"

uint32_t
fc_map_record_size(const FcShared *shared)
{
	size_t state = shared->set_size - sizeof(FcSet);

	FC_ASSERT(shared->set_size >= sizeof(FcSet));
	return (uint32_t) ((sizeof(FcDiskRecord) + state + 63) & ~(size_t) 63);
}

uint32_t
fc_map_sets_of_file(const FcShared *shared)
{
	FC_ASSERT(shared->device_count > 0);
	return fc_geometry_new(atomic_load(&shared->geometry)) /
	       shared->device_count;
}

off_t
fc_map_records_begin(const FcShared *shared)
{
	return FC_SLOTS_OFFSET +
	       (off_t) fc_map_sets_of_file(shared) * FC_WAYS * FC_BLOCK_SIZE;
}

static uint64_t
round_up(uint64_t size)
{
	return (size + FC_MAP_CHUNK - 1) / FC_MAP_CHUNK * FC_MAP_CHUNK;
}

/* No record is divided, so each chunk may have some room left. */
uint32_t
fc_map_records_per_chunk(const FcShared *shared)
{
	return FC_MAP_CHUNK / fc_map_record_size(shared);
}

off_t
fc_map_files_begin(const FcShared *shared)
{
	uint32_t per_chunk = fc_map_records_per_chunk(shared);
	uint32_t sets = fc_map_sets_of_file(shared);
	uint32_t chunks = per_chunk == 0 ? 0 : (sets - 1) / per_chunk + 1;

	FC_ASSERT(sets > 0);
	return fc_map_records_begin(shared) + (off_t) chunks * FC_MAP_CHUNK;
}

uint64_t
fc_map_files_size(uint32_t count, uint64_t replacement_size)
{
	return round_up(sizeof(FcDiskFiles) +
	                (uint64_t) count * sizeof(FcDiskFile) + replacement_size);
}

/* The size of the policy's state of all sets; the sets come next in memory. */
uint64_t
fc_map_replacement_size(const FcShared *shared)
{
	return shared->sets_offset - shared->replacement_offset;
}

uint32_t
fc_map_record_crc(const FcDiskRecord *record, uint32_t size)
{
	return fc_crc32c(0, &record->nonce, size - offsetof(FcDiskRecord, nonce));
}

/* Transfer the whole piece; false if that fails. */
bool
fc_map_transfer(int fd, void *buffer, size_t size, off_t offset, bool writes)
{
	char *at = buffer;

	FC_ASSERT(size % FC_IO_ALIGN == 0 && offset % FC_IO_ALIGN == 0);
	while (size > 0)
	{
		ssize_t done =
			writes ? pwrite(fd, at, size, offset) : pread(fd, at, size, offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		at += done;
		size -= (size_t) done;
		offset += done;
	}
	return true;
}

/* ---- may it be saved? -------------------------------------------------- */

void
fc_map_unsynced_set(FcCache *cache)
{
	if (!fc_map_unsynced(cache))
		atomic_store(&cache->shared->unsynced, 1);
}

bool
fc_map_unsynced(const FcCache *cache)
{
	return atomic_load(&cache->shared->unsynced) != 0;
}
