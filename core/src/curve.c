/*
 * curve.c
 *		The miss-ratio curve, live, from a sample of fixed size (SHARDS).
 *
 * A cache that evicts the least recently requested block hits if the number of
 * other blocks requested since the last request is smaller than its size.  So
 * one histogram of these reuse distances gives the hit ratio of every size at
 * once.  To make that affordable, only blocks whose hash is high enough are
 * tracked ("the sample"); a distance within the sample, divided by the sample's
 * rate, is the distance.  When the sample has more than tracked_max blocks, the
 * bar is raised and the blocks below it are forgotten.  Method: Waldspurger et
 * al., FAST'15, without the correction of the first bucket, which makes things
 * worse on database streams.
 *
 * curve_stack.c keeps their order and counts how many lie between two requests.
 *
 * The curve follows the workload: every 5 minutes all weights shrink a little,
 * to half in an hour; a block not requested for 8 hours is forgotten.  If that
 * leaves the tables half empty, the bar is lowered.  Blocks that enter the
 * sample that way have an unknown past.  Their requests only mark positions and
 * are not counted until all blocks known before (below the frontier) are either
 * renewed or forgotten.  A distance that spans the frontier is the sum of two
 * parts, each divided by its own rate.
 *
 * Locking: the counters of requests need none.  Only the process that holds the
 * lock changes anything else; one that does not get it skips the request, which
 * is a sample anyway.  The lock is the time at which it was taken.  If it was
 * held for 10 seconds, its owner is dead or stopped, and the next process takes
 * it and starts over.  An owner that finds on release that it was robbed marks
 * the curve as damaged, and the next one starts over.  Two processes at work at
 * once can therefore mix up figures for a while, but nothing else: every
 * position is masked and every loop bounded.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "curve_stack.h"

#include <sched.h>
#include <string.h>
#include <time.h>

/* All blocks, as a count of values that the upper half of a hash can have. */
#define RATE_ONE (1ULL << 32)

/* The bar is raised by this part of the sample at a time... */
#define RAISE_PART 16

/* ... and at most to a sample of 1 in 4 million: 275 TB are tracked then. */
#define RATE_MIN 1024ULL

/* A request counts 1 / rate, with so many binary places. */
#define WEIGHT_SHIFT 10

/* Weights after 5 minutes: 2^(-1/12), in 65536ths. */
#define TICK_MS    300000ULL
#define TICK_KEEPS 61857ULL
#define HOUR_TICKS 12

/* No live process holds the lock that long. */
#define LOCK_MS_MAX 10000

/* How long a view waits for it. */
#define READ_WAIT_MS 2000

#define BUCKETS_LINEAR 32
#define BUCKETS_EACH   32 /* for each doubling */

/* ---- memory -------------------------------------------------------------- */

uint32_t
fc_curve_tracked_for(uint64_t cache_blocks)
{
	uint32_t tracked = FC_CURVE_TRACKED_MIN;

	while (tracked < FC_CURVE_TRACKED_MAX && tracked <= cache_blocks / 48)
		tracked *= 2;
	FC_ASSERT((tracked & (tracked - 1)) == 0 &&
	          tracked <= FC_CURVE_TRACKED_MAX);
	return tracked;
}

size_t
fc_curve_memory_size(uint32_t tracked_max)
{
	size_t words = 2 * (size_t) tracked_max;

	words += words / 64 + words / (64 * GROUP_WORDS);
	return sizeof(FcCurveShared) + words * sizeof(uint64_t);
}

FcStatus
fc_curve_attach(FcCurve *curve, void *memory, uint32_t tracked_max)
{
	if (tracked_max < FC_CURVE_TRACKED_MIN ||
	    tracked_max > FC_CURVE_TRACKED_MAX ||
	    (tracked_max & (tracked_max - 1)) != 0)
		return FC_INVALID;

	*curve = (FcCurve){ .shared = memory, .tracked_max = tracked_max };
	return FC_OK;
}

static void
start_over(const FcCurve *curve)
{
	FcCurveShared *shared = curve->shared;
	size_t start = offsetof(FcCurveShared, counted_bar);

	memset((char *) shared + start, 0,
	       fc_curve_memory_size(curve->tracked_max) - start);
	atomic_store(&shared->bar, 0);
	atomic_store(&shared->robbed, 0);
}

/* ---- lock ---------------------------------------------------------------- */

static uint64_t
coarse_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static bool
try_lock(const FcCurve *curve, uint64_t now_ms)
{
	FcCurveShared *shared = curve->shared;
	uint64_t holder = atomic_load(&shared->lock);

	if (holder != 0 && (int64_t) (now_ms + 1 - holder) <= (int64_t) LOCK_MS_MAX)
		return false;
	if (!atomic_compare_exchange_strong(&shared->lock, &holder, now_ms + 1))
		return false;
	FC_POINT("curve-locked");

	/* Start over: what a dead owner left half done is not worth repairing. */
	if (holder != 0 && !FC_BROKEN(CURVE_TAKEOVER))
		start_over(curve);
	if (atomic_load(&shared->robbed) != 0 ||
	    shared->tracked > curve->tracked_max ||
	    shared->next > fc_curve_stack_positions(curve))
		start_over(curve);
	return true;
}

static void
unlock(const FcCurve *curve, uint64_t taken_ms)
{
	uint64_t mine = taken_ms + 1;

	if (!atomic_compare_exchange_strong(&curve->shared->lock, &mine, 0))
		atomic_store(&curve->shared->robbed, 1);
}

/* ---- the sample ---------------------------------------------------------- */

static uint64_t
rate_of(uint32_t bar)
{
	return RATE_ONE - bar;
}

/* There are too many blocks: take a smaller sample. */
static void
raise_bar(const FcCurve *curve)
{
	FcCurveShared *shared = curve->shared;
	uint64_t rate = rate_of(atomic_load(&shared->bar));
	uint32_t bar = (uint32_t) (RATE_ONE - (rate - rate / RAISE_PART));

	if (rate < RATE_MIN)
		return;
	fc_curve_stack_forget_below(curve, bar, 0);
	atomic_store(&shared->bar, bar);

	/* Everything left was in the sample all along. */
	if (bar >= shared->counted_bar)
	{
		shared->counted_bar = bar;
		shared->frontier = 0;
	}
}

/*
 * There are few blocks: take a larger sample, and count its new blocks later.
 */
static void
lower_bar(const FcCurve *curve)
{
	FcCurveShared *shared = curve->shared;
	uint32_t bar = atomic_load(&shared->bar);
	uint64_t rate = rate_of(bar);

	if (fc_curve_stack_rank(curve, shared->frontier) == 0)
	{
		shared->counted_bar = bar;
		shared->frontier = 0;
	}
	if (bar == 0 || bar != shared->counted_bar ||
	    shared->tracked >= curve->tracked_max / 2)
		return;

	rate = rate * (curve->tracked_max / 4 * 3) /
	       (shared->tracked > 0 ? shared->tracked : 1);
	if (rate > RATE_ONE)
		rate = RATE_ONE;
	shared->frontier = shared->next;
	bar = (uint32_t) (RATE_ONE - rate);
	atomic_store(&shared->bar, bar);
	if (FC_BROKEN(CURVE_FRONTIER))
	{
		shared->frontier = 0;
		shared->counted_bar = bar;
	}
}

/* ---- time ---------------------------------------------------------------- */

static uint64_t
shrunk(uint64_t x)
{
	return x / 65536 * TICK_KEEPS + x % 65536 * TICK_KEEPS / 65536;
}

static void
shrink(FcCurveShared *shared)
{
	for (int i = 0; i < FC_CURVE_BUCKETS; i++)
		shared->distance[i] = shrunk(shared->distance[i]);
	shared->beyond = shrunk(shared->beyond);
	for (int kind = 0; kind < FC_CURVE_KINDS; kind++)
	{
		for (int i = 0; i < FC_CURVE_FIGURES; i++)
			shared->window.of[kind][i] = shrunk(shared->window.of[kind][i]);
	}
	shared->window.ms = shrunk(shared->window.ms);
}

/* Add to the window what was counted since the last look. */
static void
gather(FcCurveShared *shared, uint64_t now_ms)
{
	FcCurveSums now = { .ms = now_ms };

	for (int kind = 0; kind < FC_CURVE_KINDS; kind++)
	{
		for (int i = 0; i < FC_CURVE_FIGURES; i++)
		{
			for (int shard = 0; shard < FC_CURVE_SHARDS; shard++)
				now.of[kind][i] +=
					atomic_load(&shared->counts[shard].of[kind][i]);
			shared->window.of[kind][i] +=
				now.of[kind][i] - shared->seen.of[kind][i];
		}
	}
	shared->window.ms += now.ms - shared->seen.ms;
	shared->seen = now;
}

static void
pass_hour(const FcCurve *curve)
{
	FcCurveShared *shared = curve->shared;

	fc_curve_stack_forget_below(curve, 0, shared->hour[FC_CURVE_HOURS - 1]);
	memmove(shared->hour + 1, shared->hour,
	        (FC_CURVE_HOURS - 1) * sizeof(shared->hour[0]));
	shared->hour[0] = shared->next;
	lower_bar(curve);
}

/* Do what became due since the last call. */
static void
age(const FcCurve *curve, uint64_t now_ms)
{
	FcCurveShared *shared = curve->shared;

	/* Nothing happened for so long that no known block is left. */
	if (shared->tick_ms != 0 &&
	    now_ms > shared->tick_ms + (FC_CURVE_HOURS + 1) * HOUR_TICKS * TICK_MS)
		start_over(curve);
	if (shared->tick_ms == 0)
	{
		/* Counts from before the clock began have no known time. */
		gather(shared, now_ms);
		memset(&shared->window, 0, sizeof(shared->window));
		shared->tick_ms = now_ms;
	}
	while (now_ms >= shared->tick_ms + TICK_MS)
	{
		shared->tick_ms += TICK_MS;
		gather(shared, shared->tick_ms);
		shrink(shared);
		if (++shared->ticks >= HOUR_TICKS)
		{
			shared->ticks = 0;
			pass_hour(curve);
		}
	}
}

/* ---- requests ------------------------------------------------------------ */

uint64_t
fc_curve_file_hash(FcFileId id)
{
	uint32_t words[sizeof(id) / sizeof(uint32_t)];
	uint64_t hash = 0;

	memcpy(words, &id, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		hash = fc_mix(hash ^ (words[i] + 0x9e3779b97f4a7c15ULL));
	return hash;
}

/* Add to a figure of the requests that ask for so many blocks at once. */
static void
add(FcCurve *curve, uint64_t blocks, FcCurveFigure figure, uint64_t amount)
{
	FcCurveKind kind = blocks == 1 ? FC_CURVE_ALONE : FC_CURVE_IN_RUNS;
	FcCurveCounts *counts =
		&curve->shared->counts[curve->shard % FC_CURVE_SHARDS];

	FC_ASSERT(blocks > 0 && figure < FC_CURVE_FIGURES);

	/* Relaxed: sums from which only means are computed, seen late or not. */
	atomic_fetch_add_explicit(&counts->of[kind][figure], amount,
	                          memory_order_relaxed);
}

void
fc_curve_count(FcCurve *curve, uint64_t blocks, uint64_t times)
{
	add(curve, blocks, FC_CURVE_REQUESTS, blocks * times);
}

void
fc_curve_disk_read(FcCurve *curve, uint64_t blocks, uint64_t ns)
{
	add(curve, blocks, FC_CURVE_DISK_BLOCKS, blocks);
	add(curve, blocks, FC_CURVE_DISK_NS, ns);
}

void
fc_curve_flash_read(FcCurve *curve, uint64_t blocks, uint64_t ns)
{
	add(curve, blocks, FC_CURVE_FLASH_BLOCKS, blocks);
	add(curve, blocks, FC_CURVE_FLASH_NS, ns);
}

/*
 * Relaxed: a filter.  Once the lock is taken, which acquires what its last
 * holder stored, fc_curve_note_at() asks again, and that answer is exact.
 */
bool
fc_curve_wants(const FcCurve *curve, uint64_t hash)
{
	return (uint32_t) (hash >> 32) >=
	       atomic_load_explicit(&curve->shared->bar, memory_order_relaxed);
}

static uint32_t
bucket_of(uint64_t distance)
{
	uint32_t doublings;
	uint32_t bucket;

	if (distance < BUCKETS_LINEAR)
		return (uint32_t) distance;
	doublings = 63 - (uint32_t) __builtin_clzll(distance) - 5;
	bucket = BUCKETS_LINEAR + doublings * BUCKETS_EACH +
	         (uint32_t) (distance >> doublings) - BUCKETS_EACH;
	return bucket < FC_CURVE_BUCKETS ? bucket : FC_CURVE_BUCKETS - 1;
}

/* The least distance that a bucket counts. */
static uint64_t
bucket_begin(uint32_t bucket)
{
	uint32_t doublings;

	FC_ASSERT(bucket <= FC_CURVE_BUCKETS);
	if (bucket < BUCKETS_LINEAR)
		return bucket;
	doublings = (bucket - BUCKETS_LINEAR) / BUCKETS_EACH;
	return (uint64_t) (BUCKETS_EACH + bucket % BUCKETS_EACH) << doublings;
}

/* Blocks requested after the one at this position, in and out of the sample. */
static uint64_t
distance_since(const FcCurve *curve, uint32_t position)
{
	FcCurveShared *shared = curve->shared;
	uint64_t newer = shared->tracked - fc_curve_stack_rank(curve, position) - 1;
	uint64_t older = 0;

	if (position < shared->frontier)
	{
		uint64_t behind =
			shared->tracked - fc_curve_stack_rank(curve, shared->frontier);

		older = newer - behind;
		newer = behind;
	}
	return newer * RATE_ONE / rate_of(atomic_load(&shared->bar)) +
	       older * RATE_ONE / rate_of(shared->counted_bar);
}

static void
note(const FcCurve *curve, uint64_t hash)
{
	FcCurveShared *shared = curve->shared;
	uint64_t name = fc_curve_stack_name(hash);
	uint64_t weight;
	uint64_t *sum = &shared->beyond;
	uint32_t place;

	if (shared->next >= fc_curve_stack_positions(curve))
		fc_curve_stack_renumber(curve);

	place = fc_curve_stack_find(curve, name);
	if (fc_curve_stack_places(curve)[place] == 0)
	{
		if (shared->tracked >= curve->tracked_max)
		{
			raise_bar(curve);
			place = fc_curve_stack_find(curve, name);
		}
		if (shared->tracked >= curve->tracked_max ||
		    !fc_curve_wants(curve, hash))
			return;
		shared->tracked++;
	}
	else
	{
		uint32_t position =
			fc_curve_stack_position(curve, fc_curve_stack_places(curve)[place]);

		sum = &shared->distance[bucket_of(distance_since(curve, position))];
		fc_curve_stack_clear_bit(curve, position);
	}

	if ((uint32_t) (hash >> 32) >= shared->counted_bar)
	{
		weight = (RATE_ONE << WEIGHT_SHIFT) / rate_of(shared->counted_bar);
		*sum += weight;
	}
	fc_curve_stack_places(curve)[place] = name | (shared->next & POSITION_MASK);
	fc_curve_stack_set_bit(curve, shared->next);
	shared->next++;
}

void
fc_curve_note_at(FcCurve *curve, uint64_t hash, uint64_t now_ms)
{
	if (!try_lock(curve, now_ms))
		return;

	/* The bar may have moved since the caller looked, or move now. */
	age(curve, now_ms);
	if (fc_curve_wants(curve, hash))
		note(curve, hash);
	unlock(curve, now_ms);
}

void
fc_curve_note(FcCurve *curve, uint64_t hash)
{
	fc_curve_note_at(curve, hash, coarse_ms());
}

/* ---- readings ------------------------------------------------------------ */

static double
mean_ms(uint64_t ns, uint64_t blocks)
{
	return blocks > 0 ? (double) ns / (double) blocks / 1e6 : 0;
}

static void
take_reading(const FcCurve *curve, FcCurveReading *out)
{
	FcCurveShared *shared = curve->shared;
	const FcCurveSums *window = &shared->window;
	double requests = 0;

	memcpy(out->distance, shared->distance, sizeof(out->distance));
	out->beyond = shared->beyond;
	out->tracked = shared->tracked;
	out->sample_rate =
		(double) rate_of(shared->counted_bar) / (double) RATE_ONE;
	out->seconds = (double) window->ms / 1000;
	for (int kind = 0; kind < FC_CURVE_KINDS; kind++)
	{
		const uint64_t *of = window->of[kind];

		requests += (double) of[FC_CURVE_REQUESTS];
		out->disk_read_ms[kind] =
			mean_ms(of[FC_CURVE_DISK_NS], of[FC_CURVE_DISK_BLOCKS]);
		out->flash_read_ms[kind] =
			mean_ms(of[FC_CURVE_FLASH_NS], of[FC_CURVE_FLASH_BLOCKS]);
	}
	if (window->ms > 0)
		out->requests_per_second = requests / out->seconds;
	if (requests > 0)
		out->run_share =
			(double) window->of[FC_CURVE_IN_RUNS][FC_CURVE_REQUESTS] / requests;
}

void
fc_curve_read_at(FcCurve *curve, FcCurveReading *out, uint64_t now_ms)
{
	memset(out, 0, sizeof(*out));
	if (!try_lock(curve, now_ms))
		return;
	age(curve, now_ms);
	gather(curve->shared, now_ms);
	take_reading(curve, out);
	unlock(curve, now_ms);
}

void
fc_curve_read(FcCurve *curve, FcCurveReading *out)
{
	/*
	 * The lock is held for less than a millisecond unless its owner is not
	 * running.
	 */
	uint64_t deadline_ms = coarse_ms() + READ_WAIT_MS;

	do
	{
		fc_curve_read_at(curve, out, coarse_ms());
		if (out->sample_rate > 0)
			return;
		sched_yield();
	} while (coarse_ms() < deadline_ms);
}

double
fc_curve_hit_ratio(const FcCurveReading *reading, uint64_t blocks)
{
	double hits = 0;
	double all = (double) reading->beyond;

	for (uint32_t i = 0; i < FC_CURVE_BUCKETS; i++)
	{
		double weight = (double) reading->distance[i];
		uint64_t begin = bucket_begin(i);
		uint64_t end = bucket_begin(i + 1);

		all += weight;
		if (end <= blocks)
			hits += weight;
		else if (begin < blocks)
			hits += weight * (double) (blocks - begin) / (double) (end - begin);
	}
	return all > 0 ? hits / all : -1;
}
