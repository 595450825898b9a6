/*
 * wear.h
 *		What was written to flash, kept in the cache files.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_WEAR_H
#define FCACHE_WEAR_H

#include "shared.h"

/* Wait for records on their way, and give the memory back. */
extern void fc_wear_close(FcCache *cache);

#endif
