/*
 * count.c
 *		Counters and times.
 *
 * Processes add to one of a few shards, so that they do not fight for cache
 * lines; who wants a sum adds the shards up.  Sums are exact once everybody is
 * quiet, and never run backwards.  What is done to a device is counted for that
 * device (devices.c), and added to the cache's own counters here.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>
#include <time.h>

#include "devices.h"

static FcShard *
own_shard(FcCache *cache)
{
	return &fc_shards(cache->shared)[fc_own_shard(cache)];
}

static void
add(FcAtomic64 *counter, uint64_t amount)
{
	atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

uint64_t
fc_now_ns(void)
{
	struct timespec now;

#ifdef FC_TEST
	if (fc_test_now_ns != 0)
		return fc_test_now_ns += fc_test_tick_ns;
#endif
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000ULL + (uint64_t) now.tv_nsec;
}

void
fc_count(FcCache *cache, FcCounter counter, uint64_t amount)
{
	if (amount > 0)
		add(&own_shard(cache)->counter[counter], amount);
}

void
fc_time(FcCache *cache, FcTimer timer, uint64_t ns)
{
	FcShard *shard = own_shard(cache);
	uint64_t us = ns / 1000;
	unsigned bucket = us < 2 ? 0 : 63 - (unsigned) __builtin_clzll(us);

	if (bucket >= FC_HISTOGRAM_BUCKETS)
		bucket = FC_HISTOGRAM_BUCKETS - 1;
	add(&shard->timer[timer].total_ns, ns);
	add(&shard->timer[timer].bucket[bucket], 1);
}

uint64_t
fc_counter(const FcCache *cache, FcCounter counter)
{
	uint64_t sum = fc_devices_counter(cache, counter);

	for (uint32_t i = 0; i < cache->shared->shard_count; i++)
		sum +=
			atomic_load_explicit(&fc_shards(cache->shared)[i].counter[counter],
		                         memory_order_relaxed);
	return sum;
}

void
fc_histogram(const FcCache *cache, FcTimer timer, FcHistogram *out)
{
	memset(out, 0, sizeof(*out));
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
