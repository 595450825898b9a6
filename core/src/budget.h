/*
 * budget.h
 *		How many bytes a day may be written to flash.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_BUDGET_H
#define FCACHE_BUDGET_H

#include "shared.h"

/* The cache is being created. */
extern void fc_budget_begin(FcShared *shared);

/* May another block be put in? */
extern bool fc_budget_allows(FcCache *cache);

/* A slot has been written. */
extern void fc_budget_spend(FcCache *cache);

#endif
