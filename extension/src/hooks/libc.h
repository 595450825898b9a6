/*
 * libc.h
 *		Calls of Linux that the C library may not have: musl until 1.2.4.
 *
 * Each comes with its macros, so these say whether it is there.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_LIBC_H
#define PGFLASH_LIBC_H

#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef STATX_INO
#include <linux/stat.h>

static inline int
statx(int directory, const char *path, int flags, unsigned mask,
      struct statx *status)
{
	return (int) syscall(SYS_statx, directory, path, flags, mask, status);
}
#endif

#ifndef RWF_DSYNC
static inline ssize_t
pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	/* The offset is in two halves, and in 64 bits the first has all of it. */
	return syscall(SYS_pwritev2, fd, iov, (long) count, offset, 0L, flags);
}
#endif

#ifndef RENAME_NOREPLACE
static inline int
renameat2(int from_directory, const char *from, int to_directory,
          const char *to, unsigned flags)
{
	return (int) syscall(SYS_renameat2, from_directory, from, to_directory, to,
	                     flags);
}
#endif

#endif
