/*
 * device_file.c
 *		Opening a cache file safely, locking it, and reserving its space.
 *
 * "Safely" means above all: never destroy a file that is not ours.  A file that
 * is not empty and does not begin with our superblock is refused and left
 * untouched.  So is anything that is not a plain file, or belongs to another
 * user.
 *
 * There is one server per cache file: flock() belongs to the open file, which
 * all children of the server share.  After a crash the last of them may take a
 * moment to die, so the lock is tried for a while.
 *
 * The space is reserved at once (posix_fallocate), so that a full file system
 * is noticed at the start and not by a fill.  O_DIRECT is set with fcntl()
 * after the superblock is written; it belongs to the open file, so it is on, or
 * off, for all processes alike.  So is O_NOATIME: otherwise a read would begin
 * with a change of the inode, which may have to wait for the journal on the
 * same device.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "fcache/assert.h"
#include "fcache/cache.h"
#include "fcache/device.h"
#include "fcache/replacement.h"
#include "ondisk.h"
#include "superblock.h"

#define LOCK_RETRY_MS 20

/*
 * Cutting off a piece takes longer the more extents it has, and scattered
 * blocks make many: 8 GB at once took seconds.  So the size of a piece is
 * chosen such that cutting it takes a few milliseconds, and reads proceed in
 * between.
 */
#define CUT_FIRST    (1 << 20)
#define CUT_MIN      (8 * FC_BLOCK_SIZE)
#define CUT_MAX      (1 << 28)
#define CUT_SHORT_NS 1000000
#define CUT_LONG_NS  4000000
#define CUT_PAUSE_NS 1000000

/* The kernel's requirements for a transfer past its page cache. */
static inline bool
is_aligned(const FcDevice *device, const void *buffer, size_t size,
           off_t offset)
{
	return !device->direct ||
	       ((uintptr_t) buffer % FC_IO_ALIGN == 0 && size % FC_IO_ALIGN == 0 &&
	        offset % FC_IO_ALIGN == 0);
}

static ssize_t
file_read(FcDevice *device, void *buffer, size_t size, off_t offset)
{
	FC_ASSERT(is_aligned(device, buffer, size, offset));
	return pread(device->fd, buffer, size, offset);
}

static ssize_t
file_write(FcDevice *device, const void *buffer, size_t size, off_t offset)
{
	FC_ASSERT(is_aligned(device, buffer, size, offset));
	return pwrite(device->fd, buffer, size, offset);
}

static void
file_close(FcDevice *device)
{
	if (device->fd >= 0)
		close(device->fd);
	device->fd = -1;
}

static const FcDeviceOps file_ops = { .read = file_read,
	                                  .write = file_write,
	                                  .close = file_close };

static FcDeviceProblem
lock_file(int fd, unsigned wait_ms)
{
	struct timespec pause = { .tv_nsec = LOCK_RETRY_MS * 1000000L };

	for (unsigned waited = 0;; waited += LOCK_RETRY_MS)
	{
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return FC_DEVICE_FINE;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return FC_DEVICE_CANNOT_OPEN;
		if (waited >= wait_ms)
			return FC_DEVICE_IN_USE;
		nanosleep(&pause, NULL);
	}
}

/* Is it a plain file of ours: empty, or beginning with our superblock? */
static FcDeviceProblem
inspect(int fd, struct stat *st)
{
	FcDiskSuperblock superblock;

	if (fstat(fd, st) != 0)
		return FC_DEVICE_CANNOT_OPEN;
	if (!S_ISREG(st->st_mode))
		return FC_DEVICE_NOT_A_FILE;
	if (st->st_uid != geteuid())
		return FC_DEVICE_WRONG_OWNER;
	if (st->st_size == 0)
		return FC_DEVICE_FINE;
	if (pread(fd, &superblock, sizeof(superblock), 0) !=
	        (ssize_t) sizeof(superblock) ||
	    superblock.magic != FC_DISK_MAGIC)
		return FC_DEVICE_FOREIGN;
	return FC_DEVICE_FINE;
}

/*
 * Does the file have its space already?  To check, the file system would need a
 * second for a million extents, and scattered blocks make that many.  So its
 * blocks are counted instead.  The count includes the file system's own, so a
 * small hole may go unnoticed; a write there can fail like any other.
 */
static bool
is_reserved(const struct stat *st, off_t size)
{
	return st->st_size >= size && (off_t) st->st_blocks * 512 >= st->st_size;
}

/* Reserve space from this offset on: what lies before it has space. */
static FcDeviceProblem
reserve(int fd, const struct stat *st, uint32_t slot_count, bool has_map,
        off_t from)
{
	off_t size = FC_SLOTS_OFFSET + (off_t) slot_count * FC_BLOCK_SIZE;
	int error;

	FC_ASSERT(slot_count >= FC_WAYS && from >= 0);

	/* A map lies after the slots. */
	if (st->st_size > size && !has_map && ftruncate(fd, size) != 0)
		return FC_DEVICE_CANNOT_WRITE;
	if (is_reserved(st, size) || from >= size)
		return FC_DEVICE_FINE;

	do
		error = posix_fallocate(fd, from, size - from);
	while (error == EINTR);
	if (error == 0)
		return FC_DEVICE_FINE;

	/* Give back what was reserved: a full file system is bad enough. */
	if (ftruncate(fd, st->st_size < size ? st->st_size : size) != 0)
		error = errno;
	errno = error;
	return error == ENOSPC || error == EDQUOT || error == EFBIG
	           ? FC_DEVICE_NO_SPACE
	           : FC_DEVICE_CANNOT_WRITE;
}

static FcDeviceProblem
prepare(int fd, uint32_t slot_count, unsigned lock_wait_ms, FcLabel *found)
{
	FcLabel fresh = { .slot_count = slot_count };
	struct stat st;
	FcDeviceProblem problem = inspect(fd, &st);

	if (problem == FC_DEVICE_FINE)
		problem = lock_file(fd, lock_wait_ms);
	if (problem == FC_DEVICE_FINE)
		problem = inspect(fd, &st); /* again, now that we hold the lock */
	if (problem == FC_DEVICE_FINE && fchmod(fd, 0600) != 0)
		problem = FC_DEVICE_CANNOT_WRITE;
	if (problem == FC_DEVICE_FINE)
		fc_superblock_read(fd, found);
	/*
	 * The superblock is written and synced first.  So a kill while space is
	 * reserved, or a power cut at any time, leaves a file that is recognized as
	 * ours.
	 */
	if (problem == FC_DEVICE_FINE && !fc_superblock_write(fd, &fresh))
		problem = errno == ENOSPC ? FC_DEVICE_NO_SPACE : FC_DEVICE_CANNOT_WRITE;
	if (problem == FC_DEVICE_FINE)
		problem = reserve(fd, &st, slot_count,
		                  found->clean && found->slot_count == slot_count, 0);
	return problem;
}

static bool
is_in_memory(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

FcDeviceProblem
fc_device_file_open(FcDevice *device, const char *path, uint32_t slot_count,
                    unsigned lock_wait_ms)
{
	*device = (FcDevice){ .ops = &file_ops, .fd = -1 };
	if (slot_count < FC_WAYS)
		return FC_DEVICE_TOO_SMALL;

	/*
	 * O_NONBLOCK: a named pipe must not block us; for a plain file it has no
	 * effect.
	 */
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);

	if (fd < 0)
		return errno == EISDIR || errno == ENXIO ? FC_DEVICE_NOT_A_FILE
		                                         : FC_DEVICE_CANNOT_OPEN;

	FcDeviceProblem problem =
		prepare(fd, slot_count, lock_wait_ms, &device->label);

	if (problem != FC_DEVICE_FINE)
	{
		int saved_errno = errno;

		close(fd);
		errno = saved_errno;
		return problem;
	}
	device->fd = fd;

	/*
	 * A file system refuses all flags together if it does not know one of them.
	 */
	int flags = fcntl(fd, F_SETFL, O_NOATIME) == 0 ? O_NOATIME : 0;

	device->direct = fcntl(fd, F_SETFL, flags | O_DIRECT) == 0;
	device->in_memory = is_in_memory(fd);
	return FC_DEVICE_FINE;
}

uint32_t
fc_device_file_slots(const FcDevice *device)
{
	struct stat st;

	FC_ASSERT(device->fd >= 0);
	if (fstat(device->fd, &st) != 0 || st.st_size < FC_SLOTS_OFFSET)
		return 0;
	return (uint32_t) ((st.st_size - FC_SLOTS_OFFSET) / FC_BLOCK_SIZE);
}

FcDeviceProblem
fc_device_file_resize(const FcDevice *device, uint32_t slot_count)
{
	struct stat st;

	FC_ASSERT(device->fd >= 0);
	if (fstat(device->fd, &st) != 0)
		return FC_DEVICE_CANNOT_WRITE;
	/* Only from its present end: checking all of a file in use takes long. */
	return reserve(device->fd, &st, slot_count, false, st.st_size);
}

FcDeviceProblem
fc_device_file_cut(const FcDevice *device, uint32_t slot_count,
                   uint64_t time_ns, bool *more_out)
{
	off_t end = FC_SLOTS_OFFSET + (off_t) slot_count * FC_BLOCK_SIZE;
	off_t piece = CUT_FIRST;
	uint64_t begin = fc_clock_ns();
	struct stat st;

	FC_ASSERT(device->fd >= 0 && slot_count >= FC_WAYS);
	*more_out = false;
	if (fstat(device->fd, &st) != 0)
		return FC_DEVICE_CANNOT_WRITE;
	for (uint64_t now = begin; st.st_size > end && !*more_out;)
	{
		struct timespec pause = { .tv_nsec = CUT_PAUSE_NS };
		uint64_t start = now;

		st.st_size = st.st_size - end > piece ? st.st_size - piece : end;
		if (ftruncate(device->fd, st.st_size) != 0)
			return FC_DEVICE_CANNOT_WRITE;
		now = fc_clock_ns();
		if (now - start > CUT_LONG_NS)
			piece = piece / 2 > CUT_MIN ? piece / 2 : CUT_MIN;
		else if (now - start < CUT_SHORT_NS && piece < CUT_MAX)
			piece *= 2;
		*more_out = st.st_size > end && now - begin > time_ns;
		nanosleep(&pause, NULL);
		now = fc_clock_ns();
	}
	return FC_DEVICE_FINE;
}
