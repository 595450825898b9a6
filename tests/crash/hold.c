/*
 * hold.c
 *		A write that is held up while others go on: a library to preload.
 *
 *	HOLD_FOLDER		how the test and a held process talk, by files in it:
 *		here	made by the test: the inode and the first and last offset of
 *				the writes that are held
 *		before	made by us: a process stands before such a write
 *		write	made by the test: it may write
 *		after	made by us: it has written, and has not returned
 *		go		made by the test: it may return, and is held no more
 *
 * Else it never returns: the test kills it.  That is what a machine too busy to
 * run a process between two instructions looks like.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define POLL_US 5000

static const char *
in_folder(const char *name, char *path)
{
	const char *folder = getenv("HOLD_FOLDER");

	snprintf(path, PATH_MAX, "%s/%s", folder != NULL ? folder : "", name);
	return path;
}

static bool
is_there(const char *name)
{
	char path[PATH_MAX];

	return access(in_folder(name, path), F_OK) == 0;
}

static void
make(const char *name)
{
	char path[PATH_MAX];
	int fd = open(in_folder(name, path), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd >= 0)
		close(fd);
}

static bool
is_held(int fd, off_t offset)
{
	char path[PATH_MAX];
	char text[128] = "";
	unsigned long long inode;
	long long first, last;
	struct stat status;
	int saved_errno = errno;
	int here = open(in_folder("here", path), O_RDONLY | O_CLOEXEC);
	bool held = here >= 0 && read(here, text, sizeof(text) - 1) > 0 &&
	            sscanf(text, "%llu %lld %lld", &inode, &first, &last) == 3 &&
	            fstat(fd, &status) == 0 &&
	            (unsigned long long) status.st_ino == inode &&
	            offset >= first && offset <= last;

	if (here >= 0)
		close(here);
	errno = saved_errno;
	return held;
}

static void
stand_before(void)
{
	make("before");
	while (!is_there("write"))
		usleep(POLL_US);
}

static void
stand_after(void)
{
	make("after");
	while (!is_there("go"))
		usleep(POLL_US);
}

ssize_t
pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
	ssize_t (*real)(int, const void *, size_t, off_t) =
		(ssize_t(*)(int, const void *, size_t, off_t)) dlsym(RTLD_NEXT,
	                                                         "pwrite");
	bool held = is_held(fd, offset);
	ssize_t result;

	if (held)
		stand_before();
	result = real(fd, buffer, size, offset);
	if (held)
		stand_after();
	return result;
}

ssize_t
pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
	ssize_t (*real)(int, const struct iovec *, int, off_t) =
		(ssize_t(*)(int, const struct iovec *, int, off_t)) dlsym(RTLD_NEXT,
	                                                              "pwritev");
	bool held = is_held(fd, offset);
	ssize_t result;

	if (held)
		stand_before();
	result = real(fd, parts, count, offset);
	if (held)
		stand_after();
	return result;
}
