/*
 * shmem.h
 *		Parts of PostgreSQL's shared memory that are ours.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_SHMEM_H
#define PGFLASH_SHMEM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct SharedPart
{
	const char *name;           /* as pg_shmem_allocations shows it */
	size_t (*size_bytes)(void); /* 0: no longer wanted */
	void (*start)(void *memory);

	/*
	 * Requests what else the part needs, such as a lock, before its size; or
	 * NULL.
	 */
	void (*request)(void);

	/*
	 * The memory goes away before the postmaster's next file call: for good, or
	 * to be created again after the crash of a process.  Also called for parts
	 * that were not wanted; or NULL.
	 */
	void (*end)(bool for_good);
} SharedPart;

/*
 * Call it while the library is being loaded; the part must persist.  Parts
 * start in the order in which they were added, and end in reverse order.
 */
extern void shmem_add(const SharedPart *part);

/* Call it once; from then on all parts are requested. */
extern void shmem_install(void);

/*
 * Each SQL function calls this first: it raises an error unless the library was
 * preloaded.  If not, there are no settings, no shared memory and no redirected
 * file calls, and SQL functions have nothing to report.
 */
extern void shmem_require_preloaded(void);

#endif
