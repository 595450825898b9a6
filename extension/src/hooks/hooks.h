/*
 * hooks.h
 *		The functions that replace libc's in the server.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_HOOKS_H
#define PGFLASH_HOOKS_H

#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "fcache/cache.h"
#include "hooks/imports.h"

/* Calls that the self-test must see passing through the hooks. */
typedef enum HookCall
{
	HOOK_OPEN,
	HOOK_CLOSE,
	HOOK_READ,  /* pread, preadv */
	HOOK_WRITE, /* pwrite, pwritev */
	HOOK_FTRUNCATE,
	HOOK_TRUNCATE,
	HOOK_UNLINK,
	HOOK_CALL_COUNT
} HookCall;

/* How many of this process's calls passed through the hooks. */
extern uint64_t hook_calls[HOOK_CALL_COUNT];

extern const Import hook_imports[];
extern const size_t hook_import_count;
extern const size_t hook_import_count_with_uring;
extern const char *const hook_required[];
extern const char *const hook_required_by_uring[];
extern const char *const hook_foreign[];

/* The mode among the arguments of an open with these flags; 0: it has none. */
static inline mode_t
hook_mode_argument(int flags, va_list arguments)
{
	bool made = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;

	return made ? (mode_t) va_arg(arguments, unsigned) : 0;
}

/* reads.c */
extern ssize_t reads_pread(int fd, void *buffer, size_t size, off_t offset);
extern ssize_t reads_preadv(int fd, const struct iovec *iov, int count,
                            off_t offset);
extern ssize_t reads_read(int fd, void *buffer, size_t size);
extern int reads_fadvise(int fd, off_t offset, off_t length, int advice);

/* changes.c */
extern ssize_t changes_pwrite(int fd, const void *buffer, size_t size,
                              off_t offset);
extern ssize_t changes_pwritev(int fd, const struct iovec *iov, int count,
                               off_t offset);
extern ssize_t changes_write(int fd, const void *buffer, size_t size);
extern ssize_t changes_writev(int fd, const struct iovec *iov, int count);
extern ssize_t changes_copy_range(int in, off_t *in_offset, int out,
                                  off_t *out_offset, size_t size,
                                  unsigned flags);
extern int changes_posix_fallocate(int fd, off_t offset, off_t length);
extern int changes_fallocate(int fd, int mode, off_t offset, off_t length);
extern int changes_ftruncate(int fd, off_t length);
extern int changes_truncate(const char *path, off_t length);
extern int changes_fsync(int fd);
extern int changes_fdatasync(int fd);
extern int changes_syncfs(int fd);
extern int changes_sync_file_range(int fd, off_t offset, off_t length,
                                   unsigned flags);

/* names.c */
extern int names_unlink(const char *path);
extern int names_remove(const char *path);
extern int names_rename(const char *from, const char *to);
extern FILE *names_fopen(const char *path, const char *mode);

/* An open of path that may truncate or create the file. */
extern int names_open(int directory, const char *path, int flags, mode_t mode);

#endif
