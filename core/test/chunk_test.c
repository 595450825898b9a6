/*
 * chunk_test.c
 *		What is cached of a file: chunk counters, and range operations that use
 *		them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <time.h>

#include "support.h"
#include "tap.h"

#define FILES 64

/* Does each number's count cover what the index holds of it? */
static bool
counts_cover_index(const FcShared *shared)
{
	uint32_t held[FILES] = { 0 };
	bool good = true;

	MUST(shared->file_count <= FILES);
	for (uint32_t i = 0; i < shared->set_count; i++)
	{
		FcSet *set = fc_set(shared, i);

		for (unsigned way = 0; way < FC_WAYS; way++)
		{
			if (fc_meta_state(atomic_load(&set->meta[way])) != FC_EMPTY)
				held[fc_key_file(atomic_load(&set->key[way]))]++;
		}
	}
	for (uint32_t i = 0; i < shared->file_count; i++)
	{
		uint32_t counted = atomic_load(&fc_files(shared)[i].cached_blocks);

		good &= counted >= held[i] && counted <= UINT32_MAX / 2;
	}
	return good;
}

/* Does each chunk counter cover what the index holds of its chunks? */
static bool
chunks_cover_index(const Rig *rig)
{
	FcShared *shared = rig->cache.shared;
	uint32_t *held = calloc(shared->chunk_count, sizeof(*held));
	bool good = true;

	MUST(held != NULL);
	for (uint32_t i = 0; i < shared->set_count; i++)
	{
		FcSet *set = fc_set(shared, i);

		for (unsigned way = 0; way < FC_WAYS; way++)
		{
			uint64_t key = atomic_load(&set->key[way]);
			uint64_t hash = fc_mix(((uint64_t) fc_key_file(key) << 32) |
			                       ((uint32_t) key / FC_CHUNK_BLOCKS));

			if (fc_meta_state(atomic_load(&set->meta[way])) != FC_EMPTY)
				held[hash & (shared->chunk_count - 1)]++;
		}
	}
	for (uint32_t i = 0; i < shared->chunk_count; i++)
	{
		uint32_t counted = atomic_load(&fc_chunks(shared)[i]);

		good &= counted >= held[i] && counted <= UINT32_MAX / 2;
	}
	free(held);
	return good && counts_cover_index(shared);
}

/* What may happen to a block of a file: mostly, it is read and filled. */
static void
do_something(Rig *rig, FcFile *of, Random *random)
{
	static Page page;
	uint32_t block = random_below(random, 6000);
	FcTicket ticket;
	FcChange change;
	FcSeen claim;

	switch (random_below(random, 12))
	{
		default:
			if (fc_file_enter(&rig->cache, of) == FC_OK)
				(void) rig_put(rig, of, block);
			break;
		case 0:
			fc_change_begin(&rig->cache, of, block, 1, &change);
			fc_change_end(&rig->cache, of, &change);
			(void) fc_change_fill(&rig->cache, &change, &page);
			break;
		case 1:
			if (one_in(random, 20))
				change_blocks(&rig->cache, of, block, FC_BLOCKS_ALL);
			break;
		case 2:
			if (one_in(random, 20))
				fc_file_retire(&rig->cache, of->id);
			break;
		case 3:
			/* A claim that is left behind, as by a killed process. */
			if (fc_file_enter(&rig->cache, of) == FC_OK &&
			    fc_read(&rig->cache, of, block, &page, &ticket) == FC_MISS)
				IGNORE(fc_claim(&rig->cache, &ticket, &claim));
			break;
		case 4:
			rig->flash.write_fault = FAULT_EIO;
			if (one_in(random, 300))
				fc_cache_clear(&rig->cache);
			else if (fc_count_sum(&rig->cache, FC_COUNT_flash_write_errors) <
			         20)
				(void) rig_put(rig, of, block);
			rig->flash.write_fault = FAULT_NONE;
			break;
	}
}

static void
test_chunks(Random *random)
{
	Rig rig;
	FcFile file[8];
	bool covered = true;

	rig_open(&rig, 256, 8); /* one number too few: some are displaced */
	for (uint32_t i = 0; i < 8; i++)
		file[i] = fc_file(file_id(i));

	for (int step = 0; step < 20000; step++)
	{
		do_something(&rig, &file[random_below(random, 8)], random);
		if (step % 50 == 0)
			covered &= chunks_cover_index(&rig);
	}
	MUST(fc_mode(&rig.cache, NULL) == FC_SERVE);
	OK(covered, "chunk counters are never below what the index holds");

	for (uint32_t i = 0; i < 8; i++)
		fc_file_retire(&rig.cache, file[i].id);

	uint32_t valid = 0;

	for (uint32_t i = 0; i < 256; i++)
		valid +=
			fc_meta_state(atomic_load(
				&fc_set(rig.cache.shared, i / FC_WAYS)->meta[i % FC_WAYS])) ==
			FC_VALID;
	OK(valid == 0, "so that dropping every file leaves nothing behind");
	rig_close(&rig);
}

/* A large file with few cached blocks: dropping it looks at few entries. */
static void
test_invalidation_walks_what_is_cached(void)
{
	Rig rig;
	FcChange change;

	rig_open(&rig, 4096, FILES);

	FcFile file = entered(&rig, 7);

	MUST(rig_put(&rig, &file, 0) && rig_put(&rig, &file, 100000000));

	clock_t start = clock();

	fc_change_begin(&rig.cache, &file, 0, FC_BLOCKS_ALL, &change);

	double took_s = (double) (clock() - start) / CLOCKS_PER_SEC;

	fc_change_end(&rig.cache, &file, &change);
	printf("# %.1f ms of CPU time for two cached blocks of a file of "
	       "763 GB\n",
	       1000 * took_s);
	OK(fc_file_used_slots(&rig.cache) == 0, "both are forgotten");
	OK(took_s < 5, "without walking a hundred million blocks");

	/* Spread over more chunks than there are slots: the index is walked. */
	uint32_t put_in = 0;

	for (uint32_t i = 0; i < 200; i++)
		put_in += rig_put(&rig, &file, i * FC_CHUNK_BLOCKS + i);
	MUST(put_in == 0);
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
	for (uint32_t i = 0; i < 200; i++)
		put_in += rig_put(&rig, &file, i * FC_CHUNK_BLOCKS + i);
	MUST(put_in == 200);
	change_blocks(&rig.cache, &file, 5 * FC_CHUNK_BLOCKS,
	              100 * FC_CHUNK_BLOCKS);
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);

	unsigned wrong = 0;

	for (uint32_t i = 0; i < 200; i++)
		wrong +=
			fc_read_would_hit(&rig.cache, &file, i * FC_CHUNK_BLOCKS + i) !=
			(i < 5 || i >= 105);
	OK(wrong == 0, "a range of many chunks goes, and nothing beside it");
	rig_close(&rig);
}

static void
test_ends_of_ranges(void)
{
	Rig rig;

	rig_open(&rig, 4096, FILES);

	FcFile file = entered(&rig, 7);
	uint32_t blocks[] = { 0, 1023, 1024, 1025, 5000, UINT32_MAX - 2 };

	for (int i = 0; i < 6; i++)
		MUST(rig_put(&rig, &file, blocks[i]));

	change_blocks(&rig.cache, &file, 1024, UINT32_MAX - 10);
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);

	unsigned wrong = 0;

	for (int i = 0; i < 6; i++)
		wrong += fc_read_would_hit(&rig.cache, &file, blocks[i]) !=
		         (blocks[i] < 1024);
	OK(wrong == 0,
	   "a range that would end past the last block goes to the end");

	MUST(rig_put(&rig, &file, 1024) && rig_put(&rig, &file, UINT32_MAX - 2));
	change_blocks(&rig.cache, &file, 1023, 1);
	OK(!fc_read_would_hit(&rig.cache, &file, 1023) &&
	       fc_read_would_hit(&rig.cache, &file, 1024),
	   "one block is one block at the border of a chunk");
	change_blocks(&rig.cache, &file, UINT32_MAX - 2, FC_BLOCKS_ALL);
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
	OK(!fc_read_would_hit(&rig.cache, &file, UINT32_MAX - 2) &&
	       fc_read_would_hit(&rig.cache, &file, 1024),
	   "the last block of all can be cut off");
	rig_close(&rig);
}

/* One more block than a file can have: one past it would wrap to 0. */
static void
test_no_such_block(void)
{
	Rig rig;

	rig_open(&rig, 256, FILES);

	FcFile file = entered(&rig, 7);

	MUST(rig_put(&rig, &file, 500));
	OK(!rig_put(&rig, &file, UINT32_MAX), "no file has a block 2^32 - 1");
	change_blocks(&rig.cache, &file, 100, FC_BLOCKS_ALL);
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
	OK(!fc_read_would_hit(&rig.cache, &file, 500),
	   "and asking for it does not hide the others from a truncation");
	rig_close(&rig);
}

int
main(void)
{
	Random random = { .state = 20 };

	test_chunks(&random);
	test_invalidation_walks_what_is_cached();
	test_ends_of_ranges();
	test_no_such_block();
	return tap_done();
}
