/*
 * bridge_pages.c
 *		The cache's own memory in huge pages.
 *
 * A look-up reads a random place of the index.  In pages of 4 kB the processor
 * has to find the page first, in tables that a large index pushes out of its
 * caches; and each session has page tables of its own for the memory, 8 bytes
 * for each page that it has touched.  Huge pages (2 MB) avoid both.
 *
 * PostgreSQL's setting huge_pages is for its own shared memory.  The cache's
 * memory is an object in /dev/shm (bridge_restart.c), reserved in small pages.
 * Once the server runs, the worker asks the kernel to join them, some at a time
 * (MADV_COLLAPSE, Linux 6.1), which needs neither a mount option nor a reserve
 * of huge pages.  All processes have the same pages.  Their addresses must be
 * multiples of a huge page, which mmap() does not see to.
 *
 * The kernel copies the bytes; a process that uses them meanwhile waits.
 * Pages that a device is writing from stay as they are.  If there are no huge
 * pages, the memory stays in small ones: it is just slower.  An administrator
 * who has switched transparent huge pages off (never) gets none.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bridge/bridge_pages.h"
#include "bridge/bridge_runtime.h"
#include "hooks/runtime.h"

/* Since Linux 6.1, and not in older headers. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define KERNEL_FOLDER "/sys/kernel/mm/transparent_hugepage/"

/*
 * With pages of 64 kB, a huge one has 512 MB: nothing to ask for casually.
 */
#define HUGE_BYTES_MAX ((size_t) 32 * 1024 * 1024)

/* The worker has other things to do, and does not take a processor. */
#define STEP_NS 5000000

/* After so many refusals the kernel is not asked again. */
#define REFUSALS_MAX 16

static char *mapped; /* NULL: the cache has no memory of its own */
static size_t mapped_bytes;
static size_t huge_bytes; /* of one huge page; 0: there will be none */

/* In the worker: how far it has come. */
static size_t done_bytes;
static unsigned refusals;

/* Read what the kernel says in a file; empty if it does not. */
static void
ask_kernel(const char *path, char *answer, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, answer, size - 1);

	answer[Max(length, 0)] = '\0';
	if (fd >= 0)
		close(fd);
}

/* The size of a huge page, or 0 if none are wanted. */
static size_t
wanted_bytes(void)
{
	char answer[64];
	size_t bytes;

	ask_kernel(KERNEL_FOLDER "enabled", answer, sizeof(answer));
	if (strstr(answer, "[never]") != NULL)
		return 0;
	ask_kernel(KERNEL_FOLDER "hpage_pmd_size", answer, sizeof(answer));
	bytes = strtoull(answer, NULL, 10);
	return (bytes & (bytes - 1)) == 0 && bytes <= HUGE_BYTES_MAX ? bytes : 0;
}

/* An address for the mapping, a multiple of align, that nothing else has. */
static char *
free_address(size_t size, size_t align)
{
	char *from = mmap(NULL, size + align, PROT_NONE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (from == MAP_FAILED)
		return NULL;

	char *at = (char *) TYPEALIGN(align, from);
	char *end = at + TYPEALIGN((size_t) sysconf(_SC_PAGESIZE), size);

	Assert(at >= from && end <= from + size + align);
	if (at > from)
		(void) munmap(from, (size_t) (at - from));
	if (from + size + align > end)
		(void) munmap(end, (size_t) (from + size + align - end));
	return at;
}

void *
bridge_pages_map(int fd, size_t size)
{
	char *at = NULL;
	void *memory;

	Assert(fd >= 0 && size > 0 && mapped == NULL);
	huge_bytes = wanted_bytes();
	if (huge_bytes > 0 && size >= huge_bytes)
		at = free_address(size, huge_bytes);
	if (at == NULL)
		huge_bytes = 0;
	memory = mmap(at, size, PROT_READ | PROT_WRITE,
	              MAP_SHARED | (at != NULL ? MAP_FIXED : 0), fd, 0);
	if (memory != MAP_FAILED)
	{
		mapped = memory;
		mapped_bytes = size;
	}
	return memory;
}

void
bridge_pages_forget(void)
{
	mapped = NULL;
	mapped_bytes = 0;
}

bool
bridge_pages_own(void)
{
	return mapped != NULL && (char *) runtime.cache.shared == mapped;
}

bool
bridge_pages_tick(void)
{
	uint64_t begin_ns = fc_clock_ns();

	Assert(bridge_attached());
	if (!bridge_pages_own() || huge_bytes == 0)
		return false;
	if (done_bytes == 0)
		atomic_store(&runtime.board->huge_bytes, 0);
	do
	{
		if (mapped_bytes - done_bytes < huge_bytes || refusals >= REFUSALS_MAX)
			return false;
		if (madvise(mapped + done_bytes, huge_bytes, MADV_COLLAPSE) == 0)
			atomic_fetch_add(&runtime.board->huge_bytes, huge_bytes);
		else
			refusals++;
		done_bytes += huge_bytes;
	} while (fc_clock_ns() - begin_ns < STEP_NS);
	return true;
}

size_t
bridge_pages_huge_bytes(void)
{
	Assert(bridge_attached());
	return atomic_load(&runtime.board->huge_bytes);
}
