/*
 * faults.h
 *		Between the hooks and the kernel: calls that fail, and processes that
 *		act during a call.
 *
 * A test that includes this defines the calls that the hooks make.  The next
 * call of a name can be made to fail, to be short, and to let something happen
 * just before or just after the kernel has done it, as another process may at
 * that moment.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FAULTS_H
#define FAULTS_H

#include "stage.h"

#include <dlfcn.h>
#include <sys/vfs.h>

#define BLOCKS 8

/* ---- the calls ----------------------------------------------------------- */

/* The fault of the next call of this name. */
typedef struct Fault
{
	const char *name; /* NULL: nothing */
	int fd;           /* of this descriptor; -1: of any */
	int error;
	size_t at_most;    /* bytes; 0: as many as are asked for */
	bool other_device; /* as if the file were on another one */
	void (*before)(void);
	void (*after)(void);
} Fault;

static Fault fault;

/* The fault of this call, if there is one; it is used up then. */
static Fault
fault_of(const char *name, int fd)
{
	Fault met = { .name = NULL };

	if (fault.name != NULL && strcmp(fault.name, name) == 0 &&
	    (fault.fd < 0 || fault.fd == fd))
	{
		met = fault;
		fault.name = NULL;
	}
	if (met.before != NULL)
		met.before();
	return met;
}

static void
over(const Fault *met)
{
	int saved_errno = errno;

	if (met->after != NULL)
		met->after();
	errno = saved_errno;
}

static size_t
size_of(const Fault *met, size_t size)
{
	return met->at_most != 0 && met->at_most < size ? met->at_most : size;
}

#define REAL(name, type) ((type) dlsym(RTLD_NEXT, name))

typedef ssize_t (*ReadAt)(int, void *, size_t, off_t);
typedef ssize_t (*WriteAt)(int, const void *, size_t, off_t);
typedef ssize_t (*Vector)(int, const struct iovec *, int, off_t);
typedef ssize_t (*Write)(int, const void *, size_t);
typedef ssize_t (*Writev)(int, const struct iovec *, int);
typedef ssize_t (*Copy)(int, off_t *, int, off_t *, size_t, unsigned);
typedef ssize_t (*Link)(const char *, char *, size_t);
typedef int (*Cut)(int, off_t);
typedef int (*Range)(int, off_t, off_t, unsigned);
typedef int (*Ask)(const char *, struct stat *);
typedef int (*AskFd)(int, struct stat *);
typedef int (*AskSystem)(int, struct statfs *);
typedef int (*AskSystemOf)(const char *, struct statfs *);
typedef int (*OfFd)(int);
typedef int (*OfPath)(const char *);

ssize_t
pread(int fd, void *buffer, size_t size, off_t offset)
{
	Fault met = fault_of("pread", fd);
	ssize_t got =
		REAL("pread", ReadAt)(fd, buffer, size_of(&met, size), offset);

	over(&met);
	return got;
}

/* The first bytes of these buffers; returns their number. */
static int
first_bytes(const struct iovec *iov, int count, size_t size,
            struct iovec part[8])
{
	int used = 0;

	for (; used < count && used < 8 && size > 0; used++)
	{
		part[used] = iov[used];
		if (part[used].iov_len > size)
			part[used].iov_len = size;
		size -= part[used].iov_len;
	}
	return used;
}

ssize_t
preadv(int fd, const struct iovec *iov, int count, off_t offset)
{
	Fault met = fault_of("preadv", fd);
	struct iovec part[8];
	ssize_t got = -1;

	if (met.error != 0)
		errno = met.error;
	else if (met.at_most != 0)
		got = REAL("preadv", Vector)(
			fd, part, first_bytes(iov, count, met.at_most, part), offset);
	else
		got = REAL("preadv", Vector)(fd, iov, count, offset);
	over(&met);
	return got;
}

ssize_t
pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
	Fault met = fault_of("pwrite", fd);
	ssize_t put = -1;

	if (met.error == 0)
		put = REAL("pwrite", WriteAt)(fd, buffer, size_of(&met, size), offset);
	else
		errno = met.error;
	over(&met);
	return put;
}

int
fsync(int fd)
{
	Fault met = fault_of("fsync", fd);

	errno = met.error;
	return met.error != 0 ? -1 : REAL("fsync", OfFd)(fd);
}

int
syncfs(int fd)
{
	Fault met = fault_of("syncfs", fd);

	errno = met.error;
	return met.error != 0 ? -1 : 0;
}

int
unlink(const char *path)
{
	Fault met = fault_of("unlink", -1);
	int result = REAL("unlink", OfPath)(path);

	over(&met);
	return result;
}

int
remove(const char *path)
{
	Fault met = fault_of("remove", -1);
	int result = REAL("remove", OfPath)(path);

	over(&met);
	return result;
}

/* The result of a call that fails or is made. */
#define MEETS(met, call) ((met)->error == 0 ? (call) : refused(met))

static int
refused(const Fault *met)
{
	errno = met->error;
	return -1;
}

ssize_t
pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
	Fault met = fault_of("pwritev", fd);

	return MEETS(&met, REAL("pwritev", Vector)(fd, iov, count, offset));
}

ssize_t
write(int fd, const void *buffer, size_t size)
{
	Fault met = fault_of("write", fd);

	return MEETS(&met, REAL("write", Write)(fd, buffer, size));
}

ssize_t
writev(int fd, const struct iovec *iov, int count)
{
	Fault met = fault_of("writev", fd);

	return MEETS(&met, REAL("writev", Writev)(fd, iov, count));
}

ssize_t
copy_file_range(int in, off_t *in_offset, int out, off_t *out_offset,
                size_t size, unsigned flags)
{
	Fault met = fault_of("copy_file_range", out);

	return MEETS(&met, REAL("copy_file_range", Copy)(in, in_offset, out,
	                                                 out_offset, size, flags));
}

int
ftruncate(int fd, off_t length)
{
	Fault met = fault_of("ftruncate", fd);

	return MEETS(&met, REAL("ftruncate", Cut)(fd, length));
}

int
fdatasync(int fd)
{
	Fault met = fault_of("fdatasync", fd);

	return MEETS(&met, REAL("fdatasync", OfFd)(fd));
}

int
sync_file_range(int fd, off_t offset, off_t length, unsigned flags)
{
	Fault met = fault_of("sync_file_range", fd);

	return MEETS(&met,
	             REAL("sync_file_range", Range)(fd, offset, length, flags));
}

ssize_t
readlink(const char *path, char *buffer, size_t size)
{
	Fault met = fault_of("readlink", -1);

	return MEETS(&met, REAL("readlink", Link)(path, buffer, size));
}

/* The first to ask for a name's file. */
int
lstat(const char *path, struct stat *status)
{
	Fault met = fault_of("lstat", -1);
	int result = REAL("lstat", Ask)(path, status);

	if (met.other_device)
		status->st_dev++;
	over(&met);
	return result;
}

static unsigned fstat_calls;

int
fstat(int fd, struct stat *status)
{
	Fault met = fault_of("fstat", fd);
	int result = REAL("fstat", AskFd)(fd, status);

	fstat_calls++;

	over(&met);
	return result;
}

/* ---- a relation of blocks that differ ------------------------------------ */

/* Blocks of the letters from here on. */
static void
plant_letters(const char *path, int letter)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	for (int i = 0; i < BLOCKS; i++)
	{
		Page page = page_of(letter + i);

		if (pwrite(fd, &page, sizeof(page), (off_t) i * FC_BLOCK_SIZE) !=
		    FC_BLOCK_SIZE)
			abort();
	}
	close(fd);
}

/* A file of the blocks 'a' to 'h', the first so many of them cached. */
UNUSED static int
lettered_relation(uint32_t cached)
{
	Page page;
	int fd;

	unlink(PATH);
	fc_cache_clear(&runtime.cache);
	plant_letters(PATH, 'a');
	fd = server_open(PATH, O_RDWR);

	/* From the last to the first: no scan. */
	while (cached-- > 0)
	{
		if (server_read(fd, &page, cached) != FC_BLOCK_SIZE)
			abort();
	}
	return fd;
}

static bool
block_is_cached(uint32_t block)
{
	FcFile file = fc_file((FcFileId){ 1663, 5, 16384, 0, 0 });

	return fc_file_enter(&runtime.cache, &file) == FC_OK &&
	       fc_read_would_hit(&runtime.cache, &file, block);
}

UNUSED static bool
nothing_is_cached(void)
{
	for (uint32_t block = 0; block < BLOCKS; block++)
	{
		if (block_is_cached(block))
			return false;
	}
	return true;
}

/* Do reads of all blocks now give what the file holds? */
UNUSED static bool
all_true(int fd)
{
	for (uint32_t block = 0; block < BLOCKS; block++)
	{
		Page served = page_of('?');
		Page stored = page_of('?');
		ssize_t got = server_read(fd, &served, block);

		if (got != pread(fd, &stored, sizeof(stored),
		                 (off_t) block * FC_BLOCK_SIZE) ||
		    (got == FC_BLOCK_SIZE &&
		     memcmp(&served, &stored, sizeof(stored)) != 0))
			return false;
	}
	return true;
}

#endif
