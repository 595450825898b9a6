/*
 * list.c
 *		What a list of all cached blocks costs, for a cache of 100 GB.
 *
 *	list [BLOCKS]
 *
 * Beside it, the least that it could cost, which is to read every entry of the
 * index once, and asking for the block of each slot alone, as
 * pgflash_cache_blocks() does.  The blocks are a third of each of their files.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static unsigned long blocks_of_cache = 100UL * 1024 * 1024 / 8;

#define MEASURE_CALLS blocks_of_cache

#include "../measure.h"
#include "die.h"
#include "fcache/life.h"
#include "geometry.h"
#include "index.h"
#include "read.h"

#define FILE_BLOCKS 131072 /* of 1 GB */
#define EVERY       3

typedef struct Bench
{
	FcCache cache;
	FcDevice device;
	uint64_t listed;
	size_t list_size;
	uint64_t bitmap_bytes;
} Bench;

static volatile uint64_t sink;

/* ---- the candidates ------------------------------------------------------ */

static void
read_index(void *context)
{
	Bench *bench = context;
	const FcShared *shared = bench->cache.shared;

	for (uint32_t number = 0; number < shared->set_count; number++)
	{
		const FcSet *set = fc_set(shared, number);

		for (unsigned way = 0; way < FC_WAYS; way++)
			sink += atomic_load(&set->meta[way]) ^ atomic_load(&set->key[way]);
	}
}

static void
list_all(void *context)
{
	static uint8_t bitmap[FILE_BLOCKS / 8];
	Bench *bench = context;
	size_t size = fc_list_size(&bench->cache);
	void *memory = malloc(size);
	FcListPart part;
	FcList *list;

	if (memory == NULL)
		die("reserve memory");
	list = fc_list_begin(&bench->cache, memory, size);
	while (fc_list_walk(list, 1024))
		;
	bench->listed = bench->bitmap_bytes = 0;
	bench->list_size = size;
	while (fc_list_next(list, bitmap, sizeof(bitmap), &part))
	{
		bench->listed += part.blocks;
		bench->bitmap_bytes += part.size;
	}
	free(memory);
}

static void
ask_slots(void *context)
{
	Bench *bench = context;
	uint32_t slots = fc_geometry_slot_count(&bench->cache);
	uint32_t block;
	FcFileId id;

	for (uint32_t slot = 0; slot < slots; slot++)
	{
		if (fc_read_slot_block(&bench->cache, slot, &id, &block))
			sink += id.relation + block;
	}
}

/* ---- the cache ----------------------------------------------------------- */

static void
fill(Bench *bench)
{
	uint32_t blocks = (uint32_t) blocks_of_cache;
	uint32_t per_file = FILE_BLOCKS / EVERY;
	FcFile file = { 0 };
	FcTicket ticket;
	FcSeen seen;

	for (uint32_t i = 0; i < blocks; i++)
	{
		if (i % per_file == 0)
		{
			file = fc_file((FcFileId){ 1663, 5, 16384 + i / per_file, 0, 0 });
			must(fc_file_enter(&bench->cache, &file), "enter a file");
		}
		if (fc_read_look_up(&bench->cache, &file, i % per_file * EVERY, &ticket,
		                    &seen) == FC_MISS &&
		    fc_claim(&bench->cache, &ticket, &seen) == FC_OK)
			must(fc_claim_publish(&bench->cache, &ticket, &seen, FC_VALID, 0),
			     "publish");
	}
}

static void
make(Bench *bench)
{
	FcConfig config = { .slot_count =
		                    (uint32_t) (blocks_of_cache + FC_WAYS - 1) /
		                    FC_WAYS * FC_WAYS,
		                .process_count = 64,
		                .replacement = &fc_replacement_gittins };
	size_t size = fc_cache_memory_needed(&config);
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("reserve memory");
	must(fc_cache_create(&bench->cache, memory, &config, &bench->device),
	     "make a cache");
	must(fc_mode_set(&bench->cache, FC_SERVE, FC_REASON_NONE), "serve");
	fill(bench);
}

int
main(int argc, char **argv)
{
	static Bench bench;
	static Figure figures[] = {
		{ .name = "read the index", .work = read_index },
		{ .name = "list", .work = list_all },
		{ .name = "ask for each slot", .work = ask_slots },
	};
	double seconds;

	if (argc > 1)
		blocks_of_cache = strtoul(argv[1], NULL, 10);
	if (argc > 2 || blocks_of_cache == 0 || blocks_of_cache > UINT32_MAX / 2)
	{
		fputs("Usage: list [BLOCKS]\n", stderr);
		return 2;
	}
	make(&bench);
	measure(figures, 3, &bench);
	seconds = figures[1].median * (double) blocks_of_cache / 1e9;
	printf("%-18s %-34s %9s   %s\n", "blocks", "what", "median ns",
	       "quartiles");
	printf("%-18lu ns of CPU for each block\n", blocks_of_cache);
	measure_print(figures, 3, "", false);
	printf("\nblocks listed                  %lu\n"
	       "list / read the index          %.2f\n"
	       "seconds for the list           %.2f\n"
	       "share of a core, every minute  %.1f %%\n"
	       "memory meanwhile               %.1f MB\n"
	       "bitmaps                        %.1f MB\n",
	       (unsigned long) bench.listed, figures[1].median / figures[0].median,
	       seconds, seconds / 60 * 100, (double) bench.list_size / 1024 / 1024,
	       (double) bench.bitmap_bytes / 1024 / 1024);
	return 0;
}
