/*
 * bridge_restart.h
 *		What of the cache outlives the server, and whether it may be used again.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_RESTART_H
#define PGFLASH_BRIDGE_RESTART_H

#include <stdbool.h>
#include <stddef.h>

#include "fcache/life.h"

/*
 * Reserve memory for the cache that outlives the server.  False: it cannot be had,
 * and the cache has to lie in the server's own.  In the postmaster, once.
 */
extern bool bridge_restart_reserve(size_t size);

/*
 * Make the cache, in memory of the server's own or, if that is NULL, in what was
 * reserved, with the blocks of an earlier life if they may be believed.  False if
 * neither an old nor a new cache can be had.
 */
extern bool bridge_restart_create(FcCache *cache, void *memory,
                                  const FcConfig *config, FcDevice *devices);

/*
 * The postmaster ends.  In good order, with all its children gone: after a clean
 * shutdown the map is saved, and nothing stays in memory.  If it did not come so far
 * that anybody used the cache, the map that it found is left.
 */
extern void bridge_restart_end(FcCache *cache, bool in_order);

/* Give back what was reserved: there will be no cache. */
extern void bridge_restart_release(void);

/* How the cache began, in words. */
extern const char *bridge_restart_reason(void);

#endif
