/*
 * budget.h
 *		How many bytes a day may be written to flash.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_BUDGET_H
#define FCACHE_BUDGET_H

#include "shared.h"

/* Hours are counted by a clock that continues over restarts. */
#define FC_HOUR_NS (3600 * 1000000000ULL)

/* Writes longer ago than this no longer count. */
#define FC_WEAR_NS_MAX ((FC_WEAR_HOURS + 1) * FC_HOUR_NS)

/* A life of the cache begins: nothing is known to have been written. */
extern void fc_budget_begin(FcShared *shared);

/* The record of earlier lives, for use after fc_budget_begin(). */
typedef struct FcBudgetBefore
{
	uint64_t now_ns;   /* by the monotonic clock */
	uint64_t clock_ns; /* what the budget's clock would show now */
	uint64_t known_ns; /* the time for which hours are known */
	uint64_t bytes_per_day;
	int64_t left; /* in the bucket, by now */
} FcBudgetBefore;

extern void fc_budget_go_on(FcShared *shared, const FcBudgetBefore *before);

/* The present content of a bucket that held left bytes age_ns ago. */
extern int64_t fc_budget_refill(uint64_t bytes_per_day, int64_t left,
                                uint64_t age_ns, bool may_save_up);

extern uint64_t fc_budget_clock(const FcShared *shared);

/*
 * Blocks written in an hour of that clock; 0 if it is not one of the last 24.
 */
extern uint64_t fc_budget_blocks(const FcShared *shared, uint64_t hour);

/* Add blocks that became known; for a process that is alone. */
extern void fc_budget_add(FcShared *shared, uint64_t hour, uint64_t blocks);

/* May another block be admitted? */
extern bool fc_budget_allows(FcCache *cache);

/* A slot has been written. */
extern void fc_budget_spend(FcCache *cache);

#endif
