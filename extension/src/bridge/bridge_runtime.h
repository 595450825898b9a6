/*
 * bridge_runtime.h
 *		What hooks have at hand (runtime.h), for PostgreSQL's side.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_RUNTIME_H
#define PGFLASH_BRIDGE_RUNTIME_H

#include <stdbool.h>

/*
 * Fill in what is known about this server; in the postmaster, before anything
 * else.
 */
extern void bridge_runtime_fill(void);

/* Is there a cache in this process? */
extern bool bridge_attached(void);

#endif
