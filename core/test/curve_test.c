/*
 * curve_test.c
 *		The miss-ratio curve against an exact one, which this test computes: for
 *		each request the number of other blocks since the block's last one
 *		(Mattson), by a tree of sums over all requests.
 *
 * Streams are made here, from a seed.  SEED=n makes others.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <math.h>

#include "curve_requests.h"
#include "tap.h"

#define HOUR_MS 3600000ULL

unsigned char memory[1 << 18] __attribute__((aligned(64)));

/* ---- an exact curve ------------------------------------------------------ */

typedef struct Exact
{
	uint32_t requests;
	uint32_t blocks;
	uint32_t *hits; /* requests whose distance is this */
} Exact;

static void
tree_add(uint32_t *tree, uint32_t size, uint32_t place, int32_t amount)
{
	for (; place <= size; place += place & -place)
		tree[place] += (uint32_t) amount;
}

static uint32_t
tree_sum(const uint32_t *tree, uint32_t place)
{
	uint32_t sum = 0;

	for (; place > 0; place -= place & -place)
		sum += tree[place];
	return sum;
}

/* Blocks are numbers below blocks. */
static Exact
exact_curve(const uint32_t *stream, uint32_t requests, uint32_t blocks)
{
	Exact exact = { requests, blocks, calloc(blocks + 1, sizeof(uint32_t)) };
	uint32_t *tree = calloc(requests + 1, sizeof(uint32_t));
	uint32_t *last = calloc(blocks, sizeof(uint32_t));

	for (uint32_t i = 1; i <= requests; i++)
	{
		uint32_t block = stream[i - 1];

		if (last[block] != 0)
		{
			exact.hits[tree_sum(tree, i - 1) - tree_sum(tree, last[block])]++;
			tree_add(tree, requests, last[block], -1);
		}
		tree_add(tree, requests, i, 1);
		last[block] = i;
	}
	free(tree);
	free(last);
	return exact;
}

static double
exact_ratio(const Exact *exact, uint32_t size)
{
	uint64_t hits = 0;

	for (uint32_t i = 0; i < size && i <= exact->blocks; i++)
		hits += exact->hits[i];
	return (double) hits / exact->requests;
}

/*
 * Mean and largest error over 32 sizes, evenly up to all blocks.  slack: a
 * curve with a cliff may have it at a size that is off by this part.
 */
static void
compare(const FcCurveReading *reading, const Exact *exact, double slack,
        double *mean_out, double *max_out)
{
	*mean_out = 0;
	*max_out = 0;
	for (uint32_t i = 1; i <= 32; i++)
	{
		uint32_t size = (uint32_t) ((uint64_t) exact->blocks * i / 32);
		double got = fc_curve_hit_ratio(reading, size);
		double low = exact_ratio(exact, (uint32_t) (size * (1 - slack)));
		double high = exact_ratio(exact, (uint32_t) (size * (1 + slack)));
		double error = got < low ? low - got : got > high ? got - high : 0;

		*mean_out += error / 32;
		if (error > *max_out)
			*max_out = error;
	}
}

/* ---- streams ------------------------------------------------------------- */

static FcCurve
new_curve(uint32_t tracked_max)
{
	FcCurve curve;

	MUST(fc_curve_memory_size(tracked_max) <= sizeof(memory));
	memset(memory, 0, sizeof(memory));
	MUST(fc_curve_attach(&curve, memory, tracked_max) == FC_OK);
	return curve;
}

/*
 * Skewed: the k-th of blocks is asked for about k^-0.5 times as often.  Below a
 * buffer pool there is no block that makes up a tenth of the stream; one that
 * did would be in the sample or not, and no sample could tell.
 */
static uint32_t
skewed(Random *random, uint32_t blocks)
{
	double u = (random_next(random) >> 11) * 0x1p-53;

	return (uint32_t) (blocks * u * u) % blocks;
}

static uint32_t *
stream_of(Random *random, const char *kind, uint32_t requests, uint32_t blocks)
{
	uint32_t *stream = calloc(requests, sizeof(uint32_t));

	for (uint32_t i = 0; i < requests; i++)
	{
		if (strcmp(kind, "skewed") == 0)
			stream[i] = skewed(random, blocks);
		else if (strcmp(kind, "uniform") == 0)
			stream[i] = random_below(random, blocks);
		else if (strcmp(kind, "loop") == 0)
			stream[i] = i % blocks;
		else /* a skewed part, and scans of the rest */
			stream[i] = i % 10000 < 7000 ? skewed(random, blocks / 2)
			                             : blocks / 2 + i % (blocks / 2);
	}
	return stream;
}

static void
test_against_exact(Random *random)
{
	static const struct
	{
		const char *kind;
		uint32_t blocks;
		uint32_t tracked_max;
		double slack;
		double mean; /* error allowed */
		double max;
	} cases[] = {
		{ "skewed", 1500, 2048, 0, 1e-3, 3e-3 }, /* all are tracked */
		{ "uniform", 1500, 2048, 0, 1e-3, 3e-3 },
		{ "skewed", 60000, 8192, 0, 0.01, 0.03 },
		{ "skewed", 60000, 2048, 0, 0.02, 0.05 },
		{ "uniform", 60000, 8192, 0, 0.01, 0.03 },
		{ "scans", 60000, 8192, 0.04, 0.01, 0.03 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		uint32_t requests = 300000;
		uint32_t blocks = cases[i].blocks;
		uint32_t *stream = stream_of(random, cases[i].kind, requests, blocks);
		Exact exact = exact_curve(stream, requests, blocks);
		FcCurve curve = new_curve(cases[i].tracked_max);
		FcCurveReading reading;
		double mean;
		double max;

		for (uint32_t j = 0; j < requests; j++)
			request(&curve, stream[j], START_MS);
		fc_curve_read_at(&curve, &reading, START_MS);
		compare(&reading, &exact, cases[i].slack, &mean, &max);
		OK(mean <= cases[i].mean && max <= cases[i].max,
		   "%s stream of %u blocks, %u tracked: mean error %.4f, largest %.4f",
		   cases[i].kind, blocks, cases[i].tracked_max, mean, max);
		OK(reading.tracked <= cases[i].tracked_max, "no more are tracked");
		free(stream);
		free(exact.hits);
	}
}

static void
test_loop(void)
{
	FcCurve curve = new_curve(8192);
	FcCurveReading reading;

	fc_curve_read_at(&curve, &reading, START_MS);
	OK(fc_curve_hit_ratio(&reading, 1000) < 0,
	   "memory of all zeros knows nothing");

	for (uint32_t i = 0; i < 100000; i++)
		request(&curve, i % 1000, START_MS);
	fc_curve_read_at(&curve, &reading, START_MS);

	/* Distances above 512 share buckets of 16. */
	OK(fc_curve_hit_ratio(&reading, 980) == 0,
	   "a loop of 1000 blocks never hits in a cache of 980");
	OK(fabs(fc_curve_hit_ratio(&reading, 1008) - 0.99) < 1e-9,
	   "... and always but the first time in one of 1008");
}

/* ---- it follows the workload --------------------------------------------- */

static void
test_half_life(void)
{
	FcCurve curve = new_curve(2048);
	FcCurveReading reading;
	uint64_t now = START_MS;

	/* 4 hours of one block, then an hour of a loop over 600. */
	for (int i = 0; i < 14400; i++, now += 1000)
		request(&curve, 1, now);
	for (int i = 0; i < 3600; i++, now += 1000)
		request(&curve, 1000 + (uint32_t) i % 600, now);
	fc_curve_read_at(&curve, &reading, now);

	/* What the first part weighs: (1 - 1/16) / 2 against 1/2. */
	double share = (15.0 / 32) / (15.0 / 32 + 0.5);

	OK(fabs(fc_curve_hit_ratio(&reading, 100) - share) < 0.03,
	   "after an hour the old weighs half: %.3f of %.3f",
	   fc_curve_hit_ratio(&reading, 100), share);
	OK(fabs(reading.requests_per_second - 1) < 0.01,
	   "the rate is one a second: %.4f", reading.requests_per_second);

	for (int i = 0; i < 6 * 3600; i++, now += 1000)
		request(&curve, 1000 + (uint32_t) i % 600, now);
	fc_curve_read_at(&curve, &reading, now);
	OK(fc_curve_hit_ratio(&reading, 100) < 0.02 &&
	       fc_curve_hit_ratio(&reading, 700) > 0.98,
	   "after some hours only the new is left");

	/* No requests: the rate falls, what is known stays. */
	fc_curve_read_at(&curve, &reading, now + HOUR_MS);
	OK(reading.requests_per_second > 0.4 && reading.requests_per_second < 0.6,
	   "an hour of rest halves the rate: %.3f", reading.requests_per_second);
	fc_curve_read_at(&curve, &reading, now + 24 * HOUR_MS);
	OK(fc_curve_hit_ratio(&reading, 700) < 0 && reading.tracked == 0,
	   "a day of rest leaves nothing");
}

static void
test_sample_grows_again(Random *random)
{
	FcCurve curve = new_curve(2048);
	FcCurveReading reading;
	uint64_t now = START_MS;
	double small;
	double exact;

	/* One large scan, once... */
	for (uint32_t i = 0; i < 3000000; i++)
		request(&curve, 1000000 + i, now);
	fc_curve_read_at(&curve, &reading, now);
	small = reading.sample_rate;
	OK(small < 0.001, "a scan of 3 million blocks makes the sample small: %.5f",
	   small);

	/* ... then for 20 hours the same 3000 blocks at random. */
	for (uint32_t i = 0; i < 20 * 12000; i++, now += 300)
	{
		request(&curve, random_below(random, 3000), now);
		if (i % 1200 == 0)
			fc_curve_read_at(&curve, &reading, now);
	}
	fc_curve_read_at(&curve, &reading, now);
	OK(reading.sample_rate > 100 * small,
	   "once they are forgotten the sample is large: %.3f",
	   reading.sample_rate);

	/* Of n blocks at random, a cache of c hits c / n. */
	exact = 1000.0 / 3000;
	OK(fabs(fc_curve_hit_ratio(&reading, 1000) - exact) < 0.05,
	   "... and the curve is right: %.3f of %.3f",
	   fc_curve_hit_ratio(&reading, 1000), exact);
	OK(fc_curve_hit_ratio(&reading, 3200) > 0.98,
	   "... up to the end: %.3f, so nothing that was known counts as new",
	   fc_curve_hit_ratio(&reading, 3200));
}

/*
 * Just after the sample has grown, its new blocks are not counted.  Compared
 * with a curve that never had to shrink; returns the largest difference.
 */
static double
error_while_growing(Random *random)
{
	static unsigned char other_memory[1 << 18] __attribute__((aligned(64)));
	FcCurve curve = new_curve(2048);
	FcCurve other;
	uint64_t now = START_MS;
	double worst = 0;

	memset(other_memory, 0, sizeof(other_memory));
	MUST(fc_curve_attach(&other, other_memory, 8192) == FC_OK);

	/* A scan; nearly all of it is forgotten when hour 8 comes. */
	for (uint32_t i = 0; i < 100000; i++)
		request(&curve, 1000000 + i, now);
	now += 4 * HOUR_MS;
	for (uint32_t i = 0; i < 8 * 20000; i++, now += 180)
	{
		uint32_t block = random_below(random, 20000);

		request(&curve, block, now);
		request(&other, block, now);
		if (i >= 80000 && i % 2000 == 0)
		{
			FcCurveReading grown;
			FcCurveReading right;

			fc_curve_read_at(&curve, &grown, now);
			fc_curve_read_at(&other, &right, now);
			/*
			 * Not near the end, where the sample's 400 blocks say 5 % more or
			 * less.
			 */
			for (uint32_t size = 2000; size <= 32000; size += 10000)
			{
				double error = fabs(fc_curve_hit_ratio(&grown, size) -
				                    fc_curve_hit_ratio(&right, size));

				if (error > worst)
					worst = error;
			}
		}
	}
	return worst;
}

static void
test_growing(Random *random)
{
	double error = error_while_growing(random);

	OK(error < 0.1, "while the sample grows the curve stays right: %.3f off",
	   error);
	fc_test_broken = FC_BREAK(CURVE_FRONTIER);
	error = error_while_growing(random);
	fc_test_broken = 0;
	OK(error > 0.15, "(control) were all counted at once it would be %.3f off",
	   error);
}

/* ---- what its memory may contain, sizes, times -------------------------- */

/* Whatever the memory holds: no crash, no endless loop. */
static void
test_garbage(Random *random)
{
	FcCurve curve = new_curve(2048);
	size_t size = fc_curve_memory_size(2048);
	FcCurveReading reading;

	for (int round = 0; round < 50; round++)
	{
		uint64_t now = START_MS + (uint64_t) round * 10000;

		for (uint32_t i = 0; i < 20000; i++)
			request(&curve, random_below(random, 6000), now);
		for (int i = 0; i < 200; i++)
			memory[random_below(random, (uint32_t) size)] =
				(unsigned char) random_next(random);
	}
	fc_curve_read_at(&curve, &reading, UINT64_MAX / 4);
	OK(true, "a curve whose memory is overwritten now and then goes on");
}

static void
test_sizes(void)
{
	FcCurve curve;

	OK(fc_curve_memory_size(fc_curve_tracked_for(131072)) <= 131072 * 3 / 2,
	   "1.5 bytes a block are enough for a cache of 1 GB");
	OK(fc_curve_memory_size(fc_curve_tracked_for(64)) < 48 * 1024,
	   "a small cache has a small curve");
	OK(fc_curve_memory_size(fc_curve_tracked_for(1ULL << 40)) <= 200 * 1000,
	   "and a large one no more than 200 kB");
	OK(fc_curve_attach(&curve, memory, 3000) == FC_INVALID &&
	       fc_curve_attach(&curve, memory, 16384) == FC_INVALID,
	   "sizes that cannot work are refused");
}

static void
test_times(void)
{
	FcCurve curve = new_curve(2048);
	FcCurveReading reading;

	request(&curve, 1, START_MS);
	fc_curve_disk_read(&curve, 1, 6000000);
	fc_curve_disk_read(&curve, 1, 8000000);
	fc_curve_disk_read(&curve, 4, 6000000);
	fc_curve_disk_read(&curve, 16, 4000000);
	fc_curve_flash_read(&curve, 8, 400000);
	fc_curve_count(&curve, 1, 33);
	fc_curve_count(&curve, 2, 33);
	fc_curve_read_at(&curve, &reading, START_MS + 10000);
	OK(fabs(reading.disk_read_ms[FC_CURVE_ALONE] - 7) < 1e-9,
	   "disk: 7 ms for a block alone");
	OK(fabs(reading.disk_read_ms[FC_CURVE_IN_RUNS] - 0.5) < 1e-9,
	   "... and 10 ms for 20 blocks in runs");
	OK(reading.flash_read_ms[FC_CURVE_ALONE] == 0 &&
	       fabs(reading.flash_read_ms[FC_CURVE_IN_RUNS] - 0.05) < 1e-9,
	   "flash: 0.4 ms for a run of 8, and nothing is known of blocks alone");
	OK(fabs(reading.run_share - 2.0 / 3) < 1e-9,
	   "33 blocks alone and 33 pairs: two thirds in runs");
	OK(fabs(reading.requests_per_second - 9.9) < 1e-9,
	   "requests since the clock began: %.2f a second",
	   reading.requests_per_second);
}

int
main(void)
{
	Random random = { (uint64_t) from_environment("SEED", 1) };

	test_loop();
	test_against_exact(&random);
	test_half_life();
	test_sample_grows_again(&random);
	test_growing(&random);
	test_garbage(&random);
	test_sizes();
	test_times();
	return tap_done();
}
