/*
 * map_load.c
 *		Taking in the map of an earlier life.
 *
 * At the start all files are taken in at once, asleep (stamp.c).  From then on
 * the dictionary knows everything that the map knows, so a process that changes
 * a file finds it.  The records follow in the background, while the cache
 * serves.
 *
 * Taking in a record is a fill, with tickets as old as this life.  It fills
 * only ways that were not used since (all zero), only while no block of the set
 * was changed (its generation is 0), and only blocks of files that had no
 * change of a range (their generation is still the one given at the start).  As
 * in any fill, the claim becomes visible before generations are compared
 * (index.c).  The slots of unused ways hold what they held at the shutdown.
 *
 * Until a set's record has been processed, nothing else is put into the set: it
 * would take the place of a block of the map, or duplicate it.
 *
 * A record that is torn, or belongs to another map, counts as empty.  If the
 * server is killed, or the size changes, while records are being taken in, the
 * remaining ones are lost.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdlib.h>
#include <string.h>

#include "cache_policy.h"
#include "fcache/crc32c.h"
#include "file.h"
#include "geometry.h"
#include "index.h"
#include "map.h"
#include "process.h"
#include "superblock.h"

/*
 * The generation of a number whose file came from the map.  No number assigned
 * in this life will ever reach it.
 */
#define FROM_MAP ((FC_GENERATION_ONE << 48) + FC_NUMBER_ASLEEP)

/* ---- the files ----------------------------------------------------------- */

static bool
take_file(FcShared *shared, const FcDiskFile *line)
{
	const FcFileId id = { .tablespace = line->id[0],
		                  .database = line->id[1],
		                  .relation = line->id[2],
		                  .fork = line->id[3] & 0xFF,
		                  .segment = line->id[4] & (FC_SEGMENTS_MAX - 1) };
	uint32_t number = line->number;

	if (number == FC_FILE_NONE || number >= shared->file_count ||
	    atomic_load(&fc_tags(shared)[number]) != 0 || line->stamp == 0)
		return false;

	FcFileEntry *entry = &fc_files(shared)[number];

	entry->id = id;
	atomic_store(&entry->changes, line->changes);
	atomic_store(&entry->stamp, line->stamp);
	atomic_store(&entry->stamped, (uint32_t) line->changes);
	atomic_store(&entry->cache_policy, fc_cache_policy_of(shared, &id));
	atomic_store(&fc_generations(shared)[number], FROM_MAP);
	fc_file_tag(shared, number);
	return true;
}

/* Does it belong to a cache that was laid out like this one? */
static bool
is_laid_out_alike(const FcShared *shared, const FcDiskFiles *files)
{
	if (FC_BROKEN(GEOMETRY))
		return files->record_size == fc_map_record_size(shared) &&
		       files->replacement_size <= fc_map_replacement_size(shared);
	return files->replacement_hash == shared->replacement_hash &&
	       files->file_count == shared->file_count &&
	       files->set_count == shared->set_count &&
	       files->record_size == fc_map_record_size(shared) &&
	       files->replacement_size == fc_map_replacement_size(shared);
}

static FcStart
judge_files(const FcShared *shared, const FcDiskFiles *files, uint64_t nonce)
{
	if (files->nonce != nonce)
		return FC_START_CORRUPT;
	if (!is_laid_out_alike(shared, files))
		return FC_START_GEOMETRY;
	return files->count < shared->file_count ? FC_START_MAP : FC_START_CORRUPT;
}

static FcStart
take_files(FcCache *cache, uint64_t nonce)
{
	FcShared *shared = cache->shared;
	FcDiskFiles *files = aligned_alloc(FC_IO_ALIGN, FC_MAP_CHUNK);
	FcStart start;
	uint64_t size;
	uint32_t taken = 0;

	/* The first chunk says how many files there are. */
	if (files == NULL ||
	    !fc_map_transfer(cache->devices[0].fd, files, FC_MAP_CHUNK,
	                     fc_map_files_begin(shared), false))
	{
		free(files);
		return FC_START_UNREADABLE;
	}
	start = judge_files(shared, files, nonce);
	if (start != FC_START_MAP)
	{
		free(files);
		return start;
	}

	start = FC_START_CORRUPT;
	size = fc_map_files_size(files->count, files->replacement_size);
	free(files);
	files = aligned_alloc(FC_IO_ALIGN, size);
	if (files != NULL &&
	    fc_map_transfer(cache->devices[0].fd, files, size,
	                    fc_map_files_begin(shared), false) &&
	    judge_files(shared, files, nonce) == FC_START_MAP &&
	    fc_map_files_size(files->count, files->replacement_size) == size &&
	    files->crc ==
	        fc_crc32c(0, &files->nonce, size - offsetof(FcDiskFiles, nonce)))
	{
		const FcDiskFile *line = (const FcDiskFile *) (void *) (files + 1);

		for (uint32_t i = 0; i < files->count; i++)
			taken += take_file(shared, &line[i]);
		FC_ASSERT(taken <= files->count && files->count < shared->file_count);
		memcpy(FC_AT(shared, replacement_offset, char), line + files->count,
		       files->replacement_size);
		atomic_store(&shared->asleep_count, taken);
		shared->map_sets = fc_map_sets_of_file(shared);
		shared->map_nonce = nonce;
		start = FC_START_MAP;
	}
	free(files);
	return start;
}

static bool
same_checkpoint(const FcCheckpoint *a, const FcCheckpoint *b)
{
	return a->location == b->location && a->time == b->time &&
	       a->timeline == b->timeline && a->crc == b->crc;
}

/* Do all the files hold a map of this cache? */
static FcStart
judge(const FcCache *cache, const FcIdentity *identity, uint64_t nonce)
{
	const FcShared *shared = cache->shared;
	FcStart start = FC_START_NOTHING;

	for (uint32_t i = 0; i < shared->device_count; i++)
	{
		const FcLabel *label = &cache->devices[i].label;

		if (label->damaged || label->other_version)
			return label->damaged ? FC_START_CORRUPT : FC_START_FORMAT;
		if (label->whole)
			start = FC_START_NONCE;
	}
	if (nonce == 0)
		return start;

	for (uint32_t i = 0; i < shared->device_count; i++)
	{
		const FcLabel *label = &cache->devices[i].label;

		if (label->identity.system != identity->system && !FC_BROKEN(SYSTEM))
			return FC_START_SYSTEM;
		if ((label->identity.directory_volume != identity->directory_volume ||
		     label->identity.directory_inode != identity->directory_inode) &&
		    !FC_BROKEN(DIRECTORY))
			return FC_START_DIRECTORY;
		if (!label->clean && !FC_BROKEN(CLEAN))
			return FC_START_UNCLEAN;
		if (!same_checkpoint(&label->identity.checkpoint,
		                     &identity->checkpoint) &&
		    !FC_BROKEN(CHECKPOINT))
			return FC_START_CHECKPOINT;
		if (label->slot_count != fc_map_sets_of_file(shared) * FC_WAYS)
			return FC_START_GEOMETRY;
	}
	return FC_START_MAP;
}

FcStart
fc_map_load_begin(FcCache *cache, const FcIdentity *identity)
{
	uint32_t count = cache->shared->device_count;
	uint64_t nonce = fc_life_found(cache->devices, count);
	FcStart start = judge(cache, identity, nonce);

	if (start == FC_START_MAP)
		start = take_files(cache, nonce);

	/* A map is used at most once, whatever happens. */
	for (uint32_t i = 0; i < count; i++)
		cache->devices[i].label.clean = false;
	return start;
}

/* ---- leaving a map to the next life -------------------------------------- */

/* Has no process except the one that began this life done anything in it? */
static bool
is_unused(const FcShared *shared)
{
	uint64_t any = atomic_load(&shared->everyone);

	for (uint32_t i = 0; i < shared->change_counter_count; i++)
		any |= atomic_load(&fc_stamp_change_counters(shared)[i]);
	for (uint32_t i = 0; i < shared->process_count; i++)
		any |= atomic_load(&fc_processes(shared)[i].word);
	return any == 0 && atomic_load(&shared->map_next) == 0;
}

/*
 * The cache files are unchanged since they were opened, except for their
 * superblocks.  If the server did run for a moment, its control file differs
 * from the map's.  If a child is still alive and does something now, stamps and
 * checksums reveal it.
 */
FcStatus
fc_map_load_leave(FcCache *cache)
{
	FcShared *shared = cache->shared;

	if (shared->map_nonce == 0 || fc_mode(cache, NULL) == FC_OFFLINE ||
	    !is_unused(shared))
		return FC_SKIP;
	for (uint32_t i = 0; i < shared->device_count; i++)
	{
		FcLabel label = cache->devices[i].label;

		label.clean = true;
		label.slot_count = shared->map_sets * FC_WAYS;
		label.nonce = shared->map_nonce;
		if (!fc_superblock_write(cache->devices[i].fd, &label))
			return FC_FAILED;
	}
	return FC_OK;
}

/* ---- the records --------------------------------------------------------- */

/*
 * Take in one block of a record, as a fill whose ticket is as old as this life.
 */
static void
take_block(FcCache *cache, uint32_t set_number, unsigned way, uint64_t key,
           uint32_t crc, uint64_t mode_word)
{
	FcShared *shared = cache->shared;
	FcSet *set = fc_set(shared, set_number);
	uint32_t number = fc_key_file(key);
	uint64_t claimed = fc_meta_next(0, FC_FILLING, cache->token);
	uint64_t valid = ((uint64_t) crc << 32) |
	                 (claimed & FC_META_SEQUENCE_MASK) | (uint64_t) FC_VALID;
	uint64_t untouched = 0;

	FC_ASSERT(way < FC_WAYS && cache->token != 0);
	if (number == FC_FILE_NONE || number >= shared->file_count ||
	    fc_index_set_of(shared, key) != set_number ||
	    !atomic_compare_exchange_strong(&set->meta[way], &untouched, claimed))
		return;
	fc_chunk_enter(shared, number, (uint32_t) key);
	atomic_store(&set->key[way], key);
	FC_POINT("record-claimed");

	/* Asleep or awake, but without a change of a range; see fc_stamp_wake(). */
	uint64_t generation = atomic_load(&fc_generations(shared)[number]);
	bool stands = generation == FROM_MAP ||
	              generation == FROM_MAP - FC_NUMBER_ASLEEP + FC_NUMBER_LIVE ||
	              FC_BROKEN(FILE_GENERATION);

	stands = stands &&
	         (atomic_load(&set->generation) == 0 || FC_BROKEN(SET_GENERATION));
	stands = stands && atomic_load(&shared->mode_word) == mode_word;
	FC_POINT("record-compared");
	if (stands &&
	    atomic_compare_exchange_strong(&set->meta[way], &claimed, valid))
		return;

	/* A change may have doomed the entry; it is ours to empty in any case. */
	uint64_t meta = atomic_load(&set->meta[way]);

	while (!atomic_compare_exchange_weak(&set->meta[way], &meta,
	                                     fc_meta_next(meta, FC_EMPTY, 0)))
		;
	fc_chunk_leave(shared, number, (uint32_t) key);
}

static bool
is_untouched(const FcSet *set)
{
	uint64_t any = atomic_load(&set->generation);

	for (unsigned way = 0; way < FC_WAYS; way++)
		any |= atomic_load(&set->meta[way]);
	return any == 0;
}

static void
take_record(FcCache *cache, uint32_t set_number, const FcDiskRecord *record)
{
	FcShared *shared = cache->shared;
	FcSet *set = fc_set(shared, set_number);
	uint64_t mode_word = atomic_load(&shared->mode_word);

	FC_ASSERT(set_number < shared->set_count);
	if ((record->nonce != shared->map_nonce && !FC_BROKEN(NONCE)) ||
	    record->set != set_number ||
	    (record->crc != fc_map_record_crc(record, fc_map_record_size(shared)) &&
	     !FC_BROKEN(CRC)) ||
	    fc_word_mode(mode_word) == FC_OFFLINE)
		return;

	if (is_untouched(set))
		memcpy(set->replacement_state, record + 1,
		       shared->set_size - sizeof(FcSet));
	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		if (record->valid & (1ULL << way))
			take_block(cache, set_number, way, record->key[way],
			           record->block_crc[way], mode_word);
	}
}

bool
fc_map_load_expects(const FcShared *shared, uint32_t set_number)
{
	uint32_t chunk;

	FC_ASSERT(set_number < shared->set_count);

	/* Relaxed: seen late, a block is filled into a set that would be loaded. */
	if (atomic_load_explicit(&shared->map_nonce, memory_order_relaxed) == 0 ||
	    atomic_load(&fc_set(shared, set_number)->generation) != 0)
		return false;
	chunk = set_number / shared->device_count /
	        (FC_MAP_CHUNK / fc_map_record_size(shared));
	return chunk >= atomic_load(&shared->map_next);
}

/* Take in a chunk of a file's records; false if there is none. */
static bool
load_chunk(FcCache *cache, uint32_t device, uint32_t chunk, char *buffer)
{
	FcShared *shared = cache->shared;
	uint32_t size = fc_map_record_size(shared);
	uint32_t per_chunk = fc_map_records_per_chunk(shared);
	uint32_t sets = fc_map_sets_of_file(shared);
	uint32_t first = chunk * per_chunk;
	char *room = buffer + FC_MAP_CHUNK;

	FC_ASSERT(device < shared->device_count && cache->token != 0);
	if (first >= sets)
		return false;
	if (cache->devices[device].fd < 0 ||
	    !fc_map_transfer(
			cache->devices[device].fd, buffer, FC_MAP_CHUNK,
			fc_map_records_begin(shared) + (off_t) chunk * FC_MAP_CHUNK, false))
		return true;
	for (uint32_t i = first; i < sets && i < first + per_chunk; i++)
	{
		memcpy(room, buffer + (size_t) (i - first) * size, size);
		take_record(cache, i * shared->device_count + device,
		            (const FcDiskRecord *) (void *) room);
	}
	return true;
}

bool
fc_map_load(FcCache *cache)
{
	FcShared *shared = cache->shared;
	uint32_t chunk = atomic_load(&shared->map_next);
	char *buffer = NULL;
	bool more = false;

	if (shared->map_nonce != 0 &&
	    fc_map_sets_of_file(shared) == shared->map_sets &&
	    !fc_geometry_moving(atomic_load(&shared->geometry)) &&
	    (cache->token != 0 || fc_process_begin(cache) == FC_OK))
		buffer = aligned_alloc(FC_IO_ALIGN, 2 * (size_t) FC_MAP_CHUNK);
	if (buffer == NULL)
	{
		/* The rest is given up: no set waits for it any more. */
		shared->map_nonce = 0;
		return false;
	}
	for (uint32_t i = 0; i < shared->device_count; i++)
		more |= load_chunk(cache, i, chunk, buffer);
	free(buffer);
	atomic_store(&shared->map_next, chunk + 1);
	if (!more)
		shared->map_nonce = 0;
	return more;
}
