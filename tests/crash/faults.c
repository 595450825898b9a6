/*
 * faults.c
 *		A flash device, or a disk, that makes mistakes: a library to preload.
 *
 * Calls on files below one path can be made to fail, to come back short, to
 * write only a part or to the wrong place, and to take long.  A small file says
 * what shall happen: every process of the server maps it and the test writes
 * it, so it can change while they run.
 *
 *	FAULTS_STATE	the small file: a struct Faults
 *	FAULTS_PATH		the file, or the folder, whose calls are affected
 *
 * One fault is on at a time: which calls (a set), at which offsets, after how
 * many that go well, how often.  Linux AIO is intercepted in syscall(): a
 * request that shall fail is replaced by a copy, and its answer is changed when
 * io_getevents() returns it, so that it looks like the device's own.
 *
 * Delays are placed where they widen a race: a read sleeps after it has its
 * bytes, a write before it writes them.  (How long devices take is otherwise
 * the business of the lab's emulator.)  Each call asks /proc which file a
 * descriptor is of; when no fault is on, a call costs one comparison.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
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

#include "preload.h"

/* The calls that a fault may concern, as a set. */
enum
{
	CALL_OPEN = 1,
	CALL_ALLOCATE = 2,
	CALL_READ = 4,
	CALL_WRITE = 8,
	CALL_SYNC = 16,
	CALL_TRUNCATE = 32,
	CALL_SUBMIT = 64, /* io_submit() itself, not what it submits */
};

typedef enum Kind
{
	FAULT_FAIL,     /* with an errno; a write puts nothing */
	FAULT_SHORT,    /* half of what was asked */
	FAULT_TEAR,     /* of a write "amount" bytes arrive; it says all did */
	FAULT_MISPLACE, /* a write goes "amount" bytes too far */
	FAULT_FLIP,     /* a read brings one bit that is wrong */
} Kind;

typedef struct Faults
{
	_Atomic int64_t from; /* affected offsets, for reads and writes */
	_Atomic int64_t to;
	_Atomic int32_t calls;
	_Atomic int32_t kind;
	_Atomic int32_t error;
	_Atomic int32_t amount;
	_Atomic int32_t skip;   /* so many succeed first */
	_Atomic int32_t budget; /* so many faults more; negative: no end */
	_Atomic int32_t delay_us;
	_Atomic int32_t no_aio; /* pretend that there is no Linux AIO */
	_Atomic int32_t faults; /* how many there have been, delays not counted */
	_Atomic int32_t aio_faults; /* of these, requests of Linux AIO */
} Faults;

/* A request of Linux AIO that shall fail. */
typedef struct Struck
{
	struct iocb copy; /* what the kernel was given */
	uint64_t original;
	pid_t owner; /* a forked child has none of its parent's */
	Kind kind;
	int64_t result; /* what shall be answered, if the kernel did not fail */
	void *scratch;
	size_t scratch_size;
} Struck;

#define STRUCK_MAX 256

static Faults *faults;
static const char *target;
static Struck struck[STRUCK_MAX];

static struct
{
	int (*open)(const char *, int, ...);
	ssize_t (*pread)(int, void *, size_t, off_t);
	ssize_t (*pwrite)(int, const void *, size_t, off_t);
	ssize_t (*preadv)(int, const struct iovec *, int, off_t);
	ssize_t (*pwritev)(int, const struct iovec *, int, off_t);
	int (*fsync)(int);
	int (*fdatasync)(int);
	int (*ftruncate)(int, off_t);
	int (*fallocate)(int, int, off_t, off_t);
	int (*posix_fallocate)(int, off_t, off_t);
	long (*syscall)(long, ...);
} real;

static void
find_real_calls(void)
{
	FIND(open);
	FIND(pread);
	FIND(pwrite);
	FIND(preadv);
	FIND(pwritev);
	FIND(fsync);
	FIND(fdatasync);
	FIND(ftruncate);
	FIND(fallocate);
	FIND(posix_fallocate);
	FIND(syscall);
}

__attribute__((constructor)) static void
begin(void)
{
	const char *state = getenv("FAULTS_STATE");
	void *memory;
	int fd;

	ENSURE();
	if (state == NULL || getenv("FAULTS_PATH") == NULL)
		return;
	/* A server overwrites its environment with its title. */
	target = strdup(getenv("FAULTS_PATH"));
	fd = real.open(state, O_RDWR | O_CLOEXEC);
	memory = fd < 0 ? MAP_FAILED
	                : mmap(NULL, sizeof(Faults), PROT_READ | PROT_WRITE,
	                       MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
	{
		/* A test that relies on faults must not run without them. */
		perror("faults.so: could not map FAULTS_STATE");
		_exit(1);
	}
	close(fd);
	faults = memory;
}

/* ---- is it this call's turn? --------------------------------------------- */

static bool
is_target(const char *path)
{
	size_t length = strlen(target);

	return strncmp(path, target, length) == 0 &&
	       (path[length] == '\0' || path[length] == '/' || path[length] == ' ');
}

static bool
concerns(int fd)
{
	char link[64];
	char path[PATH_MAX];
	ssize_t got;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	got = readlink(link, path, sizeof(path) - 1);
	if (got < 0)
		return false;
	path[got] = '\0';
	return is_target(path);
}

/* Take one away, if there is one; negative numbers are without end. */
static bool
take(_Atomic int32_t *number)
{
	int32_t left = atomic_load(number);

	while (left > 0 && !atomic_compare_exchange_weak(number, &left, left - 1))
		;
	return left != 0;
}

/* For a call that is concerned: is this the one? */
static bool
strike_now(void)
{
	if (take(&faults->skip) || !take(&faults->budget))
		return false;
	atomic_fetch_add(&faults->faults, 1);
	return true;
}

static bool
expected(int call)
{
	return faults != NULL && atomic_load(&faults->budget) != 0 &&
	       (atomic_load(&faults->calls) & call) != 0;
}

static bool
strike(int call, int fd)
{
	int saved_errno = errno;
	bool now = expected(call) && concerns(fd) && strike_now();

	errno = saved_errno;
	return now;
}

static bool
strike_at(int call, int fd, off_t offset)
{
	return expected(call) && offset >= atomic_load(&faults->from) &&
	       offset < atomic_load(&faults->to) && strike(call, fd);
}

static void
delay(int fd)
{
	int saved_errno = errno;
	int32_t us = faults == NULL ? 0 : atomic_load(&faults->delay_us);

	if (us > 0 && concerns(fd))
		usleep((useconds_t) us);
	errno = saved_errno;
}

static int
fail(void)
{
	errno = atomic_load(&faults->error);
	return -1;
}

/* ---- what goes wrong with bytes ------------------------------------------ */

static void *
scratch_of(size_t size)
{
	void *scratch = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (scratch == MAP_FAILED)
		abort();
	return scratch;
}

/*
 * What a torn write leaves: the first bytes new, the others as they were.  It
 * is written as a whole, so that O_DIRECT does not mind where it is torn.
 */
static void *
torn(int fd, const void *buffer, size_t size, off_t offset)
{
	char *scratch = scratch_of(size);
	size_t arrives = (size_t) atomic_load(&faults->amount);
	ssize_t old = real.pread(fd, scratch, size, offset);

	/* What was not there is zeros. */
	if (old >= 0)
		memset(scratch + old, 0, size - (size_t) old);
	memcpy(scratch, buffer, arrives < size ? arrives : size);
	return scratch;
}

static void
flip(void *buffer, size_t size)
{
	((unsigned char *) buffer)[size / 3] ^= 0x10;
}

static void
flip_vector(const struct iovec *iov, size_t size)
{
	size_t at = size / 3;

	for (; at >= iov->iov_len; iov++)
		at -= iov->iov_len;
	((unsigned char *) iov->iov_base)[at] ^= 0x10;
}

/* ---- calls --------------------------------------------------------------- */

static int
open_or_fail(const char *path, int flags, mode_t mode)
{
	ENSURE();
	if (expected(CALL_OPEN) && is_target(path) && strike_now())
		return fail();
	return real.open(path, flags, mode);
}

DEFINE_OPEN(open, open_or_fail)
DEFINE_OPEN(open64, open_or_fail)

ssize_t
pread(int fd, void *buffer, size_t size, off_t offset)
{
	ssize_t got;
	bool now;

	ENSURE();
	now = strike_at(CALL_READ, fd, offset);
	if (now && atomic_load(&faults->kind) == FAULT_FAIL)
		return fail();
	if (now && atomic_load(&faults->kind) == FAULT_SHORT)
		size /= 2;
	got = real.pread(fd, buffer, size, offset);
	if (now && got > 0 && atomic_load(&faults->kind) == FAULT_FLIP)
		flip(buffer, (size_t) got);
	delay(fd);
	return got;
}

static ssize_t
write_wrong(int fd, const void *buffer, size_t size, off_t offset)
{
	void *scratch;
	ssize_t put;

	switch (atomic_load(&faults->kind))
	{
		case FAULT_SHORT:
			return real.pwrite(fd, buffer, size / 2, offset);
		case FAULT_TEAR:
			scratch = torn(fd, buffer, size, offset);
			put = real.pwrite(fd, scratch, size, offset);
			munmap(scratch, size);
			return put;
		case FAULT_MISPLACE:
			return real.pwrite(fd, buffer, size,
			                   offset + atomic_load(&faults->amount));
		default:
			return fail();
	}
}

ssize_t
pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
	ENSURE();
	if (strike_at(CALL_WRITE, fd, offset))
		return write_wrong(fd, buffer, size, offset);
	delay(fd);
	return real.pwrite(fd, buffer, size, offset);
}

/*
 * Vectors fail or bring a wrong bit: slots are read and written in one piece.
 */
ssize_t
preadv(int fd, const struct iovec *iov, int count, off_t offset)
{
	ssize_t got;
	bool now;

	ENSURE();
	now = strike_at(CALL_READ, fd, offset);
	if (now && atomic_load(&faults->kind) != FAULT_FLIP)
		return fail();
	got = real.preadv(fd, iov, count, offset);
	if (now && got > 0)
		flip_vector(iov, (size_t) got);
	delay(fd);
	return got;
}

ssize_t
pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
	ENSURE();
	if (strike_at(CALL_WRITE, fd, offset))
		return fail();
	delay(fd);
	return real.pwritev(fd, iov, count, offset);
}

int
fsync(int fd)
{
	ENSURE();
	return strike(CALL_SYNC, fd) ? fail() : real.fsync(fd);
}

int
fdatasync(int fd)
{
	ENSURE();
	return strike(CALL_SYNC, fd) ? fail() : real.fdatasync(fd);
}

int
ftruncate(int fd, off_t length)
{
	ENSURE();
	return strike(CALL_TRUNCATE, fd) ? fail() : real.ftruncate(fd, length);
}

int
fallocate(int fd, int mode, off_t offset, off_t length)
{
	ENSURE();
	return strike(CALL_ALLOCATE, fd) ? fail()
	                                 : real.fallocate(fd, mode, offset, length);
}

/* This one answers with its error. */
int
posix_fallocate(int fd, off_t offset, off_t length)
{
	ENSURE();
	return strike(CALL_ALLOCATE, fd) ? atomic_load(&faults->error)
	                                 : real.posix_fallocate(fd, offset, length);
}

ssize_t pread64(int, void *, size_t, off64_t) __attribute__((alias("pread")));
ssize_t pwrite64(int, const void *, size_t, off64_t)
	__attribute__((alias("pwrite")));
ssize_t preadv64(int, const struct iovec *, int, off64_t)
	__attribute__((alias("preadv")));
ssize_t pwritev64(int, const struct iovec *, int, off64_t)
	__attribute__((alias("pwritev")));
int ftruncate64(int, off64_t) __attribute__((alias("ftruncate")));
int fallocate64(int, int, off64_t, off64_t) __attribute__((alias("fallocate")));
int posix_fallocate64(int, off64_t, off64_t)
	__attribute__((alias("posix_fallocate")));

/* ---- Linux AIO ----------------------------------------------------------- */

static Struck *
free_struck(void)
{
	for (int i = 0; i < STRUCK_MAX; i++)
		if (struck[i].owner != getpid())
			return &struck[i];
	/* A test that relies on faults must not run without them. */
	abort();
}

static void
release(Struck *one)
{
	if (one->scratch != NULL)
		munmap(one->scratch, one->scratch_size);
	*one = (Struck){ 0 };
}

/* Make the copy of a request such that it does what the fault says. */
static void
spoil(Struck *one)
{
	struct iocb *copy = &one->copy;
	bool writes = copy->aio_lio_opcode == IOCB_CMD_PWRITE;

	one->result = (int64_t) copy->aio_nbytes;
	one->scratch_size = copy->aio_nbytes;
	switch (one->kind)
	{
		case FAULT_FAIL:
			/* The device is kept busy with a read that nobody sees. */
			one->scratch = scratch_of(one->scratch_size);
			one->result = -atomic_load(&faults->error);
			copy->aio_lio_opcode = IOCB_CMD_PREAD;
			copy->aio_buf = (uint64_t) (uintptr_t) one->scratch;
			break;
		case FAULT_SHORT:
			copy->aio_nbytes /= 2;
			one->result = (int64_t) copy->aio_nbytes;
			break;
		case FAULT_TEAR:
			if (!writes)
				break;
			one->scratch = torn((int) copy->aio_fildes,
			                    (const void *) (uintptr_t) copy->aio_buf,
			                    one->scratch_size, (off_t) copy->aio_offset);
			copy->aio_buf = (uint64_t) (uintptr_t) one->scratch;
			break;
		case FAULT_MISPLACE:
			if (writes)
				copy->aio_offset += atomic_load(&faults->amount);
			break;
		case FAULT_FLIP:
			break;
	}
}

/*
 * Return what to pass to the kernel for this request: itself or a changed copy.
 */
static struct iocb *
request_for_kernel(struct iocb *request)
{
	bool writes = request->aio_lio_opcode == IOCB_CMD_PWRITE;
	Struck *one;

	if (!writes && request->aio_lio_opcode != IOCB_CMD_PREAD)
		return request;
	if (!strike_at(writes ? CALL_WRITE : CALL_READ, (int) request->aio_fildes,
	               request->aio_offset))
		return request;

	one = free_struck();
	one->owner = getpid();
	one->copy = *request;
	one->original = (uint64_t) (uintptr_t) request;
	one->kind = (Kind) atomic_load(&faults->kind);
	spoil(one);
	atomic_fetch_add(&faults->aio_faults, 1);
	return &one->copy;
}

static Struck *
struck_of(const struct iocb *request)
{
	uintptr_t at = (uintptr_t) request;

	if (at < (uintptr_t) struck || at >= (uintptr_t) (struck + STRUCK_MAX))
		return NULL;
	return &struck[(at - (uintptr_t) struck) / sizeof(Struck)];
}

static long
submit(long context, long count, struct iocb **requests)
{
	struct iocb *given[STRUCK_MAX];
	long accepted;
	int saved_errno;

	if (count > STRUCK_MAX)
		count = STRUCK_MAX;
	if (count > 0 && strike(CALL_SUBMIT, (int) requests[0]->aio_fildes))
		return fail();

	for (long i = 0; i < count; i++)
		given[i] = request_for_kernel(requests[i]);
	accepted = real.syscall(SYS_io_submit, context, count, given);

	/* A request that was not accepted is submitted again, and may fail then. */
	saved_errno = errno;
	for (long i = accepted < 0 ? 0 : accepted; i < count; i++)
	{
		Struck *one = struck_of(given[i]);

		if (one == NULL)
			continue;
		release(one);
		atomic_fetch_sub(&faults->faults, 1);
		atomic_fetch_sub(&faults->aio_faults, 1);
		if (atomic_load(&faults->budget) >= 0)
			atomic_fetch_add(&faults->budget, 1);
	}
	errno = saved_errno;
	return accepted;
}

static void
answer(struct io_event *event)
{
	Struck *one = struck_of((const struct iocb *) (uintptr_t) event->obj);

	if (one == NULL)
		return;
	if (event->res >= 0)
	{
		event->res = one->result;
		if (one->kind == FAULT_FLIP)
			flip((void *) (uintptr_t) one->copy.aio_buf, one->copy.aio_nbytes);
	}
	event->obj = one->original;
	release(one);
}

long
syscall(long number, ...)
{
	va_list arguments;
	long argument[6];
	long result;

	ENSURE();
	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		argument[i] = va_arg(arguments, long);
	va_end(arguments);

	if (number == SYS_io_setup && faults != NULL &&
	    atomic_load(&faults->no_aio) != 0)
	{
		errno = ENOSYS;
		return -1;
	}
	if (number == SYS_io_submit && faults != NULL)
		return submit(argument[0], argument[1], (struct iocb **) argument[2]);

	result = real.syscall(number, argument[0], argument[1], argument[2],
	                      argument[3], argument[4], argument[5]);
	if (number == SYS_io_getevents || number == SYS_io_pgetevents)
		for (long i = 0; i < result; i++)
			answer(&((struct io_event *) argument[3])[i]);
	return result;
}
