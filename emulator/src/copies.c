/*
 * copies.c
 *		Copies that the kernel makes by itself, from one descriptor to another.
 *
 * cp, cat, mv and the programs of an archive_command copy without a buffer of
 * their own where they can.  Such a copy is a read of one device and then a
 * write of the other, as if the program had made both calls: the write begins
 * when the wait for the read has ended, and its latency counts from there.
 *
 * A clone (FICLONE) moves no byte, because two files share their blocks.  That
 * works within one file system, and two devices of the lab may be on the same
 * one.  So a device of the lab does not clone: the call fails as on a file
 * system without clones, and the program copies.
 *
 * Locking: none; see files.h.  The real calls are looked up when first needed.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "play.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/types.h>
#include <unistd.h>

#define EM_EXPORT __attribute__((visibility("default")))

static struct
{
	ssize_t (*copy_file_range)(int, off_t *, int, off_t *, size_t,
	                           unsigned int);
	ssize_t (*sendfile)(int, int, off_t *, size_t);
	ssize_t (*splice)(int, off_t *, int, off_t *, size_t, unsigned int);
	int (*ioctl)(int, unsigned long, ...);
} real;

#define ENSURE(name)                                                           \
	do                                                                         \
	{                                                                          \
		if (__builtin_expect(real.name == NULL, 0))                            \
			*(void **) &real.name = dlsym(RTLD_NEXT, #name);                   \
	} while (0)

/* Where a copy began; the file or the caller keeps the position. */
static off_t
began_at(int fd, const off_t *offset, ssize_t moved)
{
	int saved_errno = errno;
	off_t position = offset != NULL ? *offset : lseek(fd, 0, SEEK_CUR);

	errno = saved_errno;
	return position < moved ? 0 : position - moved;
}

static ssize_t
play_copy(int fd_in, const off_t *offset_in, int fd_out,
          const off_t *offset_out, uint64_t began_ns, ssize_t moved)
{
	const EmFile *in = em_file_of(fd_in);
	const EmFile *out = em_file_of(fd_out);

	if (moved <= 0)
		return moved;
	if (in != NULL)
	{
		em_play_read(in, began_ns, began_at(fd_in, offset_in, moved), moved);
		began_ns = em_clock_ns();
	}
	if (out != NULL)
		em_play_write(out, began_ns, began_at(fd_out, offset_out, moved),
		              moved);
	return moved;
}

EM_EXPORT ssize_t
copy_file_range(int fd_in, off_t *offset_in, int fd_out, off_t *offset_out,
                size_t bytes, unsigned int flags)
{
	uint64_t began_ns = em_clock_ns();

	ENSURE(copy_file_range);
	return play_copy(fd_in, offset_in, fd_out, offset_out, began_ns,
	                 real.copy_file_range(fd_in, offset_in, fd_out, offset_out,
	                                      bytes, flags));
}

/* Between a file and a pipe; the pipe belongs to no device. */
EM_EXPORT ssize_t
splice(int fd_in, off_t *offset_in, int fd_out, off_t *offset_out, size_t bytes,
       unsigned int flags)
{
	uint64_t began_ns = em_clock_ns();

	ENSURE(splice);
	return play_copy(
		fd_in, offset_in, fd_out, offset_out, began_ns,
		real.splice(fd_in, offset_in, fd_out, offset_out, bytes, flags));
}

#define DEFINE_SENDFILE(name)                                                  \
	EM_EXPORT ssize_t name(int fd_out, int fd_in, off_t *offset, size_t bytes) \
	{                                                                          \
		uint64_t began_ns = em_clock_ns();                                     \
                                                                               \
		ENSURE(sendfile);                                                      \
		return play_copy(fd_in, offset, fd_out, NULL, began_ns,                \
		                 real.sendfile(fd_out, fd_in, offset, bytes));         \
	}

DEFINE_SENDFILE(sendfile)
DEFINE_SENDFILE(sendfile64)

static bool
clones(int fd, unsigned long request, const void *argument)
{
	if (request == FICLONE)
		return em_file_of(fd) != NULL ||
		       em_file_of((int) (intptr_t) argument) != NULL;
	if (request == FICLONERANGE)
		return em_file_of(fd) != NULL ||
		       em_file_of((int) ((const struct file_clone_range *) argument)
		                      ->src_fd) != NULL;

	return false;
}

EM_EXPORT int
ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;

	ENSURE(ioctl);
	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (clones(fd, request, argument))
	{
		errno = EOPNOTSUPP;
		return -1;
	}

	return real.ioctl(fd, request, argument);
}
