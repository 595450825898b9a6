/*
 * count_test.c
 *		Counters add up over processes; times fall into the right bucket.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <sys/wait.h>

#include "support.h"
#include "tap.h"

enum
{
	COUNTERS_DEFINED = 0
#define FC_COUNTER(name, text) +1
#include "fcache/counters.def"
#undef FC_COUNTER
};

static void
test_counters(void)
{
	Rig rig;
	unsigned wrong = 0;

	rig_open(&rig, 64, 64);
	OK((int) COUNTERS_DEFINED == (int) FC_COUNTER_COUNT,
	   "every counter has its name");
	for (unsigned i = 0; i < FC_COUNTER_COUNT; i++)
		wrong += fc_count_sum(&rig.cache, (FcCounter) i) != 0;
	OK(wrong == 0, "counters begin at 0");

	for (unsigned i = 0; i < FC_COUNTER_COUNT; i++)
		fc_count(&rig.cache, (FcCounter) i, 1000 + i);
	for (unsigned i = 0; i < FC_COUNTER_COUNT; i++)
		wrong += fc_count_sum(&rig.cache, (FcCounter) i) != 1000 + i;
	OK(wrong == 0, "each counts by itself");
	fc_count(&rig.cache, FC_COUNT_hits, 1ULL << 40);
	OK(fc_count_sum(&rig.cache, FC_COUNT_hits) > 1ULL << 40, "and far");
	rig_close(&rig);
}

/* More processes than shards, all at once: nothing is lost. */
static void
test_processes(void)
{
	Rig rig;
	FcHistogram histogram;
	enum
	{
		PROCESSES = 12,
		EACH = 20000
	};

	rig_open(&rig, 64, 64);
	for (int i = 0; i < PROCESSES; i++)
	{
		pid_t child = fork();

		MUST(child >= 0);
		if (child == 0)
		{
			rig.cache.token = 0;
			(void) fc_process_begin(&rig.cache);
			if (i >= PROCESSES / 2)
				rig.cache.process = 3; /* on one shard, on purpose */
			for (int j = 0; j < EACH; j++)
			{
				fc_count(&rig.cache, FC_COUNT_hits, 1);
				fc_count_time(&rig.cache, FC_TIME_FLASH_READ, 5000);
			}
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	fc_count_histogram(&rig.cache, FC_TIME_FLASH_READ, &histogram);
	OK(fc_count_sum(&rig.cache, FC_COUNT_hits) == PROCESSES * EACH,
	   "no count of any process is lost");
	OK(histogram.count == PROCESSES * EACH &&
	       histogram.total_ns == 5000ULL * PROCESSES * EACH &&
	       histogram.bucket[2] == PROCESSES * EACH,
	   "and no time");
	rig_close(&rig);
}

static bool
falls_into(Rig *rig, FcTimer timer, uint64_t ns, unsigned bucket)
{
	FcHistogram before;
	FcHistogram after;

	fc_count_histogram(&rig->cache, timer, &before);
	fc_count_time(&rig->cache, timer, ns);
	fc_count_histogram(&rig->cache, timer, &after);
	return after.bucket[bucket] == before.bucket[bucket] + 1 &&
	       after.count == before.count + 1 &&
	       after.total_ns == before.total_ns + ns;
}

static void
test_buckets(void)
{
	Rig rig;
	FcHistogram other;

	rig_open(&rig, 64, 64);
	OK(falls_into(&rig, FC_TIME_FLASH_READ, 0, 0), "0 ns: the first bucket");
	OK(falls_into(&rig, FC_TIME_FLASH_READ, 1999, 0), "below 2 us: too");
	OK(falls_into(&rig, FC_TIME_FLASH_READ, 2000, 1), "2 us: the second");
	OK(falls_into(&rig, FC_TIME_FLASH_READ, 3999, 1), "below 4 us: too");
	OK(falls_into(&rig, FC_TIME_FLASH_READ, 4000, 2), "4 us: the third");
	OK(falls_into(&rig, FC_TIME_FLASH_READ, 1024000, 10), "1024 us: 2^10");
	OK(falls_into(&rig, FC_TIME_FLASH_READ, 1023999, 9), "just below: 2^9");
	OK(falls_into(&rig, FC_TIME_FLASH_READ, 3600000000000ULL,
	              FC_HISTOGRAM_BUCKETS - 1),
	   "an hour: the last one");
	fc_count_histogram(&rig.cache, FC_TIME_DISK_READ, &other);
	OK(other.count == 0, "each timer has its own");

	uint64_t then = fc_clock_ns();

	OK(fc_clock_ns() >= then && then > 0, "time does not run backwards");
	rig_close(&rig);
}

int
main(void)
{
	test_counters();
	test_processes();
	test_buckets();
	return tap_done();
}
