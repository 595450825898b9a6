/*
 * memory_test.c
 *		What a cached block costs in memory, all included; what of it is touched.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "support.h"
#include "tap.h"

#define MB_SLOTS (1024U * 1024 / FC_BLOCK_SIZE)

/* A server with a hundred connections, striped over one or 16 files. */
static double
bytes_a_block(uint64_t mb, uint32_t devices)
{
	FcConfig config = { .slot_count = (uint32_t) (mb * MB_SLOTS / 1024 * 1024),
		                .device_count = devices,
		                .process_count = 200,
		                .policy = &fc_policy_gittins };

	return (double) fc_cache_memory_size(&config) / config.slot_count;
}

static void
test_costs(void)
{
	static const struct
	{
		uint64_t mb;
		double limit; /* bytes */
	} sizes[] = { { 200, 44 },       { 1024, 28 },       { 1500, 28 },
		          { 10 * 1024, 28 }, { 100 * 1024, 28 }, { 1000 * 1024, 28 } };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		double one = bytes_a_block(sizes[i].mb, 1);
		double many = bytes_a_block(sizes[i].mb, 16);

		OK(one > 16 && one <= sizes[i].limit && many <= sizes[i].limit + 1,
		   "%lu MB: %.2f bytes a block, over 16 files %.2f",
		   (unsigned long) sizes[i].mb, one, many);
	}

	/* Memory is laid out for the maximum, and only what is used is touched. */
	FcConfig small = { .slot_count = 1024 * MB_SLOTS,
		               .process_count = 200,
		               .policy = &fc_policy_gittins };
	FcConfig growing = small;
	FcConfig large = small;

	growing.slot_count_max = large.slot_count = 4096 * MB_SLOTS;
	OK(fc_cache_memory_size(&growing) == fc_cache_memory_size(&large) &&
	       fc_cache_memory_size(&growing) > fc_cache_memory_size(&small),
	   "a cache that may grow takes the memory of the largest size");
}

/* The size is the truth: nothing behind it is touched. */
static void
test_nothing_behind(void)
{
	FcConfig config = { .slot_count = 64,
		                .file_count = 64,
		                .process_count = 2,
		                .policy = &fc_policy_lfu };
	size_t size = fc_cache_memory_size(&config);
	unsigned char *memory = aligned_alloc(64, (size + 127) / 64 * 64);
	MemoryDevice flash;
	FcCache cache;

	MUST(memory != NULL);
	memset(memory, 0xa5, (size + 127) / 64 * 64);
	memset(memory, 0, size);
	memory_device_open(&flash, 64);
	MUST(fc_cache_create(&cache, memory, &config, &flash.device) == FC_OK);
	OK(fc_memory_size(&cache) == size && memory[size] == 0xa5 &&
	       fc_slot_count(&cache) == 64 && fc_used_slots(&cache) == 0,
	   "a new cache is empty and keeps to its size");

	FcCache again;

	OK(fc_cache_create(&again, memory, &config, &flash.device) == FC_INVALID,
	   "memory that holds a cache already is refused");
	fc_cache_close(&cache);
	free(memory);
	munmap(flash.bytes, flash.size);
}

/* Pages of memory that are there, not only promised. */
static size_t
resident_pages(void *memory, size_t size)
{
	size_t pages = (size + 4095) / 4096;
	unsigned char *there = malloc(pages);
	size_t count = 0;

	MUST(there != NULL && mincore(memory, size, there) == 0);
	for (size_t i = 0; i < pages; i++)
		count += there[i] & 1;
	free(there);
	return count;
}

/* The size of an index must not cost the start of a server anything. */
static void
test_creation_writes_the_head_only(void)
{
	FcConfig config = { .slot_count = 100U << 17, /* of 8 KB: 100 GB */
		                .process_count = 1000,
		                .policy = &fc_policy_lfu };
	size_t size = fc_cache_memory_size(&config);
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t start = fc_now_ns();
	MemoryDevice flash;
	FcCache cache;

	MUST(memory != MAP_FAILED);
	memory_device_open(&flash, FC_WAYS);
	MUST(fc_cache_create(&cache, memory, &config, &flash.device) == FC_OK);
	printf("# %.2f ms for a cache of 100 GB, %zu bytes of memory\n",
	       (double) (fc_now_ns() - start) / 1e6, size);
	OK(resident_pages(memory, size) <= 2,
	   "making a cache of 100 GB writes the head of its memory");

	FcFile file = fc_file(file_id(7));

	OK(fc_mode_set(&cache, FC_SERVE, FC_REASON_NONE) == FC_OK &&
	       fc_file_enter(&cache, &file) == FC_OK && file.number != 0 &&
	       !fc_cached(&cache, &file, 0),
	   "the untouched rest is an empty dictionary and an empty index");
	fc_cache_close(&cache);
	munmap(memory, size);
	munmap(flash.bytes, flash.size);
}

int
main(void)
{
	test_costs();
	test_nothing_behind();
	test_creation_writes_the_head_only();
	return tap_done();
}
