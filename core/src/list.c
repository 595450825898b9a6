/*
 * list.c
 *		A list of what is cached, as bitmaps by file and heat.
 *
 * The index knows a block's set, not a file's blocks.  So one walk through all
 * sets appends each block, in four bytes, to its file's part of an array.  A
 * file's count of cached blocks, which is never too low (chunk.c), tells in
 * advance how large its part must be.  Then the bitmaps are made file by file,
 * each small enough for the processor's own cache.  The walk reads the index in
 * order and writes at the ends of as many parts as there are files, so it takes
 * hardly longer than reading the index does.
 *
 * Nothing is locked.  A block that enters or leaves the cache during the walk
 * may or may not be listed, and one that moves may be listed twice.  If a file
 * outgrows its part, its other blocks are not listed.  A number that was given
 * to another file is left out.  A list is a hint, so all of this is harmless.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "file.h"
#include "geometry.h"
#include "index.h"

/* A listed block: its number, and above that its heat. */
#define HEAT_SHIFT 30
#define BLOCK_MASK ((1U << HEAT_SHIFT) - 1)

_Static_assert(FC_HEATS <= 1 << (32 - HEAT_SHIFT), "a heat fits");

/* How many blocks a file can gain during the walk and still be listed. */
#define ROOM 64

/* A file number's part of the array. */
typedef struct ListFile
{
	FcFileId id;
	uint64_t first;
	uint32_t count;
	uint32_t room; /* 0: the number was not live */
} ListFile;

struct FcList
{
	const FcCache *cache;
	uint32_t set;    /* where the walk continues */
	uint32_t number; /* of the file whose bitmaps are next */
	unsigned heats;  /* how many of its heats are left */
	ListFile *file;
	uint32_t *block;
	uint64_t block_room;
};

/* Blocks of the file, as counted; after a crash the count may be anything. */
static uint32_t
counted(const FcCache *cache, uint32_t number)
{
	uint32_t blocks =
		atomic_load(&fc_files(cache->shared)[number].cached_blocks);
	uint32_t high = atomic_load(&fc_files(cache->shared)[number].high);

	return blocks < high ? blocks : high;
}

/* The room for a file's blocks. */
static uint64_t
room_of(const FcCache *cache, uint32_t number)
{
	uint32_t blocks = counted(cache, number);

	return blocks > 0 ? (uint64_t) blocks + ROOM : 0;
}

/* The room for blocks of all files together, however wrong the counts are. */
static uint64_t
room_of_all(const FcCache *cache)
{
	uint64_t room = 0;
	uint64_t room_max = fc_geometry_slot_count(cache);

	for (uint32_t number = 0; number < cache->shared->file_count; number++)
	{
		uint64_t of_file = room_of(cache, number);

		room += of_file;
		room_max += of_file > 0 ? ROOM : 0;
	}
	return room < room_max ? room : room_max;
}

size_t
fc_list_size(const FcCache *cache)
{
	return sizeof(FcList) + cache->shared->file_count * sizeof(ListFile) +
	       room_of_all(cache) * sizeof(uint32_t);
}

FcList *
fc_list_begin(const FcCache *cache, void *memory, size_t size)
{
	FcList *list = memory;
	uint32_t files = cache->shared->file_count;
	uint64_t used = 0;

	FC_ASSERT(size >= sizeof(FcList) + files * sizeof(ListFile));
	*list = (FcList){ .cache = cache, .heats = FC_HEATS };
	list->file = (ListFile *) (list + 1);
	list->block = (uint32_t *) (list->file + files);
	list->block_room =
		(size - sizeof(FcList) - files * sizeof(ListFile)) / sizeof(uint32_t);
	for (uint32_t number = 0; number < files; number++)
	{
		ListFile *file = &list->file[number];
		uint64_t left = list->block_room - used;
		uint64_t room = room_of(cache, number);
		FcFileInfo info;

		*file = (ListFile){ .first = used };
		if (!fc_file_info(cache, number, &info))
			continue;
		file->id = info.id;
		file->room = (uint32_t) (room < left ? room : left);
		used += file->room;
	}
	return list;
}

/* ---- the walk ------------------------------------------------------------ */

static void
append(FcList *list, uint64_t key, uint32_t slot)
{
	uint32_t number = fc_key_file(key);
	uint32_t block = (uint32_t) key;
	ListFile *file = &list->file[number];

	/* Before the audit a key may be anything. */
	if (number >= list->cache->shared->file_count ||
	    file->count >= file->room || block > BLOCK_MASK)
		return;
	list->block[file->first + file->count++] =
		block | (uint32_t) fc_claim_heat(list->cache, slot) << HEAT_SHIFT;
}

static void
walk_set(FcList *list, uint32_t number)
{
	const FcSet *set = fc_set(list->cache->shared, number);

	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		uint64_t meta = atomic_load(&set->meta[way]);
		uint64_t key = atomic_load(&set->key[way]);

		/* The key is this entry's only if the meta is unchanged. */
		if (fc_meta_serves(meta) && atomic_load(&set->meta[way]) == meta)
			append(list, key, number * FC_WAYS + way);
	}
}

bool
fc_list_walk(FcList *list, uint32_t sets)
{
	const FcShared *shared = list->cache->shared;

	FC_ASSERT(list->set <= shared->set_count);
	for (; sets > 0; sets--)
	{
		if (list->set >= fc_geometry_sets(atomic_load(&shared->geometry)))
			return false;
		walk_set(list, list->set++);
	}
	return true;
}

/* ---- the bitmaps --------------------------------------------------------- */

/* Make the bitmap of a file's blocks of one heat. */
static void
make_bitmap(const FcList *list, const ListFile *file, uint8_t *bitmap,
            uint32_t size, FcListPart *out)
{
	const uint32_t *block = &list->block[file->first];

	FC_ASSERT(file->count <= file->room);
	out->blocks = out->size = 0;
	memset(bitmap, 0, size);
	for (uint32_t i = 0; i < file->count; i++)
	{
		uint32_t at = (block[i] & BLOCK_MASK) / 8;
		uint8_t bit = (uint8_t) (1U << (block[i] % 8));

		if (block[i] >> HEAT_SHIFT != out->heat || at >= size ||
		    (bitmap[at] & bit) != 0)
			continue;
		bitmap[at] |= bit;
		out->blocks++;
		if (at >= out->size)
			out->size = at + 1;
	}
}

/* Does the number still belong to that file? */
static bool
same_file(const FcCache *cache, uint32_t number, const FcFileId *id)
{
	FcFileInfo info;

	return fc_file_info(cache, number, &info) &&
	       memcmp(&info.id, id, sizeof(*id)) == 0;
}

bool
fc_list_next(FcList *list, uint8_t *bitmap, uint32_t size, FcListPart *out)
{
	for (; list->number < list->cache->shared->file_count;
	     list->number++, list->heats = FC_HEATS)
	{
		const ListFile *file = &list->file[list->number];

		if (file->count == 0 ||
		    !same_file(list->cache, list->number, &file->id))
			continue;
		while (list->heats > 0)
		{
			out->id = file->id;
			out->heat = --list->heats;
			make_bitmap(list, file, bitmap, size, out);
			if (out->blocks > 0)
				return true;
		}
	}
	return false;
}
