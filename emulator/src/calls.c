/*
 * calls.c
 *		The libc names that this library replaces.
 *
 * Every function makes the real call first and returns its result and errno
 * unchanged.  If the descriptor belongs to a device, it then asks the device
 * when the call is finished and sleeps until then (play.c).  The time is
 * counted from before the real call, so the real call's own time is not added.
 * A call that failed or moved no byte costs nothing.
 *
 * Copies inside the kernel are in copies.c.
 *
 * Direct system calls bypass the library, except three that have no libc name
 * and are made through syscall(): Linux AIO (async.c); io_uring, which fails
 * with ENOSYS; and cachestat(2), which reports that the page cache has nothing
 * of a device's file, as if it had been opened with O_DIRECT.
 *
 * A device's file may be kept in memory, but a device is none: fstatfs() does
 * not say tmpfs of it, since who knows that may read it in another way.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "async.h"
#include "play.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define EM_EXPORT __attribute__((visibility("default")))

#define EM_SYS_CACHESTAT 451

/* Descriptors below this are checked at the start: they may be inherited. */
#define EM_INHERITED_MAX 64

/*
 * The real calls, found once by the constructor.  Another library's constructor
 * may run first, so each wrapper makes sure that they were found.
 */
static struct
{
	int (*open)(const char *, int, ...);
	int (*openat)(int, const char *, int, ...);
	int (*creat)(const char *, mode_t);
	int (*close)(int);
	int (*close_range)(unsigned int, unsigned int, int);
	void (*closefrom)(int);
	int (*fclose)(FILE *);
	int (*dup)(int);
	int (*dup2)(int, int);
	int (*dup3)(int, int, int);
	ssize_t (*read)(int, void *, size_t);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*pread)(int, void *, size_t, off_t);
	ssize_t (*pwrite)(int, const void *, size_t, off_t);
	ssize_t (*readv)(int, const struct iovec *, int);
	ssize_t (*writev)(int, const struct iovec *, int);
	ssize_t (*preadv)(int, const struct iovec *, int, off_t);
	ssize_t (*pwritev)(int, const struct iovec *, int, off_t);
	int (*fsync)(int);
	int (*fdatasync)(int);
	int (*sync_file_range)(int, off_t, off_t, unsigned int);
	int (*ftruncate)(int, off_t);
	int (*fallocate)(int, int, off_t, off_t);
	int (*posix_fallocate)(int, off_t, off_t);
	int (*posix_fadvise)(int, off_t, off_t, int);
	int (*fstatfs)(int, struct statfs *);
	long (*syscall)(long, ...);
} real;

#define FIND(name) *(void **) &real.name = dlsym(RTLD_NEXT, #name)

static void
find_real_calls(void)
{
	FIND(open);
	FIND(openat);
	FIND(creat);
	FIND(close);
	FIND(close_range);
	FIND(closefrom);
	FIND(fclose);
	FIND(dup);
	FIND(dup2);
	FIND(dup3);
	FIND(read);
	FIND(write);
	FIND(pread);
	FIND(pwrite);
	FIND(readv);
	FIND(writev);
	FIND(preadv);
	FIND(pwritev);
	FIND(fsync);
	FIND(fdatasync);
	FIND(sync_file_range);
	FIND(ftruncate);
	FIND(fallocate);
	FIND(posix_fallocate);
	FIND(posix_fadvise);
	FIND(fstatfs);
	FIND(syscall);
}

#define ENSURE(name)                                                           \
	do                                                                         \
	{                                                                          \
		if (__builtin_expect(real.name == NULL, 0))                            \
			find_real_calls();                                                 \
	} while (0)

static void
report_unused(const char *path, const char *reason)
{
	char line[EM_PATH_MAX + 256];
	int length = snprintf(line, sizeof(line),
	                      "pgflash emulator: no delays, state file \"%s\" is "
	                      "not used: %s\n",
	                      path, reason);

	if (length > (int) sizeof(line) - 1)
		length = (int) sizeof(line) - 1;
	if (real.write(STDERR_FILENO, line, (size_t) length) < 0)
		return; /* nowhere left to report it */
}

/*
 * Enter inherited descriptors: a shell may have opened the file before it
 * started this program, as in archive_command = 'gzip < %p > /archive/%f.gz'.
 */
static void
enter_inherited(void)
{
	for (int fd = 0; fd < EM_INHERITED_MAX; fd++)
	{
		int flags = fcntl(fd, F_GETFL);

		if (flags >= 0)
			em_file_enter(em_state, fd, flags);
	}
}

__attribute__((constructor)) static void
load(void)
{
	int saved_errno = errno;
	const char *path = getenv(EM_STATE_VARIABLE);
	const char *reason;
	EmState *opened;

	find_real_calls();
	if (path == NULL || path[0] == '\0')
		report_unused("", EM_STATE_VARIABLE " is not set");
	else if ((opened = em_state_open(path, &reason)) == NULL)
		report_unused(path, reason);
	else
	{
		/*
		 * The kernel may wake us up late by the timer slack, 50 us by default.
		 */
		prctl(PR_SET_TIMERSLACK, 1000);
		em_state = opened;
		enter_inherited();
	}
	errno = saved_errno;
}

/* The offset at which a read() or write() of this many bytes began. */
static off_t
began_at(int fd, ssize_t moved)
{
	int saved_errno = errno;
	off_t position = lseek(fd, 0, SEEK_CUR);

	errno = saved_errno;
	return position < moved ? 0 : position - moved;
}

/*
 * Opening and closing.
 */

static int
entered(int fd, int flags)
{
	if (fd >= 0 && em_state != NULL)
		em_file_enter(em_state, fd, flags);

	return fd;
}

static mode_t
mode_of(int flags, va_list arguments)
{
	if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE)
		return va_arg(arguments, mode_t);

	return 0;
}

#define DEFINE_OPEN(name)                                                      \
	EM_EXPORT int name(const char *path, int flags, ...)                       \
	{                                                                          \
		va_list arguments;                                                     \
		mode_t mode;                                                           \
                                                                               \
		ENSURE(open);                                                          \
		va_start(arguments, flags);                                            \
		mode = mode_of(flags, arguments);                                      \
		va_end(arguments);                                                     \
		return entered(real.open(path, flags, mode), flags);                   \
	}

#define DEFINE_OPENAT(name)                                                    \
	EM_EXPORT int name(int folder, const char *path, int flags, ...)           \
	{                                                                          \
		va_list arguments;                                                     \
		mode_t mode;                                                           \
                                                                               \
		ENSURE(openat);                                                        \
		va_start(arguments, flags);                                            \
		mode = mode_of(flags, arguments);                                      \
		va_end(arguments);                                                     \
		return entered(real.openat(folder, path, flags, mode), flags);         \
	}

#define DEFINE_CREAT(name)                                                     \
	EM_EXPORT int name(const char *path, mode_t mode)                          \
	{                                                                          \
		ENSURE(creat);                                                         \
		return entered(real.creat(path, mode), O_CREAT | O_WRONLY);            \
	}

#define DEFINE_OPEN_2(name)                                                    \
	extern int name(const char *path, int flags);                              \
	EM_EXPORT int name(const char *path, int flags)                            \
	{                                                                          \
		ENSURE(open);                                                          \
		return entered(real.open(path, flags), flags);                         \
	}

#define DEFINE_OPENAT_2(name)                                                  \
	extern int name(int folder, const char *path, int flags);                  \
	EM_EXPORT int name(int folder, const char *path, int flags)                \
	{                                                                          \
		ENSURE(openat);                                                        \
		return entered(real.openat(folder, path, flags), flags);               \
	}

DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)
DEFINE_CREAT(creat)
DEFINE_CREAT(creat64)
DEFINE_OPEN_2(__open_2)
DEFINE_OPEN_2(__open64_2)
DEFINE_OPENAT_2(__openat_2)
DEFINE_OPENAT_2(__openat64_2)

/*
 * Clear the entry first: after the close the number may already belong to
 * another file.
 */
EM_EXPORT int
close(int fd)
{
	ENSURE(close);
	em_file_clear(fd);
	return real.close(fd);
}

EM_EXPORT int
fclose(FILE *stream)
{
	ENSURE(fclose);
	em_file_clear(fileno(stream));
	return real.fclose(stream);
}

static void
clear_range(unsigned int first, unsigned int last)
{
	for (unsigned int fd = first; fd <= last && fd < EM_FILES_MAX; fd++)
		em_files[fd].device = NULL;
}

EM_EXPORT int
close_range(unsigned int first, unsigned int last, int flags)
{
	int result;

	ENSURE(close_range);
	result = real.close_range(first, last, flags);

	/* With any flag (close on exec, unshare) the files may stay open. */
	if (result == 0 && flags == 0)
		clear_range(first, last);
	return result;
}

EM_EXPORT void
closefrom(int first)
{
	ENSURE(closefrom);
	real.closefrom(first);
	clear_range(first < 0 ? 0 : (unsigned int) first, EM_FILES_MAX - 1);
}

EM_EXPORT int
dup(int fd)
{
	int copy;

	ENSURE(dup);
	copy = real.dup(fd);
	if (copy >= 0)
		em_file_copy(fd, copy);
	return copy;
}

EM_EXPORT int
dup2(int fd, int to)
{
	int copy;

	ENSURE(dup2);
	copy = real.dup2(fd, to);
	if (copy >= 0)
		em_file_copy(fd, copy);
	return copy;
}

EM_EXPORT int
dup3(int fd, int to, int flags)
{
	int copy;

	ENSURE(dup3);
	copy = real.dup3(fd, to, flags);
	if (copy >= 0)
		em_file_copy(fd, copy);
	return copy;
}

/*
 * Reading and writing.
 *
 * DEFINE_TRANSFER writes one function: "call" is the real call, and "where" the
 * offset at which it began.  Without a device it costs one test and one jump.
 */
#define DEFINE_TRANSFER(name, parameters, slot, call, played, where)           \
	extern ssize_t name parameters;                                            \
	EM_EXPORT ssize_t name parameters                                          \
	{                                                                          \
		const EmFile *file = em_file_of(fd);                                   \
		uint64_t began_ns;                                                     \
		ssize_t result;                                                        \
                                                                               \
		ENSURE(slot);                                                          \
		if (__builtin_expect(file == NULL, 1))                                 \
			return call;                                                       \
                                                                               \
		began_ns = em_clock_ns();                                              \
		result = call;                                                         \
		played(file, began_ns, where, result);                                 \
		return result;                                                         \
	}

#define READ_PARAMETERS  (int fd, void *buffer, size_t bytes)
#define WRITE_PARAMETERS (int fd, const void *buffer, size_t bytes)
#define PREAD_PARAMETERS (int fd, void *buffer, size_t bytes, off_t offset)
#define PWRITE_PARAMETERS                                                      \
	(int fd, const void *buffer, size_t bytes, off_t offset)
#define VECTOR_PARAMETERS (int fd, const struct iovec *vector, int count)
#define PVECTOR_PARAMETERS                                                     \
	(int fd, const struct iovec *vector, int count, off_t offset)

/*
 * The fortified calls know the buffer's size; overrunning it ends the program.
 */
#define READ_CHK_PARAMETERS (int fd, void *buffer, size_t bytes, size_t room)
#define PREAD_CHK_PARAMETERS                                                   \
	(int fd, void *buffer, size_t bytes, off_t offset, size_t room)
#define CHECKED(call) (bytes > room ? (abort(), (ssize_t) - 1) : (call))

#define POSITION_BEFORE (result > 0 ? began_at(fd, result) : 0)

DEFINE_TRANSFER(read, READ_PARAMETERS, read, real.read(fd, buffer, bytes),
                em_play_read, POSITION_BEFORE)
DEFINE_TRANSFER(write, WRITE_PARAMETERS, write, real.write(fd, buffer, bytes),
                em_play_write, POSITION_BEFORE)
DEFINE_TRANSFER(readv, VECTOR_PARAMETERS, readv, real.readv(fd, vector, count),
                em_play_read, POSITION_BEFORE)
DEFINE_TRANSFER(writev, VECTOR_PARAMETERS, writev,
                real.writev(fd, vector, count), em_play_write, POSITION_BEFORE)
DEFINE_TRANSFER(__read_chk, READ_CHK_PARAMETERS, read,
                CHECKED(real.read(fd, buffer, bytes)), em_play_read,
                POSITION_BEFORE)

DEFINE_TRANSFER(pread, PREAD_PARAMETERS, pread,
                real.pread(fd, buffer, bytes, offset), em_play_read, offset)
DEFINE_TRANSFER(pread64, PREAD_PARAMETERS, pread,
                real.pread(fd, buffer, bytes, offset), em_play_read, offset)
DEFINE_TRANSFER(__pread_chk, PREAD_CHK_PARAMETERS, pread,
                CHECKED(real.pread(fd, buffer, bytes, offset)), em_play_read,
                offset)
DEFINE_TRANSFER(__pread64_chk, PREAD_CHK_PARAMETERS, pread,
                CHECKED(real.pread(fd, buffer, bytes, offset)), em_play_read,
                offset)
DEFINE_TRANSFER(pwrite, PWRITE_PARAMETERS, pwrite,
                real.pwrite(fd, buffer, bytes, offset), em_play_write, offset)
DEFINE_TRANSFER(pwrite64, PWRITE_PARAMETERS, pwrite,
                real.pwrite(fd, buffer, bytes, offset), em_play_write, offset)
DEFINE_TRANSFER(preadv, PVECTOR_PARAMETERS, preadv,
                real.preadv(fd, vector, count, offset), em_play_read, offset)
DEFINE_TRANSFER(preadv64, PVECTOR_PARAMETERS, preadv,
                real.preadv(fd, vector, count, offset), em_play_read, offset)
DEFINE_TRANSFER(pwritev, PVECTOR_PARAMETERS, pwritev,
                real.pwritev(fd, vector, count, offset), em_play_write, offset)
DEFINE_TRANSFER(pwritev64, PVECTOR_PARAMETERS, pwritev,
                real.pwritev(fd, vector, count, offset), em_play_write, offset)

/*
 * Syncs and metadata: calls that return an int.
 */
#define DEFINE_INT_CALL(name, parameters, slot, call, played)                  \
	EM_EXPORT int name parameters                                              \
	{                                                                          \
		const EmFile *file = em_file_of(fd);                                   \
		uint64_t began_ns;                                                     \
		int result;                                                            \
                                                                               \
		ENSURE(slot);                                                          \
		if (__builtin_expect(file == NULL, 1))                                 \
			return call;                                                       \
                                                                               \
		began_ns = em_clock_ns();                                              \
		result = call;                                                         \
		played(file, began_ns, result);                                        \
		return result;                                                         \
	}

DEFINE_INT_CALL(fsync, (int fd), fsync, real.fsync(fd), em_play_sync)
DEFINE_INT_CALL(fdatasync, (int fd), fdatasync, real.fdatasync(fd),
                em_play_sync)
DEFINE_INT_CALL(ftruncate, (int fd, off_t length), ftruncate,
                real.ftruncate(fd, length), em_play_metadata)
DEFINE_INT_CALL(ftruncate64, (int fd, off_t length), ftruncate,
                real.ftruncate(fd, length), em_play_metadata)
DEFINE_INT_CALL(fallocate, (int fd, int mode, off_t offset, off_t length),
                fallocate, real.fallocate(fd, mode, offset, length),
                em_play_metadata)
DEFINE_INT_CALL(fallocate64, (int fd, int mode, off_t offset, off_t length),
                fallocate, real.fallocate(fd, mode, offset, length),
                em_play_metadata)
DEFINE_INT_CALL(posix_fallocate, (int fd, off_t offset, off_t length),
                posix_fallocate, real.posix_fallocate(fd, offset, length),
                em_play_metadata)
DEFINE_INT_CALL(posix_fallocate64, (int fd, off_t offset, off_t length),
                posix_fallocate, real.posix_fallocate(fd, offset, length),
                em_play_metadata)

/*
 * Starting write-back costs nothing, since the device's cache destages anyway;
 * waiting for it counts as a sync.
 */
EM_EXPORT int
sync_file_range(int fd, off_t offset, off_t bytes, unsigned int flags)
{
	const EmFile *file = em_file_of(fd);
	uint64_t began_ns;
	int result;

	ENSURE(sync_file_range);
	if (file == NULL || (flags & SYNC_FILE_RANGE_WAIT_AFTER) == 0)
		return real.sync_file_range(fd, offset, bytes, flags);

	began_ns = em_clock_ns();
	result = real.sync_file_range(fd, offset, bytes, flags);
	em_play_sync(file, began_ns, result);
	return result;
}

#define DEFINE_ADVISE(name)                                                    \
	EM_EXPORT int name(int fd, off_t offset, off_t bytes, int advice)          \
	{                                                                          \
		const EmFile *file = em_file_of(fd);                                   \
		int result;                                                            \
                                                                               \
		ENSURE(posix_fadvise);                                                 \
		result = real.posix_fadvise(fd, offset, bytes, advice);                \
		if (file != NULL && advice == POSIX_FADV_WILLNEED && result == 0)      \
			em_play_advice(file, offset, bytes);                               \
		return result;                                                         \
	}

DEFINE_ADVISE(posix_fadvise)
DEFINE_ADVISE(posix_fadvise64)

#define DEFINE_STATFS(name, type)                                              \
	EM_EXPORT int name(int fd, struct type *out)                               \
	{                                                                          \
		int result;                                                            \
                                                                               \
		ENSURE(fstatfs);                                                       \
		result = real.fstatfs(fd, (struct statfs *) out);                      \
		if (result == 0 && em_file_of(fd) != NULL &&                           \
		    out->f_type == TMPFS_MAGIC)                                        \
			out->f_type = EXT4_SUPER_MAGIC;                                    \
		return result;                                                         \
	}

DEFINE_STATFS(fstatfs, statfs)
DEFINE_STATFS(fstatfs64, statfs64)

/*
 * syscall() with all of its six arguments.  The caller may have passed fewer;
 * reading the others is harmless: the C library's own syscall() does so, too.
 */
EM_EXPORT long
syscall(long number, ...)
{
	va_list arguments;
	long argument[6];

	ENSURE(syscall);
	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		argument[i] = va_arg(arguments, long);
	va_end(arguments);

	/* cachestat(fd, range, result of five 64-bit numbers, flags = 0) */
	if (number == EM_SYS_CACHESTAT && em_file_of((int) argument[0]) != NULL &&
	    argument[1] != 0 && argument[2] != 0 && argument[3] == 0)
	{
		memset((void *) argument[2], 0, 5 * sizeof(uint64_t));
		return 0;
	}

	if (em_state != NULL && em_async_plays(number))
		return em_async_call(real.syscall, number, argument);

	return real.syscall(number, argument[0], argument[1], argument[2],
	                    argument[3], argument[4], argument[5]);
}
