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
	size_t (*size_bytes)(void); /* 0: not wanted after all */
	void (*start)(void *memory);

	/* What else must be asked for ahead, such as a lock, before the size; or NULL. */
	void (*request)(void);

	/*
	 * The memory goes away before the next file call of the postmaster: for good, or
	 * to be made anew after the crash of a process.  Called for parts that were not
	 * wanted, too; or NULL.
	 */
	void (*end)(bool for_good);
} SharedPart;

/*
 * While the library is being loaded; the part must last.  Parts start in the order in
 * which they were added, and end in the opposite one.
 */
extern void shmem_add(const SharedPart *part);

/* Once, after which all of them will be asked for. */
extern void shmem_install(void);

#endif
