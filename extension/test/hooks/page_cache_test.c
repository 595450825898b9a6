/*
 * page_cache_test.c
 *		The page cache where the kernel does not have cachestat, or forbids it.
 *
 * mincore() is the kernel's own, on a real file.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "stage.h"

#include "hooks/page_cache.h"

/* Write the file back, and drop it from the page cache. */
static bool
drop_pages(const char *path)
{
	int fd = open(path, O_RDWR);
	void *map = mmap(NULL, 8 * FC_BLOCK_SIZE, PROT_NONE, MAP_SHARED, fd, 0);
	unsigned char has[8 * FC_BLOCK_SIZE / 4096];
	bool dropped = fdatasync(fd) == 0 &&
	               posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 &&
	               mincore(map, 8 * FC_BLOCK_SIZE, has) == 0 &&
	               (has[0] & 1) == 0;

	munmap(map, 8 * FC_BLOCK_SIZE);
	close(fd);
	return dropped;
}

/* Emulated (qemu-user), it knows nothing of memory that may not be read. */
static bool
mincore_answers(const char *path)
{
	int fd = open(path, O_RDWR);
	void *map = mmap(NULL, FC_BLOCK_SIZE, PROT_NONE, MAP_SHARED, fd, 0);
	unsigned char has[FC_BLOCK_SIZE / 4096];
	bool answers = mincore(map, FC_BLOCK_SIZE, has) == 0;

	munmap(map, FC_BLOCK_SIZE);
	close(fd);
	return answers;
}

static bool
is_mapped(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[500];
	bool found = false;

	while (fgets(line, sizeof(line), maps) != NULL)
		found |= strstr(line, name) != NULL;
	fclose(maps);
	return found;
}

static void
test_reads(int fd)
{
	uint64_t hits = counter(FC_COUNT_hits);
	Page page;

	plant(PATH, 8, 'z');
	OK(server_read(fd, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'z') &&
	       counter(FC_COUNT_hits) == hits,
	   "a block in the page cache is read from there, not from flash");
	if (!drop_pages(PATH))
	{
		SKIP("a block that left the page cache is read from flash",
		     "this file system keeps its pages");
		return;
	}
	OK(server_read(fd, &page, 0) == FC_BLOCK_SIZE && page_is(&page, 'a') &&
	       counter(FC_COUNT_hits) == hits + 1,
	   "a block that left the page cache is read from flash");
}

static void
test_the_mapping(int fd)
{
	Page page;
	int copy = HOOK("dup", FdHook)(fd);

	(void) server_read(fd, &page, 0);
	(void) server_read(copy, &page, 0);
	OK(is_mapped(PATH), "the segment is mapped while it is open");
	OK(changes_ftruncate(fd, 0) == 0 && server_read(fd, &page, 0) == 0,
	   "a segment that was cut off is read to its new end");
	server_close(fd);
	OK(is_mapped(PATH), "a copy of the descriptor has a mapping of its own");
	server_close(copy);
	OK(!is_mapped(PATH), "and with the last of them the mappings go");
}

int
main(void)
{
	int fd;

	set_up();
	OK(strcmp(page_cache_way("../cache"), "cachestat") == 0,
	   "a kernel that has cachestat is asked by it");
	fd = cached_relation(PATH);
	page_cache_errno = ENOSYS;
	if (mincore_answers(PATH))
	{
		OK(strcmp(page_cache_way("../cache"), "mincore") == 0,
		   "one that does not have it is asked by mincore");
		test_reads(fd);
	}
	else
		SKIP("mincore", "it does not answer here");
	test_the_mapping(fd);
	tear_down();
	return tap_done();
}
