/*
 * background.h
 *		What our background workers have in common.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BACKGROUND_H
#define PGFLASH_BACKGROUND_H

#include "postgres.h"

#include "postmaster/bgworker.h"

/*
 * A worker of this name and type, whose function is the library's, with shared memory.
 * When it starts, and when again after its end, is the caller's to say.
 */
extern void background_describe(BackgroundWorker *worker, const char *name,
                                const char *function);

/*
 * Register one that runs from the start of the server to its end, without a database;
 * started again a second after it has ended.
 */
extern void background_register(const char *name, const char *function);

/* Register one that was described, and note if there is no place for it. */
extern void background_submit(BackgroundWorker *worker);

/* After the last one: say which are missing, and see to it that they come. */
extern void background_install(void);

/* Is the one of this name missing still? */
extern bool background_missing(const char *name);

#endif
