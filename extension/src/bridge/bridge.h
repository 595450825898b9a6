/*
 * bridge.h
 *		The life of the cache, for PostgreSQL's side: its start, its background
 *		workers.
 *
 * Includes neither PostgreSQL's headers nor core's.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_H
#define PGFLASH_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BRIDGE_WAIT_EVENT "FlashCacheRead"

/* ---- start ------------------------------------------------------------- */

/*
 * Will there be a cache, or at least advice or accounting?  Checks the settings
 * and redirects the server's file calls.  If a cache was asked for but is
 * impossible, the log says why.
 */
extern bool bridge_prepare(void);

/* Will there be a cache? */
extern bool bridge_wanted(void);

/* Does the server read by io_uring? */
extern bool bridge_uses_uring(void);

/* Do the server's file calls pass through the hooks? */
extern bool bridge_redirected(void);

/*
 * bridge_memory.c: asks for shared memory, once bridge_prepare() has returned
 * true.
 */
extern void bridge_memory_install(void);

/* The amount to ask for. */
extern size_t bridge_memory_size(void);

/*
 * Open the cache file and lay out the cache in memory.  Called again, with new
 * memory, in the same process after a child has crashed.  On failure the hooks
 * at most observe reads for the advice, and the log says why.
 */
extern void bridge_create(void *memory, uint32_t wait_event);

/*
 * Shared memory is going away.  If that is for a crash, the mode is kept before
 * for the memory that follows.
 */
extern void bridge_keep_mode(void);
extern void bridge_detach(void);

/*
 * ... for good: the server ends, in an orderly way or because it could not
 * continue.
 */
extern void bridge_end(bool in_order);

/* ---- the worker ---------------------------------------------------------- */

/* Is the cache waiting for its self-test? */
extern bool bridge_needs_self_test(void);

/*
 * Begin to observe which calls pass through the hooks; at the end, return the
 * first that did not.
 */
extern void bridge_self_test_begin(void);
extern const char *bridge_self_test_end(void);

/* The self-test's result: serve, or go offline because of the named call. */
extern void bridge_start_serving(void);
extern void bridge_fail_self_test(const char *call);

/* Load a part of what was saved at the last shutdown; false: that was all. */
extern bool bridge_load(void);

/*
 * Do housekeeping, and log what hooks could not.  Returns the milliseconds
 * until the next call.
 */
extern unsigned bridge_tick(void);

/* The settings were reloaded: try again what was refused. */
extern void bridge_settings_reloaded(void);

/* ---- the writer ---------------------------------------------------------- */

/* Register the background worker that writes to flash (bridge_writer.c). */
extern void bridge_writer_register(void);

#endif
