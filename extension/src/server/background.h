/*
 * background.h
 *		Common code of our background workers.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BACKGROUND_H
#define PGFLASH_BACKGROUND_H

#include "postgres.h"

#include "postmaster/bgworker.h"

/*
 * Describe a worker of this name and type, whose function is in the library,
 * with shared memory.  The caller decides when it starts and when it is
 * restarted.
 */
extern void background_describe(BackgroundWorker *worker, const char *name,
                                const char *function);

/*
 * Register a worker that runs from the start of the server to its end, without
 * a database; it is restarted a second after it has ended.
 */
extern void background_register(const char *name, const char *function);

/*
 * Register a worker that was described, and note it as missing if there is no
 * place for it.
 */
extern void background_submit(BackgroundWorker *worker);

/*
 * After the last one was registered: report the missing ones, and arrange for
 * them to start later.
 */
extern void background_install(void);

/*
 * The first thing in a worker that goes on until it is told to end: from here
 * on it notes SIGTERM and SIGHUP (ShutdownRequestPending, ConfigReloadPending).
 * The first look at the latter finds it set.
 */
extern void background_begin(void);

/* Is the worker of this name still missing? */
extern bool background_missing(const char *name);

/* The names of all that are missing, in quotes, palloc'd; NULL if none is. */
extern char *background_missing_names(void);

#endif
