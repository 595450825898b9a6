/*
 * wear.h
 *		What was written to flash, recorded in the cache files.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_WEAR_H
#define FCACHE_WEAR_H

#include "shared.h"

/* Wait for the records under way, and free the memory. */
extern void fc_wear_close(FcCache *cache);

#endif
