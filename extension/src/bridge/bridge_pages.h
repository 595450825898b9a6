/*
 * bridge_pages.h
 *		The cache's own memory in huge pages.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_PAGES_H
#define PGFLASH_BRIDGE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Map shared memory where it can be in huge pages.  MAP_FAILED with errno, as
 * mmap().  Call it in the postmaster.
 */
extern void *bridge_pages_map(int fd, size_t size);

/* Is the cache in memory that was mapped like this? */
extern bool bridge_pages_own(void);

/* The memory is being unmapped. */
extern void bridge_pages_forget(void);

/*
 * In the worker: put some more of the memory into huge pages; true if there is
 * more to do at once.
 */
extern bool bridge_pages_tick(void);

/* So many bytes of the cache's memory were put into huge pages. */
extern size_t bridge_pages_huge_bytes(void);

#endif
