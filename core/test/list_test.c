/*
 * list_test.c
 *		A list of what is cached has the blocks that are cached, and no others.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "blocks.h"
#include "tap.h"

#define SLOTS  4096
#define FILES  64
#define BITMAP 1024

static Rig rig;

/* What a list says: of each relation and heat, whether it has the block. */
typedef struct Listed
{
	FcList *list;
	uint8_t bitmap[BITMAP];
	FcListPart part;
	uint32_t parts;
	uint64_t blocks;
} Listed;

static Listed listed;

static void
begin_list(void)
{
	size_t size = fc_list_size(&rig.cache);
	void *memory = malloc(size);

	MUST(memory != NULL);
	memset(memory, 0xa5, size);
	memset(&listed, 0, sizeof(listed));
	listed.list = fc_list_begin(&rig.cache, memory, size);
}

static void
walk(void)
{
	while (fc_list_walk(listed.list, 7))
		;
}

static bool
next_part(uint32_t size)
{
	memset(listed.bitmap, 0xa5, sizeof(listed.bitmap));
	if (!fc_list_next(listed.list, listed.bitmap, size, &listed.part))
		return false;
	listed.parts++;
	listed.blocks += listed.part.blocks;
	return true;
}

static bool
has(uint32_t block)
{
	return (listed.bitmap[block / 8] >> (block % 8) & 1) != 0;
}

static uint32_t
bits(uint32_t size)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < size; i++)
		count += (uint32_t) __builtin_popcount(listed.bitmap[i]);
	return count;
}

static void
end_list(void)
{
	free(listed.list);
}

/* Are all blocks of the present part cached? */
static bool
part_is_cached(void)
{
	FcFile file = fc_file(listed.part.id);
	bool good = fc_file_resolve(&rig.cache, &file);

	for (uint32_t block = 0; good && block < listed.part.size * 8; block++)
		good = !has(block) || fc_read_would_hit(&rig.cache, &file, block);
	return good && bits(listed.part.size) == listed.part.blocks &&
	       listed.bitmap[listed.part.size - 1] != 0;
}

static void
test_empty(void)
{
	rig_open(&rig, SLOTS, FILES);
	begin_list();
	walk();
	OK(!next_part(BITMAP), "an empty cache has an empty list");
	end_list();
	rig_close(&rig);
}

static void
test_all(Random *random)
{
	bool cached = true;

	rig_open(&rig, SLOTS, FILES);
	for (uint32_t relation = 1; relation <= 5; relation++)
	{
		FcFile file = entered(&rig, relation);

		for (int i = 0; i < 300; i++)
			IGNORE(rig_put(&rig, &file, random_below(random, 8 * BITMAP)));
		change_blocks(&rig.cache, &file, 100, 200);
	}
	begin_list();
	walk();
	while (next_part(BITMAP))
		cached &= part_is_cached();
	OK(cached, "every block that is listed is cached");
	OK(listed.blocks == fc_file_used_slots(&rig.cache) && listed.blocks > 1000,
	   "every block that is cached is listed");
	OK(!next_part(BITMAP), "after the last part there is none");
	end_list();
	rig_close(&rig);
}

static void
test_heat(void)
{
	FcFile file;
	bool right = true;

	rig_open(&rig, SLOTS, FILES);
	file = entered(&rig, 1);
	for (uint32_t block = 0; block < 16; block++)
		MUST(rig_put(&rig, &file, block));
	for (int i = 0; i < 10; i++)
		MUST(look(&rig, &file, 3) == FC_OK);
	begin_list();
	walk();
	MUST(next_part(BITMAP));
	OK(listed.part.heat == FC_HEATS - 1 && listed.part.blocks == 1 && has(3),
	   "the block that was read most comes first");
	MUST(next_part(BITMAP));
	for (uint32_t block = 0; block < 16; block++)
		right &= has(block) == (block != 3);
	OK(listed.part.heat == 0 && right, "then the others");
	end_list();
	rig_close(&rig);
}

static void
test_changes_meanwhile(void)
{
	FcFile file;
	FcFile gone;

	rig_open(&rig, SLOTS, FILES);
	file = entered(&rig, 1);
	gone = entered(&rig, 2);
	MUST(rig_put(&rig, &file, 0) && rig_put(&rig, &gone, 0));
	begin_list();
	for (uint32_t block = 1; block < 1000; block++)
		IGNORE(rig_put(&rig, &file, block));
	walk();
	fc_file_retire(&rig.cache, gone.id);
	MUST(next_part(BITMAP));
	OK(listed.part.id.relation == 1 && listed.part.blocks >= 2 &&
	       listed.part.blocks < 1000 && part_is_cached(),
	   "a file that grows in the cache is listed as far as there is room");
	OK(!next_part(BITMAP), "a file that is dropped is left out");
	end_list();
	rig_close(&rig);
}

static void
test_small_bitmap(void)
{
	FcFile file;

	rig_open(&rig, SLOTS, FILES);
	file = entered(&rig, 1);
	for (uint32_t block = 0; block < 32; block++)
		MUST(rig_put(&rig, &file, block));
	begin_list();
	walk();
	OK(next_part(2) && listed.part.blocks == 16 && listed.part.size == 2,
	   "a bitmap that is too small has the blocks that fit");
	OK(listed.bitmap[2] == 0xa5, "and nothing is written behind it");
	end_list();
	rig_close(&rig);
}

static void
test_files_without_blocks(void)
{
	FcFile file;

	rig_open(&rig, SLOTS, FILES);
	for (uint32_t relation = 1; relation <= FILES / 2; relation++)
		file = entered(&rig, relation);
	MUST(rig_put(&rig, &file, 0));
	begin_list();
	walk();
	OK(next_part(BITMAP) && listed.part.id.relation == FILES / 2 &&
	       !next_part(BITMAP),
	   "files without blocks take no room from those that have some");
	end_list();
	rig_close(&rig);
}

/* In memory that outlived a crash the counts may hold anything. */
static void
test_wrong_counts(void)
{
	FcFile file;

	rig_open(&rig, SLOTS, FILES);
	file = entered(&rig, 1);
	for (uint32_t block = 0; block < 32; block++)
		MUST(rig_put(&rig, &file, block));
	for (uint32_t number = 0; number < FILES; number++)
	{
		atomic_store(&fc_files(rig.cache.shared)[number].cached_blocks,
		             UINT32_MAX);
		atomic_store(&fc_files(rig.cache.shared)[number].high, UINT32_MAX);
	}
	begin_list();
	walk();
	OK(fc_list_size(&rig.cache) < 64U * SLOTS && next_part(BITMAP) &&
	       listed.part.blocks <= 32,
	   "wrong counts neither need memory without limit nor add blocks");
	end_list();
	rig_close(&rig);
}

int
main(void)
{
	Random random = { .state = 5 };

	test_empty();
	test_all(&random);
	test_heat();
	test_changes_meanwhile();
	test_small_bitmap();
	test_files_without_blocks();
	test_wrong_counts();
	return tap_done();
}
