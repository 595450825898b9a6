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

#endif
