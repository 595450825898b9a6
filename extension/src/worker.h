/*
 * worker.h
 *		The background workers of the cache.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_WORKER_H
#define PGFLASH_WORKER_H

/* worker.c */
extern void worker_register(void);

/* writer.c */
extern void writer_register(void);

#endif
