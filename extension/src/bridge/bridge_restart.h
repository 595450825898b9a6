/*
 * bridge_restart.h
 *		The parts of the cache that outlive the server, and whether they may be
 *		used again.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_RESTART_H
#define PGFLASH_BRIDGE_RESTART_H

#include <stdbool.h>
#include <stddef.h>

#include "fcache/life.h"

/*
 * Reserve memory for the cache that outlives the server.  False: there is none,
 * and the cache must be in the server's own.  Call it in the postmaster, once.
 */
extern bool bridge_restart_reserve(size_t size);

/*
 * Create the cache, in memory of the server's own or, if that is NULL, in what
 * was reserved, with the blocks of an earlier life if they can be trusted.
 * False if neither an old nor a new cache is possible.
 */
extern bool bridge_restart_create(FcCache *cache, void *memory,
                                  const FcConfig *config, FcDevice *devices);

/*
 * The postmaster ends.  in_order: all its children are gone; after a clean
 * shutdown the map is saved, and nothing stays in memory.  If the server ended
 * before the cache was used, the map that it found is left unchanged.
 */
extern void bridge_restart_end(FcCache *cache, bool in_order);

/* Release what was reserved: there will be no cache. */
extern void bridge_restart_release(void);

/* How the cache started, in words. */
extern const char *bridge_restart_reason(void);

#endif
