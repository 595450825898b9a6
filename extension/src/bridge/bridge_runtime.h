/*
 * bridge_runtime.h
 *		What hooks use (runtime.h), for PostgreSQL's side.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_RUNTIME_H
#define PGFLASH_BRIDGE_RUNTIME_H

#include <stdbool.h>

/*
 * Fill in what hooks need to know about this server; in the postmaster, before
 * anything else.
 */
extern void bridge_runtime_fill(void);

/* Is there a cache in this process? */
extern bool bridge_attached(void);

#endif
