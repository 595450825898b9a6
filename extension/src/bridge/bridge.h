/*
 * bridge.h
 *		The cache's life, for PostgreSQL's side: its start, its background workers.
 *
 * Plain C: neither PostgreSQL's words nor core's.
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
 * Is there going to be a cache, or at least advice or accounting?  Judges the settings, redirects
 * the server's file calls.  If there is no cache, it has said why in the log (or
 * nothing, if none was asked for).
 */
extern bool bridge_prepare(void);

/* Is there going to be a cache? */
extern bool bridge_wanted(void);

/* Do the server's file calls pass the hooks? */
extern bool bridge_redirected(void);

/* bridge_memory.c: once bridge_prepare() said yes, what it will need shared memory for. */
extern void bridge_memory_install(void);

/* Shared memory to ask for then. */
extern size_t bridge_memory_size(void);

/*
 * Open the cache file and lay out the cache in memory.  Called again in the same
 * process after a crash of a child, then with new memory.  On failure the file calls
 * only watched for the advice, if at all, and the log says why.
 */
extern void bridge_create(void *memory, uint32_t wait_event);

/* Shared memory is going away. */
extern void bridge_detach(void);

/* ... for good: the server ends, in good order or since it could not go on. */
extern void bridge_end(bool in_order);

/* ---- the worker ---------------------------------------------------------- */

/* Is the cache waiting for its self-test? */
extern bool bridge_needs_self_test(void);

/* Begin to watch which calls pass the hooks; name the first that did not. */
extern void bridge_self_test_begin(void);
extern const char *bridge_self_test_end(void);

/* The self-test's verdict: serve, or go offline because of the named call. */
extern void bridge_start_serving(void);
extern void bridge_fail_self_test(const char *call);

/* Take in a part of what was saved at the last shutdown; false: that was all. */
extern bool bridge_load(void);

/*
 * Housekeeping, and log what hooks could not.  Says after how many milliseconds it
 * wants to be called again.
 */
extern unsigned bridge_tick(void);

/* ---- the writer ----------------------------------------------------------- */

/* Register the background worker that writes to flash (bridge_writer.c). */
extern void bridge_writer_register(void);

#endif
