/*
 * worker.h
 *		The background worker that maintains the cache.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_WORKER_H
#define PGFLASH_WORKER_H

extern void worker_register(void);

#endif
