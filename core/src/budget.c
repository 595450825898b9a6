/*
 * budget.c
 *		How many bytes a day may be written to flash.
 *
 * Writing wears flash.  A budget is a bucket of bytes that fills at an even
 * rate, a day's worth in a day, and holds no more than 5 minutes' worth: so the
 * limit holds over minutes, and a busy hour cannot use up the day.  A fill is
 * admitted while the bucket is not empty; each slot written takes its bytes
 * out, even below zero.  So the bytes written in any period are at most those
 * that flowed in during it, plus 5 minutes' worth, plus what was under way when
 * the bucket ran dry (the staging ring at most).
 *
 * A fill or an update that is not admitted is skipped, as if there were no room
 * for it: the block is read from disk until there is budget again.
 *
 * In addition to the bucket, the blocks written in each of the last 24 hours
 * are kept for the view, even without a budget.
 *
 * Restarts: wear.c keeps both in the cache files and restores them.  Hours are
 * counted by the budget's own clock, which is the monotonic one plus an offset,
 * so that it continues where it was.  The wall clock is not used, because it
 * may be set.
 *
 * No locking: the words change one at a time, atomically.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "budget.h"

#include <string.h>

#define SECOND_NS 1000000000ULL
#define DAY_NS    (24 * FC_HOUR_NS)
#define BURST_NS  (300 * SECOND_NS)

/* A bucket that could not hold a few blocks would be empty for ever. */
#define BURST_BYTES_MIN (8 * FC_BLOCK_SIZE)

/* The least that is poured in, so that rounding down loses next to nothing. */
#define POUR_BYTES_MIN 512

/* A word of the ring of hours: number of the hour << 40 | blocks. */
#define HOUR_SHIFT  40
#define BLOCKS_MASK ((1ULL << HOUR_SHIFT) - 1)

/* The most that may be under way when the bucket runs dry. */
#define OVERDRAFT_MAX ((int64_t) FC_RING_MAX * FC_BLOCK_SIZE)

static uint64_t
share_of_day(uint64_t bytes_per_day, uint64_t ns)
{
	return (uint64_t) ((double) bytes_per_day * (double) ns / (double) DAY_NS);
}

static int64_t
burst_of(uint64_t bytes_per_day)
{
	uint64_t burst = share_of_day(bytes_per_day, BURST_NS);

	return burst < BURST_BYTES_MIN ? BURST_BYTES_MIN : (int64_t) burst;
}

uint64_t
fc_budget_clock(const FcShared *shared)
{
	return fc_clock_ns() + shared->budget.ahead_ns;
}

void
fc_budget_begin(FcShared *shared)
{
	FcBudget *budget = &shared->budget;

	memset(budget, 0, sizeof(*budget));
	budget->ahead_ns = DAY_NS; /* so that no hour has a number below 0 */
	FC_ASSERT(fc_budget_clock(shared) / FC_HOUR_NS >= FC_BUDGET_HOURS);
	budget->begun_ns = fc_budget_clock(shared);
}

void
fc_budget_set(FcCache *cache, uint64_t bytes_per_day)
{
	FcBudget *budget = &cache->shared->budget;

	if (atomic_exchange(&budget->bytes_per_day, bytes_per_day) == bytes_per_day)
		return;
	atomic_store(&budget->poured_ns, fc_clock_ns());
	atomic_store(&budget->left, burst_of(bytes_per_day));
}

/* What has become due from one time to another. */
static int64_t
due(uint64_t bytes_per_day, uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns
	           ? (int64_t) share_of_day(bytes_per_day, to_ns - from_ns)
	           : 0;
}

static int64_t
poured(int64_t left, int64_t bytes, uint64_t bytes_per_day)
{
	int64_t burst = burst_of(bytes_per_day);

	FC_ASSERT(bytes >= 0);
	return left + bytes < burst ? left + bytes : burst;
}

/* Pour in what has become due. */
static void
pour(FcBudget *budget, uint64_t bytes_per_day)
{
	uint64_t now = fc_clock_ns();
	uint64_t before = atomic_load(&budget->poured_ns);
	int64_t bytes = due(bytes_per_day, before, now);
	int64_t left;

	FC_ASSERT(bytes_per_day > 0);
	if (bytes < POUR_BYTES_MIN ||
	    !atomic_compare_exchange_strong(&budget->poured_ns, &before, now))
		return;
	left = atomic_load(&budget->left);
	while (!atomic_compare_exchange_weak(&budget->left, &left,
	                                     poured(left, bytes, bytes_per_day)))
		continue;
}

bool
fc_budget_allows(FcCache *cache)
{
	FcBudget *budget = &cache->shared->budget;

	/*
	 * Relaxed: until the new budget is seen, fills are admitted by the old one.
	 * If that pours in too much, the next pour by the new budget corrects it.
	 */
	uint64_t bytes_per_day =
		atomic_load_explicit(&budget->bytes_per_day, memory_order_relaxed);

	if (bytes_per_day == 0 || FC_BROKEN(BUDGET))
		return true;
	pour(budget, bytes_per_day);
	return atomic_load(&budget->left) > 0;
}

void
fc_budget_spend(FcCache *cache)
{
	FcBudget *budget = &cache->shared->budget;
	uint64_t hour = fc_budget_clock(cache->shared) / FC_HOUR_NS;
	FcAtomic64 *word = &budget->hour[hour % FC_BUDGET_HOURS];
	uint64_t seen = atomic_load(word);

	atomic_fetch_sub(&budget->left, FC_BLOCK_SIZE);

	/*
	 * If several processes begin an hour at once, a block or two may be lost.
	 */
	if (seen >> HOUR_SHIFT != hour)
		atomic_compare_exchange_strong(word, &seen, hour << HOUR_SHIFT | 1);
	else
		atomic_fetch_add(word, 1);
}

uint64_t
fc_budget_blocks(const FcShared *shared, uint64_t hour)
{
	uint64_t word = atomic_load(&shared->budget.hour[hour % FC_BUDGET_HOURS]);

	return word >> HOUR_SHIFT == hour ? word & BLOCKS_MASK : 0;
}

void
fc_budget_info(const FcCache *cache, FcBudgetInfo *out)
{
	const FcBudget *budget = &cache->shared->budget;
	uint64_t now = fc_budget_clock(cache->shared);
	uint64_t hour = now / FC_HOUR_NS;
	uint64_t known = (FC_BUDGET_HOURS - 1) * FC_HOUR_NS + now % FC_HOUR_NS;
	uint64_t age = now - budget->begun_ns;
	uint64_t bytes_per_day = atomic_load(&budget->bytes_per_day);
	int64_t bytes =
		due(bytes_per_day, atomic_load(&budget->poured_ns), fc_clock_ns());
	int64_t left = poured(atomic_load(&budget->left), bytes, bytes_per_day);

	*out = (FcBudgetInfo){ .bytes_per_day = bytes_per_day,
		                   .day_ns = age < known ? age : known };
	for (uint64_t ago = 0; ago < FC_BUDGET_HOURS; ago++)
		out->day_bytes +=
			fc_budget_blocks(cache->shared, hour - ago) * FC_BLOCK_SIZE;
	if (out->bytes_per_day > out->day_bytes)
		out->left_today_bytes = out->bytes_per_day - out->day_bytes;
	if (out->bytes_per_day > 0)
		out->burst_bytes = (uint64_t) burst_of(out->bytes_per_day);
	if (out->bytes_per_day > 0 && left > 0)
		out->left_now_bytes = (uint64_t) left;
}

/* ---- what was before ----------------------------------------------------- */

int64_t
fc_budget_refill(uint64_t bytes_per_day, int64_t left, uint64_t age_ns,
                 bool may_save_up)
{
	int64_t most = may_save_up ? burst_of(bytes_per_day) : 0;

	/* This order of tests keeps every sum from overflowing. */
	if (left < -OVERDRAFT_MAX)
		left = -OVERDRAFT_MAX;
	if (left > most)
		left = most;
	left += (int64_t) share_of_day(bytes_per_day,
	                               age_ns < DAY_NS ? age_ns : DAY_NS);
	FC_ASSERT(left >= -OVERDRAFT_MAX);
	return left < most ? left : most;
}

void
fc_budget_go_on(FcShared *shared, const FcBudgetBefore *before)
{
	FcBudget *budget = &shared->budget;
	uint64_t known =
		before->known_ns < FC_WEAR_NS_MAX ? before->known_ns : FC_WEAR_NS_MAX;

	budget->ahead_ns = before->clock_ns - before->now_ns;
	budget->begun_ns = before->clock_ns - known;
	atomic_store(&budget->poured_ns, before->now_ns);
	atomic_store(&budget->left, before->left);
	atomic_store(&budget->bytes_per_day, before->bytes_per_day);
}

void
fc_budget_add(FcShared *shared, uint64_t hour, uint64_t blocks)
{
	atomic_store(&shared->budget.hour[hour % FC_BUDGET_HOURS],
	             hour << HOUR_SHIFT |
	                 ((blocks + fc_budget_blocks(shared, hour)) & BLOCKS_MASK));
}
