/*
 * memory_test.c
 *		What a cached block costs in memory, all included.
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

int
main(void)
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
	return tap_done();
}
