/*
 * count.c
 *		Counters and times.
 *
 * Processes add to one of a few shards, so that they do not compete for cache
 * lines; a sum adds up the shards.  Sums are exact once all processes are
 * quiet, and never run backwards.
 *
 * Memory orders: all accesses are relaxed.  Nothing is looked up by a counter,
 * and no other word is judged by it.  An addition is one atomic step, so none
 * is lost; and a process that reads the same counter again never finds an older
 * value.  Two counters may be seen in either order of their additions.
 *
 * What happens on a device is counted for that device, in one line for each
 * shard and device.  The cache's own flash counters are sums of these.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "count.h"

static FcShard *
own_shard(FcCache *cache)
{
	uint32_t shard = FC_BROKEN(SHARDS) ? 0 : fc_own_shard(cache);

	return &fc_shards(cache->shared)[shard];
}

/* Relaxed, like all accesses here: see above. */
static void
add(FcAtomic64 *counter, uint64_t amount)
{
	atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

void
fc_count(FcCache *cache, FcCounter counter, uint64_t amount)
{
	FC_ASSERT(counter < FC_COUNTER_COUNT);
	if (amount > 0)
		add(&own_shard(cache)->counter[counter], amount);
}

void
fc_count_time(FcCache *cache, FcTimer timer, uint64_t ns)
{
	FcShard *shard = own_shard(cache);
	uint64_t us = ns / 1000;
	unsigned bucket = us < 2 ? 0 : 63 - (unsigned) __builtin_clzll(us);

	FC_ASSERT(timer < FC_TIMER_COUNT);
	if (bucket >= FC_HISTOGRAM_BUCKETS)
		bucket = FC_HISTOGRAM_BUCKETS - 1;
	add(&shard->timer[timer].total_ns, ns);
	add(&shard->timer[timer].bucket[bucket], 1);
}

/* ---- of each device ---------------------------------------------------- */

static FcDeviceShard *
shard_of(const FcShared *shared, uint32_t shard, uint32_t device)
{
	FC_ASSERT(shard < shared->shard_count && device < shared->device_count);
	return &fc_device_shards(shared)[shard * shared->device_count + device];
}

void
fc_count_device(FcCache *cache, uint32_t device, FcDeviceCounter counter,
                uint64_t amount)
{
	FcDeviceShard *shard = shard_of(cache->shared, fc_own_shard(cache), device);

	/* Relaxed: see above. */
	atomic_fetch_add_explicit(&shard->counter[counter], amount,
	                          memory_order_relaxed);
}

uint64_t
fc_count_sum_of_device(const FcShared *shared, uint32_t device,
                       FcDeviceCounter counter)
{
	uint64_t sum = 0;

	/* Relaxed: see above. */
	for (uint32_t i = 0; i < shared->shard_count; i++)
		sum +=
			atomic_load_explicit(&shard_of(shared, i, device)->counter[counter],
		                         memory_order_relaxed);
	return sum;
}

/* ---- sums -------------------------------------------------------------- */

/* What all devices together add to one of the cache's counters. */
static uint64_t
sum_of_devices(const FcCache *cache, FcCounter counter)
{
	static const struct
	{
		FcCounter of_cache;
		FcDeviceCounter of_device;
		uint32_t times;
	} sums[] = {
		{ FC_COUNT_flash_reads, FC_DEVICE_READS, 1 },
		{ FC_COUNT_flash_read_bytes, FC_DEVICE_READS_DONE, FC_BLOCK_SIZE },
		{ FC_COUNT_flash_read_bytes, FC_DEVICE_READS_AHEAD, FC_BLOCK_SIZE },
		{ FC_COUNT_flash_read_errors, FC_DEVICE_READ_ERRORS, 1 },
		{ FC_COUNT_read_timeouts, FC_DEVICE_READ_TIMEOUTS, 1 },
		{ FC_COUNT_flash_writes, FC_DEVICE_WRITES, 1 },
		{ FC_COUNT_flash_write_bytes, FC_DEVICE_WRITES_DONE, FC_BLOCK_SIZE },
		{ FC_COUNT_flash_write_errors, FC_DEVICE_WRITE_ERRORS, 1 },
		{ FC_COUNT_corrupt_slots, FC_DEVICE_CORRUPT, 1 },
	};
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
	{
		if (sums[i].of_cache != counter)
			continue;
		for (uint32_t j = 0; j < cache->shared->device_count; j++)
			sum += fc_count_sum_of_device(cache->shared, j, sums[i].of_device) *
			       sums[i].times;
	}
	return sum;
}

uint64_t
fc_count_sum(const FcCache *cache, FcCounter counter)
{
	uint64_t sum = sum_of_devices(cache, counter);

	FC_ASSERT(counter < FC_COUNTER_COUNT);

	/* Relaxed: see above. */
	for (uint32_t i = 0; i < cache->shared->shard_count; i++)
		sum +=
			atomic_load_explicit(&fc_shards(cache->shared)[i].counter[counter],
		                         memory_order_relaxed);
	return sum;
}

void
fc_count_histogram(const FcCache *cache, FcTimer timer, FcHistogram *out)
{
	FC_ASSERT(timer < FC_TIMER_COUNT);
	memset(out, 0, sizeof(*out));

	/* Relaxed: see above.  The total may lag a few reads behind the buckets. */
	for (uint32_t i = 0; i < cache->shared->shard_count; i++)
	{
		FcShard *shard = &fc_shards(cache->shared)[i];

		out->total_ns += atomic_load_explicit(&shard->timer[timer].total_ns,
		                                      memory_order_relaxed);
		for (int j = 0; j < FC_HISTOGRAM_BUCKETS; j++)
		{
			uint64_t count = atomic_load_explicit(
				&shard->timer[timer].bucket[j], memory_order_relaxed);

			out->bucket[j] += count;
			out->count += count;
		}
	}
}
