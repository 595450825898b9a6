/*
 * hooks.c
 *		The functions that replace libc's in the server: their table, and those
 *		that only maintain the table of descriptors.
 *
 * Reads are in reads.c, changes of files in changes.c.  Every call is timed and
 * counted (account.c): reads in reads.c, which knows who served them, the
 * others here.
 *
 * Rules for every hook.  It makes the real call exactly once, with the caller's
 * arguments, and passes on its result, including errno, unless the cache serves
 * the read.  It calls libc by name: this library's own imports are not
 * redirected, so a hook never calls itself, while a library preloaded into the
 * server (the lab's device emulator) still sees the call.  It allocates no
 * memory, reports nothing and waits for nothing.
 *
 * definitions/imports.toml declares which functions are replaced.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "account/account_calls.h"
#include "hooks/descriptors.h"
#include "hooks/libraries.h"
#include "hooks/uring.h"

_Static_assert(sizeof(off_t) == 8, "pread and pread64 are the same function");

uint64_t hook_calls[HOOK_CALL_COUNT];

/* Open a file, and tell the accounting if that created or emptied it. */
static int
open_file(int directory, const char *path, int flags, mode_t mode)
{
	int fd;
	int saved_errno;

	hook_calls[HOOK_OPEN]++;
	fd = names_open(directory, path, flags, mode);
	saved_errno = errno;
	if (fd >= 0 && (flags & O_TRUNC) != 0)
		account_truncated();
	if (fd >= 0 && (flags & O_EXCL) != 0)
		account_created(path);
	errno = saved_errno;
	return fd;
}

static int
hook_open(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = hook_mode_argument(flags, arguments);
	va_end(arguments);

	return open_file(AT_FDCWD, path, flags, mode);
}

static int
hook_openat(int directory, const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = hook_mode_argument(flags, arguments);
	va_end(arguments);

	return open_file(directory, path, flags, mode);
}

static int
hook_open_2(const char *path, int flags)
{
	return open_file(AT_FDCWD, path, flags, 0);
}

static int
hook_creat(const char *path, mode_t mode)
{
	return open_file(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

static int
hook_close(int fd)
{
	hook_calls[HOOK_CLOSE]++;
	descriptors_closed(fd);
	return close(fd);
}

static int
hook_dup(int fd)
{
	int copy = dup(fd);

	if (copy >= 0)
		descriptors_copied(fd, copy);
	return copy;
}

static int
hook_dup2(int fd, int to)
{
	int copy = dup2(fd, to);

	if (copy >= 0)
		descriptors_copied(fd, copy);
	return copy;
}

static int
hook_dup3(int fd, int to, int flags)
{
	int copy = dup3(fd, to, flags);

	if (copy >= 0)
		descriptors_copied(fd, copy);
	return copy;
}

/*
 * The third argument is a number or a pointer; both fit a pointer's register.
 */
static int
hook_fcntl(int fd, int command, ...)
{
	va_list arguments;
	void *argument;
	int result;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);

	result = fcntl(fd, command, argument);
	if (result >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC))
		descriptors_copied(fd, result);
	return result;
}

static ssize_t
hook_pread(int fd, void *buffer, size_t size, off_t offset)
{
	hook_calls[HOOK_READ]++;
	return reads_pread(fd, buffer, size, offset);
}

static ssize_t
hook_pread_chk(int fd, void *buffer, size_t size, off_t offset, size_t room)
{
	if (size > room)
		abort();
	return hook_pread(fd, buffer, size, offset);
}

static ssize_t
hook_preadv(int fd, const struct iovec *iov, int count, off_t offset)
{
	hook_calls[HOOK_READ]++;
	return reads_preadv(fd, iov, count, offset);
}

static ssize_t
hook_read_chk(int fd, void *buffer, size_t size, size_t room)
{
	if (size > room)
		abort();
	return reads_read(fd, buffer, size);
}

static size_t
iov_bytes(const struct iovec *iov, int count)
{
	size_t size = 0;

	for (int i = 0; i < count; i++)
		size += iov[i].iov_len;
	return size;
}

static ssize_t
hook_pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
	Accounted call;
	ssize_t put;

	hook_calls[HOOK_WRITE]++;
	account_begin_write(&call, descriptors_entry(fd), fd, offset, size);
	put = changes_pwrite(fd, buffer, size, offset);
	account_end_write(&call, put);
	return put;
}

static ssize_t
hook_pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
	Accounted call;
	ssize_t put;

	hook_calls[HOOK_WRITE]++;
	account_begin_write(&call, descriptors_entry(fd), fd, offset,
	                    setting_account ? iov_bytes(iov, count) : 0);
	put = changes_pwritev(fd, iov, count, offset);
	account_end_write(&call, put);
	return put;
}

/* Writes at the file's position: this is how files are copied. */
static ssize_t
hook_write(int fd, const void *buffer, size_t size)
{
	Accounted call;
	ssize_t put;

	account_begin(&call, descriptors_entry(fd));
	put = changes_write(fd, buffer, size);
	account_end(&call, ACCOUNT_WRITE, put > 0 ? (uint64_t) put : 0);
	return put;
}

static ssize_t
hook_writev(int fd, const struct iovec *iov, int count)
{
	Accounted call;
	ssize_t put;

	account_begin(&call, descriptors_entry(fd));
	put = changes_writev(fd, iov, count);
	account_end(&call, ACCOUNT_WRITE, put > 0 ? (uint64_t) put : 0);
	return put;
}

/* The kernel reads and writes in one call; it counts as a write. */
static ssize_t
hook_copy_range(int in, off_t *in_offset, int out, off_t *out_offset,
                size_t size, unsigned flags)
{
	Accounted call;
	ssize_t put;

	account_begin(&call, descriptors_entry(out));
	put = changes_copy_range(in, in_offset, out, out_offset, size, flags);
	account_end(&call, ACCOUNT_WRITE, put > 0 ? (uint64_t) put : 0);
	return put;
}

static int
hook_posix_fallocate(int fd, off_t offset, off_t length)
{
	Accounted call;
	int result;

	account_begin(&call, descriptors_entry(fd));
	result = changes_posix_fallocate(fd, offset, length);
	account_end(&call, ACCOUNT_EXTEND, result == 0 ? (uint64_t) length : 0);
	return result;
}

static int
hook_fallocate(int fd, int mode, off_t offset, off_t length)
{
	Accounted call;
	int result;

	account_begin(&call, descriptors_entry(fd));
	result = changes_fallocate(fd, mode, offset, length);
	account_end(&call, ACCOUNT_EXTEND, result == 0 ? (uint64_t) length : 0);
	return result;
}

static int
hook_ftruncate(int fd, off_t length)
{
	int result;

	hook_calls[HOOK_FTRUNCATE]++;
	result = changes_ftruncate(fd, length);
	account_truncated();
	return result;
}

static int
hook_truncate(const char *path, off_t length)
{
	int result;

	hook_calls[HOOK_TRUNCATE]++;
	result = changes_truncate(path, length);
	account_truncated();
	return result;
}

static int
hook_unlink(const char *path)
{
	int result;

	hook_calls[HOOK_UNLINK]++;
	result = names_unlink(path);
	if (result == 0)
		account_removed(path);
	return result;
}

static int
hook_remove(const char *path)
{
	int result;

	hook_calls[HOOK_UNLINK]++;
	result = names_remove(path);
	if (result == 0)
		account_removed(path);
	return result;
}

static int
hook_fsync(int fd)
{
	Accounted call;
	int result;

	account_begin(&call, descriptors_entry(fd));
	result = changes_fsync(fd);
	account_end(&call, ACCOUNT_SYNC, 0);
	return result;
}

static int
hook_fdatasync(int fd)
{
	Accounted call;
	int result;

	account_begin(&call, descriptors_entry(fd));
	result = changes_fdatasync(fd);
	account_end(&call, ACCOUNT_SYNC, 0);
	return result;
}

#define ENTRY(name, function) { name, (void (*)(void)) function },

const Import hook_imports[] = {
#define IMPORT       ENTRY
#define URING_IMPORT ENTRY
#include "hooks/imports.def"
};

const size_t hook_import_count_with_uring =
	sizeof(hook_imports) / sizeof(hook_imports[0]);
const size_t hook_import_count = sizeof(hook_imports) / sizeof(hook_imports[0])
#define URING_IMPORT(name, function) -1
#include "hooks/imports.def"
	;

#define ENTRY_NAME(name) name,

const char *const hook_required[] = {
#define REQUIRED ENTRY_NAME
#include "hooks/imports.def"
	NULL
};

const char *const hook_required_by_uring[] = {
#define REQUIRED       ENTRY_NAME
#define URING_REQUIRED ENTRY_NAME
#include "hooks/imports.def"
	NULL
};

const char *const hook_foreign[] = {
#define FOREIGN ENTRY_NAME
#include "hooks/imports.def"
	NULL
};
