/*
 * page_cache.h
 *		Does the operating system's page cache have a part of a file?
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_PAGE_CACHE_H
#define PGFLASH_PAGE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hooks/paths.h"

typedef enum PageCache
{
	PAGE_CACHE_HAS,
	PAGE_CACHE_LACKS,
	PAGE_CACHE_UNTOLD /* the kernel cannot be asked */
} PageCache;

/* Does it have all of these bytes of the file?  Changes errno. */
extern PageCache page_cache_ask(int fd, FileClass class, uint64_t offset,
                                uint64_t size);

/*
 * Is it known to have none of them?  Changes errno.
 */
extern bool page_cache_lacks_all(int fd, FileClass class, uint64_t offset,
                                 uint64_t size);

/* A descriptor is closed, or refers to another file: remove its mapping. */
extern void page_cache_forget(int fd);

/* How this process asks about a file of this name: a word for views. */
extern const char *page_cache_way(const char *path);

#endif
