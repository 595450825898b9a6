/*
 * faults.c
 *		A flash device, or a disk, that misbehaves: a library to preload.
 *
 * Reads and writes of files below one path can be made to fail, to come back
 * short, or to take long.  What shall happen stands in a small file that every
 * process of the server maps and the test writes, so it changes while they run.
 *
 *	FAULTS_STATE	the small file: a struct Faults
 *	FAULTS_PATH		the file, or the folder, whose calls are concerned
 *
 * Linux AIO is refused, so that the cache reads and writes by these calls.
 *
 * Delays are where they make a race wide: a read sleeps after it has got its
 * bytes, a write before it has put them.  Which file a descriptor is of is asked
 * of /proc at every call; when no fault is on, a call costs one comparison.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct Faults
{
	_Atomic int32_t read_errno;
	_Atomic int32_t write_errno;
	_Atomic int32_t short_reads; /* 1: half of what was asked */
	_Atomic int32_t budget;      /* so many faults more; negative: no end */
	_Atomic int32_t delay_us;
	_Atomic int32_t faults; /* how many there have been, delays not counted */
} Faults;

static Faults *faults;
static const char *target;

static struct
{
	ssize_t (*pread)(int, void *, size_t, off_t);
	ssize_t (*pwrite)(int, const void *, size_t, off_t);
	ssize_t (*preadv)(int, const struct iovec *, int, off_t);
	ssize_t (*pwritev)(int, const struct iovec *, int, off_t);
	long (*syscall)(long, ...);
} real;

__attribute__((constructor)) static void
begin(void)
{
	const char *state = getenv("FAULTS_STATE");
	void *memory;
	int fd;

	*(void **) &real.pread = dlsym(RTLD_NEXT, "pread");
	*(void **) &real.pwrite = dlsym(RTLD_NEXT, "pwrite");
	*(void **) &real.preadv = dlsym(RTLD_NEXT, "preadv");
	*(void **) &real.pwritev = dlsym(RTLD_NEXT, "pwritev");
	*(void **) &real.syscall = dlsym(RTLD_NEXT, "syscall");

	if (state == NULL || getenv("FAULTS_PATH") == NULL)
		return;
	/* A server overwrites its environment with its title. */
	target = strdup(getenv("FAULTS_PATH"));
	fd = open(state, O_RDWR | O_CLOEXEC);
	memory = fd < 0 ? MAP_FAILED
	                : mmap(NULL, sizeof(Faults), PROT_READ | PROT_WRITE,
	                       MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
	{
		/* A test that believes in faults must not run without them. */
		perror("faults.so: could not map FAULTS_STATE");
		_exit(1);
	}
	close(fd);
	faults = memory;
}

static bool
concerns(int fd)
{
	char link[64];
	char path[PATH_MAX];
	size_t length = strlen(target);
	ssize_t got;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	got = readlink(link, path, sizeof(path) - 1);
	if (got < 0)
		return false;
	path[got] = '\0';
	return strncmp(path, target, length) == 0 &&
	       (path[length] == '\0' || path[length] == '/' || path[length] == ' ');
}

/* Take one fault from what is left. */
static bool
strike(int fd)
{
	int32_t left = atomic_load(&faults->budget);

	if (left == 0 || !concerns(fd))
		return false;
	while (left > 0 &&
	       !atomic_compare_exchange_weak(&faults->budget, &left, left - 1))
		;
	if (left == 0)
		return false;
	atomic_fetch_add(&faults->faults, 1);
	return true;
}

static void
delay(int fd)
{
	int after = errno;
	int32_t us = faults == NULL ? 0 : atomic_load(&faults->delay_us);

	if (us > 0 && concerns(fd))
		usleep((useconds_t) us);
	errno = after;
}

/* The errno that a read, or write, shall fail with; 0 if it shall not. */
static int
fault(int fd, bool reads)
{
	int error;

	if (faults == NULL)
		return 0;
	error = atomic_load(reads ? &faults->read_errno : &faults->write_errno);
	return error != 0 && strike(fd) ? error : 0;
}

static size_t
cut_short(int fd, size_t size)
{
	if (faults == NULL || atomic_load(&faults->short_reads) == 0 || !strike(fd))
		return size;
	return size / 2;
}

#define FAIL_IF(error)                                                         \
	do                                                                         \
	{                                                                          \
		if ((error) != 0)                                                      \
		{                                                                      \
			errno = (error);                                                   \
			return -1;                                                         \
		}                                                                      \
	} while (0)

ssize_t
pread(int fd, void *buffer, size_t size, off_t offset)
{
	int error = fault(fd, true);
	ssize_t got;

	FAIL_IF(error);
	got = real.pread(fd, buffer, cut_short(fd, size), offset);
	delay(fd);
	return got;
}

ssize_t
pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
	int error = fault(fd, false);

	FAIL_IF(error);
	delay(fd);
	return real.pwrite(fd, buffer, size, offset);
}

ssize_t
preadv(int fd, const struct iovec *iov, int count, off_t offset)
{
	int error = fault(fd, true);
	ssize_t got;

	FAIL_IF(error);
	got = real.preadv(fd, iov, count, offset);
	delay(fd);
	return got;
}

ssize_t
pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
	int error = fault(fd, false);

	FAIL_IF(error);
	delay(fd);
	return real.pwritev(fd, iov, count, offset);
}

long
syscall(long number, ...)
{
	long a[6];
	va_list arguments;

	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(arguments, long);
	va_end(arguments);
	if (faults != NULL && number == SYS_io_setup)
	{
		errno = ENOSYS;
		return -1;
	}
	return real.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

ssize_t pread64(int, void *, size_t, off64_t) __attribute__((alias("pread")));
ssize_t pwrite64(int, const void *, size_t, off64_t)
	__attribute__((alias("pwrite")));
ssize_t preadv64(int, const struct iovec *, int, off64_t)
	__attribute__((alias("preadv")));
ssize_t pwritev64(int, const struct iovec *, int, off64_t)
	__attribute__((alias("pwritev")));
