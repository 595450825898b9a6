/*
 * page_cache.c
 *		Does the operating system's page cache have a part of a file?
 *
 * cachestat(2) answers without side effects.  It needs Linux 6.5, and the
 * system call filters of older container runtimes forbid it.  There, mincore(2)
 * answers the same for a mapping: each open segment of a relation is mapped
 * whole when it is first asked about.  The mapping's memory is never accessed,
 * so it costs address space and nothing else, and truncating the file does no
 * harm.  It is removed when the descriptor is closed, so it does not hold the
 * space of a removed file any longer than the descriptor does.
 *
 * mincore() tells the truth to processes that may write the file, as the server
 * may.
 *
 * A wrong answer costs time, never a wrong byte: page cache and flash hold the
 * same block.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/page_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fcache/assert.h"
#include "hooks/descriptors.h"
#include "hooks/runtime.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* The longest range that mincore is asked about, in pages of 4 kB. */
#define PAGES_MAX (2 * FC_RUN_BLOCKS_MAX + 1)

static bool no_cachestat;

/*
 * Mappings by descriptor; MAP_FAILED: none can be made.  Its pages are not
 * allocated until used.
 */
static unsigned char *map_of[DESCRIPTORS_MAX];

static uint64_t
page_size(void)
{
	static uint64_t size;

	if (size == 0)
		size = (uint64_t) sysconf(_SC_PAGESIZE);
	return size;
}

static uint64_t
pages_of(uint64_t offset, uint64_t size)
{
	FC_ASSERT(size > 0);
	return (offset + size - 1) / page_size() - offset / page_size() + 1;
}

/* Count the pages that it has; false: the kernel does not tell. */
static bool
ask_cachestat(int fd, uint64_t offset, uint64_t size, uint64_t *cached_out)
{
	struct
	{
		uint64_t offset;
		uint64_t length;
	} range = { offset, size };
	struct
	{
		uint64_t cached;
		uint64_t dirty;
		uint64_t writeback;
		uint64_t evicted;
		uint64_t recently_evicted;
	} pages = { 0, 0, 0, 0, 0 };

	if (syscall(SYS_cachestat, fd, &range, &pages, 0u) != 0)
	{
		no_cachestat = errno == ENOSYS || errno == EPERM;
		return false;
	}
	*cached_out = pages.cached;
	return true;
}

/* ---- mincore ------------------------------------------------------------- */

static size_t
mapped_bytes(void)
{
	return (size_t) runtime.segment_blocks * FC_BLOCK_SIZE;
}

static unsigned char *
map_segment(int fd)
{
	return mmap(NULL, mapped_bytes(), PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd,
	            0);
}

static bool
ask_mincore(unsigned char *map, uint64_t offset, uint64_t size,
            uint64_t *cached_out)
{
	unsigned char has[PAGES_MAX];
	uint64_t first = offset / page_size();
	uint64_t count = pages_of(offset, size);

	if (map == MAP_FAILED || count > PAGES_MAX ||
	    (first + count) * page_size() > mapped_bytes() ||
	    mincore(map + first * page_size(), count * page_size(), has) != 0)
		return false;
	*cached_out = 0;
	for (uint64_t i = 0; i < count; i++)
		*cached_out += has[i] & 1;
	return true;
}

static bool
count_pages(int fd, FileClass class, uint64_t offset, uint64_t size,
            uint64_t *cached_out)
{
	if (!no_cachestat)
	{
		bool told = ask_cachestat(fd, offset, size, cached_out);

		if (!no_cachestat)
			return told;
	}
	if (class != FILE_RELATION || fd < 0 || fd >= DESCRIPTORS_MAX)
		return false;
	if (map_of[fd] == NULL)
		map_of[fd] = map_segment(fd);
	return ask_mincore(map_of[fd], offset, size, cached_out);
}

PageCache
page_cache_ask(int fd, FileClass class, uint64_t offset, uint64_t size)
{
	uint64_t cached;

	if (!count_pages(fd, class, offset, size, &cached))
		return PAGE_CACHE_UNTOLD;
	return cached >= pages_of(offset, size) ? PAGE_CACHE_HAS : PAGE_CACHE_LACKS;
}

bool
page_cache_lacks_all(int fd, FileClass class, uint64_t offset, uint64_t size)
{
	uint64_t cached;

	return count_pages(fd, class, offset, size, &cached) && cached == 0;
}

void
page_cache_forget(int fd)
{
	int saved_errno = errno;
	void *map;

	if (fd < 0 || fd >= DESCRIPTORS_MAX || map_of[fd] == NULL)
		return;

	/* A signal handler that interrupts this must not find the mapping. */
	map = map_of[fd];
	map_of[fd] = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	if (map != MAP_FAILED)
		(void) munmap(map, mapped_bytes());
	errno = saved_errno;
}

const char *
page_cache_way(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	const char *way = "none";
	unsigned char *map;
	uint64_t cached;

	if (fd < 0)
		return NULL;
	if (ask_cachestat(fd, 0, 1, &cached))
		way = "cachestat";
	else
	{
		map = map_segment(fd);
		if (ask_mincore(map, 0, 1, &cached))
			way = "mincore";
		if (map != MAP_FAILED)
			(void) munmap(map, mapped_bytes());
	}
	close(fd);
	return way;
}
