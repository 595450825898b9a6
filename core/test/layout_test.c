/*
 * layout_test.c
 *		What a cached block costs in memory, everything included; what part is
 *		touched.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "fcache/curve.h"
#include "support.h"
#include "tap.h"

#define MB_SLOTS (1024U * 1024 / FC_BLOCK_SIZE)

/*
 * From here on a block takes no more; below, all shared arrays have a minimum
 * size.
 */
#define LIMIT_MB    768
#define LIMIT_BYTES 28
#define FLOOR_BYTES (448 * 1024)
#define BLOCK_BYTES 22

/* A server with a hundred connections, with the memory for advice. */
static size_t
memory_of(uint32_t slots, uint32_t devices)
{
	FcConfig config = { .slot_count = slots,
		                .device_count = devices,
		                .process_count = 200,
		                .replacement = &fc_replacement_gittins };

	return fc_cache_memory_needed(&config) +
	       fc_curve_memory_size(fc_curve_tracked_for(slots));
}

/* Every possible size up to 2 GB, then fewer. */
static void
test_limit(uint32_t devices)
{
	const uint32_t smallest = FC_WAYS * devices;
	double worst = 0;
	uint32_t worst_slots = 0;
	uint32_t small_above = 0;
	uint32_t sizes = 0;

	for (uint64_t slots = smallest; slots < INT32_MAX;
	     slots +=
	     slots < 2048 * MB_SLOTS ? smallest : slots / 100 / smallest * smallest)
	{
		size_t memory = memory_of((uint32_t) slots, devices);
		double each = (double) memory / (double) slots;

		MUST(each > 16);
		small_above += memory > BLOCK_BYTES * slots + FLOOR_BYTES &&
		               slots < LIMIT_MB * MB_SLOTS;
		if (slots >= LIMIT_MB * MB_SLOTS && each > worst)
		{
			worst = each;
			worst_slots = (uint32_t) slots;
		}
		sizes++;
	}
	OK(sizes > 4096 / devices && worst > 16 && worst <= LIMIT_BYTES,
	   "over %u files, from %u MB on: at most %.2f bytes a block (%.1f MB)",
	   devices, LIMIT_MB, worst, (double) worst_slots / MB_SLOTS);
	OK(small_above == 0, "below: at most %d, and %d kB", BLOCK_BYTES,
	   FLOOR_BYTES / 1024);
}

static void
test_costs(void)
{
	test_limit(1);
	test_limit(2);
	test_limit(16);

	/* Memory is laid out for the maximum, and only what is used is touched. */
	FcConfig small = { .slot_count = 1024 * MB_SLOTS,
		               .process_count = 200,
		               .replacement = &fc_replacement_gittins };
	FcConfig growing = small;
	FcConfig large = small;

	growing.slot_count_max = large.slot_count = 4096 * MB_SLOTS;
	OK(fc_cache_memory_needed(&growing) == fc_cache_memory_needed(&large) &&
	       fc_cache_memory_needed(&growing) > fc_cache_memory_needed(&small),
	   "a cache that may grow takes the memory of the largest size");
}

/* The size is exact: nothing beyond it is touched. */
static void
test_nothing_behind(void)
{
	FcConfig config = { .slot_count = 64,
		                .file_count = 64,
		                .process_count = 2,
		                .replacement = &fc_replacement_lfu };
	size_t size = fc_cache_memory_needed(&config);
	size_t allocated = (size + 2 * FC_IO_ALIGN - 1) / FC_IO_ALIGN * FC_IO_ALIGN;
	unsigned char *memory = aligned_alloc(FC_IO_ALIGN, allocated);
	MemoryDevice flash;
	FcCache cache;

	MUST(memory != NULL);
	memset(memory, 0xa5, allocated);
	memset(memory, 0, size);
	memory_device_open(&flash, 64);
	MUST(fc_cache_create(&cache, memory, &config, &flash.device) == FC_OK);
	OK(fc_cache_memory_size(&cache) == size && memory[size] == 0xa5 &&
	       fc_geometry_slot_count(&cache) == 64 &&
	       fc_file_used_slots(&cache) == 0,
	   "a new cache is empty and keeps to its size");

	FcCache again;

	OK(fc_cache_create(&again, memory + 64, &config, &flash.device) ==
	       FC_INVALID,
	   "memory that is not aligned for direct I/O is refused");
	OK(fc_cache_create(&again, memory, &config, &flash.device) == FC_INVALID,
	   "memory that holds a cache already is refused");
	fc_cache_close(&cache);
	free(memory);
	munmap(flash.bytes, flash.size);
}

/* Pages of memory that are present, not only promised. */
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

/* A large index must not slow down the start of a server. */
static void
test_creation_writes_the_head_only(void)
{
	FcConfig config = { .slot_count = 100U << 17, /* of 8 KB: 100 GB */
		                .process_count = 1000,
		                .replacement = &fc_replacement_lfu };
	size_t size = fc_cache_memory_needed(&config);
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t start = fc_clock_ns();
	MemoryDevice flash;
	FcCache cache;

	MUST(memory != MAP_FAILED);
	memory_device_open(&flash, FC_WAYS);
	MUST(fc_cache_create(&cache, memory, &config, &flash.device) == FC_OK);
	printf("# %.2f ms for a cache of 100 GB, %zu bytes of memory\n",
	       (double) (fc_clock_ns() - start) / 1e6, size);
	OK(resident_pages(memory, size) <= 2,
	   "making a cache of 100 GB writes the head of its memory");

	FcFile file = fc_file(file_id(7));

	OK(fc_mode_set(&cache, FC_SERVE, FC_REASON_NONE) == FC_OK &&
	       fc_file_enter(&cache, &file) == FC_OK && file.number != 0 &&
	       !fc_read_would_hit(&cache, &file, 0),
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
