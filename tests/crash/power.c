/*
 * power.c
 *		What a power cut needs to know: a library to preload.
 *
 * A power cut loses any part of what was written and not yet synced.  To
 * simulate one, the former content of the files must be known: each write of a
 * watched file is preceded by a record with the bytes that it overwrites, and
 * with the size and the change time that its inode had.  After kill -9 of all
 * processes tests/support/power.py puts a random part of them back.
 *
 *	POWER_FOLDER	where the records go; on the file system of what is watched
 *	POWER_PATHS		what is watched: folders, separated by colons
 *
 * POWER_FOLDER holds
 *	sequence	a number that counts all records of all processes
 *	log.<pid>	the records of one process, so that only its end can be torn
 *	kept/<n>	links to removed files, so that no inode number is used again
 *	boot_id		read instead of the kernel's, if it exists
 *	ctimes		change times that fstat() and stat() report in place of the
 *				real ones, which no call can set: those of files that have not
 *				been changed since
 *
 * A sync takes its number before it begins and records it when it has
 * succeeded: what that file was written before is safe then.  Every call asks
 * the kernel which file is meant; buffers are on the stack, since a signal
 * handler may interrupt a call and write itself.  Writes by stdio are not seen
 * and count as safe.  So is a file's name, once the file was synced.
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload.h"

#define CHUNK         16384
#define MAGIC         0x52574f50U
#define BOOT_ID       "/proc/sys/kernel/random/boot_id"
#define CTIMES_MAX    4096
#define NS_PER_SECOND 1000000000LL

enum
{
	RECORD_WRITE = 1, /* data: what stood there, as far as the file went */
	RECORD_SIZE = 2,
	RECORD_SYNC = 3,
	RECORD_CREATE = 4,  /* data: the path */
	RECORD_UNLINK = 5,  /* data: the path; sequence names it in kept/ */
	RECORD_SYNC_ALL = 6 /* of a device */
};

/* The same in power.py. */
typedef struct Record
{
	uint32_t magic;
	uint32_t kind;
	uint64_t sequence;
	uint64_t device;
	uint64_t inode;
	int64_t offset;
	int64_t length;
	int64_t size_before;
	int64_t changed_ns_before;
	uint64_t data_size;
} Record;

typedef struct ChangeTime
{
	uint64_t device;
	uint64_t inode;
	int64_t real_ns;
	int64_t reported_ns;
} ChangeTime;

static const char *folder;
static char watched[4][PATH_MAX];
static int watched_count;
static _Atomic uint64_t *sequence;
static ChangeTime change_time[CTIMES_MAX];
static int change_time_count;

static int log_fd = -1;
static pid_t log_owner;

static struct
{
	int (*open)(const char *, int, ...);
	FILE *(*fopen)(const char *, const char *);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*writev)(int, const struct iovec *, int);
	ssize_t (*pwrite)(int, const void *, size_t, off_t);
	ssize_t (*pwritev)(int, const struct iovec *, int, off_t);
	ssize_t (*copy_file_range)(int, off_t *, int, off_t *, size_t, unsigned);
	int (*ftruncate)(int, off_t);
	int (*truncate)(const char *, off_t);
	int (*fallocate)(int, int, off_t, off_t);
	int (*posix_fallocate)(int, off_t, off_t);
	int (*fsync)(int);
	int (*fdatasync)(int);
	int (*syncfs)(int);
	int (*unlink)(const char *);
	int (*rename)(const char *, const char *);
	int (*fstat)(int, struct stat *);
	int (*stat)(const char *, struct stat *);
	long (*syscall)(long, ...);
} real;

static void
find_real_calls(void)
{
	FIND(open);
	FIND(fopen);
	FIND(write);
	FIND(writev);
	FIND(pwrite);
	FIND(pwritev);
	FIND(copy_file_range);
	FIND(ftruncate);
	FIND(truncate);
	FIND(fallocate);
	FIND(posix_fallocate);
	FIND(fsync);
	FIND(fdatasync);
	FIND(syncfs);
	FIND(unlink);
	FIND(rename);
	FIND(fstat);
	FIND(stat);
	FIND(syscall);
}

/* A test that relies on lost writes must not run without them. */
static void
give_up(const char *what)
{
	perror(what);
	_exit(1);
}

static void
join(char *path, const char *name)
{
	if (snprintf(path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
		give_up("power.so: path");
}

static void
read_change_times(void)
{
	char path[PATH_MAX];
	int fd;
	ssize_t got;

	join(path, "ctimes");
	fd = real.open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	got = read(fd, change_time, sizeof(change_time));
	close(fd);
	if (got > 0)
		change_time_count = (int) ((size_t) got / sizeof(ChangeTime));
}

__attribute__((constructor)) static void
begin(void)
{
	const char *paths = getenv("POWER_PATHS");
	char path[PATH_MAX];
	int fd;

	ENSURE();
	if (getenv("POWER_FOLDER") == NULL || paths == NULL)
		return;
	/* A server overwrites its environment with its title. */
	folder = strdup(getenv("POWER_FOLDER"));
	while (*paths != '\0' && watched_count < 4)
	{
		size_t length = strcspn(paths, ":");

		if (length >= PATH_MAX)
			give_up("power.so: POWER_PATHS");
		memcpy(watched[watched_count++], paths, length);
		paths += length + (paths[length] == ':');
	}
	join(path, "sequence");
	fd = real.open(path, O_RDWR | O_CLOEXEC);
	sequence = fd < 0 ? MAP_FAILED
	                  : mmap(NULL, sizeof(*sequence), PROT_READ | PROT_WRITE,
	                         MAP_SHARED, fd, 0);
	if (sequence == MAP_FAILED)
		give_up("power.so: could not map the sequence");
	close(fd);
	read_change_times();
}

/* ---- which file is it? --------------------------------------------------- */

static bool
is_watched(const char *path)
{
	for (int i = 0; i < watched_count; i++)
	{
		size_t length = strlen(watched[i]);

		if (strncmp(path, watched[i], length) == 0 && path[length] == '/')
			return true;
	}
	return false;
}

/* Is this a watched file?  Then its path and its state. */
static bool
identify(int fd, char *path, struct stat *status)
{
	char link[64];
	ssize_t got;

	if (watched_count == 0)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	got = readlink(link, path, PATH_MAX - 1);
	if (got < 0)
		return false;
	path[got] = '\0';
	return is_watched(path) && real.fstat(fd, status) == 0 &&
	       S_ISREG(status->st_mode);
}

/* The change time of its inode that the server shall see. */
static int64_t
changed_ns(const struct stat *status)
{
	int64_t real_ns =
		status->st_ctim.tv_sec * NS_PER_SECOND + status->st_ctim.tv_nsec;

	for (int i = 0; i < change_time_count; i++)
	{
		const ChangeTime *one = &change_time[i];

		if (one->inode == status->st_ino && one->device == status->st_dev &&
		    one->real_ns == real_ns)
			return one->reported_ns;
	}
	return real_ns;
}

/* ---- records ------------------------------------------------------------- */

static void
append(Record *record, const void *data)
{
	struct iovec part[2] = { { record, sizeof(*record) },
		                     { (void *) data, record->data_size } };
	char path[PATH_MAX], name[32];

	if (log_owner != getpid())
	{
		snprintf(name, sizeof(name), "log.%d", (int) getpid());
		join(path, name);
		if (log_fd >= 0)
			close(log_fd);
		log_fd =
			real.open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		log_owner = getpid();
		if (log_fd < 0)
			give_up("power.so: could not open the log");
	}
	record->magic = MAGIC;
	if (real.writev(log_fd, part, record->data_size > 0 ? 2 : 1) < 0)
		give_up("power.so: could not write the log");
}

static Record
record_of(uint32_t kind, const struct stat *status)
{
	return (Record){ .kind = kind,
		             .sequence = atomic_fetch_add(sequence, 1),
		             .device = status->st_dev,
		             .inode = status->st_ino,
		             .size_before = status->st_size,
		             .changed_ns_before = changed_ns(status) };
}

/* Read the present content, however the file was opened. */
static ssize_t
read_before(int fd, void *buffer, size_t size, off_t offset)
{
	char link[64];
	ssize_t got = real.syscall(SYS_pread64, fd, buffer, size, offset);
	int again;

	if (got >= 0)
		return got;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	again = real.open(link, O_RDONLY | O_CLOEXEC);
	if (again < 0)
		give_up("power.so: could not open a file again");
	got = real.syscall(SYS_pread64, again, buffer, size, offset);
	close(again);
	if (got < 0)
		give_up("power.so: could not read what stood there");
	return got;
}

static void
record_range(int fd, const struct stat *status, off_t offset, off_t length)
{
	_Alignas(4096) char before[CHUNK];

	while (length > 0)
	{
		Record record = record_of(RECORD_WRITE, status);

		record.offset = offset;
		record.length = length < CHUNK ? length : CHUNK;
		if (offset < status->st_size)
			record.data_size = (uint64_t) read_before(
				fd, before, (size_t) record.length, offset);
		append(&record, before);
		offset += record.length;
		length -= record.length;
	}
}

/* This range is about to be written. */
static void
will_write(int fd, off_t offset, off_t length)
{
	int saved_errno = errno;
	char path[PATH_MAX];
	struct stat status;

	if (identify(fd, path, &status))
		record_range(fd, &status, offset, length);
	errno = saved_errno;
}

/* The file is about to have this size. */
static void
will_resize(int fd, off_t size)
{
	int saved_errno = errno;
	char path[PATH_MAX];
	struct stat status;

	if (identify(fd, path, &status))
	{
		Record record = record_of(RECORD_SIZE, &status);

		if (size < status.st_size)
			record_range(fd, &status, size, status.st_size - size);
		append(&record, NULL);
	}
	errno = saved_errno;
}

static int
synced(int fd, int (*sync)(int))
{
	char path[PATH_MAX];
	struct stat status;
	bool ours = identify(fd, path, &status);
	Record record;
	int result;

	if (!ours)
		return sync(fd);
	record = record_of(RECORD_SYNC, &status);
	result = sync(fd);
	if (result == 0)
		append(&record, NULL);
	return result;
}

/* ---- names --------------------------------------------------------------- */

/* This name is about to be removed from its file. */
static void
will_lose_name(const char *name)
{
	int saved_errno = errno;
	int fd = real.open(name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char path[PATH_MAX], kept[PATH_MAX], number[32];
	struct stat status;

	if (fd >= 0 && identify(fd, path, &status))
	{
		Record record = record_of(RECORD_UNLINK, &status);

		snprintf(number, sizeof(number), "kept/%llu",
		         (unsigned long long) record.sequence);
		join(kept, number);
		if (link(path, kept) != 0)
			give_up("power.so: could not keep a file");
		record.data_size = strlen(path);
		append(&record, path);
	}
	if (fd >= 0)
		close(fd);
	errno = saved_errno;
}

static int
created(int fd, bool existed)
{
	int saved_errno = errno;
	char path[PATH_MAX];
	struct stat status;

	if (fd >= 0 && !existed && identify(fd, path, &status))
	{
		Record record = record_of(RECORD_CREATE, &status);

		record.data_size = strlen(path);
		append(&record, path);
	}
	errno = saved_errno;
	return fd;
}

/* The kernel's boot id, or the one that a test has put in its place. */
static const char *
redirected(const char *path, char *instead)
{
	if (folder == NULL || strcmp(path, BOOT_ID) != 0)
		return path;
	join(instead, "boot_id");
	return access(instead, R_OK) == 0 ? instead : path;
}

/* The file of this name, if there is one, is about to have this size. */
static void
will_resize_named(const char *path, off_t size)
{
	int saved_errno = errno;
	int fd = real.open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
	{
		will_resize(fd, size);
		close(fd);
	}
	errno = saved_errno;
}

static int
open_noted(const char *path, int flags, mode_t mode)
{
	char instead[PATH_MAX];
	bool existed;

	ENSURE();
	if (watched_count == 0)
		return real.open(path, flags, mode);
	if ((flags & O_TRUNC) != 0)
		will_resize_named(path, 0);
	if ((flags & O_CREAT) == 0)
		return real.open(redirected(path, instead), flags, mode);
	existed = access(path, F_OK) == 0;
	return created(real.open(path, flags, mode), existed);
}

DEFINE_OPEN(open, open_noted)
DEFINE_OPEN(open64, open_noted)

FILE *
fopen(const char *path, const char *mode)
{
	char instead[PATH_MAX];

	ENSURE();
	return real.fopen(redirected(path, instead), mode);
}

int
unlink(const char *path)
{
	ENSURE();
	will_lose_name(path);
	return real.unlink(path);
}

int
rename(const char *from, const char *to)
{
	ENSURE();
	will_lose_name(to);
	return real.rename(from, to);
}

/* ---- changes ------------------------------------------------------------- */

static off_t
position(int fd)
{
	struct stat status;

	if ((fcntl(fd, F_GETFL) & O_APPEND) != 0 && real.fstat(fd, &status) == 0)
		return status.st_size;
	return lseek(fd, 0, SEEK_CUR);
}

static off_t
total(const struct iovec *iov, int count)
{
	off_t bytes = 0;

	for (int i = 0; i < count; i++)
		bytes += (off_t) iov[i].iov_len;
	return bytes;
}

ssize_t
write(int fd, const void *buffer, size_t size)
{
	ENSURE();
	if (watched_count > 0)
		will_write(fd, position(fd), (off_t) size);
	return real.write(fd, buffer, size);
}

ssize_t
writev(int fd, const struct iovec *iov, int count)
{
	ENSURE();
	if (watched_count > 0)
		will_write(fd, position(fd), total(iov, count));
	return real.writev(fd, iov, count);
}

ssize_t
pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
	ENSURE();
	will_write(fd, offset, (off_t) size);
	return real.pwrite(fd, buffer, size, offset);
}

ssize_t
pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
	ENSURE();
	will_write(fd, offset, total(iov, count));
	return real.pwritev(fd, iov, count, offset);
}

ssize_t
copy_file_range(int in, off_t *offset_in, int out, off_t *offset_out,
                size_t size, unsigned flags)
{
	ENSURE();
	will_write(out, offset_out != NULL ? *offset_out : position(out),
	           (off_t) size);
	return real.copy_file_range(in, offset_in, out, offset_out, size, flags);
}

int
ftruncate(int fd, off_t size)
{
	ENSURE();
	will_resize(fd, size);
	return real.ftruncate(fd, size);
}

int
truncate(const char *path, off_t size)
{
	ENSURE();
	if (watched_count > 0)
		will_resize_named(path, size);
	return real.truncate(path, size);
}

/* Holes that are punched are changes, too. */
int
fallocate(int fd, int mode, off_t offset, off_t length)
{
	ENSURE();
	if (mode != 0)
		will_write(fd, offset, length);
	will_resize(fd, LLONG_MAX);
	return real.fallocate(fd, mode, offset, length);
}

int
posix_fallocate(int fd, off_t offset, off_t length)
{
	ENSURE();
	will_resize(fd, LLONG_MAX);
	return real.posix_fallocate(fd, offset, length);
}

int
fsync(int fd)
{
	ENSURE();
	return synced(fd, real.fsync);
}

int
fdatasync(int fd)
{
	ENSURE();
	return synced(fd, real.fdatasync);
}

int
syncfs(int fd)
{
	struct stat status;
	Record record;
	int result;

	ENSURE();
	if (watched_count == 0 || real.fstat(fd, &status) != 0)
		return real.syncfs(fd);
	record = record_of(RECORD_SYNC_ALL, &status);
	result = real.syncfs(fd);
	if (result == 0)
		append(&record, NULL);
	return result;
}

ssize_t pwrite64(int, const void *, size_t, off64_t)
	__attribute__((alias("pwrite")));
ssize_t pwritev64(int, const struct iovec *, int, off64_t)
	__attribute__((alias("pwritev")));
int ftruncate64(int, off64_t) __attribute__((alias("ftruncate")));
int truncate64(const char *, off64_t) __attribute__((alias("truncate")));
int fallocate64(int, int, off64_t, off64_t) __attribute__((alias("fallocate")));
int posix_fallocate64(int, off64_t, off64_t)
	__attribute__((alias("posix_fallocate")));
FILE *fopen64(const char *, const char *) __attribute__((alias("fopen")));

/* ---- change times -------------------------------------------------------- */

static int
report(int result, struct stat *status)
{
	if (result == 0)
	{
		int64_t ns = changed_ns(status);

		status->st_ctim.tv_sec = ns / NS_PER_SECOND;
		status->st_ctim.tv_nsec = ns % NS_PER_SECOND;
	}
	return result;
}

int
fstat(int fd, struct stat *status)
{
	ENSURE();
	return report(real.fstat(fd, status), status);
}

int
stat(const char *path, struct stat *status)
{
	ENSURE();
	return report(real.stat(path, status), status);
}

int fstat64(int, struct stat64 *) __attribute__((alias("fstat")));
int stat64(const char *, struct stat64 *) __attribute__((alias("stat")));

/* ---- Linux AIO ----------------------------------------------------------- */

static void
will_submit(long count, struct iocb **requests)
{
	for (long i = 0; i < count; i++)
	{
		const struct iocb *request = requests[i];
		const void *buffer = (const void *) (uintptr_t) request->aio_buf;

		if (request->aio_lio_opcode == IOCB_CMD_PWRITE)
			will_write((int) request->aio_fildes, request->aio_offset,
			           (off_t) request->aio_nbytes);
		if (request->aio_lio_opcode == IOCB_CMD_PWRITEV)
			will_write((int) request->aio_fildes, request->aio_offset,
			           total(buffer, (int) request->aio_nbytes));
	}
}

long
syscall(long number, ...)
{
	va_list arguments;
	long argument[6];

	ENSURE();
	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		argument[i] = va_arg(arguments, long);
	va_end(arguments);
	if (number == SYS_io_submit && watched_count > 0)
		will_submit(argument[1], (struct iocb **) argument[2]);
	return real.syscall(number, argument[0], argument[1], argument[2],
	                    argument[3], argument[4], argument[5]);
}
