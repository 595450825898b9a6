/*
 * sparse.c
 *		Make a cache file of any size on a disk without enough space.
 *
 * Preloaded into a server, it gives files of 8 GB and more their length without
 * the space: unwritten parts are holes. Everything else is really reserved,
 * including the cache's memory and the map behind the blocks.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGE ((off_t) 8 << 30)

int
posix_fallocate(int fd, off_t offset, off_t length)
{
	struct stat status;

	if (length < LARGE)
		return fallocate(fd, 0, offset, length) == 0 ? 0 : errno;
	if (fstat(fd, &status) != 0)
		return errno;
	if (status.st_size >= offset + length)
		return 0;
	return ftruncate(fd, offset + length) == 0 ? 0 : errno;
}

int
posix_fallocate64(int fd, off_t offset, off_t length)
{
	return posix_fallocate(fd, offset, length);
}
